"""Looking up offsets: where a log begins, where it ends, which record is the first at or after a moment.

The leader of each partition is asked (ListOffsets). A leader that has moved, or does not know yet how far its log is
committed, is asked again after a pause: see `api_driver`.

Follows org.apache.kafka.clients.consumer.internals.OffsetFetcher.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pykraft.client.api_driver import ApiDriver, ApiHandler, OnAnswer, key_answer
from pykraft.client.config import REQUEST_TIMEOUT_MS
from pykraft.client.metadata import CHANNEL
from pykraft.common.core import Promise
from pykraft.common.errors import KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import ListOffsetsRequest, ListOffsetsResponse


class OffsetAndTimestamp(NamedTuple):
    """A place in a log: -1 for an offset that is not there, and for a timestamp that was not asked for."""

    offset: int
    timestamp: int
    leader_epoch: int


Found = dict[TopicPartition, OffsetAndTimestamp]


class OffsetLookups:
    """Asks the leaders for offsets."""

    def __init__(self, config: Config, driver: ApiDriver) -> None:
        self._timeout_ms: int = config[REQUEST_TIMEOUT_MS]
        self._driver = driver

    def find(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int, deadline: int
    ) -> "Promise[Found | KafkaError]":
        """For each partition the offset at a timestamp (or at -1: the end, -2: the start); the first error if there is
        one."""
        handler = self._handler(timestamps, isolation_level)
        return self._driver.ask_all(handler, timestamps, deadline)

    def find_each(
        self,
        timestamps: Mapping[TopicPartition, int],
        isolation_level: int,
        deadline: int,
        on_found: OnAnswer[TopicPartition, OffsetAndTimestamp],
    ) -> None:
        """The same, but `on_found` is called for each partition alone: one without a leader holds up no other."""
        handler = self._handler(timestamps, isolation_level)
        self._driver.ask_each(handler, timestamps, deadline, on_found)

    def _handler(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int
    ) -> ApiHandler[TopicPartition, OffsetAndTimestamp]:
        def request(asked: Sequence[TopicPartition]) -> ListOffsetsRequest:
            topics: dict[str, list[ListOffsetsRequest.Topic.Partition]] = {}
            for key in asked:
                partition = ListOffsetsRequest.Topic.Partition(
                    partition_index=key.partition,
                    current_leader_epoch=self._driver.metadata.leader_epoch(key),
                    timestamp=timestamps[key],
                )
                topics.setdefault(key.topic, []).append(partition)
            return ListOffsetsRequest(
                isolation_level=isolation_level,
                topics=[ListOffsetsRequest.Topic(name=name, partitions=parts) for name, parts in topics.items()],
                timeout_ms=self._timeout_ms,
            )

        return ApiHandler(
            what="the offsets of {} were not found",
            lookup=self._driver.leaders,
            request=request,
            read=_read,
            channel=CHANNEL,
        )


def _read(
    asked: Sequence[TopicPartition], response: ListOffsetsResponse
) -> Iterator[tuple[TopicPartition, OffsetAndTimestamp | KafkaError]]:
    for topic in response.topics:
        for answer in topic.partitions:
            found = OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)
            yield key_answer(TopicPartition(topic.name, answer.partition_index), answer.error_code, found)
