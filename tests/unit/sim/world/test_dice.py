"""Dice that are drawn while a history runs have the same seed on every machine."""

from __future__ import annotations

import sys
from random import Random

import pytest

from pykraft.sim.world.dice import next_dice


class Fixed(Random):
    """A generator whose draw is given."""

    def __init__(self, draw: float) -> None:
        super().__init__(0)
        self.draw = draw

    def random(self) -> float:
        return self.draw


@pytest.mark.parametrize(
    ("draw", "seed"),
    [
        (0.0, 0),
        (0.5, 1 << 60),
        (0.25, 1 << 59),
        (0.75, (1 << 60) + (1 << 59)),
        (2.0**-53, 1 << 8),
        (1 - 2.0**-53, (1 << 61) - (1 << 8)),
    ],
)
def test_the_seed_is_the_draw_modulo_a_prime(draw: float, seed: int) -> None:
    assert next_dice(Fixed(draw)).getrandbits(64) == Random(seed).getrandbits(64)


@pytest.mark.skipif(sys.hash_info.width != 64, reason="the rule is that of words with 64 bits")
def test_seeds_tell_the_histories_that_they_told_when_the_draw_itself_was_the_seed() -> None:
    for seed in range(100):
        assert next_dice(Random(seed)).random() == Random(Random(seed).random()).random()
