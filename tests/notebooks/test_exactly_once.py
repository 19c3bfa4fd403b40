"""Notebook 18 must turn red when a leader appends a repetition, forgets too early, or shows what was aborted."""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "18_exactly_once.ipynb"

REPETITIONS_ARE_NEW = """
from pykraft.storage.producer_state import ProducerEntry

ProducerEntry.duplicate_of = lambda entry, batch: None
ProducerEntry._is_next = lambda entry, batch: True
"""

A_WINDOW_OF_FOUR = """
from pykraft.storage import producer_state

producer_state.BATCHES_TO_RETAIN = 4
"""

ABORTED_RECORDS_ARE_SHOWN = """
from pykraft.course.rigs import deliveries

class Credulous(deliveries.Consumer):
    def __init__(self, *topics, **settings):
        super().__init__(*topics, **{**settings, "isolation_level": "read_uncommitted"})

deliveries.Consumer = Credulous
"""


@pytest.mark.parametrize(
    ("plant", "heading", "claim"),
    [
        (REPETITIONS_ARE_NEW, "3. ", "the leader knows its sequence and answers the old offset"),
        pytest.param(A_WINDOW_OF_FOUR, "4. ", "A leader knows a producer's last five batches", marks=pytest.mark.long),
        pytest.param(
            ABORTED_RECORDS_ARE_SHOWN, "6. ", "read_committed finds every order exactly once", marks=pytest.mark.long
        ),
    ],
    ids=["repetitions are new", "a window of four", "aborted records are shown"],
)
def test_a_broken_promise_turns_the_notebook_red(plant: str, heading: str, claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: .*{claim}"):
        run(heading, path=PATH, before=plant)
