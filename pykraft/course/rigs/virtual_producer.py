"""A scenario: a producer on a simulated cluster, whose program sends records at a steady rate.

::

    slow = VirtualProducer(linger_ms=0)
    fast = VirtualProducer(linger_ms=20)
    for producer in (slow, fast):
        producer.send(300, records_per_s=500)
    slow.requests, fast.requests, fast.latency_ms(), fast.batches

The node, the producer and its settings are the real ones; clock and network are the simulator's. A message takes half
of `round_trip_ms`, each way. **The node itself takes no time**: what is measured is how long records wait, and how many
requests they need, never how fast a machine is. So the same call gives the same numbers on every machine.

What the producer does is seen at its port, where its Produce requests leave and their responses arrive. Its settings
are given with underscores, and those that are not given have Kafka's defaults.

`refuse` and `lose_answer` are two troubles that the first request of the next `send` meets. `log` has the numbers of
the records in the order in which the leader has them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from statistics import median
from typing import Any, ClassVar

from pykraft.broker.faults import make_fault
from pykraft.broker.node import Node
from pykraft.broker.replication.partition import Partition
from pykraft.client.administration.admin import NewTopic
from pykraft.client.config import PRODUCER_CONFIG, client_config
from pykraft.client.producing.accumulator import RecordMetadata
from pykraft.client.producing.producer import Outgoing, ProducerCore
from pykraft.common.core import FOREVER, Failure, Outbound, Poll
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.records.batch import RecordBatch, batches
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.trouble.knobs import Knobs, calm, draw
from pykraft.sim.workloads.workload import TopicMaker
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.encoders import encode
from pykraft.sim.world.hosts import EPOCH_MS, SimulatedNode
from pykraft.sim.world.network import Weather
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.storage.answers import Isolation
from pykraft.viz.clients.batch_chart import SentBatch

TOPIC = "orders"
_FIRST = TopicPartition(TOPIC, 0)
_SEED = 9
_HOST = "producer"
_BEFORE = "first"
"""The value of the record that is sent before all others, so that the producer has its metadata, its connection and its
producer id. It is not counted."""
_WHOLE_LOG = 1 << 30


def _knobs(brokers: int, properties: Mapping[str, int]) -> Knobs:
    """A quiet cluster with Kafka's defaults but for these properties, and no clients but ours. Where there are several
    brokers the controller is a node of its own."""
    return replace(
        calm(draw(_SEED)), brokers=brokers, controllers=int(brokers > 1), partitions=1, topic={}, producers=(),
        consumers=(), groups=(), transactions=None, background_us=100, storm_until_ms=FOREVER,
        properties=dict(properties),
    )  # fmt: skip


class _NodesOnly(SimulatedCluster):
    """The nodes; the clients are ours, and no law is checked."""

    def _make_clients(self) -> None:
        """There are no others."""

    def _before_end(self, machine: SimulatedNode) -> None:
        """The watcher has not looked before."""


class VirtualProducer:
    """One producer, one node that leads all partitions of one topic, and a network between them."""

    REPLICAS = 1
    PROPERTIES: ClassVar[Mapping[str, int]] = {}
    """Of the nodes, besides Kafka's defaults."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        round_trip_ms: float = 10,
        topic_configs: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        """`settings` are the producer's, with underscores."""
        self._cluster = _NodesOnly(_SEED, _knobs(self.REPLICAS, self.PROPERTIES))
        self._scheduler = self._cluster.scheduler
        one_way_us = round(round_trip_ms * US_PER_MS / 2)
        self._almost_there_us = one_way_us - 1
        self._loses_after: int | None = None
        """When the log has more batches than these, the newest answer will be lost."""
        servers = ",".join(f"node-{number}:9092" for number in range(1, self.REPLICAS + 1))
        topic = NewTopic(TOPIC, partitions, self.REPLICAS, {}, dict(topic_configs or {}))
        maker = TopicMaker(topic, servers, self._chance("admin"), pause_ms=20)
        self._run(self._start("admin", maker), lambda: maker.is_done)
        self._cluster.network.weather = Weather(latency_us=(one_way_us, one_way_us))
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self._core = ProducerCore(
            client_config(PRODUCER_CONFIG, {"bootstrap.servers": servers, **named}), self._chance("producer"), encode
        )
        self._partitions = partitions
        self._began_us = 0
        self._left: list[tuple[float, bytes]] = []
        """What the program will send, and when; the next one is the last here."""
        self._troubles: list[tuple[float, Callable[[], None]]] = []
        """What befalls the cluster in the next `send`, and how many milliseconds after its beginning."""
        self._taken: dict[int, float] = {}
        self._latency: dict[int, float] = {}
        self.offsets: dict[int, int] = {}
        """By number, the offset that an acknowledgement has named; -1 if it has named none."""
        self.failed: dict[int, str] = {}
        """The records that were given up, and why, in the words of their error."""
        self.batches: list[SentBatch] = []
        """Each batch that was sent and answered, in the order of the answers. One that was sent twice is here twice."""
        self.requests = 0
        """The Produce requests since `send` began."""
        self._host = self._start(_HOST, self)
        self._make_ready()

    def _make_ready(self) -> None:
        for partition in range(self._partitions):
            self._run(self._host, lambda p=partition: self._try(_BEFORE.encode(), p))  # type: ignore[misc]
        self._run(self._host, lambda: self._core.is_idle)

    # --- what it does -------------------------------------------------------------------------------------------------

    def send(
        self, records: int, *, records_per_s: float, record_bytes: int = 100, values: Sequence[bytes] = ()
    ) -> None:
        """Send this many records at this rate, to the partitions in turn, until each is acknowledged or has failed.
        They have `record_bytes`, or are `values`, taken in turn."""
        self._began_us = self._scheduler.now_us
        self.batches, self.requests, self._taken, self._latency, self.failed = [], 0, {}, {}, {}
        self.offsets = {}
        pause_ms = 1000 / records_per_s
        size = record_bytes
        made = (values[n % len(values)] if values else f"{n} ".encode().ljust(size, b".") for n in range(records))
        self._left = [(n * pause_ms, value) for n, value in enumerate(made)][::-1]
        for since_ms, _ in reversed(self._left):
            self._scheduler.at(self._began_us + round(since_ms * US_PER_MS), partial(self._host.act, _nothing))
        for at_ms, trouble in self._troubles:
            self._scheduler.at(self._began_us + round(at_ms * US_PER_MS), trouble)
        self._troubles = []
        self._run(self._host, lambda: not self._left and self._core.is_idle)

    def refuse(self, error: str = "NOT_ENOUGH_REPLICAS") -> None:
        """The leader will refuse the next Produce request with this error, once, and append nothing."""
        self._add_fault("Produce", TOPIC, None, error, 0, None, 1)

    def lose_answer(self) -> None:
        """The connection will go silent while the answer to the next Produce request is on its way. TCP cannot lose one
        answer and deliver the next: those that follow it are lost as well."""
        self._loses_after = len(self._in_log())

    def be_away(self, seconds: float) -> None:
        """The leader will refuse everything for this long, as one does that waits for its followers."""
        fault = make_fault("Produce", TOPIC, None, "NOT_ENOUGH_REPLICAS", 0, None, None)
        faults = self._leader().faults
        faults.add(fault)
        self._scheduler.after(round(seconds * 1000) * US_PER_MS, lambda: faults.remove(fault))

    # --- what was seen ------------------------------------------------------------------------------------------------

    @property
    def log(self) -> list[int]:
        """The numbers of the records in partition 0, in the order of their offsets."""
        return [number for _, number in self.records]

    @property
    def records(self) -> list[tuple[int, int]]:
        """The records in partition 0: offset and number of each."""
        found = [(record.offset, record.value or b"") for batch in self._in_log() for record in batch.records()]
        return [(offset, int(value.split()[0])) for offset, value in found if value != _BEFORE.encode()]

    def latency_ms(self, share: float = 0.5) -> float:
        """So many of the records were acknowledged at most this long after the program sent them: the median, or with
        ``share=0.99`` the 99th percentile."""
        known = sorted(self._latency.values())
        return median(known) if share == 0.5 else known[min(len(known) - 1, int(share * len(known)))]

    @property
    def records_per_request(self) -> float:
        return sum(batch.records for batch in self.batches) / self.requests

    @property
    def bytes_per_record(self) -> float:
        """Of the batches, their headers included."""
        return sum(batch.size for batch in self.batches) / sum(batch.records for batch in self.batches)

    # --- its host -----------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        """One round of the program and the producer: it is a RequestManager."""
        while self._left and self._now_ms() >= round(self._left[-1][0], 3):
            number = len(self._taken)
            if not self._try(self._left[-1][1], number % self._partitions, number):
                break
            self._taken[number] = self._now_ms()
            self._left.pop()
        poll = self._core.poll(now)
        requests = [self._watched(each) if type(each.request) is ProduceRequest else each for each in poll.requests]
        is_held_up = bool(self._left) and self._now_ms() >= round(self._left[-1][0], 3)
        return Poll(min(poll.deadline, now + 1) if is_held_up else poll.deadline, requests)

    def _try(self, value: bytes, partition: int, number: int = -1) -> bool:
        """Hand a record to the producer; whether it was taken. Its timestamp says which one it is."""
        record = Outgoing(TOPIC, None, value, (), partition, EPOCH_MS + max(0, number))
        on_delivery = partial(self._on_delivery, number) if number >= 0 else None
        return self._core.try_append(record, on_delivery, self._scheduler.now) is None

    def _on_delivery(self, number: int, metadata: RecordMetadata | None, error: Exception | None) -> None:
        if metadata is None:
            self.failed[number] = str(error)
        else:
            self._latency[number] = self._now_ms() - self._taken[number]
            self.offsets[number] = metadata.offset

    def _watched(self, outbound: Outbound) -> Outbound:
        """The same request; its batches are noted when it is answered."""
        self.requests += 1
        sent_ms, number = self._now_ms(), self.requests

        def on_response(response: Any, now: int) -> None:
            if not isinstance(response, Failure):
                self._note(outbound.request, number, sent_ms)
            outbound.on_response(response, now)

        return outbound._replace(on_response=on_response)

    def _note(self, request: ProduceRequest, number: int, sent_ms: float) -> None:
        if not self._taken:  # it is made ready
            return
        for partition in request.topic_data[0].partition_data:
            assert partition.records is not None
            batch = RecordBatch(memoryview(partition.records))
            appended = tuple(self._taken[record.timestamp - EPOCH_MS] for record in batch.records())
            seen = SentBatch(partition.index, appended, sent_ms, self._now_ms(), number, len(partition.records))
            self.batches.append(seen)

    # --- the clock and the leader -------------------------------------------------------------------------------------

    def _now_ms(self) -> float:
        return (self._scheduler.now_us - self._began_us) / US_PER_MS

    def _chance(self, name: str) -> Random:
        return Random(f"{_SEED}/{name}")

    def _start(self, name: str, core: Any) -> SimulatedClient:
        return SimulatedClient(name, core, self._scheduler, self._cluster.network, self._chance(name + " host"))

    def _run(self, host: SimulatedClient, condition: Callable[[], bool]) -> None:
        """Let time pass until this is so."""
        host.act(_nothing)
        while not condition():
            self._scheduler.run_next()
            self._look()
            if self._loses_after is not None and len(self._in_log()) > self._loses_after:
                self._loses_after = None
                self._scheduler.after(self._almost_there_us, self._drop_first_answer)

    def _look(self) -> None:
        """Something may have happened."""

    def _drop_first_answer(self) -> None:
        network = self._cluster.network
        first = next(flight for flight in network.in_flight() if flight.link[1] == _HOST)
        network.drop(first.piece.number)

    def _leader(self) -> Node:
        """The node that leads partition 0."""
        return next(node for node, partition in self._replicas() if partition.is_leader)

    def _replicas(self) -> list[tuple[Node, Partition]]:
        """The nodes that are up and have partition 0, with what they have."""
        nodes = [machine.node for machine in self._cluster.nodes.values() if machine.is_up]
        found = [(node, node.broker.replicas.partitions.get(_FIRST)) for node in nodes if node and node.broker]
        return [(node, partition) for node, partition in found if partition is not None]

    def _in_log(self) -> list[RecordBatch]:
        """The batches of partition 0 that its leader has; none while it has no leader."""
        log = next((partition.log for _, partition in self._replicas() if partition.is_leader), None)
        found = b"" if log is None else log.read(0, _WHOLE_LOG, Isolation.LOG_END, True).records
        return list(batches(memoryview(found if isinstance(found, bytes) else found.read(0, len(found)))))

    def _add_fault(self, *said: Any) -> None:
        self._leader().faults.add(make_fault(*said))


def _nothing() -> None:
    """Only time passes."""
