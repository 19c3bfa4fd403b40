"""What an administrator asks about reassignments: to move replicas, to cancel that, and which partitions are moving.

Any broker is asked, which passes it on to the controller (KIP-455). A target is the brokers that are to hold a
partition, the preferred leader first; None cancels. The answer means that the reassignment has begun. It has ended when
the partition is no longer listed.

Follows org.apache.kafka.clients.admin.{KafkaAdminClient,NewPartitionReassignment,PartitionReassignment}.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pykraft.client.administration.group_offsets import PartitionErrors
from pykraft.client.api_driver import ApiDriver
from pykraft.client.arguments import LARGEST_INT32, whole_number
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition, by_topic
from pykraft.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


class PartitionReassignment(NamedTuple):
    """A partition that is being reassigned. `replicas` has all that hold or fetch it at the moment; those that are
    added and removed are among them."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


Targets = Mapping[TopicPartition, Sequence[int] | None]


def target_replicas(brokers: Any) -> list[int] | None:
    """The brokers of a target. TypeError or ValueError unless they are ids, or None."""
    if brokers is None:
        return None
    if isinstance(brokers, (str, bytes)) or not isinstance(brokers, Sequence):
        raise TypeError(f"the replicas of a partition are a list of broker ids, or None to cancel, not {brokers!r}")
    return [whole_number("the id of a broker", broker, LARGEST_INT32) for broker in brokers]


class ReassignmentCalls:
    """Each method asks one thing; `deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver

    def alter_partition_reassignments(
        self, targets: Targets, allow_replication_factor_change: bool, timeout_ms: int, deadline: int
    ) -> "Promise[PartitionErrors | KafkaError]":
        """What became of each partition."""
        topic_type = AlterPartitionReassignmentsRequest.Topic
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=[
                topic_type(
                    name=topic,
                    partitions=[
                        topic_type.Partition(
                            partition_index=number, replicas=target_replicas(targets[TopicPartition(topic, number)])
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(targets).items()
            ],
        )

        def read(response: AlterPartitionReassignmentsResponse) -> PartitionErrors:
            _check(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, answer.partition_index): _error(answer)
                for topic in response.responses
                for answer in topic.partitions
            }

        return self._driver.ask_any("to reassign partitions", request, read, deadline)

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None, timeout_ms: int, deadline: int
    ) -> "Promise[dict[TopicPartition, PartitionReassignment] | KafkaError]":
        """Those of these partitions, or of all, that are being reassigned."""
        topic_type = ListPartitionReassignmentsRequest.Topic
        named = None if partitions is None else by_topic(partitions)
        request = ListPartitionReassignmentsRequest(
            timeout_ms=timeout_ms,
            topics=None
            if named is None
            else [topic_type(name=topic, partition_indexes=numbers) for topic, numbers in named.items()],
        )

        def read(response: ListPartitionReassignmentsResponse) -> dict[TopicPartition, PartitionReassignment]:
            _check(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                    tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
                )
                for topic in response.topics
                for each in topic.partitions
            }

        return self._driver.ask_any("to list reassignments", request, read, deadline)


def _check(code: int, message: str | None) -> None:
    if code:
        raise KafkaError(ErrorCode.of(code), message or "")


def _error(answer: AlterPartitionReassignmentsResponse.Topic.Partition) -> KafkaError | None:
    return KafkaError(ErrorCode.of(answer.error_code), answer.error_message or "") if answer.error_code else None
