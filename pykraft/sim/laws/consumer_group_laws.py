"""The laws of membership in a consumer group (KIP-848): who owns a partition, by the records and as the members see it.

*Of epochs*: the group's epoch grows with each record of it. A target assignment is computed for the group's present
epoch, and gives a partition to one member. A member's epoch does not go back, and is never ahead of the target's. What
a member has in an epoch is part of its target there, and the whole of it once the member is stable.

*Of ownership*: along the log, a partition is assigned to one member, or pending its revocation, at a time. The
coordinator only takes it away from there when the member no longer owns it, or when the member is removed. So of all
members that the coordinator counts as such, at most one owns a partition as its own user sees it. A member that was
removed may not know it yet; it cannot commit any more. A heartbeat hides no partition that the member's user owns.

*Of responses*: the epoch and the assignment that a member hears are those of a committed record of this member, and a
member takes over no partition that it was not given.

A member proves by a heartbeat which partitions it owns. One that arrives late proves what was true earlier: a heartbeat
whose sender had given it up, or its ghost. Kafka has no guard against that either, so the law of ownership is not
held against the coordinator there.

Follows what org.apache.kafka.coordinator.group.modern.consumer.{ConsumerGroup,CurrentAssignmentBuilder} promise.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from pykraft.common.types import TopicPartition, Uuid
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_member import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    MemberState,
    PartitionsOfTopic,
    topic_partitions,
)
from pykraft.coordinator.group.consumer_groups.consumer_group_records import (
    CURRENT_ASSIGNMENT,
    TARGET_ASSIGNMENT_MEMBER,
)
from pykraft.coordinator.group.topics import Assignment
from pykraft.protocol.messages.coordinators import CoordinatorRecord, GroupKey, GroupMemberKey
from pykraft.protocol.messages.group_values import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataValue,
    GroupTargetAssignmentMemberValue,
    GroupTargetAssignmentMetadataValue,
)
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from pykraft.sim.laws.group_laws import GroupLaws, names
from pykraft.sim.laws.invariants import Violation, require

Partitions = frozenset[TopicPartition]
_NONE: Partitions = frozenset()


@dataclass(eq=False)
class Claim:
    """A heartbeat that has had no good answer: what it says its member owns, and in which epoch."""

    member_id: str
    epoch: int
    owned: Partitions | None


@dataclass
class _Member:
    """A member by its last committed record, and what its user thinks it owns."""

    epoch: int
    previous_epoch: int
    assigned: Partitions
    pending: Partitions
    owned: Partitions = _NONE

    @property
    def held(self) -> Partitions:
        return self.assigned | self.pending


class ConsumerGroupLaws(GroupLaws):
    """Holds one consumer group against its laws."""

    def __init__(self, group_id: str, has_ghosts: bool, name_of: Callable[[Uuid], str]) -> None:
        """`name_of` knows the name of each topic id."""
        super().__init__(group_id, has_ghosts)
        self._name_of = name_of
        self._epoch = 0
        self._target_epoch = 0
        self._targets: dict[str, Partitions] = {}
        self._members: dict[str, _Member] = {}
        self._holders: dict[TopicPartition, str] = {}
        """By the log: to which member a partition is assigned, or which is to revoke it."""
        self._recorded: dict[str, set[tuple[int, Partitions]]] = {}
        """By member id, the epochs and assignments of all its records."""
        self._heard: dict[str, set[Partitions]] = {}
        """By member id, the assignments that it has heard."""
        self._claims: dict[str, list[Claim]] = {}

    @property
    def epoch(self) -> int:
        return self._epoch

    def tenure(self, request: OffsetCommitRequest) -> tuple[str, int]:
        return request.member_id, request.generation_id_or_member_epoch

    def is_present(self, tenure: Hashable) -> bool:
        """The member is in this epoch. Without members, anyone may commit without an epoch."""
        assert isinstance(tenure, tuple)
        member_id, epoch = tenure
        if epoch < 0:
            return not self._members
        return member_id in self._members and self._members[member_id].epoch == epoch

    # --- the log ------------------------------------------------------------------------------------------------------

    def on_group_record(self, record: CoordinatorRecord) -> None:
        key, value = record.key, record.value
        if isinstance(key, GroupKey):
            self._on_group(value)
            return
        assert isinstance(key, GroupMemberKey)
        if record.record_type == TARGET_ASSIGNMENT_MEMBER:
            self._targets.pop(key.member_id, None)
            if isinstance(value, GroupTargetAssignmentMemberValue):
                self._targets[key.member_id] = self._named(value.topic_partitions)
        elif isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
            self._on_assignment(key.member_id, value)
        elif record.record_type == CURRENT_ASSIGNMENT and key.member_id in self._members:
            self._release(key.member_id, _NONE)
            del self._members[key.member_id]

    def _on_group(self, value: Any) -> None:
        if isinstance(value, ConsumerGroupMetadataValue):
            require(value.epoch > self._epoch, f"{self.group_id} goes from epoch {self._epoch} to {value.epoch}")
            self._epoch = value.epoch
        elif isinstance(value, GroupTargetAssignmentMetadataValue):
            self._on_target(value.assignment_epoch)
        else:
            raise Violation(f"{self.group_id} was deleted")

    def _on_target(self, epoch: int) -> None:
        """The records of each member's target came before this one."""
        require(
            self._target_epoch < epoch == self._epoch,
            f"{self.group_id} is in epoch {self._epoch}, and its target goes from {self._target_epoch} to {epoch}",
        )
        self._target_epoch = epoch
        self.rebalances += 1
        wanted_by: dict[TopicPartition, str] = {}
        for member_id, target in self._targets.items():
            for key in sorted(target):
                other = wanted_by.setdefault(key, member_id)
                require(other == member_id, f"the target of epoch {epoch} gives {key} to {other} and to {member_id}")

    def _on_assignment(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue) -> None:
        epoch = value.member_epoch
        assigned, pending = self._named(value.assigned_partitions), self._named(value.partitions_pending_revocation)
        before = self._members.get(member_id)
        owned = _NONE
        if before is not None:
            has_left = epoch == LEAVE_STATIC_EPOCH
            require(has_left or epoch >= before.epoch, f"{member_id} goes back from epoch {before.epoch} to {epoch}")
            owned = _NONE if has_left else before.owned
            self._check_given_up(member_id, before, owned - assigned - pending)
            self._release(member_id, assigned | pending)
        require(epoch <= self._target_epoch, f"{member_id} is in epoch {epoch}, the target is of {self._target_epoch}")
        if epoch > JOIN_EPOCH:
            self._check_target(member_id, epoch, value.state, assigned)
        for key in sorted(assigned | pending):
            other = self._holders.setdefault(key, member_id)
            require(other == member_id, f"{key} is assigned to {member_id}, and {other} has not revoked it")
        self._members[member_id] = _Member(epoch, value.previous_member_epoch, assigned, pending, owned)
        self._recorded.setdefault(member_id, set()).add((epoch, assigned))

    def _check_target(self, member_id: str, epoch: int, state: int, assigned: Partitions) -> None:
        target = self._targets.get(member_id, _NONE)
        has_all = state == MemberState.STABLE and epoch == self._target_epoch
        require(
            assigned == target if has_all else assigned <= target,
            f"{member_id} has {names(assigned)} in epoch {epoch}; its target of epoch {self._target_epoch} is "
            f"{names(target)}",
        )

    def _release(self, member_id: str, kept: Partitions) -> None:
        """In the log, the member no longer has other partitions than these."""
        for key in self._members[member_id].held - kept:
            del self._holders[key]

    def _check_given_up(self, member_id: str, member: _Member, lost: Partitions) -> None:
        for key in sorted(lost):
            require(
                self._is_excused(member_id, member, key),
                f"{key} was taken from {member_id}, which still owns it in epoch {member.epoch}",
            )

    def _is_excused(self, member_id: str, member: _Member, key: TopicPartition) -> bool:
        """A late heartbeat may have said that the member does not own this partition."""
        epochs = (JOIN_EPOCH, member.epoch, member.previous_epoch)
        claims = [claim for claim in self._claims.get(member_id, ()) if claim.epoch in epochs]
        return self.has_ghosts or any(claim.owned is not None and key not in claim.owned for claim in claims)

    # --- what members send and hear -----------------------------------------------------------------------------------

    def send_heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> Claim:
        """A member sends a heartbeat; what `hear_heartbeat` will want."""
        parts = request.topic_partitions
        claim = Claim(request.member_id, request.member_epoch, None if parts is None else self._named(parts))
        member = self._members.get(claim.member_id)
        if member is not None and claim.owned is not None:
            hidden = member.owned - claim.owned
            require(not hidden, f"{claim.member_id} says that it has given up {names(hidden)}, and still owns them")
        self._claims.setdefault(claim.member_id, []).append(claim)
        return claim

    def hear_heartbeat(self, claim: Claim, response: ConsumerGroupHeartbeatResponse) -> None:
        """The coordinator has answered. After an error it may have taken the heartbeat all the same."""
        if response.error_code:
            return
        self._claims[claim.member_id].remove(claim)
        member_id, epoch = response.member_id or claim.member_id, response.member_epoch
        if epoch <= JOIN_EPOCH:
            return
        recorded = self._recorded.get(member_id, set())
        if response.assignment is None:
            is_recorded = any(each == epoch for each, _ in recorded)
            require(is_recorded, f"{member_id} hears epoch {epoch}, of which no record is committed")
            return
        assigned = self._named(response.assignment.topic_partitions)
        require(
            (epoch, assigned) in recorded,
            f"{member_id} hears {names(assigned)} in epoch {epoch}, of which no record is committed",
        )
        self._heard.setdefault(member_id, set()).add(assigned)

    # --- what members do ----------------------------------------------------------------------------------------------

    def own(self, member_id: str, owned: Partitions) -> None:
        """A member has taken over its assignment."""
        is_given = any(owned <= heard for heard in self._heard.get(member_id, ()))
        require(is_given, f"{member_id} owns {names(owned)}, which the coordinator never gave it")
        member = self._members.get(member_id)
        if member is None or member.epoch == LEAVE_STATIC_EPOCH:
            return  # it was removed, and does not know it yet
        self._check_given_up(member_id, member, owned - member.held)
        member.owned = owned

    def give_up(self, member_id: str, partitions: Iterable[TopicPartition]) -> None:
        """A member no longer owns these partitions."""
        member = self._members.get(member_id)
        if member is not None:
            member.owned -= frozenset(partitions)

    # --- the end ------------------------------------------------------------------------------------------------------

    def check_group(self, what: str, group: Any) -> None:
        assert isinstance(group, ConsumerGroup)
        epochs = (group.group_epoch, group.target_epoch)
        expected = (self._epoch, self._target_epoch)
        require(epochs == expected, f"{what} the epochs {epochs} of group and target; committed is {expected}")
        targets = {member_id: self._of(target) for member_id, target in group.target_assignment.items()}
        require(targets == self._targets, f"{what} the target {targets}; committed is {self._targets}")
        members = {
            each.member_id: (each.member_epoch, self._of(each.assigned), self._of(each.pending_revocation))
            for each in group.members.values()
        }
        recorded = {name: (each.epoch, each.assigned, each.pending) for name, each in self._members.items()}
        require(members == recorded, f"{what} the members {members}; committed is {recorded}")

    def _of(self, assignment: Assignment) -> Partitions:
        return self._named(topic_partitions(assignment))

    def _named(self, listed: Iterable[PartitionsOfTopic]) -> Partitions:
        return frozenset(
            TopicPartition(self._name_of(topic.topic_id), number) for topic in listed for number in topic.partitions
        )
