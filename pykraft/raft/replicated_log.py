"""The metadata log as Raft sees it: the log of ``__cluster_metadata-0``, and the snapshots beside it.

Three things are asked of it that are asked of no other log:

* *validate* a replica's (offset, epoch): is it a prefix of ours, does it diverge, or does it end before our first
  record? If two logs hold a record with the same offset and epoch, they are equal up to there; so the epoch of the last
  record a replica has, and where that epoch ends here, tell the whole difference;
* *truncate* to where two logs part;
* *sync* before it is counted: a voter's records count for the majority, so they are on its disk first.

Follows org.apache.kafka.raft.{ReplicatedLog,ValidOffsetAndEpoch} and kafka.raft.KafkaMetadataLog.
"""

from enum import Enum
from typing import NamedTuple

from pykraft.common.core import FileRegion
from pykraft.common.types import OffsetAndEpoch
from pykraft.raft.history import SnapshotFolder
from pykraft.records.batch import RecordBatch, batches
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin


class Verdict(Enum):
    """How a replica's log relates to ours. Ours begins at offset 0 as long as no snapshots are written, so the third
    does not come up yet."""

    VALID = "it is a prefix of ours: go on from there"
    DIVERGING = "it parts from ours: truncate, and ask again"
    SNAPSHOT = "it ends before our first record: begin with a snapshot"


class Validation(NamedTuple):
    """The verdict, and what it is about: the place to go on from, or where the replica's epoch ends here."""

    verdict: Verdict
    place: OffsetAndEpoch


class ReplicatedLog:
    """The metadata log of this node."""

    def __init__(self, log: UnifiedLog, snapshots: SnapshotFolder) -> None:
        self._log = log
        self.snapshots = snapshots

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
    def last_epoch(self) -> int:
        """The largest epoch that the log knows of, perhaps one without a record yet; 0 if it knows of none."""
        return max(0, self._log.latest_epoch)

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
        returns the new end. None, and nothing is cut, if that lies below the high watermark: no leader's log ends
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
        if offset == 0 and self.start_offset == 0:
            return Validation(Verdict.VALID, OffsetAndEpoch(0, 0))
        if offset < self.start_offset:
            return Validation(Verdict.SNAPSHOT, OffsetAndEpoch(self.start_offset, epoch))
        end = self._end_of(epoch)
        if end.epoch != epoch or end.offset < offset:
            return Validation(Verdict.DIVERGING, end)
        return Validation(Verdict.VALID, OffsetAndEpoch(offset, epoch))

    def _end_of(self, epoch: int) -> OffsetAndEpoch:
        return self._log.end_offset_for(epoch) or self.end

    # --- closing ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._log.close()

    def abandon(self) -> None:
        self._log.abandon()


_READ_BYTES = 1 << 20
