"""Replaying the records of consumer groups: the only thing that changes them.

A record with a value creates its group if it is not there; a deletion for a group that is not there changes nothing.
That way a log that compaction has thinned out replays like the whole one: of each key its last record counts.

The records may have been written by a client, so an order that no coordinator writes is a ProtocolError, as it is an
IllegalStateException in Kafka. Then the shard cannot be loaded.

A group that only holds committed offsets is a classic group without members and without records. A consumer group takes
its place, as committed offsets belong to the group's name.

Follows the replay methods of org.apache.kafka.coordinator.group.GroupMetadataManager.
"""

from collections.abc import MutableMapping
from typing import Any

from pykraft.common.errors import ProtocolError
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_records import (
    CURRENT_ASSIGNMENT,
    GROUP_METADATA,
    MEMBER_METADATA,
    PARTITION_METADATA,
    REGULAR_EXPRESSION,
    TARGET_ASSIGNMENT_MEMBER,
    TARGET_ASSIGNMENT_METADATA,
)
from pykraft.protocol.messages.coordinators import GroupKey, GroupMemberKey, RegularExpressionKey
from pykraft.protocol.schema import Message


def replay_consumer_record(
    groups: MutableMapping[str, Any], record_type: int, key: Message, value: Message | None
) -> None:
    """Apply a record of a consumer group to its group; ProtocolError if the group is of another kind."""
    if not isinstance(key, GroupKey | GroupMemberKey | RegularExpressionKey):
        raise ProtocolError(f"a record of type {record_type} has a {type(key).__name__}")
    group = _group_of(groups, key.group_id, create=value is not None)
    if group is None:
        return
    if record_type == GROUP_METADATA and value is None:
        del groups[key.group_id]
    else:
        apply_consumer_record(group, record_type, key, value)


def _group_of(groups: MutableMapping[str, Any], group_id: str, create: bool) -> ConsumerGroup | None:
    group = groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if not create:
        return None
    if group is not None and not group.is_empty:
        raise ProtocolError(f"a record makes {group_id} a consumer group, but it has other members")
    created = groups[group_id] = ConsumerGroup(group_id)
    return created


def apply_consumer_record(group: ConsumerGroup, record_type: int, key: Any, value: Any) -> None:
    """Apply a record to the group that it is about."""
    if record_type == GROUP_METADATA:
        group.replay_epoch(value)
    elif record_type == PARTITION_METADATA:
        group.replay_partition_metadata(value)
    elif record_type == MEMBER_METADATA:
        group.replay_member(key, value)
    elif record_type == TARGET_ASSIGNMENT_METADATA:
        group.replay_target_epoch(value)
    elif record_type == TARGET_ASSIGNMENT_MEMBER:
        group.replay_target(key, value)
    elif record_type == CURRENT_ASSIGNMENT:
        group.replay_assignment(key, value)
    elif record_type == REGULAR_EXPRESSION:
        group.replay_pattern(key, value)
    else:
        raise ProtocolError(f"no record of consumer groups has type {record_type}")
