"""The three requests that wait: a produce for its replication, a fetch for its data, a deletion of records for the
followers.

A waiting fetch compares offsets: after each append it compares its reader's position with the high watermark. It reads
once, when there are enough bytes or its time is up. It remembers how many bytes each partition has for it, so an append
to one costs the same however many it waits for. A partition that a quota holds back is looked at each time: what frees
it is the clock.

With a replica selector, a follower's waiting fetch is also answered as soon as the high watermark is another than in
its last answer: consumers read there up to the high watermark that the follower knows. KIP-392 proposes that. Kafka 4.2
lets the follower wait for records, or for ``replica.fetch.wait.max.ms`` (KAFKA-9731).

Follows kafka.server.{DelayedProduce,DelayedFetch,DelayedDeleteRecords}.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

from pykraft.broker.replication.fetching import FetchParams, FetchPlace, available_bytes
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.common.core import Promise, Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.storage.answers import AppendInfo


@dataclass(slots=True)
class ProduceResult:
    """What became of one partition's batch. `error` is None while it waits for its replication."""

    topic_partition: TopicPartition
    error: ErrorCode | None
    detail: str = ""
    info: AppendInfo | None = None
    """Where the batch went."""
    topic_id: Uuid = ZERO_UUID
    """Of the topic whose log has the batch: a new one of that name does not replicate it."""


@dataclass(slots=True)
class DeleteResult:
    """What became of one partition's deletion. `error` is None while followers still have the records."""

    topic_partition: TopicPartition
    error: ErrorCode | None
    wanted: int = -1
    low_watermark: int = -1
    topic_id: Uuid = ZERO_UUID
    """Of the topic whose records are deleted."""


Result = TypeVar("Result", bound=ProduceResult | DeleteResult)


class _Delayed(Generic[Result]):
    """Results that are decided one by one; the promise is kept when the last one is, or when the time is up."""

    def __init__(self, replicas: ReplicaManager, results: Sequence[Result]) -> None:
        self._replicas = replicas
        self._results = results
        self._of: dict[Hashable, list[Result]] = {}
        """The results of each partition."""
        for result in results:
            self._of.setdefault(result.topic_partition, []).append(result)
        self._undecided = sum(result.error is None for result in results)
        self.promise: Promise[Sequence[Result]] = Promise()

    def is_decided(self, key: Hashable = None) -> bool:
        """Whether each of the results is decided by now. Something has happened to `key`; None: perhaps to all."""
        for result in self._of.get(key, self._results):
            if result.error is None:
                self._decide(result)
                self._undecided -= result.error is not None
        return not self._undecided

    def decide_in_steps(self) -> Steps[Self]:
        """Decide ahead what can be decided, so that `is_decided` has little to do; returns itself."""
        for result in self._results:
            if result.error is None:
                self._decide(result)
                self._undecided -= result.error is not None
                yield
        return self

    def try_complete(self, key: Hashable = None) -> bool:
        if not self.is_decided(key):
            return False
        self.promise.keep(self._results)
        return True

    def _decide(self, result: Result) -> None:
        """Set the result's error, if that is known by now."""
        raise NotImplementedError

    def expire(self) -> None:
        for result in self._results:
            if result.error is None:
                result.error = ErrorCode.REQUEST_TIMED_OUT
        self.promise.keep(self._results)


class DelayedProduce(_Delayed[ProduceResult]):
    """A produce with acks=all: complete when each of its batches is replicated, or cannot be any more."""

    def _decide(self, result: ProduceResult) -> None:
        decide(self._replicas, result)


def decide(replicas: ReplicaManager, result: ProduceResult) -> None:
    """Set the error of a batch that is in the log: NONE if enough replicas have it, None if it has to wait for them."""
    assert result.info is not None, "a batch that waits for its replication is in the log"
    partition = replicas.partitions.get(result.topic_partition)
    if partition is None or partition.key.topic_id != result.topic_id:
        result.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        result.error = partition.replicated_up_to(result.info.last_offset + 1)


class DelayedDeleteRecords(_Delayed[DeleteResult]):
    """A deletion: complete when each low watermark has come to the offset that was asked for."""

    def _decide(self, result: DeleteResult) -> None:
        try:
            partition = self._replicas.partition(result.topic_partition)
            if partition.key.topic_id != result.topic_id:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            partition.check_leader()
            result.low_watermark = partition.low_watermark
            result.error = ErrorCode.NONE if partition.low_watermark >= result.wanted else None
        except KafkaError as error:
            result.low_watermark, result.error = -1, error.code


@dataclass(kw_only=True, eq=False)
class DelayedFetch:
    """A fetch: complete when there are enough bytes for it, or news."""

    replicas: ReplicaManager
    places: list[FetchPlace]
    params: FetchParams
    promise: Promise[bool] = field(default_factory=Promise)
    """Kept when it is time to read: with whether it is the last time."""

    def __post_init__(self) -> None:
        self._numbers: dict[Hashable, list[int]] = {}
        """Where each partition is among the places."""
        for number, place in enumerate(self.places):
            self._numbers.setdefault(place.topic_partition, []).append(number)
        self._bytes = [0] * len(self.places)
        self._size = 0
        self._unknown = set(range(len(self.places)))
        """The places that are to be looked at, whichever has changed."""

    def add(self, place: FetchPlace) -> None:
        """Wait for this partition, too. It is looked at when it is known what has happened there."""
        number = len(self.places)
        self.places.append(place)
        self._numbers.setdefault(place.topic_partition, []).append(number)
        self._bytes.append(0)
        self._unknown.add(number)

    def has_enough(self, key: Hashable = None) -> bool:
        """Whether the reader is to be answered now. Nothing is read for that. Something has happened to `key`; None:
        perhaps to all."""
        changed = self._numbers.get(key, range(len(self.places)))
        for number in sorted(self._unknown.union(changed)):
            self._unknown.add(number)
            place = self.places[number]
            try:
                partition = self.replicas.readable(place, self.params.needs_leader)
                available = available_bytes(partition, place, self.params)
            except (KafkaError, OSError):
                return True  # to be found again, and answered, by the read
            if available is None:
                return True
            self._size += available - self._bytes[number]
            self._bytes[number] = available
            if not self.params.is_held_back(partition):
                self._unknown.discard(number)
        return self._size >= self.params.min_bytes

    def try_complete(self, key: Hashable = None) -> bool:
        if not self.has_enough(key):
            return False
        self.promise.keep(False)
        return True

    def expire(self) -> None:
        self.promise.keep(True)
