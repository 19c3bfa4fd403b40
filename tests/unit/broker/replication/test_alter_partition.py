"""Asking the controller for changes of ISRs: what is asked together, what is asked again, and what an answer does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pykraft.broker.replication.alter_partition import RETRY_BACKOFF_MS, AlterPartitionManager
from pykraft.broker.replication.partition import IsrChange, Partition
from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.common.core import Failure, Outbound
from pykraft.common.errors import ErrorCode
from pykraft.common.timer import Timer
from pykraft.common.types import Node
from pykraft.protocol.messages.brokers import AlterPartitionResponse
from tests.harness.storage import settings
from tests.unit.broker.replication.test_partition import append, broker, fetched, image, partition, registration

CONTROLLER = Node(9, "controller", 9093)
TIMEOUT_MS = 30_000


class Asking:
    """A manager with its channel, whose other end is the test."""

    def __init__(self) -> None:
        self.channel = ControllerChannel("alter-partition", lambda: CONTROLLER, TIMEOUT_MS)
        self.timer = Timer()
        self.woken: list[Partition] = []
        self.manager = AlterPartitionManager(1, lambda: 101, self.channel, self.woken.append, self.timer)

    def sent(self, now: int = 0) -> list[Outbound]:
        self.timer.expire(now)
        return list(self.channel.poll(now).requests)

    def expand(self, led: Partition) -> None:
        """3 is to join."""
        fetched(3, led.log.log_end_offset, led)
        proposal = led.propose_expansion(3)
        assert proposal is not None
        self.manager.submit(proposal, 0)

    def asked(self, led: Partition) -> Outbound:
        """3 is to join, and that is on its way to the controller."""
        self.expand(led)
        (outbound,) = self.sent()
        return outbound


def answer(
    led: Partition,
    isr: tuple[int, ...] = (1, 2, 3),
    epoch: int = 2,
    error: ErrorCode = ErrorCode.NONE,
    leader_epoch: int = 5,
) -> Any:
    """What the controller says of this one partition."""
    topic = AlterPartitionResponse.Topic
    told = topic.Partition(
        partition_index=led.key.partition,
        error_code=error,
        leader_id=1,
        leader_epoch=leader_epoch,
        isr=isr,
        partition_epoch=epoch,
    )
    return AlterPartitionResponse(topics=[topic(topic_id=led.key.topic_id, partitions=[told])])


def test_what_comes_up_while_one_request_is_on_its_way_goes_together_into_the_next() -> None:
    asking = Asking()
    first, second, third = (partition(isr=(1, 2)) for _ in range(3))
    second.key, third.key = (second.key._replace(partition=1), third.key._replace(partition=2))
    under_way = asking.asked(first)
    asking.expand(third)
    asking.expand(second)
    assert asking.sent() == []
    under_way.on_response(answer(first), 1)
    (both,) = asking.sent(1)
    assert [p.partition_index for topic in both.request.topics for p in topic.partitions] == [1, 2]  # type: ignore[attr-defined]


def test_a_change_says_the_epochs_that_it_was_made_in_and_the_brokers_with_theirs() -> None:
    asking = Asking()
    request: Any = asking.asked(partition(isr=(1, 2))).request
    ((asked,),) = [topic.partitions for topic in request.topics]
    assert (request.broker_id, request.broker_epoch) == (1, 101)
    assert (asked.leader_epoch, asked.partition_epoch) == (5, 1)
    assert [(b.broker_id, b.broker_epoch) for b in asked.new_isr_with_epochs] == [(1, -1), (2, -1), (3, 103)]


def test_an_agreed_expansion_holds_and_whoever_waits_for_the_high_watermark_is_woken() -> None:
    asking = Asking()
    led = partition(min_isr=2, isr=(1,), replicas=(1, 3))
    append(led, needs_all=False)
    asking.asked(led).on_response(answer(led, isr=(1, 3)), 1)
    assert led.isr_state.isr == {1, 3} and led.isr_state.change is IsrChange.COMMITTED
    assert asking.woken == [led] and led.log.high_watermark == 1


def test_an_agreed_shrinking_holds_when_the_metadata_log_tells_it() -> None:
    """The controller knows by then that min.insync.replicas is 2, and takes replica 2 for eligible (KIP-966). The
    answer comes first: by the setting that the leader knows, it would commit what replica 2 does not have."""
    asking = Asking()
    led = partition(isr=(1, 2))
    append(led)
    fetched(3, 1, led)
    lagging = led.propose_shrinking(5000)
    assert lagging is not None and [replica for replica, _ in lagging.isr] == [1]
    asking.manager.submit(lagging, 5000)
    (outbound,) = asking.sent(5000)
    outbound.on_response(answer(led, isr=(1,)), 5001)
    assert led.log.high_watermark == 0 and not asking.woken
    assert led.isr_state.maximal == {1, 2} and led.isr_state.is_in_flight
    led.set_config(settings(min_insync_replicas=2))
    led.update(registration(isr=(1,), change=2), image(), 5002)
    assert led.isr_state.isr == {1} and not led.isr_state.is_in_flight
    assert led.log.high_watermark == 0
    led.set_config(settings(min_insync_replicas=1))
    assert led.advance_high_watermark(5003)


def test_an_agreed_change_that_commits_nothing_new_wakes_nobody() -> None:
    asking = Asking()
    led = partition(isr=(1, 2))
    outbound = asking.asked(led)
    outbound.on_response(answer(led), 1)
    assert led.isr_state.isr == {1, 2, 3} and asking.woken == []


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refused_change_leaves_the_isr_as_it_was_and_is_not_asked_again(error: ErrorCode) -> None:
    asking = Asking()
    led = partition(isr=(1, 2))
    outbound = asking.asked(led)
    outbound.on_response(answer(led, error=error), 1)
    assert led.isr_state.maximal == {1, 2} and not led.isr_state.is_in_flight
    assert asking.sent(60_000) == []


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION])
def test_after_another_refusal_the_change_stays_possible_until_the_metadata_log_tells(error: ErrorCode) -> None:
    """The controller knows a newer state: the ISR may be either, so the largest is waited for."""
    asking = Asking()
    led = partition(isr=(1, 2))
    outbound = asking.asked(led)
    outbound.on_response(answer(led, error=error), 1)
    assert led.isr_state.maximal == {1, 2, 3}
    assert asking.sent(60_000) == []
    led.update(registration(isr=(1, 2), change=2), image(), 60_000)
    assert led.isr_state.maximal == {1, 2}


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
def test_what_is_not_decided_is_asked_again_after_a_pause(error: ErrorCode) -> None:
    asking = Asking()
    led = partition(isr=(1, 2))
    outbound = asking.asked(led)
    outbound.on_response(answer(led, error=error), 1)
    assert led.isr_state.maximal == {1, 2, 3}, "it may have been made"
    assert asking.sent(RETRY_BACKOFF_MS) == []
    (again,) = asking.sent(1 + RETRY_BACKOFF_MS)
    assert again.request == outbound.request


@pytest.mark.parametrize("lost", ["not the controller", "the answer does not name it", "the time was up"])
def test_a_change_that_is_sent_again_names_the_process_that_was_in_sync_and_not_the_one_that_came_after(
    lost: str,
) -> None:
    """Broker 3 loses its power, registers with epoch 203 and fetches from offset 0. Process 203 was never in sync."""
    asking = Asking()
    led = partition(isr=(1, 2))
    append(led, 4)
    fetched(2, 4, led)
    outbound = asking.asked(led)
    led.set_image(image(broker(1), broker(2), replace(broker(3), epoch=203)))
    led.record_fetch(3, 0, 203, 1)
    if lost == "not the controller":
        outbound.on_response(answer(led, error=ErrorCode.NOT_CONTROLLER), 1)
    elif lost == "the answer does not name it":
        outbound.on_response(AlterPartitionResponse(topics=[]), 1)
    else:
        outbound.on_response(Failure.TIMED_OUT, TIMEOUT_MS)
        assert asking.sent(TIMEOUT_MS) == [], "the channel gives up"
    (again,) = asking.sent(2 * TIMEOUT_MS)
    assert again.request == outbound.request


def test_a_leader_whose_change_was_refused_proposes_the_new_process_when_that_has_caught_up() -> None:
    asking = Asking()
    led = partition(isr=(1, 2))
    append(led, 4)
    fetched(2, 4, led)
    outbound = asking.asked(led)
    led.set_image(image(broker(1), broker(2), replace(broker(3), epoch=203)))
    led.record_fetch(3, 0, 203, 1)
    append(led)
    assert not fetched(2, 5, led) and led.log.high_watermark == 4, "the controller may yet agree: 3 is waited for"
    outbound.on_response(answer(led, error=ErrorCode.INELIGIBLE_REPLICA), 2)
    assert led.isr_state.change is IsrChange.COMMITTED and led.isr_state.maximal == {1, 2}
    assert led.propose_expansion(3) is None, "process 203 has not reached the high watermark"
    led.record_fetch(3, 5, 203, 3)
    proposal = led.propose_expansion(3)
    assert proposal is not None and proposal.isr == ((1, -1), (2, 102), (3, 203))


def test_an_answer_of_another_leader_epoch_does_not_settle_a_change() -> None:
    """The same change may have made this broker the leader of a newer epoch. The metadata log says so soon."""
    asking = Asking()
    led = partition(isr=(1, 2))
    outbound = asking.asked(led)
    outbound.on_response(answer(led, leader_epoch=6), 1)
    assert led.isr_state.is_in_flight and led.partition_epoch == 1
    assert led.update(registration(epoch=6, change=2), image(), 2)
    assert led.isr_state.isr == {1, 2, 3} and not led.isr_state.is_in_flight


@pytest.mark.parametrize("silence", ["no broker answers", "the answer does not name it"])
def test_no_answer_is_not_taken_for_one(silence: str) -> None:
    asking = Asking()
    led = partition(isr=(1, 2))
    outbound = asking.asked(led)
    outbound.on_response(AlterPartitionResponse(topics=[]), 1)
    if silence == "no broker answers":
        (outbound,) = asking.sent(1 + RETRY_BACKOFF_MS)
        outbound.on_response(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[]), 60)
    assert led.isr_state.maximal == {1, 2, 3}
    assert [each.request for each in asking.sent(60 + RETRY_BACKOFF_MS)] == [outbound.request]


def test_an_answer_that_the_metadata_log_has_overtaken_changes_nothing() -> None:
    asking = Asking()
    led = partition(isr=(1, 2))
    outbound = asking.asked(led)
    led.update(registration(isr=(1,), change=3), image(), 1)
    outbound.on_response(answer(led, epoch=2), 2)
    assert (led.isr_state.maximal, led.partition_epoch) == ({1}, 3)
    assert asking.sent(60_000) == []


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NOT_CONTROLLER])
def test_nor_does_it_touch_the_change_that_was_asked_for_since(error: ErrorCode) -> None:
    asking = Asking()
    led = partition(isr=(1, 2))
    outbound = asking.asked(led)
    led.update(registration(isr=(1, 2), change=3), image(), 1)
    asking.expand(led)
    outbound.on_response(answer(led, error=error), 2)
    assert led.isr_state.maximal == {1, 2, 3}
    (newer,) = asking.sent(2)
    assert newer.request.topics[0].partitions[0].partition_epoch == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("outcome", [ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NOT_CONTROLLER])
def test_an_answer_about_a_replica_that_this_broker_has_given_up_is_not_that_of_the_one_that_it_has_now(
    outcome: ErrorCode,
) -> None:
    """A reassignment has moved the replica away and back: it is of the same topic, and its log is another one."""
    asking = Asking()
    given_up, led = partition(isr=(1, 2)), partition(isr=(1, 2), epoch=5)
    outbound = asking.asked(given_up)
    given_up.leader_id = -1
    asking.expand(led)
    outbound.on_response(answer(given_up, error=outcome), 1)
    assert given_up.partition_epoch == 1 and asking.woken == []
    (newer,) = asking.sent(2 * RETRY_BACKOFF_MS)
    newer.on_response(answer(led), 60)
    assert led.isr_state.isr == {1, 2, 3} and not led.isr_state.is_in_flight
