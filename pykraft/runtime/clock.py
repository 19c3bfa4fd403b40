"""The clocks of a live node.

Deadlines are counted on a monotonic clock. Nodes that share one Python process share one more thing: a single call into
C code that does not let go of the interpreter's lock (sorting two million floats, dumping a large JSON) stops them all,
for seconds. On a plain clock every session and fetch timeout would have passed when they wake, and they would elect
new leaders for no reason at all.

So the nodes of a process share a `StallTolerantClock`. A ticker thread looks at it every few milliseconds; when a tick
comes much later than it should, no thread of this process can have run meanwhile, and the excess is taken off the time
that the nodes see. A stall then looks like a slow clock, not like a dead leader.

What it cannot do: clients in other processes do not stop with us, and see the stall as it is.

**A frozen clock.** A test may stop the time of day around the code that it is about (freezegun, time-machine). Timers
must go on then, or no request is ever late and no group rebalances. freezegun puts other functions in the place of
those that modules hold under a name; time-machine changes the functions that tell the time of day. So timers count on
`time.perf_counter_ns`, and hold it in an object, where neither looks. The time of day, which records are stamped with,
is the test's.
"""

import threading
import time

TICK_S = 0.01
STALL_FACTOR = 4


class _Kept:
    """The counter of the machine, as it was when this was imported."""

    ns = staticmethod(time.perf_counter_ns)


def monotonic_s() -> float:
    """Seconds since an arbitrary start."""
    return _Kept.ns() / 1e9


class SystemClock:
    """The time of day, and a stopwatch."""

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_us(self) -> int:
        return _Kept.ns() // 1000

    elapsed_ns = staticmethod(_Kept.ns)
    """Nanoseconds, for what is measured several times in each request."""


class MonotonicClock:
    """Milliseconds since an arbitrary start."""

    def now(self) -> int:
        return _Kept.ns() // 1_000_000

    def close(self) -> None:
        """There is nothing to stop."""


class StallTolerantClock:
    """A monotonic clock that stops while the process cannot run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_tick = monotonic_s()
        self._stalled = 0.0
        self._last = 0
        self._stopped = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="pykraft-ticker", daemon=True)
        self._ticker.start()

    @property
    def stalled_s(self) -> float:
        """For how many seconds the process could not run so far."""
        return self._stalled

    def now(self) -> int:
        with self._lock:
            self._account()
            self._last = max(self._last, int((monotonic_s() - self._stalled) * 1000))
            return self._last

    def _account(self) -> None:
        """The first thread that asks after a stall takes it off."""
        now = monotonic_s()
        late = now - self._last_tick - TICK_S
        if late > TICK_S * STALL_FACTOR:
            self._stalled += late
        self._last_tick = now

    def _tick(self) -> None:
        while not self._stopped.wait(TICK_S):
            with self._lock:
                self._account()

    def close(self) -> None:
        self._stopped.set()
        self._ticker.join()
