"""What notebook 10 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("At 200 a second acks=all takes twice as long, and a linger of 5 ms cures it.", after='nb.answer("queue")')
def a_queue_at_200_a_second(median: Any, latency: Any) -> None:
    assert median[0] > 2 * latency["all"] and median[5] < 1.5 * latency["all"], median


@fact("With acks=0 each crash also loses what was on its way.", after='nb.answer("crash")')
def what_was_on_its_way(losses: Any) -> None:
    zero, one, _ = losses.values()
    assert all(more >= some + 4 for more, some in zip(zero, one, strict=True)), losses
