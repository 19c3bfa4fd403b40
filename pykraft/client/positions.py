"""Making sure that each partition of a consumer has a position, and that the position is right.

A partition without a position gets one from the log's start, its end, or a moment in between (ListOffsets). A position
that was read under an older leader is compared with the new leader's log (OffsetForLeaderEpoch, KIP-320): the consumer
says of which epoch its last record was, and the leader answers where that epoch ends in its own log. If that is before
the position, records that the consumer has read do not exist any more.

Follows org.apache.kafka.clients.consumer.internals.{OffsetFetcher,OffsetsForLeaderEpochClient}.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from pykraft.client.config import DEFAULT_API_TIMEOUT_MS, REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MS
from pykraft.client.errors import LogTruncationError, NoOffsetError
from pykraft.client.metadata import ClusterMetadata
from pykraft.client.offsets import CHANNEL, OffsetAndTimestamp, OffsetLookups
from pykraft.client.subscription import FetchPosition, PartitionState, State, SubscriptionState
from pykraft.common.config import Config
from pykraft.common.core import FOREVER, Failure, Outbound, Poll
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Node, TopicPartition
from pykraft.protocol.messages.data import (
    LATEST_TIMESTAMP,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

CONSUMER_REPLICA_ID = -1


class Positions:
    """Looks up and checks positions. It is a RequestManager."""

    def __init__(
        self,
        config: Config,
        metadata: ClusterMetadata,
        subscription: SubscriptionState,
        lookups: OffsetLookups,
        isolation_level: int,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._subscription = subscription
        self._lookups = lookups
        self._isolation_level = isolation_level
        self._under_way: set[TopicPartition] = set()
        self._not_before = 0
        self._errors: deque[KafkaError] = deque()

    def poll(self, now: int) -> Poll:
        """Begin what is needed and not under way."""
        self._reset(now)
        by_node: dict[Node, list[TopicPartition]] = {}
        for key, state in self._subscription.partitions.items():
            state.check(self._metadata.leader_epoch(key))
            if state.state is State.AWAITING_VALIDATION and key not in self._under_way:
                node = self._metadata.leader_of(key)
                if node is None:
                    self._metadata.request_update()
                elif now >= self._not_before:
                    by_node.setdefault(node, []).append(key)
        waiting = self._not_before if now < self._not_before else FOREVER
        return Poll(waiting, [self._request(node, keys) for node, keys in by_node.items()])

    # --- positions that are missing -----------------------------------------------------------------------------------

    def _reset(self, now: int) -> None:
        timestamps = {}
        for key, state in self._subscription.partitions.items():
            if state.state is not State.AWAITING_RESET or key in self._under_way:
                continue
            if state.reset_timestamp is not None:
                self._under_way.add(key)
                timestamps[key] = state.reset_timestamp
        if timestamps:
            self._lookups.find_each(
                timestamps,
                self._isolation_level,
                now + self._config[DEFAULT_API_TIMEOUT_MS],
                lambda key, found: self._on_found(key, timestamps[key], found),
            )

    def _on_found(self, key: TopicPartition, timestamp: int, found: OffsetAndTimestamp | KafkaError) -> None:
        self._under_way.discard(key)
        state = self._subscription.partitions.get(key)
        if state is None or state.state is not State.AWAITING_RESET or state.reset_timestamp != timestamp:
            return  # meanwhile it was given up, or somebody has said where to read
        if isinstance(found, KafkaError):
            if found not in self._errors:  # one error may be that of many partitions
                self._errors.append(found)
        elif found.offset < 0:
            state.reset(LATEST_TIMESTAMP)  # no record is that young: from the end on
        else:
            state.seek(FetchPosition(found.offset, found.leader_epoch), found.leader_epoch)

    @property
    def has_error(self) -> bool:
        """There is something for `raise_error` to tell."""
        return bool(self._errors) or any(state.is_lost for state in self._subscription.partitions.values())

    def raise_error(self) -> None:
        """Tell what the consumer's user must know; NoOffsetError for as long as nobody says where to read."""
        if self._errors:
            raise self._errors.popleft()
        for key, state in self._subscription.partitions.items():
            if state.is_lost:
                raise NoOffsetError(key)

    def forget(self, topic_partition: TopicPartition) -> None:
        """The partition was sought, or is not read any more: what was missing is not."""
        self._under_way.discard(topic_partition)

    # --- positions that are in doubt ----------------------------------------------------------------------------------

    def _request(self, node: Node, asked: Sequence[TopicPartition]) -> Outbound:
        self._under_way.update(asked)
        before = {key: self._subscription.partitions[key].position for key in asked}
        topics: dict[str, list[OffsetForLeaderEpochRequest.Topic.Partition]] = {}
        epochs = {}
        for key in asked:
            position = before[key]
            assert position is not None
            epochs[key] = self._metadata.leader_epoch(key)
            partition = OffsetForLeaderEpochRequest.Topic.Partition(
                partition=key.partition, current_leader_epoch=epochs[key], leader_epoch=position.offset_epoch
            )
            topics.setdefault(key.topic, []).append(partition)
        request = OffsetForLeaderEpochRequest(
            replica_id=CONSUMER_REPLICA_ID,
            topics=[OffsetForLeaderEpochRequest.Topic(topic=name, partitions=parts) for name, parts in topics.items()],
        )

        def on_response(response: Any, now: int) -> None:
            self._under_way.difference_update(asked)
            if response is Failure.UNSUPPORTED_VERSION:  # an old broker: nothing can be said
                for key in asked:
                    state = self._subscription.partitions.get(key)
                    if state is not None and state.state is State.AWAITING_VALIDATION:
                        state.complete_check(epochs[key])
                return
            if not isinstance(response, OffsetForLeaderEpochResponse):
                self._try_later(now)
                return
            for topic in response.topics:
                for answer in topic.partitions:
                    key = TopicPartition(topic.topic, answer.partition)
                    state = self._subscription.partitions.get(key)
                    is_asked = state is not None and state.state is State.AWAITING_VALIDATION
                    if is_asked and state is not None and state.position == before.get(key):
                        self._on_answer(key, state, epochs[key], answer, now)

        return Outbound(CHANNEL, node, request, on_response, self._config[REQUEST_TIMEOUT_MS])

    def _on_answer(
        self,
        key: TopicPartition,
        state: PartitionState,
        leader_epoch: int,
        answer: OffsetForLeaderEpochResponse.Topic.Partition,
        now: int,
    ) -> None:
        error = ErrorCode.of(answer.error_code)
        position = state.position
        assert position is not None
        if error is not ErrorCode.NONE:
            self._try_later(now)
            if not error.retriable:
                self._errors.append(KafkaError(error, str(key)))
        elif answer.end_offset >= position.offset and answer.leader_epoch >= 0:
            state.complete_check(leader_epoch)
        else:
            is_known = answer.end_offset >= 0 and answer.leader_epoch >= 0
            self._on_truncation(key, state, leader_epoch, answer if is_known else None)

    def _on_truncation(
        self,
        key: TopicPartition,
        state: PartitionState,
        leader_epoch: int,
        end: OffsetForLeaderEpochResponse.Topic.Partition | None,
    ) -> None:
        """Records that were read are gone. Without `end` the leader has nothing of that epoch, nor of one before."""
        assert state.position is not None
        if not self._subscription.may_reset:
            self._errors.append(LogTruncationError(key, state.position.offset, None if end is None else end.end_offset))
            state.lose()
        elif end is None:
            self._subscription.reset(key)
        else:
            # What follows is read from where the two logs part: that is the best position there is.
            state.seek(FetchPosition(end.end_offset, end.leader_epoch), leader_epoch)

    def _try_later(self, now: int) -> None:
        self._not_before = now + self._config[RETRY_BACKOFF_MS]
        self._metadata.request_update()
