"""What a node does from time to time for all its partitions, without holding up what clients ask.

At five thousand partitions a walk over all of them takes tens of milliseconds. So a chore is `Steps`: it yields after
each partition, and whether others come between there, the slice of time decides (`common.time_slice`). Its next slice
begins a millisecond later. What it walks over may change meanwhile: a chore asks of each partition again.

A chore that is still at it is not begun a second time: its pause counts from its end. If it fails it is begun again
after the same pause.

This is ours: Kafka gives such work to threads of its own (`KafkaScheduler`).
"""

from collections.abc import Callable
from types import GeneratorType
from typing import Any

from pykraft.common.core import Steps
from pykraft.common.time_slice import TimeSlice, take_steps
from pykraft.common.timer import Timer

Chore = Callable[[int], Steps[None] | object]
"""Called with the time; the steps that are to be taken, or anything else: then it is done."""
_PAUSE_MS = 1


class Chores:
    """The chores of one node."""

    def __init__(self, timer: Timer, time_slice: TimeSlice) -> None:
        self._timer = timer
        self.time_slice = time_slice

    def every(self, interval_ms: int, chore: Chore, now: int, first_after_ms: int | None = None) -> None:
        """Do this from now on, with this pause between."""

        def begin(then: int) -> None:
            self._do(chore, None, then, lambda ended: self._timer.at(ended + interval_ms, begin))

        self._timer.at(now + (interval_ms if first_after_ms is None else first_after_ms), begin)

    def _do(self, chore: Chore, steps: Steps[None] | None, now: int, on_end: Callable[[int], object]) -> None:
        """Begin a chore, or go on with its steps, for a slice."""
        goes_on = False
        self.time_slice.begin()
        try:
            found: Any = chore(now) if steps is None else steps
            if type(found) is GeneratorType:
                is_done, _ = take_steps(found, None if steps is None else now, self.time_slice, now)
                goes_on = not is_done
        finally:
            if not goes_on:
                on_end(now)
        if goes_on:
            self._timer.at(now + _PAUSE_MS, lambda then: self._do(chore, found, then, on_end))
