"""Offsets of a group that are part of a transaction: pending until the marker, on a whole node in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykraft.broker.requests.dispatch import Answer
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.coordinator.group.offsets import tombstones
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.coordinators import OffsetCommitKey, OffsetCommitValue
from pykraft.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from pykraft.protocol.messages.transactions import TxnOffsetCommitRequest
from tests.harness.controllers import make, new_topic
from tests.harness.transactional_node import GROUPS, NONE, TransactionalNode

BY_ID, ADDING, VERIFYING, OLDER = 6, 5, 4, 3
ANOTHER = TopicPartition("u", 0)


@pytest.fixture
def node() -> TransactionalNode:
    return TransactionalNode(group_initial_rebalance_delay_ms="0")


def send(node: TransactionalNode, offset: int, version: int = ADDING, **fields: Any) -> Promise[Answer]:
    """A transactional commit for partition 0 of t, by producer 7."""
    topic = TxnOffsetCommitRequest.Topic
    part = topic.Partition(partition_index=0, committed_offset=offset, committed_metadata=fields.pop("metadata", ""))
    request = TxnOffsetCommitRequest(
        transactional_id="mine",
        group_id="g",
        producer_id=7,
        producer_epoch=0,
        topics=[topic(name=fields.pop("topic", "t"), topic_id=fields.pop("topic_id", ZERO_UUID), partitions=[part])],
    )
    promise = node.lone.handle(request.replace(**fields), version=version)
    node.lone.run(1)
    return promise


def error_of(answer: Promise[Answer]) -> ErrorCode:
    response: Any = answer.value.response
    return ErrorCode.of(response.topics[0].partitions[0].error_code)


def commit(node: TransactionalNode, offset: int, version: int = ADDING, **fields: Any) -> ErrorCode:
    answer = send(node, offset, version, **fields)
    if not answer.kept:
        node.answer(node.asked())
        node.lone.run(1)
    return error_of(answer)


def committed(node: TransactionalNode, *, stable: bool = True) -> int | ErrorCode:
    group = OffsetFetchRequest.Group
    asked = group(group_id="g", topics=[group.Topic(name="t", partition_indexes=[0])])
    response = node.lone.ask(OffsetFetchRequest(groups=[asked], require_stable=stable), version=9)
    found = response.groups[0].topics[0].partitions[0]
    return ErrorCode.of(found.error_code) if found.error_code else int(found.committed_offset)


def commit_plainly(node: TransactionalNode, offset: int) -> None:
    topic = OffsetCommitRequest.Topic
    part = topic.Partition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(group_id="g", topics=[topic(name="t", partitions=[part])])
    assert node.lone.ask(request, version=9).topics[0].partitions[0].error_code == NONE


def end(node: TransactionalNode, is_commit: bool, producer_id: int = 7) -> None:
    assert set(node.markers((producer_id, 1, is_commit), places=(GROUPS,)).values()) == {NONE}


def restart(node: TransactionalNode) -> None:
    """The coordinator loads its partition again."""
    runtime = node.lone.broker.groups.runtime
    runtime.resign(0)
    runtime.lead(0, 99, node.lone.now)
    node.lone.run(10)


@pytest.mark.parametrize("is_reloaded", [False, True])
@pytest.mark.parametrize("is_commit", [False, True])
def test_offsets_count_from_the_commit_marker_on_and_never_after_an_abort(
    node: TransactionalNode, is_commit: bool, is_reloaded: bool
) -> None:
    commit_plainly(node, 3)
    assert commit(node, 10) is NONE
    if is_reloaded:
        restart(node)
    assert committed(node) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert committed(node, stable=False) == 3
    end(node, is_commit)
    assert committed(node) == (10 if is_commit else 3)
    restart(node)
    assert committed(node) == (10 if is_commit else 3)


@pytest.mark.parametrize("version", range(6))
def test_the_group_coordinator_asks_the_transactions_coordinator_first(node: TransactionalNode, version: int) -> None:
    answer = send(node, 1, version)
    transaction = node.asked().request.transactions[0]
    assert transaction.verify_only is (version < ADDING)
    assert (transaction.transactional_id, transaction.producer_id) == ("mine", 7)
    assert [(topic.name, list(topic.partitions)) for topic in transaction.topics] == [(GROUPS.topic, [0])]
    assert not answer.kept and node.log(GROUPS).log_end_offset == 0


def test_only_the_first_commit_of_a_transaction_is_asked_about(node: TransactionalNode) -> None:
    assert commit(node, 1) is NONE
    assert error_of(send(node, 2)) is NONE
    assert not node.is_asking
    end(node, True)
    assert committed(node) == 2
    assert not send(node, 3, producer_epoch=1).kept


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        ("INVALID_TXN_STATE", ADDING, "INVALID_TXN_STATE"),
        ("TRANSACTION_ABORTABLE", VERIFYING, "TRANSACTION_ABORTABLE"),
        ("TRANSACTION_ABORTABLE", OLDER, "INVALID_TXN_STATE"),
        ("CONCURRENT_TRANSACTIONS", ADDING, "CONCURRENT_TRANSACTIONS"),
        ("PRODUCER_FENCED", ADDING, "INVALID_PRODUCER_EPOCH"),
        ("NETWORK_EXCEPTION", ADDING, "COORDINATOR_LOAD_IN_PROGRESS"),
        ("NETWORK_EXCEPTION", 1, "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_COORDINATOR", ADDING, "NOT_COORDINATOR"),
    ],
)
def test_what_the_transactions_coordinator_refuses_is_refused(
    node: TransactionalNode, error: str, version: int, expected: str
) -> None:
    answer = send(node, 1, version)
    node.answer(node.asked(), ErrorCode[error])
    assert error_of(answer) is ErrorCode[expected]
    assert node.log(GROUPS).log_end_offset == 0


def test_a_late_answer_cannot_begin_a_transaction_after_its_abort(node: TransactionalNode) -> None:
    answer = send(node, 1, VERIFYING)
    question = node.asked()
    node.markers((7, 0, False), places=(GROUPS,), transaction_version=0)
    node.answer(question)
    assert error_of(answer) is ErrorCode.INVALID_TXN_STATE
    assert node.log(GROUPS).producer_state.first_unstable_offset is None


def test_of_two_commits_the_later_record_wins_whichever_was_pending_longer(node: TransactionalNode) -> None:
    assert commit(node, 10) is NONE
    commit_plainly(node, 20)
    end(node, True)
    assert committed(node) == 20
    restart(node)
    assert committed(node) == 20


def test_two_transactions_of_a_group_are_told_apart(node: TransactionalNode) -> None:
    assert commit(node, 10) is NONE
    assert commit(node, 11, producer_id=8, transactional_id="other") is NONE
    end(node, True, producer_id=7)
    assert committed(node) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert committed(node, stable=False) == 10
    end(node, False, producer_id=8)
    assert committed(node) == 10


@pytest.mark.parametrize("is_first_committed", [False, True])
def test_deleting_an_offset_deletes_what_is_pending(node: TransactionalNode, is_first_committed: bool) -> None:
    if is_first_committed:
        commit_plainly(node, 3)
    assert commit(node, 10) is NONE
    topic = OffsetDeleteRequest.Topic
    part = topic.Partition(partition_index=0)
    node.lone.ask(OffsetDeleteRequest(group_id="g", topics=[topic(name="t", partitions=[part])]))
    assert committed(node) == -1
    end(node, True)
    assert committed(node) == -1
    restart(node)
    assert committed(node) == -1


def test_a_deleted_group_does_not_come_back_with_the_marker(node: TransactionalNode) -> None:
    assert commit(node, 10) is NONE
    response = node.lone.ask(DeleteGroupsRequest(groups_names=["g"]))
    assert response.results[0].error_code == NONE
    end(node, True)
    assert committed(node) == -1
    restart(node)
    assert committed(node) == -1
    assert "g" not in node.lone.broker.groups.runtime.active(0).groups


def test_offsets_of_a_deleted_topic_go_though_they_are_pending(node: TransactionalNode) -> None:
    node.lone.create(ANOTHER.topic)
    assert commit(node, 10, topic="u") is NONE
    topics = [DeleteTopicsRequest.Topic(name="u")]
    node.lone.ask(DeleteTopicsRequest(topics=topics, timeout_ms=1000), ListenerKind.CONTROLLER)
    node.lone.run(100)
    end(node, True)
    assert node.lone.broker.groups.runtime.active(0).offsets.of("g") == {}


@pytest.mark.parametrize(
    ("committed_for", "is_forgotten"), [("", True), ("old", True), ("older", True), ("new", False)]
)
def test_of_a_deleted_topic_only_its_own_offsets_go(
    node: TransactionalNode, committed_for: str, is_forgotten: bool
) -> None:
    """The coordinator may hear of the deletion when there is a new topic of that name, with committed offsets."""
    ids = {name: Uuid(name.encode().rjust(16)) for name in ("old", "older", "new")} | {"": ZERO_UUID}
    shard = node.lone.broker.groups.runtime.active(0)
    place = TopicPartition("u", 0)
    shard.offsets.replay(
        OffsetCommitKey(group="g", topic="u", partition=0),
        OffsetCommitValue(offset=5, metadata="", commit_timestamp=0, topic_id=ids[committed_for]),
        -1,
    )
    result = shard.forget_topics({"u": {ids["old"], ids["older"]}})
    assert result.records == (tombstones("g", [place]) if is_forgotten else [])


def test_a_group_with_pending_offsets_does_not_expire(node: TransactionalNode) -> None:
    shard = node.lone.broker.groups.runtime.active(0)
    commit_plainly(node, 3)
    assert commit(node, 10) is NONE
    node.lone.clock.now_ms += 30 * 24 * 3_600_000
    assert shard.expire_offsets().records == []
    end(node, False)
    assert len(shard.expire_offsets().records) == 2, "the offset and the group"


def join_classic(node: TransactionalNode) -> tuple[str, int]:
    """A classic group with one member: its id and generation."""
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined = node.lone.ask(request, version=3)
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=b"")],
    )
    node.lone.ask(sync, version=3)
    return joined.member_id, joined.generation_id


def test_a_classic_member_is_fenced_by_its_id_and_generation(node: TransactionalNode) -> None:
    member_id, generation = join_classic(node)
    assert commit(node, 1, member_id=member_id, generation_id_or_member_epoch=generation) is NONE
    assert (
        commit(node, 1, member_id=member_id, generation_id_or_member_epoch=generation + 1)
        is ErrorCode.ILLEGAL_GENERATION
    )
    assert commit(node, 1, member_id="x", generation_id_or_member_epoch=generation) is ErrorCode.UNKNOWN_MEMBER_ID
    static = {"member_id": "x", "group_instance_id": "i", "generation_id_or_member_epoch": generation}
    assert commit(node, 1, **static) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(node, 2, version=2) is NONE, "a client that cannot name its member need not"


def send_many(node: TransactionalNode, count: int, **fields: Any) -> Promise[Answer]:
    """A commit of so many offsets, whose first piece is written when the transaction's coordinator has answered."""
    made = make(new_topic("big", assignment={number: [1] for number in range(count)}))
    assert not node.lone.ask(made, ListenerKind.CONTROLLER).topics[0].error_code
    node.lone.run(10)
    topic = TxnOffsetCommitRequest.Topic
    parts = [topic.Partition(partition_index=number, committed_offset=7) for number in range(count)]
    answer = send(node, 0, topics=[topic(name="big", partitions=parts), topic(name="unknown", partitions=[])], **fields)
    node.lone.time_slice.length = 1
    node.answer_only(node.asked())
    node.lone.time_slice.length = 500
    assert not answer.kept, "some pieces are written, and others come between"
    return answer


@contextmanager
def held(node: TransactionalNode) -> Iterator[None]:
    """Meanwhile what is interrupted does not go on."""
    slices = node.lone.node.dispatcher.slices
    works = list(slices._paused)
    assert works
    slices._paused.clear()
    yield
    for work in works:
        slices.pause(work)
    node.lone.run(50)


def refused_from(answer: Promise[Answer], code: ErrorCode) -> int:
    """How many offsets were committed before the others were refused with this code."""
    response: Any = answer.value.response
    assert [topic.name for topic in response.topics] == ["big", "unknown"]
    codes = [ErrorCode.of(each.error_code) for each in response.topics[0].partitions]
    done = codes.count(NONE)
    assert codes == [NONE] * done + [code] * (len(codes) - done)
    assert 0 < done < len(codes)
    return done


@pytest.mark.costly
def test_a_commit_of_many_offsets_is_written_in_pieces_and_each_asks_again_for_the_member(
    node: TransactionalNode,
) -> None:
    member_id, generation = join_classic(node)
    answer = send_many(node, 1200, member_id=member_id, generation_id_or_member_epoch=generation)
    with held(node):
        node.lone.ask(LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id=member_id)]))
    assert refused_from(answer, ErrorCode.UNKNOWN_MEMBER_ID) % 500 == 0


@pytest.mark.costly
def test_the_rest_of_a_commit_does_not_begin_a_transaction_again_that_was_aborted_meanwhile(
    node: TransactionalNode,
) -> None:
    answer = send_many(node, 1200)
    with held(node):
        end(node, is_commit=False)
    assert refused_from(answer, ErrorCode.INVALID_PRODUCER_EPOCH) % 500 == 0
    assert not node.lone.broker.groups.runtime.active(0).offsets.has_pending("g")


@pytest.mark.costly
def test_a_commit_of_many_offsets_is_written_to_its_end_though_the_producer_hangs_up(node: TransactionalNode) -> None:
    send_many(node, 1200).abandon()
    node.lone.run(50)
    end(node, is_commit=True)
    assert node.lone.broker.groups.runtime.active(0).offsets.count == 1200


def test_without_a_group_only_a_client_without_a_generation_may_commit(node: TransactionalNode) -> None:
    assert commit(node, 1, member_id="m", generation_id_or_member_epoch=5) is ErrorCode.ILLEGAL_GENERATION
    assert commit(node, 1) is NONE


def test_a_consumer_groups_member_is_fenced_by_its_epoch(node: TransactionalNode) -> None:
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    epoch = node.lone.ask(beat).member_epoch
    assert epoch > 0
    assert commit(node, 1, member_id="m", generation_id_or_member_epoch=epoch) is NONE
    assert commit(node, 1, member_id="m", generation_id_or_member_epoch=epoch - 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(node, 1, member_id="x", generation_id_or_member_epoch=epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(node, 2) is NONE
    stale = {"member_id": "m", "generation_id_or_member_epoch": epoch - 1, "topic_id": topic_id(node)}
    assert commit(node, 1, BY_ID, **stale) is ErrorCode.STALE_MEMBER_EPOCH


def topic_id(node: TransactionalNode) -> Uuid:
    return node.lone.node.loader.image.topic_ids["t"]


def test_topics_go_by_their_ids_from_version_6_on(node: TransactionalNode) -> None:
    stranger = Uuid(bytes(15) + b"\7")
    assert commit(node, 3, BY_ID, topic="", topic_id=topic_id(node)) is NONE
    assert error_of(send(node, 4, BY_ID, topic="t", topic_id=stranger)) is ErrorCode.UNKNOWN_TOPIC_ID
    assert error_of(send(node, 4, BY_ID, topic="t")) is ErrorCode.UNKNOWN_TOPIC_ID
    response: Any = send(node, 5, BY_ID, topic_id=topic_id(node)).value.response
    assert response.topics[0].topic_id == topic_id(node)
    end(node, is_commit=True)
    assert committed(node) == 5


def test_from_version_6_on_a_group_that_is_not_there_is_called_so(node: TransactionalNode) -> None:
    fields = {"member_id": "m", "generation_id_or_member_epoch": 5, "topic_id": topic_id(node)}
    assert commit(node, 1, BY_ID, **fields) is ErrorCode.GROUP_ID_NOT_FOUND


def test_what_is_wrong_with_one_partition_is_refused_alone(node: TransactionalNode) -> None:
    topic = TxnOffsetCommitRequest.Topic

    def part(number: int, metadata: str | None = None) -> Any:
        return topic.Partition(partition_index=number, committed_offset=1, committed_metadata=metadata)

    topics = [
        topic(name="unknown", partitions=[part(0)]),
        topic(name="t", partitions=[part(9), part(0, "x" * 5000), part(0)]),
        topic(name="u", partitions=[]),
    ]
    node.lone.create("u")
    answer = send(node, 0, topics=topics)
    node.answer(node.asked())
    node.lone.run(1)
    response: Any = answer.value.response
    errors = [[ErrorCode.of(each.error_code) for each in topic.partitions] for topic in response.topics]
    nowhere = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors[0] == [nowhere] and errors[1][0] is nowhere and errors[2] == []
    assert len(errors[1]) == 3
    assert error_of(send(node, 0, topic="unknown")) is nowhere
    assert error_of(send(node, 0, group_id="")) is ErrorCode.INVALID_GROUP_ID


def test_offsets_without_a_producer_are_part_of_no_transaction() -> None:
    node = TransactionalNode(transaction_partition_verification_enable="false")
    for fields in ({"producer_id": -1}, {"producer_epoch": -1}):
        assert error_of(send(node, 1, VERIFYING, **fields)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert node.log(GROUPS).log_end_offset == 0


def test_another_broker_is_not_the_coordinator(node: TransactionalNode) -> None:
    node.lone.broker.replicas.partitions[GROUPS].leader_id = 2
    assert error_of(send(node, 1)) is ErrorCode.NOT_COORDINATOR
