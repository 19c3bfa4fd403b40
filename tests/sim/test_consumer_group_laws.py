"""The laws of a consumer group, against records, heartbeats and commits that break them, and some that do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykraft.common.types import TopicPartition, Uuid
from pykraft.coordinator.group.consumer_groups.consumer_group_member import ConsumerGroupMember, MemberState
from pykraft.coordinator.group.consumer_groups.consumer_group_records import (
    current_assignment_record,
    epoch_record,
    member_tombstones,
    target_epoch_record,
    target_record,
)
from pykraft.coordinator.group.offsets import NO_EXPIRY, CommittedOffset, commit_record
from pykraft.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedPartitions,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from pykraft.sim.laws.consumer_group_laws import ConsumerGroupLaws
from pykraft.sim.laws.invariants import Violation

T = Uuid(b"t" * 16)
ERROR = 15


def keys(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("t", number) for number in numbers)


class Group:
    """A group with two members. `a` has the partitions 0 and 1 in epoch 1, and its user has taken them over."""

    def __init__(self, has_ghosts: bool = False) -> None:
        self.laws = ConsumerGroupLaws("g", has_ghosts, lambda topic_id: "t")
        self.epoch = 0
        self.target(a=(0, 1))
        self.assign("a", 1, (0, 1))
        self.hear("a", 0, (), 1, (0, 1))
        self.laws.own("a", keys(0, 1))

    def target(self, **partitions: tuple[int, ...]) -> None:
        """The next epoch, with this target."""
        self.epoch += 1
        self.laws.on_record(epoch_record("g", self.epoch, 0))
        for member_id, numbers in partitions.items():
            self.laws.on_record(target_record("g", member_id, {T: frozenset(numbers)}))
        self.laws.on_record(target_epoch_record("g", self.epoch))

    def assign(
        self,
        member_id: str,
        epoch: int,
        assigned: tuple[int, ...],
        pending: tuple[int, ...] = (),
        state: MemberState = MemberState.UNRELEASED_PARTITIONS,
    ) -> None:
        """The record of what a member has."""
        member = ConsumerGroupMember(
            member_id,
            epoch,
            epoch,
            state,
            assigned={T: frozenset(assigned)},
            pending_revocation={T: frozenset(pending)},
        )
        self.laws.on_record(current_assignment_record("g", member))

    def send(self, member_id: str, epoch: int, owned: tuple[int, ...]) -> Callable[..., None]:
        """A heartbeat under way; call the result to answer it."""
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=[OwnedPartitions(topic_id=T, partitions=list(owned))],
        )
        claim = self.laws.send_heartbeat(request)

        def answer(new_epoch: int, assigned: tuple[int, ...], error: int = 0) -> None:
            parts = [OwnedPartitions(topic_id=T, partitions=list(assigned))]
            response = ConsumerGroupHeartbeatResponse(
                error_code=error,
                member_id=member_id,
                member_epoch=new_epoch,
                assignment=ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=parts),
            )
            self.laws.hear_heartbeat(claim, response)

        return answer

    def hear(self, member_id: str, epoch: int, owned: tuple[int, ...], new: int, assigned: tuple[int, ...]) -> None:
        self.send(member_id, epoch, owned)(new, assigned)

    def commits(self, member_id: str, epoch: int, offset: int, is_answered: bool = True) -> None:
        """A member sends a commit."""
        topic_type = OffsetCommitRequest.Topic
        part = topic_type.Partition(partition_index=0, committed_offset=offset)
        sent = self.laws.send_commit(
            OffsetCommitRequest(
                group_id="g",
                member_id=member_id,
                generation_id_or_member_epoch=epoch,
                topics=[topic_type(name="t", partitions=[part])],
            )
        )
        sent[0].is_answered = is_answered

    def committed(self, offset: int) -> None:
        """The commit is in the log."""
        value = CommittedOffset(offset, -1, "", 0, NO_EXPIRY, T)
        self.laws.on_record(commit_record("g", TopicPartition("t", 0), value))


def test_a_partition_goes_to_another_member_when_its_owner_has_given_it_up() -> None:
    group = Group()
    group.target(a=(0,), b=(1,))
    group.assign("b", 2, ())
    group.assign("a", 1, (0,), (1,), MemberState.UNREVOKED_PARTITIONS)
    group.laws.give_up("a", keys(1))
    group.send("a", 1, (0,))
    group.assign("a", 2, (0,), state=MemberState.STABLE)
    group.assign("b", 2, (1,), state=MemberState.STABLE)


def test_a_partition_that_is_pending_revocation_belongs_to_its_owner() -> None:
    group = Group()
    group.target(a=(0,), b=(1,))
    group.assign("a", 1, (0,), (1,), MemberState.UNREVOKED_PARTITIONS)
    with pytest.raises(Violation, match="t-1 is assigned to b, and a has not revoked it"):
        group.assign("b", 2, (1,))


def test_a_partition_is_not_taken_from_a_member_whose_user_owns_it() -> None:
    group = Group()
    group.target(a=(0,), b=(1,))
    with pytest.raises(Violation, match="t-1 was taken from a, which still owns it in epoch 1"):
        group.assign("a", 2, (0,))


def test_a_removed_member_owns_nothing_that_counts() -> None:
    group = Group()
    for record in member_tombstones("g", "a"):
        group.laws.on_record(record)
    group.target(b=(0, 1))
    group.assign("b", 2, (0, 1), state=MemberState.STABLE)


@pytest.mark.parametrize(("has_ghosts", "is_late"), [(True, False), (False, True), (False, False)])
def test_a_heartbeat_that_arrives_late_may_cost_a_member_its_partition(has_ghosts: bool, is_late: bool) -> None:
    group = Group(has_ghosts)
    group.laws.give_up("a", keys(1))
    answer = group.send("a", 1, (0,))
    if not is_late:
        answer(1, (0, 1))
    group.laws.own("a", keys(0, 1))
    group.target(a=(0,))
    if has_ghosts or is_late:
        group.assign("a", 2, (0,))
    else:
        with pytest.raises(Violation, match="was taken from a"):
            group.assign("a", 2, (0,))


def test_after_an_error_the_coordinator_may_have_taken_the_heartbeat_all_the_same() -> None:
    group = Group()
    group.laws.give_up("a", keys(1))
    group.send("a", 1, (0,))(1, (), error=ERROR)
    group.laws.own("a", keys(0, 1))
    group.target(a=(0,))
    group.assign("a", 2, (0,))


def test_a_heartbeat_names_all_that_the_members_user_owns() -> None:
    with pytest.raises(Violation, match=r"a says that it has given up \['t-1'\], and still owns them"):
        Group().send("a", 1, (0,))


def test_what_a_member_hears_is_committed() -> None:
    group = Group()
    with pytest.raises(Violation, match=r"a hears \['t-0'\] in epoch 1, of which no record is committed"):
        group.hear("a", 1, (0, 1), 1, (0,))


def test_a_member_owns_only_what_it_was_given() -> None:
    with pytest.raises(Violation, match=r"a owns \['t-2'\], which the coordinator never gave it"):
        Group().laws.own("a", keys(2))


@pytest.mark.parametrize(
    ("epoch", "assigned", "state", "words"),
    [
        (2, (0, 1), MemberState.UNRELEASED_PARTITIONS, r"its target of epoch 2 is \['t-0'\]"),
        (2, (), MemberState.STABLE, r"its target of epoch 2 is \['t-0'\]"),
        (0, (0,), MemberState.UNREVOKED_PARTITIONS, "a goes back from epoch 1 to 0"),
        (3, (0,), MemberState.STABLE, "a is in epoch 3, the target is of 2"),
    ],
)
def test_what_a_member_has_is_of_the_target_of_its_epoch(
    epoch: int, assigned: tuple[int, ...], state: MemberState, words: str
) -> None:
    group = Group()
    group.target(a=(0,))
    group.laws.give_up("a", keys(0, 1))
    with pytest.raises(Violation, match=words):
        group.assign("a", epoch, assigned, state=state)


def test_a_target_gives_a_partition_to_one_member() -> None:
    with pytest.raises(Violation, match="the target of epoch 2 gives t-1 to a and to b"):
        Group().target(b=(1,))


def test_a_commit_is_of_the_epoch_in_which_its_member_is_in_the_log() -> None:
    group = Group()
    group.laws.read(TopicPartition("t", 0), 0)
    group.commits("a", 1, 1)
    group.committed(1)
    group.target(a=(0, 1))
    group.assign("a", 2, (0, 1))
    group.commits("a", 1, 0)
    with pytest.raises(Violation, match="offset 0 was committed in epoch 2 of g"):
        group.committed(0)


@pytest.mark.parametrize("is_answered", [True, False])
def test_only_a_late_commit_moves_the_offset_back_within_an_epoch(is_answered: bool) -> None:
    group = Group()
    group.laws.read(TopicPartition("t", 0), 0)
    group.commits("a", 1, 0, is_answered)
    group.commits("a", 1, 1)
    group.committed(1)
    if not is_answered:
        group.committed(0)
        return
    with pytest.raises(Violation, match="the committed offset goes back from 1 to 0"):
        group.committed(0)
