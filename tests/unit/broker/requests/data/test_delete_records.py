"""A whole node in virtual time: records are deleted, the followers come after, and its log directory is described."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker.requests.dispatch import Answer
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP, ListOffsetsRequest
from pykraft.protocol.messages.logs import HIGH_WATERMARK, DeleteRecordsRequest, DescribeLogDirsRequest
from tests.harness.lone_node import LoneNode
from tests.harness.storage import batch

PARTITION = TopicPartition("t", 0)


def delete(node: LoneNode, offset: int, topic: str = "t", partition: int = 0, timeout_ms: int = 500) -> Promise[Answer]:
    topic_type = DeleteRecordsRequest.Topic
    asked = topic_type.Partition(partition_index=partition, offset=offset)
    return node.handle(DeleteRecordsRequest(topics=[topic_type(name=topic, partitions=[asked])], timeout_ms=timeout_ms))


def said(answer: Promise[Answer]) -> tuple[ErrorCode, int]:
    """(error, low watermark)."""
    response: Any = answer.value.response
    (topic,) = response.topics
    (partition,) = topic.partitions
    return ErrorCode.of(partition.error_code), partition.low_watermark


def filled(**configs: str) -> tuple[LoneNode, Uuid]:
    """Ten records in five batches, on one replica."""
    node = LoneNode()
    topic_id = node.create(**configs)
    for _ in range(5):
        node.produce(topic_id, batch(2, key=b"k").buffer)
    node.run()
    return node, topic_id


def first_error(answer: Promise[Answer]) -> ErrorCode:
    response: Any = answer.value.response
    return ErrorCode.of(response.responses[0].partitions[0].error_code)


def test_what_lies_before_the_offset_is_out_of_range_at_once() -> None:
    node, topic_id = filled()
    assert said(delete(node, 3)) == (ErrorCode.NONE, 3)
    assert first_error(node.fetch(topic_id, 2)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert first_error(node.fetch(topic_id, 3)) is ErrorCode.NONE
    topic = ListOffsetsRequest.Topic
    asked = topic.Partition(partition_index=0, timestamp=EARLIEST_TIMESTAMP)
    found = node.ask(ListOffsetsRequest(topics=[topic(name="t", partitions=[asked])]))
    assert found.topics[0].partitions[0].offset == 3


def test_minus_one_is_the_high_watermark_and_less_changes_nothing() -> None:
    node, _ = filled()
    assert said(delete(node, HIGH_WATERMARK)) == (ErrorCode.NONE, 10)
    assert said(delete(node, 4)) == (ErrorCode.NONE, 10)


@pytest.mark.parametrize(
    ("offset", "topic", "partition", "configs", "error"),
    [
        (11, "t", 0, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, "t", 0, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, "t", 0, {"cleanup_policy": "compact"}, ErrorCode.POLICY_VIOLATION),
        (1, "t", 0, {"cleanup_policy": "compact,delete"}, ErrorCode.NONE),
        (1, "t", 1, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, "u", 0, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, "__consumer_offsets", 0, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_may_not_be_deleted(
    offset: int, topic: str, partition: int, configs: dict[str, str], error: ErrorCode
) -> None:
    node, _ = filled(**configs)
    found, low_watermark = said(delete(node, offset, topic, partition))
    assert found is error and (error is ErrorCode.NONE or low_watermark == -1)


def test_a_follower_is_waited_for_while_it_lives() -> None:
    node = LoneNode(broker_session_timeout_ms="60000", replica_lag_time_max_ms="1000")
    node.join(2)
    topic_id = node.create(replicas=(1, 2))
    node.produce(topic_id, batch(4).buffer, acks=1)
    node.fetch(topic_id, 4, follower=2, log_start=0)
    waiting = delete(node, 3, timeout_ms=5000)
    assert not waiting.kept
    node.fetch(topic_id, 4, follower=2, log_start=0)
    assert not waiting.kept
    assert (
        node.fetch(topic_id, 4, follower=2, log_start=3)
        .value.response.responses[0]
        .partitions[  # type: ignore[union-attr]
            0
        ]
        .log_start_offset
        == 3
    )
    assert said(waiting) == (ErrorCode.NONE, 3)


def test_a_follower_that_does_not_come_after_is_waited_for_until_the_time_is_up() -> None:
    node = LoneNode(broker_session_timeout_ms="60000")
    node.join(2)
    topic_id = node.create(replicas=(1, 2))
    node.produce(topic_id, batch(4).buffer, acks=1)
    node.fetch(topic_id, 4, follower=2, log_start=0)
    waiting = delete(node, 3, timeout_ms=300)
    node.run(200)
    assert not waiting.kept
    node.run(200)
    assert said(waiting) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert node.broker.logs.logs[PARTITION].log_start_offset == 3, "deleted all the same"


def test_a_follower_that_is_fenced_is_not_waited_for() -> None:
    node = LoneNode(broker_session_timeout_ms="9000")
    node.join(2)
    topic_id = node.create(replicas=(1, 2))
    node.produce(topic_id, batch(4).buffer, acks=1)
    node.fetch(topic_id, 4, follower=2, log_start=0)
    waiting = delete(node, 3, timeout_ms=30_000)
    assert not waiting.kept
    node.run(12_000)
    assert said(waiting) == (ErrorCode.NONE, 3)


def test_what_was_deleted_stays_deleted_after_a_crash_and_goes_with_its_segments() -> None:
    node = LoneNode(log_retention_check_interval_ms="1000", log_initial_task_delay_ms="1000")
    topic_id = node.create(internal_segment_bytes="200", file_delete_delay_ms="0")
    for _ in range(9):
        node.produce(topic_id, batch(2, key=b"k").buffer)
    node.run()
    assert said(delete(node, 7)) == (ErrorCode.NONE, 7)
    node.filesystem.crash_process()
    again = LoneNode(node.filesystem, log_retention_check_interval_ms="1000", log_initial_task_delay_ms="1000")
    log = again.broker.logs.logs[PARTITION]
    assert (log.log_start_offset, log.log_end_offset) == (7, 18)
    again.run(12_000)  # it may register when the session of its life before is over
    assert 0 < log.segments[0].base_offset <= 7
    assert min(name for name in again.filesystem.list(log.directory) if name.endswith(".log")) > "0" * 20 + ".log"


# --- what lies on the disk --------------------------------------------------------------------------------------------


def described(node: LoneNode, topics: Any = None) -> Any:
    (result,) = node.ask(DescribeLogDirsRequest(topics=topics)).results
    return result


def test_a_log_directory_is_described() -> None:
    node, _ = filled()
    result = described(node)
    assert (result.log_dir, result.error_code) == ("/data", 0)
    assert result.total_bytes > result.usable_bytes > 0
    (topic,) = result.topics
    (partition,) = topic.partitions
    log = node.broker.logs.logs[PARTITION]
    assert (topic.name, partition.partition_index, partition.partition_size) == ("t", 0, log.size)
    assert (partition.offset_lag, partition.is_future_key) == (0, False)


def test_only_what_is_asked_for_is_described() -> None:
    node, _ = filled()
    topic_type = DescribeLogDirsRequest.Topic
    for topics, found in (
        ([], []),
        ([topic_type(topic="t", partitions=[0, 1])], ["t"]),
        ([topic_type(topic="t", partitions=[1])], []),
        ([topic_type(topic="u", partitions=[0])], []),
    ):
        assert [topic.name for topic in described(node, topics).topics] == found
