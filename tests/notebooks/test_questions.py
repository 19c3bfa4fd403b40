"""A prediction with buttons: the seed draws the letters, a sentence answers a guess, silence answers silence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykraft.course import Lesson
from pykraft.course.asking import questions
from pykraft.course.asking.lead_on import lead_on, run_to
from pykraft.course.asking.questions import Question, in_drawn_order
from pykraft.course.lesson import WrongPrediction
from pykraft.course.progress import read_progress
from pykraft.surroundings import HEADLESS, HOME

LEADS_ON = "<img "
OPTIONS = {
    "none": ("none is lost", "Each was on two in-sync replicas."),
    "last": ("the last few", "That would be acks=1."),
    "all": ("all since the crash", "The producer sends them again."),
}


@pytest.fixture(autouse=True)
def somebody_reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(HEADLESS, raising=False)
    monkeypatch.setenv(HOME, str(tmp_path))


@pytest.fixture
def nb() -> Iterator[Lesson]:
    lesson = Lesson("00", form=2)
    yield lesson
    lesson.abandon()


def letter(nb: Lesson, key: str) -> str:
    option = nb._questions["loss"].option(key)
    assert option is not None
    return option.letter


def test_the_order_is_the_same_in_every_run_and_no_letter_is_favoured() -> None:
    first, second = (in_drawn_order(OPTIONS, Random(7)) for _ in range(2))
    assert first == second and [option.letter for option in first] == ["a", "b", "c"]
    places = Counter(in_drawn_order(OPTIONS, Random(seed))[0].key for seed in range(300))
    assert min(places[key] for key in OPTIONS) > 60


def test_without_a_guess_the_options_are_shown_and_a_reader_is_told_no_answer(
    nb: Lesson, capsys: pytest.CaptureFixture[str]
) -> None:
    nb.predict("loss", **OPTIONS)
    asked = capsys.readouterr().out
    assert all(text in asked for text, _ in OPTIONS.values()) and "skip" not in asked
    nb.answer("loss", "none")
    assert capsys.readouterr().out == ""
    assert read_progress()["notebooks"] == {}


@pytest.mark.parametrize("key", OPTIONS)
def test_a_guess_by_letter_or_key_is_answered_with_its_own_sentence(
    nb: Lesson, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nb.predict("loss", key, **OPTIONS)
    nb.predict("loss", letter(nb, key), **OPTIONS)
    capsys.readouterr()
    nb.answer("loss", "none")
    said = capsys.readouterr().out
    assert OPTIONS[key][1] in said and OPTIONS["none"][1] in said
    assert said.startswith("✔" if key == "none" else f"✘ You said {letter(nb, key)}):")
    assert read_progress()["notebooks"]["00"]["predictions"] == {"loss": "right" if key == "none" else "wrong"}


def test_where_nobody_reads_a_guess_counts_for_nothing(
    nb: Lesson, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(HEADLESS, "1")
    nb.predict("loss", "none", **OPTIONS)
    capsys.readouterr()
    nb.answer("loss", "none")
    assert capsys.readouterr().out == f"Answer: {letter(nb, 'none')}) none is lost. Each was on two in-sync replicas.\n"
    assert read_progress()["notebooks"] == {}


def test_an_answer_without_a_reader_is_folded_and_has_no_measured_word_in_the_text_that_tests_compare() -> None:
    fixed, measured = questions.folded("a) 3 < 4."), questions.folded("b) 40 times.", is_measured=True)
    assert fixed._repr_html_() == "<details><summary>Answer</summary>a) 3 &lt; 4.</details>"
    assert "40" in str(measured._repr_html_()) and "40" not in repr(measured)


# --- a guess is kept --------------------------------------------------------------------------------------------------


def guess_of(nb: Lesson) -> str:
    """The key of the option that is chosen now."""
    guess = nb._questions["loss"].guess
    return guess.key if guess else ""


def test_a_guess_is_there_when_its_cell_runs_again_and_in_the_next_kernel(nb: Lesson) -> None:
    nb.predict("loss", "last", **OPTIONS)
    nb.predict("loss", **OPTIONS)
    assert guess_of(nb) == "last"
    later = Lesson("00", form=2)
    later.predict("loss", **OPTIONS)
    later.abandon()
    assert guess_of(later) == "last"


def test_a_guess_lasts_until_the_reader_changes_it(nb: Lesson) -> None:
    nb.predict("loss", "last", **OPTIONS)
    nb.predict("loss", "all", **OPTIONS)
    nb.predict("loss", **OPTIONS)
    assert guess_of(nb) == "all"


def test_a_guess_is_an_option_and_not_a_letter(nb: Lesson) -> None:
    nb.predict("loss", "last", **OPTIONS)
    nb.predict("loss", late=OPTIONS["last"], none=OPTIONS["none"], all=OPTIONS["all"])
    assert guess_of(nb) == "late"
    nb.predict("loss", **{**OPTIONS, "last": ("the last ten", "Ten is the number of another lesson.")})
    assert guess_of(nb) == "", "the option that was chosen is gone"


def test_a_guess_is_of_one_notebook(nb: Lesson) -> None:
    nb.predict("loss", "last", **OPTIONS)
    other = Lesson("01", form=2)
    other.predict("loss", **OPTIONS)
    other.abandon()
    assert guess_of(other) == ""


def test_without_a_reader_no_guess_is_there(nb: Lesson, monkeypatch: pytest.MonkeyPatch) -> None:
    nb.predict("loss", "last", **OPTIONS)
    monkeypatch.setenv(HEADLESS, "1")
    nb.predict("loss", **OPTIONS)
    assert guess_of(nb) == ""


def test_a_mistake_of_the_author_is_told(nb: Lesson) -> None:
    with pytest.raises(WrongPrediction, match="each option needs a sentence"):
        nb.predict("loss", a="yes", b="no")
    with pytest.raises(WrongPrediction, match="choose one of a, b, c, or skip"):
        nb.predict("loss", "z", **OPTIONS)
    nb.predict("loss", **OPTIONS)
    with pytest.raises(WrongPrediction, match="the options are"):
        nb.answer("loss", "some")
    with pytest.raises(WrongPrediction, match="nothing was predicted under that name"):
        nb.answer("gain", "none")


# --- the buttons ------------------------------------------------------------------------------------------------------


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a notebook's page would show."""
    found: list[Any] = []
    monkeypatch.setattr(questions, "is_notebook", lambda: True)
    monkeypatch.setattr(questions, "show", found.append)
    return found


def asked(judged: list[bool], shown: list[Any], **others: Any) -> tuple[Question, list[Any], Any]:
    question = Question(in_drawn_order(OPTIONS, Random(7)), judged.append, name="loss", **others)
    question.show()
    *rows, line = shown[0].children
    assert [row.children[1].value for row in rows] == [option.text for option in question.options]
    return question, [row.children[0] for row in rows], line


def words(line: Any) -> str:
    """What is read in a line of HTML."""
    return " ".join(re.sub(r"<(?:[^>']|'[^']*')+>|&nbsp;", "", line.value).split())


def test_a_guess_is_answered_under_its_buttons_and_under_the_cell_that_settles_it(shown: list[Any]) -> None:
    judged: list[bool] = []
    question, buttons, line = asked(judged, shown)
    assert [button.description for button in buttons] == ["a", "b", "c"]
    buttons[0].click()
    buttons[1].click()
    assert [button.description for button in buttons] == ["a", "→ b", "c"]
    assert words(line) == "You say b). Run on to see. Run up to the answer" and judged == []
    question.settle(question.options[1])
    _, under_the_cell = shown
    assert "b) is right" in line.value and str(under_the_cell) == question.verdict and judged == [True]
    assert all(button.disabled for button in buttons)
    assert "run this cell again" in line.value and "Run up to" not in line.value


def test_after_run_all_the_reader_can_still_guess_and_is_answered_at_once(shown: list[Any]) -> None:
    judged: list[bool] = []
    question, buttons, line = asked(judged, shown)
    question.settle(question.options[1])
    assert line.value == "This has run already; you can still guess." and len(shown) == 1
    buttons[0].click()
    assert "You said a)" in line.value and question.options[1].sentence in line.value and judged == [False]
    buttons[1].click()
    assert judged == [False], "a guess that was answered stays"


def test_the_last_guess_of_a_cell_leads_on_and_an_earlier_one_does_not(shown: list[Any]) -> None:
    may_lead_on = iter([False, True])
    _, buttons, line = asked([], shown, may_lead_on=lambda: next(may_lead_on))
    buttons[0].click()
    assert LEADS_ON not in line.value
    buttons[1].click()
    assert LEADS_ON in line.value


def test_a_guess_that_was_kept_is_chosen_and_leads_nowhere(shown: list[Any]) -> None:
    chosen: list[Any] = []
    question, buttons, line = asked([], shown, guess=OPTIONS["all"][0], on_guess=chosen.append)
    assert question.guess is not None and question.guess.key == "all"
    assert [button.description.startswith("→") for button in buttons].count(True) == 1
    assert LEADS_ON not in line.value and chosen == []


def test_what_moves_the_readers_cursor_is_one_attribute() -> None:
    for page in (lead_on(), run_to("loss")):
        assert page.count("'") % 2 == 0 and "\n" not in page
        assert re.fullmatch(r"<(?:img|button)(?: [\w-]+(?:='[^']*'|=\"[^\"]*\")?)+>(?:[\w ]+</button>)?", page)
