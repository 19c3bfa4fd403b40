"""Bugs that need what a history seldom comes to: a snapshot that is loaded after a topic was deleted, a truncation to
just the high watermark, a leader that is not answered.

Each was in a hundred histories, and no law saw it. They are found when a history has ended, and what it seldom comes to
is supposed (the modules `laws.supposed_...` and `change_laws`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from pykraft.broker.replication import alter_partition
from pykraft.broker.replication.directory_assignments import DirectoryAssignments
from pykraft.broker.replication.directory_moves import DirectoryMoves
from pykraft.broker.replication.fetching import FetchResult
from pykraft.broker.requests.data.fetch_sessions import CachedPartition
from pykraft.common.core import FOREVER, Steps
from pykraft.common.errors import ErrorCode
from pykraft.common.types import OffsetAndEpoch, Uuid
from pykraft.controller.partitions import reassignment
from pykraft.controller.partitions.assignment import Assignment, reverted
from pykraft.controller.partitions.partition_change import ElrRules
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup
from pykraft.coordinator.group.consumer_groups import consumer_membership
from pykraft.coordinator.group.consumer_groups.consumer_heartbeat import ConsumerGroupManager
from pykraft.coordinator.group.consumer_groups.consumer_sessions import MemberSessions
from pykraft.coordinator.group.consumer_groups.pattern_refresh import PatternRefresher
from pykraft.coordinator.group.offsets import OffsetStore
from pykraft.coordinator.group.shard import GroupShard
from pykraft.metadata.acls import AclIndex
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.protocol.messages.records import PartitionRecord
from pykraft.raft.leader_state import LeaderState
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.raft.log.voters import LogHistory
from pykraft.sim.bugs.planting import bug, put
from pykraft.storage.producer_state import ProducerEntry, ProducerStateManager, ProducerUpdate
from pykraft.storage.upkeep.cleaner import Cleaning, Step

# --- metadata ---------------------------------------------------------------------------------------------------------


def _forget_in_snapshots(forget: Any) -> None:
    whole = MetadataDelta.between_in_steps.__func__  # type: ignore[attr-defined]

    def between(cls: type[MetadataDelta], before: MetadataImage, after: MetadataImage) -> Steps[MetadataDelta]:
        delta: MetadataDelta = yield from whole(cls, before, after)
        forget(delta)
        return delta

    put(MetadataDelta, "between_in_steps", classmethod(between))


@bug
def a_deleted_topic_that_a_snapshot_does_not_tell() -> None:
    """A broker that loads a snapshot does not hear which of its topics are gone."""
    _forget_in_snapshots(lambda delta: delta.removed_topics.clear())


@bug
def a_setting_that_a_snapshot_does_not_tell() -> None:
    """A broker that loads a snapshot does not hear which settings have changed."""
    _forget_in_snapshots(lambda delta: delta.touched_configs.clear())


@bug
def a_last_known_leader_that_a_snapshot_forgets() -> None:
    """A snapshot does not say which replica led last, where no replica leads now."""
    whole = PartitionRegistration.to_record

    def to_record(self: PartitionRegistration, topic_id: Uuid, partition: int) -> PartitionRecord:
        record = whole(self, topic_id, partition)
        record.last_known_elr = None
        return record

    put(PartitionRegistration, "to_record", to_record)


@bug
def a_reassignment_cancelled_without_any_original_in_sync() -> None:
    """A partition goes back to its first original replica, though only replicas that were to be added are in sync."""

    def go_back(assignment: Assignment, isr: Sequence[int]) -> Any:
        return (*reverted(assignment, isr)[:2], False)

    put(reassignment, "reverted", go_back)


@bug
def a_leader_whose_directory_is_offline() -> None:
    """The controller lets a broker lead what is in a directory that the broker does not have any more."""
    put(MetadataImage, "is_online", lambda self, broker_id, partition: broker_id in self.brokers)


@bug
def an_elr_beside_an_isr_that_is_large_enough() -> None:
    """Replicas stay eligible to lead while min.insync.replicas others are in sync, and commit without them."""
    next_elr = ElrRules.next_elr
    put(ElrRules, "next_elr", lambda self, *about: next_elr(replace(self, min_isr=self.min_isr + 1), *about))


@bug
def a_rule_of_access_that_some_answers_outlive() -> None:
    """A broker remembers whether a principal may write to any topic at all, whatever rules come and go."""
    follow = AclIndex.follow

    def follow_but_some(self: AclIndex, *about: Any) -> None:
        known = self._known_some
        follow(self, *about)
        self._known_some = known

    put(AclIndex, "follow", follow_but_some)


# --- the metadata log -------------------------------------------------------------------------------------------------


@bug
def a_truncation_to_the_high_watermark_that_is_refused() -> None:
    """A voter does not truncate its log where it parts from its leader's just at the high watermark."""
    truncate = ReplicatedLog.truncate_to_match

    def truncate_above(self: ReplicatedLog, leaders_end: OffsetAndEpoch) -> int | None:
        ours = self._end_of(leaders_end.epoch)
        agreed = min(ours.offset, leaders_end.offset) if ours.epoch == leaders_end.epoch else ours.offset
        return None if agreed == self.high_watermark else truncate(self, leaders_end)

    put(ReplicatedLog, "truncate_to_match", truncate_above)


@bug
def a_log_that_begins_in_another_epoch_and_passes() -> None:
    """A leader takes a log that ends where its own begins for a beginning of it, whatever epoch it ends in."""

    def is_before(self: ReplicatedLog, offset: int, epoch: int) -> bool:
        return offset < self.start_offset or epoch < self._ids[0].epoch

    put(ReplicatedLog, "_is_before_snapshots", is_before)


@bug
def voters_that_outlive_their_record() -> None:
    """A log that is truncated to where a record of the voters is goes on by that record."""

    def truncate_after(self: LogHistory[Any], end_offset: int) -> None:
        self._history = [(offset, value) for offset, value in self._history if offset <= end_offset]

    put(LogHistory, "truncate_to", truncate_after)


@bug
def a_commit_before_a_record_of_its_epoch() -> None:
    """A leader commits what is older than its epoch as soon as a majority has it."""
    update = LeaderState._update_high_watermark

    def update_early(self: LeaderState) -> bool:
        start = self.epoch_start_offset
        self.epoch_start_offset = start - 1
        try:
            return update(self)
        finally:
            self.epoch_start_offset = start

    put(LeaderState, "_update_high_watermark", update_early)


# --- logs and their producers -----------------------------------------------------------------------------------------


@bug
def a_producer_that_expires_within_its_transaction() -> None:
    """A log forgets a producer that is silent, also while its transaction is open."""

    def is_expired(self: ProducerStateManager, entry: ProducerEntry, now_ms: int) -> bool:
        return now_ms - entry.last_timestamp >= self.expiration_ms

    put(ProducerStateManager, "_is_expired", is_expired)


@bug
def a_snapshot_of_producers_without_their_coordinators() -> None:
    """A log forgets with a restart which transaction coordinator has written the last marker of a producer."""
    encode = ProducerStateManager._encode

    def encode_without(self: ProducerStateManager) -> bytes:
        twin = copy(self)
        twin.producers = {key: replace(each, coordinator_epoch=-1) for key, each in self.producers.items()}
        return encode(twin)

    put(ProducerStateManager, "_encode", encode_without)


@bug
def an_aborted_list_that_stops_at_its_own_marker() -> None:
    """The index of aborted transactions takes each marker for the last stable offset, though others are open."""
    plan = ProducerStateManager.plan

    def plan_by_marker(self: ProducerStateManager, *about: Any) -> ProducerUpdate:
        update = plan(self, *about)
        ended = [each._replace(last_stable_offset=each.last_offset + 1) for each in update.completed]
        return update._replace(completed=ended)

    put(ProducerStateManager, "plan", plan_by_marker)


@bug
def a_cleaner_that_begins_within_an_aborted_transaction() -> None:
    """A pass that begins within an aborted transaction takes the rest of it for committed, and removes what was."""
    make_map = Cleaning._make_map

    def make_without(self: Cleaning) -> Iterator[Step]:
        aborted = self.aborted
        self.aborted = [each for each in aborted if each.first_offset >= self.first_dirty_offset]
        try:
            yield from make_map(self)
        finally:
            self.aborted = aborted

    put(Cleaning, "_make_map", make_without)


@bug
def a_log_start_that_is_no_news() -> None:
    """A follower with a fetch session does not hear that its leader's log begins later, until there is a record."""
    note = CachedPartition.note

    def note_start_first(self: CachedPartition, result: FetchResult) -> bool:
        self.log_start_offset = result.log_start_offset
        return note(self, result)

    put(CachedPartition, "note", note_start_first)


@bug
def a_lost_answer_taken_for_a_refusal() -> None:
    """A leader that is not answered goes back to the ISR that it knew, though the controller may have changed it."""
    put(alter_partition, "_REFUSED", (*alter_partition._REFUSED, ErrorCode.UNKNOWN_SERVER_ERROR))


# --- log directories --------------------------------------------------------------------------------------------------


@bug
def a_directory_that_is_told_once() -> None:
    """A broker tells the controller once in which directory a replica is, and takes any answer for an agreement."""
    on_answer = DirectoryAssignments._on_answer

    def be_content(self: DirectoryAssignments, response: object, now: int) -> None:
        on_answer(self, response, now)
        self._next = FOREVER

    put(DirectoryAssignments, "_on_answer", be_content)


@bug
def a_copy_that_its_log_leaves_behind() -> None:
    """A log is truncated while it moves, and its copy in the other directory keeps what it has."""
    put(DirectoryMoves, "_on_truncated", lambda self, log: None)


# --- groups -----------------------------------------------------------------------------------------------------------


@bug
def a_late_transaction_that_undoes_a_commit() -> None:
    """The end of a transaction commits its offsets, also where the group has committed a later one meanwhile."""
    replay_marker = OffsetStore.replay_marker

    def replay_as_newest(self: OffsetStore, producer_id: int, is_commit: bool) -> None:
        for offsets in self._pending.get(producer_id, {}).values():
            for place, offset in offsets.items():
                offsets[place] = offset._replace(written=self._replayed + 1)
        replay_marker(self, producer_id, is_commit)

    put(OffsetStore, "replay_marker", replay_as_newest)


@bug
def a_pending_offset_that_outlives_its_topic() -> None:
    """A topic is deleted, and an offset for it that a transaction is about to commit stays."""
    forget_topics = GroupShard.forget_topics

    def forget_committed(self: GroupShard, *about: Any) -> Any:
        twin: Any = copy(self)
        twin.offsets = copy(self.offsets)
        twin.offsets.is_unstable = lambda group_id, place: False
        return forget_topics(twin, *about)

    put(GroupShard, "forget_topics", forget_committed)


@bug
def a_generation_that_an_empty_group_forgets() -> None:
    """A classic group that is loaded without members begins at generation 0 again."""
    whole = ClassicGroup.from_record.__func__  # type: ignore[attr-defined]

    def from_record(cls: type[ClassicGroup], group_id: str, value: Any) -> ClassicGroup:
        group: ClassicGroup = whole(cls, group_id, value)
        group.generation = group.generation if value.members else 0
        return group

    put(ClassicGroup, "from_record", classmethod(from_record))


@bug
def a_static_member_that_comes_again_with_nothing() -> None:
    """A static member that comes again has an empty target, until the next rebalance."""
    replacement = consumer_membership._replacement

    def replace_only(group: Any, *about: Any) -> Any:
        twin = copy(group)
        twin.target_assignment = {}
        return replacement(twin, *about)

    put(consumer_membership, "_replacement", replace_only)


@bug
def a_revocation_without_an_end() -> None:
    """A coordinator that loads a group lets a member take for ever to revoke what it has to."""
    on_loaded, watch = ConsumerGroupManager.on_loaded, MemberSessions.watch_rebalance

    def load_without(self: ConsumerGroupManager, now: int) -> None:
        MemberSessions.watch_rebalance = lambda *about: None  # type: ignore[method-assign]
        try:
            on_loaded(self, now)
        finally:
            MemberSessions.watch_rebalance = watch  # type: ignore[method-assign]

    put(ConsumerGroupManager, "on_loaded", load_without)


@bug
def a_new_topic_that_no_pattern_meets() -> None:
    """A group that subscribes to a pattern does not look at new topics, until it is time to look at all of them."""
    put(PatternRefresher, "on_topics_created", lambda self: None)
