"""How the connections of a thread share its time, and how long one of them waits."""

from collections.abc import Callable

from pykraft.common.time_slice import TimeSlice
from pykraft.common.timer import Timer, TimerTask

MAX_BURST_REQUESTS = 8


class Pace:
    """Belongs to all connections of a thread."""

    def __init__(
        self,
        timer: Timer,
        clock: Callable[[], int],
        time_slice: TimeSlice | None = None,
        burst_requests: Callable[[], int] = lambda: MAX_BURST_REQUESTS,
    ) -> None:
        """`burst_requests` says how many requests the burst that begins now may have."""
        self.timer = timer
        self.clock = clock
        self.time_slice = time_slice
        """For how long large requests are read in a turn; None: until they are read."""
        self.burst_requests = burst_requests

    def pause(self, milliseconds: int, then: Callable[[int], None]) -> TimerTask:
        """Call back when this time is over."""
        return self.timer.at(self.clock() + milliseconds, then)
