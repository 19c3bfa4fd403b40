"""Lab 01: what is left of a log after a crash?"""

import struct
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from crc32c import crc32c

Read = Callable[[int, int], bytes]
"""read(position, length): that many bytes of a file, from this position on."""


class Batch(NamedTuple):
    """A batch that is whole: its first and last offset, and the position after its last byte."""

    base_offset: int
    last_offset: int
    end: int


class Segment(NamedTuple):
    """A file of the log."""

    base_offset: int
    size: int
    read: Read


# --- task 1.1: is this batch whole ---
def batch_at(read: Read, size: int, position: int) -> Batch | None:
    """The batch that begins at `position` in a file of `size` bytes; None if there is none, or a
    damaged one."""
    if position + 61 > size:
        return None
    base_offset, length, magic, checksum, last_delta = struct.unpack(">qi4xbI2xi", read(position, 27))
    end = position + 12 + length
    if magic != 2 or length < 49 or end > size:
        return None
    if crc32c(read(position + 21, length - 9)) != checksum:
        return None
    return Batch(base_offset, base_offset + last_delta, end)


# --- end of task 1.1 ---


# --- task 1.2: where the good part ends ---
def recover(read: Read, size: int, base_offset: int) -> tuple[int, int]:
    """How many bytes of a segment are good, and the offset that comes after them. `base_offset` is the
    segment's."""
    position, next_offset = 0, base_offset
    while batch := batch_at(read, size, position):
        if batch.base_offset < next_offset:
            break
        position, next_offset = batch.end, batch.last_offset + 1
    return position, next_offset


# --- end of task 1.2 ---


# --- task 1.3: the index, rebuilt ---
def rebuild_index(read: Read, size: int, base_offset: int, interval_bytes: int) -> bytes:
    """The .index of a segment whose first `size` bytes are good: an entry for each batch that begins
    more than `interval_bytes` after the last one with an entry, or after the start."""
    index, indexed, position = b"", 0, 0
    while batch := batch_at(read, size, position):
        if position - indexed > interval_bytes:
            index += struct.pack(">ii", batch.last_offset - base_offset, position)
            indexed = position
        position = batch.end
    return index


# --- end of task 1.3 ---


# --- task 1.4: a log of many segments ---
def recover_log(segments: Sequence[Segment], recovery_point: int) -> tuple[list[tuple[int, int]], int]:
    """What stays of a log, as (base offset, bytes) for each segment, and the offset of the next record.
    All below `recovery_point` was synced, and is not read."""
    kept, end = [], segments[0].base_offset
    for segment, after in zip_longest(segments, segments[1:]):
        if after and after.base_offset <= recovery_point:
            size, end = segment.size, after.base_offset
        elif segment.base_offset == end:
            size, end = recover(segment.read, segment.size, segment.base_offset)
        else:
            break
        kept.append((segment.base_offset, size))
        if size < segment.size:
            break
    return kept, end


# --- end of task 1.4 ---
