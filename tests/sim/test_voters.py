"""Histories in which voters come and go, controllers lose their disks, and snapshots are written and copied: no law is
broken, what was acknowledged stays, and the cluster recovers; and each planted bug breaks a law."""

from __future__ import annotations

import pytest

from pykraft.sim.bugs import voters
from pykraft.sim.trouble.voter_changes import VOTER_SEEDS
from tests.sim.floors import Floors, check_deaths, hold_floors

FLOORS = Floors(
    short=(6410,),
    long=VOTER_SEEDS,
    short_floors={
        "voters_added": 2,
        "voters_removed": 1,
        "leaders_removed": 1,
        "disks_wiped": 1,
        "wiped_voters_back": 1,
        "snapshots_loaded": 2,
    },
    long_floors={
        "voters_added": 200,
        "voters_removed": 200,
        "leaders_removed": 50,
        "truncations": 20,
        "disks_wiped": 18,
        "wiped_voters_removed": 8,
        "wiped_voters_back": 9,
        "snapshots_written": 600,
        "snapshots_loaded": 80,
    },
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_and_voters_come_and_go(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.limit(900)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(voters, VOTER_SEEDS, request)
