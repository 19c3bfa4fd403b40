"""What a notebook says besides its claims: each sentence has one cell after which it is asked, and it can be wrong."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from pykraft.course.authoring.build import short_name
from pykraft.course.authoring.execute import read
from tests.harness.notebook_facts import NUMBERS, asked_after, facts_of, with_facts
from tests.harness.tree import ROOT

PATHS = [path for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if path.name[:2] in NUMBERS]


@pytest.mark.parametrize("path", PATHS, ids=short_name)
def test_each_fact_is_asked_after_one_cell_that_is_no_claim_of_it(path: Path) -> None:
    notebook = read(path)
    cells = list(notebook.cells)
    asked = list(asked_after(cells, path.name[:2]))
    claimed = "\n".join(cell.source for cell in cells if "nb.claim(" in cell.source)
    assert asked and [one.text for _, one in asked if one.text in claimed] == []
    with_facts(notebook, path.name[:2])
    for place, one in asked:
        own = notebook.cells.index(cells[place])
        later = [cell.source for cell in notebook.cells[own + 1 : own + 1 + len(asked)]]
        assert any(repr(one.text) in source for source in later), one.text


def test_every_file_of_facts_is_that_of_a_notebook() -> None:
    assert [path.name[:2] for path in PATHS] == NUMBERS


@pytest.mark.parametrize("is_so", [True, False])
def test_a_fact_that_is_not_so_says_its_sentence_and_leaves_nothing_behind(is_so: bool) -> None:
    (ghosts, _) = facts_of("20")
    kept, new = ({b"A": b"1", b"C": b"1"}, {b"A": b"1"}) if is_so else ({b"A": b"1"}, {b"A": b"1"})
    names = {"away": SimpleNamespace(table=kept), "new": SimpleNamespace(table=new)}
    before = dict(names)
    if is_so:
        exec(ghosts.code, names)
        assert set(names) - {"__builtins__"} == set(before)
        return
    with pytest.raises(AssertionError, match=r"this does not hold: A reader that is away .* \(.*\)$") as found:
        exec(ghosts.code, names)
    assert re.search(r"b'A'", str(found.value)), "the values are said"


def test_a_text_that_is_in_no_cell_or_in_two_is_refused() -> None:
    notebook = read(next(path for path in PATHS if path.name.startswith("20")))
    doubled = [*notebook.cells, *notebook.cells]
    for cells, count in (([], 0), (doubled, 2)):
        with pytest.raises(ValueError, match=rf"notebook 20: {count} cells have the text"):
            list(asked_after(cells, "20"))
