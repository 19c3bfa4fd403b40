"""What follows when a record of a classic group is committed, or will not be.

Members wait for three kinds of records: that there is a new group, the assignment that a leader has sent, and the new
id of a static member that is back. Until such a record is committed the group goes on: members join and leave, and a
rebalance may begin. So each of these remembers what it was about, and does nothing if that is over.

Follows org.apache.kafka.coordinator.group.GroupMetadataManager (the append futures of its classicGroup methods).
"""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.coordinator.group.classic_groups.classic_group import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    answer_join,
    refused_join,
)
from pykraft.coordinator.result import CoordinatorResult
from pykraft.protocol.messages.groups import JoinGroupResponse
from pykraft.protocol.messages.offsets import NO_MEMBER

_FIRST_SKIP_ASSIGNMENT = 9


class Steps(Protocol):
    """What the groups do next."""

    def dissolve(self, group: ClassicGroup) -> None: ...

    def expect_heartbeat(self, group: ClassicGroup, member: ClassicMember) -> None: ...

    def rebalance(self, group: ClassicGroup) -> CoordinatorResult[None] | None: ...

    def answer_syncs(self, group: ClassicGroup, error: ErrorCode) -> None: ...

    def settle(self, group: ClassicGroup) -> None: ...


@dataclass(slots=True)
class FirstRecord:
    """A new group is written down. If the log does not take that, the group is gone again, and what was `before` in its
    place is back."""

    steps: Steps
    groups: MutableMapping[str, Any]
    group: ClassicGroup
    before: Any
    answer: Promise[JoinGroupResponse]
    """Of the member for which the group was made."""
    is_written: bool = False

    def on_written(self, now: int) -> None:
        self.is_written = True

    def on_end(self, error: KafkaError | None, now: int) -> None:
        if error is None:
            return
        if not self.answer.kept:
            self.answer.keep(refused_join(NO_MEMBER, error.code))
        group_id = self.group.group_id
        if not self.is_written and self.groups.get(group_id) is self.group:
            self.steps.dissolve(self.group)
            del self.groups[group_id]
            if self.before is not None:
                self.groups[group_id] = self.before


@dataclass(slots=True)
class StaticReturn:
    """A static member is back under a new id, and its group stays as it is."""

    steps: Steps
    group: ClassicGroup
    member: ClassicMember
    old_id: str
    before: tuple[Any, int, int]
    """Its protocols and timeouts under the old id."""
    generation: int
    leader_before: str | None
    version: int

    def on_end(self, error: KafkaError | None, now: int) -> None:
        group, member = self.group, self.member
        if group.state is not ClassicState.STABLE or group.generation != self.generation:
            return  # a rebalance has begun, and answers it under its new id
        if error is not None:  # it is not known by its new id: the old one holds
            member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms = self.before
            answer_join(member, refused_join(NO_MEMBER, error.code))
            if member.member_id in group.members and member.instance_id is not None:
                known = group.replace_static(member.instance_id, member.member_id, self.old_id)
                self.steps.expect_heartbeat(group, known)
        elif self.version >= _FIRST_SKIP_ASSIGNMENT:
            leads = group.leader_id == member.member_id
            answer_join(member, group.joined(member, group.leader_id, skip_assignment=leads))
        else:
            # Up to version 8 the answer has the leader's old id, so that the member does not assign.
            answer_join(member, group.joined(member, self.leader_before))


@dataclass(slots=True)
class LeadersAssignment:
    """The assignment of a generation, which all its members wait for in SyncGroup."""

    steps: Steps
    group: ClassicGroup
    assignments: Mapping[str, bytes]
    generation: int

    def on_end(self, error: KafkaError | None, now: int) -> CoordinatorResult[None] | None:
        group = self.group
        if group.state is not ClassicState.COMPLETING_REBALANCE or group.generation != self.generation:
            return None  # another member joined meanwhile
        for member in group.members.values():
            member.assignment = b"" if error is not None else self.assignments.get(member.member_id, b"")
        if error is not None:
            self.steps.answer_syncs(group, error.code)
            return self.steps.rebalance(group)
        self.steps.settle(group)
        return None
