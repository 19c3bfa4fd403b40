"""What the runtime of coordinators has on its two sides: shards, and the log of each.

Follows org.apache.kafka.coordinator.common.runtime.{CoordinatorShard,CoordinatorPlayback,PartitionWriter}.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from pykraft.coordinator.result import TransactionalWriter, TransactionEnd
from pykraft.protocol.messages.coordinators import CoordinatorRecord
from pykraft.records.batch import RecordBatch


class Shard(Protocol):
    """One state machine."""

    def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
        """Take a record in. `producer_id` is that of the transaction it is part of, or -1."""
        ...

    def replay_marker(self, producer_id: int, is_commit: bool) -> None:
        """A transaction has ended in this partition."""
        ...

    def on_loaded(self, now: int) -> None:
        """Everything is replayed: schedule what no record holds."""
        ...

    def on_unloaded(self) -> None:
        """The leadership is lost: answer the members that wait with NOT_COORDINATOR."""
        ...


class PartitionLog(Protocol):
    """The port to the internal topic's partitions on this broker."""

    def append(
        self,
        partition: int,
        records: Sequence[tuple[bytes, bytes | None]],
        now: int,
        writer: TransactionalWriter | None = None,
    ) -> int:
        """Append these (key, value) as one batch, in the writer's transaction if there is one; the offset after them.
        KafkaError if that is not possible."""
        ...

    def append_marker(self, partition: int, end: TransactionEnd, now: int) -> int:
        """Append the marker that ends a transaction; the offset after it. KafkaError if that is not possible."""
        ...

    def max_batch_bytes(self, partition: int) -> int:
        """The largest batch that it takes. KafkaError if this broker does not lead the partition."""
        ...

    def high_watermark(self, partition: int) -> int: ...

    def batches(self, partition: int, offset: int = 0) -> Iterator[RecordBatch]:
        """The batches of the partition from this offset, or from its start, to its end."""
        ...

    def end_offset(self, partition: int) -> int: ...
