"""One record inside a batch (magic 2).

==================  =============  ====================================================================================
field               type           meaning
==================  =============  ====================================================================================
length              varint         bytes of everything below
attributes          int8           unused, 0
timestamp delta     varlong        milliseconds after the batch's base timestamp
offset delta        varint         after the batch's base offset
key length, key     varint, bytes  length -1 is a null key
value length, value varint, bytes  length -1 is a null value: on a compacted topic a tombstone, "this key is deleted"
header count        varint         then for each header: key length, key (UTF-8, never null), value length (-1 is null),
                                   value
==================  =============  ====================================================================================

Deltas keep the numbers small, and let the broker place a whole batch at an offset by changing one field of its header.
A base timestamp and a delta that leave 64 bits together wrap, as Java's numbers do.

Follows org.apache.kafka.common.record.DefaultRecord (KIP-98).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pykraft.common.errors import CorruptRecordError
from pykraft.records.varint import decode_varint, decode_varlong, encode_varint

Header = tuple[str, bytes | None]

NO_TIMESTAMP = -1
_LONGEST_HEAD = 5 + 1 + 10 + 5
"""Bytes of a record's length, attributes, timestamp delta and offset delta, at most."""


class Record(NamedTuple):
    """A record with its place in the log. `key` and `value` may be null."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


def wrapped(timestamp: int) -> int:
    """The number that 64 bits make of this sum or difference."""
    return ((timestamp + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def encode_record(
    out: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header] = (),
) -> None:
    """Write one record at the end of `out`."""
    body = bytearray(1)  # attributes
    body += encode_varint(timestamp_delta)
    body += encode_varint(offset_delta)
    put_bytes(body, key)
    put_bytes(body, value)
    body += encode_varint(len(headers))
    for name, content in headers:
        put_bytes(body, name.encode())
        put_bytes(body, content)
    out += encode_varint(len(body))
    out += body


def put_bytes(out: bytearray, value: bytes | None) -> None:
    """Write a length and these bytes at the end of `out`; -1 for null."""
    if value is None:
        out += b"\x01"  # zigzag of -1
    else:
        out += encode_varint(len(value))
        out += value


def decode_records(data: memoryview, count: int, base_offset: int, base_timestamp: int) -> Iterator[Record]:
    """The `count` records in a batch's uncompressed data; CorruptRecordError if there are fewer or more, or if a field
    leaves its record."""
    position = 0
    for _ in range(count):
        length, position = decode_varint(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise CorruptRecordError(f"a record claims {length} bytes, {len(data) - position} are left")
        yield _decode_body(data[position:end], base_offset, base_timestamp)
        position = end
    if position != len(data):
        raise CorruptRecordError(f"{len(data) - position} bytes follow the last of {count} records")


def decode_places(
    chunks: Iterable[bytes | memoryview], count: int, base_offset: int, base_timestamp: int
) -> Iterator[tuple[int, int]]:
    """(offset, timestamp) of each of the `count` records in a batch's data, which comes in chunks. However much there
    is of it, only the beginnings of records are looked at, and only one chunk is held at a time."""
    coming = iter(chunks)
    held = memoryview(b"")
    position = 0  # of the next record in what is held; perhaps behind its end
    for _ in range(count):
        while len(held) - position < _LONGEST_HEAD and (chunk := next(coming, None)) is not None:
            rest = bytes(held[position:])
            position = max(0, position - len(held))
            held = memoryview(rest + bytes(chunk) if rest else chunk)
        length, body = decode_varint(held, position)
        timestamp_delta, after = decode_varlong(held, body + 1)
        offset_delta, after = decode_varint(held, after)
        if length < after - body:
            raise CorruptRecordError(f"a record claims {length} bytes, its beginning has {after - body}")
        position = body + length
        yield base_offset + offset_delta, wrapped(base_timestamp + timestamp_delta)


def _decode_body(body: memoryview, base_offset: int, base_timestamp: int) -> Record:
    timestamp_delta, position = decode_varlong(body, 1)
    offset_delta, position = decode_varint(body, position)
    key, position = _take_bytes(body, position)
    value, position = _take_bytes(body, position)
    count, position = decode_varint(body, position)
    if not 0 <= count <= len(body):
        raise CorruptRecordError(f"a record of {len(body)} bytes claims {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _take_bytes(body, position)
        if name is None:
            raise CorruptRecordError("a record header has a null key")
        content, position = _take_bytes(body, position)
        headers.append((name.decode("utf-8", "replace"), content))
    if position != len(body):
        raise CorruptRecordError(f"a record's fields take {position} of its {len(body)} bytes")
    timestamp = base_timestamp + timestamp_delta
    if not -(1 << 63) <= timestamp < 1 << 63:
        timestamp = wrapped(timestamp)
    return Record(base_offset + offset_delta, timestamp, key, value, headers)


def _take_bytes(body: memoryview, position: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(body, position)
    if length < 0:
        return None, position
    end = position + length
    if end > len(body):
        raise CorruptRecordError(f"a field claims {length} bytes, {len(body) - position} are left in its record")
    return bytes(body[position:end]), end
