"""The reader's side of a fetch session (KIP-227): which partitions a fetch names, and what its answer means.

A reader says before each fetch what it wants of which partitions. The first fetch names them all. If its answer has the
id of a session, the next ones name those that are new or altered, and list those that are not wanted any more. An
answer leaves out the partitions without news: nothing about them has changed.

::

    answered with                              the next fetch
    -----------------------------------------  ------------------------------------------------------------
    a session id                               incremental: that id, the next epoch
    session id 0                               full: 0, 0
    FETCH_SESSION_ID_NOT_FOUND                 full: 0, 0
    another error; partitions that do not fit  full: the id, 0; it closes the session and begins another one
    nothing (the connection broke)             the same: the broker may have noted an answer that was lost

An answer that was taken, but of no use any more, counts as lost too: `reset`. A topic that was deleted and made again
has another id, and begins another session. (Kafka's reader forgets the old id instead. It must know the version of the
request for that; here the version is chosen later.) A reader that knows which few of its partitions have changed says
only that (`fill_changed`).

Follows org.apache.kafka.clients.FetchSessionHandler.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.messages.data import (
    INITIAL_EPOCH,
    NO_EPOCH,
    NO_OFFSET,
    NO_SESSION,
    FetchRequest,
    FetchResponse,
    next_session_epoch,
)

SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""The fetch is right, but not in this session."""


class Wanted(NamedTuple):
    """What a reader wants of one partition: the fields of the request."""

    topic_id: Uuid
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = NO_OFFSET


Answer = tuple[TopicPartition, FetchResponse.Topic.Partition]
TopicKey = tuple[str, Uuid]


class FetchSessionHandler:
    """One reader's session with one broker. There is one fetch at a time."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        """That of the next fetch, or of the one under way."""
        self.partitions: dict[TopicPartition, Wanted] = {}
        """What the session is about, as of the last request."""
        self._names: dict[Uuid, str] = {}
        """Of the topics, also of some that are not wanted any more."""

    @property
    def is_incremental(self) -> bool:
        """Whether the next fetch, or the one under way, names only what has changed."""
        return self.epoch != INITIAL_EPOCH

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, Wanted]) -> None:
        """Write into the request what makes it a fetch of these partitions, in this order where it names them."""
        gone = [key for key in self.partitions if key not in wanted]
        before, self.partitions = self.partitions, dict(wanted)
        self._fill(request, wanted, {key: before[key] for key in gone}, before)

    def fill_changed(
        self, request: FetchRequest, wanted: Mapping[TopicPartition, Wanted], unwanted: Iterable[TopicPartition]
    ) -> None:
        """The same for a reader that wants these as said here, those not at all, and of all others what it did."""
        gone = {key: self.partitions.pop(key) for key in unwanted if key in self.partitions}
        before = {key: self.partitions[key] for key in wanted if key in self.partitions}
        self.partitions.update(wanted)
        self._fill(request, wanted, gone, before)

    def _fill(
        self,
        request: FetchRequest,
        wanted: Mapping[TopicPartition, Wanted],
        gone: Mapping[TopicPartition, Wanted],
        before: Mapping[TopicPartition, Wanted],
    ) -> None:
        """`before` is what the last fetch wanted, at least of those that are wanted now."""
        if any(key in before and before[key].topic_id != each.topic_id for key, each in wanted.items()):
            self.reset()
        request.session_id, request.session_epoch = self.session_id, self.epoch
        if self.is_incremental:
            request.topics = _topics({key: each for key, each in wanted.items() if before.get(key) != each})
            request.forgotten_topics_data = _forgotten(gone)
            self._names.update((each.topic_id, key.topic) for key, each in wanted.items())
        else:
            request.topics = _topics(self.partitions)
            self._names = {each.topic_id: key.topic for key, each in self.partitions.items()}

    def take(self, response: FetchResponse) -> Sequence[Answer] | None:
        """The partitions that the answer is about; None if it refuses the fetch, or does not fit to it."""
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION
            self.reset()
            return None
        answers = [
            (TopicPartition(topic.topic or self._names.get(topic.topic_id, ""), answer.partition_index), answer)
            for topic in response.responses
            for answer in topic.partitions
        ]
        answered = {key for key, _ in answers}
        if not answered <= self.partitions.keys() or (not self.is_incremental and len(answered) < len(self.partitions)):
            self.reset()
            return None
        self.session_id = response.session_id
        self.epoch = INITIAL_EPOCH if response.session_id == NO_SESSION else next_session_epoch(self.epoch)
        return answers

    def reset(self) -> None:
        """Begin again: the fetch has failed, or its answer was not used."""
        self.epoch = INITIAL_EPOCH


def _topics(wanted: Mapping[TopicPartition, Wanted]) -> list[FetchRequest.Topic]:
    by_topic: dict[TopicKey, list[FetchRequest.Topic.Partition]] = {}
    for key, each in wanted.items():
        partition = FetchRequest.Topic.Partition(
            partition=key.partition,
            current_leader_epoch=each.current_leader_epoch,
            fetch_offset=each.fetch_offset,
            last_fetched_epoch=each.last_fetched_epoch,
            log_start_offset=each.log_start_offset,
            partition_max_bytes=each.partition_max_bytes,
        )
        by_topic.setdefault((key.topic, each.topic_id), []).append(partition)
    return [
        FetchRequest.Topic(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in by_topic.items()
    ]


def _forgotten(forgotten: Mapping[TopicPartition, Wanted]) -> list[FetchRequest.ForgottenTopic]:
    by_topic: dict[TopicKey, list[int]] = {}
    for key, each in forgotten.items():
        by_topic.setdefault((key.topic, each.topic_id), []).append(key.partition)
    return [
        FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=numbers)
        for (name, topic_id), numbers in by_topic.items()
    ]
