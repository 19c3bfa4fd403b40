"""Rooms sleep only while they have nothing to do: audited histories say so, and find each mark that is taken away."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pykraft.broker.turns.marks import MARKS
from pykraft.sim.laws import sleep_laws
from pykraft.sim.laws.sleep_laws import SleepAudit
from pykraft.simulation import Simulation
from tests.sim.sleepers import Mark, die_without


class Place(NamedTuple):
    """A history, and a step by which the audit has found the room that lacks the mark."""

    seed: int
    step: int
    deep: float = 0.0
    """How often all that the node holds is compared."""


SEEN = {
    Mark("raft", "answer"): Place(401, 100),
    Mark("raft", "vote"): Place(401, 250),
    Mark("raft", "begin"): Place(401, 250),
    Mark("raft", "fetch"): Place(401, 250),
    Mark("raft", "append"): Place(401, 300),
    Mark("raft", "end"): Place(2, 2800),
    Mark("raft", "shutdown"): Place(100, 3000),
    Mark("raft", "hang-up"): Place(103, 6200),
    Mark("controller", "request"): Place(2, 500),
    Mark("controller", "role"): Place(100, 3000),
    Mark("controller", "metadata"): Place(401, 300, deep=0.05),
    Mark("controller-registration", "answer"): Place(401, 300),
    Mark("controller-registration", "metadata"): Place(401, 300),
    Mark("controller-registration", "no answer"): Place(10, 3100),
    Mark("opening", "epoch"): Place(401, 300),
    Mark("opening", "metadata"): Place(401, 300),
    Mark("lifecycle", "registration answer"): Place(401, 300),
    Mark("lifecycle", "heartbeat answer"): Place(401, 300),
    Mark("lifecycle", "metadata"): Place(203, 500),
    Mark("lifecycle", "shutdown"): Place(3201, 2600),
    Mark("replicas", "log to make"): Place(401, 400),
    Mark("replicas", "followed"): Place(2, 2500),
    Mark("replicas", "answer"): Place(401, 600),
    Mark("groups", "metadata"): Place(2, 2500),
    Mark("groups", "news"): Place(2, 2000),
    Mark("groups", "log made"): Place(900, 3000),
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
UNSEEN = {
    Mark("raft", "snapshot"): "comes together with others",
    Mark("raft", "update"): "comes together with others",
    Mark("raft", "level"): "only an administrator raises it",
    Mark("controller", "leader"): "comes together with `metadata`, unless a slice ends between",
    Mark("controller-registration", "leader"): "a controller that registers knows the leader",
    Mark("lifecycle", "start"): "before its first turn a room is marked",
    Mark("replicas", "log start"): "comes together with an answer",
    Mark("groups", "load"): "only after a record that cannot be replayed",
    Mark("groups", "catch up"): "a view that has lost its notes is read",
    Mark("transactions", "load"): "only after a record that cannot be replayed",
    Mark("transactions", "log made"): "comes together with `metadata`",
    Mark("transactions", "markers"): "its own poll sends most of them",
    Mark("transactions", "answer"): "comes together with `news`",
    Mark("directories", "partition"): "only after a disk was replaced",
    Mark("directories", "answer"): "only after a disk was replaced",
}
"""No history is known yet in which the audit finds that the mark is missing."""
QUICK_STEPS = 600


def test_every_mark_is_either_seen_or_known_to_be_unseen() -> None:
    assert {Mark(row, why) for row, marks in MARKS.items() for why in marks} == {*SEEN, *UNSEEN}


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
