"""What notebook 24 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("A consumer group that never had a member says which batch was written last.", after='nb.answer("once")')
def the_number_of_the_last_batch(marker: Any, death: Any, home: Any) -> None:
    last = death.notes(home / "alerts-once")["commits"][-1]
    assert [found.offset for found in marker.values()] == [last + 1], marker


@fact("The driver dies of SIGKILL, with batch 1 planned and not noted.", after="status = death.kill_driver(spark)")
def the_driver_is_dead(status: int, death: Any, home: Any, sinks: Any) -> None:
    left = [death.notes(home / topic) for topic in sinks]
    assert (status, left) == (-9, [{"offsets": [0, 1], "commits": [0]}] * 2), (status, left)
