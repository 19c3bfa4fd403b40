"""The record batch, magic 2: 61 bytes of header, then the records, perhaps compressed.

======  ====  =======================  ===============================================================================
offset  type  field                    meaning
======  ====  =======================  ===============================================================================
0       i64   base offset              the log's offset of the first record: set by the leader
8       i32   batch length             bytes that follow this field
12      i32   partition leader epoch   the epoch of the leader that appended it: set by the leader
16      i8    magic                    2
17      u32   crc                      CRC-32C of everything from `attributes` to the end
21      i16   attributes               bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
23      i32   last offset delta        of the last record; cleaning may remove records, never this
27      i64   base timestamp           of the first record (or the delete horizon, if bit 6 is set)
35      i64   max timestamp            of all records; with bit 3 the time of the append, which then is that of each
43      i64   producer id              -1 without idempotence
51      i16   producer epoch
53      i32   base sequence            of the first record
57      i32   count                    of the records
======  ====  =======================  ===============================================================================

The one fact to remember: the checksum begins after the fields that the leader sets. So a leader gives a batch its place
in the log by overwriting 12 bytes, and neither recompresses nor recomputes anything; followers, disks and consumers see
the bytes that the producer made (unless a setting of the topic wants more, or the header is wrong, see
`storage.validator`).

Follows org.apache.kafka.common.record.DefaultRecordBatch (KIP-98; leader epoch: KIP-101; delete horizon: KIP-534).
"""

import struct
from collections.abc import Iterator

from pykraft.common.errors import CorruptRecordError
from pykraft.records.compression import Compression, decompress, decompress_chunks
from pykraft.records.crc32c import crc32c
from pykraft.records.record import Record, decode_places, decode_records

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
LENGTH_OFFSET = 8
LOG_OVERHEAD = 12
"""Base offset and length: the bytes in front of what `batch length` counts."""
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21
MAX_TIMESTAMP_OFFSET = 35
CURRENT_MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
_ALL_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1
LARGEST_SEQUENCE = 0x7FFFFFFF
LARGEST_OFFSET = (1 << 63) - 1
"""Where a log may end at most."""

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_PLACE = struct.Struct(">qii")
"""Base offset, batch length and leader epoch."""
_INT64 = struct.Struct(">q")
_UINT32 = struct.Struct(">I")
_INT16 = struct.Struct(">h")


class RecordBatch:
    """One batch in the buffer that holds it. The fields of its header are read when this object is made, its records'
    bytes stay where they are. Only `assign`, `set_max_timestamp` and `stamp` change the buffer; to set an attribute
    does not."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "buffer",
        "count",
        "crc",
        "last_offset",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "size",
    )

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    def __init__(self, buffer: memoryview) -> None:
        """`buffer` holds exactly this batch."""
        self.buffer = buffer
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = HEADER.unpack_from(buffer)
        self.last_offset = self.base_offset + self.last_offset_delta
        self.size = LOG_OVERHEAD + self.batch_length
        """Bytes of the whole batch."""

    def __repr__(self) -> str:
        return f"RecordBatch({self.base_offset}..{self.last_offset}, epoch {self.partition_leader_epoch})"

    @property
    def next_offset(self) -> int:
        """The first offset that may come after the batch."""
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """Sequence numbers are 31 bits wide and wrap to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        last = self.base_sequence + self.last_offset_delta
        return last if last <= LARGEST_SEQUENCE else last - LARGEST_SEQUENCE - 1

    @property
    def has_producer_id(self) -> bool:
        """Whether its producer is idempotent, or transactional."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def compression(self) -> Compression:
        """What its records are packed with; CorruptRecordError if there is no such codec."""
        try:
            return Compression(self.attributes & CODEC_MASK)
        except ValueError:
            raise CorruptRecordError(f"a batch names codec {self.attributes & CODEC_MASK}") from None

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction, or is the marker that ends one."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it was written by the brokers for themselves: consumers never see it."""
        return bool(self.attributes & CONTROL)

    @property
    def uses_log_append_time(self) -> bool:
        """Whether its records all have the time of the append as their timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When cleaning may drop the tombstones and markers of this batch."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def is_valid(self) -> bool:
        """Whether the bytes are those that the checksum was made of."""
        return crc32c(self.buffer[ATTRIBUTES_OFFSET:]) == self.crc

    def records(self) -> Iterator[Record]:
        """Its records, decompressed and decoded; CorruptRecordError where they cannot be read. The bytes of a batch
        that counts none are not read."""
        if not self.count:
            return
        if self.count < 0:
            raise CorruptRecordError(f"{self} counts {self.count} records")
        data = decompress(self.compression, self.buffer[HEADER_BYTES:])
        for record in decode_records(data, self.count, self.base_offset, self.base_timestamp):
            yield record._replace(timestamp=self.max_timestamp) if self.uses_log_append_time else record

    def places(self) -> Iterator[tuple[int, int]]:
        """(offset, timestamp) of its records, without unpacking all of it at once: what a broker looks for is here, and
        what producers send may decompress to anything. CorruptRecordError where it cannot be read; none of a batch that
        counts none, or less."""
        chunks = decompress_chunks(self.compression, self.buffer[HEADER_BYTES:])
        for offset, timestamp in decode_places(chunks, self.count, self.base_offset, self.base_timestamp):
            yield offset, self.max_timestamp if self.uses_log_append_time else timestamp

    def assign(self, base_offset: int, leader_epoch: int) -> None:
        """Give the batch its place in a log, in the buffer itself; the checksum stays right, and the length between
        offset and epoch what it is."""
        _PLACE.pack_into(self.buffer, 0, base_offset, self.batch_length, leader_epoch)
        self.base_offset = base_offset
        self.last_offset = base_offset + self.last_offset_delta
        self.partition_leader_epoch = leader_epoch

    def set_max_timestamp(self, max_timestamp: int) -> None:
        """Let this be the largest of the producer's timestamps. If it is not already, this changes the checksum, and
        clears attributes that mean nothing."""
        if self.max_timestamp != max_timestamp or self.attributes & LOG_APPEND_TIME:
            self._set_timestamp(self.attributes & ~LOG_APPEND_TIME, max_timestamp)

    def stamp(self, log_append_time_ms: int) -> None:
        """Replace the producer's timestamps by the time of the append. This changes the checksum, and clears attributes
        that mean nothing."""
        self._set_timestamp(self.attributes | LOG_APPEND_TIME, log_append_time_ms)

    def _set_timestamp(self, attributes: int, max_timestamp: int) -> None:
        self.attributes = attributes = attributes & _ALL_ATTRIBUTES
        self.max_timestamp = max_timestamp
        _INT16.pack_into(self.buffer, ATTRIBUTES_OFFSET, attributes)
        _INT64.pack_into(self.buffer, MAX_TIMESTAMP_OFFSET, max_timestamp)
        self.crc = crc32c(self.buffer[ATTRIBUTES_OFFSET:])
        _UINT32.pack_into(self.buffer, CRC_OFFSET, self.crc)


def packed_batch(
    records: bytes | bytearray,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytearray:
    """The batch with this header and these records, which are compressed already; with its checksum."""
    batch = bytearray(HEADER_BYTES)
    batch += records
    length, crc = len(batch) - LOG_OVERHEAD, 0
    before_crc = (base_offset, length, leader_epoch, CURRENT_MAGIC)
    timestamps, producer = (base_timestamp, max_timestamp), (producer_id, producer_epoch, base_sequence)
    HEADER.pack_into(batch, 0, *before_crc, crc, attributes, last_offset_delta, *timestamps, *producer, count)
    _UINT32.pack_into(batch, CRC_OFFSET, crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]))
    return batch


def batches(buffer: memoryview) -> Iterator[RecordBatch]:
    """The whole batches in the buffer, in order. A last one that is cut off is left out: a fetch may end anywhere.

    Raises CorruptRecordError at a length that no batch can have or another magic than 2.
    """
    position = 0
    end = len(buffer)
    while position + HEADER_BYTES <= end:
        _, length = _OFFSET_AND_LENGTH.unpack_from(buffer, position)
        if length < HEADER_BYTES - LOG_OVERHEAD:
            raise CorruptRecordError(f"a batch claims {length} bytes, its header alone has {HEADER_BYTES}")
        if buffer[position + MAGIC_OFFSET] != CURRENT_MAGIC:
            raise CorruptRecordError(f"a batch has magic {buffer[position + MAGIC_OFFSET]}, not {CURRENT_MAGIC}")
        following = position + LOG_OVERHEAD + length
        if following > end:
            return
        yield RecordBatch(buffer[position:following])
        position = following
