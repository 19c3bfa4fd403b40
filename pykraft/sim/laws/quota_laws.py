"""The laws of quotas, by what passes through the connections of a node, whatever the node itself has counted.

A quota ``q`` is so many bytes a second. A node counts them in ``n`` samples of one second each; by default ``n`` is 11
(`common.quotas.rates`). A client that writes is served, and then its connection waits. One that reads waits first. So
the laws are different.

**A connection that writes waits until its request is paid for.** Let ``U`` be what the client has written in the last
``n`` seconds on all its connections, this request included. The samples hold all of it, for a sample goes when its last
event is ``n`` seconds old. They reach back less than ``n + 1`` seconds, for a sample spans less than one. So the rate
that the node finds is more than ``U / (n + 1)``, and the throttle time, ``(rate - q) / q`` times that window, is at
least ``U / q - (n + 1)``. Before that time is over the connection gives no other request.

**What a client gets by that.** It is more than its quota times the time. A connection pays for what was written in the
last ``n`` seconds; what is older is forgotten. ``N`` connections whose requests have ``s`` bytes each are in balance at
the rate ``r`` at which the throttle time of each, ``(n + 1/2) (r / q - 1)``, makes ``N s`` bytes in that time::

    r = q / 2 * (1 + sqrt(1 + 4 N s / (q (n + 1/2))))             evenly spread            `steady_rate`

With few small requests that is the quota, and about one request for each connection *in each window* besides; with very
many it grows as the root of their number. For a pattern that is not even there is a bound. Each request waits for half
of a window before it on average at least (Cauchy and Schwarz: the sum over all pairs of requests that are less than
``n`` apart is least where they are evenly spread). All connections together cannot wait longer than ``N`` times the
time ``T``. So what they write in that time, without the last request of each, is at most the ``x`` of ::

    n x^2 / (2 q (T + n)) - (n + 1) x  =  N s T                                            `most_bytes`

A client without any connections to spare may come near it, too: it writes 21 seconds' worth in one request, and waits
10 seconds; after 11 all is forgotten, and it has had 1.9 times its quota. So it is in Kafka.

**A client that reads gets nothing that is not paid for.** A response is counted before it is sent, and if the rate is
above the quota then, it goes out empty and is not counted. So in ``n`` seconds it gets at most ``q (n + 1)`` bytes, on
however many connections.

**No client is throttled for its bytes that has not used up its quota itself**, that is ``q (n - 1)`` bytes while
samples live.

When the quota of a client is another one, or another client shares it, the counts here begin again: with what was
counted before the node may be stricter, and never less strict. Only for the last law they go on.

Follows org.apache.kafka.server.quota.QuotaUtils, kafka.server.{ClientQuotaManager,KafkaApis} and
org.apache.kafka.common.metrics.stats.Rate.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import sqrt

from pykraft.common.quotas.entities import CLIENT_ID, PRODUCER_BYTE_RATE, USER, entity_key
from pykraft.metadata.client_quotas import ClientQuotasImage
from pykraft.sim.laws.invariants import require

_ORDER = (
    ("name", "name"),
    ("name", "default"),
    ("name", None),
    ("default", "name"),
    ("default", "default"),
    ("default", None),
    (None, "name"),
    (None, "default"),
)
"""Of the parts of an entity, the user and the client id, the most specific first: named, a default, or none."""


def plain_quota(quotas: ClientQuotasImage, key: str, user: str, client_id: str) -> tuple[tuple[str, str], float] | None:
    """Who shares the quota of this client, and how much it is: the first entity of the list that has one."""
    for of_user, of_client in _ORDER:
        parts = []
        if of_user is not None:
            parts.append((USER, user if of_user == "name" else None))
        if of_client is not None:
            parts.append((CLIENT_ID, client_id if of_client == "name" else None))
        record = quotas.get((entity_key(parts), key))
        if record is not None:
            return (user if of_user else "", client_id if of_client else ""), record.value
    return None


def steady_rate(limit: float, connections: int, request_bytes: int, window_s: float) -> float:
    """How many bytes a second this many connections write that never pause, and whose requests come evenly."""
    return limit / 2 * (1 + sqrt(1 + 4 * connections * request_bytes / (limit * window_s)))


def most_bytes(limit: float, connections: int, largest: int, samples_s: float, seconds: float) -> float:
    """How many bytes they write in this time at most, whatever they do; requests have up to `largest` bytes."""
    reach_s, span = samples_s + 1, seconds + samples_s
    root = sqrt(reach_s**2 + 2 * samples_s * connections * largest * seconds / (limit * span))
    return limit * span / samples_s * (reach_s + root) + connections * largest


@dataclass
class _Used:
    """What one client used, or several that share a quota."""

    limit: float
    since: int
    """When the count began."""
    total: int = 0
    largest: int = 0
    due: dict[str, float] = field(default_factory=dict)
    """By connection: it gives no other request before this time."""
    events: deque[tuple[int, int]] = field(default_factory=deque)
    """When, and how many bytes; of as long as samples live."""
    earlier: list[tuple[int, int]] = field(default_factory=list)
    """The events before this count began: the node may count them still."""


class QuotaLaws:
    """Watches the nodes of a cluster."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._kept_ms, self._sample_ms = samples * sample_ms, sample_ms
        self._used: dict[Hashable, _Used] = {}
        self._of_client: dict[Hashable, Hashable] = {}
        self.charged = self.throttled = 0
        """How many requests of clients with a quota there were, and how many of them were throttled."""

    def see(
        self,
        node: Hashable,
        quotas: ClientQuotasImage,
        key: str,
        client: tuple[str, str],
        connection: str,
        size_bytes: int,
        throttle_ms: int,
        now: int,
    ) -> None:
        """A client, named by user and client id, has used this many bytes of what `key` limits, and is throttled for
        so long. `node` is one life of a node."""
        found = plain_quota(quotas, key, *client)
        if found is None:
            return
        shared, limit = found
        used = self._of(node, key, client, shared, limit, now)
        used.total += size_bytes
        used.largest = max(used.largest, size_bytes)
        used.events.append((now, size_bytes))
        while used.events[0][0] < self._reach(now):
            used.events.popleft()
        self.charged += 1
        what = f"{key} of {client}, on node {node}"
        recent = sum(size for time, size in used.events if time > now - self._kept_ms)
        if key == PRODUCER_BYTE_RATE:
            self._check_written(used, what, connection, recent, now)
        elif size_bytes:
            most = used.limit * (self._kept_ms + self._sample_ms) / 1000
            require(recent <= most + 1, f"{what}: it has read {recent} bytes, and {most:.0f} are allowed")
        if throttle_ms:
            self._check_throttled(used, what, throttle_ms, now)

    def _reach(self, now: int) -> int:
        """What is older is in no sample."""
        return now - self._kept_ms - self._sample_ms

    def _of(
        self, node: Hashable, key: str, client: tuple[str, str], shared: tuple[str, str], limit: float, now: int
    ) -> _Used:
        place, asked = (node, key, shared), (node, key, client)
        used = self._used.get(place)
        if used is None or used.limit != limit or self._of_client.get(asked, place) != place:
            before = [] if used is None else [*used.earlier, *used.events]
            earlier = [event for event in before if event[0] >= self._reach(now)]
            used = self._used[place] = _Used(limit, now, earlier=earlier)
        self._of_client[asked] = place
        return used

    def _check_written(self, used: _Used, what: str, connection: str, recent: int, now: int) -> None:
        """A request is answered that has written something."""
        due = used.due.get(connection, now)
        require(now >= due, f"{what}: {connection} has written again {due - now:.0f} ms before the rest was paid for")
        used.due[connection] = now + recent * 1000 / used.limit - (self._kept_ms + self._sample_ms) - 1
        seconds = (now - used.since) / 1000
        most = most_bytes(used.limit, len(used.due), used.largest, self._kept_ms / 1000, seconds)
        require(used.total <= most, f"{what}: {used.total} bytes in {seconds:g} s, and {most:.0f} are allowed")

    def _check_throttled(self, used: _Used, what: str, throttle_ms: int, now: int) -> None:
        """A client is throttled."""
        self.throttled += 1
        used_up = sum(size for time, size in (*used.earlier, *used.events) if time >= self._reach(now))
        least = used.limit * (self._kept_ms - self._sample_ms) / 1000
        require(
            used_up > least,
            f"{what}: throttled for {throttle_ms} ms after {used_up} bytes, and {least:.0f} come at once",
        )
