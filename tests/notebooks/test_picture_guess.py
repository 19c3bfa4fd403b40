"""A guess on the picture stays on its scale and is kept; the real value is drawn beside it, with the distance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pykraft.course import Lesson, lesson
from pykraft.course.asking import picture_guess
from pykraft.course.asking.picture_guess import PictureGuess
from pykraft.course.asking.question_file import Scale, scales
from pykraft.course.lesson import WrongPrediction
from pykraft.course.places import NOTEBOOKS
from pykraft.course.progress import guesses, read_progress
from pykraft.surroundings import HEADLESS, HOME
from pykraft.viz.drawing.svg import overlaps
from pykraft.viz.measured.guess_chart import PLOT, distance, guess_chart

SCALE = Scale("How many keys move?", "keys", 0, 200, 50)
FILES = {path.stem for path in (NOTEBOOKS / "questions").glob("*.toml")}


@pytest.fixture(autouse=True)
def a_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(HEADLESS, raising=False)
    monkeypatch.setenv(HOME, str(tmp_path))
    monkeypatch.setattr(lesson, "scales", lambda number: {"moved": SCALE})


@pytest.fixture
def nb() -> Iterator[Lesson]:
    found = Lesson("08", form=2)
    yield found
    found.abandon()


def test_the_real_value_is_drawn_beside_the_guess_with_the_distance(
    nb: Lesson, capsys: pytest.CaptureFixture[str]
) -> None:
    nb.mark("moved", {"all keys": 224})
    assert "all keys: 224 keys\nyour guess: 50 keys\n" in capsys.readouterr().out
    nb._marks["moved"].choose(120)
    nb.answer("moved", 168)
    said = capsys.readouterr().out
    assert said.startswith("Your guess was 48 keys too low\n") and "measured: 168 keys\n" in said
    assert read_progress()["notebooks"]["08"]["predictions"] == {"moved": "wrong"}


def test_a_guess_is_kept_and_changed_until_the_answer_is_known(nb: Lesson) -> None:
    nb.mark("moved")
    nb._marks["moved"].choose(120)
    nb.mark("moved")
    assert nb._marks["moved"].value == 120 and guesses("08") == {"moved": "120"}
    nb._marks["moved"].choose(160)
    nb.answer("moved", 168)
    nb._marks["moved"].choose(168)
    assert nb._marks["moved"].value == 160 and guesses("08") == {"moved": "160"}
    assert read_progress()["notebooks"]["08"]["predictions"] == {"moved": "right"}, "it was near"


def test_without_a_reader_the_marker_stays_where_it_begins_and_nothing_is_noted(
    nb: Lesson, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(HEADLESS, "1")
    nb.mark("moved")
    nb.answer("moved", 168)
    assert "The marker began 118 keys too low\n" in capsys.readouterr().out
    assert read_progress()["notebooks"] == {}


def test_a_guess_stays_on_its_scale() -> None:
    question = PictureGuess(SCALE, {})
    for value, kept in ((-5, 0), (73, 73), (999, 200)):
        question.choose(value)
        assert question.value == kept


def test_a_scale_that_the_file_does_not_have_is_told(nb: Lesson) -> None:
    with pytest.raises(WrongPrediction, match="no scale of this name"):
        nb.mark("gained")


def test_six_notebooks_ask_on_a_picture_and_each_marker_begins_on_its_scale() -> None:
    asking = {number: scales(number) for number in sorted(FILES) if scales(number)}
    assert set(asking) >= {"02", "08", "11", "12", "17", "20"}
    for some in asking.values():
        for scale in some.values():
            assert scale.low < scale.start < scale.high and scale.step > 0 and scale.ask and scale.unit


# --- the picture ------------------------------------------------------------------------------------------------------


def bar_widths(svg: str) -> list[float]:
    """Of the bars, without the handle."""
    rects = [rect.attrib for rect in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect")]
    return [float(rect["width"]) for rect in rects if rect.get("class") != "guess-handle"]


def test_bars_are_as_long_as_their_values_on_the_axis() -> None:
    figure = guess_chart({"all": 200}, 50, 100, axis=(0, 200), unit="keys", title="Half of the keys move")
    length = PLOT[1] - PLOT[0]
    assert bar_widths(figure.svg) == [length, length / 4, length / 2]
    assert overlaps(figure.boxes) == []
    with pytest.raises(ValueError, match="a guess of 300 is not between 0 and 200"):
        guess_chart({}, 300, axis=(0, 200), unit="keys", title="Too far")


@pytest.mark.parametrize(
    ("guess", "words"), [(100, "exactly right"), (120, "20 keys too high"), (99.5, "0.5 keys too low")]
)
def test_a_distance_has_a_direction(guess: float, words: str) -> None:
    assert distance(guess, 100, "keys") == words


# --- on a live page ---------------------------------------------------------------------------------------------------


def test_on_a_live_page_the_number_and_the_picture_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(picture_guess, "is_notebook", lambda: True)
    monkeypatch.setattr(picture_guess, "show", shown.append)
    question = PictureGuess(SCALE, {"all keys": 200})
    question.show()
    picture, number = shown[0].children
    number.value = 100
    assert question.value == 100 and "your guess" in picture.value and "onpointerdown" in picture.value
    question.settle(150)
    assert number.disabled and "onpointerdown" not in picture.value and "50 keys too low" in picture.value
    assert str(shown[1]).startswith("Your guess was 50 keys too low")
