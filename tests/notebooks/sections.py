"""Notebooks in pieces, so that a test can run some of them with something planted in between."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat

from pykraft.course.authoring.execute import execute, read
from tests.harness.notebook_facts import with_facts
from tests.harness.tree import ROOT

NOTEBOOK = ROOT / "notebooks" / "00_sixty_seconds.ipynb"


def cells_up_to(notebook: Any, heading: str) -> list[Any]:
    """The code cells before the markdown cell in which this heading stands."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and re.search(rf"^## {heading}", cell.source, re.MULTILINE):
            return found
        if cell.cell_type == "code":
            found.append(cell)
    raise AssertionError(f"there is no heading {heading!r}")


def run(
    heading: str,
    *,
    since: str | None = None,
    path: Path = NOTEBOOK,
    before: str = "",
    after: str = "",
    changed: tuple[str, str] = ("", ""),
) -> None:
    """Run the cells that stand before a heading, and then the last cell; `before` is run first of all, `after` right
    before the last cell. `since` leaves out the sections from the second one up to this heading. `changed` is a text
    that stands in one of the cells, and what is to stand there instead. The notebook's facts are asked as well.
    NotebookFailed at the first cell that fails."""
    notebook = read(path)
    with_facts(notebook, path.name[:2])
    last = notebook.cells[-1]
    assert last.source.startswith("nb.finish(")
    start, *rest = cells_up_to(notebook, heading)
    assert "notebook(" in start.source
    if since is not None:
        rest = cells_up_to(notebook, "2. ")[1:] + rest[len(cells_up_to(notebook, since)) - 1 :]
    planted = [[nbformat.v4.new_code_cell(source)] if source else [] for source in (before, after)]  # type: ignore[no-untyped-call]
    notebook.cells = [start, *planted[0], *rest, *planted[1], last]
    assert any(changed[0] in cell.source for cell in rest)
    for cell in rest:
        cell.source = cell.source.replace(*changed) if changed[0] else cell.source
    execute(notebook, path.parent)
