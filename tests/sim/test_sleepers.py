"""Rooms sleep only while they have nothing to do: audited histories say so, and find each mark that is taken away."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pykraft.broker.turns.marks import MARKS
from pykraft.sim.laws import sleep_laws
from pykraft.sim.laws.invariants import Violation
from pykraft.sim.laws.sleep_laws import SleepAudit
from pykraft.simulation import Simulation
from tests.sim import scenes
from tests.sim.scenes import Scene
from tests.sim.sleepers import Mark, die_without, lose


class Place(NamedTuple):
    """A history, and a step by which the audit has found the room that lacks the mark."""

    seed: int
    step: int
    deep: float = 0.0
    """How often all that the node holds is compared."""


SEEN = {
    Mark("raft", "change"): Place(6400, 4700),
    Mark("raft", "answer"): Place(401, 100),
    Mark("raft", "vote"): Place(401, 250),
    Mark("raft", "begin"): Place(401, 250),
    Mark("raft", "fetch"): Place(401, 250),
    Mark("raft", "append"): Place(401, 300),
    Mark("raft", "end"): Place(2, 2800),
    Mark("raft", "shutdown"): Place(100, 3000),
    Mark("raft", "hang-up"): Place(103, 6200),
    Mark("controller", "request"): Place(2, 500),
    Mark("controller", "role"): Place(101, 2000),
    Mark("controller", "metadata"): Place(402, 400, deep=0.05),
    Mark("controller-registration", "answer"): Place(401, 300),
    Mark("controller-registration", "metadata"): Place(401, 300),
    Mark("controller-registration", "no answer"): Place(6400, 2500),
    Mark("opening", "epoch"): Place(401, 300),
    Mark("opening", "metadata"): Place(401, 300),
    Mark("lifecycle", "registration answer"): Place(401, 300),
    Mark("lifecycle", "heartbeat answer"): Place(401, 300),
    Mark("lifecycle", "metadata"): Place(16, 500),
    Mark("lifecycle", "shutdown"): Place(3201, 2600),
    Mark("replicas", "log to make"): Place(401, 400),
    Mark("replicas", "followed"): Place(2, 2500),
    Mark("replicas", "answer"): Place(401, 600),
    Mark("groups", "metadata"): Place(2, 2500),
    Mark("groups", "news"): Place(2, 2000),
    Mark("verification", "question"): Place(100, 3000),
    Mark("verification", "answer"): Place(100, 3000),
    Mark("transactions", "news"): Place(100, 3000),
    Mark("transactions", "metadata"): Place(102, 3000),
    Mark("channel", "request"): Place(401, 300),
    Mark("channel", "no answer"): Place(2, 3000),
    Mark("channel", "leader"): Place(401, 300),
    Mark("waiting", "open"): Place(401, 300),
    Mark("slices", "paused"): Place(900, 3000),
}
SCENES: dict[Mark, Scene] = {
    Mark("raft", "snapshot"): scenes.a_voter_that_copies_a_snapshot,
    Mark("raft", "update"): scenes.a_voter_that_tells_what_it_is,
    Mark("raft", "level"): scenes.a_cluster_whose_voters_come_into_the_log,
    Mark("controller-registration", "leader"): scenes.a_controller_that_could_not_register_before_the_leader_resigned,
    Mark("replicas", "log start"): scenes.a_follower_whose_log_ends_before_that_of_its_leader_begins,
    Mark("groups", "batch"): scenes.a_commit_in_a_turn_with_other_requests,
    Mark("groups", "log made"): scenes.a_topic_of_groups_whose_logs_are_made_in_several_turns,
    Mark("groups", "load"): scenes.a_marker_of_a_group_that_cannot_be_replayed,
    Mark("groups", "catch up"): scenes.a_view_whose_log_could_not_be_read,
    Mark("transactions", "load"): scenes.a_decision_on_a_transaction_that_cannot_be_replayed,
    Mark("transactions", "log made"): scenes.a_topic_of_transactions_whose_logs_are_made_in_several_turns,
    Mark("transactions", "markers"): scenes.markers_of_a_transaction_that_is_decided_at_once,
    Mark("transactions", "answer"): scenes.two_transactions_with_markers_for_one_broker,
    Mark("waiting", "rules"): scenes.a_listener_that_waits_for_the_rules,
    Mark("moves", "move"): scenes.a_replica_that_moves_to_another_directory,
    Mark("replicas", "failed directory"): scenes.a_directory_that_fails,
    Mark("lifecycle", "failed directory"): scenes.a_directory_that_fails,
    Mark("directories", "partition"): scenes.a_replica_in_another_directory,
    Mark("directories", "answer"): scenes.a_replica_that_the_controller_does_not_move,
}
"""What is seldom in a history, or comes together with something else there, is a scene of its own."""
QUICK_STEPS = 600


def test_each_mark_has_a_history_or_a_scene_that_misses_it() -> None:
    assert {Mark(row, why) for row, marks in MARKS.items() for why in marks} == {*SEEN, *SCENES}
    assert not SEEN.keys() & SCENES.keys()


def test_an_audited_history_is_the_same_history(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = []
    for period in (1, 1000):
        monkeypatch.setattr(sleep_laws, "AUDIT_PERIOD", period)
        simulation = Simulation(401)
        simulation.at(900)
        traces.append(simulation.trace)
    assert traces[0] == traces[1] and len(traces[0]) > 100


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(mark, marks=[pytest.mark.long] * (place.step > QUICK_STEPS or place.deep > 0))
        for mark, place in SEEN.items()
    ],
    ids=lambda lost: f"{lost.row}: {lost.why}",
)
def test_the_audit_finds_the_room_that_a_mark_does_not_wake(lost: Mark, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, step, deep = SEEN[lost]
    monkeypatch.setattr(SleepAudit.__init__, "__defaults__", (deep,))
    death = die_without(lost, seed, step, monkeypatch)
    name = "" if lost.row == "channel" else repr(lost.row)
    assert f"the room {name}" in death and "sleeps with work" in death, death


@pytest.mark.survives_faults
@pytest.mark.parametrize(
    "lost",
    [pytest.param(mark, marks=[pytest.mark.long] * (mark.row == "raft" and mark.why != "level")) for mark in SCENES],
    ids=lambda lost: f"{lost.row}: {lost.why}",
)
def test_the_audit_of_a_scene_finds_the_room_that_a_mark_does_not_wake(
    lost: Mark, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(lost, monkeypatch)
    with pytest.raises(Violation, match=f"the room {lost.row!r} sleeps with work"):
        SCENES[lost](monkeypatch)


@pytest.mark.survives_faults
@pytest.mark.parametrize("scene", SCENES.values(), ids=lambda scene: scene.__name__)
@pytest.mark.long
def test_no_room_sleeps_with_work_in_a_scene(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene(monkeypatch)
