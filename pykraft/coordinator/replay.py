"""Batches of a coordinator's partition as changes of its shard, and their replay.

Records of a kind that this code does not know are skipped, as Kafka skips them.

Follows org.apache.kafka.coordinator.common.runtime.CoordinatorLoaderImpl.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pykraft.coordinator.ports import Shard
from pykraft.protocol.messages.control import EndTxnMarker, decode_control_record
from pykraft.protocol.messages.coordinators import (
    CoordinatorRecord,
    RecordTypes,
    UnknownRecordTypeError,
    decode_coordinator_record,
)
from pykraft.records.batch import RecordBatch

NO_PRODUCER = -1


class Change(NamedTuple):
    """One record of the partition. Without `record` it is the marker that ends the producer's transaction."""

    record: CoordinatorRecord | None
    producer_id: int = NO_PRODUCER
    is_commit: bool = False

    def apply(self, shard: Shard) -> None:
        """Replay it."""
        if self.record is None:
            shard.replay_marker(self.producer_id, self.is_commit)
        else:
            shard.replay(self.record, self.producer_id)


def changes(types: RecordTypes, batch: RecordBatch) -> Iterator[Change]:
    """What this batch changes."""
    producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER
    for record in batch.records():
        if batch.is_control:
            kind, content = decode_control_record(record.key or b"", record.value or b"")
            if isinstance(content, EndTxnMarker):
                yield Change(None, batch.producer_id, kind.name == "COMMIT")
            continue
        try:
            decoded = decode_coordinator_record(types, record.key or b"", record.value)
        except UnknownRecordTypeError:
            continue
        yield Change(decoded, producer_id)


def replay(shard: Shard, types: RecordTypes, found: Iterable[RecordBatch]) -> Iterator[None]:
    """Replay what is in these batches; one step for each change."""
    for batch in found:
        for change in changes(types, batch):
            change.apply(shard)
            yield
