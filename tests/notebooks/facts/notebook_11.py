"""What notebook 11 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact(
    "A follower comes back when it has all that is committed.",
    after='nb.answer("back")',
)
def back_at_the_high_watermark(led: Any, back: Any) -> None:
    assert led.high_watermark <= back.log_end_offset <= led.log_end_offset, (led, back)


@fact(
    "Below min.insync.replicas the high watermark does not move: the leader commits nothing alone.",
    after='state = {"ISR"',
)
def a_leader_alone_commits_nothing(state: Any, leader: Any) -> None:
    assert list(state.values()) == [[leader], 1, 0], state
