"""The laws of quotas, by what passes through the connections of a node, whatever the node itself has counted.

Over the windows nobody gets more bytes than its quota times the time, plus one largest request for each connection: a
request is read before its size is known, and each connection may have one. And no client is throttled for its bytes
that has not used up its quota itself.

A bucket that leaks at the rate of the quota looks at all stretches of time at once: it holds what was used beyond the
rate in the worst stretch that ends now. The second law adds up what the client used while samples live.

When the quota of a client is another one, or another client shares it, the bucket is empty again: with what was counted
before the node may be stricter, and never less strict.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from pykraft.common.quotas.entities import CLIENT_ID, USER, entity_key
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


@dataclass
class _Used:
    """What one client used, or several that share a quota."""

    limit: float
    level: float = 0.0
    """Of the bucket, at `updated`."""
    updated: int = 0
    largest: int = 0
    connections: set[str] = field(default_factory=set)
    events: deque[tuple[int, int]] = field(default_factory=deque)
    """When, and how many bytes; of as long as samples live."""


class QuotaLaws:
    """Watches the nodes of a cluster."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._samples, self._sample_ms = samples, sample_ms
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
        used.level = max(0.0, used.level - limit * (now - used.updated) / 1000) + size_bytes
        used.updated = now
        used.largest = max(used.largest, size_bytes)
        used.connections.add(connection)
        used.events.append((now, size_bytes))
        while used.events[0][0] < now - (self._samples + 1) * self._sample_ms:
            used.events.popleft()
        self.charged += 1
        self._check(used, f"{key} of {client}, on node {node}", throttle_ms, now)

    def _of(
        self, node: Hashable, key: str, client: tuple[str, str], shared: tuple[str, str], limit: float, now: int
    ) -> _Used:
        place, asked = (node, key, shared), (node, key, client)
        used = self._used.get(place)
        if used is None:
            used = self._used[place] = _Used(limit, updated=now)
        elif used.limit != limit or self._of_client.get(asked, place) != place:
            used.limit, used.level, used.updated = limit, 0.0, now
        self._of_client[asked] = place
        return used

    def _check(self, used: _Used, what: str, throttle_ms: int, now: int) -> None:
        window_s = self._samples * self._sample_ms / 1000
        most = used.limit * window_s + used.largest * len(used.connections)
        require(
            used.level <= most + 1,
            f"{what}: {used.level:.0f} bytes beyond {used.limit:g} a second, and {most:.0f} are allowed",
        )
        if throttle_ms:
            self.throttled += 1
            recent = sum(size for _, size in used.events)
            least = used.limit * (self._samples - 1) * self._sample_ms / 1000
            require(
                recent > least,
                f"{what}: throttled for {throttle_ms} ms after {recent} bytes, and {least:.0f} come at once",
            )
