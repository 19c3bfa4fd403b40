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
        self._last_us = clock.elapsed_us()
        """When the log was last flushed, or opened, by the stopwatch."""
        self.times: Histogram | None = None
        """Counts microseconds, if a reader may ask."""

    @property
    def age_ms(self) -> int:
        """How long ago the log was last flushed, or opened."""
        return (self._clock.elapsed_us() - self._last_us) // 1000

    def begin(self) -> int:
        """A flush begins; for `end`."""
        return self._clock.elapsed_us()

    def end(self, began_us: int) -> None:
        """It is over."""
        self._last_us = self._clock.elapsed_us()
        if self.times is not None:
            self.times.record(self._last_us - began_us)
