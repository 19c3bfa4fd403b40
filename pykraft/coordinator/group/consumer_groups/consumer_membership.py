"""The checks before a heartbeat changes a consumer group, and the member that the heartbeat is for.

A heartbeat names its member and the member's epoch. If the coordinator has another epoch, it fences the member: the
member gives up all its partitions and joins again. There is one exception, as the response that raised the epoch may
have been lost: the previous epoch is accepted from a member that owns only partitions of its assignment.

A static member (`group.instance.id`) keeps its place over a restart. It leaves with epoch -2, and comes back under a
new member id, which takes over everything that the old one had. Until the old one has left, its instance id is taken.

Follows the throwIf... methods of org.apache.kafka.coordinator.group.{GroupCoordinatorService,GroupMetadataManager}.
"""

from collections.abc import Sequence

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
    is_subset,
)
from pykraft.coordinator.group.consumer_groups.consumer_group_records import (
    current_assignment_record,
    epoch_record,
    member_record,
    member_tombstones,
    pattern_tombstone,
    target_record,
)
from pykraft.coordinator.group.topics import Assignment, Topics
from pykraft.protocol.messages.coordinators import CoordinatorRecord
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest

_FIRST_VERSION_WITH_MEMBER_ID = 1
"""From this version on, the member makes up its id itself (KIP-1082)."""


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """KafkaError if no group could accept this heartbeat."""
    epoch = request.member_epoch
    if version >= _FIRST_VERSION_WITH_MEMBER_ID or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        _check_not_empty(request.member_id, "MemberId")
    _check_not_empty(request.group_id, "GroupId")
    _check_not_empty(request.instance_id, "InstanceId")
    _check_not_empty(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        supported = f"Supported assignors: {', '.join(assignors)}."
        detail = f"ServerAssignor {request.server_assignor} is not supported. {supported}"
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, detail)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    """A member that joins may subscribe to nothing, but it must say so."""
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _check_not_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, detail)


def check_size(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    """KafkaError GROUP_MAX_SIZE_REACHED if a further member wants to join a full group."""
    if len(group.members) >= max_size and member_id not in group.members:
        detail = f"The consumer group has reached its maximum capacity of {max_size} members."
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, detail)


def heartbeating_member(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, owned: Assignment | None
) -> tuple[ConsumerGroupMember, list[CoordinatorRecord]]:
    """The member as it is before this heartbeat, and the records that replace a static member by it."""
    if request.instance_id is not None:
        return _static_member(group, member_id, request, owned)
    if request.member_epoch == JOIN_EPOCH:
        return group.members.get(member_id, ConsumerGroupMember(member_id)), []
    member = group.member(member_id)
    check_member_epoch(member, request.member_epoch, owned)
    return member, []


def _static_member(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, owned: Assignment | None
) -> tuple[ConsumerGroupMember, list[CoordinatorRecord]]:
    existing = group.static_member(request.instance_id)
    if request.member_epoch != JOIN_EPOCH:
        member = known_static_member(existing, member_id, request.instance_id)
        check_member_epoch(member, request.member_epoch, owned)
        return member, []
    if existing is None:
        return group.members.get(member_id, ConsumerGroupMember(member_id)), []
    if not existing.uses_classic_protocol and existing.member_epoch != LEAVE_STATIC_EPOCH:
        detail = f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
        detail += f"instance id is owned by {existing.member_id} member."
        raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, detail)
    return replaced_static_member(group, existing, member_id)


def replaced_static_member(
    group: ConsumerGroup, existing: ConsumerGroupMember, member_id: str
) -> tuple[ConsumerGroupMember, list[CoordinatorRecord]]:
    """The static member under its new id, with all that it had under the old one, and the records for that."""
    heir = existing._replace(member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH)
    return heir, _replacement(group, existing, heir)


def _replacement(group: ConsumerGroup, old: ConsumerGroupMember, new: ConsumerGroupMember) -> list[CoordinatorRecord]:
    """The records that give the new member all that the old one had."""
    target = group.target_assignment.get(old.member_id, {})
    return [
        *member_tombstones(group.group_id, old.member_id),
        member_record(group.group_id, new),
        target_record(group.group_id, new.member_id, target),
        current_assignment_record(group.group_id, new),
    ]


def known_static_member(
    existing: ConsumerGroupMember | None, member_id: str, instance_id: str | None
) -> ConsumerGroupMember:
    """The static member, if it sent the request; KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID otherwise."""
    if existing is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if existing.member_id != member_id:
        detail = f"Static member {member_id} with instance id {instance_id} was fenced by member {existing.member_id}."
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, detail)
    return existing


def check_member_epoch(member: ConsumerGroupMember, received: int, owned: Assignment | None) -> None:
    """KafkaError FENCED_MEMBER_EPOCH unless the member has sent its present epoch, or may have lost a response."""
    if received > member.member_epoch:
        raise _fenced("greater", received, member)
    response_was_lost = received == member.previous_member_epoch and owned is not None
    if received < member.member_epoch and not (response_was_lost and is_subset(owned or {}, member.assigned)):
        raise _fenced("smaller", received, member)


def _fenced(how: str, received: int, member: ConsumerGroupMember) -> KafkaError:
    detail = f"The consumer group member has a {how} member epoch ({received}) than the one known by the group "
    detail += f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin."
    return KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, detail)


def plan_removal(
    group: ConsumerGroup, members: Sequence[ConsumerGroupMember], topics: Topics
) -> list[CoordinatorRecord]:
    """The records that remove these members and raise the group's epoch. The next heartbeat of another member computes
    the new target."""
    records = []
    for member in members:
        records += member_tombstones(group.group_id, member.member_id)
    left = group.subscribed_patterns(members)
    patterns = sorted({member.subscribed_topic_regex for member in members if member.subscribed_topic_regex})
    records += [pattern_tombstone(group.group_id, pattern) for pattern in patterns if pattern not in left]
    new_hash = group.subscriptions.metadata_hash(group.subscribed_topics(members), topics)
    return [*records, epoch_record(group.group_id, group.group_epoch + 1, new_hash)]
