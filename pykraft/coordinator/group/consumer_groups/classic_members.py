"""Members of a consumer group that speak the classic protocol: what JoinGroup, SyncGroup, Heartbeat and LeaveGroup do.

While clients are upgraded one by one, the group is a consumer group (`group_conversion`), and these four requests are
translated::

    JoinGroup    a full heartbeat: subscription and owned partitions are in its bytes. The answer has the member epoch
                 as the generation. There is no leader, because the coordinator assigns.
    SyncGroup    the partitions that the member has now
    Heartbeat    REBALANCE_IN_PROGRESS if the member has to join again to take its next step: the group's epoch is
                 ahead, it has partitions to revoke, or those that it waits for are free now
    LeaveGroup   the member is removed

No member waits for the others. So a rebalance of such a group needs several rounds of JoinGroup, as cooperative clients
know them; an eager client gives up its partitions first, and gets what it may have at once.

A static member of the other protocol that comes back with JoinGroup may be the last one of that protocol. Then the
group is downgraded with it.

Follows the classicGroup...ToConsumerGroup methods of org.apache.kafka.coordinator.group.GroupMetadataManager.
"""

from collections.abc import Sequence

from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.coordinator.group.classic_groups.classic_group import CONSUMER_PROTOCOL
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_member import ConsumerGroupMember, MemberState
from pykraft.coordinator.group.consumer_groups.consumer_heartbeat import ConsumerGroupManager, plan_member
from pykraft.coordinator.group.consumer_groups.consumer_membership import known_static_member, replaced_static_member
from pykraft.coordinator.group.consumer_groups.group_conversion import classic_metadata
from pykraft.coordinator.group.consumer_groups.pattern_refresh import Describable
from pykraft.coordinator.group.consumer_groups.reconciliation import Target
from pykraft.coordinator.group.consumer_protocol import (
    assignment_bytes,
    partitions_by_id,
    read_subscription,
    version_of,
)
from pykraft.coordinator.result import CoordinatorResult
from pykraft.protocol.messages.coordinators import ConsumerProtocolSubscription, CoordinatorRecord
from pykraft.protocol.messages.group_values import ClassicMemberMetadata
from pykraft.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from pykraft.protocol.messages.offsets import NO_MEMBER

_FIRST_MEMBER_ID_REQUIRED = 4


class ClassicMembers:
    """Handles the classic requests to a shard's consumer groups."""

    def __init__(self, manager: ConsumerGroupManager) -> None:
        self._manager = manager
        self._sessions = manager.sessions

    # --- JoinGroup ----------------------------------------------------------------------------------------------------

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        version: int,
        client_id: str,
        client_host: str,
        now: int,
        describable: Describable,
    ) -> CoordinatorResult[JoinGroupResponse]:
        """Let the member in, or let it take its next step."""
        is_unknown = request.member_id == NO_MEMBER
        member_id = self._manager.new_member_id() if is_unknown else request.member_id
        self._manager.check_size(group, member_id)
        names = [protocol.name for protocol in request.protocols]
        if request.protocol_type != CONSUMER_PROTOCOL or not _supports(group, names):
            detail = f"Member {member_id}'s protocols are not supported."
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail)
        if is_unknown and request.group_instance_id is None and version >= _FIRST_MEMBER_ID_REQUIRED:
            code = ErrorCode.MEMBER_ID_REQUIRED
            return CoordinatorResult(JoinGroupResponse(error_code=code, member_id=member_id))
        subscription = _subscription(request)
        existing = group.static_member(request.group_instance_id)
        member, records = _joining_member(group, member_id, request, is_unknown)
        updated = _updated_by(member, request, subscription, client_id, client_host)
        downgrades = existing is not None and self._manager.may_downgrade_for(group, existing)
        return self._plan_join(group, member, updated, request, subscription, records, downgrades, now, describable)

    def _plan_join(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        request: JoinGroupRequest,
        subscription: ConsumerProtocolSubscription,
        records: list[CoordinatorRecord],
        downgrades: bool,
        now: int,
        describable: Describable,
    ) -> CoordinatorResult[JoinGroupResponse]:
        manager = self._manager
        names_changed = plan_member(group, member, updated, records)
        pattern, to_resolve = manager.plan_pattern(group, member, updated, records)
        changed = pattern.changed or names_changed
        check_metadata = changed or group.has_metadata_expired(now)
        epoch = group.group_epoch
        if check_metadata:
            epoch = manager.plan_epoch(group, member, updated, changed, records)
        owned = partitions_by_id(subscription.owned_partitions, manager.topics)
        if downgrades:
            # With another subscription a rebalance follows: the member then gets its partitions from the leader.
            target = Target(group.target_epoch, group.target_of(updated))
            if not changed:
                updated = manager.plan_reconciliation(group, updated, target, owned, changed, records)
            return manager.downgrade_for(group, records, _joined(updated), updated, must_rebalance=changed)
        target = manager.plan_target(group, epoch, member, updated, records, now)
        updated = manager.plan_reconciliation(group, updated, target, owned, changed, records)
        group_id, member_id = group.group_id, updated.member_id
        timeout_ms = request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms

        def after(then: int) -> None:
            if check_metadata:
                manager.on_metadata_checked(group_id, then)
            manager.resolve_patterns(group_id, to_resolve, describable)
            self._sessions.start(group_id, member_id, request.session_timeout_ms)
            self._sessions.expect_sync(group_id, member_id, timeout_ms)
            manager.targets.start(group_id)

        return CoordinatorResult(_joined(updated), records, after)

    # --- SyncGroup, Heartbeat -----------------------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> CoordinatorResult[SyncGroupResponse]:
        """The partitions that the member has now."""
        if group.is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group.group_id} is empty")
        member, metadata = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        protocol = metadata.supported_protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL) or request.protocol_name not in (None, protocol.name):
            detail = f"the group's protocol is {CONSUMER_PROTOCOL}, the member's {protocol.name}"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail)
        if group.group_epoch > member.member_epoch and member.state != MemberState.UNREVOKED_PARTITIONS:
            return CoordinatorResult(
                SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS),
                after=lambda now: self._sessions.expect_join(group.group_id, member),
            )
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(member.assigned, self._manager.topics, version_of(protocol.metadata)),
        )

        def after(now: int) -> None:
            self._sessions.note_sync(group.group_id, member.member_id)
            self._sessions.start(group.group_id, member.member_id, metadata.session_timeout_ms)

        return CoordinatorResult(response, after=after)

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Note that the member lives; REBALANCE_IN_PROGRESS tells it to join again."""
        member, metadata = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        must_join = (
            member.member_epoch < group.group_epoch
            or member.state == MemberState.UNREVOKED_PARTITIONS
            or (member.state == MemberState.UNRELEASED_PARTITIONS and not group.waits_for_partitions(member))
        )

        def after(now: int) -> None:
            self._sessions.start(group.group_id, member.member_id, metadata.session_timeout_ms)
            if must_join:
                self._sessions.expect_join(group.group_id, member)

        error = ErrorCode.REBALANCE_IN_PROGRESS if must_join else ErrorCode.NONE
        return CoordinatorResult(HeartbeatResponse(error_code=error), after=after)

    # --- LeaveGroup ---------------------------------------------------------------------------------------------------

    def leave(self, group: ConsumerGroup, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove members, of either protocol, that say so or that an administrator names."""
        leaving = request.members or [LeaveGroupRequest.Member(member_id=request.member_id)]
        answers = []
        found: dict[str, ConsumerGroupMember] = {}
        for each in leaving:
            error = ErrorCode.NONE
            try:
                member = _leaving_member(group, each)
                found[member.member_id] = member
            except KafkaError as refusal:
                error = refusal.code
            answers.append(
                LeaveGroupResponse.Member(
                    member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error
                )
            )
        first = ErrorCode.of(answers[0].error_code) if not request.members else ErrorCode.NONE
        return self._manager.remove(group, list(found.values()), LeaveGroupResponse(error_code=first, members=answers))


def _supports(group: ConsumerGroup, names: Sequence[str]) -> bool:
    """Whether all classic members of the group have one of these protocols."""
    known = [
        {protocol.name for protocol in member.classic_metadata.supported_protocols}
        for member in group.members.values()
        if member.classic_metadata is not None
    ]
    return any(all(name in protocols for protocols in known) for name in names)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """All protocols of a consumer have the same subscription."""
    try:
        return read_subscription(bytes(request.protocols[0].metadata))
    except ProtocolError:
        detail = "Malformed embedded consumer protocol in subscription deserialization."
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail) from None


def _joining_member(
    group: ConsumerGroup, member_id: str, request: JoinGroupRequest, is_unknown: bool
) -> tuple[ConsumerGroupMember, list[CoordinatorRecord]]:
    """The member as it is before it joins, and the records that put it in a static member's place."""
    existing = group.static_member(request.group_instance_id)
    if request.group_instance_id is None or (is_unknown and existing is None):
        return group.members.get(member_id, ConsumerGroupMember(member_id)), []
    if is_unknown and existing is not None:
        return replaced_static_member(group, existing, member_id)
    return known_static_member(existing, member_id, request.group_instance_id), []


def _updated_by(
    member: ConsumerGroupMember,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    client_id: str,
    client_host: str,
) -> ConsumerGroupMember:
    instance_id, rack_id = request.group_instance_id, subscription.rack_id
    is_old = request.rebalance_timeout_ms < 0
    protocols = [(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols]
    return member._replace(
        instance_id=member.instance_id if instance_id is None else instance_id,
        rack_id=rack_id or member.rack_id,
        rebalance_timeout_ms=request.session_timeout_ms if is_old else request.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        client_id=client_id,
        client_host=client_host,
        classic_metadata=classic_metadata(request.session_timeout_ms, protocols),
    )


def _joined(member: ConsumerGroupMember) -> JoinGroupResponse:
    metadata = member.classic_metadata
    if metadata is None or not metadata.supported_protocols:  # no request leads here, but the member's record may
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{member.member_id} has no protocol")
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=metadata.supported_protocols[0].name,
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerGroupMember, ClassicMemberMetadata]:
    """KafkaError unless this member is in the group and speaks the classic protocol."""
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = known_static_member(group.static_member(instance_id), member_id, instance_id)
    if member.classic_metadata is None:
        detail = f"Member {member_id} does not use the classic protocol."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, detail)
    return member, member.classic_metadata


def _check_generation(member: ConsumerGroupMember, generation: int) -> None:
    if generation != member.member_epoch:
        detail = f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} of "
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"{detail}member {member.member_id}.")


def _leaving_member(group: ConsumerGroup, leaving: LeaveGroupRequest.Member) -> ConsumerGroupMember:
    """An administrator names a static member without its id."""
    instance_id = leaving.group_instance_id
    if instance_id is None:
        return group.member(leaving.member_id)
    static = group.static_member(instance_id)
    member_id = static.member_id if static is not None and leaving.member_id == NO_MEMBER else leaving.member_id
    return known_static_member(static, member_id, instance_id)
