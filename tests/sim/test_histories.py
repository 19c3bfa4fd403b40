"""A hundred simulated histories: no law is broken in any of them, and enough happens in them to break one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pykraft.sim.knobs import TRANSACTION_SEEDS
from pykraft.sim.watcher import Progress
from pykraft.simulation import Report, Simulation
from tests.harness.tree import ROOT
from tests.sim.histories import SEEDS, history, in_processes

# About half of what was measured when this was written. Less is a simulator that has gone to sleep.
FLOORS = {
    "elections": 140,
    "truncations": 30,
    "isr_changes": 500,
    "acknowledged": 65_000,
    "crashes": 200,
    "classic_rebalances": 57,
    "classic_members_lost": 46,
    "classic_coordinator_moves": 10,
    "consumer_rebalances": 105,
    "consumer_members_lost": 31,
    "consumer_coordinator_moves": 8,
}
TRANSACTION_FLOORS = {
    "committed": 150,
    "aborted": 70,
    "timed_out": 2,
    "fenced": 5,
    "moves_ongoing": 2,
    "moves_prepare_commit": 1,
    "moves_prepare_abort": 1,
}
"""Of the few histories with a bank that every run goes through. A long one has all hundred, and eight times as much."""
LONG_TRANSACTION_FLOORS = {name: 8 * floor for name, floor in TRANSACTION_FLOORS.items()}
SHORT = 8
FLOORS_PER_SEED = {"elections": 1, "isr_changes": 1, "acknowledged": 50, "consumed": 50}


@pytest.fixture(scope="module")
def outcomes() -> list[Report | str]:
    """What came of each seed: its report, or how it failed."""
    return in_processes(history, SEEDS)


@pytest.fixture(scope="module")
def reports(outcomes: list[Report | str]) -> list[Report]:
    return [outcome for outcome in outcomes if isinstance(outcome, Report)]


@pytest.mark.limit(900)
def test_no_law_is_broken_in_a_hundred_histories(outcomes: list[Report | str]) -> None:
    failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert not failures, "\n".join(failures)


def test_in_each_history_records_are_acknowledged_and_read_and_nodes_elected(reports: list[Report]) -> None:
    idle = [
        f"seed {report.seed}: {getattr(report.progress, name)} {name}"
        for report in reports
        for name, floor in FLOORS_PER_SEED.items()
        if getattr(report.progress, name) < floor
    ]
    assert not idle, "\n".join(idle)


def test_the_histories_together_are_eventful(reports: list[Report]) -> None:
    total = sum((report.progress for report in reports), Progress())
    poor = {name: getattr(total, name) for name, floor in FLOORS.items() if getattr(total, name) < floor}
    assert not poor, f"below the floors: {poor}"


@pytest.mark.limit(3600)
def test_with_transactions_no_law_is_broken_and_they_end_in_every_way(request: pytest.FixtureRequest) -> None:
    is_long = request.config.getoption("--long")
    outcomes = in_processes(history, TRANSACTION_SEEDS if is_long else TRANSACTION_SEEDS[:SHORT])
    failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert not failures, "\n".join(failures)
    total = sum((outcome.progress for outcome in outcomes), Progress())
    floors = LONG_TRANSACTION_FLOORS if is_long else TRANSACTION_FLOORS
    poor = {name: getattr(total, name) for name, floor in floors.items() if getattr(total, name) < floor}
    assert not poor, f"below the floors: {poor}"


@pytest.mark.parametrize("seed", [16, 39])
def test_a_seed_gives_the_same_history_whatever_the_hash_seed(seed: int) -> None:
    lines = set()
    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "pykraft", "simulate", str(seed), "--trace", "100000"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        lines.add(done.stdout)
    assert len(lines) == 1
    assert "digest" in lines.pop()


def test_going_back_in_time_is_running_again() -> None:
    run = Simulation(52)
    then = [str(event) for event in run.at(3000).trace]
    later = [str(event) for event in run.at(3500).trace]
    again = [str(event) for event in run.at(3000).trace]
    assert then == again
    assert later[: len(then)] == then and len(later) > len(then)
