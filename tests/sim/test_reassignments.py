"""Histories in which partitions move between brokers, and moves are cancelled: no law is broken, what was acknowledged
stays, every move ends when the trouble has ended; and each planted bug breaks a law."""

from __future__ import annotations

import pytest

from pykraft.sim.bugs import reassignments
from pykraft.sim.trouble.knobs import REASSIGNMENT_SEEDS
from tests.sim.floors import Floors, check_deaths, hold_floors

FLOORS = Floors(
    short=(802, 841),
    long=REASSIGNMENT_SEEDS,
    short_floors={"reassignments_completed": 13, "reassignments_cancelled": 3},
    long_floors={"reassignments_completed": 200, "reassignments_cancelled": 20},
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_and_partitions_move(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.limit(900)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(reassignments, REASSIGNMENT_SEEDS, request)
