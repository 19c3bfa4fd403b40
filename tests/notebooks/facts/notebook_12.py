"""What notebook 12 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("Equal offsets are not equal logs: a record of another epoch is truncated.", after='nb.answer("tail")')
def another_epoch_is_truncated(back: Any) -> None:
    at_the_end = back.view_at(back.last_step).replicas("t", 0)
    epochs = {tuple(replica.epochs) for replica in at_the_end.values()}
    assert len(epochs) == 1, epochs
