"""The questions that lie beside a notebook: options, a sentence for each wrong one, and answers that are not all b."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from pykraft.course import Lesson, notebook
from pykraft.course.asking.question_file import is_measured, questions, right_letter, scales
from pykraft.course.authoring.execute import read
from pykraft.course.lesson import WrongPrediction
from pykraft.course.places import NOTEBOOKS
from pykraft.course.syllabus import SYLLABUS
from pykraft.surroundings import HEADLESS, HOME

FILES = sorted((NOTEBOOKS / "questions").glob("*.toml"))


def answers(number: str) -> dict[str, str]:
    """The letters that are right in a notebook, as far as the machine does not decide."""
    found = {name: right_letter(number, name) for name in questions(number)}
    return {name: letter for name, letter in found.items() if letter}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_question_has_a_right_option_and_each_other_one_a_sentence(path: Path) -> None:
    right = answers(path.stem)
    for name, options in questions(path.stem).items():
        why = {letter: sentence for letter, (_, sentence) in options.items() if sentence}
        assert list(options) == list("abcd"[: len(options)]) and len(options) >= 3, name
        assert name in right or is_measured(path.stem, name), f"{name} has no right option"
        if name in right:
            assert sorted(why) == sorted(set(options) - {right[name]}), name
        for letter, sentence in why.items():
            assert sentence.endswith(".") and len(sentence.split()) <= 25, (name, letter)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_questions_of_a_file_are_those_that_its_notebook_asks(path: Path) -> None:
    (page,) = NOTEBOOKS.glob(f"{path.stem}_*.ipynb")
    sources = "\n".join(cell.source for cell in read(page).cells if cell.cell_type == "code")
    for call in ("predict|mark", "answer"):
        assert sorted(re.findall(rf'nb\.(?:{call})\("(\w+)"', sources)) == sorted(
            [*questions(path.stem), *scales(path.stem)]
        )


def test_where_the_machine_decides_the_measured_number_chooses_the_letter() -> None:
    found = {n: right_letter("04", "random", n) for n in (1, 3, 3.1, 100, 999, 5000)}
    assert list(found.values()) == ["a", "a", "b", "b", "c", "d"]
    assert is_measured("04", "random") and right_letter("04", "random") is None
    assert not is_measured("04", "restart") and right_letter("04", "restart") == "b"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_right_answers_of_a_notebook_are_spread_over_the_letters(path: Path) -> None:
    found = Counter(answers(path.stem).values())
    assert max(found.values(), default=0) <= 2, found
    if not SYLLABUS[path.stem].hardware:  # there some answers are computed from what was measured
        assert len(found) >= 3, found


def test_each_letter_is_right_in_15_to_40_percent_of_the_course(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader who always says c learns nothing, and is not right often enough to believe so."""
    found = Counter(letter for path in FILES for letter in answers(path.stem).values())
    shares = {letter: found[letter] / found.total() for letter in "abcd"}
    with capsys.disabled():
        text = ", ".join(f"{letter} {found[letter]} times ({share:.0%})" for letter, share in shares.items())
        print(f"\nRight answers of {found.total()} questions: {text}")  # noqa: T201
    assert set(found) <= set(shares)
    assert all(0.15 <= share <= 0.40 for share in shares.values()), shares


def test_a_guess_is_answered_with_its_sentence_and_the_right_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(HEADLESS, raising=False)
    monkeypatch.setenv(HOME, str(tmp_path))
    nb: Lesson = notebook("23")
    try:
        nb.predict("tasks", "a")
        nb.answer("tasks")
        with pytest.raises(WrongPrediction, match="give the options"):
            nb.predict("a question that the file does not have")
    finally:
        nb.abandon()
    said = capsys.readouterr().out
    assert "c)  5: one for each partition that has records\n" in said
    assert "✘ You said a): cores limit how many tasks run at once, not how many there are. It is c) 5: one for" in said


def test_a_question_in_words_stands_above_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    nb: Lesson = notebook("00")
    try:
        nb.predict("silence")
    finally:
        nb.abandon()
    assert (
        "What does the producer hear?\na)  an acknowledgement: the leader has the record\n" in capsys.readouterr().out
    )
