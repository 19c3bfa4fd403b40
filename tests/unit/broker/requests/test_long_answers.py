"""A large request that is refused, and a long answer of a handler that did not go item by item: both go in slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykraft.broker.requests.dispatch import Answer, Dispatcher, Handled
from pykraft.broker.requests.long_answers import Long
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.fault_handler import StrictFaultHandler
from pykraft.common.trace import RingBuffer, Tracer
from pykraft.common.types import ZERO_UUID
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.schema import Request
from pykraft.transport.server_channel import InboundRequest, RequestContext
from tests.harness.controllers import make, new_topic
from tests.harness.storage import CountedSlice, ManualClock

REQUEST = make(*(new_topic(f"t{number}") for number in range(2000)))
ERROR = KafkaError(ErrorCode.POLICY_VIOLATION, "too many topics")
WHOLE = REQUEST.refusal(ERROR)


class Asked:
    """A dispatcher whose only handler does what the test wants. A slice is over after two steps."""

    def __init__(self, handler: Callable[[], Handled]) -> None:
        self._handler = handler
        faults = StrictFaultHandler(Tracer(1, RingBuffer()))
        self.dispatcher = Dispatcher(None, ManualClock(), lambda: 0, CountedSlice(2), faults)
        self.dispatcher.serve(ListenerKind.CONTROLLER, self, {CreateTopicsRequest: Asked.handle})

    def handle(self, request: Request, context: RequestContext, now: int) -> Handled:
        return self._handler()

    def ask(self, size_bytes: int) -> tuple[int, Any]:
        """In how many turns the request is answered, and the answer's bytes."""
        context = RequestContext("c", "L", ListenerKind.CONTROLLER, "User:u", "me", "127.0.0.1", 19, 7, 1, size_bytes)
        answered: Any = self.dispatcher.handle(InboundRequest(context, REQUEST), 0)
        turns = 1
        while isinstance(answered, Promise):
            self.dispatcher.slices.go_on(0)
            turns += 1
            answered = answered.value if answered.kept else answered
        answer: Answer = answered
        parts, _ = answer.encode(context)
        return turns, b"".join(parts)


def refuse() -> Handled:
    raise ERROR


@pytest.mark.parametrize("handler", [refuse, lambda: Long(WHOLE), lambda: Promise.of(Long(WHOLE))])
def test_it_takes_many_turns_and_has_the_same_bytes(handler: Callable[[], Handled]) -> None:
    turns, data = Asked(handler).ask(100_000)
    assert turns > 5
    assert data.endswith(WHOLE.to_bytes(7))


def test_the_refusal_of_a_small_request_and_a_short_answer_take_one_turn() -> None:
    assert Asked(refuse).ask(1000)[0] == 1
    assert Asked(lambda: Long(make(new_topic("t")).refusal(ERROR))).ask(100_000)[0] == 1


def test_a_client_that_can_be_told_nothing_loses_its_connection_also_after_a_large_request() -> None:
    topic = ProduceRequest.Topic(topic_id=ZERO_UUID, partition_data=[])
    request = ProduceRequest(acks=0, topic_data=[topic] * 1000)
    context = RequestContext("c", "L", ListenerKind.BROKER, "User:u", "me", "127.0.0.1", 0, 13, 1, 100_000)
    asked = Asked(refuse)
    asked.dispatcher.serve(ListenerKind.BROKER, asked, {ProduceRequest: Asked.handle})
    answered: Any = asked.dispatcher.handle(InboundRequest(context, request), 0)
    assert answered.hang_up
