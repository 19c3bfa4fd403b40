"""Dice for what comes into a history while it runs: a member, a transaction, an instance of a client.

Each gets a generator of its own, so that what one draws does not shift what the others draw. Its seed is an integer,
never what `hash` gives: ``Random(0.25)`` is seeded with ``hash(0.25)``, and that is another number where a word has 32
bits, as in WebAssembly. ``Random("a text")`` goes by a SHA-512 of the text, and is the same everywhere.
"""

from random import Random

_MODULUS = (1 << 61) - 1


def next_dice(random: Random) -> Random:
    """A generator whose seed is the next draw of `random`.

    The seed is the draw as a residue: numerator times the inverse of the denominator, modulo a prime. Python's manual
    defines the hash of a fraction on a 64-bit machine by this rule, so seeds tell the histories that they told when
    they were seeded with the fraction itself."""
    numerator, denominator = random.random().as_integer_ratio()
    seed = numerator * pow(denominator, -1, _MODULUS) % _MODULUS
    return Random(seed)
