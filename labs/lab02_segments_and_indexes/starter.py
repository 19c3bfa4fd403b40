"""Lab 02: how is an offset found, and how a time?"""

from collections.abc import Callable, Sequence

Read = Callable[[int, int], bytes]
"""read(position, length): that many bytes of a file, from this position on."""


# --- task 2.1: which segment ---
def find_segment(base_offsets: Sequence[int], offset: int) -> int | None:
    """The base offset of the segment that would hold `offset`; None if it is before all of them.
    `base_offsets` are in ascending order."""
    raise NotImplementedError("Task 2.1: which is the last base offset that is not above the offset?")


# --- end of task 2.1 ---


# --- task 2.2: the index ---
def lookup_offset(read: Read, entries: int, base_offset: int, offset: int) -> tuple[int, int]:
    """The last entry of an .index at or below `offset`, as (offset, position); (base_offset, 0) if
    there is none."""
    raise NotImplementedError("Task 2.2: an entry has 8 bytes, and each step rules out half of them")


# --- end of task 2.2 ---


# --- task 2.3: the last steps ---
def find_batch(read: Read, size: int, position: int, offset: int) -> int | None:
    """Where in a .log of `size` bytes the batch begins that holds `offset`, or the first one after it;
    None past the last one. `position` is where to begin: a batch begins there."""
    raise NotImplementedError("Task 2.3: read a header, decide, and jump to the next one")


# --- end of task 2.3 ---


# --- task 2.4: the time index ---
def lookup_time(read: Read, entries: int, base_offset: int, timestamp: int) -> tuple[int, int]:
    """The last entry of a .timeindex at or before `timestamp`, as (timestamp, offset); (-1,
    base_offset) if there is none."""
    raise NotImplementedError("Task 2.4: an entry has 12 bytes; the search is the one of task 2.2")


# --- end of task 2.4 ---
