"""A member of a consumer group, as its records describe it.

Two records describe a member. Type 5 holds its client and its subscription, type 8 its epoch and its partitions. A
member is a value: a change makes a new one, and comparing the two shows which record to write.

The member epoch has four meanings::

    0    the member joins
    > 0  it has reached the target assignment of this epoch, or is on its way to the next
    -1   it has left
    -2   it is static and left for a while; the group keeps its partitions

The response that raises the epoch may be lost. The member then sends its previous epoch, so the record keeps that too.

Follows org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember and
org.apache.kafka.coordinator.group.modern.MemberState.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import NamedTuple, Protocol, Self

from pykraft.common.types import Uuid
from pykraft.coordinator.group.topics import Assignment
from pykraft.protocol.messages.group_values import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

NO_PARTITIONS: Assignment = {}


class MemberState(IntEnum):
    """How far a member is on its way to the target assignment."""

    STABLE = 0
    """It has what it is to have, as far as its epoch goes."""
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions before it may go on to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is in the newest epoch, and waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """A newer coordinator wrote a state that this one does not know."""

    @classmethod
    def of(cls, value: int) -> "MemberState":
        return cls(value) if value in _STATES else cls.UNKNOWN


_STATES = frozenset(state.value for state in MemberState)


class PartitionsOfTopic(Protocol):
    """What requests and records list partitions by."""

    @property
    def topic_id(self) -> Uuid: ...

    @property
    def partitions(self) -> Iterable[int]: ...


class ConsumerGroupMember(NamedTuple):
    """One member. The defaults are those of a member that no record has described yet."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: Assignment = NO_PARTITIONS
    pending_revocation: Assignment = NO_PARTITIONS
    classic_metadata: ClassicMemberMetadata | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        """It speaks the classic protocol, in a group that was upgraded around it."""
        return self.classic_metadata is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state == MemberState.STABLE and self.member_epoch == target_epoch

    def updated_by(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
        shared: Callable[[frozenset[str]], frozenset[str]],
    ) -> Self:
        """The member after this heartbeat. What the request does not mention stays; `shared` knows the one object that
        stands for a subscription in the group."""
        names, pattern, timeout_ms = (
            request.subscribed_topic_names,
            request.subscribed_topic_regex,
            request.rebalance_timeout_ms,
        )
        return self._replace(
            instance_id=self.instance_id if request.instance_id is None else request.instance_id,
            rack_id=self.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            server_assignor=self.server_assignor if request.server_assignor is None else request.server_assignor,
            subscribed_topic_names=self.subscribed_topic_names if names is None else shared(frozenset(names)),
            subscribed_topic_regex=self.subscribed_topic_regex if pattern is None else pattern,
            client_id=client_id,
            client_host=client_host,
            classic_metadata=None,
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> Self:
        """The member as a record of type 5 describes it."""
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic_metadata=value.classic_member_metadata,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> Self:
        """The member as a record of type 8 describes it."""
        return self._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=assignment_of(value.assigned_partitions),
            pending_revocation=assignment_of(value.partitions_pending_revocation),
        )

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        """The value of its record of type 5."""
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.subscribed_topic_names),
            subscribed_topic_regex=self.subscribed_topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic_metadata,
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """The value of its record of type 8."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state.value,
            assigned_partitions=_held(self.assigned),
            partitions_pending_revocation=_held(self.pending_revocation),
        )


def assignment_of(listed: Iterable[PartitionsOfTopic]) -> Assignment:
    """Partitions as a request or a record lists them, by topic."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in listed}


def topic_partitions(assignment: Assignment) -> list[TopicPartitions]:
    """Partitions as a record lists them, sorted."""
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(assignment[topic_id])) for topic_id in sorted(assignment)
    ]


def _held(assignment: Assignment) -> list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]:
    """The same in a record of type 8. It names no epochs of partitions; Kafka takes the member's then."""
    listed = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
    return [listed(topic_id=each.topic_id, partitions=each.partitions) for each in topic_partitions(assignment)]


def is_subset(some: Assignment, others: Assignment) -> bool:
    return all(partitions <= others.get(topic_id, frozenset()) for topic_id, partitions in some.items())


def overlaps(some: Assignment, others: Assignment) -> bool:
    return any(partitions & others.get(topic_id, frozenset()) for topic_id, partitions in some.items())
