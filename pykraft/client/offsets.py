"""Looking up offsets: where a log begins, where it ends, which record is the first at or after a moment.

The leader of each partition is asked (ListOffsets). A leader that has moved, or does not know yet how far its log is
committed, is asked again after a pause: see `leader_calls`.

Follows org.apache.kafka.clients.consumer.internals.OffsetFetcher.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from pykraft.client.config import REQUEST_TIMEOUT_MS
from pykraft.client.leader_calls import CHANNEL, LeaderAnswer, LeaderCalls, OnAnswer, Question
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.config import Config
from pykraft.common.core import Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import ListOffsetsRequest, ListOffsetsResponse

__all__ = ["CHANNEL", "Found", "OffsetAndTimestamp", "OffsetLookups"]


class OffsetAndTimestamp(NamedTuple):
    """A place in a log: -1 for an offset that is not there, and for a timestamp that was not asked for."""

    offset: int
    timestamp: int
    leader_epoch: int


Found = Mapping[TopicPartition, OffsetAndTimestamp]


class OffsetLookups:
    """Asks the leaders. It is a RequestManager."""

    def __init__(self, config: Config, metadata: ClusterMetadata, random: Random) -> None:
        self._timeout_ms: int = config[REQUEST_TIMEOUT_MS]
        self._metadata = metadata
        self._calls = LeaderCalls(config, metadata, random)

    def find(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int, deadline: int
    ) -> "Promise[Found | KafkaError]":
        """For each partition the offset at a timestamp (or at -1: the end, -2: the start); the first error if there is
        one."""
        question = self._question(timestamps, isolation_level, is_whole=True)
        return self._calls.ask(question, timestamps, deadline)  # type: ignore[return-value]  # as a whole: no errors

    def find_each(
        self,
        timestamps: Mapping[TopicPartition, int],
        isolation_level: int,
        deadline: int,
        on_found: OnAnswer[OffsetAndTimestamp],
    ) -> None:
        """The same, but each partition is told alone: one without a leader holds up no other."""
        question = self._question(timestamps, isolation_level, is_whole=False)
        self._calls.ask(question, timestamps, deadline, on_found)

    def _question(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int, is_whole: bool
    ) -> Question[OffsetAndTimestamp]:
        def request(asked: Sequence[TopicPartition]) -> ListOffsetsRequest:
            topics: dict[str, list[ListOffsetsRequest.Topic.Partition]] = {}
            for key in asked:
                partition = ListOffsetsRequest.Topic.Partition(
                    partition_index=key.partition,
                    current_leader_epoch=self._metadata.leader_epoch(key),
                    timestamp=timestamps[key],
                )
                topics.setdefault(key.topic, []).append(partition)
            return ListOffsetsRequest(
                isolation_level=isolation_level,
                topics=[ListOffsetsRequest.Topic(name=name, partitions=parts) for name, parts in topics.items()],
                timeout_ms=self._timeout_ms,
            )

        return Question(
            api="ListOffsets",
            too_late="the offsets of {} were not found",
            request=request,
            read=_read,
            is_whole=is_whole,
        )

    def poll(self, now: int) -> Poll:
        """Ask what is not under way; give up what is late."""
        return self._calls.poll(now)


def _read(response: ListOffsetsResponse) -> Iterator[LeaderAnswer[OffsetAndTimestamp]]:
    for topic in response.topics:
        for answer in topic.partitions:
            found = OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)
            key = TopicPartition(topic.name, answer.partition_index)
            yield LeaderAnswer(key, ErrorCode.of(answer.error_code), found)
