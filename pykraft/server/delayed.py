"""The three requests that wait: a produce for its replication, a fetch for its data, a deletion of records for the
followers.

Follows kafka.server.{DelayedProduce,DelayedFetch,DelayedDeleteRecords}.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from pykraft.common.core import FileRegion, Promise
from pykraft.common.errors import ErrorCode, KafkaError, RecordError
from pykraft.common.types import OffsetAndEpoch, TopicPartition
from pykraft.server.partition import Partition
from pykraft.server.replica_manager import ReplicaManager
from pykraft.storage.answers import AppendInfo, Isolation
from pykraft.storage.transaction_index import AbortedTransaction

CONSUMER = -1


@dataclass(slots=True)
class ProduceResult:
    """What became of one partition's batch. `error` is None while it waits for its replication."""

    topic_partition: TopicPartition
    error: ErrorCode | None
    detail: str = ""
    info: AppendInfo | None = None
    log_start_offset: int = -1
    """Of a log that refused the batch."""
    record_errors: Sequence[RecordError] = ()


@dataclass(slots=True)
class DeleteResult:
    """What became of one partition's deletion. `error` is None while followers still have the records."""

    topic_partition: TopicPartition
    error: ErrorCode | None
    wanted: int = -1
    low_watermark: int = -1


Result = TypeVar("Result", bound=ProduceResult | DeleteResult)


class _Delayed(Generic[Result]):
    """Results that are decided one by one; the promise is kept when the last one is, or when the time is up."""

    def __init__(self, replicas: ReplicaManager, results: list[Result]) -> None:
        self._replicas = replicas
        self._results = results
        self.promise: Promise[list[Result]] = Promise()

    def try_complete(self) -> bool:
        for result in self._results:
            if result.error is None:
                self._decide(result)
        if any(result.error is None for result in self._results):
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
        assert result.info is not None, "a batch that waits for its replication is in the log"
        partition = self._replicas.partitions.get(result.topic_partition)
        if partition is None:
            result.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            result.error = partition.replicated_up_to(result.info.last_offset + 1)


class DelayedDeleteRecords(_Delayed[DeleteResult]):
    """A deletion: complete when each low watermark has come to the offset that was asked for."""

    def _decide(self, result: DeleteResult) -> None:
        try:
            partition = self._replicas.partition(result.topic_partition)
            partition.check_leader()
            result.low_watermark = partition.low_watermark
            result.error = ErrorCode.NONE if partition.low_watermark >= result.wanted else None
        except KafkaError as error:
            result.low_watermark, result.error = -1, error.code


class FetchPlace(NamedTuple):
    """What a fetch asks of one partition. `refused` is set if the request itself is wrong about it."""

    topic_partition: TopicPartition
    offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int = -1
    """Where a follower's log begins."""
    refused: ErrorCode | None = None


@dataclass(slots=True)
class FetchResult:
    """What one partition gave."""

    place: FetchPlace
    error: ErrorCode = ErrorCode.NONE
    records: FileRegion | bytes = b""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    aborted: list[AbortedTransaction] | None = None

    @property
    def is_news(self) -> bool:
        """Whether the reader must be told at once."""
        return self.error is not ErrorCode.NONE or self.diverging is not None


@dataclass(kw_only=True, eq=False)
class DelayedFetch:
    """A fetch: complete when it has enough bytes, or news."""

    replicas: ReplicaManager
    places: list[FetchPlace]
    replica_id: int
    replica_epoch: int
    isolation: Isolation
    min_bytes: int
    max_bytes: int
    promise: Promise[list[FetchResult]] = field(default_factory=Promise)

    def try_complete(self) -> bool:
        results = self.read()
        size = sum(len(result.records) for result in results)
        if size < self.min_bytes and not any(result.is_news for result in results):
            return False
        self.promise.keep(results)
        return True

    def expire(self) -> None:
        self.promise.keep(self.read())

    def record(self, now: int) -> None:
        """A follower's fetch is the news that it has everything before its offsets. Told once, when it comes; what is
        wrong with the place, `read` finds again and answers."""
        self.places = [self._recorded(place, now) for place in self.places]

    def _recorded(self, place: FetchPlace, now: int) -> FetchPlace:
        partition = self._continued(place)
        try:
            if partition is not None:
                self.replicas.record_fetch(
                    partition, self.replica_id, place.offset, place.log_start_offset, self.replica_epoch, now
                )
            return place
        except KafkaError as error:
            return place._replace(refused=error.code)  # no replica, or a process that is gone

    def _continued(self, place: FetchPlace) -> Partition | None:
        """The partition led here whose log the reader's log is a prefix of; None for all else."""
        try:
            partition = self._led(place)
            is_within = partition.log.log_start_offset <= place.offset <= partition.log.log_end_offset
            return partition if is_within and diverging_end(partition, place) is None else None
        except KafkaError:
            return None

    def read(self) -> list[FetchResult]:
        """What there is now. The first batch of the first partition that has any comes whole, however large; the
        others get what is left."""
        left = self.max_bytes
        has_some = False
        results = []
        for place in self.places:
            result = FetchResult(place)
            try:
                self._read(self._led(place), result, left, at_least_one=not has_some)
            except KafkaError as error:
                result = FetchResult(place, error.code)
            except OSError as error:
                result = FetchResult(place, self.replicas.on_disk_failure(error).code)
            has_some = has_some or len(result.records) > 0
            left = max(0, left - len(result.records))
            results.append(result)
        return results

    def _led(self, place: FetchPlace) -> Partition:
        """The partition, if it is led here in the epoch that the reader believes in."""
        if place.refused is not None:
            raise KafkaError(place.refused)
        partition = self.replicas.partition(place.topic_partition)
        partition.check_leader(place.current_leader_epoch)
        return partition

    def _read(self, partition: Partition, result: FetchResult, left: int, at_least_one: bool) -> None:
        log, place = partition.log, result.place
        result.diverging = diverging_end(partition, place)
        result.high_watermark = log.high_watermark
        result.log_start_offset = log.log_start_offset
        result.last_stable_offset = log.last_stable_offset
        if result.diverging is None:
            data = log.read(place.offset, min(place.max_bytes, left), self.isolation, at_least_one)
            # A batch that is cut off is of no use to anybody who may not have it whole.
            result.records, result.aborted = b"" if data.first_batch_is_cut else data.records, data.aborted


def diverging_end(partition: Partition, place: FetchPlace) -> OffsetAndEpoch | None:
    """Where the reader's last epoch ends here, if its log is no prefix of this one."""
    if place.last_fetched_epoch < 0:
        return None
    end = partition.log.end_offset_for(place.last_fetched_epoch)
    if end is None or place.offset < partition.log.log_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {place.offset} of epoch {place.last_fetched_epoch} is not known here",
        )
    return end if end.epoch < place.last_fetched_epoch or end.offset < place.offset else None
