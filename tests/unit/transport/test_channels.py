"""One connection without its socket: frames, muting, greetings; fed whole, byte by byte and in pieces."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.core import finish
from pykraft.common.errors import ErrorCode, ProtocolError
from pykraft.common.types import ZERO_UUID
from pykraft.protocol.api import Api, ListenerKind, apis
from pykraft.protocol.header import encode_request, encode_response
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.transport.client_channel import ClientChannel, Meant, MisroutedError, UnsupportedVersion
from pykraft.transport.frames import FrameReader
from pykraft.transport.server_channel import (
    MAX_NAMES_BYTES,
    READ_AT_ONCE,
    ChannelState,
    InboundRequest,
    ServerChannel,
)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def taken(reader: FrameReader) -> Iterator[bytes]:
    while (frame := reader.next_frame()) is not None:
        yield bytes(frame)


# --- frames -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=12), st.lists(st.integers(1, 400), min_size=1))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(payloads: list[bytes], cuts: list[int]) -> None:
    reader = FrameReader(1000)
    stream = b"".join(map(framed, payloads))
    found: list[bytes] = []
    sizes = itertools.cycle(cuts)
    while stream:
        size = next(sizes)
        reader.feed(stream[:size])
        stream = stream[size:]
        found += taken(reader)
    assert found == payloads


@pytest.mark.parametrize("size", [0, -1, 1001, 2**31 - 1, -(2**31)])
def test_an_impossible_size_is_refused_before_the_frame_is_there(size: int) -> None:
    for ask in (FrameReader.next_frame, FrameReader.space):
        reader = FrameReader(1000)
        reader.feed(size.to_bytes(4, "big", signed=True))
        with pytest.raises(ProtocolError, match=f"a frame claims {size} bytes; 1 to 1000 are allowed"):
            ask(reader)


def test_a_claimed_size_takes_no_memory_until_the_bytes_come() -> None:
    reader = FrameReader(1 << 30)
    reader.feed((1 << 30).to_bytes(4, "big"))
    assert len(reader.space()) <= (1 << 20) + 4


def test_a_large_frame_does_not_keep_its_memory() -> None:
    reader = FrameReader(1 << 30)
    reader.feed(framed(bytes(5 << 20)))
    assert len(reader.next_frame() or b"") == 5 << 20
    reader.feed(framed(b"small"))
    assert list(taken(reader)) == [b"small"]
    reader.feed(framed(b"again"))
    assert len(reader.space()) < 1 << 20


def test_who_fills_the_buffer_gets_a_larger_one_up_to_a_bound_and_who_does_not_keeps_it() -> None:
    eager, stream = FrameReader(1 << 20), framed(bytes(1000)) * 1000
    rooms = []
    while len(room := eager.space()) <= len(stream):
        rooms.append(len(room))
        room[:], stream = stream[: len(room)], stream[len(room) :]
        eager.received(len(room))
        assert all(frame == bytes(1000) for frame in taken(eager))
    assert rooms[0] == 16 << 10 and 120 << 10 < max(rooms) <= 128 << 10
    slow = FrameReader(1 << 20)
    for _ in range(1000):
        slow.feed(framed(bytes(1000)))
        assert list(taken(slow)) == [bytes(1000)]
    assert len(slow.space()) <= 16 << 10


# --- the server's side ------------------------------------------------------------------------------------------------


def server(kind: ListenerKind = ListenerKind.BROKER) -> ServerChannel:
    return ServerChannel("c", "PLAINTEXT", kind, "127.0.0.1", 1 << 20)


def sent(request: Any, version: int, correlation_id: int = 1) -> bytes:
    return b"".join(encode_request(request, version, correlation_id, "client"))


METADATA = MetadataRequest(topics=None)
METADATA_ANSWER = MetadataResponse(brokers=[], topics=[])


def test_one_request_is_answered_at_a_time() -> None:
    """The states of the table: not muted, muted, muted and throttled, not muted."""
    channel = server()
    channel.frames.feed(sent(METADATA, 9, 1) + sent(METADATA, 9, 2))
    first = channel.next_request()
    assert isinstance(first, InboundRequest) and first.context.correlation_id == 1
    assert channel.state is ChannelState.MUTED and channel.next_request() is None
    channel.done(first.context, throttled=True)
    assert channel.state is ChannelState.MUTED_AND_THROTTLED and channel.next_request() is None
    channel.unthrottle()
    second = channel.next_request()
    assert isinstance(second, InboundRequest) and second.context.correlation_id == 2
    channel.done(second.context)
    assert channel.state is ChannelState.NOT_MUTED and channel.next_request() is None


def test_a_context_says_how_many_bytes_its_request_has() -> None:
    channel = server()
    data = sent(METADATA, 9, 1)
    channel.frames.feed(data + sent(METADATA, 9, 2))
    request = channel.next_request()
    assert isinstance(request, InboundRequest)
    assert request.context.size_bytes == len(data) - 4, "header and body, without the size in front"


def test_a_move_that_the_table_does_not_have_is_a_bug() -> None:
    channel = server()
    channel.frames.feed(sent(METADATA, 9))
    request = channel.next_request()
    assert isinstance(request, InboundRequest)
    channel.done(request.context)
    with pytest.raises(AssertionError, match="answered while not muted"):
        channel.done(request.context)
    with pytest.raises(AssertionError):
        channel.unthrottle()


@pytest.mark.parametrize(
    ("kind", "request_", "version"),
    [
        (ListenerKind.CONTROLLER, METADATA, 9),  # served for clients only
        (ListenerKind.BROKER, MetadataRequest(topics=[]), 99),
    ],
)
def test_what_is_not_served_here_closes_the_connection(kind: ListenerKind, request_: Any, version: int) -> None:
    channel = server(kind)
    data = bytearray(sent(request_, min(version, 9)))
    data[6:8] = version.to_bytes(2, "big")
    channel.frames.feed(data)
    with pytest.raises(ProtocolError, match="is not served on a"):
        channel.next_request()


def test_a_version_of_api_versions_that_nobody_knows_is_answered_in_version_zero() -> None:
    channel = server()
    data = bytearray(sent(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4, 7))
    data[6:8] = (99).to_bytes(2, "big")
    channel.frames.feed(data)
    refusal = channel.next_request()
    assert isinstance(refusal, ApiVersionsResponse) and refusal.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in refusal.api_keys] == [(18, 0, 5)]
    frame = b"".join(channel.refuse(refusal))[4:]
    assert frame[:6] == (7).to_bytes(4, "big") + (35).to_bytes(2, "big")
    assert channel.state is ChannelState.NOT_MUTED


@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "ä"])
def test_client_software_without_a_proper_name_is_refused(name: str) -> None:
    channel = server()
    channel.frames.feed(sent(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3))
    refusal = channel.next_request()
    assert isinstance(refusal, ApiVersionsResponse) and refusal.error_code == ErrorCode.INVALID_REQUEST


# --- the client's side ------------------------------------------------------------------------------------------------


def spoken(*apis: tuple[int, int, int], error: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
    version = ApiVersionsResponse.ApiVersion
    return ApiVersionsResponse(
        error_code=error, api_keys=[version(api_key=key, min_version=low, max_version=high) for key, low, high in apis]
    )


def greeted(*apis: tuple[int, int, int]) -> ClientChannel:
    channel = ClientChannel("client")
    channel.greet()
    channel.frames.feed(b"".join(encode_response(spoken(*apis), 5, 1)))
    assert channel.next_response() is None and channel.is_ready
    return channel


def test_both_speak_the_newest_version_that_both_know() -> None:
    channel = greeted((3, 0, 5))
    parts = channel.send("ticket", MetadataRequest(topics=[]))
    assert bytes(b"".join(parts))[4:8] == bytes([0, 3, 0, 5])
    channel.frames.feed(b"".join(encode_response(MetadataResponse(brokers=[], topics=[]), 5, 2)))
    answered = channel.next_response()
    assert answered is not None and answered[0] == "ticket" and isinstance(answered[1], MetadataResponse)
    assert channel.in_flight == 0


def test_a_server_that_speaks_no_version_of_it_is_not_asked() -> None:
    with pytest.raises(UnsupportedVersion, match="the server speaks 0 to -1"):
        greeted((18, 0, 4)).send(None, MetadataRequest(topics=[]))
    with pytest.raises(UnsupportedVersion):
        greeted((3, 50, 60)).send(None, MetadataRequest(topics=[]))


def test_an_old_server_is_greeted_again_in_version_zero() -> None:
    channel = ClientChannel("client")
    channel.greet()
    channel.frames.feed(b"".join(encode_response(spoken(error=ErrorCode.UNSUPPORTED_VERSION), 0, 1)))
    assert channel.next_response() is None and not channel.is_ready
    assert channel.greeting_again is not None
    assert bytes(b"".join(channel.greeting_again))[4:8] == bytes([0, 18, 0, 0])
    channel.frames.feed(b"".join(encode_response(spoken((3, 0, 1)), 0, 2)))
    assert channel.next_response() is None and channel.api_versions == {3: (0, 1)}


@pytest.mark.parametrize(("known", "again"), [(4, 4), (0, 0), (9, 4)])
def test_a_server_that_says_which_versions_it_knows_is_greeted_again_in_the_newest(known: int, again: int) -> None:
    """One that refuses a version and claims to know it is greeted in the one below."""
    channel = ClientChannel("client")
    channel.greet(Meant("cluster", 7))
    refusal = spoken((18, 0, known), error=ErrorCode.UNSUPPORTED_VERSION)
    channel.frames.feed(b"".join(encode_response(refusal, 0, 1)))
    assert channel.next_response() is None
    assert bytes(b"".join(channel.greeting_again or []))[4:8] == bytes([0, 18, 0, again])


def test_a_client_says_which_broker_it_means_and_another_one_refuses() -> None:
    channel = ClientChannel("client")
    assert b"".join(channel.greet(Meant("cluster", 7))).endswith(b"\x08cluster" + b"\0\0\0\7" + b"\0")
    channel.frames.feed(b"".join(encode_response(spoken(error=ErrorCode.REBOOTSTRAP_REQUIRED), 5, 1)))
    with pytest.raises(MisroutedError):
        channel.next_response()


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (encode_response(MetadataResponse(brokers=[], topics=[]), 5, 9), "answer 9 came where 2 was expected"),
        ([framed(b"\0\0")], "ends too soon"),
    ],
)
def test_an_answer_that_does_not_fit_closes_the_connection(answer: list[bytes], complaint: str) -> None:
    channel = greeted((3, 0, 5))
    channel.send("ticket", MetadataRequest(topics=[]))
    channel.frames.feed(b"".join(answer))
    with pytest.raises(ProtocolError, match=complaint):
        channel.next_response()


def test_an_answer_to_nothing_closes_the_connection() -> None:
    channel = greeted((3, 0, 5))
    channel.frames.feed(b"".join(encode_response(MetadataResponse(brokers=[], topics=[]), 5, 2)))
    with pytest.raises(ProtocolError, match="nothing that was asked"):
        channel.next_response()


def test_a_produce_with_acks_zero_expects_no_answer() -> None:
    channel = greeted((0, 0, 9))
    topic = ProduceRequest.Topic
    data = [topic(name="t", topic_id=ZERO_UUID, partition_data=[topic.Partition(index=0, records=b"")])]
    channel.send("quiet", ProduceRequest(acks=0, timeout_ms=1, topic_data=data))
    assert channel.in_flight == 0
    channel.send("loud", ProduceRequest(acks=1, timeout_ms=1, topic_data=data))
    assert channel.in_flight == 1


# --- large requests ---------------------------------------------------------------------------------------------------

MANY = MetadataRequest(topics=[MetadataRequest.Topic(name=f"topic-{number}") for number in range(2000)])


@pytest.mark.parametrize(("elements", "is_large"), [(READ_AT_ONCE, False), (READ_AT_ONCE + 1, True)])
def test_a_request_of_many_elements_is_read_in_steps(elements: int, is_large: bool) -> None:
    request = MANY.replace(topics=MANY.topics[:elements])
    channel = server()
    channel.frames.feed(sent(request, 9))
    taken = channel.next_request()
    assert channel.state is ChannelState.MUTED and (channel.reading is not None) is is_large
    inbound = taken if channel.reading is None else finish(channel.reading)
    assert isinstance(inbound, InboundRequest) and inbound.message == request
    assert inbound.context.size_bytes == len(sent(request, 9)) - 4


NAMES = MetadataRequest.api
BYTES = ProduceRequest.api


@pytest.mark.parametrize(
    ("api", "size", "is_refused"),
    [
        (NAMES, MAX_NAMES_BYTES, False),
        (NAMES, MAX_NAMES_BYTES + 1, True),
        (BYTES, MAX_NAMES_BYTES + 1, False),
        (BYTES, 100 << 20, False),
        (BYTES, (100 << 20) + 1, True),
    ],
)
def test_a_large_frame_is_refused_at_its_beginning_unless_it_may_carry_bytes(
    api: int, size: int, is_refused: bool
) -> None:
    frames = ServerChannel("c", "PLAINTEXT", ListenerKind.BROKER, "127.0.0.1", 100 << 20).frames
    head = size.to_bytes(4, "big") + api.to_bytes(2, "big") + (9).to_bytes(2, "big")
    with pytest.raises(ProtocolError) if is_refused else nullcontext():
        frames.feed(head)
        assert len(frames.space()) <= 2 << 20


@pytest.mark.parametrize("row", apis.values(), ids=lambda row: row.name)
def test_requests_that_carry_no_records_may_not_be_large(row: Api) -> None:
    """The requests that may are named in SKIPPED.md."""
    for kind in row.listeners:
        frames = ServerChannel("c", "PLAINTEXT", kind, "127.0.0.1", 100 << 20).frames
        head = row.key.to_bytes(2, "big") + row.advertised[1].to_bytes(2, "big")
        with nullcontext() if row.name in ("Produce", "Envelope") else pytest.raises(ProtocolError):
            frames.feed((MAX_NAMES_BYTES + 1).to_bytes(4, "big") + head)
            frames.space()
