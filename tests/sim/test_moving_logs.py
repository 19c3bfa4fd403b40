"""Histories in which logs are shortened by retention and DeleteRecords, and compacted, those of the coordinators too,
while nodes end within a pass of the cleaner: no law is broken, and each planted bug breaks one."""

from __future__ import annotations

import pytest

from pykraft.sim.trouble.moving_logs import MOVING_SEEDS
from tests.sim import planted_moving_logs
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
SEEN = {
    "a_retention_that_goes_past_the_high_watermark": 6703,
    "a_retention_that_forgets_the_policy": 6657,
    "a_deletion_that_followers_do_not_follow": 6657,
    "a_deletion_answered_before_the_followers_have_it": 6657,
    "a_follower_that_keeps_what_is_below_its_leaders_start": 6661,
    "a_cleaner_that_drops_the_newest_record_of_a_key": 6657,
    "a_cleaner_that_goes_beyond_the_last_stable_offset": 6662,
    "a_tombstone_dropped_at_once": 6657,
    "a_marker_dropped_before_its_records": 6657,
    "an_abort_forgotten_by_the_cleaner": 6657,
    "a_swap_that_loses_a_segment_in_a_crash": 6663,
    "a_coordinator_that_ignores_a_tombstone_when_loading": 6664,
    "a_producer_forgotten_too_early": 6657,
}
LAWS = ("Violation",)


@pytest.mark.limit(3600)
def test_no_law_is_broken_though_logs_are_shortened_and_compacted(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.limit(900)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(planted_moving_logs, SEEN, MOVING_SEEDS, LAWS, request)
