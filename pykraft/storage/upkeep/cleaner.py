"""One pass of compaction over one log: keep the last record of each key, and change no offset.

::

    clean                          dirty                    cannot be cleaned yet
    [ k1 k2 k3 ... ][ ... ]        [ k2 k9 ][ k1 k2 ]       [ ... ][ active ]
    ^ log start                    ^ first dirty offset     ^ first uncleanable offset

First the log is synced, with all that the pass builds on: a loss of power must not take the newer record, or the end of
a transaction, after the older record has gone for it. Then the dirty part is read and a *map* is made: of each key, the
offset of its last record. At last everything up to there is read, segment by segment, and copied without the records
that have a later one in the map. What was clean before is copied, too: a key in it may have been written again.
Segments that have become small are put together.

What stays besides the last values:

* a *tombstone* (a record without a value), until the delete horizon that the pass that first met it gave its batch: so
  long a reader that began before has time to see it;
* a transaction's *marker*, until nothing is left of the transaction, and then as long as a tombstone;
* the last batch of each *producer* that the log knows, if need be without its records: it holds the sequence number;
* the last batch of each new segment, if need be without its records, and then with the largest timestamp of what is
  left before it (its own if nothing is). So a segment ends where the next one begins, and recovery can tell compaction
  from loss. (Kafka keeps the one batch where the pass ended.)

Records of aborted transactions go at once, as no consumer may read them, and the aborted transaction stays in the index
if the pass still met one of its batches. Records without a key have no place in a compacted log.

Memory is bounded: the map holds a limited number of keys, of at most 49 bytes each, and a pass ends early where it is
full, if need be within a batch. What is read is held one batch at a time, unpacked, and a megabyte at a time of what is
written. The work is done in pieces (`PIECE_BYTES` read), between which others get their turn, and each new segment is
taken into the log before the next one is begun.

Follows org.apache.kafka.storage.internals.log.{Cleaner,SkimpyOffsetMap,CleanedTransactionMetadata}.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from pykraft.common.errors import CorruptRecordError
from pykraft.common.settings.config import Config
from pykraft.common.settings.topic_config import (
    DELETE_RETENTION_MS,
    FOREVER_MS,
    INTERNAL_SEGMENT_BYTES,
    SEGMENT_BYTES,
    SEGMENT_INDEX_BYTES,
)
from pykraft.records.batch import HEADER_BYTES, RecordBatch
from pykraft.records.filtering import Outline, emptied, filtered, outlines, unpacked
from pykraft.records.markers import read_marker
from pykraft.storage.disk.filesystem import Data, FileSystem, is_gone
from pykraft.storage.log import UnifiedLog
from pykraft.storage.log_segment import MAX_RELATIVE_OFFSET, LogSegment
from pykraft.storage.segment_files import CLEANED_SUFFIX, remove_segment_files
from pykraft.storage.transaction_index import AbortedTransaction

PIECE_BYTES = 8 << 20
_WRITE_BYTES = 1 << 20
_LONGEST_KEY = 48
ENTRY_BYTES = 200
"""What a key costs in the map, its share of the hash table included."""


class OffsetMap:
    """Of each key, the offset of its last record. A long key is held as its digest, which is longer than any key that
    is held as it is."""

    def __init__(self, buffer_bytes: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._limit = max(1, buffer_bytes // ENTRY_BYTES)
        self.latest_offset = -1
        """The last offset that the map knows of."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        """How much of its memory the map has used."""
        return len(self._offsets) / self._limit

    def note(self, records: Iterable[Outline], first_offset: int) -> bool:
        """Take in the records from `first_offset` on; whether there was room for all of them. If not, the map knows of
        those before the first for which there was none."""
        offsets, limit = self._offsets, self._limit
        for _, _, _, offset, key, _ in records:
            if key is not None and offset >= first_offset:
                if len(offsets) >= limit:
                    self.latest_offset = offset - 1
                    return False
                offsets[key if len(key) <= _LONGEST_KEY else digest(key)] = offset
        return True

    def pick(self, records: Iterable[Outline], tombstones_stay: bool) -> list[Outline]:
        """Those of the records that have no later one in the map, or come after all that it knows of."""
        latest, find = self.latest_offset, self._offsets.get
        picked = []
        for record in records:
            _, _, _, offset, key, is_tombstone = record
            if offset <= latest:
                if key is None or (is_tombstone and not tombstones_stay):
                    continue
                if offset < find(key if len(key) <= _LONGEST_KEY else digest(key), -1):
                    continue
            picked.append(record)
        return picked


def digest(key: bytes) -> bytes:
    """A digest in place of a long key."""
    return blake2b(key, digest_size=_LONGEST_KEY + 1).digest()


class CleanedTransactions:
    """What became of the transactions whose batches a pass goes by, in the order of the log."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._observed: set[int] = set()
        """Producers of whose open aborted transaction a batch was there."""
        self._committed: set[int] = set()

    def pass_batch(self, batch: RecordBatch) -> bool:
        """Go by a batch of records; whether it was aborted."""
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._observed.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def pass_marker(self, batch: RecordBatch) -> tuple[bool, AbortedTransaction | None]:
        """Go by a control batch: whether nothing is left of what it decided, and the index entry that must stay."""
        self._begin_up_to(batch.last_offset)
        if not batch.count:
            return True, None  # its marker went before
        if not batch.has_producer_id:
            return False, None  # no end of a transaction
        if read_marker(batch).committed:
            was_there = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not was_there, None
        entry = self._aborted.pop(batch.producer_id, None)
        was_there = batch.producer_id in self._observed
        self._observed.discard(batch.producer_id)
        return (False, entry) if was_there else (True, None)

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            entry = self._coming.popleft()
            self._aborted.setdefault(entry.producer_id, entry)


class LastRecord(NamedTuple):
    """The last that a producer wrote, as the log knows it: its last batch of records, if there is one, else a marker
    of its epoch."""

    offset: int | None
    epoch: int


class Step(Enum):
    """Where a pass has come to."""

    PAUSE = "there is more to do"
    CLEANED = "a group of segments is cleaned: the new segment waits to be taken into the log"
    DONE = "the log is clean up to `end_offset`"
    OVERTAKEN = "the log was truncated or closed meanwhile: the pass is worth nothing"


@dataclass(kw_only=True)
class Cleaning:
    """One pass. It is made on the node's own thread; `step` runs elsewhere. There it syncs the log, the active segment,
    too, for a sync may run beside appends; it reads segments that get no more batches, and writes files of its own. All
    else of the log is changed by `take_into_log`, on the node's own thread."""

    filesystem: FileSystem
    log: UnifiedLog
    config: Config
    segments: list[LogSegment]
    """All before the first uncleanable one."""
    unsynced: list[LogSegment]
    """Those that a loss of power could still shorten, the active one among them."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    aborted: list[AbortedTransaction]
    """The aborted transactions of these segments."""
    last_records: Mapping[int, LastRecord]
    buffer_bytes: int
    """How much memory the map of keys may take."""
    truncations: int
    """How often the log had been truncated."""
    group: list[LogSegment] = field(default_factory=list)
    """The segments that are being replaced."""
    read_bytes: int = 0
    written_bytes: int = 0
    piece_bytes: int = PIECE_BYTES
    """How much is read between two pauses."""
    _paused_at: int = 0

    def __post_init__(self) -> None:
        self.offsets = OffsetMap(self.buffer_bytes)
        self.steps = self._run()

    @classmethod
    def of(
        cls,
        filesystem: FileSystem,
        log: UnifiedLog,
        *,
        first_dirty_offset: int,
        end_offset: int,
        now_ms: int,
        buffer_bytes: int,
        piece_bytes: int = PIECE_BYTES,
    ) -> "Cleaning":
        """A pass over `log`, of which [first_dirty_offset, end_offset) is to be cleaned; a segment begins there."""
        producers = log.producer_state.producers
        return cls(
            filesystem=filesystem,
            log=log,
            config=log.config,
            segments=[segment for segment in log.segments if segment.base_offset < end_offset],
            unsynced=log.unsynced_segments,
            first_dirty_offset=first_dirty_offset,
            first_uncleanable_offset=end_offset,
            now_ms=now_ms,
            aborted=log.aborted_transactions(0, end_offset),
            last_records={
                producer_id: LastRecord(entry.last_offset if entry.batches else None, entry.epoch)
                for producer_id, entry in producers.items()
            },
            buffer_bytes=buffer_bytes,
            piece_bytes=piece_bytes,
            truncations=log.truncations,
        )

    @property
    def end_offset(self) -> int:
        """Up to where the log is clean, once the pass is done."""
        return self.offsets.latest_offset + 1

    @property
    def is_overtaken(self) -> bool:
        """Whether the log was truncated or closed meanwhile: then the pass is worth nothing."""
        return self.truncations != self.log.truncations or self.log.is_closed

    def step(self) -> Step:
        """Work up to the next place where others get their turn. CorruptRecordError if the log cannot be read, OSError
        if the disk fails."""
        try:
            step = next(self.steps, Step.DONE)
        except (OSError, CorruptRecordError) as error:
            self.take_back()
            if not self.is_overtaken or (isinstance(error, OSError) and not is_gone(error)):
                raise
            return Step.OVERTAKEN
        if self.is_overtaken:
            self.take_back()
            return Step.OVERTAKEN
        return step

    def take_into_log(self) -> None:
        """Swap the segment that is cleaned; on the node's own thread."""
        self.log.replace_segments(self.group)

    def take_back(self) -> None:
        """Stop, and remove what was written and is not in the log."""
        self.steps.close()
        if self.group:
            with suppress(FileNotFoundError):  # the log may be deleted just now, and its folder have another name
                directory, base_offset = self.log.directory, self.group[0].base_offset
                remove_segment_files(self.filesystem, directory, base_offset, CLEANED_SUFFIX)

    def _run(self) -> Generator[Step, None, None]:
        if not self.log.sync_segments(self.unsynced):
            yield Step.OVERTAKEN
            return
        yield from self._make_map()
        transactions = CleanedTransactions(self.aborted)
        for group in list(self._groups()):
            self.group = group
            yield from self._clean(group, transactions)
            yield Step.CLEANED
            self.group = []

    def _turn(self) -> Iterator[Step]:
        if self.read_bytes - self._paused_at >= self.piece_bytes:
            self._paused_at = self.read_bytes
            yield Step.PAUSE

    def _batches(self, segment: LogSegment, position: int = 0) -> Iterator[tuple[int, RecordBatch]]:
        following = segment.base_offset
        for start, batch in segment.records.batches(position):
            if not segment.continues(following, batch) or not batch.is_valid:
                raise CorruptRecordError(f"{batch} of {self.log.topic_partition} fails its checksum or order")
            following = batch.next_offset
            self.read_bytes += batch.size
            yield start, batch

    def _segments_with_ends(self) -> Iterator[tuple[LogSegment, int]]:
        """The segments, each with the offset where the next one begins."""
        begins = [segment.base_offset for segment in self.segments]
        return zip(self.segments, [*begins[1:], self.first_uncleanable_offset], strict=True)

    # --- the map ------------------------------------------------------------------------------------------------------

    def _make_map(self) -> Iterator[Step]:
        first = self.first_dirty_offset
        transactions = CleanedTransactions([each for each in self.aborted if each.last_offset >= first])
        self.offsets.latest_offset = first - 1
        for segment, segment_end in self._segments_with_ends():
            if segment_end <= first:
                continue
            for _, batch in self._batches(segment, segment.position_before(first)):
                if not self._note(batch, transactions):
                    return
                self.offsets.latest_offset = max(self.offsets.latest_offset, batch.last_offset)
                yield from self._turn()
            self.offsets.latest_offset = segment_end - 1

    def _note(self, batch: RecordBatch, transactions: CleanedTransactions) -> bool:
        """Take the batch into the map; whether there was room for all of it."""
        if batch.is_control:
            transactions.pass_marker(batch)
        elif not transactions.pass_batch(batch):
            return self.offsets.note(outlines(batch, unpacked(batch)), self.first_dirty_offset)
        return True

    # --- the copy -----------------------------------------------------------------------------------------------------

    def _groups(self) -> Iterator[list[LogSegment]]:
        """The segments to be cleaned, those together that fit into one: also in offsets and indexes."""
        max_bytes = self.config[INTERNAL_SEGMENT_BYTES] or self.config[SEGMENT_BYTES]
        max_index_bytes = self.config[SEGMENT_INDEX_BYTES]
        group: list[LogSegment] = []
        for segment, end in self._segments_with_ends():
            if segment.base_offset > self.offsets.latest_offset:
                break
            together = [*group, segment]
            fits = (
                sum(each.size for each in together) <= max_bytes
                and sum(each.offset_index.size for each in together) <= max_index_bytes
                and sum(each.time_index.size for each in together) <= max_index_bytes
                and end - 1 - together[0].base_offset <= MAX_RELATIVE_OFFSET
            )
            if group and not fits:
                yield group
                together = [segment]
            group = together
        if group:
            yield group

    def _clean(self, group: list[LogSegment], transactions: CleanedTransactions) -> Iterator[Step]:
        """Write the one segment that replaces these, into files that end in ``.cleaned``, and sync them."""
        directory = self.log.directory
        remove_segment_files(self.filesystem, directory, group[0].base_offset, CLEANED_SUFFIX)
        cleaned = self.log.open_segment(group[0].base_offset, CLEANED_SUFFIX)
        writer = _Writer(cleaned)
        try:
            for segment in group:
                for position, batch in self._batches(segment):
                    is_last = segment is group[-1] and position + batch.size == segment.size
                    self._copy(batch, is_last, transactions, writer)
                    yield from self._turn()
            writer.write()
            cleaned.on_become_inactive()
            cleaned.write_indexes()
            cleaned.sync()
            self.filesystem.sync_directory(directory)
            self.written_bytes += cleaned.size
        finally:
            cleaned.close()

    def _copy(self, batch: RecordBatch, is_last: bool, transactions: CleanedTransactions, writer: "_Writer") -> None:
        is_spent = False
        if batch.is_control:
            is_spent, entry = transactions.pass_marker(batch)
            if entry is not None:
                writer.segment.transaction_index.append(entry)
            horizon_ms = batch.delete_horizon_ms
            goes = is_spent and horizon_ms is not None and horizon_ms <= self.now_ms
        else:
            goes = transactions.pass_batch(batch)
        kept = None if goes else self._filtered(batch, is_spent)
        if kept is None and self._is_last_of_producer(batch):
            kept = emptied(batch)
        elif kept is None and is_last:
            kept = emptied(batch, writer.max_timestamp)
        if kept is not None:
            writer.append(kept)

    def _filtered(self, batch: RecordBatch, is_spent: bool) -> Data | None:
        horizon_ms = min(self.now_ms + self.config[DELETE_RETENTION_MS], FOREVER_MS)
        if batch.is_control:
            return filtered(batch, list, horizon_ms, is_spent)
        is_past_horizon = batch.delete_horizon_ms is not None and batch.delete_horizon_ms <= self.now_ms
        return filtered(batch, lambda records: self.offsets.pick(records, not is_past_horizon), horizon_ms)

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        last = self.last_records.get(batch.producer_id) if batch.has_producer_id else None
        if last is None:
            return False
        if last.offset is not None:
            return batch.last_offset == last.offset
        return batch.is_control and batch.producer_epoch == last.epoch


class _Writer:
    """Gathers batches, and writes them to the new segment a megabyte at a time."""

    def __init__(self, segment: LogSegment) -> None:
        self.segment = segment
        self._data = bytearray()
        self._batches: list[RecordBatch] = []
        self.max_timestamp: int | None = None
        """The largest of all batches; None before there is one."""

    def append(self, data: Data) -> None:
        # The header alone: the rest would hold on to all that was read with it.
        header = RecordBatch(memoryview(bytes(memoryview(data)[:HEADER_BYTES])))
        self._batches.append(header)
        if self.max_timestamp is None or header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
        self._data += data
        if len(self._data) >= _WRITE_BYTES:
            self.write()

    def write(self) -> None:
        if self._batches:
            self.segment.append(self._data, self._batches)
        self._data, self._batches = bytearray(), []
