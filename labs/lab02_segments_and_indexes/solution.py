"""Lab 02: how is an offset found, and how a time?"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence

Read = Callable[[int, int], bytes]
"""read(position, length): that many bytes of a file, from this position on."""


# --- task 2.1: which segment ---
def find_segment(base_offsets: Sequence[int], offset: int) -> int | None:
    """The base offset of the segment that would hold `offset`; None if it is before all of them.
    `base_offsets` are in ascending order."""
    count = bisect_right(base_offsets, offset)
    return base_offsets[count - 1] if count else None


# --- end of task 2.1 ---


# --- task 2.2: the index ---
def lookup_offset(read: Read, entries: int, base_offset: int, offset: int) -> tuple[int, int]:
    """The last entry of an .index at or below `offset`, as (offset, position); (base_offset, 0) if
    there is none."""
    found = last_at_or_below(read, entries, struct.Struct(">ii"), offset - base_offset)
    return (base_offset + found[0], found[1]) if found else (base_offset, 0)


def last_at_or_below(read: Read, entries: int, entry: struct.Struct, target: int) -> tuple[int, int] | None:
    """The last entry whose first number is at most the target: everything before `low` is known to be."""
    low, high, found = 0, entries, None
    while low < high:
        middle = (low + high) // 2
        numbers = entry.unpack(read(middle * entry.size, entry.size))
        if numbers[0] <= target:
            low, found = middle + 1, numbers
        else:
            high = middle
    return found


# --- end of task 2.2 ---


# --- task 2.3: the last steps ---
def find_batch(read: Read, size: int, position: int, offset: int) -> int | None:
    """Where in a .log of `size` bytes the batch begins that holds `offset`, or the first one after it;
    None past the last one. `position` is where to begin: a batch begins there."""
    while position < size:
        base_offset, length, last_delta = struct.unpack(">qi11xi", read(position, 27))
        if base_offset + last_delta >= offset:
            return position
        position += 12 + length
    return None


# --- end of task 2.3 ---


# --- task 2.4: the time index ---
def lookup_time(read: Read, entries: int, base_offset: int, timestamp: int) -> tuple[int, int]:
    """The last entry of a .timeindex at or before `timestamp`, as (timestamp, offset); (-1,
    base_offset) if there is none."""
    found = last_at_or_below(read, entries, struct.Struct(">qi"), timestamp)
    return (found[0], base_offset + found[1]) if found else (-1, base_offset)


# --- end of task 2.4 ---
