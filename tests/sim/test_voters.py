"""Histories in which voters come and go: no law is broken, what was acknowledged stays, and the cluster recovers; and
each planted bug breaks a law."""

from __future__ import annotations

import pytest

from pykraft.sim.trouble.voter_changes import VOTER_SEEDS
from tests.sim import planted_voters
from tests.sim.floors import Floors, check_deaths, hold_floors

FLOORS = Floors(
    short=(6414,),
    long=VOTER_SEEDS,
    short_floors={"voters_added": 3, "voters_removed": 3, "leaders_removed": 1},
    long_floors={"voters_added": 200, "voters_removed": 200, "leaders_removed": 50, "truncations": 20},
)
SEEN = {
    "a_second_change_before_the_first_is_committed": 6481,
    "a_change_before_anything_of_the_epoch_is_committed": 6406,
    "voters_that_hold_only_when_they_are_committed": 6413,
    "a_truncation_that_keeps_the_voters": 6434,
    "a_leader_that_counts_itself_after_its_removal": 6402,
    "an_observer_that_votes_for_itself": 6413,
    "a_removed_voter_whose_vote_counts": 6413,
    "a_new_voter_whose_records_are_not_on_its_disk": 6402,
}


@pytest.mark.limit(3600)
def test_no_law_is_broken_and_voters_come_and_go(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.limit(900)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(planted_voters, SEEN, VOTER_SEEDS, ("Violation",), request)
