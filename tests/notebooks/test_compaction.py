"""Notebook 20 must turn red when the log forgets what it should keep, or keeps what it should forget."""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "20_retention_and_compaction.ipynb"

A_CLEANER_THAT_KEEPS_THE_FIRST = """
from pykraft.storage.upkeep.cleaner import OffsetMap

seen = set()

def pick(self, records, tombstones_stay):
    kept = []
    for record in records:
        offset, key = record[3], record[4]
        if offset > self.latest_offset or key not in seen:
            kept.append(record)
        seen.add(key)
    return kept

OffsetMap.pick = pick
"""

TOMBSTONES_GO = """
from pykraft.storage.upkeep import cleaner

def _filtered(cleaning, batch, is_spent):
    stay = {}
    horizon_ms = cleaning.now_ms + cleaning.config[cleaner.DELETE_RETENTION_MS]
    return cleaner.filtered(batch, lambda records: cleaning.offsets.pick(records, stay), horizon_ms)

cleaner.Cleaning._filtered = _filtered
"""

A_RETENTION_THAT_COUNTS_FROM_THE_APPEND = """
import time

from pykraft.storage.log_segment import LogSegment

LogSegment.youngest_ms = lambda segment: int(time.time() * 1000)
"""


@pytest.mark.long
def test_a_cleaner_that_keeps_the_first_record_of_a_key_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*know the same of every flight"):
        run("3. ", path=PATH, before=A_CLEANER_THAT_KEEPS_THE_FIRST)


@pytest.mark.long
@pytest.mark.parametrize(
    "stay", ["batch.delete_horizon_ms is None", "True"], ids=["too early: with the second pass", "never"]
)
def test_a_cleaner_that_drops_tombstones_at_another_time_turns_the_notebook_red(stay: str) -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*A deleted key leaves the log in two steps"):
        run("4. ", path=PATH, before=TOMBSTONES_GO.format(stay))


@pytest.mark.long
def test_a_retention_that_counts_from_the_append_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*drops all of these records"):
        run("Where this differs", path=PATH, before=A_RETENTION_THAT_COUNTS_FROM_THE_APPEND)
