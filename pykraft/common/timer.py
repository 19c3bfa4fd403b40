"""Deadlines without a clock: a heap of things to do later, and the pauses between retries.

`Timer` keeps callbacks by the time at which they are due; its owner asks `deadline` and calls `expire(now)`. A
cancelled entry stays in the heap until it surfaces (removing from the middle of a heap costs more than carrying it),
so the heap is swept when most of it is dead.

A callback that raises must not keep the others from running. An owner that goes on after that sets `on_error`.

`Backoff` spreads retries: each failure doubles the pause up to a limit, and a random part keeps many clients from
retrying in step. The dice are handed in.

Follows org.apache.kafka.server.util.timer.SystemTimer (a hashed wheel there; a heap is enough for one node's thread)
and org.apache.kafka.common.utils.ExponentialBackoff (KIP-580).
"""

import heapq
from collections.abc import Callable
from random import Random

from pykraft.common.core import FOREVER


class TimerTask:
    """A callback that is due at `deadline`; `cancel` takes it back."""

    __slots__ = ("_timer", "callback", "deadline")

    def __init__(self, timer: "Timer", deadline: int, callback: Callable[[int], None]) -> None:
        self._timer = timer
        self.deadline = deadline
        self.callback: Callable[[int], None] | None = callback

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._timer.forget()


class Timer:
    """Tasks in the order of their deadlines; equal deadlines in the order of their making."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerTask]] = []
        self.made = 0
        """How many tasks there were, in all."""
        self._dead = 0
        self.on_error: Callable[[Exception], None] | None = None
        """Hears of what a callback has raised; None: `expire` raises it."""

    def __len__(self) -> int:
        return len(self._heap) - self._dead

    @property
    def deadline(self) -> int:
        """When the next task is due; `FOREVER` if there is none."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
            self._dead -= 1
        return self._heap[0][0] if self._heap else FOREVER

    def at(self, deadline: int, callback: Callable[[int], None]) -> TimerTask:
        """Call ``callback(now)`` from the first `expire` at or after `deadline`."""
        task = TimerTask(self, deadline, callback)
        self.made += 1
        heapq.heappush(self._heap, (deadline, self.made, task))
        return task

    def expire(self, now: int) -> int:
        """Run what is due, also what becomes due by running it; returns how many tasks ran."""
        ran = 0
        while self._heap and self._heap[0][0] <= now and self.deadline <= now:
            _, _, task = heapq.heappop(self._heap)
            callback, task.callback = task.callback, None
            assert callback is not None
            try:
                callback(now)
            except Exception as error:
                if self.on_error is None:
                    raise
                self.on_error(error)
            ran += 1
        return ran

    def forget(self) -> None:
        """One more task was cancelled: sweep the heap when more than half of it is dead."""
        self._dead += 1
        if self._dead > 64 and self._dead * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._dead = 0


class Backoff:
    """The pause before retry number n (0, 1, ...): ``initial * 2**n``, at most `maximum`, give or take `jitter`."""

    def __init__(self, random: Random, initial_ms: int, maximum_ms: int, jitter: float = 0.2) -> None:
        self._random = random
        self._initial_ms = initial_ms
        self._maximum_ms = max(initial_ms, maximum_ms)
        self._jitter = jitter

    def pause_ms(self, attempts: int) -> int:
        pause = min(self._initial_ms << min(attempts, 32), self._maximum_ms)
        return round(pause * self._random.uniform(1 - self._jitter, 1 + self._jitter))
