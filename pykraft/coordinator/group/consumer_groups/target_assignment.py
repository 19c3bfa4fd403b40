"""The group's target assignment: what each member is to have in the end.

When the group's epoch is ahead of its target's, the next heartbeat computes a new target with the assignor that most
members ask for. The assignor sees each member's topics (by name and by resolved pattern, those that exist) and its
target so far, which lets a sticky assignor move little. Only members whose target changes get a record (type 7); the
target's epoch follows (type 6), so a replay that has reached it has the whole target.

A static member that comes back under a new member id inherits the target of the member before it.

With ten thousand topics this takes a tenth of a second, so it is `Steps`. If there are more than a few, the heartbeat
does not wait for them (`target_computation`).

Follows org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykraft.common.core import Steps
from pykraft.common.types import Uuid
from pykraft.coordinator.group.assignors import ASSIGNORS_IN_STEPS, Member
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_member import NO_PARTITIONS, ConsumerGroupMember
from pykraft.coordinator.group.consumer_groups.consumer_group_records import target_epoch_record, target_record_in_steps
from pykraft.coordinator.group.topics import Assignment, Topics
from pykraft.protocol.messages.coordinators import CoordinatorRecord


class GroupTarget(NamedTuple):
    """A new target of the whole group."""

    assignment: Mapping[str, Assignment]
    """By member."""
    records: Sequence[CoordinatorRecord]

    def of(self, member: ConsumerGroupMember) -> Assignment:
        return self.assignment.get(member.member_id, NO_PARTITIONS)


def compute_target(
    group: ConsumerGroup, epoch: int, assignor: str, topics: Topics, updated: ConsumerGroupMember | None = None
) -> Steps[GroupTarget]:
    """The group's new target in this epoch. `updated` is a member that is not yet in the group as it will be. What of
    the group may change between two steps is looked at in the first one."""
    before = dict(group.target_assignment)
    members = yield from _members_with(group, updated, topics)
    partitions: dict[Uuid, int] = {}
    for topic_id in sorted(frozenset().union(*{member.topics for member in members.values()})):
        yield
        topic = topics.by_id(topic_id)
        if topic is not None:
            partitions[topic_id] = topic.partitions
    assigned = yield from ASSIGNORS_IN_STEPS[assignor](members, partitions)
    records = []
    assignment = {}
    for member_id in sorted(members):
        yield
        new = assignment[member_id] = _without_empty(assigned.get(member_id, {}))
        if new != before.get(member_id):
            record = yield from target_record_in_steps(group.group_id, member_id, new)
            records.append(record)
    records.append(target_epoch_record(group.group_id, epoch))
    return GroupTarget(assignment, records)


def _members_with(
    group: ConsumerGroup, updated: ConsumerGroupMember | None, topics: Topics
) -> Steps[dict[str, Member]]:
    """The members as the assignor sees them, with the updated one in the place of the one that it replaces."""
    members, targets = dict(group.members), dict(group.target_assignment)
    heir_of = {}
    if updated is not None:
        replaced = group.static_member(updated.instance_id)
        if replaced is not None:
            del members[replaced.member_id]
            heir_of = {updated.member_id: replaced.member_id}
        members[updated.member_id] = updated
    seen = {}
    for member_id, member in sorted(members.items()):
        yield
        topic_ids = group.subscriptions.topic_ids(member, group.resolved_patterns, topics)
        target = targets.get(heir_of.get(member_id, member_id), NO_PARTITIONS)
        seen[member_id] = Member(member.instance_id, topic_ids, target)
    return seen


def _without_empty(assignment: Assignment) -> Assignment:
    return {topic_id: partitions for topic_id, partitions in assignment.items() if partitions}
