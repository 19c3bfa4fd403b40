"""pykraft/README.md is the map of the modules as they are."""

from __future__ import annotations

from pykraft.course.authoring.module_map import COMMAND, MAP, PACKAGE, ROOMS, SPINE, module_map, opening


def test_the_map_is_that_of_the_modules_as_they_are() -> None:
    assert MAP.read_text(encoding="utf-8") == module_map(), f"make it again: {COMMAND}"


def test_each_module_has_one_line() -> None:
    lines = [line for line in MAP.read_text(encoding="utf-8").splitlines() if line.startswith("- ")]
    modules = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}
    assert sorted(line.split("`")[1] for line in lines) == sorted(modules)
    assert all(len(line) > len(line.split("`")[1]) * 2 + 20 for line in lines), "a line says what its module is"


def test_the_spine_can_be_read_in_a_week() -> None:
    sizes = [(PACKAGE / name).read_text(encoding="utf-8").count("\n") for way in SPINE for name in way.modules]
    assert 7_000 < sum(sizes) < 12_000, sum(sizes)


def test_an_opening_is_one_sentence() -> None:
    assert opening(PACKAGE / "broker/replication/purgatory.py") == "Where requests wait for something to happen."


def test_each_room_has_its_place_in_the_order() -> None:
    rooms = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")}
    assert {room or "." for room in ROOMS} == {room for room in rooms if not room.startswith("course/lessons/")}
    assert len(set(ROOMS)) == len(ROOMS)
