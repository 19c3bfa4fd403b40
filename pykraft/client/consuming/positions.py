"""Making sure that each partition of a consumer has a position, and that the position is right.

A partition without a position gets one from the log's start, its end, or a moment in between (ListOffsets). A position
that was read under an older leader is compared with the new leader's log (OffsetForLeaderEpoch, KIP-320): the consumer
says of which epoch its last record was, and the leader answers where that epoch ends in its own log. If that is before
the position, records that the consumer has read do not exist any more.

Follows org.apache.kafka.clients.consumer.internals.{OffsetFetcher,OffsetsForLeaderEpochClient}.
"""

from collections.abc import Iterator, Mapping, Sequence

from pykraft.client.api_driver import ApiDriver, ApiHandler, key_answer
from pykraft.client.config import DEFAULT_API_TIMEOUT_MS
from pykraft.client.consuming.offsets import OffsetAndTimestamp, OffsetLookups
from pykraft.client.consuming.subscription import FetchPosition, PartitionState, State, SubscriptionState
from pykraft.client.errors import ClientTimeoutError, LogTruncationError, NoOffsetError
from pykraft.client.metadata import CHANNEL
from pykraft.common.core import Poll
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import (
    LATEST_TIMESTAMP,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

CONSUMER_REPLICA_ID = -1


class Positions:
    """Looks up and checks positions. It is a RequestManager, whose requests the `ApiDriver` sends."""

    def __init__(
        self,
        config: Config,
        subscription: SubscriptionState,
        driver: ApiDriver,
        lookups: OffsetLookups,
        isolation_level: int,
    ) -> None:
        self._timeout_ms: int = config[DEFAULT_API_TIMEOUT_MS]
        self._subscription = subscription
        self._driver = driver
        self._lookups = lookups
        self._isolation_level = isolation_level
        self._under_way: set[TopicPartition] = set()
        self._failed: dict[TopicPartition, KafkaError] = {}
        """The errors that `raise_error` has not raised yet. Until then, their partitions are not asked for again."""

    def poll(self, now: int) -> Poll:
        """Begin what is needed and not under way."""
        self._reset(now)
        self._validate(now)
        return Poll()

    def _idle(self, wanted: State) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """The partitions in this state for which nothing is under way."""
        for key, state in self._subscription.partitions.items():
            if state.state is wanted and key not in self._under_way and key not in self._failed:
                yield key, state

    # --- positions that are missing -----------------------------------------------------------------------------------

    def _reset(self, now: int) -> None:
        timestamps = {
            key: state.reset_timestamp
            for key, state in self._idle(State.AWAITING_RESET)
            if state.reset_timestamp is not None
        }
        if timestamps:
            self._under_way.update(timestamps)
            self._lookups.find_each(
                timestamps,
                self._isolation_level,
                now + self._timeout_ms,
                lambda key, found: self._on_found(key, timestamps[key], found),
            )

    def _on_found(self, key: TopicPartition, timestamp: int, found: OffsetAndTimestamp | KafkaError) -> None:
        self._under_way.discard(key)
        state = self._subscription.partitions.get(key)
        if state is None or state.state is not State.AWAITING_RESET or state.reset_timestamp != timestamp:
            return  # meanwhile the partition was revoked, or the application has called `seek`
        if isinstance(found, KafkaError):
            self._failed[key] = found
        elif found.offset < 0:
            state.reset(LATEST_TIMESTAMP)  # no record is that young: from the end on
        else:
            state.seek(FetchPosition(found.offset, found.leader_epoch), found.leader_epoch)

    @property
    def has_error(self) -> bool:
        """There is something for `raise_error` to tell."""
        return bool(self._failed) or any(state.is_lost for state in self._subscription.partitions.values())

    def raise_error(self) -> None:
        """Raise what the application must know; NoOffsetError until it says where to read."""
        if self._failed:
            error = next(iter(self._failed.values()))
            # One error may be that of many partitions.
            self._failed = {key: other for key, other in self._failed.items() if other is not error}
            raise error
        for key, state in self._subscription.partitions.items():
            if state.is_lost:
                raise NoOffsetError(key)

    def forget(self, topic_partition: TopicPartition) -> None:
        """The partition was sought, or is not read any more: what was missing is not."""
        self._under_way.discard(topic_partition)

    # --- positions that are in doubt ----------------------------------------------------------------------------------

    def _validate(self, now: int) -> None:
        metadata = self._driver.metadata
        for key, state in self._subscription.partitions.items():
            state.check(metadata.leader_epoch(key))
        before = {
            key: state.position for key, state in self._idle(State.AWAITING_VALIDATION) if state.position is not None
        }
        if not before:
            return
        epochs: dict[TopicPartition, int] = {}

        def request(asked: Sequence[TopicPartition]) -> OffsetForLeaderEpochRequest:
            epochs.update((key, metadata.leader_epoch(key)) for key in asked)
            return _request({key: (epochs[key], before[key].offset_epoch) for key in asked})

        def on_answer(key: TopicPartition, end: _EpochEnd | KafkaError) -> None:
            self._under_way.discard(key)
            state = self._subscription.partitions.get(key)
            if state is not None and state.state is State.AWAITING_VALIDATION and state.position == before[key]:
                self._on_epoch_end(key, state, epochs[key], end)

        handler = ApiHandler(
            what="the positions in {} were not compared with the leader's log",
            lookup=self._driver.leaders,
            request=request,
            read=_epoch_ends,
            channel=CHANNEL,
        )
        self._under_way.update(before)
        self._driver.ask_each(handler, before, now + self._timeout_ms, on_answer)

    def _on_epoch_end(
        self, key: TopicPartition, state: PartitionState, leader_epoch: int, end: "_EpochEnd | KafkaError"
    ) -> None:
        assert state.position is not None
        if isinstance(end, ClientTimeoutError):
            pass  # the partition has no leader that answers; the next poll asks again
        elif isinstance(end, KafkaError):
            if end.code is ErrorCode.UNSUPPORTED_VERSION:  # an old broker: nothing can be said
                state.complete_check(leader_epoch)
            else:
                self._failed[key] = end
        elif end.end_offset >= state.position.offset and end.leader_epoch >= 0:
            state.complete_check(leader_epoch)
        else:
            is_known = end.end_offset >= 0 and end.leader_epoch >= 0
            self._on_truncation(key, state, leader_epoch, end if is_known else None)

    def _on_truncation(
        self,
        key: TopicPartition,
        state: PartitionState,
        leader_epoch: int,
        end: "_EpochEnd | None",
    ) -> None:
        """Records that were read are gone. Without `end` the leader has nothing of that epoch, nor of one before."""
        assert state.position is not None
        if not self._subscription.may_reset:
            end_offset = None if end is None else end.end_offset
            self._failed[key] = LogTruncationError(key, state.position.offset, end_offset)
            state.lose()
        elif end is None:
            self._subscription.reset(key)
        else:
            # What follows is read from where the two logs part: that is the best position there is.
            state.seek(FetchPosition(end.end_offset, end.leader_epoch), leader_epoch)


_EpochEnd = OffsetForLeaderEpochResponse.Topic.Partition


def _request(epochs: Mapping[TopicPartition, tuple[int, int]]) -> OffsetForLeaderEpochRequest:
    """`epochs` are the leader's and that of the last record that was read."""
    topics: dict[str, list[OffsetForLeaderEpochRequest.Topic.Partition]] = {}
    for key, (leader_epoch, offset_epoch) in epochs.items():
        partition = OffsetForLeaderEpochRequest.Topic.Partition(
            partition=key.partition, current_leader_epoch=leader_epoch, leader_epoch=offset_epoch
        )
        topics.setdefault(key.topic, []).append(partition)
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=[OffsetForLeaderEpochRequest.Topic(topic=name, partitions=parts) for name, parts in topics.items()],
    )


def _epoch_ends(
    asked: Sequence[TopicPartition], response: OffsetForLeaderEpochResponse
) -> Iterator[tuple[TopicPartition, _EpochEnd | KafkaError]]:
    for topic in response.topics:
        for answer in topic.partitions:
            yield key_answer(TopicPartition(topic.topic, answer.partition), answer.error_code, answer)
