"""A node's process does not visit what it keeps again and again in search of garbage, and still finds it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from pykraft.runtime.garbage import Freezer


class Circle:
    """It refers to itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def freezer() -> Iterator[Freezer]:
    some = Freezer(least_reviewed=1000)
    some.begin()
    yield some
    some.end()


@pytest.mark.usefixtures("freezer")
def test_what_has_survived_a_full_collection_is_not_visited_by_the_next() -> None:
    kept = [[number] for number in range(10_000)]
    gc.collect()
    assert gc.get_freeze_count() > len(kept)
    assert len(gc.get_objects()) < len(kept)


@pytest.mark.usefixtures("freezer")
def test_a_circle_that_came_after_is_found() -> None:
    gc.collect()
    circle = weakref.ref(Circle())
    assert circle() is not None
    gc.collect()
    assert circle() is None


@pytest.mark.usefixtures("freezer")
def test_what_is_frozen_goes_when_nothing_refers_to_it() -> None:
    held = [Circle(), Circle()]
    gc.collect()
    first = weakref.ref(held[0])
    held[0].me = held[1]  # no circle any more
    held.clear()
    assert first() is None


@pytest.mark.parametrize(("reviewed", "is_found"), [(0.4, True), (0.6, False)])
def test_a_circle_that_was_frozen_is_found_when_twice_as_much_is_frozen(
    freezer: Freezer, reviewed: float, is_found: bool
) -> None:
    kept = Circle()
    circle = weakref.ref(kept)
    gc.collect()
    del kept
    freezer._reviewed = int(reviewed * gc.get_freeze_count())  # as if there had been so few after the last review
    gc.collect()
    assert circle() is not None, "it is frozen"
    gc.collect()
    assert (circle() is None) == is_found


def test_without_it_nothing_is_frozen() -> None:
    some = Freezer()
    some.begin()
    gc.collect()
    some.end()
    gc.collect()
    assert gc.get_freeze_count() == 0
