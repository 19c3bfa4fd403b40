"""Each notebook is also a row of slides, by one rule: a page that needs no network and shows no code."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from pykraft import cli
from pykraft.course.authoring.build import short_name
from pykraft.course.authoring.execute import read
from pykraft.course.authoring.slide_page import slide_page, slides_of
from pykraft.course.authoring.slides import FRAGMENT, GOES_ON, NOTES, SKIP, SLIDE, SUBSLIDE, slide_type
from pykraft.viz.drawing.alternative import SVG
from tests.harness.tree import ROOT

NOTEBOOKS = [*sorted((ROOT / "notebooks").glob("*.ipynb")), *sorted((ROOT / "labs").glob("*/lab.ipynb"))]
PICTURE = {"output_type": "display_data", "data": {"image/svg+xml": "<svg/>"}}
PRINTED = {"output_type": "stream", "name": "stdout", "text": "1"}


def cell(kind: str, source: str, *outputs: dict[str, Any]) -> Any:
    return nbformat.from_dict({"cell_type": kind, "source": source, "outputs": list(outputs)})  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (SLIDE, cell("markdown", "# A question?")),
        (SLIDE, cell("markdown", "Words.\n\n## 2. More")),
        (SUBSLIDE, cell("markdown", "**Predict.** How many?")),
        (SUBSLIDE, cell("code", "board(placed)", PICTURE)),
        (FRAGMENT, cell("code", 'nb.claim("So it is.", True)', PRINTED)),
        (GOES_ON, cell("code", "1", PRINTED)),
        (GOES_ON, cell("code", "x = 1\n" * 12)),
        (GOES_ON, cell("code", "x = 1\n" * 20, PRINTED)),
        (NOTES, cell("code", "x = 1\n" * 13)),
        (SKIP, cell("code", "nb.finish()", PRINTED)),
        (SKIP, cell("code", "nb.machine", PRINTED)),
        (SKIP, cell("code", 'from pykraft.course import notebook\n\nnb = notebook("00")', PRINTED)),
    ],
)
def test_what_a_cell_is_among_the_slides(kind: str, made: Any) -> None:
    assert slide_type(made) == kind


@pytest.mark.parametrize("path", NOTEBOOKS, ids=short_name)
def test_every_cell_of_a_notebook_knows_its_place_among_the_slides(path: Path) -> None:
    cells = read(path).cells
    assert [cell.metadata.get("slideshow", {}).get("slide_type") for cell in cells] == [slide_type(c) for c in cells]
    assert cells[0].metadata.slideshow.slide_type == SLIDE


@pytest.mark.parametrize("path", NOTEBOOKS, ids=short_name)
def test_a_page_of_slides_needs_no_network_and_shows_no_code(path: Path) -> None:
    notebook = read(path)
    page = slide_page(notebook, "A question?")
    assert not re.findall(r"(?:src|href|action|data|poster)=|url\((?!#)|@import|import\(|fetch\(", page), (
        "it loads something"
    )
    assert re.findall(r"\w+://[^ <]*", _without_shown_text(page)) == []
    assert "You skip" not in page, "the room has not skipped a prediction"
    for cell in notebook.cells:
        lines = [
            line for line in cell.source.splitlines() if cell.cell_type == "code" and "(" in line and len(line) > 20
        ]
        assert [line for line in lines if html.escape(line, quote=False) in page] == []


def _without_shown_text(page: str) -> str:
    """Without what only stands there to be read, such as an address in a printed setting."""
    return re.sub(r"<(pre|code)\b.*?</\1>", "", page, flags=re.DOTALL)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=short_name)
def test_every_heading_begins_a_slide_and_every_picture_is_on_one(path: Path) -> None:
    notebook = read(path)
    slides = list(slides_of(notebook))
    headings = sum(slide_type(cell) == SLIDE for cell in notebook.cells)
    pictures = sum(SVG in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ()))
    assert sum(bool(re.search(r"<h[12]\b", slide)) for slide in slides) == headings <= len(slides)
    assert sum(map(_count_pictures, slides)) == pictures
    assert max(map(_count_pictures, slides)) <= 1, "a picture has its slide"
    assert "".join(slides).count('class="fragment"') == sum(
        "nb.claim(" in c.source and bool(c.outputs) for c in notebook.cells
    )


def _count_pictures(slide: str) -> int:
    """A film strip is one picture: the drawings in it are placed by x and y."""
    return len(re.findall(r"<svg (?!x=)", slide))


def test_words_and_the_picture_that_they_lead_to_share_a_slide_and_a_question_stands_alone() -> None:
    cells = [cell("markdown", "## 1. Now"), cell("markdown", "Look."), cell("code", "board()", PICTURE)]
    cells += [cell("markdown", "**Predict.** What?"), cell("code", "f()", PICTURE), cell("code", "x = 1\n" * 20)]
    first, question, picture = slides_of(nbformat.from_dict({"cells": cells}))  # type: ignore[no-untyped-call]
    assert "Now" in first and "Look." in first and "<svg" in first
    assert "What?" in question and "<svg" not in question and "<svg" in picture
    assert "x = 1" not in first + question + picture


def test_a_page_of_slides_is_written_into_build(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["course", "slides", "08"]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert page == ROOT / "build" / "08_which_partition.slides.html"
    assert "<title>Which partition?</title>" in page.read_text(encoding="utf-8")
