"""What notebook 18 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact(
    "A restarted producer has a new id, so its second payment counts as new.",
    after='with LossyLink(cluster, "restarted")',
)
def a_new_producer_id(log_of: Any, cluster: Any) -> None:
    log = log_of(cluster, "restarted")
    assert len({batch.producer_id for batch in log}) == 2, log
    assert [batch.base_sequence for batch in log] == [0, 0], log


@fact("Commit first and a crash loses records; process first and a crash repeats them.", after='nb.answer("ways")')
def lost_and_repeated(receipts: Any) -> None:
    lost, repeated = receipts["commit_first"].count(0), receipts["process_first"].count(2)
    assert (lost, repeated) == (4, 6), receipts
