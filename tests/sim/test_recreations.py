"""Histories in which a topic is deleted and made again under its name, while answers are late by seconds: no law is
broken. (The planted bug that they are for is in `test_planted_bugs`.)"""

from __future__ import annotations

import pytest

from pykraft.sim.trouble.knobs import RECREATION_SEEDS
from tests.sim.floors import Floors, hold_floors

FLOORS = Floors(
    short=(3200, 3216),
    long=RECREATION_SEEDS,
    short_floors={"topics_deleted": 5, "acknowledged": 400},
    long_floors={"topics_deleted": 300, "acknowledged": 20_000},
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_though_names_are_used_again(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)
