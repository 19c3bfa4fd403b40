"""Lab 03: what are the bytes of a record batch?"""

import gzip
import struct
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c


class Record(NamedTuple):
    """A record with its place in the log; `timestamp` in milliseconds, `headers` as (name, value)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class CorruptBatchError(Exception):
    """These bytes are no batch that can be read."""


# --- task 3.1: numbers of any length ---
def encode_varint(number: int) -> bytes:
    """A number in zigzag, seven bits a byte, the lowest first."""
    zigzag = number * 2 if number >= 0 else -number * 2 - 1
    out = b""
    while zigzag >= 128:
        out += bytes([zigzag & 127 | 128])
        zigzag >>= 7
    return out + bytes([zigzag])


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number that begins at `position`, and the position after it."""
    zigzag = shift = 0
    while data[position] & 128:
        zigzag |= (data[position] & 127) << shift
        position, shift = position + 1, shift + 7
    zigzag |= data[position] << shift
    return (zigzag >> 1) ^ -(zigzag & 1), position + 1


# --- end of task 3.1 ---


# --- task 3.2: a record ---
def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """A record's bytes, in a batch with this first offset and first timestamp."""
    body = b"\0" + encode_varint(record.timestamp - base_timestamp) + encode_varint(record.offset - base_offset)
    body += encode_bytes(record.key) + encode_bytes(record.value) + encode_varint(len(record.headers))
    for name, value in record.headers:
        body += encode_bytes(name.encode()) + encode_bytes(value)
    return encode_varint(len(body)) + body


def encode_bytes(value: bytes | None) -> bytes:
    """A length and that many bytes; a null has length -1."""
    return encode_varint(-1) if value is None else encode_varint(len(value)) + value


def decode_record(data: bytes, position: int, base_offset: int, base_timestamp: int) -> tuple[Record, int]:
    """The record that begins at `position`, and the position after it."""
    _, position = decode_varint(data, position)
    timestamp, position = decode_varint(data, position + 1)
    offset, position = decode_varint(data, position)
    key, position = decode_bytes(data, position)
    value, position = decode_bytes(data, position)
    count, position = decode_varint(data, position)
    headers = []
    for _ in range(count):
        name, position = decode_bytes(data, position)
        content, position = decode_bytes(data, position)
        headers.append((name.decode(), content))
    return Record(base_offset + offset, base_timestamp + timestamp, key, value, tuple(headers)), position


def decode_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    """What `encode_bytes` wrote, and the position after it."""
    length, position = decode_varint(data, position)
    return (None, position) if length < 0 else (data[position : position + length], position + length)


# --- end of task 3.2 ---


# --- task 3.3: a batch is made ---
def encode_batch(
    records: Sequence[Record], codec: int = 0, leader_epoch: int = -1, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytes:
    """A batch of these records; `codec` is 0 (none) or 1 (gzip), `producer` is (id, epoch, first
    sequence number)."""
    first, last = records[0], records[-1]
    data = b"".join(encode_record(record, first.offset, first.timestamp) for record in records)
    if codec == 1:
        data = gzip.compress(data)
    newest, delta = max(record.timestamp for record in records), last.offset - first.offset
    checked = struct.pack(">hiqqqhii", codec, delta, first.timestamp, newest, *producer, len(records)) + data
    return struct.pack(">qiibI", first.offset, len(checked) + 9, leader_epoch, 2, crc32c(checked)) + checked


# --- end of task 3.3 ---


# --- task 3.4: a batch is read ---
def decode_batch(data: bytes) -> list[Record]:
    """The records of a batch. CorruptBatchError if the bytes are not exactly one whole batch, or if a
    bit is wrong, or if its codec is neither none nor gzip."""
    if len(data) < 61:
        raise CorruptBatchError(f"a header has 61 bytes, and there are {len(data)}")
    offset, length, _, magic, checksum = struct.unpack_from(">qiibI", data)
    attributes, _, timestamp, newest, *_, count = struct.unpack_from(">hiqqqhii", data, 21)
    if magic != 2:
        raise CorruptBatchError(f"magic {magic}")
    if length != len(data) - 12:
        raise CorruptBatchError(f"there are {len(data)} bytes, and its length is {length}")
    if crc32c(data[21:]) != checksum:
        raise CorruptBatchError("the checksum is wrong")
    if attributes & 7 > 1:
        raise CorruptBatchError("a codec that is neither none nor gzip")
    packed = data[61:]
    records = gzip.decompress(packed) if attributes & 7 else packed
    found, position = [], 0
    for _ in range(count):
        record, position = decode_record(records, position, offset, timestamp)
        found.append(record._replace(timestamp=newest) if attributes & 8 else record)
    return found


# --- end of task 3.4 ---
