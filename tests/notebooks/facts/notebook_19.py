"""What notebook 19 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("A commit is one more record in each partition, and no consumer ever sees it.", after='nb.answer("commit")')
def a_marker_in_each_partition(batches_of: Any, read: Any, cluster: Any) -> None:
    assert batches_of(cluster, "accounts", 0)[-1] == "2: COMMIT marker"
    assert read(cluster, "accounts") == ["Ann -10", "Cem opens an account"]


@fact(
    "An abort takes the offset back with the records: the copy is repeated, and counts once.",
    after='loud = read(cluster, "loud"',
)
def the_copy_counts_once(loud: Any) -> None:
    assert len(loud[0]) == 8 and loud[1] == ["ONE", "TWO", "THREE", "FOUR"], loud
