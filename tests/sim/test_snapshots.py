"""Histories whose nodes write snapshots of the metadata all the time, and let the log's start go, while topics are made
and deleted: no law is broken, and each planted bug breaks one."""

from __future__ import annotations

import pytest

from pykraft.sim.laws.watcher import Progress
from pykraft.sim.trouble.knobs import SNAPSHOT_SEEDS
from pykraft.simulation import Report
from tests.sim import planted_snapshots
from tests.sim.histories import history, in_processes
from tests.sim.planted import PLANTED, first_death

SHORT = (219, 229, 266, 287)
FLOORS = {"snapshots_written": 40, "snapshots_loaded": 4, "log_starts_moved": 40}
LONG_FLOORS = {"snapshots_written": 1_000, "snapshots_loaded": 40, "log_starts_moved": 600}
SEEN = {
    "an_uncommitted_record_in_a_snapshot": 287,
    "a_log_start_moved_before_the_snapshot_is_durable": 215,
    "a_deleted_topic_that_survives_a_snapshot": 294,
    "a_log_that_goes_on_after_a_snapshot_was_copied": 234,
    "a_level_that_is_acknowledged_and_not_written": 201,
    "records_that_are_newer_than_the_level": 200,
}
LAWS = ("Violation", "AssertionError", "DamagedFileError")


@pytest.mark.limit(3600)
def test_no_law_is_broken_and_snapshots_are_written_and_copied(request: pytest.FixtureRequest) -> None:
    is_long = request.config.getoption("--long")
    outcomes = in_processes(history, SNAPSHOT_SEEDS if is_long else SHORT)
    failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert not failures, "\n".join(failures)
    total = sum((outcome.progress for outcome in outcomes if isinstance(outcome, Report)), Progress())
    made = {name: getattr(total, name) for name in FLOORS}
    floors = LONG_FLOORS if is_long else FLOORS
    assert all(made[name] >= floor for name, floor in floors.items()), made


@pytest.mark.limit(900)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    is_long = request.config.getoption("--long")
    names = [name for name, plant in PLANTED.items() if plant.__module__ == planted_snapshots.__name__]
    assert sorted(names) == sorted(SEEN)
    work = [(name, [SEEN[name], *(SNAPSHOT_SEEDS if is_long else ())]) for name in names]
    for name, death in zip(names, in_processes(first_death, work), strict=True):
        assert death is not None, f"{name} survives; --long looks for a seed to record"
        assert any(kind in death for kind in LAWS), death
        assert f"seed {SEEN[name]}," in death, f"record this seed: {death}"
