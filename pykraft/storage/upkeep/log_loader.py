"""Opening a log that may have been closed in order, or left behind by a crash.

In this order:

1. *Leftovers* are finished: small files that were being replaced, deleted segments, the work of the cleaner, indexes
   whose log is gone (`segment_files`).
2. *Segments* are opened, oldest first.
3. *Recovery*. Without a clean-shutdown marker every segment that reaches past the recovery point, and always the active
   one, is read through, its indexes are rebuilt, and it is truncated at the first damaged batch. Everything below the
   recovery point was synced, and is trusted; there, only indexes that cannot belong to their log are rebuilt. Should
   that show that such a segment is damaged, which no crash does, it alone is truncated: what follows was synced, too,
   and stays, behind a gap. The recovery point of the metadata log is its newest snapshot (`raft.log.replicated_log`),
   and its active segment is read from there on: so a start reads the snapshot and what follows it, however long the log
   is.
4. The *leader epochs* of what was read through are those of its batches. Those below the recovery point are in the
   file, which is written before the recovery point passes the first batch of an epoch. No epoch begins past the end of
   the log.
5. The *producers' state* comes from the newest snapshot that is within the log, and a replay of what follows it.
6. After a crash the records are *synced*. The process that died may have truncated, removed or appended what the disk
   does not know of yet; from here on its past is as certain as that of a log that was closed in order. The indexes are
   not synced, and the recovery point stays where it was: after another crash the same is read again, as in Kafka. A
   log manager with very many logs syncs their records all at once.

The log must stay a prefix of what was appended, also if the next crash comes while it is being recovered. So later
segments are removed before a segment is truncated; and a segment that was not synced and does not begin where the one
before it ends is lost, too: that one has lost its tail, and so cleanly that no checksum fails. Pykraft's cleaner leaves
no such gaps, and a follower that has to leave one says so (`on_recovery_point`). Kafka's cleaner does leave them; so in
a log that Kafka left nothing is lost to a gap, as in Kafka. The indexes of the active segment tell that it was Kafka
that died (`is_allocated`). And a log of which nothing is written down was put here by hand: of each of ours there is
something from the beginning. Before these signs are gone, the recovery point is raised above the gaps.

Follows org.apache.kafka.storage.internals.log.LogLoader.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from pykraft.common.background import Background
from pykraft.common.core import Clock
from pykraft.common.errors import CorruptRecordError
from pykraft.common.settings.config import Config
from pykraft.common.types import OffsetAndEpoch, TopicPartition, Uuid
from pykraft.storage.disk.checkpoint import DamagedFileError, read_partition_metadata, write_partition_metadata
from pykraft.storage.disk.filesystem import FileSystem, parent
from pykraft.storage.disk.trash import Trash
from pykraft.storage.leader_epoch_cache import EpochEntry, LeaderEpochCache
from pykraft.storage.log import LogOwner, UnifiedLog
from pykraft.storage.log_parts import LogContent, LogPlace, LogPorts
from pykraft.storage.log_segment import LogSegment
from pykraft.storage.producer_state import SNAPSHOT_SUFFIX, ProducerStateManager, snapshots_among
from pykraft.storage.segment_files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SMALL_FILES,
    SUFFIXES,
    finish_leftovers,
    offset_of,
    remove_segment_files,
)


def ignore(*_: object) -> None:
    """The callback of a log that is used alone: no owner writes checkpoints for it."""


@dataclass(kw_only=True)
class LogLoader:
    """Opens one log. `lost_bytes` says, once it is open, how much a crash had torn off."""

    filesystem: FileSystem
    directory: str
    config: Config
    clock: Clock
    background: Background
    topic_partition: TopicPartition
    topic_id: Uuid | None
    clean: bool
    """Whether the log was closed in order."""
    log_start_offset: int = 0
    recovery_point: int = 0
    is_known: bool = True
    """Whether a recovery point was written down at all."""
    snapshot: OffsetAndEpoch | None = None
    """Of the metadata log: its newest snapshot. What is before it was synced, indexes and leader epochs included, and
    no batch has a producer id."""
    producer_id_expiration_ms: int = 86_400_000
    on_truncated: Callable[[UnifiedLog], None] = ignore
    """Called when the log was truncated, before anything is appended again."""
    on_recovery_point: Callable[[TopicPartition, int], None] = ignore
    """Called with a recovery point that has to be written down now: everything below it is on the disk, and gaps in it
    are no loss."""
    trash: Trash | None = None
    """Where deleted segments go; a log that is used alone has its own."""
    syncs: bool = True
    """Whether to sync the folder above if the log is new, and the records after a crash; else the caller has to."""
    lost_bytes: int = 0
    unknown: list[str] = field(default_factory=list)
    """Names of files in the folder that are no part of a log. They are left alone."""
    _snapshots: list[int] | None = None
    """The producers' snapshots in the folder, until something may have removed one."""
    _without_index: set[int] = field(default_factory=set)
    """Base offsets of the segments whose offset index was missing."""

    def load(self) -> UnifiedLog:
        """The log, ready for reading and appending; its folder is made if there is none. DamagedFileError names a small
        file that cannot be what it should be, or a folder that is another topic's."""
        is_new = not self.filesystem.exists(self.directory)
        if is_new:
            self.filesystem.make_directory(self.directory)
            if self.syncs:
                self.filesystem.sync_directory(parent(self.directory))
            self.clean = True  # nothing can be lost of it
        # An owner that syncs everything does so after a crash only: if a log that was closed in order turns out to be
        # damaged below, this log has to sync.
        syncs = self.syncs or self.clean
        self._check_topic_id()
        names = finish_leftovers(self.filesystem, self.directory)
        self._snapshots = snapshots_among(names)
        self.unknown = [name for name in names if not _is_part_of_a_log(name)]
        epochs = self._read_epochs()
        segments = self._open_segments(names) or [self._segment(self.log_start_offset)]
        producer_state = self._recover(segments, epochs)
        try:
            end = segments[-1].next_offset()
            if end < segments[-1].base_offset or segments[-1].last_indexed >= end:
                raise CorruptRecordError(f"{segments[-1]} ends at {end}, or an index of it knows of more")
        except CorruptRecordError:
            # It was closed in order, and was damaged since: it is to be read through as after a crash.
            self.clean, self.recovery_point = False, min(self.recovery_point, segments[-1].base_offset)
            self.snapshot = None
            producer_state = self._recover(segments, epochs)
            end = segments[-1].next_offset()
        if self.log_start_offset > end:
            self._lose(segments, 0)  # all that a crash has left was deleted before
            segments.append(self._segment(self.log_start_offset))
        start = max(self.log_start_offset, segments[0].base_offset)
        end = max(start, end)
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(start)
        content = LogContent(
            segments=segments,
            epochs=epochs,
            producer_state=producer_state,
            log_start_offset=start,
            log_end_offset=end,
            recovery_point=min(self.recovery_point, end),
        )
        place = LogPlace(directory=self.directory, topic_partition=self.topic_partition, topic_id=self.topic_id)
        owner = LogOwner(self.on_truncated, self.on_recovery_point)
        log = UnifiedLog(place, self.config, self._ports(), content, owner)
        log.producer_state.remove_strays({segment.base_offset for segment in segments})
        log.rebuild_producer_state()
        if not self.clean and syncs:
            log.sync_records()
        elif self.clean and not is_new:
            log.note_finished()
        return log

    def _ports(self) -> LogPorts:
        trash = self.trash or Trash(self.filesystem, self.clock, self.background)
        return LogPorts(filesystem=self.filesystem, clock=self.clock, background=self.background, trash=trash)

    def _read_epochs(self) -> LeaderEpochCache:
        """The leader epochs. If they fit the snapshot, it is the recovery point. If they contradict it, or do not reach
        back to it, the directory is not as a node leaves it, and the whole log is read."""
        epochs = LeaderEpochCache(self.filesystem, self.directory)
        if self.snapshot is not None:
            offset, epoch = self.snapshot
            begins_there = bool(epochs.entries) and epochs.entries[0].start_offset == offset
            if begins_there or epochs.epoch_for(offset - 1) == epoch:
                self.recovery_point = offset
            else:
                self.snapshot = None
        return epochs

    def _producer_state(self) -> ProducerStateManager:
        """For the first one the folder need not be listed again: a start lists very many folders."""
        snapshots, self._snapshots = self._snapshots, None
        return ProducerStateManager(self.filesystem, self.directory, self.producer_id_expiration_ms, snapshots)

    def _check_topic_id(self) -> None:
        """A folder belongs to one incarnation of a topic for ever."""
        known = read_partition_metadata(self.filesystem, self.directory)
        if known is None and self.topic_id is not None:
            # A folder that lost it to a crash has lost all else, too, and is given the id that the metadata log has.
            write_partition_metadata(self.filesystem, self.directory, self.topic_id, sync_directory=False)
        elif known is not None:
            if self.topic_id not in (None, known):
                raise DamagedFileError(f"{self.directory} belongs to topic {known}, not {self.topic_id}")
            self.topic_id = known

    def _open_segments(self, names: list[str]) -> list[LogSegment]:
        stems = [name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)]
        bases = sorted(base for stem in stems if (base := offset_of(stem)) is not None)
        known = set(names)
        self._without_index = {base for base in bases if f"{base:020d}{INDEX_SUFFIX}" not in known}
        return [self._segment(base) for base in bases]

    def _segment(self, base_offset: int) -> LogSegment:
        return LogSegment(self.filesystem, self.directory, base_offset, self.config, self.clock.time_ms())

    def _recover(self, segments: list[LogSegment], epochs: LeaderEpochCache) -> ProducerStateManager:
        """Read through what was not synced, and truncate the log at the first damage; the producers' state as of
        there."""
        first = self._first_unsynced(segments)
        if first == len(segments):
            return self._producer_state()
        found: list[EpochEntry] = []
        state = self._state_before(segments, first)
        start = end = segments[first].base_offset
        synced_offset = None if self.snapshot is None else self.snapshot.offset
        gaps_are_no_loss, has_gaps = not self.is_known or _was_kafka(segments[-1]), False
        for number, segment in enumerate(segments[first:], start=first):
            has_gaps = has_gaps or segment.base_offset != end
            if has_gaps and not gaps_are_no_loss:
                self._lose(segments, number)
                break
            if has_gaps and segment is segments[-1]:
                self._raise_recovery_point(segments[first:], start, epochs, found)
            limit = None if segment is segments[-1] else segments[number + 1].base_offset
            size, end, first_offset = segment.recover(state, found, limit, synced_offset)
            start = first_offset if number == first else start
            if size < segment.size:
                if has_gaps and segment is not segments[-1]:
                    self._raise_recovery_point(segments[first : number + 1], start, epochs, found)
                self._lose(segments, number + 1)
                self.lost_bytes += segment.size - size
                segment.truncate_file(size)
                break
        epochs.relearn(start, found)
        state.map_end_offset = end if self.snapshot is not None else state.map_end_offset
        return state

    def _raise_recovery_point(
        self, segments: list[LogSegment], start: int, epochs: LeaderEpochCache, found: list[EpochEntry]
    ) -> None:
        """Let the recovery point say, from here on, that the gaps between these segments are no loss. They were read
        through from offset `start`, up to a point in the last one, and these epochs found."""
        epochs.relearn(start, found)
        for segment in segments[:-1]:
            segment.sync()
        self.filesystem.sync_directory(self.directory)
        self.recovery_point = max(self.recovery_point, segments[-1].base_offset)
        self.on_recovery_point(self.topic_partition, self.recovery_point)

    def _first_unsynced(self, segments: list[LogSegment]) -> int:
        """The number of the first segment that is not to be trusted; how many there are if all are. Indexes that do not
        fit their log are rebuilt on the way."""
        for number, segment in enumerate(segments):
            following = segments[number + 1 : number + 2]
            is_synced = self.clean or any(after.base_offset <= self.recovery_point for after in following)
            if not is_synced:
                return number
            try:
                segment.check()
                if segment.base_offset in self._without_index:
                    raise CorruptRecordError(f"{segment.offset_index.path} was not there")
            except CorruptRecordError:
                limit = following[0].base_offset if following else None
                size = segment.recover(self._state_before(segments, number), [], limit).size
                if size < segment.size:  # not by a crash: what follows is on the disk, whatever has damaged this one
                    if segment is segments[-1]:
                        return number
                    self.lost_bytes += segment.size - size
                    segment.truncate_file(size)
                segment.sync()
        return len(segments)

    def _state_before(self, segments: list[LogSegment], number: int) -> ProducerStateManager:
        """The producers' state where this segment begins: a transaction in it may have begun earlier. A snapshot from
        before the first segment tells nothing any more: what followed it is gone."""
        state = self._producer_state()
        if self.snapshot is not None:
            return state
        oldest = max(self.log_start_offset, segments[0].base_offset - 1)
        state.load_newest(oldest, segments[number].base_offset, self.clock.time_ms())
        for before, after in pairwise(segments[: number + 1]):
            if after.base_offset > state.map_end_offset:
                before.replay(state)
        return state

    def _lose(self, segments: list[LogSegment], number: int) -> None:
        """Remove the segments from this one on, for good."""
        while len(segments) > number:
            lost = segments.pop()
            self.lost_bytes += lost.size
            lost.close()
            remove_segment_files(self.filesystem, self.directory, lost.base_offset)
        self.filesystem.sync_directory(self.directory)


def _is_part_of_a_log(name: str) -> bool:
    stem, dot, suffix = name.partition(".")
    return name in SMALL_FILES or (offset_of(stem) is not None and dot + suffix in (*SUFFIXES, SNAPSHOT_SUFFIX))


def _was_kafka(active: LogSegment) -> bool:
    """Whether it was Apache Kafka that died with this segment open."""
    return active.offset_index.is_allocated or active.time_index.is_allocated
