"""What an administrator asks of the committed offsets of groups: to list, alter and delete them.

The group's coordinator is asked. OffsetFetch takes all groups of one coordinator from version 8 on (KIP-709); before
that one, so the request has both forms, and the driver asks for the other groups later.

Offsets are altered and deleted under the group's name, without being a member; a coordinator refuses that while
members are active. Topics go by name, so OffsetCommit and OffsetFetch stay below version 10.

Follows org.apache.kafka.clients.admin.internals.{ListConsumerGroupOffsetsHandler,AlterConsumerGroupOffsetsHandler,
DeleteConsumerGroupOffsetsHandler}.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pykraft.client.api_driver import Answers, ApiDriver, ApiHandler, Read, converted, key_answer
from pykraft.client.consuming.commits import OffsetAndMetadata
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition, by_topic
from pykraft.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pykraft.protocol.schema import Request

CHANNEL = "groups"
_BY_NAME = 9
"""The newest version of OffsetCommit and OffsetFetch in which topics have names."""

T = TypeVar("T")
V = TypeVar("V")


CommittedOffsets = dict[TopicPartition, OffsetAndMetadata | None]
"""A group's offsets; None where it has committed none."""
PartitionErrors = dict[TopicPartition, KafkaError | None]
"""What became of each partition; None where all went well."""


def coordinator_handler(
    driver: ApiDriver, what: str, request: Callable[[Sequence[str]], Request], read: Read[str, V]
) -> ApiHandler[str, V]:
    """How the coordinators of groups are asked; `what` says it in words, with "{}" for the groups."""
    return ApiHandler(what=what, lookup=driver.group_coordinators, request=request, read=read, channel=CHANNEL)


def ask_coordinator(
    driver: ApiDriver, handler: ApiHandler[str, V], group_id: str, deadline: int
) -> "Promise[V | KafkaError]":
    """The answer for one group."""
    return converted(driver.ask_all(handler, [group_id], deadline), lambda found: found[group_id])


class GroupOffsetCalls:
    """Each method asks one thing; `deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver

    def list_consumer_group_offsets(
        self, groups: Mapping[str, Collection[TopicPartition] | None], require_stable: bool, deadline: int
    ) -> "Promise[Answers[str, CommittedOffsets] | KafkaError]":
        """Each group's offsets in these partitions, or (None) in all that it has committed any for. With
        `require_stable` a partition whose offset an open transaction changes is asked for again until that has
        ended."""

        def request(asked: Sequence[str]) -> OffsetFetchRequest:
            group_type = OffsetFetchRequest.Group
            return OffsetFetchRequest(
                group_id=asked[0],  # up to version 7 there is room for one group: the driver asks for the others later
                topics=_fetched(OffsetFetchRequest.Topic, groups[asked[0]]),
                groups=[
                    group_type(group_id=group, topics=_fetched(group_type.Topic, groups[group])) for group in asked
                ],
                require_stable=require_stable,
            ).at_most(_BY_NAME)

        handler = coordinator_handler(
            self._driver, "the offsets of the groups {} were not found", request, _committed_offsets
        )
        return self._driver.ask_each(handler, groups, deadline)

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: int
    ) -> "Promise[PartitionErrors | KafkaError]":
        """Commit these offsets for a group without active members, which is made if there is none."""
        topic_type = OffsetCommitRequest.Topic
        topics: dict[str, list[OffsetCommitRequest.Topic.Partition]] = {}
        for (topic, number), place in offsets.items():
            partition = topic_type.Partition(
                partition_index=number,
                committed_offset=place.offset,
                committed_leader_epoch=place.leader_epoch,
                committed_metadata=place.metadata,
            )
            topics.setdefault(topic, []).append(partition)
        request = OffsetCommitRequest(
            group_id=group_id, topics=[topic_type(name=name, partitions=parts) for name, parts in topics.items()]
        ).at_most(_BY_NAME)
        handler = coordinator_handler(
            self._driver, "the offsets of {} were not altered", lambda asked: request, _partition_errors
        )
        return ask_coordinator(self._driver, handler, group_id, deadline)

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], deadline: int
    ) -> "Promise[PartitionErrors | KafkaError]":
        """Forget the group's offsets in these partitions; a topic that the group reads is refused."""
        topic_type = OffsetDeleteRequest.Topic
        topics: dict[str, list[OffsetDeleteRequest.Topic.Partition]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(topic_type.Partition(partition_index=number))
        request = OffsetDeleteRequest(
            group_id=group_id, topics=[topic_type(name=name, partitions=parts) for name, parts in topics.items()]
        )
        handler = coordinator_handler(
            self._driver, "the offsets of {} were not deleted", lambda asked: request, _partition_errors
        )
        return ask_coordinator(self._driver, handler, group_id, deadline)


def _fetched(make: Callable[..., T], partitions: Collection[TopicPartition] | None) -> list[T] | None:
    if partitions is None:
        return None
    topics = by_topic(partitions)
    return [make(name=name, partition_indexes=numbers) for name, numbers in topics.items()]


def _committed_offsets(
    asked: Sequence[str], response: OffsetFetchResponse
) -> Iterator[tuple[str, CommittedOffsets | KafkaError]]:
    if not response.groups:  # versions 1 to 7
        yield asked[0], _offsets_of(asked[0], response)
    for group in response.groups:
        yield group.group_id, _offsets_of(group.group_id, group)


def _offsets_of(
    group_id: str, response: OffsetFetchResponse | OffsetFetchResponse.Group
) -> CommittedOffsets | KafkaError:
    found: CommittedOffsets = {}
    codes = [response.error_code]
    for topic in response.topics:
        for partition in topic.partitions:
            codes.append(partition.error_code)
            place = OffsetAndMetadata(
                partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
            )
            found[TopicPartition(topic.name, partition.partition_index)] = None if place.offset < 0 else place
    error = next((ErrorCode.of(code) for code in codes if code), ErrorCode.NONE)
    return found if error is ErrorCode.NONE else KafkaError(error, f"{group_id}: {error.text}")


_TRY_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
"""Errors of partitions that are the whole group's: the request is sent again. The others are answers."""


class _PassingError(KafkaError):
    """An error that time may heal, whatever its code says to others."""

    @property
    def retriable(self) -> bool:
        return True


def _partition_errors(asked: Sequence[str], response: Any) -> Iterator[tuple[str, PartitionErrors | KafkaError]]:
    """OffsetCommit and OffsetDelete say alike what became of each partition."""
    assert isinstance(response, OffsetCommitResponse | OffsetDeleteResponse)
    (group_id,) = asked
    if isinstance(response, OffsetDeleteResponse) and response.error_code:
        error = ErrorCode.of(response.error_code)
        yield group_id, KafkaError(error, f"{group_id}: {error.text}")
        return
    found: PartitionErrors = {}
    for topic in response.topics:
        for partition in topic.partitions:
            key, answer = key_answer(TopicPartition(topic.name, partition.partition_index), partition.error_code, None)
            found[key] = answer
    passing = [error for error in found.values() if error is not None and error.code in _TRY_AGAIN]
    if passing:
        yield group_id, _PassingError(passing[0].code, f"{group_id}: {passing[0].code.text}")
    else:
        yield group_id, found
