"""Simulated histories, six or in a long run a hundred: no law is broken, and enough happens in them to break one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pykraft.sim.cluster import SETTLE_LIMIT_OF_A_BANK_US
from pykraft.sim.laws.progress import Progress
from pykraft.sim.trouble.knobs import TRANSACTION_SEEDS, draw
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.simulation import Report, Simulation
from tests.harness.tree import ROOT
from tests.sim import histories
from tests.sim.histories import history, in_processes

# About half of what was measured when this was written. Less is a simulator that has gone to sleep.
FLOORS = {
    "elections": 7,
    "truncations": 5,
    "isr_changes": 40,
    "acknowledged": 1_700,
    "consumed_from_followers": 210,
    "crashes": 11,
    "classic_rebalances": 6,
    "classic_members_lost": 6,
    "classic_coordinator_moves": 1,
    "consumer_rebalances": 11,
    "consumer_members_lost": 3,
    "consumer_coordinator_moves": 1,
}
LONG_FLOORS = {
    "elections": 140,
    "truncations": 30,
    "isr_changes": 500,
    "acknowledged": 65_000,
    "consumed_from_followers": 1_000,
    "crashes": 200,
    "classic_rebalances": 57,
    "classic_members_lost": 46,
    "classic_coordinator_moves": 10,
    "consumer_rebalances": 105,
    "consumer_members_lost": 31,
    "consumer_coordinator_moves": 8,
}
SHORT = {0: (113,), 2: (117,)}
"""By transaction.version, the lowest and the highest: the histories with a bank that every run goes through. A long one
has all hundred, a third of them at version 1."""
COUNTED = (
    "committed",
    "aborted",
    "timed_out",
    "fenced",
    "moves_ongoing",
    "moves_prepare_commit",
    "moves_prepare_abort",
)
TRANSACTION_FLOORS = {0: (50, 15, 1, 0, 1, 1, 0), 2: (70, 30, 1, 1, 0, 0, 0)}
LONG_TRANSACTION_FLOORS = {
    0: (750, 330, 13, 17, 10, 1, 2),
    1: (660, 300, 10, 14, 4, 1, 2),
    2: (1000, 430, 8, 20, 6, 5, 1),
}
"""By transaction.version, of what is counted."""
FLOORS_PER_SEED = {"elections": 1, "isr_changes": 1, "acknowledged": 50, "consumed": 50}


@pytest.fixture(scope="module")
def outcomes(pytestconfig: pytest.Config) -> list[Report | str]:
    """What came of each seed: its report, or how it failed."""
    return in_processes(history, histories.SEEDS if pytestconfig.getoption("--long") else histories.SHORT)


@pytest.fixture(scope="module")
def reports(outcomes: list[Report | str]) -> list[Report]:
    return [outcome for outcome in outcomes if isinstance(outcome, Report)]


@pytest.mark.limit(900)
def test_no_law_is_broken_in_any_history(outcomes: list[Report | str]) -> None:
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


def test_the_histories_together_are_eventful(reports: list[Report], pytestconfig: pytest.Config) -> None:
    total = sum((report.progress for report in reports), Progress())
    floors = LONG_FLOORS if pytestconfig.getoption("--long") else FLOORS
    poor = {name: getattr(total, name) for name, floor in floors.items() if getattr(total, name) < floor}
    assert not poor, f"below the floors: {poor}"


@pytest.mark.limit(3600)
def test_at_each_transaction_version_no_law_is_broken_and_transactions_end_in_every_way(
    request: pytest.FixtureRequest,
) -> None:
    is_long = request.config.getoption("--long")
    seeds = TRANSACTION_SEEDS if is_long else [seed for some in SHORT.values() for seed in some]
    outcomes = in_processes(history, seeds)
    failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert not failures, "\n".join(failures)
    for version, floors in (LONG_TRANSACTION_FLOORS if is_long else TRANSACTION_FLOORS).items():
        total = sum((each.progress for each in outcomes if transaction_version(each.seed) == version), Progress())
        made = {name: getattr(total, name) for name in COUNTED}
        poor = [name for name, floor in zip(COUNTED, floors, strict=True) if made[name] < floor]
        assert not poor, f"at transaction.version {version} {', '.join(poor)} are too few: {made}"


def test_a_broker_gives_up_a_silent_connection_long_before_its_bank_must_have_settled() -> None:
    for seed in TRANSACTION_SEEDS:
        knobs = draw(seed).transactions
        assert knobs is not None
        assert 10 * knobs.properties["request.timeout.ms"] * US_PER_MS < SETTLE_LIMIT_OF_A_BANK_US


def transaction_version(seed: int) -> int:
    knobs = draw(seed).transactions
    assert knobs is not None
    return knobs.version


@pytest.mark.long
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
