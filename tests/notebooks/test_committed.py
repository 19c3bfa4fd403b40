"""Notebook 11 must turn red when a leader waits for ever, or commits alone."""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "11_committed.ipynb"
ONE_OR_MORE = ('view.high_watermark("orders", 0) == 1', 'view.high_watermark("orders", 0) >= 1')
"""A leader that commits alone has accepted both records of the live cluster, where a right one has accepted one."""

NO_FOLLOWER_LEAVES = """
from pykraft.broker.replication.partition import Partition

Partition.propose_shrinking = lambda partition, now: None
"""

TOO_FEW_COMMIT = """
from pykraft.broker.replication.partition import Partition

Partition.min_insync_replicas = 0
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("plant", "heading", "claim"),
    [
        (NO_FOLLOWER_LEAVES, "3. ", "A silent follower holds back each record"),
        pytest.param(TOO_FEW_COMMIT, "4. ", "Below min.insync.replicas", marks=pytest.mark.long),
    ],
    ids=["no follower leaves", "too few commit"],
)
def test_a_broken_promise_turns_the_notebook_red(plant: str, heading: str, claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: .*{claim}"):
        run(heading, path=PATH, before=plant, changed=ONE_OR_MORE if heading == "4. " else ("", ""))
