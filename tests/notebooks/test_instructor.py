"""What INSTRUCTOR.md says of a notebook is there: every notebook has its section, every step is a line of its code."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from pykraft.cli import _parser
from pykraft.course.authoring.mistakes import mistakes, with_mistakes
from pykraft.course.syllabus import SYLLABUS
from tests.notebooks.sections import NOTEBOOK

FOLDER = NOTEBOOK.parent
PAGE = (FOLDER / "INSTRUCTOR.md").read_text()
SECTIONS = dict(re.findall(r"^## (\d\d) .*?\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
COMMANDS = sorted(set(re.findall(r"python -m pykraft [^`\n]+", PAGE)))
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


@pytest.mark.parametrize("number", PATHS)
def test_a_section_says_how_many_minutes_each_step_takes(number: str) -> None:
    minutes = [int(found) for found in re.findall(r"^\d\. `.+` \((\d+) min\) ", SECTIONS[number], re.MULTILINE)]
    assert len(minutes) == 5 and 10 <= sum(minutes) <= 15


def test_the_common_mistakes_are_those_of_the_mutants() -> None:
    assert mistakes() in PAGE, "run: python -m pykraft course build lab08"
    assert with_mistakes(PAGE) == PAGE
    with pytest.raises(ValueError, match="has no place for the mistakes"):
        with_mistakes("# For instructors")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_it_names_is_one_of_ours(command: str) -> None:
    arguments = shlex.split(command)[3:]
    assert _parser(arguments).parse_args(arguments).command == arguments[0]


def test_packages_of_one_set_up_run_the_code_of_another_copy(tmp_path: Path) -> None:
    """As in a room where all use one .venv, and each has a copy of the notebooks and of pykraft."""
    (tmp_path / "pykraft").mkdir()
    (tmp_path / "pykraft" / "__init__.py").write_text("")
    program = "import pykraft; print(pykraft.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=tmp_path.parent)
    assert done.stdout.startswith(str(tmp_path))
