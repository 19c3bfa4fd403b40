"""A finished record batch that gets its producer's numbers later.

One process may encode and compress records, and another one send them: the second has the producer id, the epoch and
the sequence number. Those are in the batch's header, after the checksum, so only header and checksum are written again;
the records are not decoded. The same goes for the bit that makes a batch part of a transaction.

This is ours: Kafka's producer always sends what it has encoded itself.
"""

import struct

from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import (
    ATTRIBUTES_OFFSET,
    CRC_OFFSET,
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    RecordBatch,
)
from pykraft.records.crc32c import crc32c

_PRODUCER_OFFSET = 43
_PRODUCER = struct.Struct(">qhi")
_INT16 = struct.Struct(">h")
_UINT32 = struct.Struct(">I")


class EncodedRecordBatch:
    """Takes the place of a `RecordBatchBuilder` to which no records are added."""

    def __init__(self, data: bytes, transactional: bool) -> None:
        """CorruptRecordError if these bytes are not one whole batch."""
        batch = RecordBatch(memoryview(data)) if len(data) >= HEADER_BYTES else None
        if batch is None or batch.size != len(data) or not batch.is_valid or batch.count < 1:
            raise CorruptRecordError(f"{len(data)} bytes are not one whole record batch")
        self._data = data
        self.is_transactional = transactional
        self._attributes = batch.attributes | (TRANSACTIONAL if transactional else 0)
        self.compression = batch.compression
        self.count = batch.count
        self.size = len(data)
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE

    def build(self) -> bytearray:
        """The batch under the present numbers."""
        batch = bytearray(self._data)
        _INT16.pack_into(batch, ATTRIBUTES_OFFSET, self._attributes)
        _PRODUCER.pack_into(batch, _PRODUCER_OFFSET, self.producer_id, self.producer_epoch, self.base_sequence)
        _UINT32.pack_into(batch, CRC_OFFSET, crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]))
        return batch
