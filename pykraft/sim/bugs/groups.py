"""Bugs in the group coordinator: its members, their assignments, and the offsets that they commit.

Each answers too early, forgets what its log says, or believes a member that is none any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
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
from pykraft.sim.bugs.planting import bug, put


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
    put(CommittedView, "catch_up", lambda self, high_watermark, in_turn=True: catch_up(self, 1 << 62, in_turn))


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
    """A group that was deleted and made again begins its generations again: its members before may commit in them."""

    def check(
        group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool = False
    ) -> None:
        if generation != group.generation and (generation >= 0 or not group.is_empty):
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    put(shard, "check_classic_commit", check)


@bug
def a_group_deleted_without_its_offsets() -> None:
    """A group is deleted, and its offsets stay."""

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
    """A member of a consumer group may commit in whatever epoch it read."""
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
