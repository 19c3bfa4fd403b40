"""A leader's partition, step by step: what is committed, who is in sync, and what a producer is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.broker.replication.follower_state import FollowerState
from pykraft.broker.replication.partition import IsrChange, IsrProposal, Partition
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.trace import Silence, Tracer
from pykraft.common.types import ZERO_UUID, TopicIdPartition, Uuid
from pykraft.metadata.image import BrokerRegistration, MetadataImage, PartitionRegistration
from tests.harness.storage import PARTITION, TOPIC_ID, batch, open_log, produced, settings

MAX_LAG_MS = 1000
ME = 1


def broker(number: int, fenced: bool = False, leaving: bool = False) -> BrokerRegistration:
    return BrokerRegistration(number, 100 + number, Uuid(bytes(16)), {}, {}, {}, None, fenced, leaving, ())


def image(*brokers: BrokerRegistration) -> MetadataImage:
    return MetadataImage(brokers={b.broker_id: b for b in brokers or (broker(1), broker(2), broker(3))})


def registration(
    isr: tuple[int, ...] = (1, 2, 3), leader: int = ME, epoch: int = 5, change: int = 1, replicas: Any = (1, 2, 3)
) -> PartitionRegistration:
    return PartitionRegistration(replicas, (ZERO_UUID,) * len(replicas), isr, leader, epoch, change)


def partition(min_isr: int = 1, **fields: Any) -> Partition:
    """Led by broker 1 of three, at time 0."""
    key = TopicIdPartition(TOPIC_ID, *PARTITION)
    log = open_log(config=settings(min_insync_replicas=min_isr))
    made = Partition(ME, key, log, MAX_LAG_MS, Tracer(ME, Silence()))
    made.update(registration(**fields), image(), 0)
    return made


def append(to: Partition, count: int = 1, needs_all: bool = True, now: int = 0) -> int:
    to.check_may_append(needs_all)
    return to.append_as_leader(batch(count), now).last_offset


def fetched(by: int, offset: int, of: Partition, now: int = 0) -> bool:
    return of.record_fetch(by, offset, 100 + by, now)


# --- the high watermark -----------------------------------------------------------------------------------------------


def test_a_record_is_committed_when_the_whole_isr_has_it() -> None:
    led = partition()
    append(led, 3)
    assert led.log.high_watermark == 0
    assert not fetched(2, 3, led)
    assert fetched(3, 2, led)
    assert led.log.high_watermark == 2
    assert fetched(3, 3, led)
    assert led.log.high_watermark == 3


def test_a_single_replica_commits_at_once() -> None:
    led = partition(isr=(1,), replicas=(1,))
    append(led, 3)
    assert led.log.high_watermark == 3


def test_who_is_not_in_the_isr_and_lags_is_not_waited_for() -> None:
    led = partition(isr=(1, 2))
    append(led)
    assert fetched(2, 1, led)


def test_who_has_caught_up_is_waited_for_before_the_controller_has_agreed() -> None:
    led = partition(isr=(1, 2))
    fetched(3, 0, led)
    append(led)
    assert not fetched(2, 1, led), "3 is about to join"
    assert fetched(3, 1, led)


@pytest.mark.parametrize("state", [broker(3, fenced=True), broker(3, leaving=True)])
def test_who_may_not_join_is_not_waited_for(state: BrokerRegistration) -> None:
    led = partition(isr=(1, 2))
    led.set_image(image(broker(1), broker(2), state))
    fetched(3, 0, led)
    append(led)
    assert fetched(2, 1, led)


def test_with_too_few_in_sync_the_high_watermark_stands_still() -> None:
    led = partition(min_isr=2, isr=(1,))
    led.append_as_leader(batch(), 0)
    assert not led.advance_high_watermark(0) and led.log.high_watermark == 0
    led.update(registration(isr=(1, 2), change=2), image(), 0)
    assert fetched(2, 1, led)


@given(
    st.sets(st.sampled_from([2, 3])),
    st.lists(st.tuples(st.sampled_from([2, 3]), st.integers(0, 20)), max_size=20),
    st.integers(1, 3),
)
def test_the_high_watermark_is_the_smallest_end_of_the_maximal_isr_and_never_falls(
    others: set[int], fetches: list[tuple[int, int]], min_isr: int
) -> None:
    led = partition(min_isr=min_isr, isr=(1, *sorted(others)))
    led.set_image(image(broker(1)))  # no other may join: the maximal ISR is the ISR
    append(led, 20, needs_all=False)
    ends = {1: 20, 2: -1, 3: -1}
    expected = 0
    for now, (replica, offset) in enumerate([(0, 0), *fetches]):
        if replica:
            fetched(replica, offset, led, now)
            ends[replica] = offset
        if 1 + len(others) >= min_isr:
            expected = max(expected, min(ends[n] for n in {1, *others}))
        else:
            expected = 0
        led.advance_high_watermark(now)
        assert led.log.high_watermark == expected


# --- what the metadata log tells --------------------------------------------------------------------------------------


def test_a_leader_or_an_epoch_is_new_or_it_is_not() -> None:
    led = partition()
    assert not led.update(registration(isr=(1, 2), change=2), image(), 0)
    assert led.update(registration(epoch=6, change=3), image(), 0), "the same leader, elected again"
    assert led.update(registration(epoch=6, change=4, leader=2), image(), 0)
    assert led.followers == {}


def test_a_new_leader_notes_where_its_epoch_begins() -> None:
    led = partition(leader=2)
    led.append_as_follower(batch(5).buffer, 0)
    led.update(registration(epoch=6, change=2), image(), 0)
    assert led.log.epochs.entries[-1] == (6, 5)


def test_another_isr_leaves_what_the_leader_knows_of_its_followers() -> None:
    led = partition()
    append(led, 2)
    fetched(2, 2, led)
    assert led.log.high_watermark == 0
    led.update(registration(isr=(1, 2), change=2, replicas=(1, 2, 3, 4)), image(), 0)
    assert led.log.high_watermark == 2, "no other is waited for"
    assert sorted(led.followers) == [2, 3, 4]


def test_who_was_in_no_isr_has_not_caught_up_before_it_fetched_all_there_is() -> None:
    led = partition(isr=(1, 2))
    led.update(registration(isr=(1, 2), change=2, replicas=(1, 2, 3, 4)), image(*map(broker, (1, 2, 3, 4))), 0)
    append(led, 4)
    for late in (3, 4):
        fetched(late, 1, led, now=10)
    assert fetched(2, 4, led, now=10) and led.log.high_watermark == 4


def test_who_left_the_isr_and_has_never_fetched_is_not_waited_for() -> None:
    led = partition()
    led.update(registration(isr=(1, 2), change=2), image(), 0)
    append(led)
    assert fetched(2, 1, led, now=10)


def test_what_is_known_already_leaves_the_change_that_was_asked_for() -> None:
    led = partition(isr=(1, 2))
    fetched(3, 0, led)
    led.propose_expansion(3)
    led.update(registration(isr=(1, 2), change=1), image(), 0)
    assert led.isr_state.maximal == {1, 2, 3}


# --- appending --------------------------------------------------------------------------------------------------------


def test_too_few_in_sync_replicas_refuse_acks_all_before_anything_is_appended() -> None:
    led = partition(min_isr=2, isr=(1,))
    with pytest.raises(KafkaError, match="1 replicas are in sync, 2 are demanded") as refused:
        append(led)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert led.log.log_end_offset == 0
    append(led, needs_all=False)
    assert led.log.log_end_offset == 1, "acks 0 and 1 do not ask for it"


def test_a_topic_demands_no_more_than_it_has_replicas() -> None:
    led = partition(min_isr=3, isr=(1,), replicas=(1,))
    append(led)
    assert led.log.high_watermark == 1


def test_with_the_replicas_that_a_reassignment_removes_the_demand_falls_though_the_isr_was_known_before() -> None:
    led = partition(min_isr=2, isr=(1, 2), replicas=(1, 2))
    led.accept_isr(frozenset({1}), 2, 0)
    assert led.is_under_min_isr
    led.update(registration(isr=(1,), change=2, replicas=(1,)), image(), 0)
    assert not led.is_under_min_isr


def test_a_follower_appends_nothing_of_a_producer() -> None:
    follower = partition(leader=2)
    with pytest.raises(KafkaError) as refused:
        append(follower)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_only_a_leader_deletes_records_and_before_offset_0_there_are_none() -> None:
    led = partition(isr=(1,), replicas=(1, 7))
    append(led, 3)
    assert led.delete_records(0) == led.low_watermark == 0
    assert led.delete_records(2) == led.low_watermark == 2, "no broker 7 is known that might be waited for"
    led.update(registration(leader=2, epoch=6, change=2), image(), 0)
    with pytest.raises(KafkaError) as refused:
        led.delete_records(3)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("epoch", "error"), [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH), (5, None), (-1, None)]
)
def test_the_epoch_that_a_client_believes_in_is_checked(epoch: int, error: ErrorCode | None) -> None:
    led = partition()
    if error is None:
        led.check_leader(epoch)
        return
    with pytest.raises(KafkaError) as refused:
        led.check_leader(epoch)
    assert refused.value.code is error


def test_what_an_idempotent_producer_sends_twice_stands_once() -> None:
    led = partition()
    first = led.append_as_leader(produced(7, 0, 2), 0)
    again = led.append_as_leader(produced(7, 0, 2), 0)
    assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset) == (0, 1)
    assert led.log.log_end_offset == 2
    with pytest.raises(KafkaError) as refused:
        led.append_as_leader(produced(7, 5), 0)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_acknowledgement_waits_for_the_high_watermark_and_for_enough_replicas() -> None:
    led = partition(min_isr=2)
    end = append(led) + 1
    assert led.replicated_up_to(end) is None
    fetched(2, 1, led)
    fetched(3, 1, led)
    assert led.replicated_up_to(end) is ErrorCode.NONE
    led.update(registration(isr=(1,), change=2), image(), 0)
    assert led.replicated_up_to(end) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    led.update(registration(leader=2, epoch=6, change=3), image(), 0)
    assert led.replicated_up_to(end) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- the ISR ----------------------------------------------------------------------------------------------------------


def members(proposal: IsrProposal | None) -> tuple[tuple[int, int], ...]:
    assert proposal is not None
    return proposal.isr


def test_a_follower_joins_when_it_reaches_the_high_watermark() -> None:
    led = partition(isr=(1, 2))
    append(led, 4)
    fetched(2, 3, led)
    assert led.log.high_watermark == 3
    fetched(3, 2, led)
    assert led.propose_expansion(3) is None
    fetched(3, 3, led)
    proposal = led.propose_expansion(3)
    assert members(proposal) == ((1, -1), (2, 102), (3, 103))
    assert led.isr_state.change is IsrChange.EXPANDING and led.isr_state.maximal == {1, 2, 3}
    assert led.propose_expansion(3) is None, "one change at a time"
    led.reject_isr()
    assert led.propose_expansion(2) is None and led.propose_expansion(9) is None, "one is in it, the other no replica"
    led.propose_expansion(3)
    assert not fetched(2, 4, led, now=9 * MAX_LAG_MS), "from now on it is waited for, however long it takes"


def test_a_new_leader_lets_nobody_in_who_has_not_reached_its_own_epoch() -> None:
    """Its high watermark lags behind what its predecessor has acknowledged: offset 4 is past it (KAFKA-7128)."""
    led = partition(isr=(1, 2), leader=2)
    led.append_as_follower(batch(5).buffer, leader_high_watermark=3)
    led.update(registration(isr=(1, 2), epoch=6, change=2), image(), 0)
    assert led.leader_epoch_start == 5
    fetched(3, 4, led)
    assert led.log.high_watermark == 3, "2 has not fetched from this leader, and 3 is to be kept out by the epoch alone"
    assert led.propose_expansion(3) is None
    fetched(3, 5, led)
    assert led.propose_expansion(3) is not None


def test_a_process_that_the_controller_does_not_know_is_not_let_in() -> None:
    led = partition(isr=(1, 2))
    with pytest.raises(KafkaError, match="fetches with epoch 99, 103 is registered"):
        led.record_fetch(3, 0, 99, 0)
    assert led.propose_expansion(3) is None
    led.record_fetch(3, 0, 203, 0)  # registered, but this broker has not read that yet
    assert led.propose_expansion(3) is None
    led.set_image(image(broker(1), broker(2), replace(broker(3), epoch=203)))
    assert led.propose_expansion(3) is not None


def test_a_fetch_of_a_process_that_is_gone_or_of_a_stranger_is_refused() -> None:
    led = partition()
    fetched(2, 0, led)
    for replica, epoch in [(2, 101), (9, 109)]:
        with pytest.raises(KafkaError) as refused:
            led.record_fetch(replica, 0, epoch, 0)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    led.record_fetch(2, 0, -1, 0)  # an old follower does not say which process it is


def test_a_fetch_of_a_process_that_the_metadata_log_has_replaced_is_refused_before_its_successor_fetches() -> None:
    led = partition(isr=(1, 2))
    append(led, 4)
    led.set_image(image(broker(1), broker(2), replace(broker(3), epoch=203)))
    with pytest.raises(KafkaError, match="fetches with epoch 103, 203 is registered") as refused:
        led.record_fetch(3, 4, 103, 0)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert led.followers[3].end_offset == -1
    led.record_fetch(3, 0, 203, 0)


def test_a_follower_leaves_when_it_has_lagged_for_too_long_and_is_waited_for_until_then() -> None:
    led = partition()
    append(led)
    fetched(2, 1, led, now=900)
    assert led.propose_shrinking(MAX_LAG_MS) is None
    proposal = led.propose_shrinking(MAX_LAG_MS + 1)
    assert members(proposal) == ((1, -1), (2, 102))
    assert led.isr_state.maximal == {1, 2, 3}, "until the controller has agreed"
    assert led.log.high_watermark == 0
    assert led.propose_shrinking(MAX_LAG_MS + 2) is None
    assert led.accept_isr(frozenset({1, 2}), 2, MAX_LAG_MS + 3), "now the high watermark rises"
    assert led.log.high_watermark == 1


def test_who_keeps_up_with_a_busy_leader_does_not_leave() -> None:
    """Its fetches never reach the end, for the log has grown since; but each reaches where it ended before."""
    led = partition()
    for now in range(0, 5000, 100):
        end = led.log.log_end_offset
        append(led, 5, now=now)
        fetched(2, end, led, now)
        fetched(3, end, led, now)
        assert led.propose_shrinking(now) is None


def test_a_refused_change_is_taken_back_and_an_outdated_agreement_is_ignored() -> None:
    led = partition(isr=(1, 2))
    fetched(3, 0, led)
    led.propose_expansion(3)
    led.reject_isr()
    assert led.isr_state.isr == {1, 2} and not led.isr_state.is_in_flight
    led.propose_expansion(3)
    assert not led.accept_isr(frozenset({1}), 1, 0)
    assert led.isr_state.is_in_flight
    led.update(registration(change=2), image(), 0)
    assert led.isr_state.isr == {1, 2, 3} and not led.isr_state.is_in_flight


def test_what_the_log_tells_late_changes_nothing() -> None:
    led = partition()
    led.accept_isr(frozenset({1, 2}), 7, 0)
    assert not led.update(registration(change=6), image(), 0)
    assert led.isr_state.isr == {1, 2} and led.partition_epoch == 7


def test_a_reassignment_ends_for_its_leader_when_the_log_tells_it_though_the_isr_was_known_before() -> None:
    led = partition(isr=(1, 2))
    led.update(replace(registration(isr=(1, 2), change=2), adding_replicas=(3,)), image(), 0)
    assert led.is_reassigning and led.adding == {3}
    fetched(3, 0, led)
    led.propose_expansion(3)
    led.accept_isr(frozenset({1, 2, 3}), 3, 0)
    assert led.is_reassigning, "an answer has no replicas in it"
    proposal = led.propose_shrinking(2 * MAX_LAG_MS)
    assert proposal is not None
    led.update(registration(change=3), image(), 2 * MAX_LAG_MS)
    assert not led.is_reassigning and not led.adding
    assert led.isr_state.is_in_flight, "what was asked for since is not forgotten"


def test_a_leader_whose_partition_loses_a_replica_hears_no_fetch_of_it_any_more() -> None:
    led = partition()
    append(led)
    fetched(2, 1, led)
    assert led.log.high_watermark == 0
    led.update(registration(isr=(1, 2), epoch=6, change=2, replicas=(1, 2)), image(), 0)
    assert led.log.high_watermark == 0, "replica 2 shows again in the new epoch what it has"
    with pytest.raises(KafkaError) as refused:
        fetched(3, 1, led)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched(2, 1, led)


def test_a_follower_is_caught_up_as_of_its_last_fetch_from_where_the_log_had_ended_at_the_fetch_before() -> None:
    follower = FollowerState(2, last_caught_up=-(1 << 62))
    # (now, its end, the leader's end): caught up as of
    for now, end, leader_end, caught_up in (
        (1000, 10, 10, 1000),
        (1050, 10, 15, 1000),
        (1090, 15, 20, 1050),
        (1140, 16, 30, 1050),
    ):
        follower.record_fetch(end, 0, leader_end, 102, now)
        assert follower.is_caught_up(99, caught_up + 100, 100) and not follower.is_caught_up(99, caught_up + 101, 100)
    assert follower.is_caught_up(16, 1 << 40, 100), "who has everything is, however long ago it came"
