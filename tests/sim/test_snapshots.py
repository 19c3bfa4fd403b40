"""Histories whose nodes write snapshots of the metadata all the time, and let the log's start go, while topics are made
and deleted: no law is broken, and each planted bug breaks one."""

from __future__ import annotations

import pytest

from pykraft.sim.trouble.knobs import SNAPSHOT_SEEDS
from tests.sim import planted_snapshots
from tests.sim.floors import Floors, check_deaths, hold_floors

FLOORS = Floors(
    short=(219, 229, 266, 287),
    long=SNAPSHOT_SEEDS,
    short_floors={"snapshots_written": 40, "snapshots_loaded": 4, "log_starts_moved": 40},
    long_floors={"snapshots_written": 1_000, "snapshots_loaded": 40, "log_starts_moved": 600},
)
SEEN = {
    "an_uncommitted_record_in_a_snapshot": 287,
    "a_log_start_moved_before_the_snapshot_is_durable": 215,
    "a_deleted_topic_that_survives_a_snapshot": 210,
    "a_log_that_goes_on_after_a_snapshot_was_copied": 234,
    "a_level_that_is_acknowledged_and_not_written": 201,
    "records_that_are_newer_than_the_level": 200,
}
LAWS = ("Violation", "AssertionError", "DamagedFileError")


@pytest.mark.limit(3600)
def test_no_law_is_broken_and_snapshots_are_written_and_copied(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.limit(900)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(planted_snapshots, SEEN, SNAPSHOT_SEEDS, LAWS, request)
