"""Tests that go through a table of seeds: no law is broken, enough happens, and each planted bug breaks a law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NamedTuple

import pytest

from pykraft.sim.bugs.planting import Bug, bugs
from pykraft.sim.laws.progress import Progress
from pykraft.simulation import Report
from tests.sim.histories import history, in_processes
from tests.sim.planted import LATE, Death, first_death


class Floors(NamedTuple):
    """Histories that are gone through together, and how much must happen in them, by the names of `Progress`: about
    half of what was measured. Less is a simulator that has gone to sleep."""

    short: Sequence[int]
    long: Sequence[int]
    short_floors: Mapping[str, int]
    long_floors: Mapping[str, int]


def hold_floors(floors: Floors, request: pytest.FixtureRequest) -> None:
    """Go through the histories, with ``--long`` through all of them: none breaks a law, and enough happens."""
    is_long = request.config.getoption("--long")
    seeds, wanted = (floors.long, floors.long_floors) if is_long else (floors.short, floors.short_floors)
    check_progress(in_processes(history, seeds), wanted)


def check_progress(outcomes: Sequence[Report | str], floors: Mapping[str, int]) -> None:
    """None of these has broken a law, and together they have come to the floors."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert not failures, "\n".join(failures)
    total = sum((outcome.progress for outcome in outcomes if isinstance(outcome, Report)), Progress())
    made = {name: getattr(total, name) for name in floors}
    assert all(made[name] >= floor for name, floor in floors.items()), made


def check_deaths(module: ModuleType, seeds: Sequence[int], request: pytest.FixtureRequest) -> None:
    """Each bug of this module breaks the law that is recorded for it, in the history that is recorded for it; those
    that die late do so with ``--long``, which also looks through other histories for one to record."""
    is_long = request.config.getoption("--long")
    found = [each for each in bugs().values() if each.module == module.__name__]
    assert found and all(each.is_recorded for each in found), f"record in sim/bugs/recorded.py: {found}"
    found = [each for each in found if is_long or each.name not in LATE]
    work = [(each.name, [each.seed, *(seeds if is_long else ())]) for each in found]
    deaths = dict(zip(found, in_processes(first_death, work), strict=True))
    check_recorded(deaths)


def check_recorded(deaths: Mapping[Bug, Death | None]) -> None:
    """They are as `sim.bugs.recorded` has them."""
    for bug, death in deaths.items():
        assert death is not None, f"{bug.name} survives; --long looks for a seed to record"
        assert (death.seed, death.law) == (bug.seed, bug.law), f"record {death[:2]} for {bug.name}: {death.text}"
        assert death.law != "Recovery", f"no law names the mistake: {death.text}"
