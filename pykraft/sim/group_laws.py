"""The laws of a consumer group, as its members see it and as ``__consumer_offsets`` keeps it.

Three things are watched: the committed records of the internal topic, the requests and answers of each member, and what
each member's user does. A *generation* of the group begins in the log with the record of its assignment.

*Of membership*: generations only grow along the log. A record assigns a partition to one member. A member owns what the
committed record of its generation assigns to it, so a partition has at most one owner in a generation.

*Of committed offsets*: a member commits what the group has read. Each commit in the log was sent by a member of the
generation in which it lies there. An acknowledged commit is committed. Whoever owns a partition next begins at that
commit or at a later one. Within a generation the offset does not move back, unless a request arrives late: one whose
sender had given it up when it sent the higher one, or its ghost. (Kafka does not promise more: a commit has no number.)

*Of reading*: no record is skipped. What lies before a record that a member reads was read by the group.

*Of coordinators*, once all is quiet: the leader's state is what a fresh replay of the committed log gives.

Follows what org.apache.kafka.coordinator.group.classic.ClassicGroup and KIP-429 promise, and Kafka's
OffsetCommitRequest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pykraft.common.timer import Timer
from pykraft.common.trace import Silence, Tracer
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.runtime import CoordinatorRuntime
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    ConsumerProtocolAssignment,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_coordinator_record,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchResponse
from pykraft.records.record import Record
from pykraft.server.coordinators import GROUP_TOPIC, GroupCoordinator, InternalLog
from pykraft.sim.invariants import PartitionHistory, Violation, require

_NO_GENERATION = -1
_VERSION_BYTES = 2


class Commit(NamedTuple):
    """An offset that lies in the log, and the generation in which it lies there."""

    generation: int
    offset: int


@dataclass(eq=False)
class SentCommit:
    """An offset that a member has sent, and whether it has had any answer."""

    generation: int
    offset: int
    is_answered: bool = False


@dataclass
class _Place:
    """What is known of one partition of the topic that the group reads."""

    read_up_to: int = 0
    """Every record before this one was read by a member."""
    sent: list[SentCommit] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    """As they lie in the log."""
    acknowledged: int = 0
    """So many of them a new owner must know: the last of these was acknowledged."""

    @property
    def offset(self) -> int | None:
        return self.commits[-1].offset if self.commits else None


class InternalHistory(PartitionHistory):
    """What was committed in one partition of ``__consumer_offsets``. Equal records may come again there."""

    def __init__(self, topic_partition: TopicPartition, laws: "GroupLaws") -> None:
        super().__init__(topic_partition)
        self._laws = laws

    def take(self, record: Record) -> None:
        self.values.append(record.value)
        self._laws.on_record(record)


class GroupLaws:
    """Holds one group against its laws."""

    def __init__(self, group_id: str, has_ghosts: bool) -> None:
        self.group_id = group_id
        self._has_ghosts = has_ghosts
        self._places: dict[TopicPartition, _Place] = {}
        self.generation = _NO_GENERATION
        self.metadata: GroupMetadataValue | None = None
        """The last committed record of the group."""
        self._assigned: dict[int, dict[str, frozenset[TopicPartition]]] = {}
        """By generation and member id, as the committed records say."""
        self._owners: dict[int, dict[TopicPartition, str]] = {}
        """By generation and partition, as the members say."""
        self.rebalances = 0

    def place(self, topic_partition: TopicPartition) -> _Place:
        return self._places.setdefault(topic_partition, _Place())

    # --- the log ------------------------------------------------------------------------------------------------------

    def on_record(self, record: Record) -> None:
        """A record of the internal topic is committed."""
        decoded = decode_coordinator_record(GROUP_RECORDS, record.key or b"", record.value)
        key, value = decoded.key, decoded.value
        if isinstance(key, GroupMetadataKey) and key.group == self.group_id:
            if not isinstance(value, GroupMetadataValue):
                raise Violation(f"{self.group_id} was deleted")
            self._on_generation(value)
        elif isinstance(key, OffsetCommitKey) and key.group == self.group_id:
            place = TopicPartition(key.topic, key.partition)
            if not isinstance(value, OffsetCommitValue):
                raise Violation(f"{self.group_id}: the offset of {place} was deleted")
            self._on_commit(place, value.offset)

    def _on_generation(self, value: GroupMetadataValue) -> None:
        require(
            value.generation >= self.generation,
            f"{self.group_id} goes back from generation {self.generation} to {value.generation}",
        )
        self.rebalances += bool(value.members) and value.generation > self.generation
        self.generation, self.metadata = value.generation, value
        owners: dict[TopicPartition, str] = {}
        for member in value.members:
            assigned = assigned_partitions(bytes(member.assignment))
            self._assigned.setdefault(value.generation, {})[member.member_id] = assigned
            for key in sorted(assigned):
                other = owners.setdefault(key, member.member_id)
                require(other == member.member_id, f"{key} is assigned to {other} and to {member.member_id}")

    def _on_commit(self, key: TopicPartition, offset: int) -> None:
        place = self.place(key)
        twins = [sent for sent in place.sent if (sent.generation, sent.offset) == (self.generation, offset)]
        require(
            bool(twins),
            f"{key}: offset {offset} was committed in generation {self.generation}, in which no member has sent it",
        )
        last = place.commits[-1] if place.commits else None
        if last is not None and last.generation == self.generation and last.offset > offset:
            require(
                self._has_ghosts or any(not sent.is_answered for sent in twins),
                f"{key}: the committed offset goes back from {last.offset} to {offset} in generation {self.generation}",
            )
        place.commits.append(Commit(self.generation, offset))

    # --- what members send and hear -----------------------------------------------------------------------------------

    def send_commit(self, request: OffsetCommitRequest) -> list[SentCommit]:
        """A member sends a commit; what `hear_commit` will want."""
        found = []
        for key, offset in _committed(request):
            place = self.place(key)
            require(offset <= place.read_up_to, f"{key}: {offset} is committed; only {place.read_up_to} were read")
            found.append(SentCommit(request.generation_id_or_member_epoch, offset))
            place.sent.append(found[-1])
        return found

    def hear_commit(
        self, request: OffsetCommitRequest, sent: Iterable[SentCommit], response: OffsetCommitResponse
    ) -> None:
        """The coordinator has answered a commit."""
        errors = [part.error_code for topic in response.topics for part in topic.partitions]
        for (key, offset), each, error in zip(_committed(request), sent, errors, strict=True):
            each.is_answered = True
            if not error:
                self._acknowledge(key, Commit(each.generation, offset))

    def _acknowledge(self, key: TopicPartition, commit: Commit) -> None:
        place = self.place(key)
        for count in range(len(place.commits), 0, -1):
            if place.commits[count - 1] == commit:
                place.acknowledged = max(place.acknowledged, count)
                return
        raise Violation(
            f"{key}: offset {commit.offset} of generation {commit.generation} was acknowledged, and is not committed"
        )

    def known_commits(self) -> dict[TopicPartition, int]:
        """A member asks for the committed offsets now: so many commits the answer must know."""
        return {key: place.acknowledged for key, place in self._places.items()}

    def hear_offsets(self, known: Mapping[TopicPartition, int], response: OffsetFetchResponse) -> None:
        """A member is told where to begin."""
        for topic in response.groups[0].topics:
            for part in topic.partitions:
                key = TopicPartition(topic.name, part.partition_index)
                least = known.get(key, 0)
                if part.error_code or (part.committed_offset < 0 and not least):
                    continue
                commits = self.place(key).commits[max(0, least - 1) :]
                require(
                    any(commit.offset == part.committed_offset for commit in commits),
                    f"{key}: a new owner is told offset {part.committed_offset}; committed is "
                    f"{sorted({commit.offset for commit in commits})}",
                )

    # --- what members do ----------------------------------------------------------------------------------------------

    def own(self, member_id: str, name: str, generation: int, owned: frozenset[TopicPartition]) -> None:
        """A member has taken over its assignment. `name` stays when a static member comes back under a new id."""
        assigned = self._assigned.get(generation, {}).get(member_id)
        require(
            assigned is not None,
            f"{member_id} was given an assignment of generation {generation}, of which no record is committed",
        )
        require(
            assigned == owned,
            f"{member_id} owns {_names(owned)} in generation {generation}, and is assigned {_names(assigned or ())}",
        )
        owners = self._owners.setdefault(generation, {})
        for key in sorted(owned):
            other = owners.setdefault(key, name)
            require(other == name, f"{key} is owned by {other} and by {name} in generation {generation}")

    def read(self, key: TopicPartition, offset: int) -> None:
        """A member was given this record."""
        place = self.place(key)
        require(
            offset <= place.read_up_to,
            f"{key}: a member reads offset {offset}; the group has read only up to {place.read_up_to}",
        )
        place.read_up_to = max(place.read_up_to, offset + 1)

    # --- the end ------------------------------------------------------------------------------------------------------

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
            self._check_shard(coordinator.runtime.active(partition), fresh.active(partition))

    def _check_shard(self, live: GroupShard, fresh: GroupShard) -> None:
        require(sorted(live.groups) == sorted(fresh.groups), f"groups {sorted(live.groups)} and {sorted(fresh.groups)}")
        for what, shard in (("has", live), ("would load", fresh)):
            group = shard.classic.group(self.group_id)
            if group is None:
                continue
            found = group.record(group.assignments()).value
            require(
                _lasting(found) == _lasting(self.metadata),
                f"the coordinator of {self.group_id} {what} {found}; the last record is {self.metadata}",
            )
            offsets = {key: committed.offset for key, committed in shard.offsets.of(self.group_id).items()}
            expected = {key: place.offset for key, place in self._places.items() if place.commits}
            require(
                offsets == expected, f"the coordinator of {self.group_id} {what} {offsets}; committed is {expected}"
            )


def assigned_partitions(data: bytes) -> frozenset[TopicPartition]:
    """The partitions in a member's assignment."""
    if not data:
        return frozenset()
    version = int.from_bytes(data[:_VERSION_BYTES], "big")
    found = ConsumerProtocolAssignment.decode(data, version, _VERSION_BYTES)
    return frozenset(
        TopicPartition(part.topic, number) for part in found.assigned_partitions for number in part.partitions
    )


def _committed(request: OffsetCommitRequest) -> list[tuple[TopicPartition, int]]:
    return [
        (TopicPartition(topic.name, part.partition_index), part.committed_offset)
        for topic in request.topics
        for part in topic.partitions
    ]


def _lasting(value: Any) -> tuple[Any, ...]:
    """What of a group's record stays as it is until the next one."""
    assert isinstance(value, GroupMetadataValue)
    members = [(each.member_id, each.group_instance_id, bytes(each.assignment)) for each in value.members]
    return value.generation, value.protocol_type, value.protocol, value.leader, members


def _names(keys: Iterable[TopicPartition]) -> list[str]:
    return [str(key) for key in sorted(keys)]
