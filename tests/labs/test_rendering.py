"""What a lab shows arrives in each place where it is read: JupyterLab, GitHub's page of a notebook, a terminal.

Of an output that has several forms a page shows one: JupyterLab and GitHub both take the first of `FORMS`. GitHub also
removes from HTML what could run or draw: scripts, styles, pictures.
"""

from __future__ import annotations

import copy
import html
import re
from typing import Any

import nbformat
import pytest

from pykraft.course.authoring.execute import execute
from pykraft.course.places import LABS
from pykraft.viz.drawing.alternative import HTML, SVG, without_images
from tests.labs.graders import mutant_file

TEXT = "text/plain"
FORMS = (HTML, "text/markdown", SVG, TEXT)
Outputs = dict[str, list[dict[str, str]]]

CELLS = {
    "started": 'from pykraft.course import Lab\n\nlab = Lab("08")\nlab.start()',
    "unwritten": 'lab.check("8.2")',
    "failed": "lab.work.write_text(open({wrong!r}).read()) and None\nlab.check()",
    "replayed": "lab.replay()",
    "hinted": 'lab.hint("8.1")',
    "revealed": "lab.reveal()",
    "drawn": (
        "from pykraft.course.labs.plug import Outcome\n"
        "from pykraft.viz import bars\n"
        "figure = bars({'a': 1.0, 'b': 2.0}, title='b is twice a')\n"
        "Outcome({'late': (2, 0)}, ('All agree.',), (), figure, calls={'8.1': 2})"
    ),
}
WORDS = {
    "started": ("Lab 08, partitioner", "task 8.3: records without a key"),
    "unwritten": ("– not yet", "a key always goes to the same partition", "0 of 6 points"),  # noqa: RUF001
    "failed": ("✔ passed", "✘ failed", "of 3 partitions", "instead of"),
    "replayed": ("✘", "your answer", "expected"),
    "hinted": ("Python's whole numbers do not overflow",),
    "revealed": ("def murmur2(data: bytes) -> int:",),
    "drawn": ("All agree.", "Your code was called: task 8.1 2 times.", "late: 2, and should be 0."),
}


@pytest.fixture(scope="module")
def outputs() -> Outputs:
    """What each cell left in the notebook."""
    wrong = str(mutant_file(LABS / "lab08_partitioner", "unsigned_modulo"))
    sources = [source.replace("{wrong!r}", repr(wrong)) for source in CELLS.values()]
    notebook: Any = nbformat.from_dict(  # type: ignore[no-untyped-call]
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {},
            "cells": [
                {
                    "cell_type": "code",
                    "id": f"c{i}",
                    "metadata": {},
                    "source": s,
                    "outputs": [],
                    "execution_count": None,
                }
                for i, s in enumerate(sources)
            ],
        }
    )
    execute(notebook, LABS)
    return {
        name: [dict(output["data"]) for output in cell.outputs]
        for name, cell in zip(CELLS, notebook.cells, strict=True)
    }


def shown(bundle: dict[str, str]) -> tuple[str, str]:
    """The form that a page takes, and what is in it."""
    form = next(form for form in FORMS if form in bundle)
    return form, bundle[form]


def words_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def sanitized(page: str) -> str:
    return re.sub(r"<(script|style|svg|img)\b.*?(</\1>|/>)|\sstyle=(\"[^\"]*\"|'[^']*')", "", page, flags=re.DOTALL)


@pytest.mark.parametrize("name", CELLS)
def test_jupyterlab_and_github_show_the_words(name: str, outputs: Outputs) -> None:
    for place in (str, sanitized):
        page = " ".join(words_of(place(text)) for form, text in map(shown, outputs[name]) if form != SVG)
        assert not [words for words in WORDS[name] if words not in page], page[:400]


def test_a_picture_is_an_output_of_its_own_so_that_both_show_it(outputs: Outputs) -> None:
    words, picture, verdict = map(shown, outputs["drawn"])
    assert (words[0], picture[0], verdict[0]) == (TEXT, HTML, TEXT)
    assert 'alt="b is twice a. a: 1. b: 2."' in picture[1]
    forms = [shown(bundle) for bundles in outputs.values() for bundle in bundles]
    assert all(("<svg" in text) == (form == SVG) for form, text in forms)


def test_github_gets_the_drawing_itself_for_it_removes_an_image_in_html(outputs: Outputs) -> None:
    committed = copy.deepcopy(outputs["drawn"][1])
    without_images({"cells": [{"outputs": [{"data": committed}]}]})
    assert shown(committed)[0] == SVG


@pytest.mark.parametrize("name", CELLS)
def test_a_terminal_shows_the_words(name: str, outputs: Outputs) -> None:
    text = " ".join(" ".join(bundle[TEXT].split()) for bundle in outputs[name])
    assert not [words for words in WORDS[name] if words not in text], text[:400]
    assert "<td" not in text and "<b>" not in text
