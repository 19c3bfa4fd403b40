"""Histories in which requests, searches and chores are interrupted wherever they may be: no law is broken."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.sim.trouble.knobs import SLICE_SEEDS, draw
from pykraft.sim.world.slices import SeededSlice
from tests.sim.floors import Floors, hold_floors

SHORT, LONG = (901, 1601), sorted(SLICE_SEEDS)[::5]
FLOORS = Floors(
    short=SHORT,
    long=LONG,
    short_floors={"acknowledged": 100 * len(SHORT)},
    long_floors={"acknowledged": 100 * len(LONG)},
)


def test_a_slice_ends_as_often_as_the_seed_says() -> None:
    time_slice = SeededSlice(Random(1), 0.05)
    time_slice.begin()
    assert 30 < sum(time_slice.is_over() for _ in range(1000)) < 80


def test_of_the_seeds_those_that_are_said_to_interrupt_requests() -> None:
    assert all(draw(seed).slice_ends > 0 for seed in SHORT)
    assert not any(draw(seed).slice_ends for seed in (*range(100), 1679, 3216))


@pytest.mark.limit(3600)
def test_no_law_is_broken_by_what_comes_between_two_slices(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)
