"""What an administrator asks of the logs themselves: to delete their first records, and what they take of the disks.

Follows org.apache.kafka.clients.admin.{DeleteRecordsResult,LogDirDescription,ReplicaInfo}.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pykraft.client.api_driver import ADMIN_CHANNEL, Answers, ApiDriver, ApiHandler, key_answer
from pykraft.client.lookups import BrokerStrategy
from pykraft.client.metadata import CHANNEL as METADATA_CHANNEL
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.logs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


class ReplicaInfo(NamedTuple):
    """A replica's log on a disk: its bytes, how far its end is behind the high watermark (-1 if not known), and whether
    it is still being made there."""

    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """A broker's log directory, or what is wrong with it; bytes of its volume are -1 if not known."""

    error: ErrorCode
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool = False
    """Whether it takes no new replicas (KIP-1066)."""


class LogCalls:
    """Each method asks one thing; `deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int, deadline: int
    ) -> "Promise[Answers[TopicPartition, int] | KafkaError]":
        """The low watermark of each partition, or why its records are not deleted."""

        def request(asked: Sequence[TopicPartition]) -> DeleteRecordsRequest:
            topics: dict[str, list[DeleteRecordsRequest.Topic.Partition]] = {}
            for key in asked:
                partition = DeleteRecordsRequest.Topic.Partition(partition_index=key.partition, offset=offsets[key])
                topics.setdefault(key.topic, []).append(partition)
            return DeleteRecordsRequest(
                topics=[DeleteRecordsRequest.Topic(name=name, partitions=parts) for name, parts in topics.items()],
                timeout_ms=timeout_ms,
            )

        handler = ApiHandler(
            what="the records of {} were not deleted everywhere",
            lookup=self._driver.leaders,
            request=request,
            read=_low_watermarks,
            channel=METADATA_CHANNEL,
        )
        return self._driver.ask_each(handler, offsets, deadline)

    def describe_log_dirs(
        self, brokers: Iterable[int], deadline: int
    ) -> "Promise[dict[int, dict[str, LogDirDescription]] | KafkaError]":
        """The log directories of these brokers, by path."""

        def read(
            asked: Sequence[int], response: DescribeLogDirsResponse
        ) -> Iterator[tuple[int, dict[str, LogDirDescription]]]:
            if response.error_code:
                raise KafkaError(ErrorCode.of(response.error_code))
            for broker in asked:
                yield broker, {result.log_dir: _described(result) for result in response.results}

        handler = ApiHandler(
            what="to describe log directories",
            lookup=BrokerStrategy(self._driver.metadata, lambda broker: broker),
            request=lambda asked: DescribeLogDirsRequest(),
            read=read,
            channel=ADMIN_CHANNEL,
        )
        return self._driver.ask_all(handler, sorted(brokers), deadline)

    def alter_replica_log_dirs(
        self, wanted: Mapping[int, Mapping[TopicPartition, str]], deadline: int
    ) -> "Promise[dict[int, dict[TopicPartition, ErrorCode]] | KafkaError]":
        """Let the replicas on these brokers be in these directories, by the broker's id; how each broker answers."""

        def request(asked: Sequence[int]) -> AlterReplicaLogDirsRequest:
            directory_type = AlterReplicaLogDirsRequest.Directory
            by_path: dict[str, dict[str, list[int]]] = {}
            for broker in asked:
                for key, path in sorted(wanted[broker].items()):
                    by_path.setdefault(path, {}).setdefault(key.topic, []).append(key.partition)
            return AlterReplicaLogDirsRequest(
                dirs=[
                    directory_type(
                        path=path,
                        topics=[directory_type.Topic(name=name, partitions=some) for name, some in topics.items()],
                    )
                    for path, topics in by_path.items()
                ]
            )

        def read(
            asked: Sequence[int], response: AlterReplicaLogDirsResponse
        ) -> Iterator[tuple[int, dict[TopicPartition, ErrorCode]]]:
            for broker in asked:
                yield (
                    broker,
                    {
                        TopicPartition(topic.topic_name, each.partition_index): ErrorCode.of(each.error_code)
                        for topic in response.results
                        for each in topic.partitions
                    },
                )

        handler = ApiHandler(
            what="to move replicas between log directories",
            lookup=BrokerStrategy(self._driver.metadata, lambda broker: broker),
            request=request,
            read=read,
            channel=ADMIN_CHANNEL,
        )
        return self._driver.ask_all(handler, sorted(wanted), deadline)


def _low_watermarks(
    asked: Sequence[TopicPartition], response: DeleteRecordsResponse
) -> Iterator[tuple[TopicPartition, int | KafkaError]]:
    for topic in response.topics:
        for answer in topic.partitions:
            yield key_answer(
                TopicPartition(topic.name, answer.partition_index), answer.error_code, answer.low_watermark
            )


def _described(result: DescribeLogDirsResponse.Result) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, partition.partition_index): ReplicaInfo(
            partition.partition_size, partition.offset_lag, partition.is_future_key
        )
        for topic in result.topics
        for partition in topic.partitions
    }
    error = ErrorCode.of(result.error_code)
    return LogDirDescription(error, replicas, result.total_bytes, result.usable_bytes, result.is_cordoned)
