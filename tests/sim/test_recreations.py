"""Histories in which a topic and a group are deleted and made again under their names, while answers and commits are
late: no law is broken. In others clients get answers that are late by seconds, a bank's among them. (The planted bugs
that they are for are in `test_planted_bugs`.)"""

from __future__ import annotations

import pytest

from pykraft.sim.trouble.recreations import LATE_SEEDS, RECREATION_SEEDS
from tests.sim.floors import Floors, hold_floors

FLOORS = Floors(
    short=(3201, 3210),
    long=RECREATION_SEEDS,
    short_floors={"topics_deleted": 7, "groups_deleted": 25, "acknowledged": 500, "isr_changes": 15},
    long_floors={"topics_deleted": 550, "groups_deleted": 680, "acknowledged": 40_000, "isr_changes": 1_500},
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_though_names_are_used_again(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


LATE = Floors(
    short=(3281,),
    long=LATE_SEEDS,
    short_floors={"acknowledged": 270, "consumed": 550, "topics_deleted": 8, "groups_deleted": 5},
    long_floors={"acknowledged": 5_000, "consumed": 5_000},
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_though_clients_get_answers_late_by_seconds(request: pytest.FixtureRequest) -> None:
    hold_floors(LATE, request)
