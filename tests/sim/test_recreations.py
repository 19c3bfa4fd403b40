"""Histories in which a topic and a group are deleted and made again under their names, while answers and commits are
late: no law is broken. (The planted bugs that they are for are in `test_planted_bugs`.)"""

from __future__ import annotations

import pytest

from pykraft.sim.trouble.recreations import RECREATION_SEEDS
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
