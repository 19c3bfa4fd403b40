"""Making record batches.

A `RecordBatchBuilder` takes records one by one, and knows at any time about how large the batch would be: a producer
fills one until `batch.size`. Compression happens once, at the end, so the estimate is of uncompressed bytes.

Follows org.apache.kafka.common.record.MemoryRecordsBuilder.
"""

from collections.abc import Sequence

from pykraft.records.batch import (
    CONTROL,
    HEADER_BYTES,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    packed_batch,
)
from pykraft.records.compression import Compression, Encoder, compress
from pykraft.records.record import NO_TIMESTAMP, Header, encode_record
from pykraft.records.varint import varint_size

_RECORD_OVERHEAD = 21
"""At most: length, attributes, timestamp delta and offset delta of one record. The lengths of key and value are not
counted, as Kafka does not count them: there is room for them while the deltas are as small as usual."""


class RecordBatchBuilder:
    """A batch under construction. Records get the offsets ``base_offset``, ``base_offset + 1``, ..."""

    def __init__(
        self,
        base_offset: int = 0,
        compression: Compression = Compression.NONE,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        leader_epoch: int = NO_LEADER_EPOCH,
        transactional: bool = False,
        control: bool = False,
        encode: Encoder = compress,
    ) -> None:
        self.base_offset = base_offset
        self.compression = compression
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.leader_epoch = leader_epoch
        self._encode = encode
        self._attributes = int(compression) | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
        self._data = bytearray()
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes of the batch if it were built now, before compression."""
        return HEADER_BYTES + len(self._data)

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
        """Add a record; returns its offset."""
        if self.count == 0:
            self._base_timestamp = timestamp
        encode_record(self._data, self.count, timestamp - self._base_timestamp, key, value, headers)
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self.count += 1
        return self.base_offset + self.count - 1

    def build(self) -> bytearray:
        """The finished batch."""
        assert self.count > 0, "a batch has at least one record"
        return packed_batch(
            self._encode(self.compression, self._data),
            base_offset=self.base_offset,
            leader_epoch=self.leader_epoch,
            attributes=self._attributes,
            last_offset_delta=self.count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            count=self.count,
        )


def estimated_size(key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
    """What a record adds to a batch, or somewhat more: Kafka's estimate. It may be too low by a few bytes for a large
    record whose timestamp is far from the first one's."""
    size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += 10 + len(name.encode()) + len(content or b"")
    return size + varint_size(len(headers))
