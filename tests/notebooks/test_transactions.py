"""Notebook 19 must turn red when readers see what is open or aborted, or a zombie is let in."""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "19_transactions.ipynb"

OPEN_TRANSACTIONS_ARE_STABLE = """
from pykraft.storage.log import UnifiedLog

UnifiedLog.last_stable_offset = property(lambda log: log.high_watermark)
"""

A_NEW_COORDINATOR_FORGETS = """
from pykraft.coordinator.transaction.shard import TransactionShard

TransactionShard._send_soon = lambda shard, transactional_id: None
"""

NOTHING_IS_LISTED_AS_ABORTED = """
from pykraft.storage.transaction_index import TransactionIndex

TransactionIndex.collect = lambda index, fetch_offset, upper_bound_offset: ([], True)
"""


@pytest.mark.parametrize(
    ("plant", "heading", "claim"),
    [
        (OPEN_TRANSACTIONS_ARE_STABLE, "2. ", "An open transaction hides all later records"),
        pytest.param(
            A_NEW_COORDINATOR_FORGETS, "4. ", "PrepareCommit binds the next coordinator", marks=pytest.mark.long
        ),
        pytest.param(NOTHING_IS_LISTED_AS_ABORTED, "5. ", "An abort removes nothing", marks=pytest.mark.long),
    ],
    ids=["open transactions are stable", "a new coordinator forgets", "nothing is listed as aborted"],
)
def test_a_broken_promise_turns_the_notebook_red(plant: str, heading: str, claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: .*{claim}"):
        run(heading, path=PATH, before=plant)
