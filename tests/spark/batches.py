"""Record batches made by hand, and the plain reading of them that the columns are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import ATTRIBUTES_OFFSET, CRC_OFFSET, HEADER, HEADER_BYTES, LOG_OVERHEAD, RecordBatch
from pykraft.records.compression import Compression, compress
from pykraft.records.crc32c import crc32c
from pykraft.records.record import Header, encode_record

Fields = tuple[int, int, bytes | None, bytes | None, Sequence[Header]]
"""Offset delta, timestamp delta, key, value, headers."""

ALL_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
Row = dict[str, Any]


def encoded(records: Iterable[Fields]) -> bytes:
    """The records as they stand in a batch."""
    out = bytearray()
    for offset_delta, timestamp_delta, key, value, headers in records:
        encode_record(out, offset_delta, timestamp_delta, key, value, headers)
    return bytes(out)


def raw_batch(
    data: bytes,
    count: int,
    base_offset: int = 0,
    *,
    last_offset_delta: int | None = None,
    compression: Compression = Compression.NONE,
    attributes: int = 0,
    base_timestamp: int = 1_700_000_000_000,
    max_timestamp: int = 1_700_000_000_000,
    producer_id: int = -1,
) -> RecordBatch:
    """A batch that holds `data`, which may be anything, and says that these are `count` records; its checksum is
    right."""
    payload = compress(compression, data)
    batch = bytearray(HEADER_BYTES) + payload
    last = count - 1 if last_offset_delta is None else last_offset_delta
    attributes |= compression
    HEADER.pack_into(
        batch,
        0,
        *(base_offset, len(batch) - LOG_OVERHEAD, 0, 2, 0, attributes, last),
        *(base_timestamp, max_timestamp, producer_id, -1, -1, count),
    )
    return sealed(batch)


def sealed(batch: bytearray) -> RecordBatch:
    """The batch with the checksum that its bytes have."""
    batch[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]).to_bytes(4, "big")
    return RecordBatch(memoryview(batch))


def plain_rows(batches: Iterable[RecordBatch], topic: str, partition: int, first: int, end: int) -> list[Row]:
    """The rows of these batches, read record by record with `RecordBatch.records`; CorruptRecordError as there, or if
    a timestamp does not fit into Spark's microseconds."""
    return list(_plain_rows(batches, topic, partition, first, end))


def _plain_rows(batches: Iterable[RecordBatch], topic: str, partition: int, first: int, end: int) -> Iterator[Row]:
    for batch in batches:
        for record in batch.records():
            if not first <= record.offset < end:
                continue
            if abs(record.timestamp) > ((1 << 63) - 1) // 1000:
                raise CorruptRecordError("too far away")
            yield {
                "key": record.key,
                "value": record.value,
                "topic": topic,
                "partition": partition,
                "offset": record.offset,
                "timestamp": record.timestamp * 1000,
                "timestampType": int(batch.uses_log_append_time),
                "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
            }
