"""How many clients have proved who they are, and how many have not: Kafka's metrics of authentication.

A client of SSL has when its handshake is over, one of SASL when its login is. A handshake or a login that fails is a
failed authentication. A client that leaves before has not failed, and one of PLAINTEXT has nothing to prove: neither is
counted. The rates are those of Kafka's default, over two samples of 30 seconds.

Follows org.apache.kafka.common.network.Selector.SelectorMetrics.
"""

from collections.abc import Callable, Iterable
from functools import partial

from pykraft.common.metrics import Metrics, Series
from pykraft.common.quotas.rates import SampledRate

_SAMPLES, _SAMPLE_MS = 2, 30_000
_NAMES = {True: "successful-authentication", False: "failed-authentication"}


class _Count:
    """One kind of outcome on one listener."""

    def __init__(self) -> None:
        self.total = 0
        self.rate = SampledRate(_SAMPLES, _SAMPLE_MS)


class LoginMetrics:
    """The outcomes of one network processor."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._counts: dict[tuple[str, bool], _Count] = {}
        """By listener, and whether it went well."""

    def count(self, listener: str, succeeded: bool) -> None:
        """A client has proved who it is, or has failed to."""
        found = self._counts.setdefault((listener, succeeded), _Count())
        found.total += 1
        found.rate.record(1, self._clock())

    def total(self, listener: str, succeeded: bool) -> float:
        """How many since the start."""
        found = self._counts.get((listener, succeeded))
        return 0 if found is None else found.total

    def per_second(self, listener: str, succeeded: bool) -> float:
        """How many a second, lately."""
        found = self._counts.get((listener, succeeded))
        return 0.0 if found is None else found.rate.per_second(self._clock())


def tell_logins(metrics: Metrics, processors: Callable[[], Iterable[tuple[str, str, LoginMetrics]]]) -> None:
    """Show them by listener and network processor. `processors` gives (listener, number of the processor, its
    outcomes)."""

    def series(read: Callable[[LoginMetrics, str, bool], float], succeeded: bool) -> Series:
        return [
            ({"listener": listener, "networkProcessor": number}, read(found, listener, succeeded))
            for listener, number, found in processors()
        ]

    for succeeded, name in _NAMES.items():
        for figure, read in (("total", LoginMetrics.total), ("rate", LoginMetrics.per_second)):
            metrics.series("socket-server-metrics", f"{name}-{figure}", partial(series, read, succeeded))
