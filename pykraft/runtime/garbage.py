"""Python's collector of cycles, kept from holding up a node.

Python frees an object when nothing refers to it any more; the collector only finds objects that refer to each other in
a circle. For that it visits every object of a generation. The oldest generation holds all that a node keeps, its
partitions, their logs and the metadata. At five thousand partitions a full collection takes a tenth of a second, in
which no request is answered, and finds next to nothing.

So what has survived a full collection is *frozen*: later ones do not visit it, and visit only what came since. A frozen
object is freed as ever when nothing refers to it. But a circle of frozen objects stays. So when there are twice as many
frozen objects as after the last review, the next full collection visits all of them: what may stay is bounded, and
that pause is as rare as the node has doubled. A large request is a hundred thousand objects for a second. So there must
be twice as many a minute later, too.

To count what is frozen takes tens of milliseconds as well. It is counted only when it may be twice as much: all that
was frozen since is added up, as if none of it had gone.

This is for a process that is a node and nothing else: `pykraft server`. It is ours; Java's collectors run beside the
program.
"""

import gc
import time
from collections.abc import Callable
from typing import Any

_OLDEST = 2
LEAST_REVIEWED = 100_000
"""With fewer frozen objects there is no review: twenty milliseconds."""
PERIOD_S = 60.0
"""Between two looks at how many objects are frozen."""


class Freezer:
    """Freezes what survives, from `begin` to `end`."""

    def __init__(self, least_reviewed: int = LEAST_REVIEWED, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._least_reviewed = least_reviewed
        self._clock_s = clock_s
        self._reviewed = 0
        """How many objects were frozen after the last review."""
        self._at_most = 0
        """How many are frozen now, at most."""
        self._is_review = True
        self._were_many = False
        """At the last look there were twice as many."""
        self._next_look_s = 0.0

    def begin(self) -> None:
        gc.callbacks.append(self._on_collection)

    def end(self) -> None:
        """Leave Python's collector as it was."""
        gc.callbacks.remove(self._on_collection)
        gc.unfreeze()

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if phase != "stop" or info["generation"] != _OLDEST:
            return
        self._at_most += len(gc.get_objects(generation=_OLDEST))
        gc.freeze()
        if self._is_review:
            self._reviewed = self._at_most = gc.get_freeze_count()
            self._is_review = self._were_many = False
        elif self._at_most > self._many and self._clock_s() >= self._next_look_s:
            self._look()

    @property
    def _many(self) -> int:
        """More frozen objects than this are reviewed."""
        return max(self._least_reviewed, 2 * self._reviewed)

    def _look(self) -> None:
        """Count what is frozen. The second time that it is too much, let the next collection visit it."""
        self._next_look_s = self._clock_s() + PERIOD_S
        self._at_most = gc.get_freeze_count()
        were_many, self._were_many = self._were_many, self._at_most > self._many
        if were_many and self._were_many:
            self._is_review = True
            gc.unfreeze()
