"""Classic groups on a whole node in virtual time: who waits, who is answered what, and what silence does.

A test is a dialogue: members join, sync and are silent, and the clock runs. The node has one partition of
__consumer_offsets and no delay before a first rebalance, unless a test says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.broker.requests.dispatch import Answer
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.offsets import CommittedOffset, commit_record
from pykraft.coordinator.result import CoordinatorResult
from pykraft.coordinator.runtime import java_hash
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.configs import IncrementalAlterConfigsRequest
from pykraft.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from pykraft.records.builder import RecordBatchBuilder
from tests.harness.controllers import make, new_topic
from tests.harness.lone_node import LoneNode

SESSION_MS = 10_000
REBALANCE_MS = 20_000
NONE, REBALANCE = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN, ILLEGAL = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION


class Groups:
    """A node with its group coordinator, and the requests of members of the group g."""

    def __init__(self, **properties: str) -> None:
        settings = {"group_initial_rebalance_delay_ms": "0", "broker_session_timeout_ms": "600000"}
        self.lone = LoneNode(**settings | properties)
        self.lone.create(GROUP_TOPIC, cleanup_policy="compact")
        self.lone.create("t")
        self.run(100)

    def run(self, duration_ms: int) -> None:
        self.lone.run(duration_ms)

    def ask(self, request: Any, version: int | None = None) -> Any:
        promise = self.send(request, version)
        self.run(1)
        assert promise.kept, f"{type(request).__name__} waits"
        return promise.value.response

    def send(self, request: Any, version: int | None = None) -> Promise[Answer]:
        return self.lone.handle(request, version=version)

    def join(
        self,
        member_id: str = "",
        version: int = 9,
        instance: str | None = None,
        protocols: str = "range",
        **fields: Any,
    ) -> Promise[Answer]:
        protocol = JoinGroupRequest.Protocol
        return self.send(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=fields.pop("session_ms", SESSION_MS),
                rebalance_timeout_ms=fields.pop("rebalance_ms", REBALANCE_MS),
                member_id=member_id,
                group_instance_id=instance,
                protocol_type="consumer",
                protocols=[protocol(name=name, metadata=fields.get("metadata", b"")) for name in protocols.split()],
            ),
            version,
        )

    def new_member(self, **fields: Any) -> tuple[str, Promise[Answer]]:
        """A member that has been given its id, and waits to be let in."""
        given = response(self.join(**fields))
        assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return given.member_id, self.join(given.member_id, **fields)

    def sync(self, member_id: str, generation: int, version: int = 4, **assignments: bytes) -> Promise[Answer]:
        assignment = SyncGroupRequest.Assignment
        given = [assignment(member_id=name, assignment=data) for name, data in assignments.items()]
        request = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id, assignments=given)
        return self.send(request, version)

    def beat(self, member_id: str, generation: int) -> ErrorCode:
        request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        return ErrorCode.of(self.ask(request).error_code)

    def leave(self, member_id: str, **fields: Any) -> Any:
        member = LeaveGroupRequest.Member(member_id=member_id, group_instance_id=fields.get("instance"))
        return self.ask(LeaveGroupRequest(group_id="g", members=[member])).members[0].error_code

    def stable(self, count: int = 2) -> list[str]:
        """A group with so many members, the leader first, in its newest generation; each has its own id as
        assignment."""
        members = [self.new_member() for _ in range(count)]
        self.run(1)
        return self.settle([member_id for member_id, _ in members], dict(members))

    def settle(self, ids: list[str], joins: dict[str, Promise[Answer]]) -> list[str]:
        while len({response(joins[i]).generation_id if joins[i].kept else None for i in ids}) > 1 or not all(
            joins[i].kept for i in ids
        ):
            for member_id in ids:
                if joins[member_id].kept:
                    joins[member_id] = self.join(member_id)
            self.run(1)
        answers = [response(joins[member_id]) for member_id in ids]
        generation, leader = answers[0].generation_id, answers[0].leader
        followers = [self.sync(member_id, generation) for member_id in ids if member_id != leader]
        led = self.sync(leader, generation, **{member_id: member_id.encode() for member_id in ids})
        self.run(1)
        assert all(promise.kept for promise in [led, *followers])
        self.generation = generation
        return sorted(ids, key=lambda member_id: member_id != leader)

    def state(self) -> str:
        return str(self.ask(DescribeGroupsRequest(groups=["g"])).groups[0].group_state)

    def send_commit(
        self, offset: int, member_id: str = "", generation: int = -1, topic: str = "t", **fields: Any
    ) -> Promise[Answer]:
        topic_type = OffsetCommitRequest.Topic
        part = topic_type.Partition(
            partition_index=fields.get("partition", 0),
            committed_offset=offset,
            committed_metadata=fields.get("text", ""),
        )
        request = OffsetCommitRequest(
            group_id="g",
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            topics=[topic_type(name=topic, partitions=[part])],
        )
        return self.send(request, 9)

    def commit(self, *arguments: Any, **fields: Any) -> ErrorCode:
        promise = self.send_commit(*arguments, **fields)
        self.run(1)
        return error_of_commit(promise)

    def committed(self, topic: str = "t") -> int:
        asked = OffsetFetchRequest.Topic(name=topic, partition_indexes=[0])
        found = self.ask(OffsetFetchRequest(group_id="g", topics=[asked]), 7)
        return int(found.topics[0].partitions[0].committed_offset)


def change_internal_topic(groups: Groups, name: str, value: str) -> None:
    config = IncrementalAlterConfigsRequest.Resource.Config(name=name, value=value)
    resource = IncrementalAlterConfigsRequest.Resource(resource_type=2, resource_name=GROUP_TOPIC, configs=[config])
    groups.lone.ask(IncrementalAlterConfigsRequest(resources=[resource]), ListenerKind.CONTROLLER)


def error_of_commit(promise: Promise[Answer]) -> ErrorCode:
    return ErrorCode.of(response(promise).topics[0].partitions[0].error_code)


def response(promise: Promise[Answer]) -> Any:
    assert promise.kept, "the answer waits"
    return promise.value.response


@pytest.fixture
def groups() -> Groups:
    return Groups()


# --- joining ----------------------------------------------------------------------------------------------------------


def test_a_new_member_is_given_an_id_and_joins_with_it(groups: Groups) -> None:
    given = response(groups.join())
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = groups.join(given.member_id)
    groups.run(1)
    assert (response(joined).leader, response(joined).generation_id) == (given.member_id, 1)
    assert [member.member_id for member in response(joined).members] == [given.member_id]


def test_before_version_4_a_member_joins_at_once(groups: Groups) -> None:
    joined = groups.join(version=3)
    groups.run(1)
    assert response(joined).error_code == NONE


def test_members_wait_in_join_until_all_have_joined_again(groups: Groups) -> None:
    first, second = groups.stable()
    _, joined = groups.new_member()
    assert groups.beat(first, groups.generation) is REBALANCE
    again = groups.join(first)
    groups.run(1)
    assert not again.kept and not joined.kept, "the second member has not joined yet"
    last = groups.join(second)
    groups.run(1)
    assert {response(each).generation_id for each in (again, joined, last)} == {groups.generation + 1}
    assert response(joined).leader == first
    assert [len(response(each).members) for each in (again, joined, last)] == [3, 0, 0]


def test_the_first_rebalance_waits_for_members_that_start_together() -> None:
    groups = Groups(group_initial_rebalance_delay_ms="3000")
    first = groups.join(version=3)
    groups.run(2000)
    second = groups.join(version=3)
    groups.run(3500)
    assert not first.kept, "a member joined during the delay, so it is given once more"
    groups.run(1000)
    assert response(first).generation_id == response(second).generation_id == 1


def test_a_group_that_has_been_empty_waits_for_its_members_as_at_first() -> None:
    groups = Groups(group_initial_rebalance_delay_ms="3000")
    first = groups.join(version=3)
    groups.run(3000)
    assert groups.leave(response(first).member_id) == NONE
    again = [groups.join(version=3), groups.join(version=3)]
    groups.run(6100)
    assert {response(each).generation_id for each in again} == {3}


def test_a_member_that_does_not_join_again_is_removed_when_the_rebalance_times_out(groups: Groups) -> None:
    first, second = groups.stable()
    again = groups.join(first)
    for _ in range(5):  # it lives, but it does not join
        groups.run(REBALANCE_MS // 5 - 10)
        assert groups.beat(second, groups.generation) is REBALANCE
    groups.run(100)
    assert response(again).generation_id == groups.generation + 1
    assert groups.beat(second, groups.generation) is UNKNOWN


def test_a_follower_that_joins_with_nothing_new_is_told_the_generation_that_is(groups: Groups) -> None:
    first, second = groups.stable()
    assert response(groups.join(second)).generation_id == groups.generation
    assert groups.state() == "Stable"
    groups.join(first)  # the leader wants a rebalance
    assert groups.state() == "PreparingRebalance"


def test_the_protocol_is_one_that_all_members_have(groups: Groups) -> None:
    first, joined = groups.new_member(protocols="sticky range")
    groups.run(1)
    assert response(joined).protocol_name == "sticky"
    refused = response(groups.join(protocols="roundrobin"))
    assert (refused.error_code, refused.protocol_name) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None)
    _, other = groups.new_member(protocols="range")
    again = groups.join(first, protocols="sticky range")
    groups.run(1)
    assert response(other).protocol_name == response(again).protocol_name == "range"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": "nobody"}, UNKNOWN),
        ({"session_ms": 10}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_join_that_is_refused(groups: Groups, fields: dict[str, Any], error: ErrorCode) -> None:
    assert response(groups.join(**fields)).error_code == error


def test_a_group_takes_no_more_members_than_it_may() -> None:
    groups = Groups(group_max_size="2")
    groups.stable()
    assert response(groups.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_who_joins_a_group_that_all_have_left_before_its_rebalance_was_over_may_join() -> None:
    groups = Groups(group_initial_rebalance_delay_ms="3000")
    gone, _ = groups.new_member(protocols="sticky")
    assert groups.leave(gone) == NONE
    _, joined = groups.new_member(protocols="range")
    groups.run(6100)
    assert response(joined).protocol_name == "range"


# --- assignments ------------------------------------------------------------------------------------------------------


def test_followers_wait_for_the_leaders_assignment(groups: Groups) -> None:
    _, second = groups.stable()
    answer = response(groups.sync(second, groups.generation))
    assert answer.assignment == second.encode()
    assert response(groups.sync(second, groups.generation - 1)).error_code == ILLEGAL


def test_from_version_5_of_sync_group_on_a_member_names_the_protocol() -> None:
    groups = Groups()
    (member_id,) = groups.stable(1)
    refused = response(groups.sync(member_id, groups.generation, version=5))
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert response(groups.sync(member_id, groups.generation, version=4)).error_code == NONE
    named = SyncGroupRequest(
        group_id="g",
        generation_id=groups.generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )
    assert response(groups.send(named, 5)).error_code == NONE


def test_a_member_that_does_not_sync_is_removed(groups: Groups) -> None:
    first, joined = groups.new_member()
    groups.run(1)
    assert response(joined).generation_id == 1
    for _ in range(5):
        groups.run(REBALANCE_MS // 5)
        groups.beat(first, 1)
    assert groups.beat(first, 1) is UNKNOWN


def test_a_rebalance_sends_those_that_wait_for_an_assignment_back_to_join(groups: Groups) -> None:
    first, second = groups.stable()
    again = [groups.join(first), groups.join(second)]
    groups.run(1)
    generation = response(again[0]).generation_id
    waiting = groups.sync(second, generation)
    groups.new_member()
    assert response(waiting).error_code == REBALANCE


# --- silence ----------------------------------------------------------------------------------------------------------


def test_a_silent_member_is_removed_when_its_session_is_over(groups: Groups) -> None:
    first, second = groups.stable()
    groups.run(SESSION_MS - 1000)
    assert groups.beat(first, groups.generation) is NONE
    groups.run(2000)
    assert groups.beat(first, groups.generation) is REBALANCE
    again = groups.join(first)
    groups.run(1)
    assert [member.member_id for member in response(again).members] == [first]
    assert groups.beat(second, groups.generation) is UNKNOWN


def test_an_id_that_nobody_joins_with_holds_a_rebalance_up_for_a_session_at_most(groups: Groups) -> None:
    first, _ = groups.stable()
    groups.join()  # takes an id
    groups.run(SESSION_MS - 100)
    groups.beat(first, groups.generation)
    groups.run(200)
    assert len(groups.lone.broker.groups.runtime.active(0).groups["g"].pending_members) == 0


def test_the_last_member_leaves_an_empty_group(groups: Groups) -> None:
    (only,) = groups.stable(1)
    assert groups.leave(only) == NONE
    assert groups.state() == "Empty"
    assert groups.leave(only) == UNKNOWN
    member = LeaveGroupRequest.Member(member_id=only)
    nobody = groups.ask(LeaveGroupRequest(group_id="other", members=[member]))
    assert (nobody.error_code, nobody.members[0].error_code) == (NONE, UNKNOWN)


# --- static members ---------------------------------------------------------------------------------------------------


def static_group(groups: Groups) -> str:
    joined = groups.join(instance="i")
    groups.run(1)
    member_id = str(response(joined).member_id)
    groups.sync(member_id, 1, **{member_id: b"mine"})
    groups.run(1)
    return member_id


def test_a_static_member_that_is_back_has_its_assignment_without_a_rebalance(groups: Groups) -> None:
    old = static_group(groups)
    back = groups.join(instance="i")
    groups.run(1)
    new = response(back)
    assert (new.generation_id, new.skip_assignment, new.leader) == (1, True, new.member_id)
    assert response(groups.sync(new.member_id, 1)).assignment == b"mine"
    assert new.member_id != old
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=old, group_instance_id="i")
    assert groups.ask(request).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_before_version_9_a_static_leader_is_not_told_that_it_leads(groups: Groups) -> None:
    old = static_group(groups)
    back = groups.join(instance="i", version=8)
    groups.run(1)
    assert (response(back).leader, response(back).members) == (old, [])


def test_a_static_member_is_removed_by_its_instance_id(groups: Groups) -> None:
    static_group(groups)
    assert groups.leave("", instance="other") == UNKNOWN
    assert groups.leave("", instance="i") == NONE
    assert groups.state() == "Empty"


@pytest.mark.costly
def test_static_members_that_wait_for_no_rebalance_do_not_keep_the_node_busy(groups: Groups) -> None:
    joined = [groups.join(instance="slow"), groups.join(instance="hasty", rebalance_ms=0)]
    groups.run(1)
    slow, hasty = (response(each).member_id for each in joined)
    for member_id in (hasty, slow):
        groups.sync(member_id, 1)
    groups.run(1)
    assert groups.state() == "Stable"
    groups.leave("", instance="slow")
    groups.run(SESSION_MS + 1)
    assert groups.state() == "Empty"


# --- offsets ----------------------------------------------------------------------------------------------------------


def test_offsets_are_committed_by_members_of_the_generation_that_is(groups: Groups) -> None:
    first, second = groups.stable()
    assert groups.commit(7, second, groups.generation) is NONE
    assert groups.committed() == 7
    assert groups.commit(8, second, groups.generation - 1) is ILLEGAL
    assert groups.commit(8, "nobody", groups.generation) is UNKNOWN
    assert groups.commit(8) is UNKNOWN, "a group with members takes offsets from them alone"
    groups.join(first)
    groups.join(second)
    groups.run(1)
    assert groups.commit(8, second, groups.generation + 1) is REBALANCE
    assert groups.committed() == 7


def test_without_a_group_offsets_are_kept_under_its_name(groups: Groups) -> None:
    assert groups.committed() == -1
    assert groups.commit(5) is NONE
    assert groups.committed() == 5
    assert groups.commit(5, topic="missing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert groups.commit(5, partition=9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert groups.commit(5, text="x" * 4097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert groups.commit(5, text="\U0001f600" * 2049) is ErrorCode.OFFSET_METADATA_TOO_LARGE, "each is two of Java's"
    assert groups.commit(5, text="\U0001f600" * 2048) is NONE
    assert groups.commit(5, "m", 3) is UNKNOWN
    listed = groups.ask(ListGroupsRequest()).groups
    assert [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed] == [
        ("g", "", "Empty", "classic")
    ]


def test_a_commit_is_a_sign_of_life(groups: Groups) -> None:
    first, second = groups.stable()
    for _ in range(3):
        groups.run(SESSION_MS - 1000)
        groups.beat(first, groups.generation)
        assert groups.commit(1, second, groups.generation) is NONE
    assert groups.state() == "Stable"


def test_old_offsets_are_forgotten_and_with_the_last_of_them_the_group() -> None:
    groups = Groups(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
    groups.commit(5)
    groups.lone.clock.now_ms += 50_000
    groups.run(2000)
    assert groups.committed() == 5
    groups.lone.clock.now_ms += 11_000
    groups.run(2000)
    assert groups.committed() == -1
    assert groups.ask(ListGroupsRequest()).groups == []


@pytest.mark.costly
def test_offsets_that_are_too_many_for_one_batch_are_forgotten_all_the_same() -> None:
    groups = Groups(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
    groups.commit(5)
    change_internal_topic(groups, "max.message.bytes", "70000")
    offset = CommittedOffset(5, -1, "", 0)
    for first in range(0, 6000, 500):
        places = [TopicPartition("t", number) for number in range(first, first + 500)]
        records = [commit_record("g", place, offset) for place in places]
        groups.lone.broker.groups.write("g", lambda _, new=records: CoordinatorResult(None, new), groups.lone.now)
    assert len(groups.lone.broker.groups.runtime.active(0).offsets.of("g")) == 6000
    groups.lone.clock.now_ms += 70_000
    groups.run(2000)
    assert groups.ask(ListGroupsRequest()).groups == []


def test_offsets_go_with_their_topic_also_if_there_is_a_new_one_of_its_name(groups: Groups) -> None:
    groups.commit(5)
    broker = groups.lone.broker
    before = groups.lone.node.loader.image
    groups.lone.handle(
        DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="t")], timeout_ms=1000), ListenerKind.CONTROLLER
    )
    groups.lone.handle(
        CreateTopicsRequest(topics=[new_topic("t", assignment={0: [1]})], timeout_ms=1000), ListenerKind.CONTROLLER
    )
    groups.run(100)
    assert before.topic_ids["t"] != broker.groups._topics.image.topic_ids["t"]
    assert groups.committed() == -1


def test_the_node_goes_on_when_a_partition_has_left_and_its_coordinator_does_not_know_yet(groups: Groups) -> None:
    (only,) = groups.stable(1)
    del groups.lone.broker.replicas.partitions[TopicPartition(GROUP_TOPIC, 0)]
    assert groups.beat(only, groups.generation) is ErrorCode.NOT_COORDINATOR
    groups.run(SESSION_MS + 1)  # its session ends


def test_nobody_but_the_coordinator_writes_its_log(groups: Groups) -> None:
    records = RecordBatchBuilder()
    records.append(1, b"key", b"value")
    produced = groups.lone.produce(groups.lone.node.loader.image.topic_ids[GROUP_TOPIC], records.build())
    error = response(produced).responses[0].partition_responses[0].error_code
    assert error == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_groups_and_offsets_are_deleted_when_nobody_needs_them(groups: Groups) -> None:
    (only,) = groups.stable(1)
    groups.commit(3, only, groups.generation)

    def delete() -> ErrorCode:
        return ErrorCode.of(groups.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code)

    assert delete() is ErrorCode.NON_EMPTY_GROUP
    groups.leave(only)
    topic = OffsetDeleteRequest.Topic
    parts = [topic.Partition(partition_index=number) for number in (0, 9)]
    forgotten = groups.ask(OffsetDeleteRequest(group_id="g", topics=[topic(name="t", partitions=parts)]))
    assert {each.partition_index: each.error_code for each in forgotten.topics[0].partitions} == {
        0: NONE,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert groups.committed() == -1
    assert delete() is NONE
    assert delete() is ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.state() == "Dead"


def test_what_no_record_can_hold_is_refused(groups: Groups) -> None:
    long = "x" * (1 << 15)
    assert groups.ask(JoinGroupRequest(group_id=long, session_timeout_ms=SESSION_MS)).error_code == (
        ErrorCode.INVALID_GROUP_ID
    )
    joined = groups.join(instance=long)
    groups.run(1)
    synced = groups.sync(response(joined).member_id, 1)
    assert response(synced).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    topic = OffsetCommitRequest.Topic
    parts = [topic.Partition(partition_index=0, committed_offset=1)]
    for_ever = OffsetCommitRequest(
        group_id="other", retention_time_ms=(1 << 63) - 1, topics=[topic(name="t", partitions=parts)]
    )
    assert groups.ask(for_ever, 4).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("kind", [DescribeGroupsRequest, DeleteGroupsRequest])
def test_a_request_about_many_groups_takes_several_turns(kind: Any, groups: Groups) -> None:
    names = [f"g{number}" for number in range(1200)]
    answer = groups.send(kind(groups=names) if kind is DescribeGroupsRequest else kind(groups_names=names))
    assert not answer.kept and len(groups.lone.node.dispatcher.slices) == 1
    groups.run(10)
    found = response(answer)
    results = found.groups if kind is DescribeGroupsRequest else found.results
    assert [each.group_id for each in results] == names


@pytest.mark.costly
def test_a_commit_of_many_offsets_is_written_in_pieces_and_each_asks_whether_the_member_is_still_one(
    groups: Groups,
) -> None:
    lone = groups.lone
    made = lone.ask(make(new_topic("big", assignment={number: [1] for number in range(1200)})), ListenerKind.CONTROLLER)
    assert not made.topics[0].error_code
    (member,) = groups.stable(1)
    topic = OffsetCommitRequest.Topic
    parts = [topic.Partition(partition_index=number, committed_offset=7) for number in range(1200)]
    request = OffsetCommitRequest(
        group_id="g",
        member_id=member,
        generation_id_or_member_epoch=groups.generation,
        topics=[topic(name="t", partitions=parts[:1]), topic(name="big", partitions=parts)],
    )
    lone.time_slice.length = 1
    answer = groups.send(request, 9)
    assert not answer.kept, "one piece is written, and others come between"
    assert not groups.leave(member)
    groups.run(50)
    small, big = response(answer).topics
    codes = [each.error_code for each in (*small.partitions, *big.partitions)]
    assert codes == [ErrorCode.NONE] * 500 + [ErrorCode.UNKNOWN_MEMBER_ID] * 701
    lone.time_slice.length = 500
    asked = OffsetFetchRequest.Topic(name="big", partition_indexes=[498, 499])
    found = groups.ask(OffsetFetchRequest(group_id="g", topics=[asked]), 7)
    assert [each.committed_offset for each in found.topics[0].partitions] == [7, -1]


@pytest.mark.parametrize("text", ["", "g", "group-17", "\U0001f600", "x" * 5_000, "\uffff" * 40])
def test_the_hash_of_a_name_is_javas(text: str) -> None:
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    assert java_hash(text) == (value - (1 << 32) if value >= 1 << 31 else value)


# --- when the log takes nothing ---------------------------------------------------------------------------------------


def two_replicas(lag_ms: str) -> Groups:
    """The partition's other replica never fetches, and is out of sync after `lag_ms`; min.insync.replicas is 2."""
    lone = LoneNode(
        group_initial_rebalance_delay_ms="0", broker_session_timeout_ms="600000", replica_lag_time_max_ms=lag_ms
    )
    groups = Groups.__new__(Groups)
    groups.lone = lone
    lone.join(2)
    lone.create(GROUP_TOPIC, (1, 2), cleanup_policy="compact", min_insync_replicas="2")
    lone.create("t")
    return groups


def refuse_records(groups: Groups) -> None:
    """The partition takes nothing any more."""
    change_internal_topic(groups, "max.message.bytes", "1")
    groups.run(1)


def test_a_first_member_is_refused_if_its_group_cannot_be_written_and_may_join_later() -> None:
    groups = Groups()
    refuse_records(groups)
    assert response(groups.join(version=3)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    groups.run(REBALANCE_MS)  # the rebalance that it began ends, and has no member to answer
    assert groups.commit(5) is not NONE
    change_internal_topic(groups, "max.message.bytes", "1000000")
    again = groups.join(version=3)
    groups.run(1)
    assert response(again).error_code == NONE


@pytest.mark.parametrize("version", [3, 9])
def test_a_group_that_could_not_be_written_does_not_exist(version: int) -> None:
    groups = Groups()
    refuse_records(groups)
    refused = response(groups.join(version=version))
    assert refused.error_code in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.MEMBER_ID_REQUIRED)
    shard = groups.lone.broker.groups.runtime.active(0)
    assert shard.groups == {}
    groups.run(REBALANCE_MS)
    assert shard.groups == {}


def test_an_assignment_that_cannot_be_written_sends_all_back_to_join() -> None:
    groups = Groups()
    joined = groups.join(version=3)
    groups.run(1)
    answer = response(joined)
    assert answer.error_code == NONE
    refuse_records(groups)
    synced = groups.sync(answer.member_id, answer.generation_id, **{answer.member_id: b"mine"})
    assert response(synced).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert groups.lone.broker.groups.runtime.active(0).groups["g"].state_name == "PreparingRebalance"


def test_while_too_few_replicas_are_in_sync_a_commit_is_written_and_answered_late() -> None:
    groups = two_replicas("500")
    groups.run(2000)  # the other replica is out of sync now
    log = groups.lone.broker.replicas.partition(TopicPartition(GROUP_TOPIC, 0)).log
    before = log.log_end_offset
    late = groups.send_commit(5)
    groups.run(1)
    assert log.log_end_offset == before + 1
    groups.run(4_998)
    assert not late.kept
    groups.run(1)
    assert error_of_commit(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    change_internal_topic(groups, "min.insync.replicas", "1")
    groups.run(1)
    assert groups.committed() == 5, "it is written, and counts"


def test_a_topic_of_groups_that_is_made_anew_knows_none_of_the_old_ones(groups: Groups) -> None:
    groups.stable()
    lone = groups.lone
    topics = [DeleteTopicsRequest.Topic(name=GROUP_TOPIC)]
    lone.handle(DeleteTopicsRequest(topics=topics, timeout_ms=1000), ListenerKind.CONTROLLER)
    lone.handle(
        CreateTopicsRequest(topics=[new_topic(GROUP_TOPIC, assignment={0: [1]})], timeout_ms=1000),
        ListenerKind.CONTROLLER,
    )
    groups.run(100)
    assert groups.ask(ListGroupsRequest()).groups == []


# --- another coordinator ----------------------------------------------------------------------------------------------


def test_a_coordinator_that_takes_over_knows_members_assignments_and_offsets(groups: Groups) -> None:
    first, second = groups.stable()
    groups.commit(9, first, groups.generation)
    runtime = groups.lone.broker.groups.runtime
    epoch = runtime._contexts[0].epoch
    runtime.resign(0)
    refused = HeartbeatRequest(group_id="g", generation_id=groups.generation, member_id=first)
    assert groups.ask(refused).error_code == ErrorCode.NOT_COORDINATOR
    runtime.lead(0, epoch, 0)
    assert response(groups.send(refused)).error_code == NONE, "its session has not begun to run"
    looked = groups.send(DescribeGroupsRequest(groups=["g"]))
    assert response(looked).groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    groups.run(1)
    assert groups.state() == "Stable"
    assert groups.committed() == 9
    assert response(groups.sync(second, groups.generation)).assignment == second.encode()
    groups.run(SESSION_MS - 100)
    assert groups.beat(first, groups.generation) is NONE, "its session began again"
    groups.run(200)
    assert groups.beat(first, groups.generation) is REBALANCE, "and so did that of the other one"


def test_what_waited_when_the_leadership_was_lost_does_not_reach_the_log_of_the_next_one() -> None:
    groups = two_replicas("600000")
    only, _ = groups.new_member()
    groups.run(1)
    led = groups.sync(only, 1, **{only: b"mine"})
    groups.run(1)
    assert not led.kept, "the other replica has not got it"
    runtime = groups.lone.broker.groups.runtime
    epoch = runtime._contexts[0].epoch
    runtime.resign(0)
    assert response(led).error_code == ErrorCode.NOT_COORDINATOR
    runtime.lead(0, epoch + 1, groups.lone.now)
    groups.run(1)
    end = runtime._contexts[0].end_offset
    for _ in range(6):
        groups.send(HeartbeatRequest(group_id="g", generation_id=1, member_id=only))
        groups.run(REBALANCE_MS // 5)
    assert runtime.active(0).groups["g"].members.keys() == {only}
    assert runtime._contexts[0].end_offset == end


def test_a_group_that_was_new_when_its_coordinator_was_lost_takes_its_members_again(groups: Groups) -> None:
    groups.join(instance="i")
    runtime = groups.lone.broker.groups.runtime
    epoch = runtime._contexts[0].epoch
    runtime.resign(0)
    runtime.lead(0, epoch + 1, groups.lone.now)
    groups.run(1)
    again = groups.join(instance="i")
    groups.run(1)
    assert (response(again).error_code, response(again).generation_id) == (NONE, 1)


def test_a_static_member_keeps_the_id_that_it_was_told_also_if_its_record_is_late() -> None:
    groups = two_replicas("600000")
    topic_id = groups.lone.node.loader.image.topic_ids[GROUP_TOPIC]

    def catch_up() -> None:
        groups.lone.fetch(topic_id, groups.lone.broker.groups.runtime._contexts[0].end_offset, follower=2)
        groups.run(1)

    static_group(groups)
    catch_up()
    assert groups.lone.broker.groups.runtime.active(0).groups["g"].state_name == "Stable"
    back = groups.join(instance="i")
    assert not back.kept, "the other replica has not got it"
    groups.join(version=3)
    groups.run(1)
    told = response(back)
    assert told.generation_id == 2
    groups.run(5000)
    catch_up()
    request = HeartbeatRequest(group_id="g", generation_id=2, member_id=told.member_id, group_instance_id="i")
    assert groups.ask(request).error_code == NONE


def test_a_partition_that_cannot_be_read_has_no_groups(groups: Groups) -> None:
    runtime = groups.lone.broker.groups.runtime
    runtime._log.append(0, [(b"?", None)], groups.lone.now)
    epoch = runtime._contexts[0].epoch
    runtime.lead(0, epoch + 1, groups.lone.now)
    groups.run(1)
    assert groups.ask(ListGroupsRequest()).error_code == NONE
    assert groups.ask(DescribeGroupsRequest(groups=["g"])).groups[0].error_code == ErrorCode.NOT_COORDINATOR


@pytest.fixture
def many_offsets(groups: Groups) -> Groups:
    """A group with offsets 0 to 1199 in the partitions of one topic, and one in another."""
    lone = groups.lone
    made = lone.ask(make(new_topic("big", assignment={number: [1] for number in range(1200)})), ListenerKind.CONTROLLER)
    assert not made.topics[0].error_code
    topic = OffsetCommitRequest.Topic
    parts = [topic.Partition(partition_index=number, committed_offset=number) for number in range(1200)]
    groups.ask(
        OffsetCommitRequest(
            group_id="g", topics=[topic(name="big", partitions=parts), topic(name="t", partitions=parts[:1])]
        ),
        8,
    )
    return groups


@pytest.mark.costly
@pytest.mark.parametrize("is_stable", [False, True])
@pytest.mark.parametrize("version", [7, 9])
def test_many_offsets_of_a_group_are_fetched_in_pieces(version: int, is_stable: bool, many_offsets: Groups) -> None:
    groups = many_offsets
    asked_type = OffsetFetchRequest.Topic if version == 7 else OffsetFetchRequest.Group.Topic
    asked = [
        asked_type(name="t", partition_indexes=[0]),
        asked_type(name="big", partition_indexes=[*range(1100), 5, 7000]),
        asked_type(name="nowhere", partition_indexes=[1]),
        asked_type(name="big", partition_indexes=[1199]),
    ]

    def fetch(topics: Any) -> Any:
        request = OffsetFetchRequest(group_id="g", topics=topics, require_stable=is_stable)
        if version == 9:
            group = OffsetFetchRequest.Group
            request = OffsetFetchRequest(
                groups=[
                    group(group_id="g", topics=topics),
                    group(group_id="h", topics=topics),
                    group(group_id="g", topics=topics),
                ],
                require_stable=is_stable,
            )
        groups.lone.time_slice.length = 1
        answer = groups.send(request, version)
        assert not answer.kept and len(groups.lone.node.dispatcher.slices) == 1, "others come between"
        groups.run(20)
        groups.lone.time_slice.length = 500
        groups.run(100)
        found = response(answer)
        if version == 7:
            return found.topics
        first, other, again = found.groups
        assert first == again and (other.group_id, other.error_code) == ("h", 0)
        return first.topics

    some = fetch(asked)
    assert [topic.name for topic in some] == ["t", "big", "nowhere", "big"]
    offsets = [[each.committed_offset for each in topic.partitions] for topic in some]
    assert offsets == [[0], [*range(1100), 5, -1], [-1], [1199]]
    everything = {topic.name: [each.committed_offset for each in topic.partitions] for topic in fetch(None)}
    assert everything == {"t": [0], "big": [*range(1200)]}


@pytest.mark.costly
def test_a_member_that_is_none_any_more_hears_so_of_the_whole_group_also_if_many_offsets_are_asked_for(
    many_offsets: Groups,
) -> None:
    groups = many_offsets
    groups.lone.create("u")
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["u"],
        topic_partitions=[],
    )
    epoch = groups.ask(beat, 1).member_epoch
    group = OffsetFetchRequest.Group
    topics = [group.Topic(name="big", partition_indexes=[*range(1200)])]
    asked = group(group_id="g", member_id="m", member_epoch=epoch, topics=topics)
    groups.lone.time_slice.length = 1
    answer = groups.send(OffsetFetchRequest(groups=[asked], require_stable=True), 9)
    assert not answer.kept, "a piece is answered, and others come between"
    groups.ask(beat.replace(member_epoch=-1, topic_partitions=None), 1)
    groups.run(100)
    (found,) = response(answer).groups
    assert (found.error_code, list(found.topics)) == (ErrorCode.UNKNOWN_MEMBER_ID, [])


@pytest.mark.costly
def test_many_offsets_of_a_group_are_deleted_in_pieces(many_offsets: Groups) -> None:
    groups = many_offsets
    topic = OffsetDeleteRequest.Topic
    parts = [topic.Partition(partition_index=number) for number in [*range(1100), 7000]]
    topics = [topic(name="big", partitions=parts), topic(name="nowhere", partitions=parts[:1])]
    groups.lone.time_slice.length = 1
    answer = groups.send(OffsetDeleteRequest(group_id="g", topics=topics))
    assert not answer.kept and len(groups.lone.node.dispatcher.slices) == 1, "others come between"
    groups.run(50)
    found = response(answer)
    codes = {each.name: [part.error_code for part in each.partitions] for each in found.topics}
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (found.error_code, sorted(codes)) == (0, ["big", "nowhere"])
    assert sorted(codes["big"]) == [0] * 1100 + [missing] and codes["nowhere"] == [missing]
    assert groups.lone.broker.groups.runtime.active(0).offsets.count == 101
