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


@fact("At a hundred times the bytes batch.size saves requests, and linger.ms does not.", after="lever(draw_guides")
def the_load_decides() -> None:
    from pykraft.course.lessons.batching.load_lever import BATCH, BUFFER, LINGER, Load, outcomes_of

    near, far = (outcomes_of(Load(10_000, 1000, ms)) for ms in (10, 100))
    verdicts = {said: near[said].verdict for said in (BATCH, LINGER, BUFFER)}
    assert verdicts == {BATCH: "HOLDS", LINGER: "DOES NOT HOLD", BUFFER: "DOES NOT HOLD"}, verdicts
    assert far[BUFFER].verdict == "HOLDS", far[BUFFER].factors


@fact("At 100 ms five batches of 16 KB are too few for 20,000 records a second.", after="busy = try_all(")
def a_long_way_needs_large_batches(VirtualProducer: Any) -> None:  # noqa: N803 (the notebook's name)
    found, fullest = [], {}
    for kb, records in ((16, 1_000), (16, 4_000), (64, 4_000)):
        producer = VirtualProducer(linger_ms=5, batch_size=kb << 10, round_trip_ms=100)
        producer.send(records, records_per_s=20_000)
        found.append(round(producer.latency_ms()))
        fullest[kb] = max(producer.batches, key=lambda batch: len(batch.appended_ms))
    assert found == [105, 290, 135], found
    most = len(fullest[16].appended_ms)
    assert 5 * most < 2_000 and round(fullest[16].size / most, -1) == 110, fullest[16].size
