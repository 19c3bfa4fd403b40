"""The first screen of a notebook: its question, one sentence, one picture, and what the reader moves to change it.

A reader who opens a notebook decides within seconds whether to stay. Minutes, links and aims help one who stays, so
they stand at the end, under `ABOUT`. Every notebook of the course keeps that measure:

* the first cell is the title and one short paragraph;
* the second makes the lesson, and ends with the lever (`pykraft.course.levers`) or a player; a lever that measures the
  machine has a cell of its own below, whose output is not compared;
* that cell has left a picture;
* what a reader may want to know about the notebook is under the last heading.

What a lever shows is computed when it is moved: tests/notebooks/test_levers.py moves each.
"""

import re
from collections.abc import Iterator
from typing import Any

MOST_WORDS = 40
ABOUT = "## About this notebook"
_MOVES = re.compile(r"^(?:lever|play)\(", re.MULTILINE)
_SVG = "image/svg+xml"
_AT_THE_END = (
    r"(?:Previous|Next): \[",
    r"\*\*(?:About|At most) ",
    r"\*\*Linux:\*\*",
    r"Afterwards you will be able to",
)


def first_screen_problems(notebook: Any) -> Iterator[str]:
    """All that is wrong with the first screen, in words."""
    head, cell, below = [*notebook.cells[:3], notebook.cells[-1]][:3]
    if cell.cell_type == "code" and not _MOVES.search(cell.source):
        cell = below
    title, _, rest = head.source.partition("\n\n")
    if not title.startswith("# ") or not rest or "\n\n" in rest or len(rest.split()) > MOST_WORDS:
        yield f"the first cell is not a title and one paragraph of at most {MOST_WORDS} words"
    if cell.cell_type != "code" or not _MOVES.search(cell.source):
        yield "neither the second cell nor the one below has a lever"
    elif not any(_SVG in output.get("data", {}) for output in cell.outputs):
        yield "the lever has left no picture"
    texts = [each.source for each in notebook.cells if each.cell_type == "markdown"]
    before, found, after = "\n\n".join(texts).rpartition(f"\n{ABOUT}\n")
    if not found or "\n## " in after:
        yield f"{ABOUT!r} is not the last heading"
    for wanted in _AT_THE_END:
        if re.search(f"^{wanted}", before, re.MULTILINE) or not re.search(f"^{wanted}", after, re.MULTILINE):
            yield f"{wanted!r} does not stand at the end"
