"""Deadlines without a clock."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.core import FOREVER
from pykraft.common.timer import Backoff, Timer


def test_tasks_run_in_the_order_of_their_deadlines_and_then_of_their_making() -> None:
    timer, ran = Timer(), []
    for name, deadline in (("c", 30), ("a", 10), ("b1", 20), ("b2", 20)):
        timer.at(deadline, lambda now, name=name: ran.append((name, now)))  # type: ignore[misc]
    assert timer.deadline == 10 and len(timer) == 4
    assert timer.expire(9) == 0
    assert timer.expire(25) == 3
    assert ran == [("a", 25), ("b1", 25), ("b2", 25)]
    assert timer.deadline == 30


def test_an_empty_timer_waits_for_ever() -> None:
    assert Timer().deadline == FOREVER and Timer().expire(FOREVER - 1) == 0


def test_what_becomes_due_by_running_runs_too() -> None:
    timer, ran = Timer(), []
    timer.at(5, lambda now: timer.at(now, ran.append) and None)
    assert timer.expire(7) == 2
    assert ran == [7]


def test_a_cancelled_task_does_not_run() -> None:
    timer, ran = Timer(), []
    first, second = timer.at(1, ran.append), timer.at(2, ran.append)
    first.cancel()
    first.cancel()
    assert len(timer) == 1 and timer.deadline == 2
    assert timer.expire(10) == 1
    second.cancel()  # it ran already
    assert ran == [10] and len(timer) == 0


def test_a_task_may_cancel_another_that_is_due_as_well() -> None:
    timer, ran = Timer(), []
    tasks = []
    timer.at(1, lambda now: tasks[0].cancel())
    tasks.append(timer.at(1, ran.append))
    assert timer.expire(1) == 1 and ran == []


def test_the_heap_is_swept_when_most_of_it_is_dead() -> None:
    timer, ran = Timer(), []
    tasks = [timer.at(number, ran.append) for number in range(1000)]
    for task in tasks[:-1]:
        task.cancel()
    assert len(timer) == 1
    assert len(timer._heap) < 200
    assert timer.expire(2000) == 1 and ran == [2000]


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=200), st.integers(0, 20))
def test_what_is_due_and_not_cancelled_runs(tasks: list[tuple[int, bool]], now: int) -> None:
    timer, ran = Timer(), []
    for number, (deadline, cancelled) in enumerate(tasks):
        task = timer.at(deadline, lambda _, number=number: ran.append(number))  # type: ignore[misc]
        if cancelled:
            task.cancel()
    due = sorted((d, n) for n, (d, cancelled) in enumerate(tasks) if d <= now and not cancelled)
    assert timer.expire(now) == len(due)
    assert ran == [number for _, number in due]
    assert len(timer) == sum(not cancelled for d, cancelled in tasks if d > now)


def test_a_pause_doubles_up_to_its_maximum() -> None:
    backoff = Backoff(Random(1), initial_ms=100, maximum_ms=1000, jitter=0)
    assert [backoff.pause_ms(attempts) for attempts in (0, 1, 2, 3, 4, 5000)] == [100, 200, 400, 800, 1000, 1000]


def test_pauses_are_spread() -> None:
    backoff = Backoff(Random(1), initial_ms=100, maximum_ms=100, jitter=0.2)
    pauses = {backoff.pause_ms(9) for _ in range(500)}
    assert min(pauses) >= 80 and max(pauses) <= 120 and len(pauses) > 20


def test_a_maximum_below_the_first_pause_counts_as_that_pause() -> None:
    assert Backoff(Random(1), initial_ms=100, maximum_ms=10, jitter=0).pause_ms(3) == 100


def test_a_callback_that_raises_does_not_keep_the_others_from_running() -> None:
    timer, ran, told = Timer(), [], []

    def raising(now: int) -> None:
        raise ValueError("planted")

    timer.at(1, raising)
    timer.at(2, ran.append)
    with pytest.raises(ValueError, match="planted"):
        timer.expire(2)
    timer.at(1, raising)
    timer.on_error = told.append
    assert timer.expire(2) == 2
    assert ran == [2] and [str(error) for error in told] == ["planted"]
