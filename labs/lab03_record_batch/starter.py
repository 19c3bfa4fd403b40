"""Lab 03: what are the bytes of a record batch?"""

import gzip  # noqa: F401 (you will need these)
import struct  # noqa: F401
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c  # noqa: F401


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
    raise NotImplementedError("Task 3.1: zigzag first, then seven bits at a time")


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number that begins at `position`, and the position after it."""
    raise NotImplementedError("Task 3.1: gather seven bits of each byte, then undo the zigzag")


# --- end of task 3.1 ---


# --- task 3.2: a record ---
def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """A record's bytes, in a batch with this first offset and first timestamp."""
    raise NotImplementedError("Task 3.2: make the body first, because its length comes before it")


def decode_record(
    data: bytes,
    position: int,
    base_offset: int,
    base_timestamp: int,
) -> tuple[Record, int]:
    """The record that begins at `position`, and the position after it."""
    raise NotImplementedError("Task 3.2: read field by field, in the order in which they were written")


# --- end of task 3.2 ---


# --- task 3.3: a batch is made ---
def encode_batch(
    records: Sequence[Record],
    codec: int = 0,
    leader_epoch: int = -1,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A batch of these records; `codec` is 0 (none) or 1 (gzip), `producer` is (id, epoch, first
    sequence number)."""
    raise NotImplementedError("Task 3.3: the records, perhaps packed, then the header around them")


# --- end of task 3.3 ---


# --- task 3.4: a batch is read ---
def decode_batch(data: bytes) -> list[Record]:
    """The records of a batch. CorruptBatchError if the bytes are not exactly one whole batch, or if a
    bit is wrong, or if its codec is neither none nor gzip."""
    raise NotImplementedError("Task 3.4: check first, unpack then")


# --- end of task 3.4 ---
