"""A node's process does not visit what it keeps again and again in search of garbage, and still finds it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from pykraft.runtime.garbage import PERIOD_S, Freezer


class Circle:
    """It refers to itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def now_s() -> list[float]:
    """The time, to be set."""
    return [1000.0]


@pytest.fixture
def freezer(now_s: list[float]) -> Iterator[Freezer]:
    some = Freezer(least_reviewed=1000, clock_s=lambda: now_s[0])
    some.begin()
    yield some
    some.end()


@pytest.mark.costly
@pytest.mark.usefixtures("freezer")
def test_what_has_survived_a_full_collection_is_not_visited_by_the_next() -> None:
    kept = [[number] for number in range(10_000)]
    gc.collect()
    assert gc.get_freeze_count() > len(kept)
    assert len(gc.get_objects()) < len(kept)


@pytest.mark.costly
@pytest.mark.usefixtures("freezer")
def test_a_circle_that_came_after_is_found() -> None:
    gc.collect()
    circle = weakref.ref(Circle())
    assert circle() is not None
    gc.collect()
    assert circle() is None


@pytest.mark.costly
@pytest.mark.usefixtures("freezer")
def test_what_is_frozen_goes_when_nothing_refers_to_it() -> None:
    held = [Circle(), Circle()]
    gc.collect()
    first = weakref.ref(held[0])
    held[0].me = held[1]  # no circle any more
    held.clear()
    assert first() is None


@pytest.mark.costly
@pytest.mark.parametrize(("reviewed", "is_found"), [(0.4, True), (0.6, False)])
def test_a_circle_that_was_frozen_is_found_when_twice_as_much_is_frozen_for_a_minute(
    freezer: Freezer, now_s: list[float], reviewed: float, is_found: bool
) -> None:
    kept = Circle()
    circle = weakref.ref(kept)
    gc.collect()
    del kept
    freezer._reviewed = int(reviewed * gc.get_freeze_count())  # as if there had been so few after the last review
    for _ in range(3):
        gc.collect()
    now_s[0] += PERIOD_S
    gc.collect()
    assert circle() is not None, "it is frozen"
    gc.collect()
    assert (circle() is None) == is_found


@pytest.mark.costly
def test_what_a_large_request_needs_for_a_moment_is_no_reason_for_a_review(
    freezer: Freezer, now_s: list[float]
) -> None:
    kept = Circle()
    circle = weakref.ref(kept)
    gc.collect()
    del kept
    for _ in range(5):
        request = [[number] for number in range(2 * freezer._reviewed)]
        gc.collect()
        request.clear()
        now_s[0] += PERIOD_S
        gc.collect()
        gc.collect()
    assert circle() is not None, "nothing was visited that is frozen"


@pytest.mark.costly
def test_what_is_frozen_is_not_counted_at_each_collection(freezer: Freezer, monkeypatch: pytest.MonkeyPatch) -> None:
    """To count a million objects holds up a node for as long as to visit them."""
    gc.collect()
    counted, count = [], gc.get_freeze_count

    def counting() -> int:
        counted.append(count())
        return counted[-1]

    monkeypatch.setattr(gc, "get_freeze_count", counting)
    for _ in range(20):
        kept = [[number] for number in range(100)]
        gc.collect()
    assert not counted and kept
    kept = [[number] for number in range(freezer._reviewed + 1000)]
    gc.collect()
    assert len(counted) == 1


@pytest.mark.costly
def test_without_it_nothing_is_frozen() -> None:
    some = Freezer()
    some.begin()
    gc.collect()
    some.end()
    gc.collect()
    assert gc.get_freeze_count() == 0
