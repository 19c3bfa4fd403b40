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


@fact("Both followers are cut off for 500 ms: nothing moves, and none leaves the ISR.", after="history = watch(cut")
def both_followers_are_cut_off(one_record: Any, leader_of: Any, followers_of: Any, watch: Any) -> None:
    story = one_record()
    leader, others = leader_of(story), followers_of(story)
    for each in others:
        story = story.cut(leader, each)
    still = watch(story, 500)
    for each in others:
        story = story.heal(leader, each)
    _, *healed = watch(story, 30)
    assert [(moment.log_end, moment.high_watermark) for moment in still] == [(1, 0)], still
    assert healed[0].high_watermark == 1 and 10 < healed[0].ms < 30, healed
    assert healed[-1].high_watermark > 5 and {moment.isr for moment in healed} == {frozenset({1, 2, 3})}, healed


@fact("While a follower is away consumers read what is committed.", after='what="the record is committed"')
def the_last_broker_serves_consumers(cluster: Any, victim: int, live_leader: int, heard_by_librdkafka: Any) -> None:
    from pykraft import Consumer, TopicPartition

    isr, servers = {victim, live_leader}, cluster.bootstrap_servers
    cluster.wait_until(lambda view: view.isr("orders", 0) == isr, what="both are in sync")
    cluster.kill(victim)
    try:
        cluster.wait_until(lambda view: view.isr("orders", 0) == {live_leader}, what="the ISR is smaller")
        refused = heard_by_librdkafka(servers, "orders", "all")
        with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            read = [record.value for some in consumer.poll(10_000).values() for record in some]
    finally:
        cluster.restart(victim)
    cluster.wait_until(lambda view: view.isr("orders", 0) == isr, what="both are in sync again")
    assert (refused, read) == ("NOT_ENOUGH_REPLICAS", [b"one record"]), (refused, read)
