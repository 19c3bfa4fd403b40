"""Where requests wait, and the way to the controller: each is answered once, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest

from pykraft.broker.replication.purgatory import Purgatory
from pykraft.broker.startup.controller_channel import RETRY_BACKOFF_MS, ControllerChannel
from pykraft.common.core import Failure, Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.fault_handler import FaultHandler, StrictFaultHandler
from pykraft.common.timer import Timer
from pykraft.common.trace import RingBuffer, Silence, Tracer
from pykraft.common.types import Node
from pykraft.protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    BrokerHeartbeatRequest,
)

FAULTS = StrictFaultHandler(Tracer(1, Silence()))


class Door:
    """An operation that can be completed when it stands open."""

    def __init__(self) -> None:
        self.is_open = False
        self.tried = 0
        self.ended: list[str] = []
        self.promise: Promise[None] = Promise()

    def try_complete(self, key: Hashable = None) -> bool:
        self.tried += 1
        if self.is_open:
            self.ended.append("complete")
        return self.is_open

    def expire(self) -> None:
        self.ended.append("expired")


def test_what_can_be_done_at_once_does_not_wait() -> None:
    timer = Timer()
    purgatory, door = Purgatory(timer, FAULTS), Door()
    door.is_open = True
    assert purgatory.try_complete_else_watch(door, ["a"], 100)
    assert len(purgatory) == 0 and door.ended == ["complete"]
    timer.expire(200)
    assert door.ended == ["complete"]


def test_an_operation_that_watches_several_keys_is_completed_once() -> None:
    timer = Timer()
    purgatory, door = Purgatory(timer, FAULTS), Door()
    assert not purgatory.try_complete_else_watch(door, ["a", "b"], 100)
    assert len(purgatory) == 1
    purgatory.check("b")
    purgatory.check("elsewhere")
    assert (door.tried, door.ended) == (2, [])
    door.is_open = True
    for key in ("b", "a"):
        purgatory.check(key)
    timer.expire(200)
    assert door.ended == ["complete"] and len(purgatory) == 0


def test_what_nothing_helps_expires_once() -> None:
    timer = Timer()
    purgatory, door = Purgatory(timer, FAULTS), Door()
    purgatory.try_complete_else_watch(door, ["a"], 100)
    timer.expire(99)
    assert door.ended == []
    timer.expire(100)
    door.is_open = True
    purgatory.check("a")
    assert door.ended == ["expired"] and len(purgatory) == 0


def test_an_operation_may_bring_new_ones_while_it_is_completed() -> None:
    purgatory = Purgatory(Timer(), FAULTS)
    second = Door()

    class Chain(Door):
        def try_complete(self, key: Hashable = None) -> bool:
            if self.is_open:
                purgatory.try_complete_else_watch(second, ["a"], 100)
            return super().try_complete(key)

    first = Chain()
    purgatory.try_complete_else_watch(first, ["a"], 100)
    first.is_open = True
    purgatory.check("a")
    second.is_open = True
    purgatory.check("a")
    assert (first.ended, second.ended) == (["complete"], ["complete"])


def test_dead_operations_do_not_pile_up_under_a_key_that_nothing_happens_to() -> None:
    timer = Timer()
    purgatory = Purgatory(timer, FAULTS)
    for now in range(1000):
        purgatory.try_complete_else_watch(Door(), ["quiet"], now)
        timer.expire(now)
    assert sum(len(entries) for entries in purgatory._watchers.values()) < 200


def test_an_operation_whose_client_hung_up_leaves_every_key_and_is_tried_no_more() -> None:
    timer = Timer()
    purgatory, door, other = Purgatory(timer, FAULTS), Door(), Door()
    for each in (door, other):
        purgatory.try_complete_else_watch(each, ["a", "b"], 100)
    door.promise.abandon()
    assert len(purgatory) == 1 and len(timer) == 1
    for key in ("a", "b"):
        purgatory.check(key)
    timer.expire(200)
    assert (door.tried, door.ended) == (1, [])
    assert (other.tried, other.ended) == (3, ["expired"])
    assert len(purgatory) == 0 and not purgatory._watchers


def test_what_an_answer_makes_happen_does_not_complete_the_operation_again() -> None:
    purgatory = Purgatory(Timer(), FAULTS)

    class Echo(Door):
        def try_complete(self, key: Hashable = None) -> bool:
            if self.is_open and not self.ended:
                self.ended.append("complete")
                for key in ("a", "b"):
                    purgatory.check(key)
                return True
            return super().try_complete(key)

    echo = Echo()
    purgatory.try_complete_else_watch(echo, ["a", "b"], 100)
    echo.is_open = True
    purgatory.check("a")
    assert echo.ended == ["complete"] and len(purgatory) == 0


class Broken(Door):
    """An operation that raises when it is tried again, or expires: before its promise is kept, or after that."""

    def __init__(self, error: Exception, has_answered: bool) -> None:
        super().__init__()
        self._error = error
        self._has_answered = has_answered

    def try_complete(self, key: Hashable = None) -> bool:
        if not self.is_open:
            return False
        if self._has_answered:
            self.promise.keep(None)
        raise self._error

    def expire(self) -> None:
        self.is_open = True
        self.try_complete()


TRIGGERS: dict[str, Callable[[Purgatory, Timer], object]] = {
    "it is tried": lambda purgatory, _: purgatory.check("a"),
    "it expires": lambda _, timer: timer.expire(200),
}


@pytest.mark.survives_faults
@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("has_answered", [False, True])
def test_an_operation_that_raises_fails_its_own_promise_and_the_others_are_completed(
    trigger: str, has_answered: bool
) -> None:
    journal, timer = RingBuffer(), Timer()
    purgatory = Purgatory(timer, FaultHandler(Tracer(1, journal)))
    heard: list[str] = []
    broken, before, after = Broken(ValueError("planted"), has_answered), Door(), Door()
    broken.promise.then(lambda _: heard.append("value"), lambda error: heard.append(str(error)))
    for operation in (before, broken, after):
        purgatory.try_complete_else_watch(operation, ["a", "b"], 100)
        operation.is_open = True
    TRIGGERS[trigger](purgatory, timer)
    assert heard == (["value"] if has_answered else ["planted"])
    assert before.ended == after.ended == ["complete" if trigger == "it is tried" else "expired"]
    assert len(purgatory) == 0 and not purgatory._watchers and len(timer) == 0
    told = [event.fields["kind"] for event in journal.events]
    assert told == (["purgatory"] if has_answered else []), "the one that has no request any more is told"


def test_the_failure_of_a_disk_is_not_survived_in_the_purgatory() -> None:
    purgatory, broken = Purgatory(Timer(), FAULTS), Broken(OSError("planted"), has_answered=False)
    purgatory.try_complete_else_watch(broken, ["a"], 100)
    broken.is_open = True
    with pytest.raises(OSError, match="planted"):
        purgatory.check("a")


# --- to the controller ------------------------------------------------------------------------------------------------

ONE, TWO = Node(1, "h", 1), Node(2, "h", 2)


class Asking:
    """A channel, who is believed to be the controller, and what was answered."""

    def __init__(self) -> None:
        self.controller: Node | None = ONE
        self.channel = ControllerChannel("test", lambda: self.controller, 1000)
        self.answers: list[object] = []

    def ask(self, now: int) -> None:
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)
        self.channel.send(request, lambda response, _: self.answers.append(response), now)


DONE = AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=1000)


def test_a_request_goes_to_whoever_leads() -> None:
    asking = Asking()
    asking.ask(0)
    (outbound,) = asking.channel.poll(0).requests
    assert (outbound.destination, outbound.timeout_ms) == (ONE, 1000)
    outbound.on_response(DONE, 5)
    assert asking.answers == [DONE]
    assert asking.channel.poll(5).requests == ()


def test_a_request_waits_while_nobody_leads() -> None:
    asking = Asking()
    asking.controller = None
    asking.ask(0)
    assert asking.channel.poll(10) == (1000, ())
    asking.controller = TWO
    assert asking.channel.poll(20).requests[0].destination == TWO


def test_a_request_to_one_that_leads_no_more_goes_to_the_next() -> None:
    refused = AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    for failure in (refused, Failure.DISCONNECTED, Failure.TIMED_OUT):
        asking = Asking()
        asking.ask(0)
        asking.channel.poll(0).requests[0].on_response(failure, 100)
        asking.controller = TWO
        assert asking.channel.poll(100).requests == ()
        (outbound,) = asking.channel.poll(100 + RETRY_BACKOFF_MS).requests
        assert outbound.destination == TWO
        assert outbound.timeout_ms == 1000 - 100 - RETRY_BACKOFF_MS, "its time goes on"
        assert asking.answers == []


def test_a_request_whose_time_is_up_is_answered_with_nothing() -> None:
    asking = Asking()
    asking.controller = None
    asking.ask(0)
    asking.channel.poll(999)
    assert asking.answers == []
    asking.channel.poll(1000)
    assert asking.answers == [None]
    assert asking.channel.poll(2000).requests == ()


def test_other_errors_are_the_askers_to_read() -> None:
    asking = Asking()
    asking.ask(0)
    stale = AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    asking.channel.poll(0).requests[0].on_response(stale, 1)
    assert asking.answers == [stale]


def test_a_sender_may_be_more_impatient_than_the_channel() -> None:
    asking = Asking()
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=1, current_metadata_offset=0, want_fence=False, want_shut_down=False
    )
    asking.channel.send(request, lambda response, _: asking.answers.append(response), 0, timeout_ms=100)
    assert asking.channel.poll(0).requests[0].timeout_ms == 100
