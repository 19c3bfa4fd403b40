"""The log of one partition: an ordered sequence of record batches, cut into segments, with four marks on it.

::

    log start      last stable    high                log end
    offset 0       offset 3       watermark 6         offset 10
    |              |              |                   |
    v              v              v                   v
    [ 0 ][ 1 ][ 2 ][ 3 ][ 4 ][ 5 ][ 6 ][ 7 ][ 8 ][ 9 ]
    segment 0           segment 4           segment 8 (active)

* Everything below the *log start offset* is gone (retention, DeleteRecords).
* Everything below the *high watermark* is on all in-sync replicas: consumers see it, and it cannot be lost.
* Below the *last stable offset* every transaction has also ended: no open transaction begins before it.
* The *log end offset* is that of the next record. Records above the high watermark may still be truncated.

A leader assigns offsets (`append_as_leader`); a follower takes over the leader's (`append_as_follower`), so that
replicas are equal byte for byte. Both do the same in the same order: check, plan the producers' state, note the leader
epoch, roll the segment if it is full, write, then apply the plan. A check that fails leaves no trace. If the disk
fails, the records and the producers' state are as before; a new leader epoch stays noted, to begin at the end of the
log, as that of a leader that wrote nothing.

What is synced, and when: a finished segment in the background, everything by `flush`. Everything below the *recovery
point* is synced, and is trusted after a crash; what is above it is read again, and truncated at the first damaged
batch. So a segment that is not synced yet begins at the very offset where the one before it ends: if the power fails
and that one loses its tail, the gap shows. Where a gap is too wide for that, all before it is synced, and the new
recovery point is written to its checkpoint before the append returns (`on_recovery_point`): below it a gap is no loss.
A truncation is on the disk before anything is appended again, and the owner of the log gets a call (`on_truncated`):
its checkpoints may be too high now.

Follows org.apache.kafka.storage.internals.log.{UnifiedLog,LocalLog,LogSegments}.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykraft.common.core import finish
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.settings.topic_config import FILE_DELETE_DELAY_MS
from pykraft.common.types import OffsetAndEpoch, TopicPartition
from pykraft.records.batch import LARGEST_OFFSET, NO_LEADER_EPOCH, RecordBatch, batches
from pykraft.storage.answers import AppendInfo, FetchData, Isolation, TimestampedOffset
from pykraft.storage.append_rules import AppendRules
from pykraft.storage.disk.filesystem import is_gone
from pykraft.storage.disk.flushes import Flushes
from pykraft.storage.log_parts import LogContent, LogPlace, LogPorts
from pykraft.storage.log_segment import MAX_RELATIVE_OFFSET, LogSegment
from pykraft.storage.log_segments import LogSegments
from pykraft.storage.producer_state import NO_UPDATE, AppendOrigin, ProducerUpdate
from pykraft.storage.segment_files import begin_swap, finish_swap, mark_deleted, remove_segment_files
from pykraft.storage.time_lookup import offset_for_timestamp, offset_of_max_timestamp
from pykraft.storage.transaction_index import AbortedTransaction
from pykraft.storage.validator import validate
from pykraft.storage.verification_state import NO_CHECK, AppendCheck, Verification


class LogOwner(NamedTuple):
    """What the owner of a log hears of it. The owner keeps checkpoints of all its logs."""

    on_truncated: Callable[["UnifiedLog"], None]
    """Called when the log was truncated, before anything is appended again."""
    on_recovery_point: Callable[[TopicPartition, int], None]
    """Called with a recovery point that has to be written down now: everything below it is on the disk, and gaps in it
    are no loss."""


def _unheard() -> None:
    """Nothing follows this log."""


class UnifiedLog:
    """One partition's log in one folder. `log_loader.load` opens it."""

    def __init__(self, place: LogPlace, config: Config, ports: LogPorts, content: LogContent, owner: LogOwner) -> None:
        self.directory, self.topic_partition, self.topic_id = place.directory, place.topic_partition, place.topic_id
        self.config = config
        self._filesystem, self._clock = ports.filesystem, ports.clock
        self._background, self._trash = ports.background, ports.trash
        self._owner = owner
        self._segments = LogSegments(content.segments)
        self.epochs = content.epochs
        self.producer_state = content.producer_state
        self.log_start_offset = self.high_watermark = content.log_start_offset
        self.log_end_offset = content.log_end_offset
        self.recovery_point = self._synced_offset = content.recovery_point
        self.on_log_start: Callable[[], None] = _unheard
        """Called when the log begins later than before, and has not been truncated. It may only note that."""
        self.is_closed = False
        self.truncations = 0
        """How often it was truncated: what is planned for a log holds only until the next time. It is counted before
        the first file goes, for the thread in the background may look then."""
        self.flushes = Flushes(ports.clock)
        self._known_position: tuple[int, LogSegment, int] | None = None
        self._has_new_files = True
        self._flushed: tuple[int, int, int, int] | None = None
        self._finished: tuple[int, int, int, int] | None = None

    def __repr__(self) -> str:
        return f"UnifiedLog({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def config(self) -> Config:
        """The topic's settings. They may be replaced while the log is open."""
        return self._config

    @config.setter
    def config(self, config: Config) -> None:
        self._config = config
        self.rules = AppendRules.of(config)
        """The same as an append needs them, worked out once."""

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """All segments, oldest first; the last is the active one."""
        return tuple(self._segments)

    @property
    def base_offset(self) -> int:
        """Where the first segment begins: at the log start offset, or before it."""
        return self._segments.base_offsets[0]

    @property
    def active_segment(self) -> LogSegment:
        return self._segments.active

    @property
    def size(self) -> int:
        """Bytes of all .log files."""
        return sum(segment.size for segment in self._segments)

    @property
    def is_empty(self) -> bool:
        """Whether the log has no record, or none any more."""
        return self.log_start_offset == self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed data have to stop."""
        unstable = self.producer_state.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def latest_epoch(self) -> int:
        """The largest leader epoch that the log knows of, perhaps one without a batch yet; -1 if it knows of none."""
        epoch = self.epochs.latest_epoch
        return NO_LEADER_EPOCH if epoch is None else epoch

    # --- appending ----------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        batch: RecordBatch,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        check: AppendCheck = NO_CHECK,
    ) -> AppendInfo:
        """Append a batch that may be a client's, and was not validated yet, as `append_validated` does."""
        if origin is AppendOrigin.CLIENT:
            batch = validate(batch, self.rules, self._clock.time_ms())
        return self.append_validated(batch, leader_epoch, origin, check)

    def append_validated(
        self, batch: RecordBatch, leader_epoch: int, origin: AppendOrigin, check: AppendCheck
    ) -> AppendInfo:
        """Give the batch the next offsets and append it. A batch of a client that the log has is not appended again.
        KafkaError if the batch must not be appended."""
        most_bytes = self.rules.max_segment_bytes
        if batch.size > most_bytes:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{batch.size} bytes; a segment has {most_bytes}")
        batch.assign(self.log_end_offset, leader_epoch)
        update = NO_UPDATE
        if batch.has_producer_id:
            if origin is AppendOrigin.CLIENT:
                known = self.producer_state.duplicate_of(batch)
                if known is not None:
                    return AppendInfo(known.first_offset, known.last_offset, known.timestamp, self.log_start_offset)
            update = self.producer_state.plan([batch], origin, check)
        self._append(batch.buffer, [batch], update)
        append_time = batch.max_timestamp if batch.uses_log_append_time else -1
        return AppendInfo(batch.base_offset, batch.last_offset, append_time, self.log_start_offset)

    def start_verification(self, producer_id: int, sequence: int, epoch: int, bumps_epoch: bool) -> Verification | None:
        """See `ProducerStateManager.start_verification`."""
        return self.producer_state.start_verification(producer_id, sequence, epoch, bumps_epoch, self._clock.time_ms())

    def append_as_follower(self, data: memoryview, leader_epoch: int | None = None) -> int:
        """Append the whole batches at the beginning of `data`, as the leader of this epoch, if it is known, sent them;
        how many of them there were, up to one that no segment could hold beside the first.

        CorruptRecordError if one is damaged; KafkaError(OFFSET_OUT_OF_RANGE) if they do not continue this log.
        """
        found: list[RecordBatch] = []
        expected = self.log_end_offset
        for batch in batches(data):
            has_place = batch.base_offset <= batch.last_offset < LARGEST_OFFSET
            is_younger = leader_epoch is not None and batch.partition_leader_epoch > leader_epoch
            if not batch.is_valid or not has_place or is_younger:
                raise CorruptRecordError(
                    f"{batch} of {self.topic_partition} fails its checksum, or has no place in a log"
                )
            if batch.base_offset < expected:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{batch} came to {self} at {expected}")
            if found and batch.last_offset - found[0].base_offset > MAX_RELATIVE_OFFSET:
                break
            found.append(batch)
            expected = batch.next_offset
        if found:
            update = self.producer_state.plan(found, AppendOrigin.REPLICATION)
            self._append(data[: sum(batch.size for batch in found)], found, update)
        return len(found)

    def _append(self, data: memoryview, found: list[RecordBatch], update: ProducerUpdate) -> None:
        for batch in found:
            if batch.partition_leader_epoch >= 0:
                self.epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        segment = self._segment_for(len(data), found)
        segment.append(data, found)
        leaves_gap = segment.base_offset > self.log_end_offset
        self.log_end_offset = found[-1].last_offset + 1
        self.producer_state.apply(update, self.log_end_offset)
        if self.producer_state.verifications.by_producer:
            self.producer_state.verifications.on_append(found)
        for completed in update.completed:
            segment.index_aborted(completed)
            self._has_new_files |= completed.aborted  # the first one in a segment makes its index
        if leaves_gap or self.log_end_offset - self.recovery_point >= self.rules.flush_messages:
            self.flush()
        if leaves_gap:
            self._owner.on_recovery_point(self.topic_partition, self.recovery_point)

    # --- rolling ------------------------------------------------------------------------------------------------------

    def _segment_for(self, size: int, found: list[RecordBatch]) -> LogSegment:
        """The segment that takes these batches: the active one, or a new one if that is full or old."""
        segment = self._segments.active
        rules, last_offset = self.rules, found[-1].last_offset
        youngest = max([batch.max_timestamp for batch in found])
        now_ms, max_ms = self._clock.time_ms(), rules.max_ms_of(self.topic_partition, segment.base_offset)
        if segment.should_roll(size, last_offset, youngest, now_ms, rules.max_segment_bytes, max_ms):
            # A leader's log may have a gap where it was compacted. Only one too wide for an index gets into a name.
            is_far = last_offset - self.log_end_offset > MAX_RELATIVE_OFFSET
            return self.roll(found[0].base_offset if is_far else self.log_end_offset)
        return segment

    def roll(self, base_offset: int) -> LogSegment:
        """Begin a new segment. The one before it is synced in the background, and need not be checked from then on. A
        segment that begins there is left as it is."""
        finished = self.active_segment
        base_offset = max(base_offset, self.log_end_offset)
        if base_offset == finished.base_offset:
            return finished
        finished.on_become_inactive()
        finished.write_indexes()
        finished.let_go_of_indexes()
        if self.recovery_point >= self.log_end_offset:
            finished.sync()  # a start after a crash would trust its indexes, as soon as a segment follows
        self.producer_state.map_end_offset = base_offset
        self.producer_state.take_snapshot()
        self.epochs.write(self.log_end_offset)
        unsynced, truncations = self.unsynced_segments, self.truncations
        segment = self._new_segment(base_offset)
        self._background.submit(
            lambda: self.sync_segments(unsynced), lambda done: self._on_synced(done, base_offset, truncations)
        )
        return segment

    def open_segment(self, base_offset: int, suffix: str = "") -> LogSegment:
        """The segment with these files, which are made unless they are there. It is not part of the log yet."""
        return LogSegment(self._filesystem, self.directory, base_offset, self.config, self._clock.time_ms(), suffix)

    def _new_segment(self, base_offset: int) -> LogSegment:
        segment = self.open_segment(base_offset)
        self._segments.append(segment)
        self._has_new_files = True
        return segment

    @property
    def unsynced_segments(self) -> list[LogSegment]:
        """The segments that a loss of power could still shorten."""
        return self._segments.since(self.recovery_point)

    def sync_segments(self, segments: Sequence[LogSegment]) -> bool:
        """Whether these segments are on the disk, and the snapshots; not if they were closed or deleted meanwhile. Runs
        on another thread."""
        self.producer_state.sync_snapshots()
        try:
            for segment in segments:
                segment.sync()
            self._filesystem.sync_directory(self.directory)
        except OSError as error:
            is_over = self.is_closed or any(segment.is_closed or segment.is_deleted for segment in segments)
            if is_over and is_gone(error):
                return False
            raise
        return True

    def _on_synced(self, done: bool, end_offset: int, truncations: int) -> None:
        # If the log was truncated meanwhile, other bytes may stand there now.
        if done and truncations == self.truncations:
            self.recovery_point = max(self.recovery_point, end_offset)

    def sync_records(self) -> None:
        """Return when every record is on the disk. The indexes may not be: after a crash they are rebuilt. This is what
        a Raft log needs before its records count."""
        for segment in self._segments.since(self._synced_offset):
            segment.records.sync()
        if self._has_new_files:
            self._filesystem.sync_directory(self.directory)
            self._has_new_files = False
        self._synced_offset = self.log_end_offset

    def flush(self) -> None:
        """Return when the whole log, indexes included, is on the disk."""
        began_us, has_new_epoch = self.flushes.begin(), self.epochs.write(self.log_end_offset)
        if has_new_epoch or self._flushed != self._state or self.active_segment.has_unwritten_entries:
            for segment in self.unsynced_segments:
                segment.write_indexes()
                segment.sync()
            self.producer_state.sync_snapshots()
            if has_new_epoch or self._has_new_files:
                self._filesystem.sync_directory(self.directory)
            self.note_flushed()
        self._synced_offset = self.recovery_point = self.log_end_offset
        self.flushes.end(began_us)

    def note_flushed(self) -> None:
        """The whole log is on the disk as it is."""
        self._has_new_files = False
        self._flushed = self._state
        self.producer_state.forget_unsynced_snapshots()

    def note_finished(self) -> None:
        """The run before has closed the log in order."""
        self.note_flushed()
        if self.producer_state.last_snapshot_offset >= self.log_end_offset:
            self._finished = self._state

    @property
    def _state(self) -> tuple[int, int, int, int]:
        """Changes with everything that a flush has to bring to the disk, but for entries of the indexes."""
        newest = self.producer_state.last_snapshot_offset
        return self.log_end_offset, self.truncations, self.active_segment.base_offset, newest

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, isolation: Isolation, at_least_one: bool) -> FetchData:
        """The batches from the one that holds `offset` on, up to `max_bytes` and to what `isolation` lets see; none
        from there on.

        With `at_least_one` the first batch comes whole, however large. KafkaError(OFFSET_OUT_OF_RANGE) outside of the
        log, CorruptRecordError if the header of a batch on the way is damaged.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} of {self}")
        upper_bound = self.upper_bound(isolation)
        aborted: list[AbortedTransaction] | None = [] if isolation is Isolation.COMMITTED else None
        if offset >= upper_bound:
            return FetchData(b"", False, aborted)
        for segment, end in self._segments.ranges(offset, upper_bound):
            piece = segment.read(offset, max_bytes, self._end_position(segment, upper_bound), at_least_one)
            if piece is not None:
                if aborted is not None:
                    end = min(segment.upper_bound_offset(piece) or end, upper_bound)
                    aborted = self.aborted_transactions(offset, end)
                return FetchData(segment.region(piece), piece.first_batch_is_cut, aborted)
        return FetchData(b"", False, aborted)

    def bytes_between(self, offset: int, upper_bound: int) -> int:
        """How many bytes of batches begin at or after the batch that holds `offset`, and before `upper_bound`."""
        segments = self._segments.since(offset)
        found = segments[0].find(offset)
        size = 0 if found is None else -found.position
        for segment in segments[0 if found is not None else 1 :]:
            if segment.base_offset >= upper_bound:
                break
            size += self._end_position(segment, upper_bound)
        return max(0, size)

    def upper_bound(self, isolation: Isolation) -> int:
        """The first offset that a reader of this isolation must not see."""
        match isolation:
            case Isolation.LOG_END:
                return self.log_end_offset
            case Isolation.HIGH_WATERMARK:
                return self.high_watermark
            case Isolation.COMMITTED:
                return self.last_stable_offset

    def _end_position(self, segment: LogSegment, upper_bound: int) -> int:
        """Where in this segment a read up to `upper_bound` must stop. The last answer is kept: all readers of a
        partition stop at the same high watermark."""
        if upper_bound >= self.log_end_offset:
            return segment.size
        if self._known_position is not None and self._known_position[:2] == (upper_bound, segment):
            return self._known_position[2]
        found = segment.find(upper_bound)
        position = segment.size if found is None else found.position
        self._known_position = (upper_bound, segment, position)
        return position

    def aborted_transactions(self, offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """The transactions that overlap [offset, upper_bound) and were aborted, in the order of their markers."""
        found = []
        for segment in self._segments.since(offset):
            some, complete = segment.transaction_index.collect(offset, upper_bound)
            found += some
            if complete:
                break
        return found

    # --- finding offsets ----------------------------------------------------------------------------------------------

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record that is at least as young; None if all are older."""
        return finish(offset_for_timestamp(self, timestamp))

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        """The first record that has the largest timestamp; None in an empty log."""
        return finish(offset_of_max_timestamp(self))

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch | None:
        """Where the log of that leader epoch ends; None if the log knows nothing of it."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # --- marks and truncation -----------------------------------------------------------------------------------------

    def update_high_watermark(self, offset: int) -> bool:
        """Move the high watermark, within the log; whether it moved."""
        offset = max(self.log_start_offset, min(offset, self.log_end_offset))
        if offset == self.high_watermark:
            return False
        self.high_watermark = offset
        self.producer_state.on_high_watermark(offset)
        return True

    def truncate_to(self, offset: int) -> None:
        """Truncate the log, so that it ends at or before `offset`: batches are never split. An epoch without a record,
        noted by a leader that wrote nothing, is forgotten even if nothing else is to be truncated."""
        if offset >= self.log_end_offset:
            if self.epochs.entries and self.epochs.entries[-1].start_offset >= self.log_end_offset:
                self.epochs.truncate_from_end(self.log_end_offset)
            return
        if offset < self._segments.base_offsets[0]:
            self.truncate_fully(offset)
            return
        self.truncations += 1
        if self.active_segment.base_offset > offset:
            while self.active_segment.base_offset > offset:
                self._drop_active_segment()
            self._filesystem.sync_directory(self.directory)
        self.log_end_offset = self.active_segment.truncate_to(offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self._after_truncation()

    def damage_below(self, offset: int) -> int | None:
        """Up to where a truncation to `offset` could read the log, if that is less; what follows would go, too."""
        if offset >= self.log_end_offset or offset < self._segments.base_offsets[0]:
            return None
        return self._segments.since(offset)[0].damage_below(offset)

    def truncate_fully(self, offset: int) -> None:
        """Drop everything; the log begins again, empty, at `offset`."""
        self.truncations += 1
        while self._segments:
            self._drop_active_segment()
        self._new_segment(offset)
        self._filesystem.sync_directory(self.directory)
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset
        self.epochs.clear()
        self.producer_state.truncate_fully(offset)
        self._after_truncation()

    def _drop_active_segment(self) -> None:
        assert not self.is_closed, f"{self} is closed: its folder may be another log's by now"
        segment = self._segments.pop()
        segment.close()
        remove_segment_files(self._filesystem, self.directory, segment.base_offset)

    def _after_truncation(self) -> None:
        self.epochs.truncate_from_end(self.log_end_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self._synced_offset = min(self._synced_offset, self.log_end_offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self._known_position = None
        self.rebuild_producer_state()
        self.producer_state.on_high_watermark(self.high_watermark)
        self._owner.on_truncated(self)

    def rebuild_producer_state(self) -> None:
        """Bring the producers' state to the end of the log: from the newest snapshot that still holds, by replay."""
        state = self.producer_state
        state.truncate_and_reload(self.log_start_offset, self.log_end_offset, self._clock.time_ms())
        if state.map_end_offset < self.log_end_offset:
            for segment in self._segments.since(state.map_end_offset):
                segment.replay(state)
        state.map_end_offset = self.log_end_offset

    # --- deleting and replacing segments ------------------------------------------------------------------------------

    def increase_log_start(self, offset: int) -> bool:
        """Let the log begin at `offset`; whether it began earlier. KafkaError(OFFSET_OUT_OF_RANGE) above the high
        watermark. The leader epochs before it are left for `forget_epochs`: until the new start is written down, a
        crash may let the log begin earlier again."""
        if offset > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is above the watermark, {self.high_watermark}")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.on_log_start()
        return True

    def forget_epochs(self) -> None:
        """No crash brings back the records before the log start offset: forget their leader epochs."""
        self.epochs.truncate_from_start(self.log_start_offset)

    def delete_segments(self, count: int) -> None:
        """Delete the oldest `count` segments, which lie below the high watermark. If those are all, a new one begins
        at the end of the log."""
        if count == len(self._segments):
            self.roll(self.log_end_offset)
        begin = self._segments.base_offsets[count]
        assert begin <= self.high_watermark, f"{self} would begin above its high watermark"
        self._retire(self._segments.pop_oldest(count))
        self.producer_state.remove_strays(set(self._segments.base_offsets))
        self._filesystem.sync_directory(self.directory)  # before the epochs forget what could come back
        self.increase_log_start(begin)
        self.epochs.truncate_from_start(begin)

    def replace_segments(self, replaced: Sequence[LogSegment]) -> None:
        """Put the cleaned segment that was made of these into their place. Its files end in ``.cleaned``, are whole and
        synced; they are named after the first of these segments. See `segment_files` for what a crash leaves."""
        base_offset = replaced[0].base_offset
        begin_swap(self._filesystem, self.directory, base_offset)
        self._retire(replaced)
        finish_swap(self._filesystem, self.directory, base_offset)
        self._segments.replace(replaced, self.open_segment(base_offset))
        self.producer_state.remove_strays(set(self._segments.base_offsets))
        self._known_position = None

    def _retire(self, segments: Sequence[LogSegment]) -> None:
        """Take the files of these segments out of the log, oldest first. They stay open for those who read them."""
        for segment in segments:
            segment.is_deleted = True
            paths, suffix = mark_deleted(self._filesystem, self.directory, segment.base_offset)
            segment.rename_files(suffix)
            self._trash.add(paths, self.config[FILE_DELETE_DELAY_MS], segment.close)

    # --- closing ------------------------------------------------------------------------------------------------------

    def finish(self) -> bool:
        """Write what the next start reads instead of batches; whether something of the log has to be synced now. If
        nothing has come since it was opened, the files tell it already."""
        if self._finished != self._state:
            self.active_segment.on_become_inactive()
            self._has_new_files = self.producer_state.take_snapshot() or self._has_new_files
            self._finished = self._state
        return self._flushed != self._state or self.active_segment.has_unwritten_entries

    def close(self) -> None:
        """Close in order: everything synced, the producers' state on disk. The next start reads no batch."""
        self.finish()
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Close the files and write nothing, as a crash would."""
        self.is_closed = True
        self.producer_state.forget_unsynced_snapshots()
        for segment in self._segments:
            segment.close()
