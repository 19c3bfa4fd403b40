"""What notebook 09 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("Batches of 1 KB make records wait 5 times as long, whatever the linger.", after="busy = try_all(")
def too_small_batches(busy: Any) -> None:
    tiny, _, default, _ = [{each.latency_ms() for each in column} for column in zip(*busy, strict=True)]
    assert min(tiny) >= 5 * max(default), (tiny, default)


@fact("On a busy topic linger.ms=0 is slower than 5, and needs twice the requests.", after='nb.answer("zero")')
def no_linger_on_a_busy_topic(none: Any, some: Any) -> None:
    for share in (0.5, 0.99):
        assert none.latency_ms(share) > 1.05 * some.latency_ms(share), share
    assert none.requests > 2 * some.requests, (none.requests, some.requests)
