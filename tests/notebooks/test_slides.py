"""Each notebook is also a row of slides, by one rule, and nbconvert makes them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert import SlidesExporter

from pykraft.course.authoring.build import short_name
from pykraft.course.authoring.execute import read
from pykraft.course.authoring.slides import FRAGMENT, GOES_ON, NOTES, SKIP, SLIDE, SUBSLIDE, slide_type
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
def test_nbconvert_makes_slides_of_a_notebook(path: Path) -> None:
    notebook = read(path)
    page, _ = SlidesExporter().from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    kinds = Counter(cell.metadata.slideshow.slide_type for cell in notebook.cells)
    # A section within a section is a slide below a slide; the outer ones stand side by side.
    inner = len(re.findall(r"<section>\s*<(?!section)", page))
    assert kinds[SLIDE] + kinds[SUBSLIDE] <= inner + 1
    assert len(re.findall(r"<section><section>", page)) == kinds[SLIDE]
    assert page.count('class="fragment"') == kinds[FRAGMENT]
    assert "nb.finish()" not in page
