"""Bugs put into the nodes on purpose, each a mistake that has been made before, or would be easy to make.

Each is one replaced method. `plant` puts one into this process for good, so it is called in a process of its own. None
has a scenario written for it: the seeds of `make test` must come upon it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pykraft.broker.replication import delayed, fetching, replica_manager
from pykraft.broker.replication.fetching import FetchParams, FetchPlace
from pykraft.broker.replication.partition import IsrChange, IsrProposal, Partition
from pykraft.broker.replication.replica_fetcher import ReplicaFetcher
from pykraft.broker.requests.data.fetch_sessions import FetchSession, FetchSessionCache
from pykraft.common.core import Failure, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ReplicaKey
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.coordinator.committed_view import CommittedView
from pykraft.coordinator.group import shard
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup
from pykraft.coordinator.group.consumer_groups import reconciliation
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_member import overlaps
from pykraft.coordinator.group.consumer_groups.reconciliation import Heard
from pykraft.coordinator.group.offsets import OffsetStore
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.group.topics import Assignment
from pykraft.coordinator.result import CoordinatorResult
from pykraft.coordinator.shard_context import Operation
from pykraft.coordinator.shard_writer import ShardWriter
from pykraft.protocol.messages.coordinators import GroupMemberKey, GroupMetadataValue, OffsetCommitKey
from pykraft.protocol.messages.group_values import GroupTargetAssignmentMemberValue
from pykraft.raft import election
from pykraft.raft.leader_state import LeaderState
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.raft.quorum_state import QuorumState, Unattached
from pykraft.raft.replica import RaftReplica
from pykraft.storage.answers import Isolation
from pykraft.storage.disk.filesystem import FileSystem
from pykraft.transport.peers import Peer
from tests.sim.histories import history

PLANTED: dict[str, Callable[[], None]] = {}


def bug(plant: Callable[[], None]) -> Callable[[], None]:
    PLANTED[plant.__name__] = plant
    return plant


def plant(name: str) -> None:
    """Make this mistake from now on."""
    PLANTED[name]()


def first_death(work: tuple[str, list[int]]) -> str | None:
    """Make a mistake, then run seeds until one fails; how it failed. None if the mistake survives them all."""
    name, seeds = work
    plant(name)
    outcomes = (history(seed) for seed in seeds)
    return next((outcome for outcome in outcomes if isinstance(outcome, str)), None)


def put(owner: Any, name: str, function: Any) -> None:
    """Replace a method or a function; AttributeError if there is none of that name any more."""
    getattr(owner, name)
    setattr(owner, name, function)


# --- Raft -------------------------------------------------------------------------------------------------------------


@bug
def a_vote_for_a_stale_log() -> None:
    """A voter does not look at the candidate's log."""
    put(ReplicatedLog, "is_up_to_date", lambda self, candidate: True)


@bug
def a_vote_forgotten_after_granting() -> None:
    """A voter says yes, and does not remember to whom."""

    def give_vote(self: QuorumState, candidate: ReplicaKey, now: int) -> None:
        if isinstance(self.role, Unattached):
            self._become(replace(self.role, election_deadline=self._election_deadline(now)))

    put(QuorumState, "give_vote", give_vote)


@bug
def a_vote_answered_before_its_flush() -> None:
    """A voter's election state is written, and not synced."""

    def replace_file(filesystem: FileSystem, path: str, data: bytes) -> None:
        if filesystem.exists(path):
            filesystem.remove(path)
        file = filesystem.open(path)
        file.append(data)
        file.close()

    put(election, "replace_file", replace_file)


@bug
def a_fetch_answered_before_its_flush() -> None:
    """A voter's next fetch says that it has records which are not on its disk."""

    def append_fetched(self: RaftReplica, data: memoryview) -> None:
        if self.log.append_as_follower(data):
            self.control_records.update()
            self.trace("metadata_append", end=self.log.end_offset, epoch=self.log.last_epoch)

    put(RaftReplica, "append_fetched", append_fetched)


@bug
def a_majority_that_is_one_voter_short() -> None:
    """The metadata log's high watermark is what all but a majority have."""

    def update(self: LeaderState) -> bool:
        ends = sorted((-1 if p.end_offset is None else p.end_offset for p in self.voters.values()), reverse=True)
        reached = ends[max(0, len(ends) // 2 - 1)]
        if reached <= max(self.epoch_start_offset, self.high_watermark or 0):
            return False
        self.high_watermark = reached
        return True

    put(LeaderState, "_update_high_watermark", update)


# --- replication ------------------------------------------------------------------------------------------------------


@bug
def a_high_watermark_one_replica_short() -> None:
    """The leader does not wait for one of its in-sync followers."""
    must_wait_for = Partition._must_wait_for

    def waits(self: Partition, follower: Any, end_offset: int, now: int) -> bool:
        return follower.broker_id != max(self.followers) and must_wait_for(self, follower, end_offset, now)

    put(Partition, "_must_wait_for", waits)


@bug
def an_isr_grown_before_the_follower_caught_up() -> None:
    """Any follower that fetches is taken in."""

    def propose(self: Partition, replica: int) -> IsrProposal | None:
        follower = self.followers.get(replica)
        if follower is None or self.isr_state.is_in_flight or replica in self.isr_state.isr:
            return None
        if not self._may_join(follower):
            return None
        return self._propose(replace(self.isr_state, change=IsrChange.EXPANDING, wanted=self.isr_state.isr | {replica}))

    put(Partition, "propose_expansion", propose)


@bug
def acks_all_answered_at_the_log_end() -> None:
    """A produce with acks=all is answered as soon as the leader has appended it."""

    def replicated(self: Partition, offset: int) -> ErrorCode | None:
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    put(Partition, "replicated_up_to", replicated)


@bug
def no_truncation_on_divergence() -> None:
    """A leader does not notice that a follower's log is no prefix of its own."""
    put(fetching, "diverging_end", lambda partition, place: None)


@bug
def a_sequence_check_skipped_after_a_leader_change() -> None:
    """A new leader does not know the producers that its predecessor knew, and takes any number from them."""
    update = Partition.update

    def update_and_forget(self: Partition, *arguments: Any) -> bool:
        is_new = update(self, *arguments)
        if is_new and self.is_leader:
            self.log.producer_state.producers = {}
        return is_new

    put(Partition, "update", update_and_forget)


@bug
def a_high_watermark_that_runs_back() -> None:
    """A leader's high watermark is what its followers have told, also if that is less than it was."""

    def advance(self: Partition, now: int) -> bool:
        end = self.log.log_end_offset
        waited_for = [f.end_offset for f in self.followers.values() if self._must_wait_for(f, end, now)]
        return not self.is_under_min_isr and self.log.update_high_watermark(max(0, min([end, *waited_for])))

    put(Partition, "advance_high_watermark", advance)


@bug
def a_follower_cut_to_its_high_watermark() -> None:
    """What Kafka did before KIP-101: the high watermark lags behind what was acknowledged."""
    add = ReplicaFetcher.add

    def cut_and_add(self: ReplicaFetcher, partition: Partition) -> None:
        partition.log.truncate_to(partition.log.high_watermark)
        add(self, partition)

    put(ReplicaFetcher, "add", cut_and_add)


@bug
def an_answer_matched_by_name_and_leader_epoch() -> None:
    """A follower does not compare whose log it has asked for, nor from which offset."""

    def is_current(self: ReplicaFetcher, followed: Any, asked: Any) -> bool:
        return asked is not None and asked.leader_epoch == followed.partition.leader_epoch

    put(ReplicaFetcher, "_is_current", is_current)


# --- clients ----------------------------------------------------------------------------------------------------------


@bug
def a_late_answer_taken_for_the_next_one() -> None:
    """A client that has given up a request keeps the connection. What comes late is the answer to the next request of
    that kind."""
    give_up = Peer._give_up

    def keep_the_connection(self: Peer, waiting: Any, now: int) -> None:
        if waiting not in self._unanswered or self._peers._is_of_node:
            give_up(self, waiting, now)
            return
        given_up = waiting.outbound

        def on_late(response: Any, then: int) -> None:
            for other in self._unanswered:
                if type(other.outbound.request) is type(given_up.request):
                    deceived = other.outbound
                    other.outbound = deceived._replace(on_response=lambda response, then: None)
                    deceived.on_response(response, then)
                    return

        waiting.outbound = given_up._replace(on_response=on_late)
        given_up.on_response(Failure.TIMED_OUT, now)

    put(Peer, "_give_up", keep_the_connection)


# --- fetch sessions ---------------------------------------------------------------------------------------------------


@bug
def a_session_that_forgets_a_changed_partition() -> None:
    """What a reader names again, because its offset is another one now, falls out of its session."""
    update = FetchSession.update

    def update_and_forget(self: FetchSession, wanted: Mapping[Any, Any], forgotten: Iterable[Any]) -> None:
        changed = [asked for asked in wanted if asked in self.partitions]
        update(self, wanted, [*forgotten, *changed])

    put(FetchSession, "update", update_and_forget)


@bug
def a_session_evicted_while_in_use() -> None:
    """The partitions of a session make room for another one's, and its reader does not hear of it."""

    def make_room(self: FetchSessionCache, is_follower: bool, size: int, now: int) -> bool:
        if not self._has_room(size) and self._sessions:
            evicted = next(iter(self._sessions.values()))
            evicted.update({}, list(evicted.partitions))
            return True
        return self._has_room(size)

    put(FetchSessionCache, "_make_room", make_room)


# --- the nearest replica ----------------------------------------------------------------------------------------------


@bug
def a_follower_that_serves_what_is_not_committed() -> None:
    """A follower gives consumers all that it has; only its leader knows how much of it is committed."""

    def serve(give: Callable[..., Any]) -> Callable[..., Any]:
        def given(partition: Partition, place: FetchPlace, params: FetchParams, *rest: Any, **named: Any) -> Any:
            all_there_is = params._replace(isolation=Isolation.LOG_END)
            return give(partition, place, params if partition.is_leader else all_there_is, *rest, **named)

        return given

    put(replica_manager, "read_partition", serve(fetching.read_partition))
    put(delayed, "available_bytes", serve(fetching.available_bytes))


# --- the group coordinator --------------------------------------------------------------------------------------------


@bug
def a_commit_answered_before_it_is_committed() -> None:
    """A coordinator answers as soon as it has appended."""

    def take_for_committed(
        self: ShardWriter[Any], context: Any, operations: Sequence[Operation], now: int, *_: Any
    ) -> None:
        for operation in operations:
            self._finish(context, operation, None, now)

    put(ShardWriter, "_wait", take_for_committed)


@bug
def a_commit_answered_before_it_is_appended() -> None:
    """A coordinator answers when it has decided, while the batch is open."""
    answer = ShardWriter._answer

    def answer_at_once(self: ShardWriter[Any], context: Any, result: CoordinatorResult[Any], *rest: Any) -> Any:
        if context.batch is None:
            return answer(self, context, result, *rest)
        operation = Operation(result, Promise())
        self._finish(context, operation, None, rest[1])
        return result.response if isinstance(result.response, Promise) else operation.promise

    put(ShardWriter, "_answer", answer_at_once)


@bug
def a_read_of_what_is_not_committed() -> None:
    """A coordinator tells readers the newest offset."""
    catch_up = CommittedView.catch_up
    put(CommittedView, "catch_up", lambda self, high_watermark: catch_up(self, 1 << 62))


@bug
def a_stale_generation_accepted() -> None:
    """A member may commit as long as it is one, in whatever generation it read."""

    def check(
        group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool = False
    ) -> None:
        group.validate(member_id, instance_id)

    put(shard, "check_classic_commit", check)


@bug
def a_commit_matched_by_its_generation_alone() -> None:
    """A group that was deleted and made again begins its generations anew: its members before may commit in them."""

    def check(
        group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool = False
    ) -> None:
        if generation != group.generation and (generation >= 0 or not group.is_empty):
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    put(shard, "check_classic_commit", check)


@bug
def a_group_deleted_without_its_offsets() -> None:
    """Of a group that is deleted only the members are forgotten."""

    def delete_groups(self: GroupShard, group_ids: Sequence[str]) -> CoordinatorResult[Any]:
        result, forgotten = forget(self, group_ids), OffsetCommitKey
        return result._replace(records=[each for each in result.records if not isinstance(each.key, forgotten)])

    forget = GroupShard.delete_groups
    put(GroupShard, "delete_groups", delete_groups)


@bug
def a_deleted_offset_kept_in_memory() -> None:
    """A coordinator writes the tombstones of offsets, and tells its readers the offsets all the same."""
    put(OffsetStore, "_forget", staticmethod(lambda by_group, group_id, place: None))


@bug
def a_stale_member_epoch_accepted() -> None:
    """The same in a consumer group: any epoch of a member's will do."""
    put(ConsumerGroup, "_check_epoch", lambda self, member, received: None)


@bug
def a_member_forgotten_on_replay() -> None:
    """A coordinator that takes over does not know the last member."""
    from_record = ClassicGroup.from_record

    def forget(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        group = from_record(group_id, value)
        if len(group.members) > 1:
            group.remove(list(group.members)[-1])
        return group

    put(ClassicGroup, "from_record", staticmethod(forget))


@bug
def a_session_timer_not_restarted_on_load() -> None:
    """A coordinator that takes over waits for the members that it has loaded, however long they are gone."""
    put(GroupShard, "on_loaded", lambda self, now: self._schedule_expiry())


@bug
def a_partition_assigned_before_its_owner_revoked_it() -> None:
    """A heartbeat that does not say what its member owns counts as a revocation."""

    def still_owns(heard: Heard, partitions: Assignment) -> bool:
        return heard.owned is not None and overlaps(heard.owned, partitions)

    put(reconciliation, "_still_owns", still_owns)


@bug
def a_target_assignment_from_an_older_epoch() -> None:
    """A member's first target stays, whatever the coordinator computes later."""
    replay_target = ConsumerGroup.replay_target

    def replay(self: ConsumerGroup, key: GroupMemberKey, value: GroupTargetAssignmentMemberValue | None) -> None:
        if value is None or key.member_id not in self.target_assignment:
            replay_target(self, key, value)

    put(ConsumerGroup, "replay_target", replay)


# --- the controller ---------------------------------------------------------------------------------------------------


@bug
def a_fenced_broker_kept_in_the_isr() -> None:
    """Whose session is over is fenced, and what it leads and is in sync with stays as it is."""
    put(ReplicationControl, "plan_broker_gone", lambda self, image, broker_id: [])
