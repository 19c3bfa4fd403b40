"""Bugs in logs that are shortened and compacted: what may go, when, and who hears of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pykraft.broker.replication.partition import Partition
from pykraft.broker.replication.replica_fetcher import ReplicaFetcher
from pykraft.common.settings.topic_config import RETENTION_MS
from pykraft.coordinator import runtime
from pykraft.coordinator.replay import Change, changes
from pykraft.records.batch import RecordBatch
from pykraft.records.filtering import Outline
from pykraft.sim.bugs.planting import bug, put
from pykraft.storage.log import UnifiedLog
from pykraft.storage.log_segment import LogSegment
from pykraft.storage.producer_state import ProducerEntry, ProducerStateManager
from pykraft.storage.segment_files import begin_swap, finish_swap
from pykraft.storage.transaction_index import AbortedTransaction
from pykraft.storage.upkeep import log_manager
from pykraft.storage.upkeep.cleaner import CleanedTransactions, OffsetMap
from pykraft.storage.upkeep.log_cleaner import LogCleaner
from pykraft.storage.upkeep.retention import delete_old_segments

# --- the log start ----------------------------------------------------------------------------------------------------


@bug
def a_retention_that_goes_past_the_high_watermark() -> None:
    """A segment goes when it has had its time, whether or not it is committed."""

    def delete(log: UnifiedLog, now_ms: int) -> int:
        high_watermark, log.high_watermark = log.high_watermark, log.log_end_offset
        try:
            return delete_old_segments(log, now_ms)
        finally:
            log.high_watermark = high_watermark

    put(log_manager, "delete_old_segments", delete)


@bug
def a_retention_that_forgets_the_policy() -> None:
    """A log that is only compacted is shortened, too."""

    def delete(log: UnifiedLog, now_ms: int) -> int:
        retention_ms, count = log.config[RETENTION_MS], 0
        for segment, after in zip(log.segments, log.segments[1:], strict=False):
            if now_ms - segment.youngest_ms() <= retention_ms or after.base_offset > log.high_watermark:
                break
            count += 1
        if count:
            log.delete_segments(count)
        return count

    put(log_manager, "delete_old_segments", delete)


@bug
def a_deletion_that_followers_do_not_follow() -> None:
    """A leader deletes records; its followers keep theirs."""
    put(Partition, "follow_log_start", lambda self, leader_log_start: False)


@bug
def a_deletion_answered_before_the_followers_have_it() -> None:
    """The low watermark is where the leader's own log begins."""
    put(Partition, "low_watermark", property(lambda self: self.log.log_start_offset))


@bug
def a_follower_that_keeps_what_is_below_its_leaders_start() -> None:
    """A follower whose log ends below its leader's start goes on there, after what it has."""

    def go_on(self: ReplicaFetcher, partition: Partition, offset: int) -> None:
        log = partition.log
        log.log_start_offset = log.log_end_offset = log.high_watermark = offset
        self._trace("truncate_fully", partition=partition.name, end=offset)

    put(ReplicaFetcher, "_begin_anew", go_on)


# --- compaction -------------------------------------------------------------------------------------------------------


@bug
def a_cleaner_that_drops_the_newest_record_of_a_key() -> None:
    """A record goes for a later one, or for itself."""

    def pick(self: OffsetMap, records: Iterable[Outline], tombstones_stay: bool) -> list[Outline]:
        latest, find = self.latest_offset, self._offsets.get
        return [each for each in records if each[3] > latest or (each[4] and each[3] < find(each[4], 0))]

    put(OffsetMap, "pick", pick)


@bug
def a_cleaner_that_goes_beyond_the_last_stable_offset() -> None:
    """All but the active segment is cleaned."""
    put(LogCleaner, "_first_uncleanable", lambda self, log, first_dirty, now_ms: log.active_segment.base_offset)


@bug
def a_tombstone_dropped_at_once() -> None:
    """A key that was deleted is forgotten in the next pass."""
    pick = OffsetMap.pick
    put(OffsetMap, "pick", lambda self, records, tombstones_stay: pick(self, records, False))


@bug
def a_marker_dropped_before_its_records() -> None:
    """The end of a transaction goes when its time is over, whatever is left of the transaction."""
    pass_marker = CleanedTransactions.pass_marker

    def is_spent(self: CleanedTransactions, batch: RecordBatch) -> tuple[bool, AbortedTransaction | None]:
        return True, pass_marker(self, batch)[1]

    put(CleanedTransactions, "pass_marker", is_spent)


@bug
def an_abort_forgotten_by_the_cleaner() -> None:
    """The cleaner takes every transaction for committed."""
    put(CleanedTransactions, "_begin_up_to", lambda self, offset: None)


@bug
def a_swap_that_loses_a_segment_in_a_crash() -> None:
    """The old segments go before the new one is ready to take their place."""

    def replace(self: UnifiedLog, replaced: Sequence[LogSegment]) -> None:
        base_offset = replaced[0].base_offset
        self._retire(replaced)
        begin_swap(self._filesystem, self.directory, base_offset)
        finish_swap(self._filesystem, self.directory, base_offset)
        self._segments.replace(replaced, self.open_segment(base_offset))
        self._known_position = None

    put(UnifiedLog, "replace_segments", replace)


# --- what is known of a log -------------------------------------------------------------------------------------------


@bug
def a_coordinator_that_ignores_a_tombstone_when_loading() -> None:
    """What was forgotten is remembered by the next coordinator."""

    def without_tombstones(types: Any, batch: RecordBatch, *rest: Any) -> Iterator[Change]:
        found = changes(types, batch, *rest)
        return (each for each in found if each.record is None or each.record.value is not None)

    put(runtime, "changes", without_tombstones)


@bug
def a_producer_forgotten_too_early() -> None:
    """Half of the time that the setting names is enough."""

    def is_expired(self: ProducerStateManager, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.transaction_first_offset is None and 2 * (now_ms - entry.last_timestamp) >= self.expiration_ms

    put(ProducerStateManager, "_is_expired", is_expired)
