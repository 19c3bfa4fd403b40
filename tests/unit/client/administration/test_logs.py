"""What an administrator asks of the logs: each leader once, refusals partition by partition, each broker its disk."""

from __future__ import annotations

from random import Random

from pykraft.client.administration.logs import LogCalls
from pykraft.client.api_driver import ApiDriver
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.logs import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tests.harness.scripted import Script, knowing, settings

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def asking() -> tuple[LogCalls, Script]:
    config = settings("admin")
    metadata = knowing(config, {"t": [(1, 0), (2, 0)]})
    driver = ApiDriver(config, metadata, Random(1))
    return LogCalls(driver), Script(driver)


def deleted(partition: int, low_watermark: int = -1, error: ErrorCode = ErrorCode.NONE) -> DeleteRecordsResponse:
    topic = DeleteRecordsResponse.Topic
    answer = topic.Partition(partition_index=partition, low_watermark=low_watermark, error_code=error)
    return DeleteRecordsResponse(topics=[topic(name="t", partitions=[answer])])


def test_each_leader_is_asked_for_its_partitions_and_refusals_stand_beside_answers() -> None:
    ask, script = asking()
    promise = ask.delete_records({ZERO: 5, ONE: -1}, 500, 60_000)
    asked = [
        (outbound.destination.id, partition.partition_index, partition.offset, outbound.request.timeout_ms)
        for outbound in script.poll()
        for topic in outbound.request.topics
        for partition in topic.partitions
    ]
    assert asked == [(1, 0, 5, 500), (2, 1, -1, 500)]
    script.answer(DeleteRecordsRequest, deleted(0, 5))
    assert not promise.kept
    script.answer(DeleteRecordsRequest, deleted(1, error=ErrorCode.POLICY_VIOLATION))
    found = promise.value
    assert not isinstance(found, KafkaError) and found[ZERO] == 5
    refused = found[ONE]
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.POLICY_VIOLATION


def test_what_is_not_answered_in_time_is_said_partition_by_partition() -> None:
    ask, script = asking()
    promise = ask.delete_records({ZERO: 5, ONE: 5}, 500, 2000)
    script.poll()
    script.answer(DeleteRecordsRequest, deleted(0, 5))
    script.answer(DeleteRecordsRequest, deleted(1, 0, ErrorCode.REQUEST_TIMED_OUT))
    script.poll(3000)
    found = promise.value
    assert not isinstance(found, KafkaError) and found[ZERO] == 5
    assert "the records of t-1 were not deleted everywhere: t-1: " in str(found[ONE])


def test_each_broker_is_asked_about_its_own_disk() -> None:
    ask, script = asking()
    promise = ask.describe_log_dirs([2, 1], 60_000)
    assert [outbound.destination.id for outbound in script.poll()] == [1, 2]
    result = DescribeLogDirsResponse.Result
    part = result.Topic.Partition(partition_index=1, partition_size=83, offset_lag=0)
    for path in ("/one", "/two"):
        topics = [result.Topic(name="t", partitions=[part])]
        script.answer(
            DescribeLogDirsRequest,
            DescribeLogDirsResponse(results=[result(log_dir=path, topics=topics, total_bytes=9, usable_bytes=4)]),
        )
    found = promise.value
    assert not isinstance(found, KafkaError)
    described = found[2]["/two"]
    assert (described.error, described.total_bytes, described.usable_bytes) == (ErrorCode.NONE, 9, 4)
    assert described.replicas == {ONE: (83, 0, False)} and list(found[1]) == ["/one"]
