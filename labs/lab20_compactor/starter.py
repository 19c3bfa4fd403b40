"""Lab 20: what may be forgotten of a log?"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Record(NamedTuple):
    """A record; one without a value is a tombstone."""

    offset: int
    key: bytes | None
    value: bytes | None


class Batch(NamedTuple):
    """Some records, and the first and the last offset that the batch was made with. From `horizon_ms`
    on its tombstones may go; None if that is not decided yet."""

    first_offset: int
    last_offset: int
    records: tuple[Record, ...]
    horizon_ms: int | None = None


class Segment(NamedTuple):
    """A file of the log: its first offset, its bytes, and its batches, of which there is at least
    one."""

    base_offset: int
    size: int
    batches: tuple[Batch, ...]


# --- task 20.1: the map ---
def latest_offsets(
    batches: Iterable[Batch],
    first_dirty: int,
    most_keys: int,
) -> tuple[dict[bytes, int], int]:
    """Of each key in the dirty part, the offset of its last record; and the offset up to which the map
    knows the log. Once it holds `most_keys` no further batch goes in."""
    raise NotImplementedError("Task 20.1: go through the batches, and remember each key's last offset")


# --- end of task 20.1 ---


# --- task 20.2: which records stay ---
def survivors(
    records: Iterable[Record],
    latest: dict[bytes, int],
    end: int,
    tombstones_stay: bool,
) -> list[Record]:
    """Those of the records that stay; `latest` and `end` are what `latest_offsets` returned."""
    raise NotImplementedError("Task 20.2: if the map knows the record, three reasons make it go")


# --- end of task 20.2 ---


# --- task 20.3: a batch, and when its tombstones go ---
def clean_batch(
    batch: Batch,
    latest: dict[bytes, int],
    end: int,
    now_ms: int,
    retention_ms: int,
) -> Batch | None:
    """The batch with the records that stay; None if there are none."""
    raise NotImplementedError("Task 20.3: has the horizon passed, what stays, is there one to be set?")


# --- end of task 20.3 ---


# --- task 20.4: which segments are put together ---
def groups(segments: Iterable[Segment], max_bytes: int) -> list[list[Segment]]:
    """The segments in their order, those together that have at most `max_bytes`; a larger one stands
    alone."""
    raise NotImplementedError("Task 20.4: go on with the last group while the next segment fits")


# --- end of task 20.4 ---


# --- task 20.5: a pass ---
def compact(
    segments: Sequence[Segment],
    first_dirty: int,
    now_ms: int,
    retention_ms: int,
    most_keys: int,
    max_bytes: int,
) -> tuple[list[list[Batch]], int]:
    """One pass over a log: the batches of each new segment, and the offset up to which the log is clean
    then. Segments from there on are left out."""
    raise NotImplementedError("Task 20.5: make the map, then clean group by group and batch by batch")


# --- end of task 20.5 ---
