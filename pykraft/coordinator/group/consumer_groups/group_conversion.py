"""The same group under the other protocol: a classic group as a consumer group, and the reverse.

Clients move from the classic protocol to KIP-848's one by one, and back. So a group with members of both is a consumer
group: the first member that joins by ConsumerGroupHeartbeat upgrades a classic group, and when the last such member is
gone, the group is downgraded. `group.consumer.migration.policy` allows each direction::

    classic                       consumer
    generation                    epoch of the group, of its target and of each member
    subscription (bytes)          subscribed topics; the bytes stay in the member's `classic_metadata`
    assignment (bytes)            both what the member has and its target

A conversion keeps epochs and partitions. It is not a rebalance, but one follows: the member that joins or leaves
changes the subscriptions.

Both functions only build the new group and the records for it; the group that there is does not change.

Follows ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup and the validateOnline... methods of
org.apache.kafka.coordinator.group.GroupMetadataManager.
"""

from collections.abc import Collection, Iterable

from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.types import Uuid
from pykraft.coordinator.group.classic_groups.classic_group import (
    CONSUMER_PROTOCOL,
    ClassicGroup,
    ClassicMember,
    tombstone,
)
from pykraft.coordinator.group.config import ConsumerGroupConfig
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_member import NO_PARTITIONS, ConsumerGroupMember
from pykraft.coordinator.group.consumer_groups.consumer_group_records import (
    current_assignment_record,
    epoch_record,
    group_tombstones,
    member_record,
    target_epoch_record,
    target_record,
)
from pykraft.coordinator.group.consumer_groups.consumer_replay import apply_consumer_record
from pykraft.coordinator.group.consumer_protocol import (
    assignment_bytes,
    partitions_by_id,
    read_assignment,
    read_subscription,
    version_of,
)
from pykraft.coordinator.group.topics import Assignment, Topics, metadata_hash
from pykraft.protocol.messages.coordinators import CoordinatorRecord
from pykraft.protocol.messages.group_values import ClassicMemberMetadata

# --- upgrade ----------------------------------------------------------------------------------------------------------


def check_upgrade(group: ClassicGroup, config: ConsumerGroupConfig) -> None:
    """KafkaError GROUP_ID_NOT_FOUND unless this classic group may become a consumer group now."""
    if not config.migration_policy.allows_upgrade:
        raise _no_upgrade(group, "online upgrade is disabled.")
    if not group.uses_consumer_protocol:
        raise _no_upgrade(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > config.max_size:
        raise _no_upgrade(group, "the group size exceeds the consumer group maximum size.")


def _no_upgrade(group: ClassicGroup, why: str) -> KafkaError:
    detail = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, detail)


def upgraded(group: ClassicGroup, topics: Topics) -> tuple[ConsumerGroup, list[CoordinatorRecord]]:
    """The consumer group with the members of this classic group, and the records that put it in its place. KafkaError
    if a member's bytes cannot be read, or would be lost."""
    # Before its first generation a group has no protocol. Kafka fails then; here the members' votes decide already.
    protocol = group.protocol_name or group.select_protocol()
    members = [_upgraded_member(group, member, protocol, topics) for member in group.members.values()]
    members.sort(key=lambda member: member.member_id)
    _check_owned_once(group, members)
    new = ConsumerGroup(group.group_id)
    names = frozenset[str]().union(*(member.subscribed_topic_names for member in members))
    records = [
        *(member_record(group.group_id, member) for member in members),
        epoch_record(group.group_id, group.generation, metadata_hash(names, topics)),
        *(target_record(group.group_id, member.member_id, member.assigned) for member in members),
        target_epoch_record(group.group_id, group.generation),
        *(current_assignment_record(group.group_id, member) for member in members),
    ]
    for record in records:
        apply_consumer_record(new, record.record_type, record.key, record.value)
    return new, [tombstone(group.group_id), *records]


def _upgraded_member(group: ClassicGroup, member: ClassicMember, protocol: str, topics: Topics) -> ConsumerGroupMember:
    try:
        subscription = read_subscription(member.metadata(protocol))
        assigned: Assignment = NO_PARTITIONS
        if member.assignment:  # a member that has never synced has none
            assignment = read_assignment(member.assignment)
            if assignment.user_data:
                why = "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
                raise _no_upgrade(group, f"{why}default assignor before re-attempting the upgrade.")
            assigned = partitions_by_id(assignment.assigned_partitions, topics)
    except ProtocolError:
        raise _no_upgrade(group, "the embedded consumer protocol is malformed.") from None
    return ConsumerGroupMember(
        member_id=member.member_id,
        member_epoch=group.generation,
        previous_member_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        assigned=assigned,
        classic_metadata=classic_metadata(member.session_timeout_ms, member.protocols),
    )


def classic_metadata(session_timeout_ms: int, protocols: Iterable[tuple[str, bytes]]) -> ClassicMemberMetadata:
    """What a consumer group keeps of a member that speaks the classic protocol."""
    protocol = ClassicMemberMetadata.Protocol
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[protocol(name=name, metadata=bytes(metadata)) for name, metadata in protocols],
    )


def _check_owned_once(group: ClassicGroup, members: Iterable[ConsumerGroupMember]) -> None:
    """A leader may have given a partition to two members. A consumer group cannot hold that."""
    owned: set[tuple[Uuid, int]] = set()
    for member in members:
        for topic_id, partitions in member.assigned.items():
            for partition in partitions:
                if (topic_id, partition) in owned:
                    detail = f"the leader of group {group.group_id} gave one partition to two members"
                    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail)
                owned.add((topic_id, partition))


# --- downgrade --------------------------------------------------------------------------------------------------------


def may_downgrade(
    group: ConsumerGroup,
    config: ConsumerGroupConfig,
    classic_max_size: int,
    leaving: Collection[ConsumerGroupMember] = (),
    replaced: ConsumerGroupMember | None = None,
) -> bool:
    """Whether the group becomes a classic group if these members leave, or if a static member that speaks the classic
    protocol replaces this one."""
    if replaced is not None and replaced.uses_classic_protocol:
        return False
    gone = {member.member_id for member in (*leaving, *([] if replaced is None else [replaced]))}
    staying = [member for member_id, member in group.members.items() if member_id not in gone]
    size = len(staying) if replaced is None else len(group.members)
    return (
        all(member.uses_classic_protocol for member in staying)
        and 0 < size <= classic_max_size
        and config.migration_policy.allows_downgrade
    )


def downgraded(
    group: ConsumerGroup,
    topics: Topics,
    time_ms: int,
    leaving: Collection[ConsumerGroupMember] = (),
    joining: ConsumerGroupMember | None = None,
) -> tuple[ClassicGroup, list[CoordinatorRecord]]:
    """The classic group of the members that stay, and of the joining one in the place of its static member, and the
    records that put it in the consumer group's place. KafkaError if a member's bytes cannot be read."""
    replaced = None if joining is None else group.static_member(joining.instance_id)
    gone = {member.member_id for member in (*leaving, *([] if replaced is None else [replaced]))}
    new = ClassicGroup(group.group_id, time_ms)
    new.generation = group.group_epoch
    for member_id, member in group.members.items():
        if member_id not in gone:
            new.add(_downgraded_member(member), CONSUMER_PROTOCOL)
    had = {member_id: member_id for member_id in new.members}
    if joining is not None and replaced is not None:
        new.add(_downgraded_member(joining), CONSUMER_PROTOCOL)
        had[joining.member_id] = replaced.member_id
    new.become_stable()
    for member_id, classic in new.members.items():
        target = group.target_assignment.get(had[member_id], NO_PARTITIONS)
        try:
            version = version_of(classic.metadata(new.protocol_name))
        except ProtocolError as error:
            detail = f"Cannot downgrade the classic group {group.group_id}: {error}."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, detail) from None
        classic.assignment = assignment_bytes(target, topics, version)
    named_in_records = {member_id: member_id for member_id in group.members}
    if joining is not None and replaced is not None:  # the records before have put it in the old one's place
        named_in_records[replaced.member_id] = joining.member_id
    tombstones = group_tombstones(group.group_id, named_in_records.values(), group.resolved_patterns)
    return new, [*tombstones, new.record(new.assignments())]


def _downgraded_member(member: ConsumerGroupMember) -> ClassicMember:
    metadata = member.classic_metadata
    assert metadata is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=metadata.session_timeout_ms,
        protocols=[(protocol.name, bytes(protocol.metadata)) for protocol in metadata.supported_protocols],
    )
