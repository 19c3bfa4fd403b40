"""What of a seed's trouble is left out: kinds of it, single faults and messages, clients, and the end of the storm.

The seed's dice fall as before, and what is left out is not done: the others stay as they are. A single fault has the
number under which the seed brings it. A history is named by its seed and by what is left out, in a few words::

    no-crash          no fault of this kind; weather and slow clocks are kinds, too
    no-7              not the seventh fault
    no-producer-1     not this client; a dot in its name is written ``~``
    until-3000        the storm ends after this many milliseconds
    no-weather        no message is late, comes twice or is lost by the weather, but for those that are named:
    late-node-1-to-node-2-37-50233
                      message 37 on this link is late by this many microseconds (`pykraft.sim.world.mishaps`)

Of many messages that the weather treats badly a broken law needs few, so the line names those that are left.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pykraft.sim.world.mishaps import Mishap

_WEATHER = "no-weather"
_UNTIL = re.compile(r"until-(\d{1,6})")
_NO = re.compile(r"no-([a-z][a-z0-9_~-]*|\d{1,6})")


@dataclass(frozen=True)
class Omissions:
    """What is left out. Nothing, unless it is named."""

    kinds: frozenset[str] = frozenset()
    faults: frozenset[int] = frozenset()
    clients: frozenset[str] = frozenset()
    until_ms: int | None = None
    messages: frozenset[Mishap] | None = None
    """What befalls messages all the same, where the weather is left out; None where it is not."""

    def words(self) -> Iterator[str]:
        """As a history's name has them."""
        for name in (*sorted(self.kinds), *sorted(self.faults), *sorted(self.clients)):
            yield f"no-{name}".replace(".", "~")
        if self.until_ms is not None:
            yield f"until-{self.until_ms}"
        if self.messages is not None:
            yield from (_WEATHER, *(mishap.word for mishap in sorted(self.messages)))

    def with_word(self, word: str, kinds: Iterable[str]) -> "Omissions":
        """The same with one more; ValueError if it is none. `kinds` are those of trouble, other names are clients."""
        if (until := _UNTIL.fullmatch(word)) is not None:
            return replace(self, until_ms=int(until[1]))
        mishap = Mishap.read(word)
        if mishap is not None or word == _WEATHER:
            more = () if mishap is None else (mishap,)
            return replace(self, messages=(self.messages or frozenset()).union(more))
        found = _NO.fullmatch(word)
        if found is None:
            raise ValueError(
                f"{word!r} leaves nothing out: a word is no-KIND, no-NUMBER, no-CLIENT, until-MILLISECONDS, "
                f"{_WEATHER}, or a message such as late-node-1-to-node-2-37-50233"
            )
        name = found[1]
        if name.isdigit():
            return replace(self, faults=self.faults | {int(name)})
        if name in kinds:
            return replace(self, kinds=self.kinds | {name})
        return replace(self, clients=self.clients | {name.replace("~", ".")})


NOTHING = Omissions()
