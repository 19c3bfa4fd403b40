"""Taking records out of a batch: what compaction does to it. (And giving it another codec, which a topic may demand.)

Offsets never change, so a batch keeps its first and its last offset, its producer, its sequence numbers and its leader
epoch, whichever records go. If all of them go, the batch goes, or its header stays: as the trace of a producer, or as
the end of its segment.

A batch that still holds tombstones gets a *delete horizon*, once: the time from which on they may go. It takes the
place of the base timestamp (bit 6 of the attributes says so), and the records' timestamp deltas count from there. So it
travels with the bytes to every replica that copies them, and no clock is asked twice.

Records that stay are copied as bytes; only a new horizon rewrites their timestamps. Kafka also moves the base timestamp
to that of the first record that stays; readers see no difference.

Follows org.apache.kafka.common.record.MemoryRecords.filterTo (delete horizon: KIP-534).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pykraft.common.core import Steps
from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    TRANSACTIONAL,
    RecordBatch,
    packed_batch,
)
from pykraft.records.compression import Compression, compress, compress_in_steps, decompress
from pykraft.records.record import NO_TIMESTAMP, wrapped
from pykraft.records.varint import decode_varint, decode_varlong, encode_varint


class Outline(NamedTuple):
    """A record's place in its batch's data, and as much of it as compaction asks of every record."""

    start: int
    timestamp_at: int
    end: int
    offset: int
    key: bytes | None
    is_tombstone: bool


Keep = Callable[[Iterable[Outline]], list[Outline]]
"""Which of a batch's records stay. It is asked of all of them at once: a question for each would cost more than the
answer."""

_NEGATIVE = 1
"""The sign, in the first byte of a varint: a length below 0 is that of a null key or value."""
_outline = tuple.__new__  # a third of the time of Outline(...)


def unpacked(batch: RecordBatch) -> bytes:
    """The batch's records, decompressed; nothing of a batch that was emptied."""
    return bytes(decompress(batch.compression, batch.buffer[HEADER_BYTES:])) if batch.count else b""


def outlines(batch: RecordBatch, data: bytes) -> Iterator[Outline]:
    """The records in the unpacked data of this batch; CorruptRecordError where a length cannot be, or where more bytes
    follow. Of a record's value and headers nothing is looked at.

    This is the inner loop of compaction: numbers of one byte, which most are, and lengths of two are read in place, and
    timestamps are gone over."""
    base_offset, size = batch.base_offset, len(data)
    start = 0
    try:
        for _ in range(batch.count):
            octet, body = data[start], start + 2
            if octet > 127 and data[body - 1] < 128:
                length = (octet & 127 | data[body - 1] << 7) >> 1
            else:
                length, body = (octet >> 1, start + 1) if octet < 128 else decode_varint(data, start)
            end = body + length
            if octet & _NEGATIVE or end > size:
                raise CorruptRecordError(f"a record claims {length} bytes, {size - body} are left")
            timestamp_at = at = body + 1
            while data[at] > 127:
                at += 1
            octet, at = data[at + 1], at + 2
            if octet < 128:
                offset = base_offset + ((octet >> 1) ^ -(octet & 1))
            else:
                delta, at = decode_varint(data, at - 1)
                offset = base_offset + delta
            octet = data[at]
            if octet & _NEGATIVE:
                key, at = None, decode_varint(data, at)[1]
            else:
                key_length, at = (octet >> 1, at + 1) if octet < 128 else decode_varint(data, at)
                key = data[at : at + key_length]
                at += key_length
            if at >= end:
                raise CorruptRecordError("a key goes past the end of its record")
            yield _outline(Outline, (start, timestamp_at, end, offset, key, bool(data[at] & _NEGATIVE)))
            start = end
    except IndexError:
        raise CorruptRecordError("a record goes past the end of its batch") from None
    if start != size:
        raise CorruptRecordError(f"{size - start} bytes follow the last record that is counted")


def timestamp_of(batch: RecordBatch, data: bytes, outline: Outline) -> int:
    """The record's timestamp."""
    return wrapped(batch.base_timestamp + decode_varlong(data, outline.timestamp_at)[0])


def filtered(
    batch: RecordBatch, keep: Keep, horizon_ms: int, is_spent_marker: bool = False
) -> bytes | bytearray | memoryview | None:
    """The batch with those of its records that `keep` picks; None if there are none.

    `horizon_ms` becomes its delete horizon if it has none and needs one: for tombstones, or because it is the marker of
    a transaction of which nothing else is left (`is_spent_marker`).
    """
    data = unpacked(batch)
    kept = keep(outlines(batch, data))
    if not kept:
        return None
    has_reason = is_spent_marker or any(outline.is_tombstone for outline in kept)
    needs_horizon = has_reason and batch.delete_horizon_ms is None
    if len(kept) == batch.count and not needs_horizon:
        return batch.buffer
    base_timestamp = horizon_ms if needs_horizon else batch.base_timestamp
    if needs_horizon:
        records = b"".join(_retimed(batch, data, outline, base_timestamp) for outline in kept)
    else:
        records = b"".join(data[outline.start : outline.end] for outline in kept)
    return _rebuilt(
        batch,
        compress(batch.compression, records),
        count=len(kept),
        attributes=batch.attributes | (DELETE_HORIZON if needs_horizon else 0),
        base_timestamp=base_timestamp,
        max_timestamp=(
            batch.max_timestamp
            if batch.uses_log_append_time
            else max(timestamp_of(batch, data, outline) for outline in kept)
        ),
    )


def emptied(batch: RecordBatch, max_timestamp: int | None = None) -> bytearray:
    """The batch without any record: 61 bytes that keep its offsets and its producer's sequence numbers, and its largest
    timestamp unless another is given."""
    attributes = batch.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    youngest = batch.max_timestamp if max_timestamp is None else max_timestamp
    return _rebuilt(batch, b"", 0, attributes, NO_TIMESTAMP, youngest)


def repacked(
    batch: RecordBatch, records: memoryview, codec: Compression, level: int | None, base_timestamp: int
) -> Steps[bytearray]:
    """The batch with these records, uncompressed until now, under another codec."""
    attributes = (batch.attributes & TRANSACTIONAL) | codec
    data = yield from compress_in_steps(codec, records, level)
    return _rebuilt(batch, data, batch.count, attributes, base_timestamp, batch.max_timestamp)


def _retimed(batch: RecordBatch, data: bytes, outline: Outline, base_timestamp: int) -> bytes:
    """The record with its timestamp delta from another base."""
    delta, after_timestamp = decode_varlong(data, outline.timestamp_at)
    head = b"\x00" + encode_varint(wrapped(batch.base_timestamp + delta - base_timestamp))
    tail = data[after_timestamp : outline.end]
    return encode_varint(len(head) + len(tail)) + head + tail


def _rebuilt(
    batch: RecordBatch, records: bytes, count: int, attributes: int, base_timestamp: int, max_timestamp: int
) -> bytearray:
    return packed_batch(
        records,
        base_offset=batch.base_offset,
        leader_epoch=batch.partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        count=count,
    )
