"""Histories whose nodes write snapshots of the metadata all the time, and let the log's start go, while topics are made
and deleted: no law is broken, and each planted bug breaks one."""

from __future__ import annotations

import pytest

from pykraft.sim.bugs import snapshots
from pykraft.sim.trouble.knobs import SNAPSHOT_SEEDS
from tests.sim.floors import Floors, check_deaths, hold_floors

FLOORS = Floors(
    short=(219, 229),
    long=SNAPSHOT_SEEDS,
    short_floors={"snapshots_written": 50, "snapshots_loaded": 3, "log_starts_moved": 50},
    long_floors={"snapshots_written": 1_000, "snapshots_loaded": 40, "log_starts_moved": 600},
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_and_snapshots_are_written_and_copied(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.limit(900)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(snapshots, SNAPSHOT_SEEDS, request)
