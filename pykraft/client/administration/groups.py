"""What an administrator asks of consumer groups: which there are, and their members. (Their offsets: `group_offsets`.)

Each group has a coordinator, and only that broker knows it. Two ways lead there::

    list_groups          every broker is asked for the groups that it coordinates
    everything else      FindCoordinator first; then one request for all groups of one coordinator

There are two kinds of consumer groups, and nothing in a group's name says which it is. So a description is asked for as
that of a *consumer* group (KIP-848) first. A coordinator that knows no such group, or not the API, is asked for a
*classic* group. Of a classic member the coordinator has bytes only: its assignment is decoded here, as consumers wrote
it (ConsumerProtocol).

Follows org.apache.kafka.clients.admin.{GroupListing,ConsumerGroupDescription,MemberDescription} and, in
org.apache.kafka.clients.admin.internals, DescribeConsumerGroupsHandler, DeleteConsumerGroupsHandler and
RemoveMembersFromConsumerGroupHandler.
"""

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, Self, TypeVar

from pykraft.client.administration.admin import AdminCalls, ClusterDescription
from pykraft.client.administration.group_offsets import CHANNEL, ask_coordinator, coordinator_handler
from pykraft.client.api_driver import Answers, ApiDriver, ApiHandler, chained, converted, key_answer
from pykraft.client.lookups import BrokerStrategy
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.types import Node, TopicPartition
from pykraft.protocol.messages.coordinators import ConsumerProtocolAssignment
from pykraft.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedAssignment,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

CONSUMER_PROTOCOL_TYPE = "consumer"
_PROTOCOL_VERSION = struct.Struct(">h")
_UPGRADED_MEMBER = 1
_MEMBER_TYPE_UNKNOWN = -1
_LONGEST_REASON = 255
_DEFAULT_REASON = "member was removed by an admin"

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")


class GroupState(StrEnum):
    """A group's state, by its name on the wire."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"

    @classmethod
    def parse(cls, name: str) -> Self:
        """The state of this name in any case; UNKNOWN if there is none."""
        return next((state for state in cls if state.lower() == name.lower()), cls("Unknown"))


class GroupType(StrEnum):
    """A group's kind, by its name on the wire."""

    UNKNOWN = "Unknown"
    CONSUMER = "Consumer"
    CLASSIC = "Classic"
    SHARE = "Share"
    STREAMS = "Streams"

    @classmethod
    def parse(cls, name: str) -> Self:
        """The kind of this name in any case; UNKNOWN if there is none."""
        return next((kind for kind in cls if kind.lower() == name.lower()), cls("Unknown"))


class GroupListing(NamedTuple):
    """A group in a list. An old broker does not tell type and state: both are UNKNOWN then. `protocol_type` is
    "consumer" for groups of consumers, and "" for a group without members that only keeps offsets."""

    group_id: str
    group_type: GroupType
    protocol_type: str
    state: GroupState

    @property
    def is_of_consumers(self) -> bool:
        kinds = (GroupType.CLASSIC, GroupType.CONSUMER, GroupType.UNKNOWN)
        return self.group_type in kinds and self.protocol_type in ("", CONSUMER_PROTOCOL_TYPE)


class MemberDescription(NamedTuple):
    """A member of a consumer group.

    `target_assignment`, `member_epoch` and `rack_id` are None in a classic group. `is_upgraded` says whether the member
    speaks the protocol of consumer groups; None where the coordinator does not say.
    """

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None
    member_epoch: int | None
    is_upgraded: bool | None


class ConsumerGroupDescription(NamedTuple):
    """A consumer group as its coordinator sees it; the epochs are None in a classic group."""

    group_id: str
    group_type: GroupType
    state: GroupState
    coordinator: Node
    partition_assignor: str
    members: tuple[MemberDescription, ...]
    group_epoch: int | None
    target_assignment_epoch: int | None


class GroupCalls:
    """Each method asks one thing; `deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver
        self._cluster = AdminCalls(driver)

    # --- groups -------------------------------------------------------------------------------------------------------

    def list_groups(
        self, states: Collection[GroupState], types: Collection[GroupType], deadline: int
    ) -> "Promise[list[GroupListing] | KafkaError]":
        """The groups in these states and of these types, by their ids; an empty filter lets all through."""
        handler: ApiHandler[int, list[GroupListing]] = ApiHandler(
            what="to list the groups of the brokers {}",
            lookup=BrokerStrategy(self._driver.metadata, lambda broker: broker),
            request=lambda asked: ListGroupsRequest(states_filter=list(states), types_filter=list(types)),
            read=_listings,
            channel=CHANNEL,
        )

        def ask_brokers(cluster: ClusterDescription) -> "Promise[dict[int, list[GroupListing]] | KafkaError]":
            return self._driver.ask_all(handler, sorted(broker.id for broker in cluster.brokers), deadline)

        def merged(found: dict[int, list[GroupListing]]) -> list[GroupListing]:
            # An old broker does not know the filters.
            listings = {listing.group_id: listing for each in found.values() for listing in each}
            return [
                listing
                for _, listing in sorted(listings.items())
                if (not states or listing.state in states) and (not types or listing.group_type in types)
            ]

        return converted(chained(self._cluster.describe_cluster(deadline), ask_brokers), merged)

    def describe_consumer_groups(
        self, group_ids: Iterable[str], deadline: int
    ) -> "Promise[Answers[str, ConsumerGroupDescription] | KafkaError]":
        """Each group's description or its error: GROUP_ID_NOT_FOUND if there is no such group, and
        INCONSISTENT_GROUP_PROTOCOL if it is not one of consumers."""
        asked_first = coordinator_handler(
            self._driver,
            "to describe the groups {}",
            lambda asked: ConsumerGroupDescribeRequest(group_ids=asked),
            self._read_consumer_groups,
        )
        asked_second = coordinator_handler(
            self._driver,
            "to describe the groups {}",
            lambda asked: DescribeGroupsRequest(groups=asked),
            self._read_classic_groups,
        )

        def ask_again(
            first: Answers[str, ConsumerGroupDescription],
        ) -> "Promise[Answers[str, ConsumerGroupDescription] | KafkaError]":
            others = {group: answer for group, answer in first.items() if _may_be_classic(answer)}

            def merged(second: Answers[str, ConsumerGroupDescription]) -> Answers[str, ConsumerGroupDescription]:
                # If both say that there is no such group, the newer API says it better.
                return {group: _better(answer, second.get(group)) for group, answer in first.items()}

            return converted(self._driver.ask_each(asked_second, others, deadline), merged)

        return chained(self._driver.ask_each(asked_first, group_ids, deadline), ask_again)

    def delete_consumer_groups(
        self, group_ids: Iterable[str], deadline: int
    ) -> "Promise[Answers[str, None] | KafkaError]":
        """Forget these groups with their offsets; each one's error where there is one."""
        handler: ApiHandler[str, None] = coordinator_handler(
            self._driver,
            "the groups {} were not deleted",
            lambda asked: DeleteGroupsRequest(groups_names=asked),
            _deletions,
        )
        return self._driver.ask_each(handler, group_ids, deadline)

    def remove_members_from_consumer_group(
        self, group_id: str, instance_ids: Collection[str] | None, reason: str, deadline: int
    ) -> "Promise[dict[str, KafkaError | None] | KafkaError]":
        """Let these static members leave, or (None) all members; by instance id or else by member id, each one's error
        where there is one."""

        def leave(members: Sequence[LeaveGroupRequest.Member]) -> "Promise[dict[str, KafkaError | None] | KafkaError]":
            handler = coordinator_handler(
                self._driver,
                "the members of {} were not removed",
                lambda asked: LeaveGroupRequest(group_id=group_id, members=members),
                _departures,
            )
            return ask_coordinator(self._driver, handler, group_id, deadline)

        reason = (reason or _DEFAULT_REASON)[:_LONGEST_REASON]
        member = LeaveGroupRequest.Member
        if instance_ids is not None:
            return leave([member(member_id="", group_instance_id=name, reason=reason) for name in instance_ids])

        def leave_all(
            found: Answers[str, ConsumerGroupDescription],
        ) -> "Promise[dict[str, KafkaError | None] | KafkaError]":
            described = found[group_id]
            if isinstance(described, KafkaError):
                return Promise.of(described)
            if not described.members:
                return Promise.of({})
            return leave(
                [
                    member(member_id="", group_instance_id=each.group_instance_id, reason=reason)
                    if each.group_instance_id is not None
                    else member(member_id=each.member_id, reason=reason)
                    for each in described.members
                ]
            )

        return chained(self.describe_consumer_groups([group_id], deadline), leave_all)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _coordinator(self, group_id: str) -> Node:
        """The broker that has just answered for this group."""
        node = self._driver.group_coordinators.node_of(group_id)
        assert node is not None, "a group is described by its coordinator, which was looked up"
        return node

    def _read_consumer_groups(
        self, asked: Sequence[str], response: ConsumerGroupDescribeResponse
    ) -> Iterator[tuple[str, ConsumerGroupDescription | KafkaError]]:
        for group in response.groups:
            if group.error_code:
                yield group.group_id, _group_error(group)
                continue
            yield (
                group.group_id,
                ConsumerGroupDescription(
                    group.group_id,
                    GroupType.CONSUMER,
                    GroupState.parse(group.group_state),
                    self._coordinator(group.group_id),
                    group.assignor_name,
                    tuple(_consumer_member(member) for member in group.members),
                    group.group_epoch,
                    group.assignment_epoch,
                ),
            )

    def _read_classic_groups(
        self, asked: Sequence[str], response: DescribeGroupsResponse
    ) -> Iterator[tuple[str, ConsumerGroupDescription | KafkaError]]:
        for group in response.groups:
            if group.error_code:
                yield group.group_id, _group_error(group)
                continue
            try:
                yield group.group_id, self._classic_group(group)
            except KafkaError as error:
                yield group.group_id, error

    def _classic_group(self, group: DescribeGroupsResponse.Group) -> ConsumerGroupDescription:
        if group.protocol_type not in ("", CONSUMER_PROTOCOL_TYPE):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"GroupId {group.group_id} is not a consumer group ({group.protocol_type}).",
            )
        return ConsumerGroupDescription(
            group.group_id,
            GroupType.CLASSIC,
            GroupState.parse(group.group_state),
            self._coordinator(group.group_id),
            group.protocol_data,
            tuple(_classic_member(member) for member in group.members),
            None,
            None,
        )


def _may_be_classic(answer: ConsumerGroupDescription | KafkaError) -> bool:
    """The coordinator knows no consumer group of that name, or not the API."""
    return isinstance(answer, KafkaError) and answer.code in (
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNSUPPORTED_VERSION,
    )


def _better(
    first: ConsumerGroupDescription | KafkaError, second: ConsumerGroupDescription | KafkaError | None
) -> ConsumerGroupDescription | KafkaError:
    if second is None:
        return first
    if isinstance(first, KafkaError) and isinstance(second, KafkaError) and first.code is second.code:
        return first
    return second


def _group_error(group: ConsumerGroupDescribeResponse.Group | DescribeGroupsResponse.Group) -> KafkaError:
    error = ErrorCode.of(group.error_code)
    return KafkaError(error, group.error_message or f"{group.group_id}: {error.text}")


def _consumer_member(member: ConsumerGroupDescribeResponse.Group.Member) -> MemberDescription:
    is_upgraded = member.member_type == _UPGRADED_MEMBER
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        _described_partitions(member.assignment),
        _described_partitions(member.target_assignment),
        member.member_epoch,
        None if member.member_type == _MEMBER_TYPE_UNKNOWN else is_upgraded,
    )


def _described_partitions(assignment: DescribedAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
    )


def _classic_member(member: DescribeGroupsResponse.Group.Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        None,
        member.client_id,
        member.client_host,
        _assigned_partitions(member.member_assignment),
        None,
        None,
        None,
    )


def _assigned_partitions(data: bytes) -> tuple[TopicPartition, ...]:
    """The assignment of a classic member; no bytes are no partitions."""
    if not data:
        return ()
    try:
        # Later versions only add fields at the end.
        version = min(_PROTOCOL_VERSION.unpack_from(data)[0], ConsumerProtocolAssignment.versions[1])
        found = ConsumerProtocolAssignment.decode(data, version, _PROTOCOL_VERSION.size)
    except (struct.error, ProtocolError) as error:
        detail = f"the assignment of a member is none that consumers write: {error}"
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail) from None
    return tuple(
        sorted(TopicPartition(each.topic, number) for each in found.assigned_partitions for number in each.partitions)
    )


def _listings(asked: Sequence[int], response: ListGroupsResponse) -> Iterator[tuple[int, list[GroupListing]]]:
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code))
    listings = [
        GroupListing(
            group.group_id,
            GroupType.parse(group.group_type),
            group.protocol_type,
            GroupState.parse(group.group_state),
        )
        for group in response.groups
    ]
    for broker in asked:
        yield broker, listings


def _deletions(asked: Sequence[str], response: DeleteGroupsResponse) -> Iterator[tuple[str, KafkaError | None]]:
    for result in response.results:
        yield key_answer(result.group_id, result.error_code, None)


def _departures(
    asked: Sequence[str], response: LeaveGroupResponse
) -> Iterator[tuple[str, dict[str, KafkaError | None]]]:
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code), f"{asked[0]}: {ErrorCode.of(response.error_code).text}")
    found = {}
    for member in response.members:
        name, error = key_answer(member.group_instance_id or member.member_id, member.error_code, None)
        found[name] = error
    yield asked[0], found
