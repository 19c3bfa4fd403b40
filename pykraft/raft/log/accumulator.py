"""Gathering the leader's records before they are written.

Every write to the metadata log is synced, and a sync costs far more than the bytes. So the leader gives records their
offsets at once, but writes them after a short pause (``controller.quorum.append.linger.ms``), several writes in one
batch. The records of one write stay together in one batch: they become true together. So what is too large for one
batch is refused, before anything of it has an offset. All records of a batch have the time of its first: Kafka refuses
to read others in the metadata log. Raft's own records do not wait, and get a batch of their own.

To encode ten thousand records takes tens of milliseconds. A write of very many is encoded in `Steps`, before it has an
offset, and gets a batch of its own, too.

Follows org.apache.kafka.raft.internals.BatchAccumulator.
"""

from collections.abc import Sequence

from pykraft.common.core import FOREVER, Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.control import ControlRecord, ControlRecordType, encode_control_record
from pykraft.records.batch import HEADER_BYTES
from pykraft.records.builder import RecordBatchBuilder, estimated_size

MANY_RECORDS = 200
"""A write of more records is encoded in steps: two or three microseconds for each record."""
Write = Sequence[bytes] | RecordBatchBuilder
"""Records that become true together: each by itself, or in a batch that has no offset yet."""


class BatchAccumulator:
    """The records of one leadership that are not written yet."""

    def __init__(self, epoch: int, next_offset: int, linger_ms: int, max_batch_bytes: int) -> None:
        self._epoch = epoch
        self.next_offset = next_offset
        self._linger_ms = linger_ms
        self._max_batch_bytes = max_batch_bytes
        self._batches: list[RecordBatchBuilder] = []
        self._timestamp: int | None = None
        """Of the last of them; None if that one takes no other write."""
        self.deadline = FOREVER
        """When to write what is there."""

    def encoded(self, values: Sequence[bytes], timestamp: int) -> Steps[Write]:
        """What `append` takes for these records. Pauses after each where there are many; KafkaError as for `append`."""
        if len(values) <= MANY_RECORDS:
            return values
        builder = RecordBatchBuilder(leader_epoch=self._epoch)
        size = 0
        for value in values:
            size += estimated_size(None, value)
            builder.append(timestamp, None, value)
            yield
        self._check_size(size)
        return builder

    def append(self, write: Write, timestamp: int, now: int) -> int:
        """Take records that become true together; returns the offset of the last one. KafkaError(RECORD_LIST_TOO_LARGE)
        if they do not fit into one batch."""
        if isinstance(write, RecordBatchBuilder):
            write.base_offset = self.next_offset
            self._batches.append(write)
            self._timestamp = None
            self.next_offset += write.count
        else:
            self._gather(write, timestamp)
        self.deadline = min(self.deadline, now + self._linger_ms)
        return self.next_offset - 1

    def _gather(self, values: Sequence[bytes], timestamp: int) -> None:
        """Add them to the last batch, if there is room."""
        assert values, "a write has at least one record"
        size = sum(estimated_size(None, value) for value in values)
        self._check_size(size)
        time = self._timestamp
        if not self._batches or time is None or self._batches[-1].size + size > self._max_batch_bytes:
            self._batches.append(RecordBatchBuilder(self.next_offset, leader_epoch=self._epoch))
            self._timestamp = time = timestamp
        for value in values:
            self._batches[-1].append(time, None, value)
        self.next_offset += len(values)

    def _check_size(self, size: int) -> None:
        if HEADER_BYTES + size > self._max_batch_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes of metadata are to become true together; {self._max_batch_bytes} fit into one batch",
            )

    def control_batch(self, records: Sequence[tuple[ControlRecordType, ControlRecord]], timestamp: int) -> bytearray:
        """A batch of Raft's own records, to be written after all that was gathered before."""
        builder = RecordBatchBuilder(self.next_offset, leader_epoch=self._epoch, control=True)
        for kind, record in records:
            builder.append(timestamp, *encode_control_record(kind, record))
        self.next_offset += len(records)
        return builder.build()

    def drain(self) -> list[bytearray]:
        """The batches gathered, to be written in this order."""
        built = [batch.build() for batch in self._batches]
        self._batches = []
        self.deadline = FOREVER
        return built
