"""Histories in which a topic is deleted and made again under its name, while answers are late by seconds: no law is
broken. (The planted bug that they are for is in `test_planted_bugs`.)"""

from __future__ import annotations

import pytest

from pykraft.sim.laws.watcher import Progress
from pykraft.sim.trouble.knobs import RECREATION_SEEDS
from pykraft.simulation import Report
from tests.sim.histories import history, in_processes

SHORT = (3200, 3216)
FLOORS = {"topics_deleted": 5, "acknowledged": 400}
LONG_FLOORS = {"topics_deleted": 300, "acknowledged": 20_000}


@pytest.mark.limit(3600)
def test_no_law_is_broken_though_names_are_used_again(request: pytest.FixtureRequest) -> None:
    is_long = request.config.getoption("--long")
    outcomes = in_processes(history, RECREATION_SEEDS if is_long else SHORT)
    failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert not failures, "\n".join(failures)
    total = sum((outcome.progress for outcome in outcomes if isinstance(outcome, Report)), Progress())
    made = {name: getattr(total, name) for name in FLOORS}
    floors = LONG_FLOORS if is_long else FLOORS
    assert all(made[name] >= floor for name, floor in floors.items()), made
