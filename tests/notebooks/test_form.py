"""What a committed notebook must be, without running it: short, run from top to bottom, small, and readable by all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest

from pykraft.course.execute import read
from pykraft.course.lesson import _TITLES
from tests.harness.tree import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CODE_CELLS = 30
CELL_LINES = 25
WORDS = 2400
BYTES = 300_000
CHECKED = "nbval-check-output"


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook: Any) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def outputs(notebook: Any) -> Iterator[Any]:
    for cell in code(notebook):
        yield from cell.outputs


def form_problems(notebook: Any) -> Iterator[str]:
    """What is too long, or missing, in what the author wrote."""
    cells = code(notebook)
    if len(cells) > CODE_CELLS:
        yield f"{len(cells)} code cells"
    for index, cell in enumerate(cells, 1):
        lines = sum(bool(line.strip()) for line in cell.source.splitlines())
        if lines > CELL_LINES:
            yield f"code cell {index} has {lines} lines"
    words = len(re.findall(r"\w[\w'.-]*", prose(notebook)))
    if words > WORDS:
        yield f"{words} words"
    for wanted in ("# ", "## Where this differs from Apache Kafka", "## Summary", "## Exercises", "## References"):
        if not re.search(rf"^{wanted}", prose(notebook), re.MULTILINE):
            yield f"no {wanted!r}"
    sources = "\n".join(cell.source for cell in cells)
    if sources.count("nb.predict(") < 2:
        yield "fewer than two predictions"
    if sources.count("nb.claim(") < 2:
        yield "fewer than two claims"
    if sorted(re.findall(r'nb\.predict\(\s*"(\w+)"', sources)) != sorted(re.findall(r'nb\.answer\("(\w+)"', sources)):
        yield "a prediction without an answer, or an answer without a prediction"
    for cell in cells:
        if ("nb.claim(" in cell.source) != (CHECKED in cell.metadata.get("tags", ())) and "nb.claim" in cell.source:
            yield "a claim whose verdict is not compared"
    if not notebook.cells or notebook.cells[-1].source != "nb.finish()":
        yield "the last cell is not nb.finish()"


def output_problems(notebook: Any) -> Iterator[str]:
    """What does not belong into a committed run, or is missing there."""
    cells = code(notebook)
    if [cell.execution_count for cell in cells] != list(range(1, len(cells) + 1)):
        yield "it was not run from top to bottom"  # without counts nbval compares nothing, and passes
    if "widgets" in notebook.metadata:
        yield "it holds the state of widgets"
    for cell in cells:
        if CHECKED in cell.metadata.get("tags", ()) and not cell.outputs:
            yield "a cell to be compared has no output"
    for output in outputs(notebook):
        if output.output_type == "error" or output.get("name") == "stderr":
            yield f"an error or its text: {str(output)[:80]}"
        data = output.get("data", {})
        if any("widget" in kind for kind in data):
            yield "a live widget, which is empty without a kernel"
        if ("image/svg+xml" in data or "application/vnd.plotly.v1+json" in data) and not (
            {"image/svg+xml", "text/plain"} <= set(data)
        ):
            yield "a figure without a picture or a text"
        if "DOES NOT HOLD" in data.get("text/plain", ""):
            yield f"{data['text/plain']}"


def links(notebook: Any) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)#]+)\)", prose(notebook)) if "://" not in link]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    found = request.param
    assert isinstance(found, Path)
    return found


def test_a_notebook_is_short_and_has_its_parts(path: Path) -> None:
    assert list(form_problems(read(path))) == []


def test_a_notebook_is_committed_with_the_outputs_of_one_whole_run(path: Path) -> None:
    assert list(output_problems(read(path))) == []


def test_a_notebook_is_small(path: Path) -> None:
    assert path.stat().st_size < BYTES


def test_the_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    notebook = read(path)
    assert links(notebook)
    assert [link for link in links(notebook) if not (path.parent / link).exists()] == []


def test_a_notebooks_title_is_the_one_that_its_helper_tells(path: Path) -> None:
    assert f"# {_TITLES[path.name[:2]]}" in prose(read(path)).splitlines()


def test_each_picture_has_a_title_and_a_description(path: Path) -> None:
    pictures = [
        output.data["image/svg+xml"] for output in outputs(read(path)) if "image/svg+xml" in output.get("data", {})
    ]
    assert len(pictures) >= 3
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        for name in ("title", "desc"):
            assert (root.findtext(f"{{http://www.w3.org/2000/svg}}{name}") or "").strip()


def test_a_notebook_has_the_form_in_which_it_is_built(path: Path) -> None:
    notebook = read(path)
    assert [cell.id for cell in notebook.cells] == [
        f"nb{path.name[:2]}-c{number:02}" for number in range(1, len(notebook.cells) + 1)
    ]
    assert sorted(notebook.metadata) == ["kernelspec", "language_info"]
    assert all(set(cell.metadata) <= {"tags"} for cell in notebook.cells)


def test_no_two_long_cells_of_code_follow_each_other_without_a_word(path: Path) -> None:
    cells = read(path).cells
    for one, other in pairwise(cells):
        if one.cell_type == other.cell_type == "code":
            assert min(len(one.source.splitlines()), len(other.source.splitlines())) <= 20, other.source[:80]


def bad(**changes: Any) -> Any:
    """A notebook of one cell, which is not as it should be."""
    cell = nbformat.v4.new_code_cell(**changes)  # type: ignore[no-untyped-call]
    return nbformat.v4.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]


def test_the_form_can_fail() -> None:
    assert "code cell 1 has 26 lines" in list(form_problems(bad(source="x = 1\n" * 26)))
    assert "the last cell is not nb.finish()" in list(form_problems(bad(source="x = 1")))
    assert "a claim whose verdict is not compared" in list(form_problems(bad(source='nb.claim("x", True)')))
    assert "it was not run from top to bottom" in list(output_problems(bad(source="1")))
    failed = nbformat.v4.new_output("error", ename="E", evalue="e", traceback=[])  # type: ignore[no-untyped-call]
    assert "an error" in "".join(output_problems(bad(source="1", execution_count=1, outputs=[failed])))
    figure = nbformat.v4.new_output("display_data", data={"image/svg+xml": "<svg/>"})  # type: ignore[no-untyped-call]
    assert "without a picture or a text" in "".join(output_problems(bad(execution_count=1, outputs=[figure])))
