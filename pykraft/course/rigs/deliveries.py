"""Scenarios of notebook 18: a lost acknowledgement, a producer whose sequence numbers are set by hand, and a consumer
that crashes between processing and committing.

`LossyLink` loses the first acknowledgement of a topic and looks at all that producers ask of it::

    with LossyLink(cluster, "payments") as link:
        link.send(b"pay 10", enable_idempotence=False)
    link.steps()        what was asked, what the leader did, what was answered
    link.batches()      what is in the leader's log

`HandProducer` sends batches of one record with the sequence number that you give, and returns the leader's answer
unchanged: no retry, no order of its own.

`crash_and_start_again` lets a worker process one poll of records its way, crash after some of them, and start again; it
counts how often each record was processed.
"""

import itertools
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer
from pykraft.producer import Producer
from pykraft.protocol.header import SIZE, decode_response, encode_request
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.transactions import InitProducerIdRequest
from pykraft.protocol.schema import Request
from pykraft.records.batch import batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.viz import Step

if TYPE_CHECKING:
    from pykraft.broker.faults import Fault
    from pykraft.cluster import Cluster

_TIMEOUT_S = 30
_POLL_MS = 2000
_numbers = itertools.count(1)


class Batch(NamedTuple):
    """What the header of a batch in the leader's log says."""

    base_offset: int
    records: int
    producer_id: int
    base_sequence: int


def log_of(cluster: "Cluster", topic: str, partition: int = 0) -> list[Batch]:
    """The batches of a partition, read from the files of its leader."""
    leader = cluster.describe().leader(topic, partition)
    assert leader is not None
    folder = cluster.partition_directory(leader, topic, partition)
    data = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
    return [Batch(b.base_offset, b.count, b.producer_id, b.base_sequence) for b in batches(memoryview(data))]


class LossyLink:
    """Clients reach `topic` as always, but the answer to their first Produce is lost."""

    def __init__(self, cluster: "Cluster", topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._faults = ExitStack()
        self._lost: Fault
        self._seen: Fault

    def __enter__(self) -> Self:
        enter = self._faults.enter_context
        self._lost = enter(self._cluster.fault("Produce", topic=self._topic, drop="answer", count=1))
        self._seen = enter(self._cluster.fault("Produce", topic=self._topic))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._faults.close()

    def send(self, value: bytes, **settings: Any) -> int:
        """Send one record with a new producer; the offset that it hears."""
        with Producer(bootstrap_servers=self._cluster.bootstrap_servers, **settings) as producer:
            return producer.send(self._topic, value).result(_TIMEOUT_S).offset

    @property
    def requests(self) -> int:
        """How many Produce requests reached the leader."""
        return len(self._lost.caught) + len(self._seen.caught)

    def steps(self) -> list[Step]:
        """The requests in order, as `pykraft.viz.exchange` draws them."""
        log = log_of(self._cluster, self._topic)
        steps = []
        for number in range(self.requests):
            is_new = number < len(log)
            did = f"appends it at offset {number}" if is_new else f"has it: sequence {log[0].base_sequence}"
            answer = f"offset {number if is_new else log[0].base_offset}"
            steps.append(Step("Produce" + (", again" if number else ""), did, answer if number else None))
        return steps


class Answer(NamedTuple):
    """What a leader answers to one batch: its base offset, or an error."""

    sequence: int
    offset: int | None
    error: str


class HandProducer:
    """A producer id, and a connection to the leader of partition 0; the caller gives the sequence numbers."""

    def __init__(self, cluster: "Cluster", topic: str) -> None:
        self._topic = topic
        leader = cluster.describe().leader(topic, 0)
        assert leader is not None
        listener = cluster.properties(leader)["listeners"].partition(",")[0]
        host, _, port = listener.removeprefix("PLAINTEXT://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), _TIMEOUT_S)
        self.producer_id, self._epoch = -1, -1
        while self.producer_id < 0:  # a node that has just started has no ids to give yet
            given = self._ask(InitProducerIdRequest(transaction_timeout_ms=60_000), 4)
            self.producer_id, self._epoch = given.producer_id, given.producer_epoch

    def send(self, sequence: int) -> Answer:
        """Send a batch of one record with this sequence."""
        batch = RecordBatchBuilder(producer_id=self.producer_id, producer_epoch=self._epoch, base_sequence=sequence)
        batch.append(0, None, f"record {sequence}".encode(), ())
        return Answer(sequence, *self.send_batch(batch.build()))

    def send_batch(self, batch: bytes | bytearray) -> tuple[int | None, str]:
        """Send these bytes as a batch; the offset that it gets, if it gets one, and the leader's error."""
        partition = ProduceRequest.Topic.Partition(index=0, records=memoryview(batch))
        topic = ProduceRequest.Topic(name=self._topic, partition_data=[partition])
        answered = self._ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), 9)
        answer = answered.responses[0].partition_responses[0]
        return answer.base_offset if not answer.error_code else None, ErrorCode.of(answer.error_code).name

    def _ask(self, request: Request, version: int) -> Any:
        self._socket.sendall(b"".join(encode_request(request, version, 1, "by hand")))
        (size,) = SIZE.unpack(self._exactly(SIZE.size))
        _, response = decode_response(type(request).response, version, memoryview(self._exactly(size)))
        return response

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._socket.recv(size - len(data))
        return data

    def close(self) -> None:
        self._socket.close()


# --- a consumer that crashes ------------------------------------------------------------------------------------------


class CrashError(Exception):
    """The worker's process ends here."""


class Worker:
    """One life of a worker: it reads `source` for a group, and processing a record means writing its value to
    `target`. A *way* decides when it commits; see `crash_and_start_again`."""

    def __init__(
        self, cluster: "Cluster", source: str, target: str, transactional: bool, crash_after: int | None
    ) -> None:
        servers = cluster.bootstrap_servers
        own: dict[str, Any] = {"transactional_id": f"worker of {target}"} if transactional else {}
        self.producer = Producer(bootstrap_servers=servers, **own)
        if transactional:
            self.producer.init_transactions()  # aborts what the life before has left open
        self.consumer = Consumer(
            bootstrap_servers=servers, group_id=target, auto_offset_reset="earliest", enable_auto_commit=False
        )
        self.consumer.assign([TopicPartition(source, 0)])
        self._target = target
        self._left = crash_after

    def process(self, record: Any) -> None:
        """Process a record, or crash."""
        if self._left == 0:
            raise CrashError
        if self._left is not None:
            self._left -= 1
        self.producer.send(self._target, record.value).result(_TIMEOUT_S)

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Where the group goes on when everything that was polled is processed."""
        return {partition: self.consumer.position(partition) for partition in self.consumer.assignment()}

    def end(self, by_crash: bool) -> None:
        """Close both clients, or end them as a crash does: nothing is sent."""
        for client in (self.consumer, self.producer):
            client.kill() if by_crash else client.close()


def crash_and_start_again(
    cluster: "Cluster",
    source: str,
    way: Callable[[Worker, Sequence[Any]], None],
    *,
    crash_after: int,
    transactional: bool = False,
) -> list[int]:
    """How often each record of `source` was processed by a worker that crashes after this many records and is started
    again. ``way(worker, records)`` processes what one poll has returned, and commits."""
    target = f"{source}-processed-{next(_numbers)}"
    cluster.create_topic(target)
    for crash_in_this_life in (crash_after, None):
        worker = Worker(cluster, source, target, transactional, crash_in_this_life)
        crashed = False
        try:
            if records := [record for some in worker.consumer.poll(_POLL_MS).values() for record in some]:
                way(worker, records)
        except CrashError:
            crashed = True
        worker.end(crashed)
    counted = Counter(read_committed(cluster, target))
    return [counted[value] for value in read_committed(cluster, source)]


def read_committed(cluster: "Cluster", topic: str) -> list[bytes | None]:
    """The values that a read_committed consumer reads from partition 0."""
    partition = TopicPartition(topic, 0)
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([partition])
        values = []
        while consumer.position(partition) < consumer.end_offsets([partition])[partition]:
            values += [record.value for some in consumer.poll(_POLL_MS).values() for record in some]
        return values
