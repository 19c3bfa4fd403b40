"""The committed offsets of groups: for each group and partition the offset of the next record to read.

A commit is one record for each partition, key (group, topic, partition), and becomes true when it is replayed. A
partition that was never committed has no record; forgetting one is a tombstone.

A transaction commits offsets, too (KIP-98). Its records are *pending* until the transaction's marker comes: a commit
marker makes them true, an abort marker forgets them. Meanwhile a fetch that demands stable offsets is refused
(UNSTABLE_OFFSET_COMMIT, KIP-447). A tombstone forgets what is pending, too. Of two commits for one partition the later
record wins, whichever was pending longer.

Offsets do not live for ever: of a group that has had no member for ``offsets.retention.minutes`` they are forgotten,
and with the last of them the group (KIP-211).

Follows org.apache.kafka.coordinator.group.{OffsetMetadataManager,OffsetAndMetadata}.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from pykraft.common.errors import ProtocolError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.protocol.messages.coordinators import (
    CoordinatorRecord,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pykraft.protocol.messages.offsets import NO_EPOCH
from pykraft.protocol.schema import Message

T = TypeVar("T")

OFFSET_COMMIT = 1
"""The type of the record that is written. Type 0, which Kafka wrote before 0.9, is read as well."""
_OFFSET_COMMIT_VERSION = 4
_EXPIRING_VERSION = 1
"""The version of the record that has a time to expire, for clients so old that they ask for one."""
NO_EXPIRY = -1


class CommittedOffset(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int
    expire_time_ms: int = NO_EXPIRY
    topic_id: Uuid = ZERO_UUID
    written: int = 0
    """The number of its record among those that were replayed: the later one wins."""


Offsets = Mapping[TopicPartition, CommittedOffset]


class OffsetStore:
    """The committed offsets of the groups of one shard."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[int, dict[str, dict[TopicPartition, CommittedOffset]]] = {}
        """By producer id and group: offsets of transactions that have not ended."""
        self._writers: dict[str, dict[TopicPartition, set[int]]] = {}
        """The same the other way round, by group and partition: the producers that have an offset pending."""
        self._replayed = 0

    # --- what holds now -----------------------------------------------------------------------------------------------

    def of(self, group_id: str) -> Offsets:
        """What the group has committed."""
        return self._offsets.get(group_id, {})

    @property
    def count(self) -> int:
        """How many offsets are committed."""
        return sum(map(len, self._offsets.values()))

    def groups(self) -> list[str]:
        """The groups that have committed something, or are about to."""
        return sorted(self._offsets.keys() | self._writers.keys())

    def is_unstable(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Whether a transaction is about to change this offset."""
        return topic_partition in self._writers.get(group_id, ())

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._writers

    def has(self, group_id: str, place: TopicPartition) -> bool:
        """Whether the group has an offset for this partition, committed or pending."""
        return place in self.of(group_id) or self.is_unstable(group_id, place)

    def places_of(self, group_id: str) -> list[TopicPartition]:
        """The partitions for which the group has an offset, committed or pending."""
        return sorted(self.of(group_id).keys() | self._writers.get(group_id, {}).keys())

    # --- records ------------------------------------------------------------------------------------------------------

    def replay(self, key: OffsetCommitKey, found: Message | None, producer_id: int) -> None:
        """Take a record in; `producer_id` is that of its transaction, or -1. ProtocolError if its value is none of a
        committed offset."""
        place = TopicPartition(key.topic, key.partition)
        self._replayed += 1
        value = found if type(found) is OffsetCommitValue else commit_value(found)
        if value is None:
            self._forget(self._offsets, key.group, place)
            if key.group in self._writers:
                for writer in self._writers[key.group].get(place, ()):
                    self._forget(self._pending[writer], key.group, place)
                self._forget(self._writers, key.group, place)
            return
        offset = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            self._replayed,
        )
        if producer_id >= 0:
            self._pending.setdefault(producer_id, {}).setdefault(key.group, {})[place] = offset
            self._writers.setdefault(key.group, {}).setdefault(place, set()).add(producer_id)
        elif key.group in self._offsets:
            self._offsets[key.group][place] = offset
        else:
            self._offsets[key.group] = {place: offset}

    def replay_marker(self, producer_id: int, is_commit: bool) -> None:
        """The transaction has ended."""
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            for place in offsets:
                self._writers[group_id][place].discard(producer_id)
                if not self._writers[group_id][place]:
                    self._forget(self._writers, group_id, place)
            for place, offset in offsets.items() if is_commit else ():
                before = self._offsets.setdefault(group_id, {}).get(place)
                if before is None or before.written < offset.written:
                    self._offsets[group_id][place] = offset

    @staticmethod
    def _forget(by_group: dict[str, dict[TopicPartition, T]], group_id: str, place: TopicPartition) -> None:
        mine = by_group.get(group_id, {})
        mine.pop(place, None)
        if not mine:
            by_group.pop(group_id, None)

    def expired(
        self, group_id: str, base_time_ms: int | None, now_ms: int, retention_ms: int
    ) -> Iterator[TopicPartition]:
        """The offsets that are too old. They age from `base_time_ms`, or where that is None each from its commit; an
        offset that a transaction is about to change does not."""
        for place, offset in self.of(group_id).items():
            if self.is_unstable(group_id, place):
                continue
            if offset.expire_time_ms != NO_EXPIRY:
                is_old = now_ms >= offset.expire_time_ms
            else:
                is_old = now_ms - (offset.commit_time_ms if base_time_ms is None else base_time_ms) >= retention_ms
            if is_old:
                yield place


def commit_record(group_id: str, place: TopicPartition, offset: CommittedOffset) -> CoordinatorRecord:
    """The record of a commit."""
    make = commit_records(group_id, place.topic, offset.commit_time_ms, offset.expire_time_ms, offset.topic_id)
    return make(place.partition, offset.offset, offset.leader_epoch, offset.metadata)


def commit_records(
    group_id: str, topic: str, now_ms: int, expire_ms: int, topic_id: Uuid
) -> Callable[[int, int, int, str], CoordinatorRecord]:
    """Makes the records of one request's commits in one topic: ``(partition, offset, leader epoch, metadata)`` of each.
    They are as `commit_record` makes them; what they have in common is looked at once."""
    expires = expire_ms != NO_EXPIRY
    version = _EXPIRING_VERSION if expires else _OFFSET_COMMIT_VERSION

    def make(partition: int, offset: int, leader_epoch: int, metadata: str) -> CoordinatorRecord:
        key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=NO_EPOCH if expires else leader_epoch,
            metadata=metadata,
            commit_timestamp=now_ms,
            expire_timestamp=expire_ms,
            topic_id=topic_id,
        )
        return CoordinatorRecord(OFFSET_COMMIT, key, version, value)

    return make


def commit_value(value: Message | None) -> OffsetCommitValue | None:
    """What a record says that an offset is. One of type 0 has fewer fields; the others get what stands for unknown."""
    if isinstance(value, LegacyOffsetCommitValue):
        return OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp)
    if value is None or isinstance(value, OffsetCommitValue):
        return value
    raise ProtocolError(f"a {type(value).__name__} is no committed offset")


def tombstones(group_id: str, places: Iterable[TopicPartition]) -> list[CoordinatorRecord]:
    """The records that forget these offsets."""
    return [CoordinatorRecord(OFFSET_COMMIT, _key(group_id, place), None, None) for place in places]


def _key(group_id: str, place: TopicPartition) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=place.topic, partition=place.partition)
