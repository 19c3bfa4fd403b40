"""Counters, gauges and histograms under Kafka's names: the Metrics port.

Cores count through this port, so a simulated node has the same figures as a live one. A metric is named as Kafka's
MBeans are, by group, type, name and tags. ``kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce`` is
``histogram("RequestMetrics", "TotalTimeMs", "kafka.network", request="Produce")``. `common.prometheus` writes the whole
registry as text.

::

    Meter       a count that only grows. For a rate divide the difference of two readings by the time between them
    gauge       a function that is called when a reader asks
    Histogram   how often and how much in all, and quantiles of the last one to two minutes

A histogram has no list of values: it counts them in *buckets*, four for each power of two, so a quantile is right to
within an eighth of its value. Kafka keeps a random sample of 1,028 values instead, and says nothing of its error. A
minute's buckets are forgotten a minute later: `tick` does that, with the time of the node.

Follows org.apache.kafka.server.metrics.KafkaMetricsGroup and com.yammer.metrics.core.{Meter,Gauge,Histogram}.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

SERVER = "kafka.server"
NETWORK = "kafka.network"
LOG = "kafka.log"
CLUSTER = "kafka.cluster"
CONTROLLER = "kafka.controller"
GROUP_COORDINATOR = "kafka.coordinator.group"
TRANSACTION_COORDINATOR = "kafka.coordinator.transaction"
OWN = "pykraft"
"""The group of what Kafka's brokers do not measure."""
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those that Kafka shows."""
_TICK_MS = 60_000
_BUCKETS = 4 * 64
"""The last one ends at 2 ** 64."""

Tags = tuple[tuple[str, str], ...]
Series = Iterable[tuple[Mapping[str, str], float]]
"""Values of one gauge, each with its tags."""


class Meter:
    """A count that only grows."""

    __slots__ = ("count",)

    def __init__(self, count: int = 0) -> None:
        self.count = count

    def mark(self, amount: int = 1) -> None:
        self.count += amount


class Histogram:
    """Values of one kind: whole numbers from 0 on, mostly nanoseconds."""

    __slots__ = ("_before", "buckets", "forgotten", "total", "unit")

    def __init__(self, unit: int = 1) -> None:
        """What is shown is the value divided by `unit`."""
        self.unit = unit
        self.total = 0
        self.buckets = [0] * _BUCKETS
        self.forgotten = 0
        """The number of values whose buckets are forgotten."""
        self._before: list[int] = []

    def record(self, value: int) -> None:
        """Count a value."""
        self.total += value
        length = value.bit_length()
        self.buckets[length << 2 | (value >> (length - 3 if length > 3 else 0) & 3)] += 1

    @property
    def count(self) -> int:
        return self.forgotten + sum(self._before) + sum(self.buckets)

    @property
    def sum(self) -> float:
        """All values together, in the unit that is shown."""
        return self.total / self.unit

    def tick(self) -> None:
        """A minute is over: forget the buckets of the minute before."""
        self.forgotten += sum(self._before)
        self._before, self.buckets = self.buckets, [0] * _BUCKETS

    def quantiles(self) -> list[float]:
        """The `QUANTILES` of the last one to two minutes; 0 if nothing was counted in them."""
        counts = [new + old for new, old in zip(self.buckets, self._before or [0] * _BUCKETS, strict=True)]
        total, found, seen, bucket = sum(counts), [], 0, 0
        for quantile in QUANTILES:
            while bucket < _BUCKETS - 1 and seen + counts[bucket] < quantile * total:
                seen += counts[bucket]
                bucket += 1
            found.append(_middle(bucket) / self.unit if total else 0.0)
        return found


def _middle(bucket: int) -> float:
    """The middle of a bucket: of four in its power of two, where below 8 each value has its own."""
    length = bucket >> 2
    if length < 3:
        return bucket & 3
    width = 1 << length - 3
    return (4 + (bucket & 3)) * width + (width - 1) / 2


class Family(NamedTuple):
    """The metrics of one name, which differ in their tags."""

    group: str
    kind: str
    """Kafka's "type"."""
    name: str
    metrics: Mapping[Tags, Meter | Histogram | float]


class Metrics:
    """All metrics of one node."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], dict[Tags, Meter | Histogram]] = {}
        self._gauges: dict[tuple[str, str, str], dict[Tags, Callable[[], float]]] = {}
        self._series: dict[tuple[str, str, str], Callable[[], Series]] = {}
        self._summed: set[tuple[str, str, str]] = set()
        self.tick_at = _TICK_MS
        self.on_error: Callable[[Exception], None] | None = None
        """Hears of what a gauge has raised, whose figures `families` then leaves out; None: `families` raises it."""

    def meter(self, kind: str, name: str, group: str = SERVER, **tags: str) -> Meter:
        """The meter of that name, made on first use."""
        found = self._kept.setdefault((group, kind, name), {}).setdefault(tuple(tags.items()), Meter())
        assert isinstance(found, Meter), f"{kind}.{name} is no meter"
        return found

    def histogram(self, kind: str, name: str, group: str = SERVER, unit: int = 1, **tags: str) -> Histogram:
        """The histogram of that name, made on first use."""
        found = self._kept.setdefault((group, kind, name), {}).setdefault(tuple(tags.items()), Histogram(unit))
        assert isinstance(found, Histogram), f"{kind}.{name} is no histogram"
        return found

    def gauge(self, kind: str, name: str, read: Callable[[], float], group: str = SERVER, **tags: str) -> None:
        """A figure that is read when a reader asks."""
        self._gauges.setdefault((group, kind, name), {})[tuple(tags.items())] = read

    def series(self, kind: str, name: str, read: Callable[[], Series], group: str = SERVER) -> None:
        """Figures of one name whose tags are known only when a reader asks."""
        self._series[group, kind, name] = read

    def sum(self, kind: str, name: str, group: str = SERVER) -> None:
        """Show the sum of the meters of this name besides, without tags."""
        self._summed.add((group, kind, name))

    def forget(self, kind: str, name: str, group: str = SERVER, **tags: str) -> None:
        """Show this meter no more. What it has counted stays in the sum, if there is one."""
        meters = self._kept.get((group, kind, name), {})
        gone = meters.pop(tuple(tags.items()), None)
        if isinstance(gone, Meter) and (group, kind, name) in self._summed:
            self.meter(kind, name, group).mark(gone.count)

    def tick(self, now: int) -> None:
        """Let time pass: histograms forget what is older than two minutes."""
        if now < self.tick_at:
            return
        self.tick_at = now + _TICK_MS
        for metrics in self._kept.values():
            for metric in metrics.values():
                if isinstance(metric, Histogram):
                    metric.tick()

    def families(self) -> Iterator[Family]:
        """Every metric with its value now, by group, type and name."""
        for group, kind, name in sorted({*self._kept, *self._gauges, *self._series}):
            key = group, kind, name
            metrics: dict[Tags, Meter | Histogram | float] = dict(self._kept.get(key, {}))
            for tags, read in self._gauges.get(key, {}).items():
                metrics |= self._read_safely(partial(_read_gauge, tags, read))
            if key in self._summed:
                metrics[()] = Meter(sum(metric.count for metric in metrics.values() if isinstance(metric, Meter)))
            if key in self._series:
                metrics |= self._read_safely(partial(_read_series, self._series[key]))
            yield Family(group, kind, name, dict(sorted(metrics.items())))

    def _read_safely(self, read: Callable[[], dict[Tags, float]]) -> dict[Tags, float]:
        """What a gauge shows; nothing, if it raises."""
        try:
            return read()
        except Exception as error:
            if self.on_error is None:
                raise
            self.on_error(error)
            return {}

    def value(self, kind: str, name: str, group: str = SERVER) -> float:
        """What the metrics of this name show, all tags together; of histograms how many values they have counted."""
        key = group, kind, name
        found = sum((metric.count for metric in self._kept.get(key, {}).values()), 0.0)
        found += sum(read() for read in self._gauges.get(key, {}).values())
        return found + sum(value for _, value in self._series[key]()) if key in self._series else found

    def read(self) -> Iterator[tuple[str, str, float]]:
        """(type, name with tags, value) of every metric; of a histogram how many values it has counted."""
        for family in self.families():
            for tags, metric in family.metrics.items():
                name = ",".join([family.name, *(f"{key}={value}" for key, value in tags)])
                yield family.kind, name, metric if isinstance(metric, float) else metric.count


def _read_gauge(tags: Tags, read: Callable[[], float]) -> dict[Tags, float]:
    return {tags: float(read())}


def _read_series(read: Callable[[], Series]) -> dict[Tags, float]:
    return {tuple(tags.items()): float(value) for tags, value in read()}
