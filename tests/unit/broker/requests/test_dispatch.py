"""From a request to its handler and back: what a handler returns, raises, or waits for, and what the client gets."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker.requests.dispatch import Answer, CloseConnection, Dispatcher, Handled, Handlers
from pykraft.broker.requests.quotas import Quotas, Used
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.trace import RingBuffer, Tracer
from pykraft.protocol.api import ListenerKind, apis
from pykraft.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataResponse,
)
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.quorum import DescribeQuorumRequest
from pykraft.protocol.schema import Request
from pykraft.transport.server_channel import InboundRequest, RequestContext
from tests.harness.controllers import make, new_topic
from tests.harness.lone_node import LoneNode
from tests.harness.storage import CountedSlice, ManualClock, batch

BROKER, CONTROLLER = ListenerKind.BROKER, ListenerKind.CONTROLLER
KINDS = pytest.mark.parametrize("kind", list(ListenerKind), ids=lambda kind: kind.value)


class SomeApis:
    """One handler of each sort."""

    def __init__(self) -> None:
        self.promise: Promise[MetadataResponse] = Promise()

    def at_once(self, request: Request, context: RequestContext, now: int) -> Handled:
        return ApiVersionsResponse(api_keys=[])

    def later(self, request: Request, context: RequestContext, now: int) -> Handled:
        return self.promise

    def refuses(self, request: Request, context: RequestContext, now: int) -> Handled:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")

    def hangs_up(self, request: Request, context: RequestContext, now: int) -> Handled:
        raise CloseConnection


HANDLERS: Handlers = {
    ApiVersionsRequest: SomeApis.at_once,
    MetadataRequest: SomeApis.later,
    DescribeClusterRequest: SomeApis.refuses,
    ProduceRequest: SomeApis.refuses,
    FindCoordinatorRequest: SomeApis.hangs_up,
}


def inbound(request: Request, kind: ListenerKind = BROKER) -> InboundRequest:
    version = request.versions[1]
    context = RequestContext("c", kind.name, kind, "User:u", "me", "127.0.0.1", request.api, version, 1, 200)
    return InboundRequest(context, request)


def dispatcher_of(quotas: Quotas | None) -> Dispatcher:
    return Dispatcher(
        quotas,
        ManualClock(),
        now=lambda: 0,
        time_slice=CountedSlice(1),
        fault_handler=FaultHandler(Tracer(1, RingBuffer())),
    )


@pytest.fixture
def served() -> tuple[SomeApis, Dispatcher]:
    some = SomeApis()
    dispatcher = dispatcher_of(None)
    dispatcher.serve(BROKER, some, HANDLERS)
    return some, dispatcher


def test_a_response_is_an_answer_without_a_promise(served: tuple[SomeApis, Dispatcher]) -> None:
    _, dispatcher = served
    answer = dispatcher.handle(inbound(ApiVersionsRequest()), 0)
    assert answer == Answer(ApiVersionsResponse(api_keys=[]))


def test_a_promise_that_is_kept_already_is_an_answer_too(served: tuple[SomeApis, Dispatcher]) -> None:
    some, dispatcher = served
    some.promise.keep(MetadataResponse(brokers=[], topics=[]))
    assert dispatcher.handle(inbound(MetadataRequest()), 0) == Answer(MetadataResponse(brokers=[], topics=[]))


def test_what_has_to_wait_is_promised_and_a_client_that_leaves_abandons_it(
    served: tuple[SomeApis, Dispatcher],
) -> None:
    some, dispatcher = served
    first = dispatcher.handle(inbound(MetadataRequest()), 0)
    assert isinstance(first, Promise)
    some.promise.keep(MetadataResponse(brokers=[], topics=[]))
    assert first.value == Answer(MetadataResponse(brokers=[], topics=[]))
    some.promise = Promise()
    second = dispatcher.handle(inbound(MetadataRequest()), 0)
    assert isinstance(second, Promise)
    second.abandon()
    assert some.promise.abandoned


def test_an_error_that_a_handler_raises_refuses_the_whole_request(served: tuple[SomeApis, Dispatcher]) -> None:
    _, dispatcher = served
    answer: Any = dispatcher.handle(inbound(DescribeClusterRequest()), 0)
    assert (answer.response.error_code, answer.response.error_message) == (31, "not you")
    part = ProduceRequest.Topic.Partition(index=7, records=b"")
    topic = ProduceRequest.Topic(name="t", partition_data=[part])
    answer = dispatcher.handle(inbound(ProduceRequest(acks=1, timeout_ms=0, topic_data=[topic])), 0)
    (refused,) = answer.response.responses[0].partition_responses
    assert (refused.index, refused.error_code, refused.error_message) == (7, 31, "not you")


def test_a_client_that_wants_no_answer_or_can_be_told_nothing_loses_its_connection(
    served: tuple[SomeApis, Dispatcher],
) -> None:
    _, dispatcher = served
    assert dispatcher.handle(inbound(ProduceRequest(acks=0, timeout_ms=0, topic_data=[])), 0) == Answer(
        None, hang_up=True
    )
    assert dispatcher.handle(inbound(FindCoordinatorRequest()), 0) == Answer(None, hang_up=True)


class Huge:
    """Handlers whose request needs more memory than there is: at once, or in the step after a pause."""

    def at_once(self, request: Request, context: RequestContext, now: int) -> Handled:
        raise MemoryError

    def after_a_pause(self, request: Request, context: RequestContext, now: int) -> Handled:
        return ItemByItem((1, 2), lambda item, _: item, self.gather)

    def gather(self, answers: list[int], now: int) -> Handled:
        raise MemoryError


class FreeOfCharge:
    """Quotas that never throttle."""

    def record(self, context: RequestContext, used: Used, now: int) -> int:
        return 0


@pytest.mark.parametrize("quotas", [None, FreeOfCharge()], ids=["without quotas", "with quotas"])
def test_a_request_without_enough_memory_loses_its_connection_and_the_next_one_is_answered(
    quotas: Quotas | None,
) -> None:
    dispatcher = dispatcher_of(quotas)
    dispatcher.serve(BROKER, Huge(), {MetadataRequest: Huge.at_once, DescribeClusterRequest: Huge.after_a_pause})
    dispatcher.serve(BROKER, SomeApis(), {ApiVersionsRequest: SomeApis.at_once})
    assert dispatcher.handle(inbound(MetadataRequest()), 0) == Answer(None, hang_up=True)
    paused = dispatcher.handle(inbound(DescribeClusterRequest()), 0)
    assert isinstance(paused, Promise) and not paused.kept
    dispatcher.slices.go_on(1)
    assert paused.value == Answer(None, hang_up=True) and len(dispatcher.slices) == 0
    answer = dispatcher.handle(inbound(ApiVersionsRequest()), 0)
    assert isinstance(answer, Answer) and answer.response == ApiVersionsResponse(api_keys=[])


def test_a_request_has_one_handler_on_a_listener_and_none_where_it_is_not_served() -> None:
    dispatcher = dispatcher_of(None)
    dispatcher.serve(CONTROLLER, SomeApis(), HANDLERS)
    assert dispatcher.requests(CONTROLLER) == {ApiVersionsRequest, DescribeClusterRequest}
    with pytest.raises(AssertionError, match="ApiVersionsRequest has a handler"):
        dispatcher.serve(CONTROLLER, SomeApis(), HANDLERS)


# --- a whole node -----------------------------------------------------------------------------------------------------


@KINDS
def test_each_request_that_a_listener_advertises_has_a_handler(kind: ListenerKind) -> None:
    wanted = {api.request for api in apis.values() if kind in api.listeners}
    assert LoneNode().node.dispatcher.requests(kind) == wanted


def test_a_client_that_leaves_is_no_longer_waited_for_at_the_controller() -> None:
    lone = LoneNode()
    waiting = lone.handle(make(new_topic("t", assignment={0: [1]})), CONTROLLER)
    assert not waiting.kept
    waiting.abandon()
    lone.run()
    assert "t" in lone.node.loader.image.topic_ids, "the topic is made all the same"
    assert waiting.abandoned


def test_an_answer_from_the_controller_to_a_client_that_has_left_goes_nowhere() -> None:
    lone = LoneNode()
    asked = DescribeQuorumRequest.Topic(topic_name="x", partitions=[])
    waiting = lone.handle(DescribeQuorumRequest(topics=[asked]))
    other = lone.handle(DescribeQuorumRequest(topics=[asked]))
    waiting.abandon()
    lone.run()
    assert other.kept
    assert not waiting.kept


def test_a_request_whose_client_leaves_before_the_broker_is_open_is_not_handled() -> None:
    first = LoneNode()
    topic = first.create()
    first.node.abandon()
    lone = LoneNode(first.filesystem, cut_off=True)
    left, stayed = lone.produce(topic, batch().buffer, acks=1), lone.produce(topic, batch().buffer, acks=1)
    left.abandon()
    lone.cut_off = False
    lone.run(5000)
    assert stayed.value.response.responses[0].partition_responses[0].base_offset == 0  # type: ignore[union-attr]
    (partition,) = lone.broker.replicas.partitions.values()
    assert partition.log.log_end_offset == 1
