"""Histories in which logs are shortened by retention and DeleteRecords, and compacted, those of the coordinators too,
while nodes end within a pass of the cleaner: no law is broken, and each planted bug breaks one."""

from __future__ import annotations

import pytest

from pykraft.sim.bugs import moving_logs
from pykraft.sim.trouble.moving_logs import MOVING_SEEDS
from tests.sim.floors import Floors, check_deaths, hold_floors

FLOORS = Floors(
    short=(6653,),
    long=MOVING_SEEDS,
    short_floors={"partition_starts_moved": 5, "logs_cleaned": 5, "keys_read": 100},
    long_floors={
        "partition_starts_moved": 700,
        "logs_begun_again": 5,
        "logs_cleaned": 1_200,
        "deletions": 120,
        "keys_written": 5_000,
        "keys_read": 25_000,
        "producers_forgotten": 50,
    },
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_though_logs_are_shortened_and_compacted(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.limit(900)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(moving_logs, MOVING_SEEDS, request)
