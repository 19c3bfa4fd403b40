"""Counters and gauges under Kafka's names: the Metrics port.

Cores count through this port, so a simulated node has the same figures as a live one. A metric is named as Kafka's
MBeans are: group and type, then name, then tags: ``kafka.server:type=ReplicaManager,name=IsrShrinksPerSec`` is written
``meter("ReplicaManager", "IsrShrinksPerSec")``. A meter only counts; who wants a rate divides two readings by the time
between them, so no clock is needed here. The whole registry reads as Prometheus text.

Follows org.apache.kafka.server.metrics.KafkaMetricsGroup.
"""

import re
from collections.abc import Callable, Iterator


class Meter:
    """A count that only grows."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def mark(self, amount: int = 1) -> None:
        self.count += amount


class Metrics:
    """All metrics of one node."""

    def __init__(self) -> None:
        self._meters: dict[tuple[str, str], Meter] = {}
        self._gauges: dict[tuple[str, str], Callable[[], float]] = {}

    def meter(self, kind: str, name: str) -> Meter:
        """The meter of that name, made on first use."""
        return self._meters.setdefault((kind, name), Meter())

    def gauge(self, kind: str, name: str, read: Callable[[], float]) -> None:
        """A figure that is read when somebody asks."""
        self._gauges[kind, name] = read

    def read(self) -> Iterator[tuple[str, str, float]]:
        """(type, name, value) of every metric, by name."""
        values: dict[tuple[str, str], float] = {key: meter.count for key, meter in self._meters.items()}
        values |= {key: read() for key, read in self._gauges.items()}
        for kind, name in sorted(values):
            yield kind, name, values[kind, name]

    def prometheus(self) -> str:
        """The text that a Prometheus server scrapes."""
        lines = []
        for kind, name, value in self.read():
            metric = f"kafka_{kind}_{name}".lower()
            lines.append(f"{re.sub(r'[^a-z0-9_]', '_', metric)} {value:g}\n")
        return "".join(lines)
