"""Batches of a coordinator's partition as changes of its shard, and their replay.

Clients may write to the partition (one named ``__admin_client``, as in Kafka), and so may later releases. Therefore the
bytes of a record prove nothing. A record of a type that this code does not know is skipped, as Kafka skips it, and so
is a control record that ends no transaction; of one that does, only the key is read. A record that cannot be read, or
that its shard refuses, is an `UnreplayableRecordError`, which says where it is.

Follows org.apache.kafka.coordinator.common.runtime.CoordinatorLoaderImpl.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pykraft.coordinator.ports import Shard
from pykraft.protocol.messages.control import ControlRecordType, control_record_number
from pykraft.protocol.messages.coordinators import (
    CoordinatorRecord,
    RecordTypes,
    UnknownRecordTypeError,
    decode_coordinator_record,
    record_type_of,
)
from pykraft.records.batch import RecordBatch

NO_PRODUCER = -1
NO_OFFSET = -1
MARKER = -1
"""Stands for the type of a record that is a transaction's marker, and of one whose key has no type."""

_ENDS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)

Skipped = Callable[[int, int], object]
"""Hears of a record that is skipped: its offset and its type."""


class UnreplayableRecordError(Exception):
    """A record cannot be read, or its shard refuses it. `cause` says why."""

    def __init__(self, offset: int, record_type: int, cause: Exception) -> None:
        super().__init__(
            f"the record at offset {offset} (type {record_type}) cannot be replayed: {type(cause).__name__}: {cause}"
        )
        self.offset = offset
        self.record_type = record_type
        self.cause = cause


class Change(NamedTuple):
    """One record of the partition. Without `record` it is the marker that ends the producer's transaction."""

    record: CoordinatorRecord | None
    producer_id: int = NO_PRODUCER
    is_commit: bool = False
    offset: int = NO_OFFSET
    """-1 of a record that was appended a moment ago."""

    def apply(self, shard: Shard) -> None:
        """Replay it; UnreplayableRecordError if the shard cannot take it."""
        try:
            if self.record is None:
                shard.replay_marker(self.producer_id, self.is_commit)
            else:
                shard.replay(self.record, self.producer_id)
        except Exception as error:
            record_type = MARKER if self.record is None else self.record.record_type
            raise UnreplayableRecordError(self.offset, record_type, error) from error


def changes(types: RecordTypes, batch: RecordBatch, skipped: Skipped | None = None) -> Iterator[Change]:
    """What this batch changes. UnreplayableRecordError for a record that cannot be read, KafkaError for a batch."""
    producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER
    for record in batch.records():
        change: Change | None = None
        try:
            if not batch.is_control:
                decoded = decode_coordinator_record(types, record.key or b"", record.value)
                change = Change(decoded, producer_id, False, record.offset)
            elif (kind := control_record_number(record.key or b"")) in _ENDS:
                change = Change(None, batch.producer_id, kind == ControlRecordType.COMMIT, record.offset)
            elif kind not in list(ControlRecordType):
                raise UnknownRecordTypeError(kind)
        except UnknownRecordTypeError as error:
            if skipped is not None:
                skipped(record.offset, error.record_type)
        except Exception as error:
            record_type = MARKER if batch.is_control else record_type_of(record.key or b"")
            raise UnreplayableRecordError(record.offset, record_type, error) from error
        if change is not None:
            yield change


def replay(shard: Shard, types: RecordTypes, found: Iterable[RecordBatch]) -> Iterator[None]:
    """Replay what is in these batches; one step for each change."""
    for batch in found:
        for change in changes(types, batch):
            change.apply(shard)
            yield
