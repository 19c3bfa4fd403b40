"""WriteTxnMarkers and DescribeProducers on a whole node, and what readers of committed data see of it."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker.requests.dispatch import Answer
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import ListOffsetsRequest
from pykraft.protocol.messages.transactions import DescribeProducersRequest, WriteTxnMarkersRequest
from pykraft.records.batch import batches
from pykraft.records.markers import Marker, read_marker
from tests.harness.storage import produced
from tests.harness.transactional_node import GROUPS, NONE, T, TransactionalNode, errors_of, produced_error

READ_COMMITTED = 1


@pytest.fixture
def node() -> TransactionalNode:
    return TransactionalNode()


def begin(node: TransactionalNode, producer_id: int = 7, epoch: int = 0, sequence: int = 0) -> None:
    """A transaction with one record."""
    answer = node.produce(produced(producer_id, sequence, epoch=epoch, transactional=True))
    node.answer(node.asked())
    assert not answer.kept or produced_error(answer) is NONE


def fetched(answer: Promise[Answer]) -> Any:
    response: Any = answer.value.response
    return response.responses[0].partitions[0]


def read(node: TransactionalNode, offset: int = 0, **fields: Any) -> Any:
    return fetched(node.lone.fetch(node.topic, offset, isolation_level=READ_COMMITTED, **fields))


def latest(node: TransactionalNode, isolation_level: int) -> int:
    topic = ListOffsetsRequest.Topic
    part = topic.Partition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=[topic(name="t", partitions=[part])]
    )
    offset: int = node.lone.ask(request).topics[0].partitions[0].offset
    return offset


def last_marker(node: TransactionalNode) -> Marker:
    """The last batch of the log, as a follower reads it."""
    data = fetched(node.lone.fetch(node.topic, node.log().log_end_offset - 1)).records
    *_, last = batches(memoryview(data))
    return read_marker(last)


def test_a_reader_of_committed_data_sees_a_transaction_after_its_marker(node: TransactionalNode) -> None:
    begin(node)
    assert len(read(node).records) == 0 and read(node).last_stable_offset == 0
    assert len(fetched(node.lone.fetch(node.topic, 0)).records) > 0
    assert (latest(node, 0), latest(node, READ_COMMITTED)) == (1, 0)
    assert node.markers((7, 1, True)) == {(7, T): NONE}
    assert last_marker(node) == Marker(True, 0)
    assert len(read(node).records) > 0 and read(node).last_stable_offset == 2
    assert read(node).aborted_transactions == []
    assert latest(node, READ_COMMITTED) == 2


def test_a_reader_is_told_which_transactions_were_aborted(node: TransactionalNode) -> None:
    begin(node, 7)
    begin(node, 8)
    node.markers((8, 1, False))
    assert read(node).last_stable_offset == 0, "the other one is still open"
    node.markers((7, 1, True))
    aborted = [(each.producer_id, each.first_offset) for each in read(node).aborted_transactions]
    assert aborted == [(8, 1)]
    assert read(node).last_stable_offset == 4


def test_a_waiting_reader_is_woken_by_the_marker(node: TransactionalNode) -> None:
    begin(node)
    waiting = node.lone.fetch(node.topic, 0, isolation_level=READ_COMMITTED, max_wait_ms=5000)
    node.lone.run(100)
    assert not waiting.kept
    node.markers((7, 1, True))
    assert len(fetched(waiting).records) > 0


def test_markers_are_answered_once_the_followers_have_them() -> None:
    node = TransactionalNode(replicas=(1, 2))
    begin(node)
    node.lone.fetch(node.topic, 1, follower=2)
    marker = WriteTxnMarkersRequest.Marker
    request = WriteTxnMarkersRequest(
        markers=[
            marker(
                producer_id=7,
                producer_epoch=1,
                transaction_result=True,
                topics=[marker.Topic(name="t", partition_indexes=[0])],
                coordinator_epoch=0,
                transaction_version=2,
            )
        ]
    )
    answer = node.lone.handle(request)
    node.lone.run(10)
    assert not answer.kept and node.log().last_stable_offset == 0, "the marker may still be lost"
    node.lone.fetch(node.topic, 2, follower=2)
    response: Any = answer.value.response
    assert response.markers[0].topics[0].partitions[0].error_code == NONE
    assert node.log().last_stable_offset == 2
    begin(node, epoch=1)
    late = node.lone.handle(request.replace(markers=[request.markers[0].replace(producer_epoch=2)]))
    node.lone.run(29_999)
    assert not late.kept
    node.lone.run(1)
    slow: Any = late.value.response
    error = slow.markers[0].topics[0].partitions[0].error_code
    assert error in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


@pytest.mark.parametrize(
    ("transaction_version", "epoch", "error"),
    [
        (0, 0, "NONE"),
        (1, 0, "NONE"),
        (2, 0, "INVALID_PRODUCER_EPOCH"),
        (2, 1, "NONE"),
        (1, 1, "NONE"),
        (2, -1, "UNKNOWN_SERVER_ERROR"),
        (0, -1, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_with_version_two_a_marker_has_a_higher_epoch_than_the_records(
    node: TransactionalNode, transaction_version: int, epoch: int, error: str
) -> None:
    begin(node)
    assert node.markers((7, epoch, True), transaction_version=transaction_version) == {(7, T): ErrorCode[error]}
    assert (node.log().last_stable_offset == 2) is (error == "NONE")


def test_a_marker_without_a_producer_is_refused_with_all_that_come_with_it(node: TransactionalNode) -> None:
    errors = node.markers((7, 0, True), (-1, 0, True))
    assert errors == {(producer_id, T): ErrorCode.UNKNOWN_SERVER_ERROR for producer_id in (7, -1)}
    assert node.log().log_end_offset == 0


def test_a_marker_that_is_repeated_is_written_again_if_no_transaction_is_open(node: TransactionalNode) -> None:
    begin(node)
    assert node.markers((7, 1, True)) == node.markers((7, 1, True)) == {(7, T): NONE}
    assert node.log().log_end_offset == 3
    begin(node, epoch=1)
    assert node.markers((7, 1, True)) == {(7, T): ErrorCode.INVALID_PRODUCER_EPOCH}, "it is of the transaction before"


def test_a_marker_of_an_older_coordinator_is_fenced(node: TransactionalNode) -> None:
    begin(node)
    assert node.markers((7, 1, True), coordinator_epoch=5) == {(7, T): NONE}
    begin(node, epoch=1)
    assert node.markers((7, 2, False), coordinator_epoch=4) == {(7, T): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    assert node.log().last_stable_offset == 2


def test_version_one_tells_no_transaction_version(node: TransactionalNode) -> None:
    begin(node)
    assert node.markers((7, 0, False), version=1) == {(7, T): NONE}


def test_each_partition_of_each_marker_is_answered_for_itself(node: TransactionalNode) -> None:
    node.lone.create("far", (2,))
    unknown, far, wrong = TopicPartition("unknown", 0), TopicPartition("far", 0), TopicPartition("t", -5)
    begin(node)
    errors = node.markers((7, 1, True), (8, 0, False), places=(T, unknown, far, wrong, T))
    nowhere = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    of_one = {T: NONE, unknown: nowhere, far: nowhere, wrong: nowhere}
    assert errors == {(producer_id, place): error for producer_id in (7, 8) for place, error in of_one.items()}
    assert node.log().log_end_offset == 3, "a partition that is named twice gets one marker"


def test_no_markers_and_markers_without_partitions_are_answered(node: TransactionalNode) -> None:
    assert node.lone.ask(WriteTxnMarkersRequest(markers=[])).markers == []
    assert node.markers((7, 0, True), places=()) == {}


def test_thousands_of_places_take_several_turns(node: TransactionalNode) -> None:
    marker = WriteTxnMarkersRequest.Marker
    topics = [marker.Topic(name=f"x{number}", partition_indexes=range(100)) for number in range(20)]
    topics.append(marker.Topic(name="t", partition_indexes=[0]))
    request = WriteTxnMarkersRequest(
        markers=[marker(producer_id=7, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=0)]
    )
    answer = node.lone.handle(request)
    assert not answer.kept and len(node.lone.node.dispatcher.slices) == 1
    node.lone.run(10)
    response: Any = answer.value.response
    errors = [part.error_code for topic in response.markers[0].topics for part in topic.partitions]
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2000 + [NONE]


def test_a_marker_below_the_minimum_of_replicas_is_refused_before_the_append() -> None:
    node = TransactionalNode(replicas=(1, 2), replica_lag_time_max_ms="1000")
    node.lone.run(2000)
    assert node.markers((7, 0, True)) == {(7, T): ErrorCode.NOT_ENOUGH_REPLICAS}
    assert node.log().log_end_offset == 0


def test_the_groups_write_a_marker_below_the_minimum_and_answer_when_it_is_committed() -> None:
    node = TransactionalNode(group_replicas=(1, 2), replica_lag_time_max_ms="1000")
    node.lone.run(2000)
    first = node.send_marker(GROUPS)
    assert node.log(GROUPS).log_end_offset == 1
    node.lone.run(29_998)
    assert not first.kept
    node.lone.run(1)
    assert errors_of(first.value.response) == {(7, GROUPS): ErrorCode.REQUEST_TIMED_OUT}
    second = node.send_marker(GROUPS)
    assert node.log(GROUPS).log_end_offset == 2, "the coordinator has sent it again"
    node.lone.fetch(node.group_topic, 2, follower=2)
    node.lone.run(100)  # it is in sync again
    assert errors_of(second.value.response) == {(7, GROUPS): NONE}


def described(node: TransactionalNode, name: str = "t", partition: int = 0) -> Any:
    topic = DescribeProducersRequest.Topic(name=name, partition_indexes=[partition])
    return node.lone.ask(DescribeProducersRequest(topics=[topic])).topics[0].partitions[0]


def test_the_producers_of_a_partition_are_described(node: TransactionalNode) -> None:
    begin(node, 7, epoch=3, sequence=0)
    open_one = described(node).active_producers[0]
    assert (open_one.producer_id, open_one.producer_epoch, open_one.last_sequence) == (7, 3, 0)
    assert (open_one.coordinator_epoch, open_one.current_txn_start_offset) == (-1, 0)
    node.markers((7, 4, False), coordinator_epoch=2)
    ended = described(node).active_producers[0]
    assert (ended.producer_epoch, ended.coordinator_epoch, ended.current_txn_start_offset) == (4, 2, -1)


def test_a_follower_describes_the_producers_too(node: TransactionalNode) -> None:
    node.lone.create("followed", (2, 1))
    batch = produced(7, 5, epoch=3)
    node.log(TopicPartition("followed", 0)).append_as_follower(batch.buffer)
    answer = described(node, "followed")
    assert answer.error_code == NONE
    (producer,) = answer.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 3, 5)


def test_only_a_replica_of_a_topic_that_there_is_describes_producers(node: TransactionalNode) -> None:
    node.lone.create("far", (2,))
    assert described(node, "far").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert described(node, "unknown").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(node, "t", 5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(node, "a b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_markers_for_the_groups_partition_go_through_the_group_coordinator(node: TransactionalNode) -> None:
    assert node.markers((7, 0, True), places=(GROUPS,)) == {(7, GROUPS): NONE}
    assert node.log(GROUPS).log_end_offset == 1
    runtime = node.lone.broker.groups.runtime
    runtime.resign(0)
    assert node.markers((7, 0, True), places=(GROUPS, T)) == {
        (7, GROUPS): ErrorCode.NOT_LEADER_OR_FOLLOWER,
        (7, T): NONE,
    }
