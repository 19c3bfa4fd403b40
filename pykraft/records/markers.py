"""The marker that ends a transaction in one partition.

It is a control batch with one record: key (version int16, type int16: 0 ABORT, 1 COMMIT), value (version int16,
coordinator epoch int32). The log itself must read it, since it decides what readers of committed data see, and the log
knows nothing of the protocol's messages; these have it, too, for code that shows or writes control records
(`protocol.messages.control`).

Follows org.apache.kafka.common.record.EndTransactionMarker (KIP-98).
"""

import struct
from typing import NamedTuple

from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder

ABORT = 0
COMMIT = 1

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class Marker(NamedTuple):
    """How a transaction ended, and by which coordinator."""

    committed: bool
    coordinator_epoch: int


def end_transaction_marker(producer_id: int, producer_epoch: int, marker: Marker, timestamp: int) -> bytearray:
    """The control batch that ends a producer's transaction in one partition."""
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )
    key = _KEY.pack(0, COMMIT if marker.committed else ABORT)
    builder.append(timestamp, key, _VALUE.pack(0, marker.coordinator_epoch))
    return builder.build()


def read_marker(batch: RecordBatch) -> Marker:
    """The marker in this control batch; CorruptRecordError if there is none."""
    record = next(batch.records(), None)
    if record is None or len(record.key or b"") < _KEY.size or len(record.value or b"") < _VALUE.size:
        raise CorruptRecordError(f"{batch} of producer {batch.producer_id} is no marker")
    _, kind = _KEY.unpack_from(record.key or b"")
    _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    if kind not in (ABORT, COMMIT):
        raise CorruptRecordError(f"{batch} of producer {batch.producer_id} is a marker of type {kind}")
    return Marker(kind == COMMIT, coordinator_epoch)
