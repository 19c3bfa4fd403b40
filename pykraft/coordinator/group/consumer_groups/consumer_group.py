"""A consumer group: its members, its target assignment, and the owner of each partition.

The group has an epoch that rises when a member comes, goes or changes its subscription, and when the topics change.
The target assignment has the epoch that it was computed for, and each member the epoch that it has reached. Comparing
the three gives the group's state, so the state needs no record::

    no members                                Empty
    group epoch > target's epoch              Assigning     a new target is to be computed
    some member is not at the target's epoch  Reconciling
    otherwise                                 Stable

All state is in records, and only `replay_...` changes it. The one soft field is the time of the next metadata check.

Follows org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from typing import ClassVar

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.coordinator.group.consumer_groups.consumer_group_member import (
    LEAVE_EPOCH,
    NO_PARTITIONS,
    ConsumerGroupMember,
    MemberState,
    assignment_of,
)
from pykraft.coordinator.group.consumer_groups.consumer_group_records import group_tombstones
from pykraft.coordinator.group.consumer_groups.reconciliation import NO_OWNER
from pykraft.coordinator.group.consumer_groups.subscription_patterns import ResolvedPattern
from pykraft.coordinator.group.consumer_groups.subscriptions import Subscriptions
from pykraft.coordinator.group.topics import Assignment, Topics
from pykraft.protocol.messages.coordinators import CoordinatorRecord, GroupMemberKey, RegularExpressionKey
from pykraft.protocol.messages.group_values import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    GroupTargetAssignmentMemberValue,
    GroupTargetAssignmentMetadataValue,
)
from pykraft.protocol.messages.groups import ConsumerGroupDescribeResponse, DescribedAssignment, NamedPartitions

CONSUMER_MEMBER = 1
CLASSIC_MEMBER = 0
_FIRST_OFFSET_COMMIT_WITH_MEMBER_EPOCH = 9


class ConsumerGroupState(StrEnum):
    """As clients see it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup:
    """One group. Public attributes are read by plans and changed by `replay_...`."""

    group_type = "consumer"
    protocol_type = "consumer"
    new_group_epoch: ClassVar[int] = 0
    """Before the first member comes, which raises it from 0 whatever it subscribes to. In Kafka 4.4 it is 1, and a
    member without topics does not raise it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = self.new_group_epoch
        self.metadata_hash = 0
        self.target_epoch = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.static_members: dict[str, str] = {}
        """The member id of each instance id."""
        self.target_assignment: dict[str, Assignment] = {}
        self.resolved_patterns: dict[str, ResolvedPattern] = {}
        self.has_partition_metadata = False
        """A coordinator before 4.1 left a record of type 4: the next change of the group deletes it."""
        self.metadata_refresh_deadline_ms: int | None = None
        """When to check the topics again; None for at the next heartbeat. Soft."""
        self._owner_epochs: dict[tuple[Uuid, int], int] = {}
        self.subscriptions = Subscriptions()

    # --- what it is like ----------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """The state as clients read it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> ConsumerGroupMember:
        """KafkaError UNKNOWN_MEMBER_ID if the group has no such member."""
        member = self.members.get(member_id)
        if member is None:
            detail = f"Member {member_id} is not a member of group {self.group_id}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, detail)
        return member

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerGroupMember) -> Assignment:
        """What this member is to have; a static member's target is that of the member before it."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, "")
        return self.target_assignment.get(member_id, NO_PARTITIONS)

    def owner_epoch(self, topic_id: Uuid, partition: int) -> int:
        """The epoch of the member that has this partition, or is about to give it up; -1 if it is free."""
        return self._owner_epochs.get((topic_id, partition), NO_OWNER)

    def waits_for_partitions(self, member: ConsumerGroupMember) -> bool:
        """Whether another member still has partitions of this member's target."""
        target = self.target_assignment.get(member.member_id, NO_PARTITIONS)
        return member.state == MemberState.UNRELEASED_PARTITIONS and any(
            self.owner_epoch(topic_id, partition) != NO_OWNER
            for topic_id, partitions in target.items()
            for partition in partitions - member.assigned.get(topic_id, frozenset())
        )

    def has_metadata_expired(self, now: int) -> bool:
        return self.metadata_refresh_deadline_ms is None or now >= self.metadata_refresh_deadline_ms

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribed_topics(
        self,
        without: Sequence[ConsumerGroupMember] = (),
        plus: Sequence[ConsumerGroupMember] = (),
        resolved: Mapping[str, frozenset[str]] | None = None,
    ) -> set[str]:
        """The topics that the members subscribe to, by name or by a pattern; how it would be with other members, and
        with these patterns resolved to other topics."""
        topics = self.subscriptions.names_with(without, plus)
        left = self.subscribed_patterns(without, plus)
        dropped = {member.subscribed_topic_regex for member in without} - left.keys()
        by_pattern = {pattern: stands_for.topics for pattern, stands_for in self.resolved_patterns.items()}
        for pattern, matched in {**by_pattern, **(resolved or {})}.items():
            if pattern not in dropped:
                topics |= matched
        return topics

    def subscribed_patterns(
        self, without: Sequence[ConsumerGroupMember] = (), plus: Sequence[ConsumerGroupMember] = ()
    ) -> Counter[str]:
        """How many members subscribe to each pattern; how it would be with other members."""
        return self.subscriptions.patterns_with(without, plus)

    @property
    def has_patterns(self) -> bool:
        return bool(self.subscriptions.patterns)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions or any(
            topic in resolved.topics for resolved in self.resolved_patterns.values()
        )

    def is_subscribed_to_any(self, topics: Set[str]) -> bool:
        return self.subscriptions.has_any(topics) or any(
            not topics.isdisjoint(resolved.topics) for resolved in self.resolved_patterns.values()
        )

    def preferred_assignor(
        self, without: Sequence[ConsumerGroupMember] = (), plus: Sequence[ConsumerGroupMember] = ()
    ) -> str | None:
        """The assignor that most members ask for; how it would be with other members. Kafka leaves a tie to the order
        of a hash table; here the first by name wins."""
        votes = Counter(member.server_assignor for member in [*self.members.values(), *plus])
        votes.subtract(member.server_assignor for member in without)
        names = sorted(name for name, count in votes.items() if name is not None and count > 0)
        return max(names, key=votes.__getitem__, default=None)

    # --- offsets ------------------------------------------------------------------------------------------------------

    def validate_offset_commit(
        self, member_id: str, instance_id: str | None, member_epoch: int, is_transactional: bool, api_version: int
    ) -> None:
        """KafkaError unless this member may commit offsets now."""
        if member_epoch < 0 and not self.members:
            return  # an administrator, or a consumer that only keeps its offsets here
        if is_transactional and member_epoch == -1 and not member_id and instance_id is None:
            return  # a transactional producer need not say for which member it commits
        member = self.member(member_id)
        modern = not is_transactional and not member.uses_classic_protocol
        if modern and api_version < _FIRST_OFFSET_COMMIT_WITH_MEMBER_EPOCH:
            detail = "OffsetCommit version 9 or above must be used by members using the modern group protocol"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        self._check_epoch(member, member_epoch)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """KafkaError unless this member may fetch committed offsets now."""
        if member_id is None and member_epoch < 0:
            return
        self._check_epoch(self.member(member_id or ""), member_epoch)

    def validate_offset_delete(self) -> None:
        """Offsets of topics that nothing subscribes to may always go."""

    def validate_delete(self) -> None:
        """KafkaError NON_EMPTY_GROUP while the group has members."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def _check_epoch(self, member: ConsumerGroupMember, received: int) -> None:
        if received == member.member_epoch:
            return
        if member.uses_classic_protocol:
            detail = f"The received generation id {received} does not match the expected member epoch "
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"{detail}{member.member_epoch}.")
        detail = f"The received member epoch {received} does not match the expected member epoch {member.member_epoch}."
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH, detail)

    # --- seen from outside --------------------------------------------------------------------------------------------

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group."""
        return group_tombstones(self.group_id, self.members, self.resolved_patterns)

    def describe(self, topics: Topics, default_assignor: str) -> ConsumerGroupDescribeResponse.Group:
        return ConsumerGroupDescribeResponse.Group(
            group_id=self.group_id,
            group_state=self.state_name,
            group_epoch=self.group_epoch,
            assignment_epoch=self.target_epoch,
            assignor_name=self.preferred_assignor() or default_assignor,
            members=[self._described(self.members[member_id], topics) for member_id in sorted(self.members)],
        )

    def _described(self, member: ConsumerGroupMember, topics: Topics) -> ConsumerGroupDescribeResponse.Group.Member:
        target = self.target_assignment.get(member.member_id, NO_PARTITIONS)
        return ConsumerGroupDescribeResponse.Group.Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            assignment=DescribedAssignment(topic_partitions=_named(member.assigned, topics)),
            target_assignment=DescribedAssignment(topic_partitions=_named(target, topics)),
            member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
        )

    # --- replay -------------------------------------------------------------------------------------------------------

    def replay_epoch(self, value: ConsumerGroupMetadataValue) -> None:
        self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def replay_partition_metadata(self, value: ConsumerGroupPartitionMetadataValue | None) -> None:
        self.has_partition_metadata = value is not None

    def replay_member(self, key: GroupMemberKey, value: ConsumerGroupMemberMetadataValue | None) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self._put(member, (member or ConsumerGroupMember(key.member_id)).with_metadata(value))
        elif member is not None:
            self._put(member, None)

    def replay_target_epoch(self, value: GroupTargetAssignmentMetadataValue | None) -> None:
        self.target_epoch = -1 if value is None else value.assignment_epoch

    def replay_target(self, key: GroupMemberKey, value: GroupTargetAssignmentMemberValue | None) -> None:
        if value is not None:
            self.target_assignment[key.member_id] = assignment_of(value.topic_partitions)
        else:
            self.target_assignment.pop(key.member_id, None)

    def replay_assignment(self, key: GroupMemberKey, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self._put(member, (member or ConsumerGroupMember(key.member_id)).with_assignment(value))
        elif member is not None:
            gone = member._replace(
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned=NO_PARTITIONS,
                pending_revocation=NO_PARTITIONS,
            )
            self._put(member, gone)

    def replay_pattern(self, key: RegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None) -> None:
        self.resolved_patterns.pop(key.regular_expression, None)
        if value is not None:
            resolved = ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)
            self.resolved_patterns[key.regular_expression] = resolved

    def _put(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        """Set the new member in the old one's place, in everything that is derived from members, too."""
        if new is not None:
            new = new._replace(subscribed_topic_names=self.subscriptions.shared(new.subscribed_topic_names))
            self.subscriptions.add(new)  # before the old one goes: what both have is not counted again
        if old is not None:
            self.subscriptions.remove(old)
            self._release(old)
            del self.members[old.member_id]
            if old.instance_id is not None and self.static_members.get(old.instance_id) == old.member_id:
                del self.static_members[old.instance_id]
        if new is not None:
            for partition in _each(new.assigned, new.pending_revocation):
                self._owner_epochs[partition] = new.member_epoch
            self.members[new.member_id] = new
            if new.instance_id is not None:
                self.static_members[new.instance_id] = new.member_id

    def _release(self, member: ConsumerGroupMember) -> None:
        """Another epoch says that the partition already has a new owner."""
        for partition in _each(member.assigned, member.pending_revocation):
            if self._owner_epochs.get(partition) == member.member_epoch:
                del self._owner_epochs[partition]


def _each(*assignments: Assignment) -> Iterable[tuple[Uuid, int]]:
    for assignment in assignments:
        for topic_id, partitions in assignment.items():
            for partition in partitions:
                yield topic_id, partition


def _named(assignment: Assignment, topics: Topics) -> list[NamedPartitions]:
    """With the topics' names; topics that are gone are left out."""
    named = []
    for topic_id in sorted(assignment):
        topic = topics.by_id(topic_id)
        if topic is not None:
            partitions = sorted(assignment[topic_id])
            named.append(NamedPartitions(topic_id=topic_id, topic_name=topic.name, partitions=partitions))
    return named
