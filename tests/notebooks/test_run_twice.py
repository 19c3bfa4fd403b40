"""A reader runs a cell again, to see it once more or by mistake: nothing breaks, and what was claimed holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykraft.course.authoring.execute import execute, read
from tests.harness.tree import ROOT

ONCE = ("nb.finish(", "way.cut_off(", "way.kill(", "way.bring_back(", "teller.", 'clerk.send("accounts"')
"""A cell with this tells a story, such as a death or the steps of a transaction: to tell it again is to begin again."""
COURSE = [pytest.param(path, id=path.stem) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]


def doubled(notebook: Any) -> Any:
    """The notebook with each cell twice in a row, but for those of which once is all."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    notebook.cells = [
        again for cell in cells for again in [cell] * (1 if any(word in cell.source for word in ONCE) else 2)
    ]
    return notebook


@pytest.mark.limit(400)
@pytest.mark.long
@pytest.mark.parametrize("path", COURSE)
def test_every_cell_may_be_run_twice_in_a_row(path: Path) -> None:
    notebook = doubled(read(path))
    assert len(notebook.cells) > 20
    execute(notebook, path.parent)
