"""The group's target assignment: what each member is to have in the end.

When the group's epoch is ahead of its target's, the next heartbeat computes a new target with the assignor that most
members ask for. The assignor sees each member's topics (by name and by resolved pattern, those that exist) and its
target so far, which lets a sticky assignor move little. Only members whose target changes get a record (type 7); the
target's epoch follows (type 6), so a replay that has reached it has the whole target.

A static member that comes back under a new member id inherits the target of the member before it.

Follows org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder.
"""

from pykraft.coordinator.group.assignors import ASSIGNORS, Member
from pykraft.coordinator.group.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_group_member import NO_PARTITIONS, Assignment, ConsumerGroupMember
from pykraft.coordinator.group.consumer_group_records import target_epoch_record, target_record
from pykraft.coordinator.group.topics import Topics
from pykraft.protocol.messages.coordinators import CoordinatorRecord


def compute_target(
    group: ConsumerGroup, epoch: int, assignor: str, updated: ConsumerGroupMember, topics: Topics
) -> tuple[Assignment, list[CoordinatorRecord]]:
    """The updated member's target in this epoch, and the records of the whole group's new target."""
    members = _members_with(group, updated, topics)
    partitions = {
        topic_id: topic.partitions
        for topic_id in sorted(frozenset().union(*{member.topics for member in members.values()}))
        if (topic := topics.by_id(topic_id)) is not None
    }
    assigned = ASSIGNORS[assignor](members, partitions)
    records = []
    for member_id in sorted(members):
        new = _without_empty(assigned.get(member_id, {}))
        if new != group.target_assignment.get(member_id):
            records.append(target_record(group.group_id, member_id, new))
    records.append(target_epoch_record(group.group_id, epoch))
    return _without_empty(assigned.get(updated.member_id, {})), records


def _members_with(group: ConsumerGroup, updated: ConsumerGroupMember, topics: Topics) -> dict[str, Member]:
    """The members as the assignor sees them, with the updated one in the place of the one that it replaces."""
    replaced = group.static_member(updated.instance_id)
    members = {member_id: member for member_id, member in group.members.items() if member != replaced}
    members[updated.member_id] = updated
    heir_of = {updated.member_id: replaced.member_id} if replaced is not None else {}
    return {
        member_id: Member(
            member.instance_id,
            group.subscriptions.topic_ids(member, group.resolved_patterns, topics),
            group.target_assignment.get(heir_of.get(member_id, member_id), NO_PARTITIONS),
        )
        for member_id, member in sorted(members.items())
    }


def _without_empty(assignment: Assignment) -> Assignment:
    return {topic_id: partitions for topic_id, partitions in assignment.items() if partitions}
