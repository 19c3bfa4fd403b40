"""The laws of a group's committed offsets, as its members see them and as ``__consumer_offsets`` keeps them.

Three things are watched: the committed records of the internal topic, the requests and responses of each member, and
what each member's user does. Which member may own a partition is a matter of the group's protocol: `ClassicGroupLaws`
and `ConsumerGroupLaws` know that. Both call the time in which a member's ownership stays the same its *tenure*: in a
classic group a generation, in a consumer group an epoch of one member.

*Of committed offsets*: a member commits what the group has read. Each commit in the log was sent by a member in the
tenure in which it is in the log. An acknowledged commit is committed. The next owner of a partition begins at that
commit or at a later one. Within a tenure the offset does not move back, unless a request arrives late: one whose sender
had given it up when it sent the higher one, or its ghost. (Kafka does not promise more: a commit has no number.)

*Of reading*: no record is skipped. The group has read everything before a record that a member reads.

*Of coordinators*: what they tell a reader is committed, so no crash takes it back. Once all is quiet, the leader's
state is what a fresh replay of the committed log gives.

Follows what Kafka's OffsetCommitRequest and OffsetFetchRequest promise.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pykraft.broker.coordination.coordinators import GROUP_TOPIC, GroupCoordinator, InternalLog
from pykraft.common.timer import Timer
from pykraft.common.trace import Silence, Tracer
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.runtime import CoordinatorRuntime
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    GroupKey,
    GroupMemberKey,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    RegularExpressionKey,
    decode_coordinator_record,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchResponse
from pykraft.records.record import Record
from pykraft.sim.laws.foreign_names import is_foreign
from pykraft.sim.laws.invariants import RECREATED_GROUP, PartitionHistory, Violation, require


class Commit(NamedTuple):
    """An offset in the log, and the tenures of the members that may have sent it: equal requests look the same."""

    tenures: frozenset[Hashable]
    offset: int


@dataclass(eq=False)
class SentCommit:
    """An offset that a member has sent, and whether it has had any answer."""

    tenure: Hashable
    offset: int
    is_answered: bool = False


@dataclass
class _Place:
    """What is known of one partition of the topic that the group reads."""

    read_up_to: int = 0
    """Every record before this one was read by a member."""
    sent: list[SentCommit] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    """In the order of the log."""
    acknowledged: int = 0
    """A new owner must know this many of them: the last of these was acknowledged."""

    @property
    def offset(self) -> int | None:
        return self.commits[-1].offset if self.commits else None


class InternalHistory(PartitionHistory):
    """What was committed in one partition of ``__consumer_offsets``. Equal records may come again there."""

    def __init__(self, topic_partition: TopicPartition, groups: Mapping[str, "LoggedGroupLaws"]) -> None:
        super().__init__(topic_partition)
        self._groups = groups

    def take(self, record: Record) -> None:
        self.values.append(record.value)
        decoded = decode_coordinator_record(GROUP_RECORDS, record.key or b"", record.value)
        laws = self._groups.get(_group_id(decoded))
        if laws is not None:
            laws.on_record(decoded)


class LoggedGroupLaws(ABC):
    """What the log of its coordinator says of one group, and that the coordinator says the same."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @abstractmethod
    def on_record(self, decoded: CoordinatorRecord) -> None:
        """A record of this group is committed in the internal topic."""

    @abstractmethod
    def check_readers(self, where: str, committed: GroupShard) -> None:
        """A coordinator answers readers from this shard."""

    @abstractmethod
    def check_shard(self, live: GroupShard, fresh: GroupShard) -> None:
        """In the end a coordinator has the first of these shards; the next one would load the second."""

    def check_coordinator(self, coordinator: GroupCoordinator, log: InternalLog, now: int) -> None:
        """What the shards of this broker hold is what their records say, and what the next coordinator would load."""
        fresh = CoordinatorRuntime(
            name=GROUP_TOPIC,
            types=GROUP_RECORDS,
            log=log,
            make_shard=coordinator.make_shard,
            timer=Timer(),
            trace=Tracer(0, Silence()),
            commit_timeout_ms=1,
        )
        for partition in coordinator.runtime.active_partitions():
            fresh.lead(partition, 0, now)
            while fresh.is_loading:
                fresh.poll(now)
            view = coordinator.runtime.view(partition)
            view.catch_up(log.high_watermark(partition), in_turn=False)
            for live in (coordinator.runtime.active(partition), view.shard):
                self.check_shard(live, fresh.active(partition))


class GroupLaws(LoggedGroupLaws):
    """Holds one group against its laws."""

    def __init__(self, group_id: str, has_ghosts: bool) -> None:
        super().__init__(group_id)
        self.has_ghosts = has_ghosts
        self._places: dict[TopicPartition, _Place] = {}
        self.rebalances = 0

    def place(self, topic_partition: TopicPartition) -> _Place:
        return self._places.setdefault(topic_partition, _Place())

    def is_gone(self, key: TopicPartition) -> bool:
        """Its topic was deleted: what is said of it counts no more."""
        return False

    def committed(self) -> dict[TopicPartition, int]:
        """The offsets that the group has committed, as far as is known here."""
        return {key: place.offset or 0 for key, place in sorted(self._places.items())}

    # --- what each protocol knows -------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The group's generation or epoch, by its committed records: settled members are there."""

    @abstractmethod
    def on_group_record(self, record: CoordinatorRecord) -> None:
        """A record of the group's is committed that is not an offset."""

    @abstractmethod
    def tenure(self, request: OffsetCommitRequest) -> Hashable:
        """In which tenure this member commits."""

    @abstractmethod
    def is_present(self, tenure: Hashable) -> bool:
        """Whether a commit of this tenure may come next in the log."""

    @abstractmethod
    def check_group(self, what: str, group: Any) -> None:
        """A shard has this group; `what` says which shard."""

    # --- the log ------------------------------------------------------------------------------------------------------

    def on_record(self, decoded: CoordinatorRecord) -> None:
        key, value = decoded.key, decoded.value
        if not isinstance(key, OffsetCommitKey):
            self.on_group_record(decoded)
            return
        place = TopicPartition(key.topic, key.partition)
        if not isinstance(value, OffsetCommitValue):
            raise Violation(f"{self.group_id}: the offset of {place} was deleted")
        self._on_commit(place, value.offset)

    def _on_commit(self, key: TopicPartition, offset: int) -> None:
        place = self.place(key)
        twins = [each for each in place.sent if each.offset == offset and self.is_present(each.tenure)]
        require(
            bool(twins),
            f"{key}: offset {offset} was committed in epoch {self.epoch} of {self.group_id}; no member that may commit "
            "now has sent it",
        )
        tenures = frozenset(each.tenure for each in twins)
        last = place.commits[-1] if place.commits else None
        if last is not None and tenures <= last.tenures and last.offset > offset:
            require(
                self.has_ghosts or any(not each.is_answered for each in twins),
                f"{key}: the committed offset goes back from {last.offset} to {offset} in {twins[0].tenure}",
            )
        place.commits.append(Commit(tenures, offset))

    # --- what members send and hear -----------------------------------------------------------------------------------

    def send_commit(self, request: OffsetCommitRequest) -> list[SentCommit]:
        """A member sends a commit; what `hear_commit` will want."""
        found = []
        tenure = self.tenure(request)
        for key, offset in committed_offsets(request):
            place = self.place(key)
            require(offset <= place.read_up_to, f"{key}: {offset} is committed; only {place.read_up_to} were read")
            found.append(SentCommit(tenure, offset))
            place.sent.append(found[-1])
        return found

    def hear_commit(
        self, request: OffsetCommitRequest, sent: Iterable[SentCommit], response: OffsetCommitResponse
    ) -> None:
        """The coordinator has answered a commit."""
        errors = [part.error_code for topic in response.topics for part in topic.partitions]
        for (key, _), each, error in zip(committed_offsets(request), sent, errors, strict=True):
            each.is_answered = True
            if not error:
                self._acknowledge(key, each)

    def _acknowledge(self, key: TopicPartition, sent: SentCommit) -> None:
        place = self.place(key)
        for count in range(len(place.commits), 0, -1):
            commit = place.commits[count - 1]
            if commit.offset == sent.offset and sent.tenure in commit.tenures:
                place.acknowledged = max(place.acknowledged, count)
                return
        if not self.is_gone(key):
            raise Violation(f"{key}: offset {sent.offset} of {sent.tenure} was acknowledged, and is not committed")

    def known_commits(self) -> dict[TopicPartition, int]:
        """A member asks for the committed offsets now: the answer must know this many commits."""
        return {key: place.acknowledged for key, place in self._places.items()}

    def hear_offsets(self, known: Mapping[TopicPartition, int], response: OffsetFetchResponse) -> None:
        """A member hears where to begin."""
        for topic in response.groups[0].topics:
            for part in topic.partitions:
                key = TopicPartition(topic.name, part.partition_index)
                least = known.get(key, 0)
                if part.error_code or (part.committed_offset < 0 and not least) or self.is_gone(key):
                    continue
                commits = self.place(key).commits[max(0, least - 1) :]
                require(
                    any(commit.offset == part.committed_offset for commit in commits),
                    f"{key}: a new owner hears offset {part.committed_offset}; committed is "
                    f"{sorted({commit.offset for commit in commits})}",
                )

    # --- what members do ----------------------------------------------------------------------------------------------

    def read(self, key: TopicPartition, offset: int) -> None:
        """A member has got this record."""
        place = self.place(key)
        require(
            offset <= place.read_up_to,
            f"{key}: a member reads offset {offset}; the group has read only up to {place.read_up_to}",
        )
        place.read_up_to = max(place.read_up_to, offset + 1)

    # --- what coordinators tell ---------------------------------------------------------------------------------------

    def check_readers(self, where: str, committed: GroupShard) -> None:
        for key, told in committed.offsets.of(self.group_id).items():
            require(
                self.is_gone(key) or any(commit.offset == told.offset for commit in self.place(key).commits),
                f"{key}: readers of {where} hear offset {told.offset} of {self.group_id}, which is not committed",
            )

    # --- the end ------------------------------------------------------------------------------------------------------

    def check_shard(self, live: GroupShard, fresh: GroupShard) -> None:
        shown = ([name for name in shard.groups if name != RECREATED_GROUP] for shard in (live, fresh))
        has, would_load = (sorted(name for name in names if not is_foreign(name)) for names in shown)
        require(has == would_load, f"groups {has} and {would_load}")
        for which, shard in (("has", live), ("would load", fresh)):
            group = shard.groups.get(self.group_id)
            if group is None:
                continue
            what = f"the coordinator of {self.group_id} {which}"
            self.check_group(what, group)
            offsets = {key: committed.offset for key, committed in shard.offsets.of(self.group_id).items()}
            expected = {key: place.offset for key, place in self._places.items() if place.commits}
            require(offsets == expected, f"{what} {offsets}; committed is {expected}")


def _group_id(decoded: CoordinatorRecord) -> str:
    """The group that the record is about."""
    key = decoded.key
    if isinstance(key, GroupKey | GroupMemberKey):
        return key.group_id
    if isinstance(key, RegularExpressionKey):
        return key.group_id
    assert isinstance(key, GroupMetadataKey | OffsetCommitKey), f"no group here writes {key}"
    return key.group


def committed_offsets(request: OffsetCommitRequest) -> list[tuple[TopicPartition, int]]:
    """What a request commits."""
    return [
        (TopicPartition(topic.name, part.partition_index), part.committed_offset)
        for topic in request.topics
        for part in topic.partitions
    ]


def names(keys: Iterable[TopicPartition]) -> list[str]:
    return [str(key) for key in sorted(keys)]
