"""Quotas charge each request, and a throttled client reads the time in its answer (KIP-219)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykraft.broker.requests.dispatch import Answer, Dispatcher, Handled
from pykraft.broker.requests.quotas import Used
from pykraft.common.core import Promise
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.trace import RingBuffer, Tracer
from pykraft.protocol.api import ListenerKind, apis
from pykraft.protocol.header import decode_response
from pykraft.protocol.messages.brokers import EnvelopeRequest
from pykraft.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest, MetadataResponse
from pykraft.protocol.messages.data import FetchRequest, ProduceRequest
from pykraft.protocol.messages.quorum import DescribeQuorumRequest
from pykraft.protocol.schema import Request, Response
from pykraft.transport.server_channel import InboundRequest, RequestContext
from tests.harness.controllers import make, new_topic
from tests.harness.lone_node import REQUEST_BYTES, LoneNode
from tests.harness.storage import CountedSlice, ManualClock, batch
from tests.protocol.values import each_version

BROKER, CONTROLLER = ListenerKind.BROKER, ListenerKind.CONTROLLER
CLIENT = "User:client"


class Throttle:
    """Throttles everything that a client asks for by this many milliseconds, and notes what it has used."""

    def __init__(self, throttle_ms: int = 250) -> None:
        self.throttle_ms = throttle_ms
        self.recorded: list[tuple[int, str, Used, int]] = []

    def record(self, context: RequestContext, used: Used, now: int) -> int:
        self.recorded.append((context.api_key, context.principal, used, now))
        return self.throttle_ms if context.principal == CLIENT else 0

    def of(self, request: type[Request]) -> Iterator[tuple[str, Used, int]]:
        """(principal, used, now) of each of these requests."""
        return (noted[1:] for noted in self.recorded if noted[0] == request.api)


class SomeApis:
    """Answers, after this many microseconds, with what it is given."""

    def __init__(self, clock: ManualClock, handled: Handled, needs_us: int = 0) -> None:
        self._clock = clock
        self._handled = handled
        self._needs_us = needs_us

    def answer(self, request: Request, context: RequestContext, now: int) -> Handled:
        self._clock.now_us += self._needs_us
        return self._handled


def context_of(request: type[Any], version: int) -> RequestContext:
    (kind, *_) = request.served_by
    return RequestContext("c", kind.name, kind, CLIENT, "me", "127.0.0.1", request.api, version, 1, 123)


def dispatched(
    quotas: Throttle | None, request: type[Any], handled: Handled, version: int, needs_us: int = 0, now: int = 70
) -> Answer | Promise[Answer]:
    """What comes of a request of 123 bytes whose handler returns this."""
    context = context_of(request, version)
    clock = ManualClock()
    faults = FaultHandler(Tracer(1, RingBuffer()))
    dispatcher = Dispatcher(quotas, clock, now=lambda: now, time_slice=CountedSlice(1), fault_handler=faults)
    dispatcher.serve(context.kind, SomeApis(clock, handled, needs_us), {request: SomeApis.answer})
    return dispatcher.handle(InboundRequest(context, request()), 0)


def throttled(answer: Any, request: type[Any], version: int) -> int:
    """Send the answer; for how long its client is throttled."""
    _, throttle_ms = answer.encode(context_of(request, version))
    return int(throttle_ms)


SERVED = [api.request for api in apis.values() if api.listeners and api.request is not EnvelopeRequest]


@each_version(SERVED)  # type: ignore[arg-type]
def test_a_throttled_client_is_told_so_in_each_version_that_has_a_field_for_it(
    message: type[Any], version: int
) -> None:
    answer: Any = dispatched(Throttle(), message, message.response(), version)
    parts, throttle_ms = answer.encode(context_of(message, version))
    assert throttle_ms == 250
    field = next((field for field in message.response.fields if field.name == "throttle_time_ms"), None)
    has_field = field is not None and field.present(version)
    _, received = decode_response(message.response, version, memoryview(b"".join(parts)[4:]))
    assert getattr(received, "throttle_time_ms", 0) == (250 if has_field else 0)
    assert has_field or message.__name__ not in ("ProduceRequest", "FetchRequest", "CreateTopicsRequest")


def test_quotas_are_told_the_bytes_of_both_directions_and_the_time_of_the_handler() -> None:
    quotas = Throttle()
    response = MetadataResponse(brokers=[], topics=[])
    answer = dispatched(quotas, MetadataRequest, response, 9, needs_us=1500)
    assert throttled(answer, MetadataRequest, 9) == 250
    size = 4 + len(MetadataResponse(brokers=[], topics=[]).to_bytes(9))
    assert quotas.recorded == [(MetadataRequest.api, CLIENT, Used(123, size, 1500), 70)]


def test_a_response_that_comes_later_is_charged_when_it_comes_for_the_time_of_its_handler() -> None:
    quotas = Throttle()
    promise: Promise[Response] = Promise()
    answer = dispatched(quotas, MetadataRequest, promise, 9, needs_us=40)
    assert quotas.recorded == []
    promise.keep(MetadataResponse(brokers=[], topics=[]))
    assert isinstance(answer, Promise)
    assert throttled(answer.value, MetadataRequest, 9) == 250
    assert answer.value.response.throttle_time_ms == 250  # type: ignore[union-attr]
    ((_, used, now),) = quotas.of(MetadataRequest)
    assert (used.handling_us, now) == (40, 70)


def test_a_request_without_an_answer_is_charged_its_own_bytes_and_its_client_is_muted() -> None:
    quotas = Throttle()
    answer: Any = dispatched(quotas, ProduceRequest, None, 13)
    assert answer.response is None and throttled(answer, ProduceRequest, 13) == 250
    ((_, used, _),) = quotas.of(ProduceRequest)
    assert used == Used(123, 0, 0)


def test_a_broker_throttles_for_as_long_as_the_controller_said_if_not_longer() -> None:
    for told_ms, throttled_ms in ((100, 250), (400, 400)):
        response = MetadataResponse(brokers=[], topics=[], throttle_time_ms=told_ms)
        answer: Any = dispatched(Throttle(), MetadataRequest, response, 9)
        assert throttled(answer, MetadataRequest, 9) == answer.response.throttle_time_ms == throttled_ms


def test_only_an_answer_that_tells_a_time_is_encoded_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    encode = MetadataResponse.encode
    monkeypatch.setattr(
        MetadataResponse, "encode", lambda response, version: encoded.append(version) or encode(response, version)
    )
    for version, throttle_ms, times in ((9, 0, 1), (9, 250, 2)):
        encoded.clear()
        answer = dispatched(Throttle(throttle_ms), MetadataRequest, MetadataResponse(brokers=[], topics=[]), version)
        assert throttled(answer, MetadataRequest, version) == throttle_ms
        assert encoded == [version] * times


def test_a_node_without_quotas_computes_no_size_and_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object) -> int:
        raise AssertionError("planted")

    monkeypatch.setattr(ManualClock, "elapsed_us", stumble)
    monkeypatch.setattr(MetadataResponse, "encode", stumble)
    response = MetadataResponse(brokers=[], topics=[])
    assert dispatched(None, MetadataRequest, response, 9) == Answer(response)


# --- a whole node -----------------------------------------------------------------------------------------------------


def test_a_produce_that_waits_for_a_replica_and_a_fetch_are_charged_to_their_client() -> None:
    quotas = Throttle()
    lone = LoneNode(quotas=quotas, broker_session_timeout_ms="60000")
    lone.join(2)
    topic = lone.create(replicas=(1, 2), min_insync_replicas="2")
    part = ProduceRequest.Topic.Partition(index=0, records=memoryview(bytearray(batch().buffer)))
    data = [ProduceRequest.Topic(topic_id=topic, partition_data=[part])]
    waiting = lone.handle(ProduceRequest(acks=-1, timeout_ms=500, topic_data=data), principal=CLIENT)
    assert not waiting.kept
    assert not list(quotas.of(ProduceRequest))
    lone.fetch(topic, 1, follower=2)
    answer: Any = waiting.value
    assert throttled(answer, ProduceRequest, 13) == answer.response.throttle_time_ms == 250
    ((principal, used, now),) = quotas.of(ProduceRequest)
    size = 4 + len(answer.response.to_bytes(13))
    assert (principal, used.request_bytes, used.response_bytes, now) == (CLIENT, REQUEST_BYTES, size, lone.now)
    read = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = [FetchRequest.Topic(topic_id=topic, partitions=[read])]
    lone.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=asked), principal=CLIENT)
    *_, (principal, used, _) = quotas.of(FetchRequest)
    assert principal == CLIENT
    assert used.response_bytes > len(batch().buffer)


def test_what_is_forwarded_is_charged_to_its_client_on_both_nodes_and_its_envelope_is_free() -> None:
    quotas = Throttle()
    lone = LoneNode(quotas=quotas)
    response = lone.ask(make(new_topic("new", assignment={0: [1]})), principal=CLIENT)
    assert response.topics[0].error_code == 0
    assert response.throttle_time_ms == 250
    charged = list(quotas.of(type(make())))
    assert [principal for principal, _, _ in charged] == [CLIENT, CLIENT]
    at_controller, at_broker = (used for _, used, _ in charged)
    assert at_broker.request_bytes == REQUEST_BYTES
    assert 0 < at_controller.request_bytes < REQUEST_BYTES
    assert not list(quotas.of(EnvelopeRequest))


def test_an_answer_without_a_field_for_it_mutes_its_client_all_the_same() -> None:
    quotas = Throttle()
    lone = LoneNode(quotas=quotas)
    answer = lone.handle(DescribeQuorumRequest(topics=[]), CONTROLLER, principal=CLIENT)
    assert throttled(answer.value, DescribeQuorumRequest, 2) == 250
    answer = lone.handle(ApiVersionsRequest(), BROKER, 0, CLIENT)
    assert throttled(answer.value, ApiVersionsRequest, 0) == 250
