"""Notebook 26 must turn red when a broker lets a fetch sleep, or hurries where it should wait. Its template must refuse
what is not written yet, and lead to a report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykraft.course.authoring.execute import NotebookFailed, read
from pykraft.course.authoring.form import prose
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "26_capstone.ipynb"
TEMPLATE = NOTEBOOK.parent / "templates" / "claim.ipynb"

A_FETCH_SLEEPS = """
from pykraft.broker.replication.delayed import DelayedFetch

DelayedFetch.has_enough = lambda fetch, key=None: False
"""

A_FETCH_IS_HURRIED = """
from pykraft.broker.replication.delayed import DelayedFetch

patient = DelayedFetch.has_enough

def has_enough(fetch, key=None):
    fetch.params = fetch.params._replace(min_bytes=min(1, fetch.params.min_bytes))
    return patient(fetch, key)

DelayedFetch.has_enough = has_enough
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("plant", "heading", "claim"),
    [
        (A_FETCH_SLEEPS, "4. ", "By default a consumer's latency does not depend on fetch.max.wait.ms"),
        (A_FETCH_IS_HURRIED, "5. ", "With a large fetch.min.bytes the folklore is true"),
    ],
    ids=["a fetch sleeps", "a fetch is hurried"],
)
def test_a_broken_fetch_turns_the_notebook_red(plant: str, heading: str, claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: .*{claim}"):
        run(heading, path=PATH, before=plant, changed=("hear(5)", "hear(1)"))


# --- the template -----------------------------------------------------------------------------------------------------

FILLED = {
    "FILL IN: one sentence, with the number that decides": "Two takes at least 1.5 times as long as one.",
    "FILL IN: the first arm": "two",
    "FILL IN: the arm that it is divided by": "one",
    "FILL IN: as in 'at least 2 times' or 'at most 1.5 times'": "at least 1.5 times",
    '"FILL IN: the factor that you expect, as a number"': "2",
    "FILL IN: why, in twelve words or more": "a word a word a word a word a word a word",
    "FILL IN: what is the same in both arms": "everything else",
    "FILL IN: as in 'ms' or 'MB/s'": "ms",
    'raise NotImplementedError("FILL IN: measure one arm with the cluster, and return the number")': (
        'return {"one": 1, "two": 2}[arm]'
    ),
    "FILL IN: what could be wrong": "one",
    "FILL IN: another one": "two",
    "FILL IN: a third one": "three",
    "Cluster(nodes=3)": "Cluster(nodes=1)",
}


def sources(filled: int) -> Iterator[str]:
    """The code cells of the template, with the first so many places filled in."""
    for cell in read(TEMPLATE).cells:
        source = cell.source
        for old, new in list(FILLED.items())[:filled]:
            source = source.replace(old, new)
        if cell.cell_type == "code":
            yield source


@pytest.mark.parametrize(("filled", "refusal"), [(0, "claim still says FILL IN"), (6, "held still says FILL IN")])
def test_the_template_refuses_what_is_not_written_yet(filled: int, refusal: str) -> None:
    names: dict[str, Any] = {}
    with pytest.raises(ValueError, match=refusal):
        for source in sources(filled):
            exec(source, names)


def test_the_filled_template_leads_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for source in sources(len(FILLED)):
        assert "FILL IN" not in source
        exec(source, names)
    page = (tmp_path / "my-report.md").read_text()
    assert "- Verdict: HOLDS" in page and "- Factor: 2 times" in page
    assert os.listdir(tmp_path) == ["my-report.md"]


def test_the_template_is_empty_and_has_the_parts_of_the_report() -> None:
    template = read(TEMPLATE)
    assert all(not cell.outputs for cell in template.cells if cell.cell_type == "code")
    for part in ("claim", "prediction", "design", "threats", "result"):
        assert f"The {part}\n" in prose(template) + "\n"
