"""The questions that lie beside a notebook: options, a sentence for each wrong one, and answers that are not all b."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from pykraft.course import Lesson, notebook
from pykraft.course.authoring.execute import read
from pykraft.course.lesson import WrongPrediction
from pykraft.course.places import NOTEBOOKS
from pykraft.course.question_file import questions
from pykraft.course.surroundings import HEADLESS, HOME
from pykraft.course.syllabus import SYLLABUS

FILES = sorted((NOTEBOOKS / "questions").glob("*.toml"))


def answers(number: str) -> dict[str, str]:
    """The letters that a notebook says are right, as far as its cells name them."""
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    sources = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "code")
    return dict(re.findall(r'nb\.answer\("(\w+)", "(\w)"\)', sources))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_wrong_option_has_one_sentence_and_the_right_one_has_none(path: Path) -> None:
    right = answers(path.stem)
    for name, options in questions(path.stem).items():
        why = {letter: sentence for letter, (_, sentence) in options.items() if sentence}
        assert list(options) == list("abcd"[: len(options)]) and len(options) >= 3, name
        if name in right:
            assert sorted(why) == sorted(set(options) - {right[name]}), name
        for letter, sentence in why.items():
            assert sentence.endswith(".") and len(sentence.split()) <= 25, (name, letter)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_right_answers_are_spread_over_the_letters(path: Path) -> None:
    found = Counter(answers(path.stem).values())
    assert max(found.values(), default=0) <= 2, found
    if not SYLLABUS[path.stem].hardware:  # there some answers are computed from what was measured
        assert len(found) >= 3, found


def test_a_guess_is_answered_with_its_sentence_and_the_right_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(HEADLESS, raising=False)
    monkeypatch.setenv(HOME, str(tmp_path))
    nb: Lesson = notebook("23")
    try:
        nb.predict("tasks", "a")
        nb.answer("tasks", "c")
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
