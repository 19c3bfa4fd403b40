"""Heartbeats of consumer groups: the one request by which members join, learn their partitions, and leave (KIP-848).

In a classic group all members stop, join again, and get their partitions from the leader. In a consumer group the
coordinator computes the assignment, and a member only waits for partitions that another has not released. A heartbeat
may do three things, in this order:

1. The member changes: it is new, or subscribes to something else. Then, or when its topics have changed, the group's
   epoch rises.
2. The group's epoch is ahead of its target assignment's: a new target is computed for all members. In a large group
   the heartbeat does not wait for that (`target_computation`).
3. This member moves one step towards its target (`reconciliation`). The response holds its epoch and, if they have
   changed, its partitions.

A classic group whose members are consumers becomes a consumer group when the first member sends a heartbeat, and a
consumer group becomes a classic one again when its last such member is gone (`group_conversion`).

Follows org.apache.kafka.coordinator.group.GroupMetadataManager.{consumerGroupHeartbeat,consumerGroupLeave,
consumerGroupFenceMembers}.
"""

from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from random import Random
from typing import Any, NamedTuple

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.time_slice import ENDLESS, TimeSlice, take_short_steps
from pykraft.common.types import Uuid
from pykraft.coordinator.group.classic_groups.classic import ClassicGroups
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup, tombstone
from pykraft.coordinator.group.config import ConsumerGroupConfig
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.group.consumer_groups.consumer_group_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    NO_PARTITIONS,
    ConsumerGroupMember,
    assignment_of,
    topic_partitions,
)
from pykraft.coordinator.group.consumer_groups.consumer_group_records import (
    current_assignment_record,
    epoch_record,
    member_record,
    partition_metadata_tombstone,
    target_epoch_record,
)
from pykraft.coordinator.group.consumer_groups.consumer_membership import (
    check_heartbeat,
    check_size,
    heartbeating_member,
    known_static_member,
    plan_removal,
)
from pykraft.coordinator.group.consumer_groups.consumer_replay import replay_consumer_record
from pykraft.coordinator.group.consumer_groups.consumer_sessions import MemberSessions
from pykraft.coordinator.group.consumer_groups.group_conversion import (
    check_upgrade,
    downgraded,
    may_downgrade,
    upgraded,
)
from pykraft.coordinator.group.consumer_groups.pattern_refresh import (
    Describable,
    PatternChange,
    PatternRefresher,
    all_of,
    plan_pattern_change,
)
from pykraft.coordinator.group.consumer_groups.reconciliation import Heard, Target, reconcile
from pykraft.coordinator.group.consumer_groups.target_assignment import GroupTarget, compute_target
from pykraft.coordinator.group.consumer_groups.target_computation import TargetComputations
from pykraft.coordinator.group.topics import Assignment, Topics
from pykraft.coordinator.result import CoordinatorResult, CoordinatorTimer
from pykraft.protocol.messages.coordinators import CoordinatorRecord
from pykraft.protocol.messages.group_values import ConsumerGroupMetadataValue
from pykraft.protocol.messages.groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedPartitions,
)
from pykraft.protocol.schema import Message

METADATA_REFRESH_INTERVAL_MS = (1 << 31) - 1
"""A group's topics are checked at least this often; a change of the metadata checks them earlier."""

FIRST_EPOCH = 1
"""The least epoch of a target that a member can have reached."""

HeartbeatResult = CoordinatorResult[ConsumerGroupHeartbeatResponse]


class _Changes(NamedTuple):
    """What a heartbeat changes that no record holds."""

    metadata_checked: bool
    reconciled: ConsumerGroupMember | None
    """The member, if its assignment has changed."""
    patterns: list[str]
    """To be resolved."""
    describable: Describable
    upgraded: ClassicGroup | None
    """The classic group that this heartbeat has made a consumer group."""


class ConsumerGroupManager:
    """The consumer groups of one shard. `groups` also holds the shard's other groups, which this leaves alone."""

    def __init__(
        self,
        groups: MutableMapping[str, Any],
        topics: Topics,
        timer: CoordinatorTimer,
        config_of: Callable[[str], ConsumerGroupConfig],
        random: Random,
        time_ms: Callable[[], int],
        classic: ClassicGroups,
        time_slice: TimeSlice = ENDLESS,
    ) -> None:
        """`classic` are the shard's classic groups, which become consumer groups, and the reverse."""
        self._groups = groups
        self.topics = topics
        self._config_of = config_of
        self._random = random
        self._time_ms = time_ms
        self._classic = classic
        self.sessions = MemberSessions(timer, config_of, self.find, lambda group, member: self.remove(group, [member]))
        self._time_slice = time_slice
        self.targets = TargetComputations(timer, time_slice, self.find, self._steps_to_target)
        self._patterns = PatternRefresher(topics, timer, time_ms, self.find, self.on_metadata_checked)

    def find(self, group_id: str) -> ConsumerGroup | None:
        """The group, if there is one and it is a consumer group."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def group(self, group_id: str) -> ConsumerGroup:
        """KafkaError GROUP_ID_NOT_FOUND if there is no such consumer group."""
        group = self.find(group_id)
        if group is None:
            other = group_id in self._groups
            detail = f"Group {group_id} is not a consumer group." if other else f"Group {group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, detail)
        return group

    # --- the heartbeat ------------------------------------------------------------------------------------------------

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
        version: int,
        now: int,
        describable: Describable = all_of,
    ) -> HeartbeatResult:
        """Plan a ConsumerGroupHeartbeat of this version. `client_host` is as Java prints an address: ``/127.0.0.1``. A
        pattern matches only topics that are `describable`."""
        check_heartbeat(request, version, self._config_of(request.group_id).assignors)
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            return self._leave(request)
        return self._heartbeat(request, client_id, client_host, now, describable)

    def _heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
        now: int,
        describable: Describable,
    ) -> HeartbeatResult:
        config = self._config_of(request.group_id)
        group, records, classic = self._group_to_join(request)
        self.check_size(group, request.member_id)
        member_id = request.member_id or self.new_member_id()
        owned = None if request.topic_partitions is None else assignment_of(request.topic_partitions)
        member, replacement = heartbeating_member(group, member_id, request, owned)
        records += replacement

        updated = member.updated_by(request, client_id, client_host, group.subscriptions.shared)
        names_changed = plan_member(group, member, updated, records)
        pattern, to_resolve = self.plan_pattern(group, member, updated, records)
        must_bump = group.group_epoch == 0 or names_changed or pattern.takes_effect_now
        check_metadata = must_bump or group.has_metadata_expired(now)
        epoch = group.group_epoch
        if check_metadata:
            epoch = self.plan_epoch(group, member, updated, must_bump, records)

        target = self.plan_target(group, epoch, member, updated, records, now)
        changed = names_changed or pattern.changed
        reconciled = self.plan_reconciliation(group, updated, target, owned, changed, records)

        moved = reconciled if reconciled != updated else None
        changes = _Changes(check_metadata, moved, to_resolve, describable, classic)
        return CoordinatorResult(
            _response(request, member, reconciled, config.heartbeat_interval_ms),
            records,
            lambda now: self._after_heartbeat(group.group_id, member_id, changes, now),
        )

    def new_member_id(self) -> str:
        """An id for a member that brings none."""
        return str(Uuid.random(self._random))

    def check_size(self, group: ConsumerGroup, member_id: str) -> None:
        """KafkaError GROUP_MAX_SIZE_REACHED if this member has no place in the group."""
        check_size(group, member_id, self._config_of(group.group_id).max_size)

    def _group_to_join(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> tuple[ConsumerGroup, list[CoordinatorRecord], ClassicGroup | None]:
        """The request's group, the records that make it one, and the classic group with members that it was. A member
        that joins creates its group, and an empty classic group makes room for it."""
        found = self._groups.get(request.group_id)
        joins = request.member_epoch == JOIN_EPOCH
        if found is None and not joins:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
        if found is None:
            return ConsumerGroup(request.group_id), [], None
        if not joins or not isinstance(found, ClassicGroup):
            return self.group(request.group_id), [], None
        if found.is_empty:
            return ConsumerGroup(request.group_id), [tombstone(request.group_id)], None
        check_upgrade(found, self._config_of(request.group_id))
        return *upgraded(found, self.topics), found

    def plan_epoch(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        must_bump: bool,
        records: list[CoordinatorRecord],
    ) -> int:
        """The group's epoch after this heartbeat: a new one if it must rise, or if the topics have changed."""
        epoch = group.group_epoch
        new_hash = group.subscriptions.metadata_hash(group.subscribed_topics([member], [updated]), self.topics)
        if must_bump or new_hash != group.metadata_hash:
            epoch += 1
            records.append(epoch_record(group.group_id, epoch, new_hash))
        if group.has_partition_metadata:
            records.append(partition_metadata_tombstone(group.group_id))
        return epoch

    def plan_target(
        self,
        group: ConsumerGroup,
        epoch: int,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        records: list[CoordinatorRecord],
        now: int,
    ) -> Target:
        """What the member is to have: of a new target if the group's epoch is ahead of the present one, unless that
        takes long."""
        if epoch <= group.target_epoch:
            return Target(group.target_epoch, group.target_of(updated))
        if not self.targets.is_under_way(group.group_id):
            steps = self._steps_to_target(group, epoch, member, updated)
            is_done, found = take_short_steps(steps, self._time_slice, now)
            if is_done:
                records += found.records
                return Target(epoch, found.of(updated))
        if group.target_epoch < FIRST_EPOCH:
            records += first_target(group, epoch, records)
            return Target(epoch, NO_PARTITIONS)
        return Target(group.target_epoch, group.target_of(updated))

    def _steps_to_target(
        self,
        group: ConsumerGroup,
        epoch: int | None = None,
        member: ConsumerGroupMember | None = None,
        updated: ConsumerGroupMember | None = None,
    ) -> Steps[GroupTarget]:
        """The steps to the group's target, as it is or as a member's heartbeat makes it."""
        assignors = self._config_of(group.group_id).assignors
        assignor = group.preferred_assignor([] if member is None else [member], [] if updated is None else [updated])
        if assignor not in assignors:
            assignor = assignors[0]
        return compute_target(group, group.group_epoch if epoch is None else epoch, assignor, self.topics, updated)

    def plan_reconciliation(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        target: Target,
        owned: Assignment | None,
        subscription_changed: bool,
        records: list[CoordinatorRecord],
    ) -> ConsumerGroupMember:
        """Let the member, which owns these partitions, take a step towards its target, if it is not there yet."""
        if not subscription_changed and member.is_reconciled_to(target.epoch):
            return member
        topic_ids = group.subscriptions.topic_ids(member, group.resolved_patterns, self.topics)
        reconciled = reconcile(member, target, Heard(owned, subscription_changed, topic_ids), group.owner_epoch)
        if reconciled != member:
            records.append(current_assignment_record(group.group_id, reconciled))
        return reconciled

    def _after_heartbeat(self, group_id: str, member_id: str, changes: _Changes, now: int) -> None:
        if changes.upgraded is not None:
            self._classic.dissolve(changes.upgraded)
            for each in changes.upgraded.members.values():
                self.sessions.start(group_id, each.member_id, each.session_timeout_ms)
        self.sessions.start(group_id, member_id)
        self.targets.start(group_id)
        if changes.reconciled is not None:
            self.sessions.watch_rebalance(group_id, changes.reconciled)
        if changes.metadata_checked:
            self.on_metadata_checked(group_id, now)
        self.resolve_patterns(group_id, changes.patterns, changes.describable)

    def plan_pattern(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        records: list[CoordinatorRecord],
    ) -> tuple[PatternChange, list[str]]:
        """What changes of the member's pattern, and the patterns of the group that are to be resolved now."""
        change = plan_pattern_change(group, member, updated, records)
        interval_ms = self._config_of(group.group_id).regex_refresh_interval_ms
        return change, self._patterns.patterns_to_refresh(group, member, updated, change, interval_ms)

    def resolve_patterns(self, group_id: str, patterns: list[str], describable: Describable) -> None:
        """Have these patterns resolved, if there are any."""
        if patterns:
            self._patterns.schedule(group_id, patterns, describable)

    def on_metadata_checked(self, group_id: str, now: int) -> None:
        """The group's topics are as its epoch has them."""
        group = self.find(group_id)
        if group is not None:
            group.metadata_refresh_deadline_ms = now + METADATA_REFRESH_INTERVAL_MS

    # --- leaving ------------------------------------------------------------------------------------------------------

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> HeartbeatResult:
        """Remove the member; a static member that only leaves for a while keeps its partitions, under epoch -2."""
        group = self.group(request.group_id)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            static = group.static_member(request.instance_id)
            member = known_static_member(static, request.member_id, request.instance_id)
        response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
        if request.instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:
            left = member._replace(member_epoch=LEAVE_STATIC_EPOCH, pending_revocation=NO_PARTITIONS)
            return CoordinatorResult(response, [current_assignment_record(group.group_id, left)])
        return self.remove(group, [member], response)

    def remove(
        self, group: ConsumerGroup, members: Sequence[ConsumerGroupMember], response: Any = None
    ) -> CoordinatorResult[Any]:
        """Remove these members. If only members that speak the classic protocol stay, the group becomes a classic one,
        unless their bytes cannot be read."""
        if not members:
            return CoordinatorResult(response)
        if may_downgrade(group, self._config_of(group.group_id), self._classic.max_size, leaving=members):
            try:
                return self._downgrade(group, [], response, leaving=members)
            except KafkaError:
                pass

        def after(now: int) -> None:
            for member in members:
                self.sessions.cancel(group.group_id, member.member_id)

        return CoordinatorResult(response, plan_removal(group, members, self.topics), after)

    def may_downgrade_for(self, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
        """Whether the group becomes a classic one if a classic member takes this static member's place."""
        return may_downgrade(group, self._config_of(group.group_id), self._classic.max_size, replaced=replaced)

    def downgrade_for(
        self,
        group: ConsumerGroup,
        records: Sequence[CoordinatorRecord],
        response: Any,
        joining: ConsumerGroupMember,
        must_rebalance: bool,
    ) -> CoordinatorResult[Any]:
        """The group becomes a classic one, with the joining member in the place of its static member."""
        return self._downgrade(group, records, response, joining=joining, must_rebalance=must_rebalance)

    def _downgrade(
        self,
        group: ConsumerGroup,
        records: Sequence[CoordinatorRecord],
        response: Any,
        leaving: Sequence[ConsumerGroupMember] = (),
        joining: ConsumerGroupMember | None = None,
        must_rebalance: bool = True,
    ) -> CoordinatorResult[Any]:
        classic, planned = downgraded(group, self.topics, self._time_ms(), leaving, joining)
        member_ids = list(group.members)

        def after(now: int) -> None:
            for member_id in member_ids:
                self.sessions.cancel(group.group_id, member_id)
            # Replay has made the group of its record, which knows one protocol of each member. This one knows all.
            self._classic.adopt(classic, must_rebalance)

        return CoordinatorResult(response, [*records, *planned], after)

    # --- seen from outside --------------------------------------------------------------------------------------------

    def describe(self, group_ids: Iterable[str]) -> list[ConsumerGroupDescribeResponse.Group]:
        described = []
        for group_id in group_ids:
            try:
                assignor = self._config_of(group_id).assignors[0]
                described.append(self.group(group_id).describe(self.topics, assignor))
            except KafkaError as error:
                code, detail = error.code, error.detail
                described.append(
                    ConsumerGroupDescribeResponse.Group(group_id=group_id, error_code=code, error_message=detail)
                )
        return described

    def tombstones(self, group: ConsumerGroup) -> Sequence[CoordinatorRecord]:
        """The records that delete the group."""
        return group.tombstones()

    # --- what happens to the shard ------------------------------------------------------------------------------------

    def replay(self, record_type: int, key: Message, value: Message | None) -> None:
        """Apply a record of one of CONSUMER_GROUP_RECORD_TYPES."""
        replay_consumer_record(self._groups, record_type, key, value)

    def on_loaded(self, now: int) -> None:
        """All records are replayed: each member has a whole session to come back."""
        for group_id in sorted(self._groups):
            group = self.find(group_id)
            for _, member in sorted(group.members.items()) if group is not None else ():
                self.sessions.start(group_id, member.member_id)
                self.sessions.watch_rebalance(group_id, member)

    def on_metadata_changed(self, created: Collection[str] = (), changed: Collection[str] = ()) -> None:
        """Topics of these names were created, or changed (partitions, racks) or deleted. Their groups check them at
        their next heartbeat."""
        if created:
            self._patterns.on_topics_created()
        names = {*created, *changed} if self._groups else set()
        for group_id in sorted(self._groups):
            group = self.find(group_id)
            if group is not None and group.is_subscribed_to_any(names):
                group.metadata_refresh_deadline_ms = None


def plan_member(
    group: ConsumerGroup, member: ConsumerGroupMember, updated: ConsumerGroupMember, records: list[CoordinatorRecord]
) -> bool:
    """Write down what the member says; whether it names other topics than before."""
    if updated != member:
        records.append(member_record(group.group_id, updated))
    return updated.subscribed_topic_names != member.subscribed_topic_names


def first_target(group: ConsumerGroup, epoch: int, planned: Sequence[CoordinatorRecord]) -> list[CoordinatorRecord]:
    """The records that make the first target of a group an empty one in this epoch, and raise the group's epoch once
    more. The records planned before have the hash of the group's topics."""
    hashes = [r.value.metadata_hash for r in planned if isinstance(r.value, ConsumerGroupMetadataValue)]
    metadata_hash = hashes[-1] if hashes else group.metadata_hash
    return [target_epoch_record(group.group_id, epoch), epoch_record(group.group_id, epoch + 1, metadata_hash)]


def _response(
    request: ConsumerGroupHeartbeatRequest,
    before: ConsumerGroupMember,
    after: ConsumerGroupMember,
    heartbeat_interval_ms: int,
) -> ConsumerGroupHeartbeatResponse:
    """The assignment is only sent if it has changed, or if the request is a full one: the member may have lost it."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    is_full = request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None
    sends_assignment = request.member_epoch == JOIN_EPOCH or is_full or after.assigned != before.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
        assignment=_assignment(after.assigned) if sends_assignment else None,
    )


def _assignment(assigned: Assignment) -> ConsumerGroupHeartbeatResponse.Assignment:
    owned = [OwnedPartitions(topic_id=t.topic_id, partitions=t.partitions) for t in topic_partitions(assigned)]
    return ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=owned)
