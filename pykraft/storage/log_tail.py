"""The last records of a log as cells: for a drawing of the log, never for a reader of records.

A run (`Cells`) is the piece of one batch that is among the last records: its offsets, its leader epoch, and what kind
of records it holds. Which records are committed follows from the high watermark, and is not said here.

A control batch after its records says how a transaction ended. So all markers that matter for the tail are in the tail,
and no index is asked: a transactional batch without a marker after it belongs to an open transaction.

It reads headers, and of a control batch the batch: at most `MOST_HEADERS` of them. A log that is being closed, or that
is damaged, has an empty tail. Kafka has no such class.
"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import RecordBatch
from pykraft.records.markers import read_marker
from pykraft.storage.log import UnifiedLog
from pykraft.storage.log_segment import LogSegment

MOST_HEADERS = 256
_LARGEST_MARKER = 1024
"""Bytes. A marker has 78; a control batch that claims more is not read."""


class CellKind(StrEnum):
    """What a record is, as far as transactions are concerned."""

    DATA = "data"
    """Outside of transactions."""
    OPEN = "open"
    """In a transaction that has not ended in this log."""
    COMMITTED = "committed"
    """In a transaction that ended with a COMMIT marker."""
    ABORTED = "aborted"
    """In a transaction that ended with an ABORT marker: no reader of committed data gets it."""
    COMMIT_MARKER = "commit marker"
    ABORT_MARKER = "abort marker"
    EMPTY = "empty"
    """Of a batch whose records compaction has left out: only its header is left."""
    CONTROL = "control"
    """Another control record."""


class Cells(NamedTuple):
    """The records from `base_offset` up to before `end_offset`, all of one batch."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    kind: CellKind = CellKind.DATA

    @property
    def size(self) -> int:
        """How many offsets there are; compaction may have left fewer records."""
        return self.end_offset - self.base_offset


def tail(log: UnifiedLog, count: int) -> tuple[Cells, ...]:
    """The last `count` offsets of the log; fewer if its newest segments have fewer, or have very many batches."""
    start = max(log.log_start_offset, log.log_end_offset - count)
    if start >= log.log_end_offset or count <= 0:
        return ()
    runs: list[Cells] = []
    outcomes: dict[int, bool] = {}
    try:
        for segment, position, header in reversed(list(_headers(log, start))):
            kind = _kind(segment, position, header, outcomes)
            runs.append(Cells(max(start, header.base_offset), header.next_offset, header.partition_leader_epoch, kind))
    except (CorruptRecordError, OSError):
        return ()
    return tuple(reversed(runs))


class Tails:
    """The tails of many logs that are looked at again and again: a log that has not changed since is not read."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[UnifiedLog, tuple[object, tuple[Cells, ...]]] = WeakKeyDictionary()

    def __call__(self, log: UnifiedLog, count: int) -> tuple[Cells, ...]:
        """The same as `tail`."""
        # A log changes at its ends, by truncation, or by compaction, which puts other segments in place.
        state = count, log.log_start_offset, log.log_end_offset, log.truncations, tuple(map(id, log.segments))
        known = self._known.get(log)
        if known is None or known[0] != state:
            known = self._known[log] = state, tail(log, count)
        return known[1]


def _headers(log: UnifiedLog, start: int) -> Iterator[tuple[LogSegment, int, RecordBatch]]:
    """The headers of the batches from the one that holds `start` on: all up to the log's end, or only the last one's if
    they are too many."""
    first = len(log.segments) - 1
    while first > 0 and log.segments[first].base_offset > start:
        first -= 1
    scans = (
        (segment, at.position, at.header)
        for segment in log.segments[first:]
        for at in segment.records.headers(segment.position_before(start))
    )
    found = list(islice(scans, MOST_HEADERS + 1))
    if len(found) <= MOST_HEADERS:
        return (entry for entry in found if entry[2].last_offset >= start)
    newest = log.active_segment.find(log.log_end_offset - 1)
    return iter([] if newest is None else [(log.active_segment, newest.position, newest.header)])


def _kind(segment: LogSegment, position: int, header: RecordBatch, outcomes: dict[int, bool]) -> CellKind:
    """The kind of a batch. It is asked from the last batch to the first: `outcomes` has what the markers after this one
    say, by producer id; True is a commit."""
    if header.is_control:
        if not header.is_transactional or header.size > _LARGEST_MARKER:
            return CellKind.CONTROL
        committed = outcomes[header.producer_id] = read_marker(segment.records.batch_at(position)).committed
        return CellKind.COMMIT_MARKER if committed else CellKind.ABORT_MARKER
    if not header.count:
        return CellKind.EMPTY
    if not header.is_transactional:
        return CellKind.DATA
    outcome = outcomes.get(header.producer_id)
    if outcome is None:
        return CellKind.OPEN
    return CellKind.COMMITTED if outcome else CellKind.ABORTED
