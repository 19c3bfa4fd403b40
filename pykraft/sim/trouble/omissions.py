"""What of a seed's trouble is left out: kinds of it, single faults, clients, and the end of the storm.

The seed's dice fall as before, and what is left out is not done: the others stay as they are. A single fault has the
number under which the seed brings it. A history is named by its seed and by what is left out, in a few words::

    no-crash          no fault of this kind; weather and slow clocks are kinds, too
    no-7              not the seventh fault
    no-producer-1     not this client
    until-3000        the storm ends after this many milliseconds
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

_UNTIL = re.compile(r"until-(\d{1,6})")
_NO = re.compile(r"no-([a-z][a-z0-9_-]*|\d{1,6})")


@dataclass(frozen=True)
class Omissions:
    """What is left out. Nothing, unless it is named."""

    kinds: frozenset[str] = frozenset()
    faults: frozenset[int] = frozenset()
    clients: frozenset[str] = frozenset()
    until_ms: int | None = None

    def words(self) -> Iterator[str]:
        """As a history's name has them."""
        for name in (*sorted(self.kinds), *sorted(self.faults), *sorted(self.clients)):
            yield f"no-{name}"
        if self.until_ms is not None:
            yield f"until-{self.until_ms}"

    def with_word(self, word: str, kinds: Iterable[str]) -> "Omissions":
        """The same with one more; ValueError if it is none. `kinds` are those of trouble, other names are clients."""
        if (until := _UNTIL.fullmatch(word)) is not None:
            return replace(self, until_ms=int(until[1]))
        found = _NO.fullmatch(word)
        if found is None:
            raise ValueError(f"{word!r} leaves nothing out: one is no-KIND, no-NUMBER, no-CLIENT or until-MILLISECONDS")
        name = found[1]
        if name.isdigit():
            return replace(self, faults=self.faults | {int(name)})
        if name in kinds:
            return replace(self, kinds=self.kinds | {name})
        return replace(self, clients=self.clients | {name})


NOTHING = Omissions()
