"""The programs that an incident's cluster serves: an `Orderer` that sends orders, and counts what became of each.

An order is *confirmed* when the cluster has acknowledged it, *refused* when its producer has given up
(``delivery.timeout.ms``), and *waiting* until then. One that was confirmed and is in no leader's log any more is
*lost*: the customer has paid.
"""

from collections.abc import Mapping
from functools import partial
from math import ceil

from pykraft.client.config import PRODUCER_CONFIG, client_config
from pykraft.client.producing.accumulator import RecordMetadata
from pykraft.client.producing.producer import Outgoing, ProducerCore
from pykraft.common.core import Poll, merge
from pykraft.course.incidents.world import World
from pykraft.records.batch import batches
from pykraft.sim.world.encoders import encode
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog

_WHOLE_LOG = 1 << 30


def values_in(log: UnifiedLog) -> dict[int, bytes]:
    """The records of a log, by offset."""
    found = log.read(log.log_start_offset, _WHOLE_LOG, Isolation.LOG_END, True).records
    data = memoryview(found if isinstance(found, bytes) else found.read(0, len(found)))
    records = (record for batch in batches(data) for record in batch.records())
    return {record.offset: record.value or b"" for record in records}


class Orderer:
    """A producer and its program, which sends orders at a steady rate to the partitions in turn. It is a
    RequestManager."""

    def __init__(
        self, world: World, topic: str, partitions: int, records_per_s: float, settings: Mapping[str, object],
        record_bytes: int = 100,
    ) -> None:  # fmt: skip
        given = {"bootstrap.servers": world.servers, "client.id": topic, **settings}
        self._core = ProducerCore(client_config(PRODUCER_CONFIG, given), world.chance(topic), encode)
        self._world, self.topic, self._partitions = world, topic, partitions
        self._pause_ms, self._bytes = 1000 / records_per_s, record_bytes
        self._next_at = float(world.now_ms)
        self.placed = self.refused = 0
        self.last_confirmed_ms = 0
        self._confirmed: dict[int, dict[int, bytes]] = {number: {} for number in range(partitions)}
        self._seen: dict[int, tuple[object, ...]] = {}
        self._lost = dict.fromkeys(range(partitions), 0)

    def poll(self, now: int) -> Poll:
        while now >= self._next_at:
            self.place(now)
            self._next_at = max(self._next_at, now - 1000) + self._pause_ms
        return merge([self._core.poll(now), Poll(ceil(self._next_at))])

    def place(self, now: int) -> None:
        """Send one order, besides those of the steady rate."""
        partition = self.placed % self._partitions
        value = f"order {self.placed}".encode().ljust(self._bytes, b".")
        record = Outgoing(self.topic, None, value, (), partition, self._world.time_ms)
        if self._core.try_append(record, partial(self._on_delivery, partition, value), now) is None:
            self.placed += 1

    def _on_delivery(
        self, partition: int, value: bytes, metadata: RecordMetadata | None, error: Exception | None
    ) -> None:
        if metadata is None:
            self.refused += 1
        else:
            self._confirmed[partition][metadata.offset] = value
            self.last_confirmed_ms = self._world.now_ms

    @property
    def confirmed(self) -> int:
        return sum(map(len, self._confirmed.values()))

    @property
    def waiting(self) -> int:
        return self.placed - self.refused - self.confirmed

    @property
    def lost(self) -> int:
        """Confirmed orders that the leaders' logs do not have. While a partition has no leader, what was known last."""
        for number, confirmed in self._confirmed.items():
            leader = self._world.leader(self.topic, number)
            if leader is None:
                continue
            log = leader.log
            seen = leader.leader_epoch, log.truncations, log.log_start_offset, id(log)
            if seen != self._seen.get(number):
                self._seen[number] = seen
                there = values_in(log)
                self._lost[number] = sum(there.get(offset) != value for offset, value in confirmed.items())
        return sum(self._lost.values())
