"""Records on their way into batches: for each partition a queue of batches, of which the last is being filled.

A batch is *ready* when it is full, when it has waited for ``linger.ms``, when the producer is flushed or closed, or
when a `send` waits for memory. Batching is what makes a producer fast: a request, a checksum and an append cost about
the same for one record as for a hundred.

Follows org.apache.kafka.clients.producer.internals.{RecordAccumulator,ProducerBatch,BufferPool}.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pykraft.client.config import BATCH_SIZE, BUFFER_MEMORY, COMPRESSION_TYPE, LINGER_MS, TRANSACTIONAL_ID
from pykraft.common.core import FOREVER
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition
from pykraft.records.batch import NO_SEQUENCE, RecordBatch
from pykraft.records.builder import RecordBatchBuilder, estimated_size
from pykraft.records.compression import Compression, Encoder, compress
from pykraft.records.encoded import EncodedRecordBatch
from pykraft.records.record import Header


class RecordMetadata(NamedTuple):
    """Where a record is: offset -1 if the broker did not say."""

    topic: str
    partition: int
    offset: int
    timestamp: int


OnDelivery = Callable[[RecordMetadata | None, Exception | None], None]
"""Called once for each record: with its place, or with why it has none."""


class ProducerBatch:
    """A batch of one partition, from its first record to its acknowledgement."""

    __slots__ = (
        "_callbacks",
        "_encode",
        "_timestamps",
        "attempts",
        "builder",
        "created",
        "data",
        "has_unknown_attempts",
        "is_encoded",
        "is_transactional",
        "leader_epoch",
        "not_before",
        "place",
        "sequence",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        compression: Compression,
        now: int,
        place: tuple[int, ...],
        is_transactional: bool = False,
        encode: Encoder = compress,
    ) -> None:
        """`place` orders the batches of a partition; the parts of a batch that was split stand in its place."""
        self.topic_partition = topic_partition
        self.place = place
        self.is_transactional = is_transactional
        self.builder: RecordBatchBuilder | EncodedRecordBatch
        self._encode = encode
        self.builder = RecordBatchBuilder(compression=compression, transactional=is_transactional, encode=encode)
        self.is_encoded = False
        """Its records came as a whole: no other is added."""
        self.created = now
        self.attempts = 0
        self.not_before = 0
        self.leader_epoch = -1
        """That of the leader it was last sent to."""
        self.sequence = NO_SEQUENCE
        self.has_unknown_attempts = False
        """It was sent under its number, and what came back, if anything, does not say that it is not in the log."""
        self.data: bytearray | None = None
        """The finished bytes; None while records are added."""
        self._callbacks: list[OnDelivery | None] = []
        self._timestamps: list[int] = []

    @classmethod
    def of_encoded(
        cls,
        topic_partition: TopicPartition,
        encoded: EncodedRecordBatch,
        on_failure: OnDelivery | None,
        now: int,
        place: tuple[int, ...],
    ) -> "ProducerBatch":
        """A batch that was encoded elsewhere. `on_failure` is called if it is not written."""
        batch = cls(topic_partition, encoded.compression, now, place, encoded.is_transactional)
        batch.builder = encoded
        batch.is_encoded = True
        batch._callbacks = [on_failure] * encoded.count
        return batch

    def __repr__(self) -> str:
        return f"ProducerBatch({self.topic_partition}, {self.count} records, sequence {self.sequence})"

    @property
    def count(self) -> int:
        return self.builder.count

    @property
    def size(self) -> int:
        return self.builder.size if self.data is None else len(self.data)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        on_delivery: OnDelivery | None,
    ) -> None:
        assert not isinstance(self.builder, EncodedRecordBatch), "no record is added to an encoded batch"
        self.builder.append(timestamp, key, value, headers)
        self._callbacks.append(on_delivery)
        self._timestamps.append(timestamp)

    def finish(self, producer_id: int, producer_epoch: int, sequence: int) -> None:
        """Take no more records, and make the bytes. A batch that is sent again keeps its number."""
        self.builder.producer_id = producer_id
        self.builder.producer_epoch = producer_epoch
        self.builder.base_sequence = self.sequence = sequence
        self.data = self.builder.build()

    @property
    def may_be_written(self) -> bool:
        """It was sent under its sequence number, and no answer says that it is not in the log."""
        return self.sequence != NO_SEQUENCE

    def forget_sequence(self) -> None:
        """It is not in the log, and gets another sequence number."""
        self.data = None
        self.sequence = NO_SEQUENCE
        self.has_unknown_attempts = False

    def deliver(self, base_offset: int, log_append_time: int) -> None:
        """It is acknowledged."""
        if self.is_encoded:
            return
        topic, partition = self.topic_partition
        for number, on_delivery in enumerate(self._callbacks):
            if on_delivery is not None:
                offset = base_offset + number if base_offset >= 0 else -1
                timestamp = self._timestamps[number] if log_append_time < 0 else log_append_time
                on_delivery(RecordMetadata(topic, partition, offset, timestamp), None)

    def fail(self, error: Exception) -> None:
        """It will never be acknowledged (it may have been written all the same)."""
        for on_delivery in self._callbacks:
            if on_delivery is not None:
                on_delivery(None, error)

    def split(self, max_bytes: int) -> Iterator["ProducerBatch"]:
        """The same records in smaller batches: the broker found this one too large."""
        data = self.data if self.data is not None else self.builder.build()
        part: ProducerBatch | None = None
        for number, record in enumerate(RecordBatch(memoryview(data)).records()):
            size = estimated_size(record.key, record.value, record.headers)
            if part is None or part.size + size > max_bytes:
                if part is not None:
                    yield part
                place = (*self.place, number)
                part = ProducerBatch(
                    self.topic_partition,
                    self.builder.compression,
                    self.created,
                    place,
                    self.is_transactional,
                    self._encode,
                )
            part.append(record.timestamp, record.key, record.value, record.headers, self._callbacks[number])
        if part is not None:
            yield part


class RecordAccumulator:
    """The batches of one producer that are not on their way."""

    def __init__(self, config: Config, encode: Encoder = compress) -> None:
        self._encode = encode
        self._batch_size = config[BATCH_SIZE]
        self._linger_ms = config[LINGER_MS]
        self._memory = config[BUFFER_MEMORY]
        self._compression = Compression.named(config[COMPRESSION_TYPE])
        self._is_transactional = bool(config[TRANSACTIONAL_ID])
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._count = 0
        self.used_bytes = 0
        """Memory of all batches, those on their way included."""
        self.flushes = 0
        """How many wait at the moment until everything is sent."""
        self.is_wanting = False
        """A `send` waits for memory, and none was given back since."""

    @property
    def has_unsent(self) -> bool:
        return any(self._queues.values())

    @property
    def newest(self) -> int:
        """The number of the batch that was begun last."""
        return self._count

    def has_room(self, size: int) -> bool:
        """Whether a record of that size may be added now. One is always let in, however large."""
        return self.used_bytes == 0 or self.used_bytes + size <= self._memory

    def append(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        on_delivery: OnDelivery | None,
        now: int,
    ) -> bool:
        """Add a record; whether the sender should look: a batch became full by it, or one began, with its own time to
        be sent at."""
        queue = self._queues.setdefault(topic_partition, deque())
        batch = queue[-1] if queue and queue[-1].data is None and queue[-1].attempts == 0 else None
        if batch is not None and batch.is_encoded:
            batch = None
        is_new = batch is None or batch.size + estimated_size(key, value, headers) > self._batch_size
        if batch is None or is_new:
            self._count += 1
            batch = ProducerBatch(
                topic_partition, self._compression, now, (self._count,), self._is_transactional, self._encode
            )
            queue.append(batch)
        before = batch.size
        batch.append(timestamp, key, value, headers, on_delivery)
        self.used_bytes += batch.size - (before if batch.count > 1 else 0)
        return is_new or batch.size >= self._batch_size or not self.has_room(1)

    def append_encoded(
        self, topic_partition: TopicPartition, encoded: EncodedRecordBatch, on_failure: OnDelivery | None, now: int
    ) -> None:
        """Add a whole batch."""
        self._count += 1
        batch = ProducerBatch.of_encoded(topic_partition, encoded, on_failure, now, (self._count,))
        self._queues.setdefault(topic_partition, deque()).append(batch)
        self.used_bytes += encoded.size

    def ready(self, now: int) -> list[TopicPartition]:
        """The partitions whose first batch should be sent."""
        return [key for key, queue in self._queues.items() if queue and self._ready_at(queue) <= now]

    def is_ready(self, topic_partition: TopicPartition, now: int) -> bool:
        """Whether the partition's first batch should be sent."""
        queue = self._queues.get(topic_partition)
        return bool(queue) and queue is not None and self._ready_at(queue) <= now

    def deadline(self) -> int:
        """When the next batch will be ready."""
        return min((self._ready_at(queue) for queue in self._queues.values() if queue), default=FOREVER)

    def _ready_at(self, queue: deque[ProducerBatch]) -> int:
        first = queue[0]
        if first.attempts:
            return first.not_before
        is_full = len(queue) > 1 or first.data is not None or first.size >= self._batch_size
        if is_full or self.flushes or self.is_wanting or not self.has_room(1):
            return 0
        return first.created + self._linger_ms

    def peek(self, topic_partition: TopicPartition) -> ProducerBatch | None:
        queue = self._queues.get(topic_partition)
        return queue[0] if queue else None

    def firsts(self) -> Iterator[ProducerBatch]:
        """The first batch of each partition."""
        return (queue[0] for queue in self._queues.values() if queue)

    def pausing(self, now: int) -> list[ProducerBatch]:
        """The batches that will be sent again when their pause is over, where they are the first of their partition."""
        return [batch for batch in self.firsts() if batch.attempts and batch.not_before > now]

    def take(self, topic_partition: TopicPartition) -> ProducerBatch:
        """The first batch of the partition, to be sent. The partition comes last from now on: where a request has not
        room for all of them, they take turns."""
        queue = self._queues[topic_partition] = self._queues.pop(topic_partition)
        return queue.popleft()

    def put_back(self, batch: ProducerBatch) -> None:
        """It must be sent again: before everything that came later."""
        queue = self._queues.setdefault(batch.topic_partition, deque())
        position = 0
        while position < len(queue) and queue[position].place < batch.place:
            position += 1
        queue.insert(position, batch)

    def put_parts(self, parts: Iterable[ProducerBatch]) -> None:
        """Take in the parts of a batch that was split."""
        for part in parts:
            self.put_back(part)
            self.used_bytes += part.builder.size

    def release(self, batch: ProducerBatch) -> None:
        """The batch is done with, one way or the other."""
        self.used_bytes -= batch.builder.size
        self.is_wanting = False

    def take_all(self) -> list[ProducerBatch]:
        """Remove all batches."""
        return self.take_older(FOREVER)

    def take_older(self, limit: int) -> list[ProducerBatch]:
        """Remove the batches that were created before `limit`. A queue is in the order of their creation."""
        taken = []
        for queue in self._queues.values():
            while queue and queue[0].created < limit:
                taken.append(queue.popleft())
        return taken

    @property
    def oldest(self) -> int:
        """When the batch that waits longest was created; `FOREVER` if none waits."""
        return min((batch.created for batch in self.firsts()), default=FOREVER)

    def waiting(self) -> Iterator[ProducerBatch]:
        for queue in self._queues.values():
            yield from queue
