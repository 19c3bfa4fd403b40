"""The plans of INSTRUCTOR.md: nothing comes before what it builds on, and no part is longer than it may be.

The facts are those of the files. A notebook says how long it takes to read and which notebooks it needs, a lab's README
the same of the lab, an incident what it needs; the five steps of a notebook have their minutes in INSTRUCTOR.md. Each
kind of mistake is planted once below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from pykraft.course.authoring.execute import read
from pykraft.course.authoring.form import prose
from pykraft.course.places import NOTEBOOKS, lab_folders

PAGE = (NOTEBOOKS / "INSTRUCTOR.md").read_text()
CLASS_MINUTES = {"Twelve weeks": 120, "One day": 180, "Three days": 180, "Six evenings": 120}
HOME_MINUTES = {"Twelve weeks": 180, "One day": 0, "Three days": 0, "Six evenings": 120}
INCIDENT_MINUTES = 30
HARD = {
    *(f"incident {number}" for number in (1, 3, 4, 5, 6)),
    *(f"notebook {number}" for number in (*range(10, 20), 23, 24, 25)),
}
IN_WORDS = {
    "half an hour": 30,
    "one hour": 60,
    "an hour and a quarter": 75,
    "an hour and a half": 90,
    "one to two hours": 120,
    "two hours": 120,
    "about two hours": 120,
    "two to three hours": 180,
}
NUMBER = r"\b(\d\d)\b"


class Unit(NamedTuple):
    """A notebook, a lab or an incident: how long it takes, and which notebooks it builds on."""

    minutes: int
    needs: tuple[str, ...]


class Part(NamedTuple):
    """A row of a plan: a week, a half of a day, or an evening."""

    name: str
    in_class: str
    class_minutes: int
    at_home: str
    home_minutes: int


def minutes_of(words: str) -> int:
    """ "40 minutes" or "one to two hours": the longest that it may take."""
    return int(words.split()[0]) if words[0].isdigit() else IN_WORDS[words]


def units() -> Iterator[tuple[str, Unit]]:
    """By the names that the plans give them."""
    for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
        text, number = prose(read(path)), path.name[:2]
        about = re.search(r"\*\*[^*]+ to run, ([\w ]+?) to (?:play and to )?read\.\*\*((?:.|\n)+?)(?:\n\n|\Z)", text)
        steps = re.search(rf"^## {number} .*\n((?:.|\n)+?)(?=^## |\Z)", PAGE, re.MULTILINE)
        assert about is not None and steps is not None, (
            f"{path.name} says how long it takes, and INSTRUCTOR.md knows it"
        )
        shown = sum(int(found) for found in re.findall(r"^\d\. `.+` \((\d+) min\) ", steps[1], re.MULTILINE))
        needs = tuple(re.findall(r"\[notebook (\d\d)\]", about[2]))
        yield f"notebook {number}", Unit(minutes_of(about[1]), needs)
        yield f"steps of notebook {number}", Unit(shown, needs)
    for folder in lab_folders():
        said = re.search(r"^Before it: notebooks? (.+?)\. Time: ([^.;]+)[.;]", (folder / "README.md").read_text(), re.M)
        assert said is not None, f"{folder.name} says what comes before it, and how long it takes"
        yield f"lab {folder.name[3:5]}", Unit(minutes_of(said[2]), tuple(re.findall(NUMBER, said[1])))
    for path in sorted((NOTEBOOKS / "incidents").glob("i*.ipynb")):
        said = re.search(r"It needs what notebooks? (.+?) explain", " ".join(prose(read(path)).split()))
        assert said is not None, f"{path.name} says what it needs"
        yield f"incident {path.name[1]}", Unit(INCIDENT_MINUTES, tuple(re.findall(NUMBER, said[1])))


UNITS = dict(units())


def plan(course: str) -> list[Part]:
    """The rows of a plan in INSTRUCTOR.md."""
    text = PAGE.partition(f"### {course}\n")[2].partition("\n#")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"][2:]
    return [Part(row[0], row[1], int(row[2]), *((row[3], int(row[4])) if len(row) > 4 else ("", 0))) for row in rows]


def names(words: str) -> list[list[str]]:
    """What a cell of a plan holds: items, each with the units among which a student chooses."""
    return [item.split(" or ") for item in words.split("; ") if item]


def minutes(words: str, in_class: bool) -> int:
    """What a cell takes. In class a notebook is read with its five steps."""
    return sum(max(_minutes(name, in_class) for name in item) for item in names(words))


def _minutes(name: str, in_class: bool) -> int:
    if given := re.search(r"\((\d+) min\)$", name):
        return int(given[1])
    has_steps = in_class and name.startswith("notebook")
    return UNITS[name].minutes + (UNITS[f"steps of {name}"].minutes if has_steps else 0)


def problems(parts: list[Part], most_in_class: int, most_at_home: int) -> Iterator[str]:
    """All that is wrong with a plan, in words."""
    seen: set[str] = set()
    for part in parts:
        for words, said, most, in_class in (
            (part.in_class, part.class_minutes, most_in_class, True),
            (part.at_home, part.home_minutes, most_at_home, False),
        ):
            for name in (name for item in names(words) for name in item if not name.endswith(" min)")):
                if name not in UNITS:
                    yield f"{part.name}: there is no {name}"
                    return
                yield from (f"{part.name}: {name} needs {need}" for need in UNITS[name].needs if need not in seen)
                seen |= {name.removeprefix("notebook ")}
            if minutes(words, in_class) != said:
                yield f"{part.name}: {words} takes {minutes(words, in_class)} minutes, not {said}"
            if said > most:
                yield f"{part.name}: {said} minutes, more than {most}"


@pytest.mark.parametrize("course", CLASS_MINUTES)
def test_nothing_in_a_plan_comes_before_what_it_builds_on_and_no_part_is_too_long(course: str) -> None:
    assert len(plan(course)) == {"Twelve weeks": 12, "One day": 2, "Three days": 6, "Six evenings": 6}[course]
    assert list(problems(plan(course), CLASS_MINUTES[course], HOME_MINUTES[course])) == []


def test_the_plan_of_twelve_weeks_has_every_notebook_lab_and_incident() -> None:
    planned = {
        name for part in plan("Twelve weeks") for item in names(f"{part.in_class}; {part.at_home}") for name in item
    }
    assert {name for name in UNITS if not name.startswith("steps")} <= planned
    assert [part.name for part in plan("Twelve weeks")] == [str(week) for week in range(1, 13)]


def test_most_of_the_term_is_spent_on_what_is_hard() -> None:
    """Replication, the quorum, groups, transactions, Spark and the bug have two thirds of the minutes in class; the
    disk, the bytes and the protocol have less than a fifth."""
    took = {
        item[0].removeprefix("steps of "): _minutes(item[0], in_class=True)
        for part in plan("Twelve weeks")
        for item in names(part.in_class)
    }
    hard = sum(took.get(name, 0) for name in HARD)
    files = sum(took.get(f"notebook {number:02}", 0) for number in range(1, 8))
    assert hard > sum(took.values()) * 2 / 3 and files < sum(took.values()) / 5


def test_a_track_has_what_its_notebooks_and_its_labs_build_on() -> None:
    rows = re.findall(r"^\| ([A-Z][\w ]+) \| ([\d, ]+) \| ([\d, ]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) >= 4
    for track, numbers, labs in rows:
        seen: set[str] = set()
        for number in numbers.split(", "):
            assert set(UNITS[f"notebook {number}"].needs) <= seen, f"{track}: {number}"
            seen.add(number)
        for lab in labs.split(", "):
            assert set(UNITS[f"lab {lab}"].needs) <= seen, f"{track}: lab {lab}"


WRONG = [
    (Part("1", "notebook 12", 55, "", 0), "1: notebook 12 needs 11"),
    (Part("1", "notebook 00", 40, "lab 10", 60), "1: lab 10 needs 10"),
    (Part("1", "steps of notebook 05", 14, "", 0), "1: steps of notebook 05 needs 04"),
    (Part("1", "incident 3", 30, "", 0), "1: incident 3 needs 08"),
    (Part("1", "notebook 00; a talk (10 min)", 49, "", 0), "takes 50 minutes, not 49"),
    (Part("1", "notebook 00; a talk (90 min)", 130, "", 0), "130 minutes, more than 120"),
    (Part("1", "", 0, "notebook 00; a talk (180 min)", 205), "205 minutes, more than 180"),
    (Part("1", "notebook 77", 0, "", 0), "1: there is no notebook 77"),
]


@pytest.mark.parametrize(("part", "told"), WRONG)
def test_each_mistake_in_a_plan_is_found(part: Part, told: str) -> None:
    assert any(told in problem for problem in problems([part], 120, 180))
