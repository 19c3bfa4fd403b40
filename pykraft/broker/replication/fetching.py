"""What a fetch asks of one partition, and what the partition gives.

A reader names an offset and the epochs that it knows. Three things can be wrong with that, and each is news that the
reader gets at once: the partition is not led here in the reader's epoch, the offset is outside of the log, or the
reader's log has *diverged*. The leader compares `last_fetched_epoch` with its own epochs. If that epoch ends here at
another offset than the reader believes, the answer says where, and the reader truncates (KIP-595, the idea of KIP-101).

A consumer may also read from a follower, and a leader may send it there (`replica_selector`). Replicas read only from
the leader, and so do consumers before version 11 of Fetch, which cannot be sent anywhere.

Follows kafka.cluster.Partition.fetchRecords and
org.apache.kafka.server.storage.log.{FetchParams,FetchPartitionData,LogReadResult}.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pykraft.broker.replication.partition import Partition
from pykraft.common.core import FileRegion
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, OffsetAndEpoch, TopicPartition, Uuid
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog
from pykraft.storage.transaction_index import AbortedTransaction

NO_REPLICA = -1


class LeaderHint(NamedTuple):
    """The leader of a partition that this broker does not lead: sent along with the refusal (KIP-951)."""

    leader_id: int
    leader_epoch: int


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
    topic_id: Uuid = ZERO_UUID
    """Of the topic that had this name when the fetch came; zero if none had it."""


SelectReplica = Callable[[Partition, FetchPlace], int]
"""The follower that the reader is to fetch this from, by its id; -1: it is to fetch from here."""


class FetchParams(NamedTuple):
    """What a fetch says of its reader, for all its partitions."""

    isolation: Isolation
    max_bytes: int
    min_bytes: int = 0
    replica_id: int = -1
    """Of a follower; negative for a consumer."""
    needs_leader: bool = True
    """Whether a follower refuses the reader."""
    select_replica: SelectReplica | None = None
    """None: the reader is not sent anywhere else."""
    holds_back: Callable[[Partition, int], bool] | None = None
    """Whether a follower gets no records of a partition now (`broker.replication.replication_quotas`)."""
    tells_high_watermark: bool = False
    """Whether a follower that waits is answered as soon as the high watermark is another than in its last answer."""

    def is_held_back(self, partition: Partition) -> bool:
        """Whether the reader gets no records of the partition now."""
        return self.holds_back is not None and self.holds_back(partition, self.replica_id)

    def has_untold_high_watermark(self, partition: Partition) -> bool:
        """Whether the high watermark alone is worth an answer."""
        follower = partition.followers.get(self.replica_id) if self.tells_high_watermark else None
        return follower is not None and follower.told_high_watermark != partition.log.high_watermark


@dataclass(slots=True)
class FetchResult:
    """What one partition gave."""

    place: FetchPlace
    error: ErrorCode = ErrorCode.NONE
    records: FileRegion | bytes = b""
    size: int = 0
    """Bytes of the records."""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    aborted: list[AbortedTransaction] | None = None
    preferred_read_replica: int = NO_REPLICA

    @property
    def is_news(self) -> bool:
        """Whether the reader gets it at once, even without a record."""
        is_sent_elsewhere = self.preferred_read_replica != NO_REPLICA
        return self.error is not ErrorCode.NONE or self.diverging is not None or is_sent_elsewhere


def read_partition(
    partition: Partition, place: FetchPlace, params: FetchParams, max_bytes: int, at_least_one: bool
) -> FetchResult:
    """What is there now, `max_bytes` at most; with `at_least_one` the first batch comes whole, however large. A reader
    that is sent to another replica gets no records.

    KafkaError if the reader's offset or epoch is not of this log; OSError if the disk fails."""
    log, result = partition.log, FetchResult(place)
    result.high_watermark = log.high_watermark
    result.log_start_offset = log.log_start_offset
    result.last_stable_offset = log.last_stable_offset
    if params.select_replica is not None:
        result.preferred_read_replica = params.select_replica(partition, place)
        if result.preferred_read_replica != NO_REPLICA:
            return result
    result.diverging = diverging_end(partition, place)
    if result.diverging is None and (params.holds_back is None or not params.is_held_back(partition)):
        data = log.read(place.offset, min(place.max_bytes, max_bytes), params.isolation, at_least_one)
        # A first batch without its end is of no use to a reader that gets less than a whole batch.
        result.records, result.aborted = b"" if data.first_batch_is_cut else data.records, data.aborted
        result.size = len(result.records)
    return result


def available_bytes(partition: Partition, place: FetchPlace, params: FetchParams) -> int | None:
    """How many bytes `read_partition` would give, at most the place's own limit, without reading them. If any will do
    for `min_bytes`, they are not counted. None if there is news. KafkaError and OSError as for `read_partition`."""
    log = partition.log
    if params.select_replica is not None and params.select_replica(partition, place) != NO_REPLICA:
        return None
    if params.tells_high_watermark and params.has_untold_high_watermark(partition):
        return None
    if diverging_end(partition, place) is not None:
        return None
    upper_bound = log.upper_bound(params.isolation)
    if place.offset == upper_bound:
        return 0  # the reader is where everything ends: mostly so, and the quickest to tell
    if not log.log_start_offset <= place.offset <= log.log_end_offset:
        return None
    if params.holds_back is not None and params.is_held_back(partition):
        return 0
    if params.min_bytes <= 1:
        return int(place.offset < upper_bound)
    return min(place.max_bytes, log.bytes_between(place.offset, upper_bound))


def is_prefix(partition: Partition, place: FetchPlace) -> bool:
    """Whether the reader's log, as far as its fetch tells, is a prefix of this one."""
    is_within = partition.log.log_start_offset <= place.offset <= partition.log.log_end_offset
    return is_within and diverging_end(partition, place) is None


class HoldsLog(Protocol):
    """What `diverging_end` needs of a `Partition`."""

    @property
    def log(self) -> UnifiedLog: ...


def diverging_end(partition: HoldsLog, place: FetchPlace) -> OffsetAndEpoch | None:
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
