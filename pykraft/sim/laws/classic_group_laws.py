"""The laws of membership in a classic group: generations, and who owns a partition in each.

A *generation* of the group begins in the log with the record of its assignment. Generations only grow along the log. A
record assigns a partition to one member. A member owns what the committed record of its generation assigns to it, so a
partition has at most one owner in a generation.

Follows what org.apache.kafka.coordinator.group.classic.ClassicGroup and KIP-429 promise.
"""

from collections.abc import Hashable
from typing import Any

from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup
from pykraft.protocol.messages.coordinators import ConsumerProtocolAssignment, CoordinatorRecord, GroupMetadataValue
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from pykraft.sim.laws.group_laws import GroupLaws, names
from pykraft.sim.laws.invariants import Violation, require

_NO_GENERATION = -1
_VERSION_BYTES = 2


class ClassicGroupLaws(GroupLaws):
    """Holds one classic group against its laws."""

    def __init__(self, group_id: str, has_ghosts: bool) -> None:
        super().__init__(group_id, has_ghosts)
        self.generation = _NO_GENERATION
        self.metadata: GroupMetadataValue | None = None
        """The last committed record of the group."""
        self._assigned: dict[int, dict[str, frozenset[TopicPartition]]] = {}
        """By generation and member id, as the committed records say."""
        self._owners: dict[int, dict[TopicPartition, str]] = {}
        """By generation and partition, as the members say."""

    @property
    def epoch(self) -> int:
        return self.generation

    def tenure(self, request: OffsetCommitRequest) -> int:
        return request.generation_id_or_member_epoch

    def is_present(self, tenure: Hashable) -> bool:
        return tenure == self.generation

    def on_group_record(self, record: CoordinatorRecord) -> None:
        value = record.value
        if not isinstance(value, GroupMetadataValue):
            raise Violation(f"{self.group_id} was deleted")
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

    def own(self, member_id: str, name: str, generation: int, owned: frozenset[TopicPartition]) -> None:
        """A member has taken over its assignment. `name` stays when a static member comes back under a new id."""
        assigned = self._assigned.get(generation, {}).get(member_id)
        require(
            assigned is not None,
            f"{member_id} was given an assignment of generation {generation}, of which no record is committed",
        )
        require(
            assigned == owned,
            f"{member_id} owns {names(owned)} in generation {generation}, and is assigned {names(assigned or ())}",
        )
        owners = self._owners.setdefault(generation, {})
        for key in sorted(owned):
            other = owners.setdefault(key, name)
            require(other == name, f"{key} is owned by {other} and by {name} in generation {generation}")

    def check_group(self, what: str, group: Any) -> None:
        assert isinstance(group, ClassicGroup)
        found = group.record(group.assignments()).value
        require(_lasting(found) == _lasting(self.metadata), f"{what} {found}; the last record is {self.metadata}")


def assigned_partitions(data: bytes) -> frozenset[TopicPartition]:
    """The partitions in a member's assignment."""
    if not data:
        return frozenset()
    version = int.from_bytes(data[:_VERSION_BYTES], "big")
    found = ConsumerProtocolAssignment.decode(data, version, _VERSION_BYTES)
    return frozenset(
        TopicPartition(part.topic, number) for part in found.assigned_partitions for number in part.partitions
    )


def _lasting(value: Any) -> tuple[Any, ...]:
    """What of a group's record stays as it is until the next one."""
    assert isinstance(value, GroupMetadataValue)
    members = [(each.member_id, each.group_instance_id, bytes(each.assignment)) for each in value.members]
    return value.generation, value.protocol_type, value.protocol, value.leader, members
