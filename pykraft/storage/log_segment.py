"""One segment of a log: a ``.log`` file and the indexes beside it.

A log is cut into segments so that old data can be dropped by removing files, and so that an index stays small. All
files of a segment are named after its base offset (20 digits), below which no record in it is::

    00000000000000001200.log         record batches
    00000000000000001200.index       offset -> position      (sparse, see `index`)
    00000000000000001200.timeindex   timestamp -> offset     (sparse)
    00000000000000001200.txnindex    aborted transactions    (only if there are any)

Batches are appended to the last segment only. Indexes hold offsets relative to the base in 32 bits, so a segment ends
before it would have 2**31 of them.

`recover` rebuilds everything that is not the .log file from the .log file, up to the first batch that is damaged. What
a crash leaves after such a batch was not synced, so no acknowledgement depends on this log alone: it may go.

Follows org.apache.kafka.storage.internals.log.LogSegment.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from pykraft.common.core import FileRegion, Steps
from pykraft.common.errors import CorruptRecordError
from pykraft.common.settings.config import Config
from pykraft.common.settings.topic_config import INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES
from pykraft.records.batch import RecordBatch
from pykraft.storage.disk.filesystem import Data, FileSystem
from pykraft.storage.file_records import BatchPosition, FileRecords
from pykraft.storage.index import OffsetIndex, TimeIndex, TimestampOffset
from pykraft.storage.leader_epoch_cache import EpochEntry
from pykraft.storage.producer_state import CompletedTransaction, ProducerStateManager
from pykraft.storage.segment_files import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from pykraft.storage.transaction_index import AbortedTransaction, TransactionIndex

MAX_RELATIVE_OFFSET = 0x7FFFFFFF
_PLACES_PER_TURN = 1000
"""After this many records that a search by time has looked at, others have their turn: about a millisecond."""


class SegmentSlice(NamedTuple):
    """A piece of a segment that begins with a batch; it may end within one."""

    position: int
    size: int
    first_batch_is_cut: bool


class Recovered(NamedTuple):
    """What a segment was found to hold: the number of bytes without damage, and the offset after them. It was read from
    the batch at `first_offset` on."""

    size: int
    next_offset: int
    first_offset: int


class LogSegment:
    """The batches from `base_offset` on, up to where the next segment begins."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_created_ms",
        "_first_timestamp",
        "_index_interval_bytes",
        "_newest",
        "base_offset",
        "is_closed",
        "is_deleted",
        "max_timestamp",
        "offset_index",
        "records",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        base_offset: int,
        config: Config,
        now_ms: int,
        suffix: str = "",
    ) -> None:
        """Open the segment's files, or make them; `suffix` is appended to their names. Of the topic's settings `config`
        only those of the indexes matter, as they are now."""
        max_index_bytes = config[SEGMENT_INDEX_BYTES]
        stem = f"{directory}/{base_offset:020d}"
        self.base_offset = base_offset
        self.records = FileRecords(filesystem.open(stem + LOG_SUFFIX + suffix))
        self.offset_index = OffsetIndex(filesystem, stem + INDEX_SUFFIX + suffix, base_offset, max_index_bytes)
        self.time_index = TimeIndex(filesystem, stem + TIME_INDEX_SUFFIX + suffix, base_offset, max_index_bytes)
        self.transaction_index = TransactionIndex(filesystem, stem + TRANSACTION_INDEX_SUFFIX + suffix)
        self.max_timestamp = None if self.records.size else TimestampOffset(-1, base_offset)
        """The largest timestamp so far; None until it was looked up in an old segment."""
        self._index_interval_bytes = config[INDEX_INTERVAL_BYTES]
        self._bytes_since_index_entry = 0
        self._newest: tuple[int, int, int, int] | None = None
        """First and last offset, position and size of the batch that was appended last: most readers are at the end of
        the log, and get it without a look into the file."""
        self._first_timestamp: int | None = None
        self._created_ms = now_ms
        self.is_closed = False
        self.is_deleted = False
        """Its files have other names, and will go: nothing of it need be synced."""

    def __repr__(self) -> str:
        return f"LogSegment({self.base_offset}, {self.size} bytes)"

    @property
    def size(self) -> int:
        """Bytes of the .log file."""
        return self.records.size

    @property
    def is_gone(self) -> bool:
        """Whether its files must not be read any more."""
        return self.is_closed or self.is_deleted

    def has_room_for(self, last_offset: int) -> bool:
        """Whether the indexes can express this offset."""
        return 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def continues(self, expected_offset: int, batch: RecordBatch) -> bool:
        """Whether the batch may come where `expected_offset` is the next in this segment: they have no checksum."""
        has_order = expected_offset <= batch.base_offset <= batch.last_offset
        return has_order and self.has_room_for(batch.last_offset)

    @property
    def is_index_full(self) -> bool:
        offsets, times = self.offset_index, self.time_index
        return offsets.size >= offsets.full_bytes or times.size >= times.full_bytes

    def should_roll(
        self, size: int, last_offset: int, timestamp: int, now_ms: int, max_bytes: int, max_ms: int
    ) -> bool:
        """Whether batches of `size` bytes, up to this offset and timestamp, must begin a new segment: the indexes of
        this one cannot express the offset, or have no place left; or it would have more than `max_bytes`, or is older
        than `max_ms` (by the timestamps of the records in it, if they have any). An empty one is neither."""
        if not self.has_room_for(last_offset):
            return True
        filled = self.records.size
        if filled == 0:
            return False
        if filled + size > max_bytes or self.is_index_full:
            return True
        first = self.first_timestamp()
        return (timestamp - first if first >= 0 else now_ms - self._created_ms) > max_ms

    def first_timestamp(self) -> int:
        """What ``segment.ms`` counts from: the largest timestamp of the first append; of a segment that was opened
        again that of its first batch. -1 if there is none, or it cannot be read."""
        if self._first_timestamp is None and self.size:
            try:
                self._first_timestamp = next(self.records.headers()).header.max_timestamp
            except CorruptRecordError:
                self._first_timestamp = -1  # it cannot be read any more, and appends must go on
        return -1 if self._first_timestamp is None else self._first_timestamp

    def youngest_ms(self) -> int:
        """When the youngest record was made; without timestamps, when the segment was opened."""
        largest = self.largest_timestamp().timestamp
        return largest if largest >= 0 else self._created_ms

    # --- appending ----------------------------------------------------------------------------------------------------

    def append(self, data: Data, batches: list[RecordBatch]) -> None:
        """Write `data`, which holds these batches, at the end."""
        last = batches[-1]
        assert 0 <= last.last_offset - self.base_offset <= MAX_RELATIVE_OFFSET, f"{self} has no room for {last}"
        if self.max_timestamp is None:
            self.largest_timestamp()  # of what is there, before there is more
        position = self.records.append(data)
        if position == 0:
            self._first_timestamp = max([batch.max_timestamp for batch in batches])
        for batch in batches:
            self._index(batch, position)
            position += batch.size
        self._newest = (last.base_offset, last.last_offset, position - last.size, last.size)

    def _index(self, batch: RecordBatch, position: int) -> None:
        """Note a batch at `position`: its timestamp, and if enough bytes went by an entry in the indexes. Full indexes
        get no more: the batches of one append stay together, and are found by a longer scan."""
        largest = self.max_timestamp or self.largest_timestamp()
        if batch.max_timestamp > largest.timestamp:
            self.max_timestamp = largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
        if self._bytes_since_index_entry > self._index_interval_bytes and not self.is_index_full:
            self.offset_index.append(batch.last_offset, position)
            self.time_index.maybe_append(largest.timestamp, largest.offset)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += batch.size

    def index_aborted(self, completed: CompletedTransaction) -> None:
        """Note a transaction whose marker was appended, if it was aborted."""
        if completed.aborted:
            self.transaction_index.append(_entry_of(completed))

    # --- reading ------------------------------------------------------------------------------------------------------

    def find(self, offset: int) -> BatchPosition | None:
        """The batch that holds `offset`, or the first one after it; None past the end."""
        newest = self._newest
        if newest is not None and newest[0] <= offset:
            return self.records.find(offset, newest[2])
        return self.records.find(offset, self.position_before(offset))

    def position_before(self, offset: int) -> int:
        """Where a scan for the offset may begin: at the batch of the last index entry that is not above it. No checksum
        covers an index, so an entry that is not of the batch there is not believed; then it is the first batch."""
        entry = self.offset_index.lookup(offset)
        is_true = entry.position and self.records.has_batch_up_to(entry.offset, entry.position)
        return entry.position if is_true else 0

    def read(self, offset: int, max_bytes: int, end_position: int, at_least_one: bool) -> SegmentSlice | None:
        """The piece from the batch of `offset` on: up to `max_bytes`, up to `end_position`. With `at_least_one` the
        first batch is whole even if it is larger. None past the end."""
        newest = self._newest
        if newest is not None and newest[0] <= offset <= newest[1]:
            _, _, position, first_size = newest
        else:
            found = self.find(offset)
            if found is None:
                return None
            position, first_size = found.position, found.header.size
        limit = max(max_bytes, first_size) if at_least_one else max_bytes
        size = max(0, min(end_position - position, limit))
        return SegmentSlice(position, size, first_batch_is_cut=limit < first_size)

    def upper_bound_offset(self, piece: SegmentSlice) -> int | None:
        """An offset at or above all in the piece, from the index; None if only the segment's end is known."""
        return self.offset_index.first_offset_from(piece.position + piece.size)

    def region(self, piece: SegmentSlice) -> FileRegion | bytes:
        return self.records.region(piece.position, piece.size) if piece.size else b""

    def next_offset(self) -> int:
        """The offset after the last batch: a scan from the last index entry."""
        position = self.position_before(self.offset_index.last_offset)
        last = deque(self.records.headers(position), maxlen=1)
        return last[0].header.next_offset if last else self.base_offset

    @property
    def last_indexed(self) -> int:
        """The last offset in the indexes; -1 if they are empty."""
        offsets, times = self.offset_index, self.time_index
        last = [offsets.last_offset] if len(offsets) else []
        last += [times.last.offset] if len(times) else []
        return max([-1, *last, *(aborted.last_offset for aborted in self.transaction_index.entries)])

    def largest_timestamp(self) -> TimestampOffset:
        """The largest timestamp in the segment, with the last offset of the first batch that has it."""
        if self.max_timestamp is None:
            largest = self.time_index.last
            try:
                for at in self.records.headers(self.position_before(largest.offset)):
                    if at.header.max_timestamp > largest.timestamp:
                        largest = TimestampOffset(at.header.max_timestamp, at.header.last_offset)
            except CorruptRecordError:
                pass  # of a closed segment the index has the largest
            self.max_timestamp = largest
        return self.max_timestamp

    def batch_with_timestamp(self, timestamp: int, start_offset: int) -> RecordBatch | None:
        """The first batch that ends at `start_offset` or later, and whose header claims a record that is at least as
        young. Its bytes are in memory: what is done with them need not fear that the segment goes meanwhile."""
        nearest = self.time_index.lookup(timestamp)
        position = self.position_before(max(nearest.offset, start_offset))
        for at in self.records.headers(position):
            if at.header.max_timestamp >= timestamp and at.header.last_offset >= start_offset:
                return self.records.batch_at(at.position)
        return None

    def find_timestamp(self, timestamp: int, start_offset: int) -> Steps[tuple[int, int] | None]:
        """(timestamp, offset) of the first record from `start_offset` on that is at least as young. A batch may hold a
        hundred thousand records: pauses after every thousand. If the segment goes meanwhile, what follows the batch is
        not looked at."""
        from_offset = start_offset
        while (batch := self.batch_with_timestamp(timestamp, from_offset)) is not None:
            for number, (offset, found) in enumerate(batch.places(), 1):
                if found >= timestamp and offset >= start_offset:
                    return found, offset
                if number % _PLACES_PER_TURN == 0:
                    yield
            yield
            if self.is_gone:
                return None
            from_offset = batch.next_offset
        return None

    def claimed_timestamp(self, start_offset: int) -> int | None:
        """The largest timestamp that a batch from `start_offset` on claims; None if there is no batch."""
        headers = (at.header for at in self.records.headers())
        left = (batch.max_timestamp for batch in headers if batch.count and batch.last_offset >= start_offset)
        return max(left, default=None)

    def find_youngest(self, start_offset: int) -> Steps[tuple[int, int] | None]:
        """(timestamp, offset) of the first record from `start_offset` on that has the largest timestamp; with pauses as
        `find_timestamp`."""
        found = yield from self.find_timestamp(self.largest_timestamp().timestamp, start_offset)
        if found is None and not self.is_gone:
            # The record is before `start_offset`, or compaction has removed it.
            largest = self.claimed_timestamp(start_offset)
            found = None if largest is None else (yield from self.find_timestamp(largest, start_offset))
        return found

    # --- after a crash ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise CorruptRecordError if an index cannot belong to this log file."""
        self.offset_index.check()
        self.time_index.check()
        self.transaction_index.check()
        if len(self.offset_index) and self.offset_index[len(self.offset_index) - 1].position >= self.size:
            raise CorruptRecordError(f"{self.offset_index.path} points past the end of its log")
        if self.size and not len(self.time_index) and self.largest_timestamp().timestamp >= 0:
            raise CorruptRecordError(f"{self.time_index.path} is empty, its log is not")

    def recover(
        self,
        producer_state: ProducerStateManager,
        epochs: list[EpochEntry],
        limit: int | None = None,
        synced_offset: int | None = None,
    ) -> Recovered:
        """Rebuild the indexes from the log, up to the first damaged batch. The file is not truncated: the caller calls
        `truncate_file` once the segments after this one are gone.

        `producer_state` is that of the log before this segment and is carried through it; `epochs` gets an entry for
        each change of the leader epoch. `limit` is where the next segment begins. Batches below `synced_offset` and
        their index entries were synced: reading begins near it.
        """
        self.records.distrust()
        start, following = self._start_of_recovery(synced_offset)
        known = self.transaction_index.entries if start else []
        aborted = [entry for entry in known if entry.last_offset < following]
        end = Recovered(start, following, following)
        for position, batch in self._undamaged_batches(start, following):
            if limit is not None and batch.last_offset >= limit:
                break  # no checksum covers an offset
            self._index(batch, position)
            if not epochs or epochs[-1].epoch != batch.partition_leader_epoch:
                epochs.append(EpochEntry(batch.partition_leader_epoch, batch.base_offset))
            aborted += [_entry_of(completed) for completed in producer_state.replay(batch) if completed.aborted]
            end = end._replace(size=position + batch.size, next_offset=batch.next_offset)
        self.on_become_inactive()
        self.offset_index.rewrite()
        self.time_index.rewrite()
        self.transaction_index.rewrite(aborted)
        return end

    def _start_of_recovery(self, synced_offset: int | None) -> tuple[int, int]:
        """(position, base offset) of the batch that reading begins with. The indexes keep the entries before it: it is
        the batch of the last entry at or below `synced_offset`, or the first batch if the indexes cannot be used."""
        try:
            if synced_offset is not None:
                self.check()
                position = self.position_before(synced_offset)
                if position:
                    following = next(self.records.headers(position)).header.base_offset
                    self.offset_index.truncate_to(following)
                    self.time_index.truncate_to(following)
                    self.max_timestamp = self.time_index.last
                    self._bytes_since_index_entry = self._index_interval_bytes + 1  # this batch had an entry
                    return position, following
        except CorruptRecordError:
            pass
        self.offset_index.reset()
        self.time_index.reset()
        self.max_timestamp = TimestampOffset(-1, self.base_offset)
        self._bytes_since_index_entry = 0
        return 0, self.base_offset

    def truncate_file(self, size: int) -> None:
        """Truncate the .log file to this size, which is where a batch ends. It is on the disk when this returns:
        otherwise a crash could bring the truncated bytes back, after the log has gone on with others."""
        self._newest = None
        self.records.truncate(size)
        self.records.sync()

    def _undamaged_batches(self, start: int, following: int) -> Iterator[tuple[int, RecordBatch]]:
        """The batches from this position and offset on, up to the first that a crash tore, or that does not follow the
        one before: old bytes may look like a batch."""
        try:
            for position, batch in self.records.batches(start):
                if not self.continues(following, batch) or not batch.is_valid:
                    return
                yield position, batch
                following = batch.next_offset
        except CorruptRecordError:
            return

    def replay(self, producer_state: ProducerStateManager) -> None:
        """Carry the producers through the batches that they have not seen. Headers say all of a data batch; a marker
        says how its transaction ended. Batches after a damaged one are not read."""
        try:
            first = self.find(producer_state.map_end_offset)
            for at in self.records.headers(first.position) if first is not None else ():
                producer_state.replay(self.records.batch_at(at.position) if at.header.is_control else at.header)
        except CorruptRecordError:
            pass

    def truncate_to(self, offset: int) -> int:
        """Drop the batches from the one that holds `offset` on, or from one that cannot be read, if it comes first; the
        offset after what is left."""
        end, following = self._end_below(offset)
        self.offset_index.truncate_to(following)
        self.time_index.truncate_to(following)
        self.transaction_index.truncate_to(following)
        if end < self.size:
            self.truncate_file(end)
        if not self.size:
            self._first_timestamp = None
        self._bytes_since_index_entry = 0
        self.max_timestamp = None
        return following

    def _end_below(self, offset: int) -> tuple[int, int]:
        """Where the batches end that are below `offset` and can be read, in bytes and in offsets. The index is not
        asked: a recovery would stop at the damage, and the index may be damaged itself."""
        end, following = 0, self.base_offset
        try:
            for at in self.records.headers():
                if not following <= at.header.base_offset <= at.header.last_offset < offset:
                    break
                end, following = at.end, at.header.next_offset
        except CorruptRecordError:
            pass
        return end, following

    def damage_below(self, offset: int) -> int | None:
        """Up to which offset the headers of the batches can be read, if that is below `offset`; None if they all can.
        What compaction has left out is no damage."""
        following = self.base_offset
        try:
            for at in self.records.headers():
                if at.header.base_offset >= offset:
                    return None
                if not self.continues(following, at.header):
                    return following
                following = at.header.next_offset
        except CorruptRecordError:
            return following
        return None

    # --- closing ------------------------------------------------------------------------------------------------------

    def on_become_inactive(self) -> None:
        """The segment is rolled or closed: its largest timestamp goes into the index, where retention finds it."""
        largest = self.largest_timestamp()
        self.time_index.maybe_append(largest.timestamp, largest.offset, closing=True)
        self.records.trim()

    def write_indexes(self) -> None:
        """Hand the index entries in memory to the operating system."""
        self.offset_index.write()
        self.time_index.write()

    @property
    def has_unwritten_entries(self) -> bool:
        """Whether index entries are in memory alone."""
        return self.offset_index.has_unwritten_entries or self.time_index.has_unwritten_entries

    def let_go_of_indexes(self) -> None:
        """Nothing is appended any more: a lookup reads the indexes again."""
        self.offset_index.let_go()
        self.time_index.let_go()
        self.transaction_index.let_go()

    def rename_files(self, suffix: str) -> None:
        """The files have other names now; a response that still reads from them may have to open them again."""
        self.records.path += suffix
        self.offset_index.rename_file(suffix)
        self.time_index.rename_file(suffix)
        self.transaction_index.rename_file(suffix)

    def sync(self) -> None:
        """Return when the log, and then what was written of its indexes, are on the disk. This touches nothing but
        files, so another thread may do it."""
        self.records.sync()
        self.offset_index.sync()
        self.time_index.sync()
        self.transaction_index.sync()

    def close(self) -> None:
        """Close the files. What was not written is lost, as by a crash."""
        self.is_closed = True
        self.offset_index.close()
        self.time_index.close()
        self.transaction_index.close()
        self.records.close()


def _entry_of(completed: CompletedTransaction) -> AbortedTransaction:
    return AbortedTransaction(
        completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
    )
