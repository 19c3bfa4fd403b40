"""A notebook in the second form keeps its measure; the older ones are listed by name, and the list only shrinks."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from pykraft.course.authoring import second_form
from pykraft.course.authoring.build import short_name
from pykraft.course.authoring.execute import read
from pykraft.course.authoring.second_form import FIRST_FORM, is_second_form, second_form_problems
from pykraft.course.places import NOTEBOOKS
from tests.notebooks.test_form import code, shown, words

PATHS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
PICTURE = shown(**{"image_svg+xml": "<svg/>", "text_plain": "a picture"})


@pytest.mark.parametrize("path", PATHS, ids=short_name)
def test_a_notebook_has_the_second_form_or_is_listed_as_older(path: Any) -> None:
    notebook, number = read(path), path.name[:2]
    assert is_second_form(notebook) != (number in FIRST_FORM), "declare form=2, or leave the list of older ones"
    if is_second_form(notebook):
        assert list(second_form_problems(notebook, number)) == []


# --- the form can fail ------------------------------------------------------------------------------------------------


def notebook(*cells: Any) -> Any:
    return nbformat.v4.new_notebook(cells=list(cells))  # type: ignore[no-untyped-call]


def drawn(source: str = "draw()") -> Any:
    return code(source, outputs=[PICTURE])


def question(name: str, sentence: str = "Because each replica has it.", count: int = 3) -> str:
    options = ", ".join(f"{key}=('it does', {sentence!r})" for key in "xyzw"[:count])
    return f"nb.predict({name!r}, {options})"


PLENTY = [code("\n".join(["x = 1"] * 4)) for _ in range(12)]
GOOD = [words("# A question?"), code('nb = notebook("00", form=2)'), drawn(), *PLENTY, code(question("two"))]


def test_a_good_notebook_has_no_problems() -> None:
    assert is_second_form(notebook(*GOOD)) and not is_second_form(notebook(code('nb = notebook("00")')))
    assert list(second_form_problems(notebook(*GOOD), "00")) == []


@pytest.mark.parametrize(
    ("problem", "cells"),
    [
        ("23 code cells, more than 22", [*(drawn() for _ in range(23)), code("nb.claim('x', y)")]),
        ("the median is 6", [drawn("x = 1\n" * 6)]),
        ("more than one code cell in ten has over 12 lines", [*GOOD, code("x = 1\n" * 13), code("y = 1\n" * 14)]),
        ("3 of 7 code lines draw, claim or ask", [code("x = 1\ny = 1"), drawn("bars(x)\n" * 3), code("z = 1\nz")]),
        ("the first picture comes after 5", [words("word " * 800), drawn()]),
        ("the first picture comes after 4", [code("x = 1\n" * 44), drawn()]),
        ("there is no picture", [code("x")]),
        ("option 'x' of prediction 'p' has no sentence", [*GOOD, code(question("p", "No."))]),
        ("option 'a' of prediction 'p' has no sentence", [*GOOD, code("nb.predict('p', a='b', b='c', c='d')")]),
        ("prediction 'p' has 2 options, not three or four", [*GOOD, code(question("p", count=2))]),
        ("give a prediction another name", [*GOOD, *(code(question(name)) for name in ("two", "two", "two"))]),
    ],
)
def test_what_is_wrong_is_said(problem: str, cells: list[Any]) -> None:
    assert problem in "; ".join(second_form_problems(notebook(*cells), "00"))


def test_a_statement_counts_the_lines_that_its_text_fills_however_it_is_broken() -> None:
    long = [code(f"{name} = [\n    1,\n    2,\n]\n" * 5) for name in ("x", "y")]
    assert list(second_form_problems(notebook(*GOOD, *long), "00")) == []
    broken = [code(f"{name} = [\n    '{'word ' * 25}',\n]\n" * 7) for name in ("x", "y")]
    assert "over 12 lines: [14, 14]" in "; ".join(second_form_problems(notebook(*GOOD, *broken), "00"))


def test_questions_that_lie_in_a_file_count_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"a": ("it does", "Because each replica has it."), "b": ("it does not", "No."), "c": ("it ends", "")}
    monkeypatch.setattr(second_form, "questions", lambda number: {"p": options, "q": options} if number == "00" else {})
    asked = [*GOOD, *(code(f'nb.predict("{name}")\nnb.answer("{name}", "c")') for name in "pq")]
    found = list(second_form_problems(notebook(*asked), "00"))
    assert found == ["option 'b' of prediction 'p' has no sentence that answers it", *found[1:]]
    assert len(found) == 2 and "'q'" in found[1]
    assert "prediction 'p' has 0 options" in "; ".join(second_form_problems(notebook(*asked), "01"))
