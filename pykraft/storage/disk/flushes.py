"""When a log was flushed last, and how long it took: Kafka's LogFlushStats.

Follows org.apache.kafka.storage.internals.log.LogFlushStats.
"""

from pykraft.common.core import Clock
from pykraft.common.metrics import LOG, Histogram, Metrics


def flush_times(metrics: Metrics) -> Histogram:
    """The times of all flushes of a node, shown in milliseconds."""
    return metrics.histogram("LogFlushStats", "LogFlushRateAndTimeMs", LOG, unit=1000)


class Flushes:
    """The flushes of one log."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.last_ms = clock.time_ms()
        """When the log was last flushed, or opened."""
        self.times: Histogram | None = None
        """Counts microseconds, if a reader may ask."""

    def begin(self) -> int:
        """A flush begins; for `end`."""
        return self._clock.elapsed_us()

    def end(self, began_us: int) -> None:
        """It is over."""
        self.last_ms = self._clock.time_ms()
        if self.times is not None:
            self.times.record(self._clock.elapsed_us() - began_us)
