"""Committed offsets: a group's memory of how far it has read.

A consumer commits, for each partition, the offset of the next record that it will read. The group's coordinator keeps
it, and the member that reads the partition next begins there: a partition that is *initializing* gets its committed
offset as its position, or a position by ``auto.offset.reset`` if the group has none.

A member of a group commits under its generation. The coordinator refuses a commit of an older generation, because other
members may own the partitions by now. A consumer that assigns its partitions itself is no member, and commits without a
generation. In a consumer group (KIP-848) the member epoch takes the generation's place, and grows with every rebalance:
a commit or a lookup that is refused because its epoch is stale is sent again with the new one. A lookup by a removed
member is sent again until a heartbeat tells the member. Its user hears nothing of that; Kafka's user gets
UnknownMemberIdException from `poll()`.

A synchronous commit is repeated until its deadline. An asynchronous one is sent once: a later commit may overtake a
repetition, which would move the offset back. For the same reason commits are sent in the order in which they were made,
also those that wait for the coordinator to be found. A committed offset also has the leader epoch of the last record
before it, so that the next reader notices if the log was truncated there (KIP-320), and a text of the user's.

Follows org.apache.kafka.clients.consumer.internals.ConsumerCoordinator and
org.apache.kafka.clients.consumer.OffsetAndMetadata. Topics go by name, as classic members send them: version 9 is the
newest that has room for names.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pykraft.client import config as keys
from pykraft.client.api_driver import ApiDriver, ApiHandler
from pykraft.client.consuming.membership import CHANNEL, Generation, Membership
from pykraft.client.consuming.subscription import FetchPosition, State, SubscriptionState
from pykraft.client.errors import (
    ClientTimeoutError,
    FencedInstanceIdError,
    RetriableCommitFailedError,
)
from pykraft.common.core import Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition, by_topic
from pykraft.protocol.messages.offsets import (
    NO_EPOCH,
    NO_OFFSET,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

_REMOVED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH)
_BY_NAME = 9
"""The newest version of OffsetCommit and OffsetFetch whose topics have names."""


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next one to read, a text beside it, the leader epoch of the record before it (or -1)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class ConsumerGroupMetadata(NamedTuple):
    """As which member of its group a consumer reads: a transactional producer sends it to the group's coordinator along
    with the offsets. `generation_id` is the member epoch in a consumer group (KIP-848)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Committed = dict[TopicPartition, OffsetAndMetadata | None]
OnCommit = Callable[[Offsets, KafkaError | None], object]


class Commits:
    """Commits offsets, and looks up committed ones. It is a RequestManager, whose requests the `ApiDriver` sends."""

    def __init__(
        self, config: Config, subscription: SubscriptionState, driver: ApiDriver, membership: Membership
    ) -> None:
        self._timeout_ms: int = config[keys.DEFAULT_API_TIMEOUT_MS]
        self._subscription = subscription
        self._driver = driver
        self._membership = membership
        self._group_id = membership.group_id
        self._initialization: Promise[Any] | None = None
        self._errors: deque[KafkaError] = deque()
        self._completed: deque[tuple[OnCommit, Offsets, KafkaError | None]] = deque()
        self.async_under_way = 0
        """How many asynchronous commits are not answered yet."""

    # --- committing ---------------------------------------------------------------------------------------------------

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """How far each partition was read."""
        return {
            key: OffsetAndMetadata(state.consumed.offset, "", state.consumed.offset_epoch)
            for key, state in self._subscription.partitions.items()
            if state.consumed is not None
        }

    def commit(self, offsets: Offsets, deadline: int, is_retried: bool = True) -> "Promise[KafkaError | None]":
        """Commit these offsets; kept with the error, or None."""
        if not offsets:
            return Promise.of(None)
        is_member = self._subscription.mode.is_automatic
        generation = self._membership.commit_generation() if is_member else Generation()
        if isinstance(generation, KafkaError):
            return Promise.of(generation)
        instance_id = self._membership.instance_id if is_member else None

        def request(asked: object) -> OffsetCommitRequest:
            return _commit_request(self._group_id, self._membership.renewed(generation), instance_id, offsets)

        def read(asked: object, response: OffsetCommitResponse) -> list[tuple[str, KafkaError | None]]:
            error = _first_error(response)
            if error is not None and is_retried:
                error = self._repeated(error, (ErrorCode.STALE_MEMBER_EPOCH,))
            return [(self._group_id, error)]

        handler = ApiHandler(
            what="{}: the offsets were not committed",
            lookup=self._driver.group_coordinators,
            request=request,
            read=read,
            channel=CHANNEL,
            is_retried=is_retried,
            is_ordered=True,
        )
        committed: Promise[KafkaError | None] = Promise()
        answer = self._driver.ask_all(handler, [self._group_id], deadline)
        answer.then(lambda found: committed.keep(self._understood(found, generation, is_retried)))
        return committed

    def commit_async(self, offsets: Offsets, on_commit: OnCommit, now: int) -> None:
        """Commit, and have `take_completed` hand out `on_commit` with what came of it."""

        def complete(error: KafkaError | None) -> None:
            self.async_under_way -= 1
            self._completed.append((on_commit, offsets, error))
            if isinstance(error, FencedInstanceIdError):
                self._errors.append(error)

        self.async_under_way += 1
        self.commit(offsets, now + self._timeout_ms, is_retried=False).then(complete)

    def take_completed(self) -> Iterator[tuple[OnCommit, Offsets, KafkaError | None]]:
        """The callbacks that are due, with their arguments; the user's thread makes the calls."""
        while self._completed:
            yield self._completed.popleft()

    def _repeated(self, error: KafkaError, passing: Collection[ErrorCode]) -> KafkaError:
        """The same error; as one that may pass if it is one of these, and the next heartbeat will tell the member its
        new epoch, or that it was removed."""
        if error.code not in passing or self._membership.generation.is_lost:
            return error
        return _OldEpochError(error.code, error.detail)

    def _understood(self, found: Any, generation: Generation, is_retried: bool) -> KafkaError | None:
        """What the user hears of a commit."""
        if not isinstance(found, KafkaError):
            return None
        refused = self._membership.commit_refused(found, generation, self._subscription.mode.is_automatic)
        if refused is not None:
            return refused
        if not is_retried and found.retriable:
            return RetriableCommitFailedError(found)
        return found

    # --- committed offsets --------------------------------------------------------------------------------------------

    def committed(
        self, topic_partitions: Iterable[TopicPartition], deadline: int
    ) -> "Promise[dict[str, Committed] | KafkaError]":
        """By the group's id, what it has committed for each partition: None if nothing. Offsets that an open
        transaction is about to change are waited for."""
        wanted = sorted(set(topic_partitions))
        is_member = self._subscription.mode.is_automatic

        def request(asked: object) -> OffsetFetchRequest:
            epoch = self._membership.fetch_generation() if is_member else Generation()
            return _fetch_request(self._group_id, epoch, wanted)

        def read(asked: object, response: OffsetFetchResponse) -> list[tuple[str, Committed | KafkaError]]:
            found = _committed(response, wanted)
            return [(self._group_id, self._repeated(found, _REMOVED) if isinstance(found, KafkaError) else found)]

        handler = ApiHandler(
            what="{}: the committed offsets were not found",
            lookup=self._driver.group_coordinators,
            request=request,
            read=read,
            channel=CHANNEL,
        )
        return self._driver.ask_all(handler, [self._group_id] if wanted else [], deadline)

    def poll(self, now: int) -> Poll:
        """Look up the committed offsets of the partitions that have no position yet, one lookup at a time."""
        if self._initialization is not None or self._errors:
            return Poll()
        states = {
            key: state
            for key, state in self._subscription.partitions.items()
            if state.state is State.INITIALIZING and not state.is_pending_revocation
        }
        if states:
            self._initialization = self.committed(states, now + self._timeout_ms)
            self._initialization.then(lambda found: self._on_committed(states, found))
        return Poll()

    def _on_committed(self, states: Mapping[TopicPartition, Any], found: "dict[str, Committed] | KafkaError") -> None:
        self._initialization = None
        if isinstance(found, ClientTimeoutError):
            return  # the next poll asks again
        if isinstance(found, KafkaError) and found.code in _REMOVED and self._membership.may_have_lost:
            return  # so are the partitions
        if isinstance(found, KafkaError):
            self._errors.append(found)
            return
        for key, committed in found[self._group_id].items():
            state = self._subscription.partitions.get(key)
            if state is not states[key] or state.state is not State.INITIALIZING:
                continue  # revoked, perhaps assigned again; or the user has said where to read
            if committed is not None:
                # The record before the offset was read under this epoch; a newer leader is asked whether it has it.
                state.seek(FetchPosition(committed.offset, committed.leader_epoch), committed.leader_epoch)
            elif self._subscription.may_reset:
                self._subscription.reset(key)
            else:
                state.lose()

    @property
    def has_error(self) -> bool:
        return bool(self._errors)

    @property
    def has_completed(self) -> bool:
        """There is something for `take_completed` to hand out."""
        return bool(self._completed)

    def raise_error(self) -> None:
        """Raise what the consumer's user must know, each error once."""
        if self._errors:
            raise self._errors.popleft()


class _OldEpochError(KafkaError):
    """The member's epoch has grown since the request was sent, or has ended. The next heartbeat says which."""

    @property
    def retriable(self) -> bool:
        return True


def _commit_request(
    group_id: str, generation: Generation, instance_id: str | None, offsets: Offsets
) -> OffsetCommitRequest:
    topic_type = OffsetCommitRequest.Topic
    topics: dict[str, list[OffsetCommitRequest.Topic.Partition]] = {}
    for key in sorted(offsets):
        committed = offsets[key]
        partition = topic_type.Partition(
            partition_index=key.partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            committed_metadata=committed.metadata,
        )
        topics.setdefault(key.topic, []).append(partition)
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation.id,
        member_id=generation.member_id,
        group_instance_id=instance_id,
        topics=[topic_type(name=name, partitions=partitions) for name, partitions in topics.items()],
    ).at_most(_BY_NAME)


def _first_error(response: OffsetCommitResponse) -> KafkaError | None:
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code:
                error = ErrorCode.of(partition.error_code)
                return KafkaError(error, f"{TopicPartition(topic.name, partition.partition_index)}: {error.text}")
    return None


def _fetch_request(group_id: str, generation: Generation, wanted: Iterable[TopicPartition]) -> OffsetFetchRequest:
    """The request in all its versions: until 7 for one group, later for a list of groups."""
    topics = by_topic(wanted)
    group_type = OffsetFetchRequest.Group
    return OffsetFetchRequest(
        group_id=group_id,
        topics=[OffsetFetchRequest.Topic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        groups=[
            group_type(
                group_id=group_id,
                member_id=generation.member_id or None,
                member_epoch=generation.id,
                topics=[group_type.Topic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
            )
        ],
        require_stable=True,
    ).at_most(_BY_NAME)


def _committed(response: OffsetFetchResponse, wanted: Iterable[TopicPartition]) -> Committed | KafkaError:
    answer = response.groups[0] if response.groups else response
    if answer.error_code:
        error = ErrorCode.of(answer.error_code)
        return KafkaError(error, error.text)
    found: Committed = {}
    for topic in answer.topics:
        for place in topic.partitions:
            key = TopicPartition(topic.name, place.partition_index)
            if place.error_code:
                error = ErrorCode.of(place.error_code)
                return KafkaError(error, f"{key}: {error.text}")
            if place.committed_offset != NO_OFFSET:
                found[key] = OffsetAndMetadata(
                    place.committed_offset, place.metadata or "", place.committed_leader_epoch
                )
    return {key: found.get(key) for key in wanted}
