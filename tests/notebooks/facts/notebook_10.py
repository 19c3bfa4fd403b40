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


@fact("Four followers copy as fast as two; the slowest of them decides.", after="latency[level] = ")
def the_slowest_of_four_followers(VirtualFailover: Any, latency: Any) -> None:  # noqa: N803 (the notebook's name)
    class Five(VirtualFailover):  # type: ignore[misc]
        REPLICAS = 5

    even, uneven = Five(linger_ms=0, acks="all"), Five(linger_ms=0, acks="all")
    uneven.slow_follower(40)
    for each in (even, uneven):
        each.send(5, records_per_s=5)
    found = even.latency_ms(), uneven.latency_ms()
    assert round(found[0]) == latency["all"] and found[1] >= found[0] + 40, found
