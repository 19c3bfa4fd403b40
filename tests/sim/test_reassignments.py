"""Histories in which partitions move between brokers, and moves are cancelled: no law is broken, what was acknowledged
stays, every move ends when the trouble has ended; and each planted bug breaks a law."""

from __future__ import annotations

import pytest

from pykraft.sim.laws.watcher import Progress
from pykraft.sim.trouble.knobs import REASSIGNMENT_SEEDS
from pykraft.simulation import Report
from tests.sim import planted_reassignments
from tests.sim.histories import history, in_processes
from tests.sim.planted import PLANTED, first_death

SHORT = (802, 841)
FLOORS = {"reassignments_completed": 13, "reassignments_cancelled": 3}
LONG_FLOORS = {"reassignments_completed": 200, "reassignments_cancelled": 20}
SEEN = {
    "a_reassignment_completed_one_replica_early": 841,
    "a_reassignment_acknowledged_and_not_written": 805,
}


@pytest.mark.limit(3600)
def test_no_law_is_broken_and_partitions_move(request: pytest.FixtureRequest) -> None:
    is_long = request.config.getoption("--long")
    outcomes = in_processes(history, REASSIGNMENT_SEEDS if is_long else SHORT)
    failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert not failures, "\n".join(failures)
    total = sum((outcome.progress for outcome in outcomes if isinstance(outcome, Report)), Progress())
    made = {name: getattr(total, name) for name in FLOORS}
    floors = LONG_FLOORS if is_long else FLOORS
    assert all(made[name] >= floor for name, floor in floors.items()), made


@pytest.mark.limit(900)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    is_long = request.config.getoption("--long")
    names = [name for name, plant in PLANTED.items() if plant.__module__ == planted_reassignments.__name__]
    assert sorted(names) == sorted(SEEN)
    work = [(name, [SEEN[name], *(REASSIGNMENT_SEEDS if is_long else ())]) for name in names]
    for name, death in zip(names, in_processes(first_death, work), strict=True):
        assert death is not None, f"{name} survives; --long looks for a seed to record"
        assert "Violation" in death, death
        assert f"seed {SEEN[name]}," in death, f"record this seed: {death}"
