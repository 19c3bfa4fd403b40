"""What INSTRUCTOR.md says of a notebook is there: every notebook has its section, every step is a line of its code."""

from __future__ import annotations

import re

import nbformat
import pytest

from pykraft.course.syllabus import SYLLABUS
from tests.notebooks.sections import NOTEBOOK

FOLDER = NOTEBOOK.parent
SECTIONS = dict(
    re.findall(r"^## (\d\d) .*?\n(.*?)(?=^## |\Z)", (FOLDER / "INSTRUCTOR.md").read_text(), re.MULTILINE | re.DOTALL)
)
PATHS = {path.name[:2]: path for path in sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))}


def test_every_notebook_has_a_section() -> None:
    assert sorted(SECTIONS) == sorted(PATHS)


@pytest.mark.parametrize("number", PATHS)
def test_a_section_has_five_steps_which_are_lines_of_the_notebook_in_order(number: str) -> None:
    steps = re.findall(r"^\d\. `(.+)` ", SECTIONS[number], re.MULTILINE)
    cells = [cell.source for cell in nbformat.read(PATHS[number], 4).cells if cell.cell_type == "code"]  # type: ignore[no-untyped-call]
    lines = [line.strip() for source in cells for line in source.splitlines()]
    assert len(steps) == 5
    assert [step for step in steps if step not in lines] == []
    assert [lines.index(step) for step in steps] == sorted(lines.index(step) for step in steps)


@pytest.mark.parametrize("number", PATHS)
def test_a_section_tells_the_usual_wrong_prediction_under_the_right_title(number: str) -> None:
    assert "*The usual wrong prediction:*" in SECTIONS[number]
    assert f"## {number} {SYLLABUS[number].title}\n" in (FOLDER / "INSTRUCTOR.md").read_text()
