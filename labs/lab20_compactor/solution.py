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
def latest_offsets(batches: Iterable[Batch], first_dirty: int, most_keys: int) -> tuple[dict[bytes, int], int]:
    """Of each key in the dirty part, the offset of its last record; and the offset up to which the map
    knows the log. Once it holds `most_keys` no further batch goes in."""
    latest, end = {}, first_dirty
    for batch in batches:
        if len(latest) >= most_keys:
            break
        for record in batch.records:
            if record.key is not None and record.offset >= first_dirty:
                latest[record.key] = record.offset
        end = max(end, batch.last_offset + 1)
    return latest, end


# --- end of task 20.1 ---


# --- task 20.2: which records stay ---
def survivors(records: Iterable[Record], latest: dict[bytes, int], end: int, tombstones_stay: bool) -> list[Record]:
    """Those of the records that stay; `latest` and `end` are what `latest_offsets` returned."""
    found = []
    for record in records:
        is_replaced = latest.get(record.key, record.offset) > record.offset
        is_spent = record.value is None and not tombstones_stay
        if record.offset >= end or not (record.key is None or is_replaced or is_spent):
            found.append(record)
    return found


# --- end of task 20.2 ---


# --- task 20.3: a batch, and when its tombstones go ---
def clean_batch(batch: Batch, latest: dict[bytes, int], end: int, now_ms: int, retention_ms: int) -> Batch | None:
    """The batch with the records that stay; None if there are none."""
    horizon_ms = batch.horizon_ms
    is_past = horizon_ms is not None and horizon_ms <= now_ms
    records = survivors(batch.records, latest, end, not is_past)
    if horizon_ms is None and any(record.value is None for record in records):
        horizon_ms = now_ms + retention_ms
    return batch._replace(records=tuple(records), horizon_ms=horizon_ms) if records else None


# --- end of task 20.3 ---


# --- task 20.4: which segments are put together ---
def groups(segments: Iterable[Segment], max_bytes: int) -> list[list[Segment]]:
    """The segments in their order, those together that have at most `max_bytes`; a larger one stands
    alone."""
    found, size = [], 0
    for segment in segments:
        if not found or size + segment.size > max_bytes:
            found.append([])
            size = 0
        found[-1].append(segment)
        size += segment.size
    return found


# --- end of task 20.4 ---


# --- task 20.5: a pass ---
def compact(
    segments: Sequence[Segment], first_dirty: int, now_ms: int, retention_ms: int, most_keys: int, max_bytes: int
) -> tuple[list[list[Batch]], int]:
    """One pass over a log: the batches of each new segment, and the offset up to which the log is clean
    then. Segments from there on are left out."""
    batches = [batch for segment in segments for batch in segment.batches]
    latest, end = latest_offsets(batches, first_dirty, most_keys)
    cleaned = []
    for group in groups([segment for segment in segments if segment.base_offset < end], max_bytes):
        kept = []
        for batch in [batch for segment in group for batch in segment.batches]:
            clean = clean_batch(batch, latest, end, now_ms, retention_ms)
            if clean is None and batch.last_offset == group[-1].batches[-1].last_offset:
                clean = batch._replace(records=())
            if clean is not None:
                kept.append(clean)
        cleaned.append(kept)
    return cleaned, end


# --- end of task 20.5 ---
