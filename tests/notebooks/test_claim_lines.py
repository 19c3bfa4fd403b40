"""A claim is read without scrolling sideways: its lines of code in a cell, and its verdict on a page and in a terminal.

JupyterLab wraps what a cell has printed, and does not wrap its code. What a page does with both is measured in
test_on_the_page.py; here are the lengths that fit.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pykraft.course import Lesson, lesson
from pykraft.course.authoring.form import CELL_COLUMNS
from pykraft.course.lesson import COLUMNS, FAILS, HOLDS, UNKNOWN
from pykraft.course.places import NOTEBOOKS
from pykraft.surroundings import HEADLESS, Shown

PATHS = [path for name in (".", "incidents", "templates") for path in sorted((NOTEBOOKS / name).glob("*.ipynb"))]
LONG = "A claim of many words: " + " ".join(["leader", "follower", "replica.lag.time.max.ms"] * 5)


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def test_no_line_of_code_in_a_notebook_is_wider_than_its_cell() -> None:
    wide = {
        f"{path.name}: {line}"
        for path in PATHS
        for cell in code_cells(path)
        for line in "".join(cell["source"]).splitlines()
        if len(line) > CELL_COLUMNS
    }
    assert wide == set()


def test_no_line_of_a_committed_verdict_is_wider_than_a_terminal() -> None:
    texts = [
        "".join(o.get("data", {}).get("text/plain", "")) for p in PATHS for c in code_cells(p) for o in c["outputs"]
    ]
    verdicts = [text for text in texts if text.startswith((f"{HOLDS}  ", f"{FAILS}  ", f"{UNKNOWN}  "))]
    assert len(verdicts) > 60
    assert [line for verdict in verdicts for line in verdict.splitlines() if len(line) > COLUMNS] == []


def test_the_formatter_keeps_a_notebooks_lines_to_the_width_of_its_cells() -> None:
    assert tomllib.loads((NOTEBOOKS / "ruff.toml").read_text())["line-length"] == CELL_COLUMNS


@pytest.mark.parametrize(("condition", "indent"), [(True, 7), (False, 15)])
def test_a_long_verdict_goes_on_under_the_words_of_its_claim(
    monkeypatch: pytest.MonkeyPatch, condition: bool, indent: int
) -> None:
    monkeypatch.setenv(HEADLESS, "1")
    shown: list[Shown] = []
    monkeypatch.setattr(lesson, "show", shown.append)
    nb = Lesson("00")
    nb.claim(LONG, condition, "x" * 150)
    nb.abandon()
    first, *more = repr(shown[-1]).splitlines()
    assert first.index("A claim") == indent and len(more) >= 2
    assert max(len(line) for line in (first, *more)) <= COLUMNS
    assert {len(line) - len(line.lstrip()) for line in more} == {indent}
    assert "overflow-wrap:anywhere" in str(shown[-1]._repr_html_()), "a page breaks a word that is wider than it"
