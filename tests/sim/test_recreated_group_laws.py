"""The laws of a group that is deleted and made again, against records and answers that break them, and some that do
not."""

from __future__ import annotations

import pytest

from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.offsets import CommittedOffset, commit_record, tombstones
from pykraft.protocol.messages.coordinators import CoordinatorRecord, GroupMetadataKey, GroupMetadataValue
from pykraft.sim.laws.invariants import Violation
from pykraft.sim.laws.recreated_group_laws import NO_MEMBER, RecreatedGroupLaws

PLACE = TopicPartition("t", 0)
CLASSIC = 2


class Group:
    """A group whose first life has committed offset 1 and was deleted, and whose second life has committed offset 2."""

    def __init__(self) -> None:
        self.laws = RecreatedGroupLaws("g")
        self.commits(1)
        self.deletes()
        self.commits(2)

    def commits(self, offset: int, member_id: str = NO_MEMBER) -> None:
        """A commit that is acknowledged."""
        self.laws.send_commit(offset, member_id)
        self.committed(offset)
        self.laws.hear_commit(offset, [PLACE])

    def committed(self, offset: int) -> None:
        """A commit is in the log."""
        self.laws.on_record(commit_record("g", PLACE, CommittedOffset(offset, -1, "", 0)))

    def deletes(self) -> None:
        """The group is deleted, and that is acknowledged."""
        asked = self.laws.ask_deletion()
        self.forgotten()
        self.laws.hear_deletion(asked)

    def forgotten(self) -> None:
        """The tombstone of the offset is in the log."""
        for record in tombstones("g", [PLACE]):
            self.laws.on_record(record)

    def members(self, *member_ids: str) -> None:
        """The record of a classic group with these members."""
        members = [
            GroupMetadataValue.Member(
                member_id=each, client_id="", client_host="", session_timeout=1, subscription=b"", assignment=b""
            )
            for each in member_ids
        ]
        value = GroupMetadataValue(
            protocol_type="consumer", generation=1, protocol="range", leader=None, members=members
        )
        self.laws.on_record(CoordinatorRecord(CLASSIC, GroupMetadataKey(group="g"), 3, value))


def test_a_reader_is_told_what_this_life_of_the_group_has_committed() -> None:
    group = Group()
    group.laws.hear_offsets(group.laws.ask_offsets(), {PLACE: 2})


@pytest.mark.parametrize(
    "told", [pytest.param({PLACE: 1}, id="before the deletion"), pytest.param({}, id="between the two lives")]
)
def test_a_reader_is_not_told_what_was(told: dict[TopicPartition, int]) -> None:
    group = Group()
    with pytest.raises(Violation, match="a reader of g hears"):
        group.laws.hear_offsets(group.laws.ask_offsets(), told)


@pytest.mark.parametrize("told", [{PLACE: 1}, {}, {PLACE: 2}])
def test_a_reader_that_asked_before_the_deletion_may_hear_either_life(told: dict[TopicPartition, int]) -> None:
    group = Group.__new__(Group)
    group.laws = RecreatedGroupLaws("g")
    group.commits(1)
    asked = group.laws.ask_offsets()
    group.deletes()
    group.commits(2)
    group.laws.hear_offsets(asked, told)


def test_a_deletion_that_is_acknowledged_has_left_nothing() -> None:
    group = Group()
    asked = group.laws.ask_deletion()
    with pytest.raises(Violation, match="g was deleted, and has had"):
        group.laws.hear_deletion(asked)


def test_a_commit_without_a_member_may_begin_the_next_life_before_the_deletion_is_heard_of() -> None:
    group = Group()
    group.laws.send_commit(3, NO_MEMBER)
    asked = group.laws.ask_deletion()
    group.forgotten()
    group.committed(3)
    group.laws.hear_deletion(asked)
    group.laws.hear_offsets(group.laws.ask_offsets(), {PLACE: 3})


def test_a_member_commits_while_it_is_one() -> None:
    group = Group()
    group.members("m")
    group.commits(3, "m")


def test_a_member_of_the_life_before_does_not_commit() -> None:
    group = Group()
    group.members("m")
    group.laws.send_commit(3, "m")
    group.members()
    group.deletes()
    group.members("n")
    with pytest.raises(Violation, match="by m, who is no member of it now"):
        group.committed(3)


def test_an_acknowledged_commit_is_in_the_log() -> None:
    group = Group()
    group.laws.send_commit(3, NO_MEMBER)
    with pytest.raises(Violation, match="3 of g was acknowledged, and is not committed"):
        group.laws.hear_commit(3, [PLACE])


def test_what_nobody_sent_is_not_in_the_log() -> None:
    group = Group()
    with pytest.raises(Violation, match="3 is committed in g, and no member sent it"):
        group.committed(3)
