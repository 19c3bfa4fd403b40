"""Looking up offsets: where a log begins, where it ends, which record is the first at or after a moment.

The leader of each partition is asked (ListOffsets), all partitions of one leader in one request. A leader that has
moved, or does not know yet how far its log is committed, is asked again after a pause.

Follows org.apache.kafka.clients.consumer.internals.OffsetFetcher.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

from pykraft.client.config import REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from pykraft.client.errors import ClientTimeoutError
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.config import Config
from pykraft.common.core import FOREVER, Failure, Outbound, Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.timer import Backoff
from pykraft.common.types import Node, TopicPartition
from pykraft.protocol.messages.data import ListOffsetsRequest, ListOffsetsResponse

CHANNEL = "metadata"


class OffsetAndTimestamp(NamedTuple):
    """A place in a log: -1 for an offset that is not there, and for a timestamp that was not asked for."""

    offset: int
    timestamp: int
    leader_epoch: int


Found = Mapping[TopicPartition, OffsetAndTimestamp]


class _Lookup:
    """What one caller wants to know."""

    def __init__(self, timestamps: Mapping[TopicPartition, int], isolation_level: int, deadline: int) -> None:
        self.timestamps = timestamps
        self.isolation_level = isolation_level
        self.deadline = deadline
        self.promise: Promise[Found | KafkaError] = Promise()
        self.open = set(timestamps)
        self.under_way: set[TopicPartition] = set()
        self.found: dict[TopicPartition, OffsetAndTimestamp] = {}
        self.attempts = 0
        self.not_before = 0
        self.obstacle = "no leader is known"


class OffsetLookups:
    """Asks the leaders. It is a RequestManager."""

    def __init__(self, config: Config, metadata: ClusterMetadata, random: Random) -> None:
        self._config = config
        self._metadata = metadata
        self._backoff = Backoff(random, config[RETRY_BACKOFF_MS], config[RETRY_BACKOFF_MAX_MS])
        self._lookups: list[_Lookup] = []

    def find(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int, deadline: int
    ) -> "Promise[Found | KafkaError]":
        """For each partition the offset at a timestamp (or at -1: the end, -2: the start), or why it cannot be had."""
        lookup = _Lookup(timestamps, isolation_level, deadline)
        for topic_partition in timestamps:
            self._metadata.add_topic(topic_partition.topic)
        if lookup.open:
            self._lookups.append(lookup)
        else:
            lookup.promise.keep({})
        return lookup.promise

    def poll(self, now: int) -> Poll:
        """Ask what is not under way; give up what is late."""
        requests: list[Outbound] = []
        deadline = FOREVER
        for lookup in list(self._lookups):
            if now >= lookup.deadline:
                what = ", ".join(str(key) for key in sorted(lookup.open)[:5])
                self._finish(lookup, ClientTimeoutError(f"the offsets of {what} were not found: {lookup.obstacle}"))
                continue
            deadline = min(deadline, lookup.deadline)
            if now < lookup.not_before:
                deadline = min(deadline, lookup.not_before)
            else:
                requests += self._requests(lookup)
        return Poll(deadline, requests)

    def _requests(self, lookup: _Lookup) -> list[Outbound]:
        by_node: dict[Node, list[TopicPartition]] = {}
        for topic_partition in sorted(lookup.open - lookup.under_way):
            node = self._metadata.leader_of(topic_partition)
            if node is None:
                self._metadata.request_update()
            else:
                by_node.setdefault(node, []).append(topic_partition)
        return [self._request(lookup, node, keys) for node, keys in by_node.items()]

    def _request(self, lookup: _Lookup, node: Node, asked: list[TopicPartition]) -> Outbound:
        lookup.under_way.update(asked)
        topics: dict[str, list[ListOffsetsRequest.Topic.Partition]] = {}
        for key in asked:
            partition = ListOffsetsRequest.Topic.Partition(
                partition_index=key.partition,
                current_leader_epoch=self._metadata.leader_epoch(key),
                timestamp=lookup.timestamps[key],
            )
            topics.setdefault(key.topic, []).append(partition)
        request = ListOffsetsRequest(
            isolation_level=lookup.isolation_level,
            topics=[ListOffsetsRequest.Topic(name=name, partitions=parts) for name, parts in topics.items()],
            timeout_ms=self._config[REQUEST_TIMEOUT_MS],
        )

        def on_response(response: Any, now: int) -> None:
            lookup.under_way.difference_update(asked)
            if not lookup.promise.kept:
                self._on_response(lookup, response, now)

        return Outbound(CHANNEL, node, request, on_response, self._config[REQUEST_TIMEOUT_MS])

    def _on_response(self, lookup: _Lookup, response: Any, now: int) -> None:
        if response is Failure.UNSUPPORTED_VERSION:
            self._finish(lookup, KafkaError(ErrorCode.UNSUPPORTED_VERSION, "a broker does not speak ListOffsets"))
            return
        if not isinstance(response, ListOffsetsResponse):
            self._ask_again(lookup, f"a broker did not answer ({response.value})", now)
            return
        for topic in response.topics:
            for answer in topic.partitions:
                key = TopicPartition(topic.name, answer.partition_index)
                error = ErrorCode.of(answer.error_code)
                if error is ErrorCode.NONE:
                    found = OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)
                    lookup.found[key] = found
                    lookup.open.discard(key)
                elif error.retriable:
                    self._ask_again(lookup, f"{key}: {error.text}", now)
                else:
                    self._finish(lookup, KafkaError(error, f"{key}: {error.text}"))
                    return
        if not lookup.open:
            self._finish(lookup, lookup.found)

    def _ask_again(self, lookup: _Lookup, obstacle: str, now: int) -> None:
        lookup.obstacle = obstacle
        lookup.not_before = now + self._backoff.pause_ms(lookup.attempts)
        lookup.attempts += 1
        self._metadata.request_update()

    def _finish(self, lookup: _Lookup, result: Found | KafkaError) -> None:
        self._lookups.remove(lookup)
        lookup.promise.keep(result)
