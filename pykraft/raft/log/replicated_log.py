"""The metadata log as Raft sees it: the log of ``__cluster_metadata-0``, and the snapshots beside it.

Three things are asked of it that are asked of no other log:

* *validate* a replica's (offset, epoch): is it a prefix of ours, does it diverge, or does it end before our first
  record? If two logs hold a record with the same offset and epoch, they are equal up to there; so the epoch of the last
  record a replica has, and where that epoch ends here, tell the whole difference;
* *truncate* to where two logs part;
* *sync* before it is counted: a voter's records count for the majority, so they are on its disk first.

Its beginning goes when snapshots have made it superfluous. The oldest snapshot that is kept is where the log begins::

    snapshot 40      snapshot 70
         |                |
         40 .. 55 | 56 .. 70 .. 83        what was before 40 is deleted, segment by segment, and so are older snapshots

`clean` moves it on, from snapshot to snapshot, while the snapshots and the log are larger or older than they may be.
The start is not written down: after a crash the log begins with its oldest segment, which may be earlier, and never
later than the newest snapshot. Snapshots from before the start go then. A follower that is behind the start copies the
newest snapshot (`snapshot_fetch`), then begins its log again at that offset; if a crash comes between the two, the next
start does it.

A start reads the newest snapshot and what follows it, not the log before it: a node writes a snapshot only when its log
up to there was synced (`sync_before_snapshot`), and so the snapshot is the log's recovery point (`log_loader`). Apache
Kafka has no recovery point for this log, and reads it through at each start. Like Kafka, a node does not start from an
older snapshot if the newest is damaged: its log may not reach back to that one.

Follows org.apache.kafka.raft.{ReplicatedLog,ValidOffsetAndEpoch} and kafka.raft.KafkaMetadataLog (KIP-595, KIP-630).
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from pykraft.common.core import FileRegion
from pykraft.common.types import OffsetAndEpoch
from pykraft.raft.log.history import SnapshotFolder, by_reach
from pykraft.raft.log.snapshot import BOOTSTRAP_SNAPSHOT
from pykraft.records.batch import RecordBatch, batches
from pykraft.storage.answers import Isolation
from pykraft.storage.leader_epoch_cache import EpochEntry
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin


class Verdict(Enum):
    """How a replica's log relates to ours."""

    VALID = "it is a prefix of ours: go on from there"
    DIVERGING = "it parts from ours: truncate, and ask again"
    SNAPSHOT = "it ends before our first record: begin with a snapshot"


class Validation(NamedTuple):
    """The verdict, and what it is about: the place to go on from, where the epoch ends here, or the snapshot to
    copy."""

    verdict: Verdict
    place: OffsetAndEpoch


class ReplicatedLog:
    """The metadata log of this node."""

    def __init__(self, log: UnifiedLog, snapshots: SnapshotFolder) -> None:
        """DamagedFileError if the log begins after all its snapshots."""
        self._log = log
        self.snapshots = snapshots
        snapshots.remove_leftovers()
        self._ids = snapshots.ids()
        snapshots.check_reaches(self.start_offset)
        self._forget(known for known in self._ids if known.offset < self.start_offset)
        newest = self.newest_snapshot
        if newest is not None and by_reach(newest) > by_reach(self.end):
            self.begin_at(newest)

    @property
    def unified(self) -> UnifiedLog:
        """The log as a log, for who looks on."""
        return self._log

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def epochs(self) -> Sequence[EpochEntry]:
        """Where each epoch begins, oldest first."""
        return self._log.epochs.entries

    @property
    def last_epoch(self) -> int:
        """The largest epoch that the log knows of, perhaps one without a record yet. That of its snapshot if the log is
        empty; 0 if there is none."""
        if self._log.latest_epoch >= 0:
            return self._log.latest_epoch
        newest = self.newest_snapshot
        return newest.epoch if newest is not None and newest.offset == self.end_offset else 0

    @property
    def end(self) -> OffsetAndEpoch:
        """How good the log is: compared by epoch, then by offset (`is_up_to_date`)."""
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    def is_up_to_date(self, candidate: OffsetAndEpoch) -> bool:
        """Whether a candidate whose log ends there has all that this log may have committed."""
        return (candidate.epoch, candidate.offset) >= (self.last_epoch, self.end_offset)

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    def update_high_watermark(self, offset: int) -> bool:
        return self._log.update_high_watermark(offset)

    # --- writing ------------------------------------------------------------------------------------------------------

    def begin_epoch(self, epoch: int) -> None:
        """This node leads from here on: its epoch begins where the log ends."""
        self._log.epochs.assign(epoch, self.end_offset)

    def append_as_leader(self, batch: bytearray, epoch: int) -> int:
        """Append one batch; the offset after it."""
        self._log.append_as_leader(RecordBatch(memoryview(batch)), epoch, AppendOrigin.RAFT_LEADER)
        return self.end_offset

    def append_as_follower(self, data: memoryview) -> int:
        """Append what the leader sent; how many batches."""
        return self._log.append_as_follower(data)

    def sync(self) -> None:
        began_us = self._log.flushes.begin()
        self._log.sync_records()
        self._log.flushes.end(began_us)

    def truncate_to_match(self, leaders_end: OffsetAndEpoch) -> int | None:
        """The leader's log of that epoch (the largest it has up to ours) ends there: cut ours to where they agree;
        returns the new end. None, and nothing is truncated, if that is below the high watermark: no leader's log ends
        there."""
        ours = self._end_of(leaders_end.epoch)
        agreed = min(ours.offset, leaders_end.offset) if ours.epoch == leaders_end.epoch else ours.offset
        if agreed < self.high_watermark:
            return None
        self._log.truncate_to(agreed)
        return self.end_offset

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int) -> FileRegion | bytes:
        """What follows `offset`, committed or not, as a replica fetches it."""
        return self._log.read(offset, max_bytes, Isolation.LOG_END, at_least_one=True).records

    def batches_between(self, offset: int, end_offset: int) -> list[RecordBatch]:
        """The whole batches from `offset` on that end at or before `end_offset`, a piece of the log at a time."""
        if offset >= end_offset:
            return []
        region = self.read(offset, _READ_BYTES)
        data = region if isinstance(region, bytes) else region.read(0, len(region))
        return [batch for batch in batches(memoryview(data)) if batch.next_offset <= end_offset]

    def validate(self, offset: int, epoch: int) -> Validation:
        """Judge a replica whose log ends at `offset`, with a last record of `epoch`."""
        newest = self.newest_snapshot
        if offset == 0 and newest not in (None, BOOTSTRAP_SNAPSHOT):
            return Validation(Verdict.SNAPSHOT, newest)  # shorter than the whole log
        if offset == 0 and self.start_offset == 0:
            return Validation(Verdict.VALID, OffsetAndEpoch(0, 0))
        if newest is not None and self._is_before_snapshots(offset, epoch):
            return Validation(Verdict.SNAPSHOT, newest)
        end = self._end_of(epoch)
        if end.epoch != epoch or end.offset < offset:
            return Validation(Verdict.DIVERGING, end)
        return Validation(Verdict.VALID, OffsetAndEpoch(offset, epoch))

    def _is_before_snapshots(self, offset: int, epoch: int) -> bool:
        """Whether this log cannot judge, for it no longer has those records."""
        oldest, start = self._ids[0], self.start_offset
        return offset < start or (offset == start and epoch != oldest.epoch) or epoch < oldest.epoch

    def _end_of(self, epoch: int) -> OffsetAndEpoch:
        end = self._log.end_offset_for(epoch)
        if end is None:
            return self.end
        if self._ids and end == (self._ids[0].offset, epoch):
            return self._ids[0]  # an epoch from before the log's start: it is the snapshot's last offset and epoch
        return end

    # --- snapshots ----------------------------------------------------------------------------------------------------

    @property
    def newest_snapshot(self) -> OffsetAndEpoch | None:
        """The one that reaches furthest."""
        return self._ids[-1] if self._ids else None

    def has_snapshot(self, snapshot: OffsetAndEpoch) -> bool:
        return snapshot in self._ids

    def sync_before_snapshot(self) -> Callable[[], bool]:
        """What has to be called, on any thread, and to return True before a snapshot gets its name: the log is on the
        disk up to here, with its indexes and leader epochs."""
        log = self._log
        unsynced = log.unsynced_segments
        for segment in unsynced:
            segment.write_indexes()
        log.epochs.write(log.log_end_offset)
        return lambda: log.sync_segments(unsynced)

    def add_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """It is whole, and on the disk. If the log has begun again after it meanwhile, it goes again."""
        if snapshot.offset < self.start_offset:
            self.snapshots.filesystem.remove(self.snapshots.path(snapshot))
        elif snapshot not in self._ids:
            self._ids = sorted([*self._ids, snapshot], key=by_reach)

    def begin_at(self, snapshot: OffsetAndEpoch) -> None:
        """Drop the whole log: what this node knows is that snapshot."""
        self._log.truncate_fully(snapshot.offset)
        self._forget_before(snapshot)

    def clean(self, now_ms: int, retention_bytes: int, retention_ms: int) -> bool:
        """Let the log begin at a later snapshot while snapshots and log have more than `retention_bytes`, or the oldest
        snapshot's last record is older than `retention_ms`; -1 is for ever. The newest one stays. Whether anything
        went."""
        has_gone = False
        while len(self._ids) > 1 and self._is_too_much(now_ms, retention_bytes, retention_ms):
            following = self._ids[1]
            if not self.start_offset < following.offset <= self.high_watermark:
                break
            self._log.increase_log_start(following.offset)
            segments = self._log.segments
            count = sum(after.base_offset <= following.offset for after in segments[1:])
            if count:
                self._log.delete_segments(count)
            self._log.forget_epochs()
            self._forget_before(following)
            has_gone = True
        return has_gone

    def _is_too_much(self, now_ms: int, retention_bytes: int, retention_ms: int) -> bool:
        folder = self.snapshots
        if retention_bytes >= 0:
            sizes = sum(folder.size(snapshot) for snapshot in self._ids)
            if self._log.size + sizes > retention_bytes:
                return True
        return retention_ms >= 0 and now_ms - folder.timestamp(self._ids[0]) > retention_ms

    def _forget_before(self, snapshot: OffsetAndEpoch) -> None:
        """Remove those that reach less far."""
        self._forget(known for known in self._ids if by_reach(known) < by_reach(snapshot))

    def _forget(self, snapshots: Iterable[OffsetAndEpoch]) -> None:
        for known in list(snapshots):
            self.snapshots.filesystem.remove(self.snapshots.path(known))
            self._ids.remove(known)

    # --- closing ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._log.close()

    def abandon(self) -> None:
        self._log.abandon()


_READ_BYTES = 1 << 20
