"""How the connections of a thread share its time, how long one of them waits, and when one that is silent is closed.

A stream says when its client was active last. Bytes of a handshake do not count (`transport.tls_session`), so a client
that sends its handshake a byte at a time is closed when a silent one would be.

Idle connections follow org.apache.kafka.common.network.Selector.IdleExpiryManager.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pykraft.common.core import FOREVER
from pykraft.common.time_slice import TimeSlice
from pykraft.common.timer import Timer, TimerTask

MAX_BURST_REQUESTS = 8
_IDLE_CHECK_MS = 60_000
_LEAST_PAUSE_MS = 10


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


class _Stream(Protocol):
    """The byte stream under a connection."""

    connection: Any
    last_active: int


def close_idle(streams: Iterable[_Stream], limit_ms: int, now: int) -> int:
    """Close those that have been silent for too long; returns when to look again. A negative limit is none."""
    if limit_ms < 0:
        return FOREVER
    streams = list(streams)
    for stream in streams:
        if stream.last_active < now - limit_ms:
            stream.connection.close()
    # What is accepted later is silent later. Twice in that time is enough, and once a minute is not too often.
    oldest = min((stream.last_active for stream in streams if stream.last_active >= now - limit_ms), default=now)
    return min(max(oldest + limit_ms + 1, now + max(limit_ms // 2, _LEAST_PAUSE_MS)), now + _IDLE_CHECK_MS)
