"""Finding the offset of a time in a log, with pauses.

The headers of batches say which batch can hold the record that is asked for; its records must be unpacked, and a
batch of a hundred kilobytes may hold a hundred thousand. One after the other they take a tenth of a second, and
`offsetsForTimes` of a consumer asks forty partitions at once. So both searches are `Steps`. Whatever happens to the log
while they pause (a segment that retention deletes, or that compaction replaces) makes them begin again; a log that is
closed has no offsets.

Follows org.apache.kafka.storage.internals.log.UnifiedLog.fetchOffsetByTimestamp.
"""

from collections.abc import Sequence
from typing import Protocol

from pykraft.common.core import Steps
from pykraft.records.batch import NO_LEADER_EPOCH
from pykraft.storage.answers import TimestampedOffset
from pykraft.storage.leader_epoch_cache import LeaderEpochCache
from pykraft.storage.log_segment import LogSegment


class SearchedLog(Protocol):
    """What the searches read of a log; `pykraft.storage.log.UnifiedLog` is one."""

    epochs: LeaderEpochCache

    @property
    def is_closed(self) -> bool: ...
    @property
    def segments(self) -> Sequence[LogSegment]: ...
    @property
    def log_start_offset(self) -> int: ...


def offset_for_timestamp(log: SearchedLog, timestamp: int) -> Steps[TimestampedOffset | None]:
    """The first record that is at least as young; None if all are older."""
    while not log.is_closed:
        for segment in log.segments:
            if segment.is_gone:
                break
            if segment.size and segment.largest_timestamp().timestamp >= timestamp:
                found = yield from segment.find_timestamp(timestamp, log.log_start_offset)
                if found is not None:
                    return _with_epoch(log, *found)
                if segment.is_gone:
                    break
        else:
            return None
    return None


def offset_of_max_timestamp(log: SearchedLog) -> Steps[TimestampedOffset | None]:
    """The first record that has the largest timestamp; None in an empty log."""
    while not log.is_closed:
        segments = log.segments
        claims = [(segment.largest_timestamp().timestamp, segment) for segment in segments if segment.size]
        best: tuple[int, int] | None = None
        for claimed, segment in sorted(claims, key=lambda claim: claim[0], reverse=True):
            if segment.is_gone or (best is not None and best[0] >= claimed):
                break
            found = yield from segment.find_youngest(log.log_start_offset)
            if found is not None and (best is None or found[0] > best[0]):
                best = found
        if not any(segment.is_gone for segment in segments):
            return _with_epoch(log, *best) if best is not None else None
    return None


def _with_epoch(log: SearchedLog, timestamp: int, offset: int) -> TimestampedOffset:
    epoch = log.epochs.epoch_for(offset)
    return TimestampedOffset(timestamp, offset, NO_LEADER_EPOCH if epoch is None else epoch)
