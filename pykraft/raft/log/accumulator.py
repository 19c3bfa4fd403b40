"""Gathering the leader's records before they are written.

Every write to the metadata log is synced, and a sync costs far more than the bytes. So the leader gives records their
offsets at once, but writes them after a short pause (``controller.quorum.append.linger.ms``), several writes in one
batch. The records of one write stay together in one batch: they become true together. So what is too large for one
batch is refused, before anything of it has an offset. All records of a batch have the time of its first: Kafka refuses
to read others in the metadata log. Raft's own records do not wait, and get a batch of their own.

Follows org.apache.kafka.raft.internals.BatchAccumulator.
"""

from collections.abc import Sequence

from pykraft.common.core import FOREVER
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.control import ControlRecord, ControlRecordType, encode_control_record
from pykraft.records.batch import HEADER_BYTES
from pykraft.records.builder import RecordBatchBuilder, estimated_size


class BatchAccumulator:
    """The records of one leadership that are not written yet."""

    def __init__(self, epoch: int, next_offset: int, linger_ms: int, max_batch_bytes: int) -> None:
        self._epoch = epoch
        self.next_offset = next_offset
        self._linger_ms = linger_ms
        self._max_batch_bytes = max_batch_bytes
        self._batches: list[RecordBatchBuilder] = []
        self._timestamp = 0  # of the last of them
        self.deadline = FOREVER
        """When to write what is there."""

    def append(self, values: Sequence[bytes], timestamp: int, now: int) -> int:
        """Take records that become true together; returns the offset of the last one. KafkaError(RECORD_LIST_TOO_LARGE)
        if they do not fit into one batch."""
        assert values, "a write has at least one record"
        size = sum(estimated_size(None, value) for value in values)
        if HEADER_BYTES + size > self._max_batch_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes of metadata are to become true together; {self._max_batch_bytes} fit into one batch",
            )
        if not self._batches or self._batches[-1].size + size > self._max_batch_bytes:
            self._batches.append(RecordBatchBuilder(self.next_offset, leader_epoch=self._epoch))
            self._timestamp = timestamp
        for value in values:
            self._batches[-1].append(self._timestamp, None, value)
        self.next_offset += len(values)
        self.deadline = min(self.deadline, now + self._linger_ms)
        return self.next_offset - 1

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
