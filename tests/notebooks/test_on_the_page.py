"""JupyterLab's page, in Chromium on a screen of 1,280 pixels: each picture of the course speaks, and can be read, and
nothing has to be scrolled sideways.

What a page shows is measured there. What every committed notebook holds is computed from its drawings, at the width
that JupyterLab has left for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest

from pykraft.course.authoring.build import short_name
from pykraft.course.authoring.execute import read
from pykraft.viz.drawing.alternative import SVG
from pykraft.viz.drawing.svg import SMALLEST, Svg
from tests.harness.browser import browser, missing_browser
from tests.harness.jupyter_page import DRAWN, Page, copy_course, jupyterlab
from tests.notebooks.test_alternatives import PATHS, pictures

LEAST_PIXELS = 9
WIDTH = 813
"""Of a picture, on that screen with the list of files open."""
NAMESPACE = "{http://www.w3.org/2000/svg}"


def label_sizes(element: ElementTree.Element, scale: float) -> Iterator[float]:
    """The size of each text on the page, in a drawing in a drawing as well."""
    if element.tag == f"{NAMESPACE}text":
        yield float(element.get("font-size", "0")) * scale
    for child in element:
        inner = scale
        if child.tag == f"{NAMESPACE}svg":
            inner *= float(child.get("width", "0")) / float(child.get("viewBox", "0 0 0 0").split()[2])
        yield from label_sizes(child, inner)


@pytest.mark.parametrize("path", PATHS, ids=short_name)
def test_no_label_of_a_committed_picture_has_fewer_than_nine_pixels(path: Path) -> None:
    for data in pictures(read(path)):
        root = ElementTree.fromstring(data[SVG])
        scale = min(1.0, WIDTH / float(root.get("viewBox", "").split()[2]))
        assert min(label_sizes(root, scale)) >= LEAST_PIXELS, data["text/plain"].partition("\n")[0]


def test_a_drawing_refuses_a_smaller_text() -> None:
    svg = Svg(960, 100)
    svg.text(0, 20, "it can be read", SMALLEST)
    assert SMALLEST * WIDTH / 960 >= LEAST_PIXELS
    with pytest.raises(ValueError, match=r"'too small' would have 10.7 pixels: a text has at least 10.8"):
        svg.text(0, 20, "too small", 10.7)


# --- a real page ------------------------------------------------------------------------------------------------------

IMAGES = "[...document.querySelectorAll('.jp-Notebook .jp-OutputArea img')]"
MUTE = (
    "const found = document.querySelectorAll('.jp-OutputArea img, .jp-OutputArea svg, .jp-RenderedSVG');"
    "const speaks = e => e.getAttribute('alt') || e.getAttribute('aria-label') || e.closest('[aria-hidden], button');"
    "return [...found].filter(e => !speaks(e) && !e.parentElement.closest('svg')).map(e => e.outerHTML.slice(0, 200))"
)
"""JupyterLab's own icons are hidden from a reader who does not see them."""
SMALL = f"""
const small = [];
for (const image of {IMAGES}) {{
  const place = document.createElement("div");
  place.style.width = image.getBoundingClientRect().width + "px";
  place.innerHTML = decodeURIComponent(image.src.slice(image.src.indexOf(",") + 1));
  document.body.append(place);
  for (const text of place.querySelectorAll("text")) {{
    const pixels = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
    if (pixels < arguments[0]) small.push([text.textContent, pixels]);
  }}
  place.remove();
}}
return small;
"""


@pytest.mark.long
@pytest.mark.limit(300)
@pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser")
def test_on_jupyterlabs_page_every_picture_has_an_alternative_and_labels_that_can_be_read(tmp_path: Path) -> None:
    """Of committed outputs, and of those of a run; with the list of files open, which takes a fifth of the screen."""
    (tmp_path / "course").mkdir()
    course = copy_course(tmp_path / "course")
    with jupyterlab(course, tmp_path) as server, browser() as window:
        for path in (path for path in PATHS if path.name[:2] in ("01", "12")):
            window.open(f"{server['url']}lab/tree/notebooks/{path.name}?token={server['token']}&reset")
            window.until(f"const images = {IMAGES}; return images.length && images.every(i => i.complete)")
            widths = window.ask(f"return {IMAGES}.map(image => image.getBoundingClientRect().width)")
            assert WIDTH - 1 <= min(widths) <= max(widths) <= 960
            assert window.ask(MUTE) == [] and window.ask(SMALL, LEAST_PIXELS) == []
        assert window.ask(SMALL, 2 * LEAST_PIXELS) != [], "it measures"
        page = Page(window, server, "notebooks/06_protocol_by_hand.ipynb")
        page.menu("Run", "Run All Cells")
        page.until_idle()
        expected = len(pictures(read(course / "notebooks" / "06_protocol_by_hand.ipynb")))
        assert len(window.ask(f"return {IMAGES}.map(image => image.alt)")) == expected
        assert window.ask(MUTE) == [] and window.ask(SMALL, LEAST_PIXELS) == []
        window.ask(f"{IMAGES}[0].removeAttribute('alt')")
        assert len(window.ask(MUTE)) == 1, "it looks"


WIDE = """
const places = document.querySelectorAll(
  ".jp-Notebook .cm-scroller, .jp-Notebook .jp-OutputArea-output, .jp-Notebook .jp-OutputArea-output *");
const wide = [...places].filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1);
return wide.filter(e => /auto|scroll/.test(getComputedStyle(e).overflowX)).map(e => e.textContent.slice(0, 200));
"""
WIDEST = 5
HAS_OUTPUT = "const outputs = document.querySelectorAll('.jp-Notebook .jp-OutputArea-output');"
A_LINE_THAT_DOES_NOT_BREAK = """
outputs[0].innerHTML = "<div style='white-space:nowrap'>" + "HOLDS ".repeat(100) + "</div>";
"""


def write_widest(path: Path) -> int:
    """One notebook for the page: each cell has the widest lines of code of a notebook of the course, and its outputs;
    the number of outputs. Pictures are left out: they shrink with the page."""
    whole, count = read(PATHS[0]), 0
    whole.cells = []
    for each in PATHS:
        cells = [cell for cell in read(each).cells if cell.cell_type == "code"]
        lines = sorted({line for cell in cells for line in cell.source.splitlines()}, key=len)[-WIDEST:]
        found = [output for cell in cells for output in cell.outputs if SVG not in output.get("data", {})]
        count += len(found)
        made = nbformat.v4.new_code_cell("\n".join(lines), outputs=found, execution_count=1)  # type: ignore[no-untyped-call]
        whole.cells.append(made)
    path.write_text(nbformat.writes(whole))  # type: ignore[no-untyped-call]
    return count


@pytest.mark.long
@pytest.mark.limit(300)
@pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser")
def test_on_jupyterlabs_page_no_code_and_no_output_of_the_course_scrolls_sideways(tmp_path: Path) -> None:
    """With the list of files open, which takes a fifth of the screen."""
    (tmp_path / "course").mkdir()
    course = copy_course(tmp_path / "course")
    count = write_widest(course / "notebooks" / "widest.ipynb")
    with jupyterlab(course, tmp_path) as server, browser() as window:
        window.open(f"{server['url']}lab/tree/notebooks/widest.ipynb?token={server['token']}&reset")
        window.until(DRAWN, len(PATHS), timeout_s=120)
        window.until(f"{HAS_OUTPUT} return outputs.length === arguments[0]", count)
        assert window.ask(WIDE) == []
        window.ask(f"{HAS_OUTPUT} {A_LINE_THAT_DOES_NOT_BREAK}")
        assert len(window.ask(WIDE)) == 1, "it measures"
