"""Virtual time: a heap of things that will happen, and a clock that jumps from one to the next.

Nothing here waits. Time is counted in microseconds, finer than the milliseconds in which nodes think, so that several
things can happen in one of a node's moments, in an order that is known. What is due at the same microsecond happens in
the order in which it was planned; chance enters only through the delays that others draw from their seeded dice.
"""

import heapq
from collections.abc import Callable

Action = Callable[[], None]
US_PER_MS = 1000


class Planned:
    """Something that will happen, unless it is cancelled."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        self.action = None


class Scheduler:
    """The clock, and what will happen."""

    def __init__(self) -> None:
        self.now_us = 0
        self.now = 0
        """Milliseconds, as a node's `now`."""
        self.steps = 0
        """How many things have happened."""
        self.actor = ""
        """The name of the host that has acted last."""
        self._heap: list[tuple[int, int, Planned]] = []
        self.planned = 0
        """How many things were planned, in all."""

    def at(self, time_us: int, action: Action) -> Planned:
        """Let `action` happen at this time, or now if that is past."""
        planned = Planned(action)
        self.planned += 1
        heapq.heappush(self._heap, (max(time_us, self.now_us), self.planned, planned))
        return planned

    def after(self, delay_us: int, action: Action) -> Planned:
        return self.at(self.now_us + delay_us, action)

    def skip(self, duration_us: int) -> None:
        """The clock jumps: every machine is suspended for this long, and what was due meanwhile happens now."""
        self.now_us += duration_us
        self.now = self.now_us // US_PER_MS

    def run_next(self) -> bool:
        """Let the next thing happen; False if nothing is planned."""
        while self._heap:
            time_us, _, planned = heapq.heappop(self._heap)
            if planned.action is not None:
                self.now_us = max(time_us, self.now_us)
                self.now = self.now_us // US_PER_MS
                self.steps += 1
                action, planned.action = planned.action, None
                action()
                return True
        return False
