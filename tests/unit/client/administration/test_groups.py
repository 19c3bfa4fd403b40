"""What an administrator asks of groups: who is asked, in how many requests, and what the answers become."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest

from pykraft.client.administration.group_offsets import GroupOffsetCalls
from pykraft.client.administration.groups import GroupCalls, GroupListing, GroupState, GroupType
from pykraft.client.api_driver import ApiDriver
from pykraft.client.consuming.commits import OffsetAndMetadata
from pykraft.common.core import Failure
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
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
    NamedPartitions,
)
from pykraft.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pykraft.transport.client_channel import ClientChannel
from tests.harness.scripted import HOST, Script, knowing, settings, topic_id

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
DEADLINE = 60_000


class Asking:
    """The calls, and the script that answers them."""

    def __init__(self) -> None:
        config = settings("admin")
        driver = ApiDriver(config, knowing(config, {}), Random(1))
        self.calls = GroupCalls(driver)
        self.offsets = GroupOffsetCalls(driver)
        self.script = Script(driver)

    def find(self, **nodes: int) -> None:
        """Answer the lookup: these groups have these coordinators."""
        self.script.poll()
        coordinator = FindCoordinatorResponse.Coordinator
        asked = self.script.asked(FindCoordinatorRequest).coordinator_keys
        assert sorted(asked) == sorted(nodes)
        found = [
            coordinator(key=key, node_id=node, host=HOST, port=9000 + node, error_code=0, error_message=None)
            for key, node in nodes.items()
        ]
        self.script.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=found))
        self.script.poll()

    def sent(self) -> list[tuple[int, type]]:
        """Which nodes are asked what."""
        return [(outbound.destination.id, type(outbound.request)) for outbound in self.script.sent]


@pytest.fixture
def asking() -> Asking:
    return Asking()


def refusal(found: Any) -> ErrorCode:
    assert isinstance(found, KafkaError)
    return found.code


# --- listing ----------------------------------------------------------------------------------------------------------


def listed(group: str, state: str = "", kind: str = "", protocol_type: str = "consumer") -> ListGroupsResponse.Group:
    return ListGroupsResponse.Group(group_id=group, protocol_type=protocol_type, group_state=state, group_type=kind)


def test_every_broker_lists_its_own_groups(asking: Asking) -> None:
    promise = asking.calls.list_groups([], [], DEADLINE)
    answer_brokers(asking)
    assert asking.sent() == [(node, ListGroupsRequest) for node in (1, 2, 3)]
    asking.script.answer(ListGroupsRequest, ListGroupsResponse(groups=[listed("b", "Stable", "Consumer")]))
    asking.script.answer(ListGroupsRequest, ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    asking.script.answer(ListGroupsRequest, ListGroupsResponse(groups=[listed("a", "Empty", "Classic", "")]))
    assert not promise.kept
    asking.script.poll(1000)
    assert asking.sent() == [(2, ListGroupsRequest)], "a broker that still loads is asked again, and only that one"
    asking.script.answer(ListGroupsRequest, ListGroupsResponse(groups=[listed("s", "Stable", "Share", "share")]))
    found = promise.value
    assert not isinstance(found, KafkaError)
    assert found[:2] == [
        GroupListing("a", GroupType.CLASSIC, "", GroupState.EMPTY),
        GroupListing("b", GroupType.CONSUMER, "consumer", GroupState.STABLE),
    ]
    assert [listing.is_of_consumers for listing in found] == [True, True, False]


def answer_brokers(asking: Asking, brokers: tuple[int, ...] = (1, 2, 3)) -> None:
    asking.script.poll()
    described = [DescribeClusterResponse.Broker(broker_id=n, host=HOST, port=9000 + n, rack=None) for n in brokers]
    response = DescribeClusterResponse(cluster_id="scripted", controller_id=1, brokers=described)
    asking.script.answer(DescribeClusterRequest, response)
    asking.script.poll()


def test_filters_go_to_the_broker_and_hold_where_it_does_not_know_them(asking: Asking) -> None:
    promise = asking.calls.list_groups([GroupState.STABLE], [GroupType.CLASSIC], DEADLINE)
    answer_brokers(asking, (1,))
    request = asking.script.asked(ListGroupsRequest)
    assert (request.states_filter, request.types_filter) == (["Stable"], ["Classic"])
    groups = [listed("yes", "Stable", "Classic"), listed("no", "Empty", "Classic"), listed("nor", "Stable", "Consumer")]
    asking.script.answer(ListGroupsRequest, ListGroupsResponse(groups=groups))
    found = promise.value
    assert not isinstance(found, KafkaError) and [listing.group_id for listing in found] == ["yes"]


# --- describing -------------------------------------------------------------------------------------------------------


def test_a_group_that_is_none_of_the_new_protocol_is_described_as_a_classic_one(asking: Asking) -> None:
    promise = asking.calls.describe_consumer_groups(["new", "old", "none"], DEADLINE)
    asking.find(new=1, old=1, none=2)
    assert asking.sent() == [(1, ConsumerGroupDescribeRequest), (2, ConsumerGroupDescribeRequest)]
    assert asking.script.outbound(ConsumerGroupDescribeRequest).request.group_ids == ["new", "old"]
    missing = ErrorCode.GROUP_ID_NOT_FOUND
    group = ConsumerGroupDescribeResponse.Group
    asking.script.answer(
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse(groups=[new_group("new"), group(group_id="old", error_code=missing)]),
    )
    asking.script.answer(
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse(
            groups=[group(group_id="none", error_code=missing, error_message="Group none not found.")]
        ),
    )
    asking.script.poll()
    assert asking.sent() == [(1, DescribeGroupsRequest), (2, DescribeGroupsRequest)]
    asking.script.answer(DescribeGroupsRequest, DescribeGroupsResponse(groups=[old_group("old")]))
    asking.script.answer(
        DescribeGroupsRequest,
        DescribeGroupsResponse(groups=[DescribeGroupsResponse.Group(group_id="none", error_code=missing)]),
    )
    found = promise.value
    assert not isinstance(found, KafkaError) and list(found) == ["new", "old", "none"]
    assert str(found["none"]) == "GROUP_ID_NOT_FOUND: Group none not found."
    new, old = found["new"], found["old"]
    assert not isinstance(new, KafkaError) and not isinstance(old, KafkaError)
    assert (new.group_type, new.state, new.coordinator.id) == (GroupType.CONSUMER, GroupState.RECONCILING, 1)
    assert (new.partition_assignor, new.group_epoch, new.target_assignment_epoch) == ("uniform", 7, 6)
    (member,) = new.members
    assert (member.assignment, member.target_assignment) == ((ZERO,), (ZERO, ONE))
    assert (member.member_epoch, member.is_upgraded) == (5, True)
    assert (old.group_type, old.state, old.partition_assignor) == (GroupType.CLASSIC, GroupState.STABLE, "range")
    assert [member.assignment for member in old.members] == [(ZERO, ONE), ()]
    assert [member.target_assignment for member in old.members] == [None, None]
    assert (old.group_epoch, old.target_assignment_epoch) == (None, None)


def new_group(name: str) -> ConsumerGroupDescribeResponse.Group:
    def partitions(*numbers: int) -> DescribedAssignment:
        topic = NamedPartitions(topic_id=topic_id("t"), topic_name="t", partitions=numbers)
        return DescribedAssignment(topic_partitions=[topic])

    group = ConsumerGroupDescribeResponse.Group
    member = group.Member(
        member_id="m",
        member_epoch=5,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t"],
        assignment=partitions(0),
        target_assignment=partitions(1, 0),
        member_type=1,
    )
    return group(
        group_id=name,
        group_state="Reconciling",
        group_epoch=7,
        assignment_epoch=6,
        assignor_name="uniform",
        members=[member],
    )


def old_group(
    name: str, *assignments: bytes, protocol_type: str = "consumer", instances: tuple[str, ...] = ()
) -> DescribeGroupsResponse.Group:
    """A classic group; without assignments: one member with two partitions, and one without."""
    group = DescribeGroupsResponse.Group
    members = [
        group.Member(
            member_id=f"m{number}",
            group_instance_id=instances[number] if number < len(instances) else None,
            client_id="c",
            client_host="/h",
            member_metadata=b"",
            member_assignment=data,
        )
        for number, data in enumerate(assignments or (assigned(1, 0), b""))
    ]
    return group(
        group_id=name, group_state="Stable", protocol_type=protocol_type, protocol_data="range", members=members
    )


def assigned(*partitions: int, version: int = 3, rest: bytes = b"") -> bytes:
    """An assignment as consumers write it."""
    topic = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=partitions)
    known = min(version, ConsumerProtocolAssignment.versions[1])
    data = ConsumerProtocolAssignment(assigned_partitions=[topic]).to_bytes(known)
    return struct.pack(">h", version) + data + rest


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (old_group("g", assigned(0, version=0)), (ZERO,)),
        (old_group("g", assigned(1, version=9, rest=b"what later versions add")), (ONE,)),
        (old_group("g", b"\0"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (old_group("g", assigned(0)[:-7]), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (old_group("g", b"", protocol_type="connect"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (old_group("g", b"", protocol_type=""), ()),
    ],
)
def test_the_bytes_of_classic_members_are_decoded(
    group: DescribeGroupsResponse.Group, expected: object, asking: Asking
) -> None:
    promise = asking.calls.describe_consumer_groups(["g"], DEADLINE)
    asking.find(g=3)
    asking.script.fail(ConsumerGroupDescribeRequest, Failure.UNSUPPORTED_VERSION)
    asking.script.poll()
    asking.script.answer(DescribeGroupsRequest, DescribeGroupsResponse(groups=[group]))
    found = promise.value
    assert not isinstance(found, KafkaError)
    described = found["g"]
    if isinstance(described, KafkaError):
        assert described.code is expected
    else:
        assert described.members[0].assignment == expected


# --- offsets ----------------------------------------------------------------------------------------------------------


def fetched(group: str, *offsets: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponse.Group:
    topic = OffsetFetchResponse.Group.Topic
    partitions = [
        topic.Partition(
            partition_index=number,
            committed_offset=offset,
            committed_leader_epoch=offset - 1,
            metadata="note",
            error_code=error,
        )
        for number, offset in enumerate(offsets)
    ]
    return OffsetFetchResponse.Group(group_id=group, topics=[topic(name="t", partitions=partitions)])


def test_the_offsets_of_all_groups_of_a_coordinator_are_one_request(asking: Asking) -> None:
    promise = asking.offsets.list_consumer_group_offsets({"a": None, "b": [ZERO, ONE], "c": [ONE]}, True, DEADLINE)
    asking.find(a=1, b=2, c=1)
    assert asking.sent() == [(1, OffsetFetchRequest), (2, OffsetFetchRequest)]
    request = asking.script.outbound(OffsetFetchRequest).request
    assert (request.versions[1], request.require_stable) == (9, True)
    assert [(group.group_id, group.topics and group.topics[0].partition_indexes) for group in request.groups] == [
        ("a", None),
        ("c", [1]),
    ]
    asking.script.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[fetched("a", 5, -1), fetched("c", 3)]))
    unstable = fetched("b", -1, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    asking.script.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[unstable]))
    assert not promise.kept
    asking.script.poll(1000)
    asking.script.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[fetched("b", 8)]))
    assert promise.value == {
        "a": {ZERO: OffsetAndMetadata(5, "note", 4), ONE: None},
        "b": {ZERO: OffsetAndMetadata(8, "note", 7)},
        "c": {ZERO: OffsetAndMetadata(3, "note", 2)},
    }


def test_an_old_coordinator_is_asked_for_one_group_after_the_other(asking: Asking) -> None:
    promise = asking.offsets.list_consumer_group_offsets({"a": None, "b": [ONE]}, False, DEADLINE)
    asking.find(a=1, b=1)
    topic = OffsetFetchResponse.Topic
    partition = topic.Partition(partition_index=1, committed_offset=4)
    for group, partitions in (("a", None), ("b", [1])):
        sent = asking.script.outbound(OffsetFetchRequest).request
        request = OffsetFetchRequest.decode(sent.to_bytes(7), 7, 0)
        assert request.group_id == group
        assert (request.topics and list(request.topics[0].partition_indexes)) == partitions
        asking.script.answer(OffsetFetchRequest, OffsetFetchResponse(topics=[topic(name="t", partitions=[partition])]))
        asking.script.poll()
    assert promise.value == {group: {ONE: OffsetAndMetadata(4, "")} for group in ("a", "b")}


def committed(*errors: ErrorCode) -> OffsetCommitResponse:
    topic = OffsetCommitResponse.Topic
    parts = [topic.Partition(partition_index=number, error_code=error) for number, error in enumerate(errors)]
    return OffsetCommitResponse(topics=[topic(name="t", partitions=parts)])


def test_offsets_are_altered_without_a_member_and_by_topic_names(asking: Asking) -> None:
    places = {ZERO: OffsetAndMetadata(5, "note", 2), ONE: OffsetAndMetadata(6)}
    promise = asking.offsets.alter_consumer_group_offsets("g", places, DEADLINE)
    asking.find(g=1)
    request = asking.script.asked(OffsetCommitRequest)
    assert request.versions[1] == 9
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (-1, "", None)
    (topic,) = request.topics
    assert [
        (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata)
        for each in topic.partitions
    ] == [(0, 5, 2, "note"), (1, 6, -1, "")]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asking.script.answer(OffsetCommitRequest, committed(ErrorCode.NONE, unknown))
    found = promise.value
    assert not isinstance(found, KafkaError)
    assert (found[ZERO], refusal(found[ONE])) == (None, unknown), "for an administrator this is an answer"


@pytest.mark.parametrize(
    ("error", "is_looked_up"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
        (ErrorCode.NOT_COORDINATOR, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
    ],
)
def test_a_commit_that_comes_at_the_wrong_moment_is_sent_again(
    error: ErrorCode, is_looked_up: bool, asking: Asking
) -> None:
    promise = asking.offsets.alter_consumer_group_offsets("g", {ZERO: OffsetAndMetadata(5)}, DEADLINE)
    asking.find(g=1)
    asking.script.answer(OffsetCommitRequest, committed(error))
    asking.script.poll(1000)
    if is_looked_up:
        asking.find(g=2)
    assert asking.sent() == [(2 if is_looked_up else 1, OffsetCommitRequest)]
    asking.script.answer(OffsetCommitRequest, committed(ErrorCode.NONE))
    assert promise.value == {ZERO: None}


def test_offsets_are_deleted_partition_by_partition_or_the_group_is_refused(asking: Asking) -> None:
    topic = OffsetDeleteResponse.Topic
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    promise = asking.offsets.delete_consumer_group_offsets("g", [ZERO, ONE], DEADLINE)
    asking.find(g=1)
    (asked,) = asking.script.asked(OffsetDeleteRequest).topics
    assert [partition.partition_index for partition in asked.partitions] == [0, 1]
    parts = [topic.Partition(partition_index=0), topic.Partition(partition_index=1, error_code=subscribed)]
    asking.script.answer(OffsetDeleteRequest, OffsetDeleteResponse(topics=[topic(name="t", partitions=parts)]))
    found = promise.value
    assert not isinstance(found, KafkaError)
    assert (found[ZERO], refusal(found[ONE])) == (None, subscribed)
    again = asking.offsets.delete_consumer_group_offsets("g", [ZERO], DEADLINE)
    asking.script.poll()
    asking.script.answer(OffsetDeleteRequest, OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
    assert refusal(again.value) is ErrorCode.GROUP_ID_NOT_FOUND


# --- deleting and removing --------------------------------------------------------------------------------------------


def test_a_group_that_is_not_deleted_does_not_hide_those_that_are(asking: Asking) -> None:
    promise = asking.calls.delete_consumer_groups(["a", "b", "c"], DEADLINE)
    asking.find(a=1, b=2, c=1)
    assert asking.script.outbound(DeleteGroupsRequest).request.groups_names == ["a", "c"]
    result = DeleteGroupsResponse.Result
    busy = result(group_id="c", error_code=ErrorCode.NON_EMPTY_GROUP)
    asking.script.answer(DeleteGroupsRequest, DeleteGroupsResponse(results=[result(group_id="a"), busy]))
    asking.script.answer(DeleteGroupsRequest, DeleteGroupsResponse(results=[result(group_id="b")]))
    found = promise.value
    assert not isinstance(found, KafkaError)
    assert (found["a"], found["b"], refusal(found["c"])) == (None, None, ErrorCode.NON_EMPTY_GROUP)


def test_all_members_leave_by_their_instance_ids_or_else_by_their_ids(asking: Asking) -> None:
    promise = asking.calls.remove_members_from_consumer_group("g", None, "", DEADLINE)
    asking.find(g=1)
    missing = ConsumerGroupDescribeResponse.Group(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    asking.script.answer(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse(groups=[missing]))
    asking.script.poll()
    group = old_group("g", b"", b"", instances=("static",))
    asking.script.answer(DescribeGroupsRequest, DescribeGroupsResponse(groups=[group]))
    asking.script.poll()
    leaving = asking.script.asked(LeaveGroupRequest).members
    assert [(member.member_id, member.group_instance_id) for member in leaving] == [("", "static"), ("m1", None)]
    assert {member.reason for member in leaving} == {"member was removed by an admin"}
    member = LeaveGroupResponse.Member
    fenced = member(member_id="m1", group_instance_id=None, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    answered = [member(member_id="", group_instance_id="static"), fenced]
    asking.script.answer(LeaveGroupRequest, LeaveGroupResponse(members=answered))
    found = promise.value
    assert not isinstance(found, KafkaError)
    assert (found["static"], refusal(found["m1"])) == (None, ErrorCode.UNKNOWN_MEMBER_ID)


def test_of_a_group_that_does_not_exist_no_member_can_leave(asking: Asking) -> None:
    promise = asking.calls.remove_members_from_consumer_group("g", ["static"], "x" * 300, DEADLINE)
    asking.find(g=1)
    (member,) = asking.script.asked(LeaveGroupRequest).members
    assert member.reason == "x" * 255
    asking.script.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
    assert refusal(promise.value) is ErrorCode.GROUP_ID_NOT_FOUND


# --- versions ---------------------------------------------------------------------------------------------------------


def test_a_connection_sends_no_newer_version_than_the_request_allows() -> None:
    channel = ClientChannel("client")
    channel.api_versions = {OffsetCommitRequest.api: (2, 10)}
    request = OffsetCommitRequest(group_id="g", topics=[])
    versions = [b"".join(channel.send(1, each))[6:8] for each in (request, request.replace().at_most(9))]
    assert [int.from_bytes(version) for version in versions] == [10, 9]
