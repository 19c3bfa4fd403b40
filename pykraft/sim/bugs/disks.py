"""Bugs that show where disks rot, are full or are others, and where clocks are set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pykraft.broker.replication.partition import IsrChange, IsrProposal, Partition
from pykraft.client.consuming.fetcher import _Fetched
from pykraft.common.errors import CorruptRecordError
from pykraft.controller.controller import QuorumController
from pykraft.controller.heartbeats import BrokerHeartbeats
from pykraft.records.batch import RecordBatch
from pykraft.sim.bugs.planting import bug, put
from pykraft.storage.answers import AppendInfo
from pykraft.storage.disk.trash import Trash
from pykraft.storage.log import UnifiedLog
from pykraft.storage.log_segment import LogSegment
from pykraft.storage.upkeep.log_directories import LogDirectories


@bug
def a_checksum_that_a_follower_skips() -> None:
    """A follower appends what its leader sends without a look at the checksum."""
    append = UnifiedLog.append_as_follower

    def append_anything(self: UnifiedLog, data: memoryview, leader_epoch: int | None = None) -> int:
        checked = RecordBatch.is_valid
        RecordBatch.is_valid = property(lambda batch: True)  # type: ignore[method-assign, assignment]
        try:
            return append(self, data, leader_epoch)
        finally:
            RecordBatch.is_valid = checked  # type: ignore[method-assign]

    put(UnifiedLog, "append_as_follower", append_anything)


@bug
def a_checksum_that_a_start_skips() -> None:
    """After a crash a log ends where its headers end, whatever the checksums say."""

    def batches(self: LogSegment, start: int, following: int) -> Iterator[tuple[int, RecordBatch]]:
        with suppress(CorruptRecordError):
            for position, batch in self.records.batches(start):
                if not self.continues(following, batch):
                    return
                yield position, batch
                following = batch.next_offset

    put(LogSegment, "_undamaged_batches", batches)


@bug
def a_checksum_that_a_consumer_skips() -> None:
    """A consumer takes the records of a batch that fails its checksum."""
    next_batch = _Fetched._next_batch

    def next_of_any(self: _Fetched) -> bool:
        self._check_crcs = False
        return next_batch(self)

    put(_Fetched, "_next_batch", next_of_any)


@bug
def a_full_disk_whose_write_is_acknowledged() -> None:
    """A leader whose disk has no room for a batch answers with the offset that it would have had."""
    append = Partition.append_as_leader

    def append_or_pretend(self: Partition, batch: RecordBatch, now: int, *arguments: Any) -> AppendInfo:
        end = self.log.log_end_offset
        try:
            return append(self, batch, now, *arguments)
        except OSError:
            return AppendInfo(end, end + batch.count - 1, -1, self.log.log_start_offset)

    put(Partition, "append_as_leader", append_or_pretend)


@bug
def a_broker_that_goes_on_with_a_failed_directory() -> None:
    """A broker answers that its only log directory has failed, and goes on leading."""
    put(LogDirectories, "take_offline", lambda self, error: True)


@bug
def a_session_by_the_wall_clock() -> None:
    """The controller measures by the time of day how long a broker was silent."""
    make, touch = QuorumController.__init__, BrokerHeartbeats.touch

    def make_with_clock(self: QuorumController, **parts: Any) -> None:
        make(self, **parts)
        vars(self.heartbeats).update(clock=parts["raft"]._replica.clock, by_day={})

    def touch_by_day(self: Any, broker_id: int, now: int, metadata_offset: int) -> None:
        touch(self, broker_id, now, metadata_offset)
        self.by_day[broker_id] = self.clock.time_ms()

    def stale_by_day(self: Any, unfenced: list[int], now: int) -> list[int]:
        time_ms = self.clock.time_ms()
        return [each for each in unfenced if time_ms >= self.by_day.get(each, time_ms) + self.session_timeout_ms]

    put(QuorumController, "__init__", make_with_clock)
    put(BrokerHeartbeats, "touch", touch_by_day)
    put(BrokerHeartbeats, "stale", stale_by_day)


@bug
def a_file_that_goes_by_the_wall_clock() -> None:
    """Deleted files go once the time of day is later than their deletion by the delay."""

    def add(self: Trash, paths: Any, delay_ms: int, close: Any = lambda: None) -> None:
        add_by_stopwatch(self, paths, delay_ms, close)
        due_us = (self._clock.time_ms() + delay_ms) * 1000
        self.doomed[-1] = self.doomed[-1]._replace(due_us=due_us)

    def empty(self: Trash) -> None:
        late_us = self._clock.elapsed_us() - self._clock.time_ms() * 1000
        self.doomed = [each._replace(due_us=each.due_us + late_us) for each in self.doomed]
        empty_by_stopwatch(self)
        self.doomed = [each._replace(due_us=each.due_us - late_us) for each in self.doomed]

    add_by_stopwatch, empty_by_stopwatch = Trash.add, Trash.empty
    put(Trash, "add", add)
    put(Trash, "empty", empty)


@bug
def an_empty_follower_that_is_taken_into_the_isr() -> None:
    """A leader takes a follower that begins with an empty log into the ISR at once."""
    propose = Partition.propose_expansion

    def propose_empty(self: Partition, replica: int) -> IsrProposal | None:
        follower = self.followers.get(replica)
        is_empty = follower is not None and follower.end_offset == 0 and self._may_join(follower)
        if is_empty and not self.isr_state.is_in_flight and replica not in self.isr_state.isr:
            wanted = self.isr_state.isr | {replica}
            return self._propose(replace(self.isr_state, change=IsrChange.EXPANDING, wanted=wanted))
        return propose(self, replica)

    put(Partition, "propose_expansion", propose_empty)
