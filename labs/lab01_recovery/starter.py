"""Lab 01: what is left of a log after a crash?"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from crc32c import crc32c  # noqa: F401 (you will need it)

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
    raise NotImplementedError("Task 1.1: is there room, is it a header, does its checksum hold?")


# --- end of task 1.1 ---


# --- task 1.2: where the good part ends ---
def recover(read: Read, size: int, base_offset: int) -> tuple[int, int]:
    """How many bytes of a segment are good, and the offset that comes after them. `base_offset` is the
    segment's."""
    raise NotImplementedError("Task 1.2: go on until a batch is damaged or does not follow")


# --- end of task 1.2 ---


# --- task 1.3: the index, rebuilt ---
def rebuild_index(read: Read, size: int, base_offset: int, interval_bytes: int) -> bytes:
    """The .index of a segment whose first `size` bytes are good: an entry for each batch that begins
    more than `interval_bytes` after the last one with an entry, or after the start."""
    raise NotImplementedError("Task 1.3: go from batch to batch, and make an entry now and then")


# --- end of task 1.3 ---


# --- task 1.4: a log of many segments ---
def recover_log(segments: Sequence[Segment], recovery_point: int) -> tuple[list[tuple[int, int]], int]:
    """What stays of a log, as (base offset, bytes) for each segment, and the offset of the next record.
    All below `recovery_point` was synced, and is not read."""
    raise NotImplementedError("Task 1.4: which segments were synced, which are read, and the end?")


# --- end of task 1.4 ---
