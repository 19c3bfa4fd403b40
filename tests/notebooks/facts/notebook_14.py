"""What notebook 14 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("A start replays a snapshot and the tail, less than half of the log.", after='nb.answer("start")')
def a_snapshot_and_the_tail(loaded: Any, log: Any) -> None:
    assert loaded.start > 0 and loaded.snapshot > 0 and loaded.total < len(log) / 2, loaded
