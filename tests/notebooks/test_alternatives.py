"""Every picture of the course says in words what it shows, where its reader is: in the committed file, and on the page
of JupyterLab, which turns a drawing into an image without an alternative.
"""

from __future__ import annotations

import asyncio
import copy
import html
import re
from pathlib import Path
from typing import Any

import pytest

from pykraft.course.asking.open_questions import QuestionsFirst
from pykraft.course.authoring.build import LAB_NOTEBOOK, short_name
from pykraft.course.authoring.execute import normalized, read, save
from pykraft.course.authoring.form import MUTE_KINDS, picture_problems
from pykraft.course.places import LABS, NOTEBOOKS
from pykraft.viz import bars, hexdump, lines
from pykraft.viz.drawing.alternative import HTML, MOST_CHARACTERS, SVG, alternative_of, as_image, sentences
from pykraft.viz.drawing.film_strip import Frame, strip
from tests.harness.tree import ROOT

PATHS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
DRAWN = [LABS / "lab09_record_accumulator" / LAB_NOTEBOOK, LABS / "lab10_lost_writes" / LAB_NOTEBOOK]


def pictures(notebook: Any) -> list[Any]:
    """The data of each output with a drawing."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return [output["data"] for output in outputs if SVG in output.get("data", {})]


# --- the committed files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PATHS, *sorted(LABS.glob(f"*/{LAB_NOTEBOOK}"))], ids=short_name)
def test_every_picture_of_a_committed_notebook_says_in_words_what_it_shows(path: Path) -> None:
    notebook = read(path)
    assert list(picture_problems(notebook)) == []
    if path in PATHS or path in DRAWN:
        assert pictures(notebook)
    for data in pictures(notebook):
        assert HTML not in data, "GitHub would prefer it, and may remove its image"


def test_the_pictures_beside_the_notebooks_say_it_too() -> None:
    for path in sorted((NOTEBOOKS / "pictures").glob("*.svg")):
        assert len(alternative_of(path.read_text())) > 100, path.name
    for path in (ROOT / "README.md", *LABS.glob("*/README.md"), *NOTEBOOKS.glob("*.md")):
        page = {"cells": [{"cell_type": "markdown", "source": path.read_text()}]}
        assert list(picture_problems(_notebook(page))) == [], path


def _notebook(page: dict[str, Any]) -> Any:
    import nbformat

    return nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, **page})  # type: ignore[no-untyped-call]


SPEAKING = bars({"a": 1, "b": 2}, title="b has twice as many")
MUTE = SPEAKING.svg.replace("aria-label", "data-label")
REFERS = SPEAKING.svg.replace("a: 1. b: 2.", "The values are in the text beside the picture.")
BARE = SPEAKING.svg.replace(" a: 1. b: 2.", "")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ({SVG: SPEAKING.svg}, None),
        ({SVG: MUTE}, "without an alternative: 'b has twice"),
        ({SVG: REFERS}, "refers to a text that is not shown"),
        ({SVG: BARE}, "does not say what the picture shows"),
        *[({kind: ""}, f"without an alternative: {kind}") for kind in sorted(MUTE_KINDS)],
        ({HTML: "<img src='x'>"}, "without an alternative: \"<img src='x'>"),
        ({HTML: "<p><img alt='' src='x'>"}, "without an alternative"),
        ({HTML: "<img alt='a' src='x'>"}, None),
        ({HTML: "<svg viewBox='0 0 1 1'></svg>"}, "without an alternative"),
        ({HTML: SPEAKING.svg}, None),
        ("![](x.svg)", "without an alternative: '![]("),
        ("![a chart](x.svg)", None),
        ("<img src='x.svg'>", "without an alternative"),
    ],
)
def test_a_picture_without_words_is_found_wherever_it_is(cell: dict[str, str] | str, words: str | None) -> None:
    if isinstance(cell, str):
        made: dict[str, Any] = {"cell_type": "markdown", "source": cell}
    else:
        data = {**cell, "text/plain": SPEAKING.text}
        made = {"cell_type": "code", "source": "", "outputs": [{"output_type": "display_data", "data": data}]}
    found = list(picture_problems(_notebook({"cells": [made]})))
    assert len(found) == (words is not None)
    assert words is None or words in found[0]


# --- what is said -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        (SPEAKING, "b has twice as many. a: 1. b: 2."),
        (
            lines({"log": [(1, 2), (10, 2.5)]}, title="It stays", note="Warm.", x_unit="records", y_unit="µs"),
            "It stays. Warm. Up: µs; across: records. log: 2 at 1, 2.5 at 10.",
        ),
        (hexdump(b"\x00\x07ab", [("id", 0, 2, "7"), ("rest", 2, 4, "")], title="Two"), "Two. id: 7. rest: 61 62."),
        (
            strip("Two pictures", [Frame("start", hexdump(b"ab", [], title="Before")), Frame("stop", SPEAKING)]),
            "Two pictures. Picture 1: start: Before. Picture 2: stop: b has twice as many. a: 1. b: 2.",
        ),
        (hexdump(b"ab", [], title='Is "a" < b?'), 'Is "a" < b? bytes: 61 62.'),
    ],
)
def test_a_picture_says_its_finding_and_its_values(figure: Any, said: str) -> None:
    assert alternative_of(figure.svg) == said
    alt = re.search(r' alt="([^"]*)" width', as_image(figure.svg))
    assert alt is not None and html.unescape(alt[1]) == said


def test_a_long_picture_counts_the_rows_that_would_take_minutes_to_hear() -> None:
    said = sentences(f"row {number}: {number}" for number in range(1_000))
    assert said.startswith("row 0: 0. row 1: 1. ") and said.endswith(" more rows.")
    assert MOST_CHARACTERS - 100 < len(said) < MOST_CHARACTERS + 100
    kept = said.count("row ")
    assert said.endswith(f" {1_000 - kept} more rows.")
    assert len(sentences(["x" * 10_000])) == MOST_CHARACTERS


# --- JupyterLab's page ------------------------------------------------------------------------------------------------


def test_jupyterlab_gets_an_image_with_an_alternative_and_the_file_does_not_change(tmp_path: Path) -> None:
    path = tmp_path / "own.ipynb"
    save(read(DRAWN[0]), path)
    before = path.read_bytes()
    files = QuestionsFirst(root_dir=str(tmp_path))
    page = asyncio.run(files.get(path.name))["content"]
    assert len(pictures(page)) == 1
    for data in pictures(page):
        assert data[HTML].startswith(f'<img class="pykraft-picture" alt="{alternative_of(data[SVG])}" ')
    asyncio.run(files.save({"type": "notebook", "format": "json", "content": page}, path.name))
    assert path.read_bytes() == before


def test_a_run_shows_the_image_and_leaves_the_drawing_in_the_file() -> None:
    bundle = SPEAKING._repr_mimebundle_()
    output = {"output_type": "display_data", "metadata": {}, "data": dict(bundle)}
    cell = {"cell_type": "code", "source": "", "metadata": {}, "execution_count": 1, "outputs": [output]}
    notebook = _notebook({"cells": [copy.deepcopy(cell)]})
    assert bundle[HTML] == as_image(SPEAKING.svg)
    normalized(notebook, "nb99")
    assert list(pictures(notebook)[0]) == [SVG, "text/plain"]
