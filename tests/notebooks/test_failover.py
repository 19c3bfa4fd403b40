"""Notebook 12 must turn red when a follower compares offsets alone, or when the controller forgets who is eligible."""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "12_failover.ipynb"

TRUNCATED_BY_EVERY_FOLLOWER = """
from pykraft.course.lessons.failover import failover

rule = failover.before_kip_101()
rule.__enter__()
"""


def test_a_broken_promise_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*asking the leader keeps it"):
        run("2. ", path=PATH, before=TRUNCATED_BY_EVERY_FOLLOWER)
