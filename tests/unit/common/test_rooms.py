"""Rooms: which of them a turn visits, in which order, and when there has to be another turn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

from pykraft.common.core import FOREVER, Poll
from pykraft.common.rooms import Room, Rooms

RETRY_MS = 100


class House:
    """Rooms by letter. Each poll is noted, and does and returns what was laid down for it."""

    def __init__(self, names: str) -> None:
        self.faults: list[tuple[str, Exception]] = []
        self.rooms = Rooms(self._on_fault)
        self.visited = ""
        self.due = dict.fromkeys(names, FOREVER)
        self.deeds: dict[str, Callable[[], object]] = {}
        self.room = {name: Room(name) for name in names}
        for name in names:
            self.rooms.add(self.room[name], lambda now, name=name: self._poll(name), "fault" if name < "m" else None)
        self.rooms.turn(0)  # at first nothing is known of them
        assert self.visited == names
        self.visited = ""

    def _on_fault(self, kind: str, error: Exception) -> int:
        self.faults.append((kind, error))
        return RETRY_MS

    def _poll(self, name: str) -> Poll | int:
        self.visited += name
        self.deeds.pop(name, lambda: None)()
        return self.due[name]

    def turn(self, now: int) -> tuple[str, int]:
        """Which rooms a turn visits, and when there has to be another one."""
        self.visited = ""
        deadline, _ = self.rooms.turn(now)
        return self.visited, deadline


def test_a_turn_with_nothing_to_do_visits_no_room() -> None:
    assert House("abc").turn(1) == ("", FOREVER)


def test_a_room_is_visited_when_its_deadline_is_due_and_no_sooner() -> None:
    house = House("abc")
    house.due["b"] = 10
    house.room["b"].mark("x")
    assert house.turn(1) == ("b", 10)
    assert house.turn(9) == ("", 10)
    house.due["b"] = 30
    assert house.turn(10) == ("b", 30)


def test_marked_rooms_are_visited_once_each_in_the_order_in_which_they_were_added() -> None:
    house = House("abcd")
    for name in "dbdb":
        house.room[name].mark("x")
    assert house.turn(1) == ("bd", FOREVER)
    assert house.turn(1) == ("", FOREVER)


def test_a_room_that_marks_a_later_one_has_it_visited_in_the_same_turn() -> None:
    house = House("abc")
    house.deeds["a"] = lambda: house.room["c"].mark("x")
    house.room["a"].mark("x")
    assert house.turn(1) == ("ac", FOREVER)


def test_a_room_that_marks_an_earlier_one_asks_for_another_turn() -> None:
    house = House("abc")
    house.deeds["b"] = lambda: house.room["a"].mark("x")
    house.room["b"].mark("x")
    assert house.turn(5) == ("b", 5)
    assert house.turn(5) == ("a", FOREVER)


def test_what_a_room_returns_says_when_it_is_needed_again_and_not_its_own_mark() -> None:
    house = House("abc")
    house.deeds["b"] = lambda: house.room["b"].mark("x")
    house.room["b"].mark("x")
    assert house.turn(5) == ("b", FOREVER)
    house.due["b"] = 6
    house.room["b"].mark("x")
    assert house.turn(6) == ("b", 6)


@pytest.mark.parametrize(("moves", "expected"), [([20, 40], 20), ([40, 20], 20), ([20, 5], 5), ([50], 30)])
def test_a_deadline_can_be_brought_forward_between_turns(moves: Sequence[int], expected: int) -> None:
    house = House("abc")
    house.due["b"] = 30
    house.room["b"].mark("x")
    house.turn(1)
    for deadline in moves:
        house.room["b"].wake_by(deadline, "x")
    assert house.turn(2) == ("", expected)
    house.due["b"] = FOREVER
    assert house.turn(expected) == ("b", FOREVER)
    assert house.turn(60) == ("", FOREVER)


def test_a_deadline_that_was_put_off_wakes_nobody_at_the_old_time() -> None:
    house = House("ab")
    for due in (10, 500, 20, 400):
        house.due["a"] = due
        house.room["a"].mark("x")
        house.turn(1)
    assert house.turn(399) == ("", 400)
    house.due["a"] = FOREVER
    assert house.turn(400) == ("a", FOREVER)


def test_a_room_that_stays_awake_is_visited_in_each_turn_and_asks_for_none() -> None:
    house = House("abc")
    house.room["b"].stay_awake()
    assert house.turn(1) == house.turn(2) == ("b", FOREVER)
    house.room["b"].stay_awake(False)
    assert house.turn(3) == ("", FOREVER)


def test_a_room_to_look_into_is_visited_in_the_first_turn_that_there_is() -> None:
    house = House("abc")
    house.room["b"].look_in_at(50)
    house.room["c"].look_in_at(10)
    house.room["c"].look_in_at(60)
    assert house.turn(49) == ("", FOREVER)
    assert house.turn(55) == ("b", FOREVER)
    assert house.turn(70) == ("c", FOREVER)


def test_a_poll_that_raises_costs_its_room_a_pause_and_the_others_nothing() -> None:
    house = House("abc")
    house.deeds["b"] = lambda: 1 / 0
    for name in "abc":
        house.room[name].mark("x")
    assert house.turn(1) == ("abc", 1 + RETRY_MS)
    assert [kind for kind, _ in house.faults] == ["fault"]
    assert house.turn(1 + RETRY_MS) == ("b", FOREVER)


def test_a_poll_whose_faults_end_the_turn_is_tried_again_with_those_after_it() -> None:
    house = House("axyz")
    house.deeds["y"] = lambda: 1 / 0
    for name in "xyz":
        house.room[name].mark("x")
    with pytest.raises(ZeroDivisionError):
        house.turn(1)
    house.room["a"].mark("x")
    assert house.turn(2) == ("ayz", FOREVER)


def calls_of(act: Callable[[], Any]) -> int:
    """How many functions of Python are called."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def test_a_turn_with_nothing_to_do_costs_the_same_with_fifty_rooms() -> None:
    few, many = House("abcde"), House("".join(map(chr, range(ord("a"), ord("a") + 50))))
    for house in (few, many):
        for number, room in enumerate(house.room.values()):
            room.wake_by(1000 + number, "x")
        house.turn(1)
    assert calls_of(lambda: few.rooms.turn(2)) == calls_of(lambda: many.rooms.turn(2)) <= 5
