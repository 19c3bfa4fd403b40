"""The records of consumer groups, as a plan writes them.

A group with one member has five records: the member (type 5), the group's epoch (3), the member's target assignment
(7), the target's epoch (6) and the member's current assignment (8). A pattern of topics adds one for its topics (16).
A record without a value deletes. All values have version 0.

The order matters to a reader: replay refuses a member's deletion (5) while it still has a target or an epoch.

Follows org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers.
"""

from collections.abc import Iterable

from pykraft.common.core import Steps
from pykraft.coordinator.group.consumer_groups.consumer_group_member import ConsumerGroupMember, topic_partitions
from pykraft.coordinator.group.topics import Assignment
from pykraft.protocol.messages.coordinators import (
    CoordinatorRecord,
    GroupKey,
    GroupMemberKey,
    RegularExpressionKey,
)
from pykraft.protocol.messages.group_values import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    GroupTargetAssignmentMemberValue,
    GroupTargetAssignmentMetadataValue,
    TopicPartitions,
)
from pykraft.protocol.schema import Message

GROUP_METADATA = 3
PARTITION_METADATA = 4
MEMBER_METADATA = 5
TARGET_ASSIGNMENT_METADATA = 6
TARGET_ASSIGNMENT_MEMBER = 7
CURRENT_ASSIGNMENT = 8
REGULAR_EXPRESSION = 16

CONSUMER_GROUP_RECORD_TYPES = frozenset(
    {
        GROUP_METADATA,
        PARTITION_METADATA,
        MEMBER_METADATA,
        TARGET_ASSIGNMENT_METADATA,
        TARGET_ASSIGNMENT_MEMBER,
        CURRENT_ASSIGNMENT,
        REGULAR_EXPRESSION,
    }
)
"""What `ConsumerGroupManager.replay` takes."""


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(GROUP_METADATA, GroupKey(group_id=group_id), value)


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """For the record that held the topics before 4.1."""
    return _record(PARTITION_METADATA, GroupKey(group_id=group_id))


def member_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    return _record(MEMBER_METADATA, _member_key(group_id, member.member_id), member.metadata_value())


def target_epoch_record(group_id: str, epoch: int) -> CoordinatorRecord:
    value = GroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
    return _record(TARGET_ASSIGNMENT_METADATA, GroupKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    value = GroupTargetAssignmentMemberValue(topic_partitions=topic_partitions(target))
    return _record(TARGET_ASSIGNMENT_MEMBER, _member_key(group_id, member_id), value)


def target_record_in_steps(group_id: str, member_id: str, target: Assignment) -> Steps[CoordinatorRecord]:
    """The same, topic by topic."""
    listed = []
    for topic_id in sorted(target):
        yield
        listed.append(TopicPartitions(topic_id=topic_id, partitions=sorted(target[topic_id])))
    value = GroupTargetAssignmentMemberValue(topic_partitions=listed)
    return _record(TARGET_ASSIGNMENT_MEMBER, _member_key(group_id, member_id), value)


def current_assignment_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    return _record(CURRENT_ASSIGNMENT, _member_key(group_id, member.member_id), member.assignment_value())


def pattern_record(
    group_id: str, pattern: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> CoordinatorRecord:
    value = ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=timestamp_ms)
    return _record(REGULAR_EXPRESSION, _pattern_key(group_id, pattern), value)


def pattern_tombstone(group_id: str, pattern: str) -> CoordinatorRecord:
    return _record(REGULAR_EXPRESSION, _pattern_key(group_id, pattern))


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """All that is said of one member, deleted in the order that replay asks for."""
    key = _member_key(group_id, member_id)
    return [_record(kind, key) for kind in (CURRENT_ASSIGNMENT, TARGET_ASSIGNMENT_MEMBER, MEMBER_METADATA)]


def group_tombstones(group_id: str, member_ids: Iterable[str], patterns: Iterable[str]) -> list[CoordinatorRecord]:
    """All that is said of a group, deleted in the order that replay asks for."""
    group, keys = GroupKey(group_id=group_id), [_member_key(group_id, member_id) for member_id in sorted(member_ids)]
    return [
        *(_record(CURRENT_ASSIGNMENT, key) for key in keys),
        *(_record(TARGET_ASSIGNMENT_MEMBER, key) for key in keys),
        _record(TARGET_ASSIGNMENT_METADATA, group),
        *(_record(MEMBER_METADATA, key) for key in keys),
        *(pattern_tombstone(group_id, pattern) for pattern in sorted(patterns)),
        _record(PARTITION_METADATA, group),
        _record(GROUP_METADATA, group),
    ]


def _member_key(group_id: str, member_id: str) -> GroupMemberKey:
    return GroupMemberKey(group_id=group_id, member_id=member_id)


def _pattern_key(group_id: str, pattern: str) -> RegularExpressionKey:
    return RegularExpressionKey(group_id=group_id, regular_expression=pattern)


def _record(record_type: int, key: Message, value: Message | None = None) -> CoordinatorRecord:
    return CoordinatorRecord(record_type, key, None if value is None else 0, value)
