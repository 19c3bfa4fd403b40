"""Replicas move to other brokers: each refusal by its error code, and the partition after each of the two records."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import ErrorCode
from pykraft.common.types import UNASSIGNED_DIRECTORY
from pykraft.controller.partitions.assignment import Assignment, completed, reassigned, reverted
from pykraft.metadata.image import TOPIC_RESOURCE
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from tests.harness.controllers import NOBODY, SESSION_MS, ControllerScript, new_topic
from tests.harness.quorum import directory_id

WRONG, NONE = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NONE
UNCLEAN = {"unclean.leader.election.enable": "true"}


def cluster(*brokers: int, replicas: Sequence[int] = (1, 2)) -> ControllerScript:
    """A topic "t" with one partition on these replicas."""
    script = ControllerScript()
    script.bring_up(*(brokers or (1, 2, 3, 4)))
    assert script.create(new_topic("t", assignment={0: replicas})) == {"t": NONE}
    return script


def assignment(script: ControllerScript) -> Assignment:
    return Assignment.of(script.partition("t"))


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "number", "target", "error"),
    [
        ("t", 0, [3, 4], NONE),
        ("t", 0, [3], NONE),
        ("t", 0, [1, 2], NONE),
        ("t", 0, [], WRONG),
        ("t", 0, [3, 3], WRONG),
        ("t", 0, [3, 9], WRONG),
        ("t", 0, [-1], WRONG),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 1, [3, 4], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, [3], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_becomes_of_a_partition_that_is_to_move(
    name: str, number: int, target: Sequence[int] | None, error: ErrorCode
) -> None:
    script = cluster()
    before = script.image.topics
    assert script.reassign((name, number, target)) == [error]
    if error:
        assert script.image.topics == before and script.reassigning() == []


@pytest.mark.parametrize(
    ("target", "error"), [([3, 4], NONE), ([1], ErrorCode.INVALID_REPLICATION_FACTOR), ([1, 2, 3], 38), ([1, 9], WRONG)]
)
def test_a_request_may_hold_on_to_the_number_of_replicas(target: Sequence[int], error: ErrorCode) -> None:
    script = cluster()
    assert script.reassign(("t", 0, target), allow_replication_factor_change=False) == [error]


def test_the_number_of_replicas_that_a_request_holds_on_to_is_that_of_the_target() -> None:
    script = cluster()
    script.reassign(("t", 0, [3, 4]))
    assert len(script.partition("t").replicas) == 4
    assert script.reassign(("t", 0, [1, 3]), allow_replication_factor_change=False) == [NONE]


def test_each_partition_of_a_request_is_judged_alone() -> None:
    script = cluster()
    assert script.reassign(("t", 0, [3]), ("t", 7, [3]), ("u", 0, [3])) == [NONE, 3, 3]
    assert assignment(script) == Assignment((3, 1, 2), adding=(3,), removing=(1, 2))


def test_the_last_of_two_targets_in_one_request_counts() -> None:
    script, other = cluster(), cluster()
    assert script.reassign(("t", 0, [3, 1]), ("t", 0, [4, 1])) == [NONE, NONE]
    other.reassign(("t", 0, [3, 1]))
    other.reassign(("t", 0, [4, 1]))
    assert assignment(script) == assignment(other) == Assignment((4, 1, 2, 3), adding=(4,), removing=(2, 3))
    assert script.reassign(("t", 0, [1, 2]), ("t", 0, None)) == [NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]


# --- the two records --------------------------------------------------------------------------------------------------


def test_a_replica_leaves_when_the_one_for_it_is_in_sync() -> None:
    script = cluster()
    script.reassign(("t", 0, [3, 2]))
    between = script.partition("t")
    assert Assignment.of(between) == Assignment((3, 2, 1), adding=(3,), removing=(1,))
    assert (between.isr, between.leader, between.leader_epoch, between.partition_epoch) == ((1, 2), 1, 0, 1)
    assert between.directories == tuple(directory_id(100 + n) for n in (3, 2, 1))
    answer = script.alter("t", [1, 2, 3])
    after = script.partition("t")
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED, "the leader left with the same record"
    assert Assignment.of(after) == Assignment((3, 2))
    assert (set(after.isr), after.leader, after.leader_epoch, after.partition_epoch) == ({2, 3}, 3, 1, 2)
    assert after.directories == tuple(directory_id(100 + n) for n in (3, 2))


def test_nothing_leaves_until_all_of_the_target_are_in_sync() -> None:
    script = cluster(replicas=(1, 2))
    script.reassign(("t", 0, [3, 4]))
    script.alter("t", [1, 2, 3])
    assert assignment(script) == Assignment((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    script.alter("t", [1, 2, 3, 4])
    assert (assignment(script), set(script.partition("t").isr)) == (Assignment((3, 4)), {3, 4})


def test_a_leader_that_stays_gets_a_new_epoch_when_another_replica_leaves() -> None:
    script = cluster()
    script.reassign(("t", 0, [1, 3]))
    answer = script.alter("t", [1, 2, 3])
    after = script.partition("t")
    assert (answer.error_code, answer.leader_epoch, set(answer.isr)) == (NONE, 1, {1, 3})
    assert (after.replicas, after.leader, after.leader_epoch) == ((1, 3), 1, 1)


def test_a_leader_that_only_gains_a_replica_keeps_its_epoch() -> None:
    script = cluster()
    script.reassign(("t", 0, [1, 2, 3]))
    script.alter("t", [1, 2, 3])
    after = script.partition("t")
    assert (Assignment.of(after), after.leader_epoch, after.partition_epoch) == (Assignment((1, 2, 3)), 0, 2)


@pytest.mark.parametrize(
    ("target", "leader", "epoch"), [([1], 1, 1), ([2], 2, 1), ([2, 1], 1, 0), ([1, 2], 1, 0), ([2, 3, 1], 1, 0)]
)
def test_what_is_in_sync_already_is_done_with_one_record(target: Sequence[int], leader: int, epoch: int) -> None:
    script = cluster(replicas=(1, 2, 3) if 3 in target else (1, 2))
    before = script.partition("t")
    script.reassign(("t", 0, target))
    after = script.partition("t")
    assert (Assignment.of(after), after.leader, after.leader_epoch) == (Assignment(tuple(target)), leader, epoch)
    assert after.partition_epoch == (tuple(target) != before.replicas)


def test_a_replica_of_a_broker_with_several_directories_has_none_yet() -> None:
    script = cluster(1, 2)
    script.register(3, log_dirs=[directory_id(103), directory_id(104)])
    script.reassign(("t", 0, [1, 3]))
    assert script.partition("t").directories[1] == UNASSIGNED_DIRECTORY


# --- cancelling, and changing one's mind ------------------------------------------------------------------------------


def test_to_cancel_is_to_go_back() -> None:
    script = cluster()
    before = script.partition("t")
    script.reassign(("t", 0, [3, 2]))
    assert script.reassign(("t", 0, None)) == [NONE]
    after = script.partition("t")
    assert Assignment.of(after) == Assignment((2, 1)), "Kafka has forgotten in which order they were"
    assert (set(after.isr), after.leader, after.leader_epoch) == (set(before.isr), before.leader, 1)
    assert script.reassign(("t", 0, None)) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]


def test_a_replica_that_was_added_and_led_loses_the_lead_when_the_reassignment_is_cancelled() -> None:
    script = cluster()
    script.reassign(("t", 0, [3, 4]))
    script.alter("t", [1, 2, 3])
    script.live(3, 2 * SESSION_MS)
    assert script.partition("t").leader == 3
    script.heartbeat(1)
    script.heartbeat(2)
    assert script.partition("t").isr == (3,)
    assert script.reassign(("t", 0, None)) == [WRONG], "the only replica in sync would leave"
    script.configure(TOPIC_RESOURCE, "t", UNCLEAN)
    assert script.reassign(("t", 0, None)) == [NONE]
    after = script.partition("t")
    assert (Assignment.of(after), after.isr, after.leader) == (Assignment((1, 2)), (1,), 1)


def test_another_target_takes_the_place_of_the_first() -> None:
    script = cluster()
    script.reassign(("t", 0, [3, 2]))
    script.reassign(("t", 0, [4, 2]))
    assert assignment(script) == Assignment((4, 2, 1, 3), adding=(4,), removing=(1, 3))
    script.alter("t", [1, 2, 4])
    assert assignment(script) == Assignment((4, 2))


def test_the_old_replicas_as_a_target_end_the_reassignment() -> None:
    script = cluster()
    script.reassign(("t", 0, [3, 2]))
    script.reassign(("t", 0, [1, 2]))
    assert (assignment(script), script.reassigning()) == (Assignment((1, 2)), [])


# --- brokers and topics that go meanwhile -----------------------------------------------------------------------------


def test_a_reassignment_waits_for_a_broker_that_is_fenced_and_goes_on_when_it_is_back() -> None:
    script = cluster(1, 2, 3)
    script.reassign(("t", 0, [1, 3]))
    script.live(1, 2 * SESSION_MS)
    assert script.partition("t").isr == (1,)
    assert assignment(script) == Assignment((1, 3, 2), adding=(3,), removing=(2,))
    assert script.alter("t", [1, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    script.heartbeat(3)
    script.alter("t", [1, 3])
    assert assignment(script) == Assignment((1, 3))


def test_a_leader_that_is_fenced_meanwhile_may_be_followed_by_an_added_replica() -> None:
    script = cluster(1, 2, 3, 4, replicas=(1,))
    script.reassign(("t", 0, [3, 4]))
    script.alter("t", [1, 3])
    script.live(3, 2 * SESSION_MS)
    assert (script.partition("t").leader, script.partition("t").isr) == (3, (3,))
    assert assignment(script).is_in_progress
    script.heartbeat(4)
    script.alter("t", [3, 4])
    assert (assignment(script), script.partition("t").leader) == (Assignment((3, 4)), 3)


def test_a_reassignment_ends_with_its_topic() -> None:
    script = cluster()
    script.reassign(("t", 0, [3, 4]))
    assert [name for name, _, _ in script.reassigning()] == ["t"]
    script.delete(DeleteTopicsRequest.Topic(name="t"))
    assert script.reassigning() == []


def test_a_partition_without_a_leader_may_be_moved_and_has_one_when_a_replica_in_sync_is_back() -> None:
    script = cluster(1, 2, 3, replicas=(1, 2))
    script.live(3, 2 * SESSION_MS)
    (last,) = script.partition("t").eligible_leader_replicas
    assert script.partition("t").leader == NOBODY
    assert script.reassign(("t", 0, [3])) == [NONE]
    assert script.partition("t").leader == NOBODY
    script.heartbeat(last)
    script.alter("t", [last, 3])
    assert (assignment(script), script.partition("t").leader) == (Assignment((3,)), 3)


# --- listing ----------------------------------------------------------------------------------------------------------


def test_only_what_is_asked_about_and_is_in_progress_is_listed() -> None:
    script = cluster()
    script.create(new_topic("u", assignment={0: [1], 1: [2], 2: [3]}))
    script.reassign(("t", 0, [3, 2]), ("u", 0, [4]), ("u", 2, [4]))
    t = ("t", 0, Assignment((3, 2, 1), (3,), (1,)))
    u = [("u", 0, Assignment((4, 1), (4,), (1,))), ("u", 2, Assignment((4, 3), (4,), (3,)))]
    assert sorted(script.reassigning()) == [t, *u]
    assert script.reassigning(("u", [1, 2, 9]), ("v", [0]), ("t", [])) == u[1:]


# --- laws -------------------------------------------------------------------------------------------------------------

brokers = st.lists(st.integers(1, 5), min_size=1, max_size=4, unique=True)


@given(brokers, st.lists(st.tuples(brokers, st.sets(st.integers(1, 5))), max_size=4))
def test_a_reassignment_ends_with_all_of_its_target_in_sync_and_never_sooner(
    replicas: list[int], steps: list[tuple[list[int], set[int]]]
) -> None:
    now = Assignment(tuple(replicas))
    for target, in_sync in steps:
        now = reassigned(now, target)
        assert now.replicas[: len(target)] == tuple(target)
        assert set(now.adding) | set(now.removing) <= set(now.replicas)
        isr = [replica for replica in now.replicas if replica in in_sync]
        done = completed(now, isr)
        original, kept, may_lack_records = reverted(now, isr)
        assert (set(kept) <= set(original.replicas)) and (may_lack_records or set(kept) <= in_sync)
        assert (done is not None) == (now.is_in_progress and now.target != () and set(now.target) <= in_sync)
        if done is not None:
            after, isr_after = done
            assert not after.is_in_progress and set(isr_after) == set(after.replicas) == set(now.target)
            now = after
