"""What befalls single messages in the weather: one is late, comes once more, or takes its connection down.

The network's dice fall for each message, and what they say of one is a *mishap*. A history may bring only the mishaps
that are named. The dice fall as before, nothing is done that they say, and the named ones come. So a mishap that is
left out does not move the others to other messages.

A message is named by its link and its number there: the 37th that node 2 has sent node 1. A request to connect counts
as one, and so does what is sent again when a cut link is mended. In a history from which something is left out, another
message may have this number. That history names the same message each time it is run, and a shrinker has run it.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

LATE, AGAIN, RESET, SILENT = "late", "again", "reset", "silent"
BREAKS = (RESET, SILENT)
"""Both ends of the connection hear that it is gone, or neither does."""
_NAMED = re.compile(r"(late|again|reset|silent)-([a-z][\w~-]*)-to-([a-z][\w~-]*)-(\d{1,7})-(\d{1,9})")
_Link = tuple[str, str]


class Mishap(NamedTuple):
    """What befalls one message."""

    kind: str
    source: str
    target: str
    number: int
    """The message: which one it is of those on its link."""
    us: int
    """By how much it is late, or after how long it comes once more; 0 where a connection breaks."""

    @property
    def word(self) -> str:
        """As a history's name has it; a dot in a client's name is written ``~``."""
        return f"{self.kind}-{self.source}-to-{self.target}-{self.number}-{self.us}".replace(".", "~")

    @classmethod
    def read(cls, word: str) -> "Mishap | None":
        """The mishap of such a word; None if it is none."""
        found = _NAMED.fullmatch(word.replace(".", "~"))
        if found is None:
            return None
        kind, source, target, number, us = found.groups()
        return cls(kind, source.replace("~", "."), target.replace("~", "."), int(number), int(us))

    def __str__(self) -> str:
        what = {
            LATE: f"is late by {self.us / 1_000:,g} ms",
            AGAIN: f"comes once more after {self.us / 1_000:,g} ms",
            RESET: "is lost, and its connection breaks",
            SILENT: "is lost, and its connection goes silent",
        }[self.kind]
        return f"message {self.number} from {self.source} to {self.target} {what}"


class Mishaps:
    """Counts the messages of each link, and says what befalls one."""

    def __init__(self) -> None:
        self.came: list[Mishap] = []
        """Those that came, in the order of time."""
        self.befell: dict[int, object] = {}
        """What was sent, by the place of its mishap among those that came; only where they are named."""
        self._only: dict[tuple[str, str, str, int], int] | None = None
        self._sent: dict[_Link, int] = {}

    def bring_only(self, named: Iterable[Mishap]) -> None:
        """From now on only these come, whatever the dice say."""
        self._only = {each[:4]: each.us for each in named}

    def note(self, sent: object) -> None:
        """What the last mishap befell, to tell of it later."""
        if self._only is not None:
            self.befell[len(self.came) - 1] = sent

    def count(self, link: _Link) -> None:
        """A message is sent on this link."""
        self._sent[link] = self._sent.get(link, 0) + 1

    def lateness_us(self, link: _Link, drawn_us: int) -> int:
        """By how much the message is late that was counted last on this link."""
        if not drawn_us and self._only is None:
            return 0
        late = self._falls(link, self._sent[link], (LATE,), (LATE, drawn_us) if drawn_us else None)
        return 0 if late is None else late.us

    def before_sending(self, link: _Link, kinds: tuple[str, ...], drawn: tuple[str, int] | None) -> Mishap | None:
        """What befalls the message that will be sent next on this link: one of these kinds, or nothing."""
        if drawn is None and self._only is None:
            return None
        return self._falls(link, self._sent.get(link, 0) + 1, kinds, drawn)

    def _falls(self, link: _Link, number: int, kinds: tuple[str, ...], drawn: tuple[str, int] | None) -> Mishap | None:
        if self._only is not None:
            named = ((kind, self._only.get((kind, *link, number))) for kind in kinds)
            drawn = next(((kind, us) for kind, us in named if us is not None), None)
        if drawn is None:
            return None
        mishap = Mishap(drawn[0], *link, number, drawn[1])
        self.came.append(mishap)
        return mishap
