"""Rooms sleep only while they have nothing to do: audited histories say so, and find each mark that is taken away."""

from __future__ import annotations

import pytest

from pykraft.broker.turns.marks import MARKS
from pykraft.sim import cluster
from pykraft.simulation import Simulation
from tests.sim.sleepers import Mark, Witness, die_without, run

WITNESSES = {401: 900, 2: 3000, 100: 3000, 900: 3000, 203: 4000}
"""Histories, each up to a step, in which nearly all marks are needed. Seed 2: a cluster without transactions."""
LONG_WITNESSES: dict[int, int] = {}
ELSEWHERE = frozenset[Mark]()
SEEN = {
    Mark("raft", "answer"): 401,
    Mark("raft", "append"): 401,
    Mark("controller", "metadata"): 401,
    Mark("opening", "epoch"): 401,
    Mark("lifecycle", "registration answer"): 401,
    Mark("replicas", "answer"): 401,
    Mark("replicas", "log to make"): 401,
    Mark("channel", "request"): 401,
    Mark("waiting", "open"): 401,
}
STEPS = 1000


def test_an_audited_history_is_the_same_history(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = []
    for period in (1, 1000):
        monkeypatch.setattr(cluster, "AUDIT_PERIOD", period)
        digests.append(Simulation(401).run().digest)
    assert digests[0] == digests[1]


@pytest.mark.parametrize("lost", SEEN, ids=lambda lost: f"{lost.row}: {lost.why}")
def test_the_audit_finds_the_room_that_a_mark_does_not_wake(lost: Mark, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sleeps with work" in die_without(lost, SEEN[lost], STEPS, monkeypatch)
