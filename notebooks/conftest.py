"""How notebooks run as tests, under nbval.

Cells tagged nbval-check-output must print what is kept in the file; all others must only run.
Pictures and pages are not compared: they show measured numbers, and the text beside them is.
Between the cells the notebook's facts are asked, each as a test with its sentence as its name
(tests/harness/notebook_facts.py). When a cell has failed, the rest of its notebook is skipped:
those cells would only tell of the same thing again.

With ``--nbval`` in the place of ``--nbval-lax`` every output is compared, but for those of cells
that are tagged nbval-ignore-output. That can be asked only of the notebooks that the syllabus calls
deterministic; others are left out.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from pykraft.course.places import NOTEBOOKS
from pykraft.course.syllabus import SYLLABUS
from pykraft.surroundings import HEADLESS
from tests.harness.notebook_facts import asked_after

NOT_COMPARED = (
    "stderr",
    "text/html",
    "image/svg+xml",
    "application/vnd.plotly.v1+json",
    "application/vnd.jupyter.widget-view+json",
)
_failed: dict[str, str] = {}
os.environ[HEADLESS] = "1"  # kernels inherit it


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.name == "templates":  # to be filled in before they run
        return True
    known = SYLLABUS.get(collection_path.name[:2])
    is_left_out = collection_path.suffix == ".ipynb" and known is not None and not known.deterministic
    return True if config.getoption("nbval", default=False) and is_left_out else None


def pytest_collectstart(collector: pytest.Collector) -> None:
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += NOT_COMPARED


def pytest_runtest_setup(item: pytest.Item) -> None:
    first = _failed.get(str(item.path))
    if first is not None and hasattr(item, "cell"):
        pytest.skip(f"{first} has failed before")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the facts of each notebook after their cells."""
    paths = dict.fromkeys(item.path for item in items if hasattr(item, "cell"))
    for path in (path for path in paths if path.parent == NOTEBOOKS):
        cells: list[Any] = [item for item in items if item.path == path and hasattr(item, "cell")]
        found = list(asked_after([cell.cell for cell in cells], path.name[:2]))
        for place, one in reversed(found):
            cell = nbformat.v4.new_code_cell(one.code)  # type: ignore[no-untyped-call]
            before = cells[place]
            asks = type(before).from_parent(
                before.parent,
                name=one.text,
                cell_num=before.cell_num,
                cell=cell,
                options=defaultdict(bool),
            )
            items.insert(items.index(before) + 1, asks)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
        _failed.setdefault(str(item.path), item.name)
    return report
