"""How many connections there may be, and how fast new ones may come.

Three limits, and what happens to the connection that is one too many:

::

    max.connections                it waits, accepted but not served, until another connection is closed
    max.connection.creation.rate   it waits until the average is back at the limit, one second at most
    max.connections.per.ip         it is closed (max.connections.per.ip.overrides: other limits for some hosts)
    connection_creation_rate       a quota of addresses (KIP-612): it is not served, and closed when the average of its
                                   address is back at the limit, one second later at most; others need not wait for it

The first two also hold for each listener by itself, whose limits may be lower or higher than the broker's
(``listener.name.NAME.max.connections``); a connection waits for both.

While one connection waits its listener accepts no other, so the next ones stay in the system's backlog.

The rate is an average over eleven samples of one second, the youngest unfinished, and counts as at least ten seconds.
So after a quiet time ten seconds' worth of connections may come at once; only then does the limit slow them down.

Brokers must reach each other when clients have taken all connections. So if a broker has several listeners, the one of
the brokers is *protected*: only its own limits hold for it, and for each connection by which the broker's limit is
exceeded the one that was silent for the longest on another listener is closed.

A node has these quotas once for its broker's listeners and once for its controller's, as Kafka has two SocketServers.

Follows kafka.network.ConnectionQuotas and org.apache.kafka.common.metrics.stats.Rate (KIP-402, KIP-612).
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import islice
from typing import NamedTuple

from pykraft.common.quotas.rates import SampledRate

_SAMPLE_MS = 1000
_SAMPLES = 11
_MOST_WAIT_MS = 1000
_IDLE_MS = 3_600_000
"""The rate of an address from which nothing came for so long is dropped."""
_MOST_ADDRESSES = 10_000
"""Beyond it a rate is dropped that tells no more than a new one."""
NO_LIMIT = (1 << 31) - 1


class ListenerLimits(NamedTuple):
    """What one listener allows."""

    connections: int = NO_LIMIT
    creation_rate: int = NO_LIMIT
    """A second."""


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """What the configuration allows."""

    connections: int = NO_LIMIT
    per_ip: int = NO_LIMIT
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """By address."""
    creation_rate: int = NO_LIMIT
    """A second."""
    of_listeners: Mapping[str, ListenerLimits] = field(default_factory=dict)
    """By name; a listener that is not here has the same limits as the broker."""

    def of(self, listener: str) -> ListenerLimits:
        """The limits of one listener by itself."""
        return self.of_listeners.get(listener, ListenerLimits(self.connections, self.creation_rate))


class ConnectionRate:
    """How many connections came in a second, on average over the last samples."""

    def __init__(self) -> None:
        self._samples: deque[list[int]] = deque()
        """When each began, and how many came in it."""

    def record(self, now: int) -> None:
        while self._samples and now - self._samples[0][0] >= _SAMPLES * _SAMPLE_MS:
            self._samples.popleft()
        if not self._samples or now - self._samples[-1][0] >= _SAMPLE_MS:
            self._samples.append([now, 0])
        self._samples[-1][1] += 1

    def wait_ms(self, limit: int, now: int) -> int:
        """How long to accept nothing until the average is back at the limit."""
        count = sum(count for _, count in self._samples)
        elapsed = now - self._samples[0][0] if self._samples else 0
        missing = _SAMPLES - 1 - elapsed // _SAMPLE_MS
        window_ms = elapsed + max(0, missing) * _SAMPLE_MS
        rate = count * 1000 / window_ms
        if rate <= limit:
            return 0
        return min(_MOST_WAIT_MS, round((rate - limit) / limit * window_ms) if limit else _MOST_WAIT_MS)


class _ListenerQuota:
    """The connections of one listener."""

    def __init__(self, limits: ListenerLimits) -> None:
        self.limits = limits
        self.rate = ConnectionRate()
        self.count = 0


class ConnectionQuotas:
    """The connections of the listeners of one role. Any thread may call it."""

    def __init__(self, limits: ConnectionLimits, listeners: Sequence[str], inter_broker_listener: str = "") -> None:
        self._limits = limits
        self._listeners = {name: _ListenerQuota(limits.of(name)) for name in listeners}
        self._protected = inter_broker_listener if len(listeners) > 1 else ""
        self._lock = threading.Lock()
        self._by_address: Counter[str] = Counter()
        self._rate = ConnectionRate()
        self._rates_of_addresses: Mapping[str, int] = {}
        self._rate_of_address = NO_LIMIT
        """What each address may have that has no quota of its own."""
        self._address_rates: dict[str, tuple[SampledRate, int]] = {}
        """The connections of each address that has a quota, and when the last came; that address is the last here."""
        self.total = 0
        self.when_released: list[Callable[[], object]] = []
        """Called when a connection is closed: a listener that waits for it may accept again."""

    def wait_ms(self, listener: str, now: int) -> int:
        """A connection has come: how long it has to wait for the rates' sake."""
        quota = self._listeners[listener]
        rates = [(quota.rate, quota.limits.creation_rate)]
        if listener != self._protected:
            rates.append((self._rate, self._limits.creation_rate))
        wait_ms = 0
        with self._lock:
            for rate, limit in rates:
                if limit != NO_LIMIT:
                    rate.record(now)
                    wait_ms = max(wait_ms, rate.wait_ms(limit, now))
        return wait_ms

    def set_limits(self, limits: ConnectionLimits) -> None:
        """These hold from now on. Connections that are there stay; one that waits for room looks again."""
        with self._lock:
            self._limits = limits
            for name, quota in self._listeners.items():
                quota.limits = limits.of(name)
        for callback in self.when_released:
            callback()

    def set_rates_of_addresses(self, rates: Mapping[str | None, int]) -> None:
        """These quotas of new connections a second hold from now on; None is that of every other address."""
        by_address = {str(ip_address(address)): rate for address, rate in rates.items() if address is not None}
        with self._lock:
            self._rates_of_addresses, self._rate_of_address = by_address, rates.get(None, NO_LIMIT)

    def throttle_address_ms(self, address: str, now: int) -> int:
        """A connection has come from there: 0 if it may be served, else how long to keep it before it is closed."""
        with self._lock:
            limit = self._rates_of_addresses.get(address, self._rate_of_address)
            if limit == NO_LIMIT:
                return 0
            known = self._address_rates.pop(address, None)
            rate = self._new_address_rate(now) if known is None else known[0]
            self._address_rates[address] = rate, now
            rate.record(1, now)
            throttle_ms = min(_MOST_WAIT_MS, rate.throttle_time_ms(limit, now))
            if throttle_ms:
                rate.record(-1, now)  # it is not served
            return throttle_ms

    def _new_address_rate(self, now: int) -> SampledRate:
        for address, (_, last) in list(islice(self._address_rates.items(), 2)):
            is_superfluous = len(self._address_rates) >= _MOST_ADDRESSES and now - last > (_SAMPLES + 1) * _SAMPLE_MS
            if not is_superfluous and now - last < _IDLE_MS:
                break
            del self._address_rates[address]
        return SampledRate(_SAMPLES, _SAMPLE_MS)

    def has_slot(self, listener: str) -> bool:
        """Whether one more may be served now."""
        quota = self._listeners[listener]
        if quota.count >= quota.limits.connections:
            return False
        return self.total < self._limits.connections or listener == self._protected

    def admit(self, listener: str, address: str) -> bool:
        """Count one more, unless its address has too many; False: close it."""
        with self._lock:
            if self._by_address[address] >= self._limits.per_ip_overrides.get(address, self._limits.per_ip):
                return False
            self._by_address[address] += 1
            self._listeners[listener].count += 1
            self.total += 1
            return True

    def release(self, listener: str, address: str) -> None:
        """A connection that was admitted is closed."""
        with self._lock:
            self._listeners[listener].count -= 1
            self.total -= 1
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
        for callback in self.when_released:
            callback()

    @property
    def has_excess(self) -> bool:
        """Whether there are more than there may be."""
        return self.total > self._limits.connections

    def is_exceeded(self, listener: str) -> bool:
        """Whether a connection of this listener has to go, because the protected one took more than there are. Those of
        the node's other role have quotas of their own."""
        return self.has_excess and listener in self._listeners and listener != self._protected
