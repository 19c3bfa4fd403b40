"""What reads of a group's state tell: what is committed, at once, whatever was appended after it.

The coordinator is a whole node in virtual time. Broker 2, which the test plays, holds the second replica of
`__consumer_offsets`: `replicate` moves the high watermark.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker.requests.dispatch import Answer
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.coordinator import committed_view
from pykraft.protocol.messages.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    ListGroupsRequest,
)
from pykraft.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from pykraft.protocol.messages.transactions import TxnOffsetCommitRequest
from tests.harness.transactional_node import GROUPS, TransactionalNode

NO_OFFSET = -1
GROUP_ID_NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND
LATE_MS = 5_000
"""offsets.commit.timeout.ms"""


@pytest.fixture
def node() -> TransactionalNode:
    return TransactionalNode(group_replicas=(1, 2), replica_lag_time_max_ms="3600000")


def replicate(node: TransactionalNode, up_to: int | None = None) -> None:
    """The follower has everything, or everything before this offset."""
    offset = node.log(GROUPS).log_end_offset if up_to is None else up_to
    node.lone.fetch(node.group_topic, offset, follower=2)
    node.lone.run(1)
    assert node.log(GROUPS).high_watermark == offset


def commit(node: TransactionalNode, offset: int, group_id: str = "g") -> Promise[Answer]:
    topic = OffsetCommitRequest.Topic
    part = topic.Partition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(group_id=group_id, topics=[topic(name="t", partitions=[part])])
    promise = node.lone.handle(request, version=9)
    node.lone.run(1)
    return promise


def fetch(node: TransactionalNode, *, stable: bool = False, group_id: str = "g") -> Promise[Answer]:
    group = OffsetFetchRequest.Group
    asked = group(group_id=group_id, topics=[group.Topic(name="t", partition_indexes=[0])])
    promise = node.lone.handle(OffsetFetchRequest(groups=[asked], require_stable=stable), version=9)
    node.lone.run(1)
    return promise


def told(answer: Promise[Answer]) -> int | ErrorCode:
    assert answer.kept, "a read waits"
    response: Any = answer.value.response
    group = response.groups[0]
    if group.error_code:
        return ErrorCode.of(group.error_code)
    found = group.topics[0].partitions[0]
    return ErrorCode.of(found.error_code) if found.error_code else int(found.committed_offset)


def listed(node: TransactionalNode) -> list[tuple[str, str]]:
    response = node.lone.ask(ListGroupsRequest())
    assert not response.error_code
    return [(group.group_id, group.group_state) for group in response.groups]


def described(node: TransactionalNode, group_id: str = "g") -> Any:
    """The classic group; at once."""
    promise = node.lone.handle(DescribeGroupsRequest(groups=[group_id]))
    node.lone.run(1)
    response: Any = promise.value.response
    return response.groups[0]


def described_consumers(node: TransactionalNode, group_id: str = "g") -> Any:
    promise = node.lone.handle(ConsumerGroupDescribeRequest(group_ids=[group_id]))
    node.lone.run(1)
    response: Any = promise.value.response
    return response.groups[0]


def heartbeat(node: TransactionalNode, member_id: str, epoch: int = 0) -> Promise[Answer]:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if not epoch else -1,
        subscribed_topic_names=["t"] if not epoch else None,
        topic_partitions=[] if not epoch else None,
    )
    promise = node.lone.handle(request)
    node.lone.run(1)
    return promise


def restart(node: TransactionalNode, epoch: int = 99) -> None:
    """The coordinator loads its partition again."""
    runtime = node.lone.broker.groups.runtime
    runtime.resign(0)
    runtime.lead(0, epoch, node.lone.now)
    node.lone.run(10)


# --- offsets ----------------------------------------------------------------------------------------------------------


def test_an_offset_that_is_not_committed_is_not_told_and_does_not_delay_the_answer(node: TransactionalNode) -> None:
    commit(node, 5)
    assert told(fetch(node)) == NO_OFFSET
    replicate(node)
    assert told(fetch(node)) == 5
    second = commit(node, 6)
    assert not second.kept
    assert told(fetch(node)) == 5
    replicate(node)
    assert second.kept
    assert told(fetch(node)) == 6


def test_of_several_pending_offsets_the_one_below_the_high_watermark_is_told(node: TransactionalNode) -> None:
    for offset in range(5):
        commit(node, offset)
    end = node.log(GROUPS).log_end_offset
    replicate(node, end - 5)
    for offset in range(5):
        replicate(node, end - 4 + offset)
        assert told(fetch(node)) == offset


def test_a_fetch_of_stable_offsets_waits_for_those_that_are_pending(node: TransactionalNode) -> None:
    commit(node, 5)
    answer = fetch(node, stable=True)
    assert not answer.kept
    replicate(node)
    assert told(answer) == 5


def test_an_offset_whose_deletion_is_pending_is_told(node: TransactionalNode) -> None:
    commit(node, 5)
    replicate(node)
    topic = OffsetDeleteRequest.Topic
    part = topic.Partition(partition_index=0)
    deleted = node.lone.handle(OffsetDeleteRequest(group_id="g", topics=[topic(name="t", partitions=[part])]))
    node.lone.run(1)
    assert not deleted.kept
    assert told(fetch(node)) == 5
    replicate(node)
    assert told(fetch(node)) == NO_OFFSET


def commit_in_transaction(node: TransactionalNode, offset: int) -> None:
    topic = TxnOffsetCommitRequest.Topic
    part = topic.Partition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id="mine",
        group_id="g",
        producer_id=7,
        producer_epoch=0,
        topics=[topic(name="t", partitions=[part])],
    )
    node.lone.handle(request, version=5)
    node.lone.run(1)
    node.answer(node.asked())


def test_an_offset_of_a_transaction_is_told_once_its_marker_is_committed(node: TransactionalNode) -> None:
    commit(node, 5)
    commit_in_transaction(node, 6)
    replicate(node)
    assert told(fetch(node, stable=True)) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert told(fetch(node)) == 5
    node.send_marker(GROUPS)
    assert told(fetch(node)) == 5
    replicate(node)
    assert told(fetch(node)) == 6
    assert told(fetch(node, stable=True)) == 6


# --- groups -----------------------------------------------------------------------------------------------------------


def test_a_group_exists_for_readers_once_its_first_record_is_committed(node: TransactionalNode) -> None:
    commit(node, 5)
    assert listed(node) == []
    assert (described(node).error_code, described(node).group_state) == (GROUP_ID_NOT_FOUND, "Dead")
    replicate(node)
    assert listed(node) == [("g", "Empty")]
    assert described(node).group_state == "Empty"


def test_a_group_whose_deletion_is_pending_is_described(node: TransactionalNode) -> None:
    commit(node, 5)
    replicate(node)
    node.lone.handle(DeleteGroupsRequest(groups_names=["g"]))
    node.lone.run(1)
    assert listed(node) == [("g", "Empty")]
    assert described(node).group_state == "Empty"
    assert told(fetch(node)) == 5
    replicate(node)
    assert listed(node) == []


def test_the_members_of_a_classic_group_are_told_as_they_are(node: TransactionalNode) -> None:
    """No record holds who is about to join: Kafka, too, describes that from memory."""
    commit(node, 5)
    replicate(node)
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
    request = JoinGroupRequest(group_id="g", member_id="", protocol_type="consumer", protocols=[protocol])
    node.lone.handle(request.replace(session_timeout_ms=10_000, rebalance_timeout_ms=10_000), version=3)
    node.lone.run(1)
    assert described(node).group_state == "PreparingRebalance"
    assert listed(node) == [("g", "PreparingRebalance")]


def test_the_members_of_a_consumer_group_are_told_as_they_are_committed(node: TransactionalNode) -> None:
    heartbeat(node, "a")
    assert described_consumers(node).error_code == GROUP_ID_NOT_FOUND
    replicate(node)
    first = described_consumers(node)
    assert [member.member_id for member in first.members] == ["a"]
    heartbeat(node, "b")
    pending = described_consumers(node)
    assert (pending.group_epoch, pending.members) == (first.group_epoch, first.members)
    replicate(node)
    assert [member.member_id for member in described_consumers(node).members] == ["a", "b"]


def test_a_member_whose_epoch_is_not_committed_reads_no_offsets_under_it(node: TransactionalNode) -> None:
    group = OffsetFetchRequest.Group

    def fetch_as(member_id: str, epoch: int) -> int | ErrorCode:
        topics = [group.Topic(name="t", partition_indexes=[0])]
        asked = group(group_id="g", member_id=member_id, member_epoch=epoch, topics=topics)
        promise = node.lone.handle(OffsetFetchRequest(groups=[asked]), version=9)
        node.lone.run(1)
        return told(promise)

    heartbeat(node, "a")
    replicate(node)
    heartbeat(node, "b")
    assert fetch_as("a", 1) == NO_OFFSET
    assert fetch_as("b", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    replicate(node)
    assert fetch_as("b", 2) == NO_OFFSET


# --- below min.insync.replicas ----------------------------------------------------------------------------------------


def test_below_min_insync_replicas_a_group_is_described_with_its_committed_offsets() -> None:
    node = TransactionalNode(group_replicas=(1, 2), replica_lag_time_max_ms="1000")
    commit(node, 5)
    replicate(node)
    refused = commit(node, 6)
    node.lone.run(3000)
    assert node.lone.broker.replicas.partitions[GROUPS].is_under_min_isr
    for _ in range(3):
        assert told(fetch(node)) == 5
        assert described(node).group_state == "Empty"
        node.lone.run(LATE_MS)
    response: Any = refused.value.response
    assert response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# --- a new coordinator ------------------------------------------------------------------------------------------------


def test_a_new_coordinator_tells_what_its_log_says_below_the_high_watermark(node: TransactionalNode) -> None:
    commit(node, 5)
    replicate(node)
    commit(node, 6)
    restart(node)
    node.lone.run(LATE_MS)
    assert told(fetch(node)) == 5
    replicate(node)
    assert told(fetch(node)) == 6


def test_a_new_coordinator_waits_until_what_it_has_loaded_is_committed(node: TransactionalNode) -> None:
    """Its high watermark may be older than that of the one before it, which has acknowledged more."""
    commit(node, 5)
    restart(node)
    answer = fetch(node)
    assert not answer.kept
    replicate(node)
    assert told(answer) == 5


def test_a_new_coordinator_does_not_wait_for_ever_for_what_it_has_loaded(node: TransactionalNode) -> None:
    commit(node, 5)
    restart(node)
    answer = fetch(node)
    node.lone.run(LATE_MS - 100)
    assert not answer.kept
    node.lone.run(100)
    assert told(answer) == NO_OFFSET
    assert told(fetch(node)) == NO_OFFSET, "at once from now on"


def test_a_read_that_waits_hears_that_the_coordinator_has_moved(node: TransactionalNode) -> None:
    commit(node, 5)
    restart(node)
    answer = fetch(node)
    node.lone.broker.groups.runtime.resign(0)
    assert told(answer) == ErrorCode.NOT_COORDINATOR


# --- many pending records ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_more_pending_records_than_are_kept_are_read_from_the_log_when_they_are_committed(
    node: TransactionalNode, is_reloaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committed_view, "MOST_PENDING", 10)
    for number in range(25):
        commit(node, number, f"g{number}")
        commit(node, 100 + number)
    if is_reloaded:
        restart(node)
        node.lone.run(LATE_MS)
    view = node.lone.broker.groups.runtime.view(0)
    assert view.pending <= 10
    replicate(node, 20)
    assert told(fetch(node)) == 100 + 9
    assert told(fetch(node, group_id="g9")) == 9
    assert told(fetch(node, group_id="g10")) == NO_OFFSET
    replicate(node)
    assert told(fetch(node)) == 124
    assert told(fetch(node, group_id="g24")) == 24
    commit(node, 125)
    assert view.pending == 1
    assert told(fetch(node)) == 124
    replicate(node)
    assert told(fetch(node)) == 125
    assert len(listed(node)) == 26


def test_errors_are_those_of_the_group(node: TransactionalNode) -> None:
    assert told(fetch(node, group_id="never")) == NO_OFFSET
    node.lone.broker.groups.runtime.resign(0)
    assert told(fetch(node)) == ErrorCode.NOT_COORDINATOR
