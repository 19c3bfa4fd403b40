"""What arrives may be anything: it is answered, with an error if need be, or its connection is closed."""

from __future__ import annotations

import itertools
import socket
import struct
from random import Random

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.protocol.api import ListenerKind, apis, served
from pykraft.protocol.header import RequestHeader, decode_response, peek, request_header_version
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from tests.harness.connection import Closed, Connection
from tests.wire.ammunition import flips, framed, frames, shoot
from tests.wire.conftest import MAX_REQUEST_BYTES, Target

KINDS = pytest.mark.parametrize("kind", list(ListenerKind), ids=lambda kind: kind.value)
ASK = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
FLIPS_OF_A_FRAME = 24
NEW_EACH_TIME = ("ApiVersions", "CreateTopics", "DescribeQuorum", "Envelope", "InitProducerId", "Produce")
"""Answers with a time, an offset or an id."""


def header(key: int, version: int) -> bytes:
    message = RequestHeader(api_key=key, api_version=version, correlation_id=7, client_id="wire")
    return message.to_bytes(request_header_version(apis[key].request, version) if key in apis else 1)


# --- sizes ------------------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("size", [0, -1, -(2**31), MAX_REQUEST_BYTES + 1, 2**31 - 1])
def test_a_size_that_is_not_allowed_closes_the_connection_before_anything_else_comes(
    node: Target, kind: ListenerKind, size: int
) -> None:
    with Connection(node.listeners[kind.value]) as connection:
        connection.send_bytes(struct.pack(">i", size))
        assert connection.is_closed()


@KINDS
def test_a_request_of_the_largest_size_is_served_and_one_byte_more_is_not(node: Target, kind: ListenerKind) -> None:
    frame = Connection.frame(ASK, 3)[4:]
    for excess in (0, 1):
        padded = frame.ljust(MAX_REQUEST_BYTES + excess, b"\0")
        answer = shoot(node.listeners[kind.value], framed(padded))
        assert (answer is None) == bool(excess)


def test_a_request_that_is_too_large_closes_its_own_connection_only(node: Target) -> None:
    with Connection(node.broker) as other, Connection(node.broker) as culprit:
        half = Connection.frame(ASK, 3)
        other.send_bytes(half[:10])
        culprit.send_bytes(struct.pack(">i", MAX_REQUEST_BYTES + 1) + bytes(1000))
        assert culprit.is_closed()
        other.send_bytes(half[10:])
        assert other.receive_frame()


def test_forty_who_claim_a_megabyte_and_send_nothing_of_it_hold_up_nobody(node: Target) -> None:
    claimed = [Connection(node.broker) for _ in range(40)]
    for connection in claimed:
        connection.send_bytes(struct.pack(">i", MAX_REQUEST_BYTES) + b"\0\x12\0\3")
    node.serves()
    for connection in claimed:
        connection.close()


# --- pieces -----------------------------------------------------------------------------------------------------------


@KINDS
def test_byte_by_byte_is_answered_as_the_whole(node: Target, kind: ListenerKind) -> None:
    for name, frame in frames(node.topic_id, kind, ends_only=True):
        if name.startswith(NEW_EACH_TIME):
            continue
        with Connection(node.listeners[kind.value]) as connection:
            connection.send_bytes(frame)
            whole = connection.receive_frame()
            for byte in frame:
                connection.send_bytes(bytes([byte]))
            assert connection.receive_frame() == whole, name


def test_requests_in_one_piece_are_answered_in_their_order(node: Target) -> None:
    everything = [Connection.frame(ASK, version, 100 + number) for number, version in enumerate([0, 3, 4] * 20)]
    with Connection(node.broker) as connection:
        connection.send_bytes(b"".join(everything))
        answered = [struct.unpack_from(">i", connection.receive_frame())[0] for _ in everything]
    assert answered == list(range(100, 160))


@KINDS
def test_a_frame_that_is_cut_off_closes_the_connection(node: Target, kind: ListenerKind) -> None:
    """Whether the sender stops in the middle of it, or its size says that the rest is not missing."""
    for name, frame in frames(node.topic_id, kind, ends_only=True):
        for length in range(0, len(frame), 7):
            assert shoot(node.listeners[kind.value], frame[:length]) is None, f"the first {length} bytes of {name}"
        message = frame[4:]
        for length in range(1, len(message)):
            assert shoot(node.listeners[kind.value], framed(message[:length])) is None, f"{name} of {length} bytes"


def test_who_hangs_up_in_the_middle_is_forgotten(node: Target) -> None:
    frame = Connection.frame(ASK, 3)
    for length in range(1, len(frame)):
        with Connection(node.broker) as connection:
            connection.send_bytes(frame[:length])
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# --- versions and keys ------------------------------------------------------------------------------------------------


@KINDS
def test_keys_and_versions_that_are_not_served_close_the_connection(node: Target, kind: ListenerKind) -> None:
    for key in (*range(-2, 100), 1000, -(2**15), 2**15 - 1):
        lowest, highest = apis[key].request.versions if key in apis else (0, 0)
        for version in {-(2**15), -1, 0, lowest - 1, highest + 1, 2**15 - 1}:
            if not served(kind, key, version) and key != ApiVersionsRequest.api:
                data = framed(header(key, version) + bytes(40))
                assert shoot(node.listeners[kind.value], data) is None, f"{key} {version}"


@KINDS
@pytest.mark.parametrize("version", [-(2**15), -1, 6, 9, 2**15 - 1])
def test_every_client_is_told_what_is_spoken(node: Target, kind: ListenerKind, version: int) -> None:
    frame = bytearray(Connection.frame(ASK, 3, 7))
    struct.pack_into(">h", frame, 6, version)
    answer = shoot(node.listeners[kind.value], bytes(frame))
    assert answer is not None
    correlation_id, response = decode_response(ApiVersionsResponse, 0, memoryview(answer))
    assert correlation_id == 7
    assert response == ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=5)],
    )


# --- spoilt messages --------------------------------------------------------------------------------------------------


@KINDS
def test_a_bit_that_is_turned_over_is_answered_or_closes_the_connection(node: Target, kind: ListenerKind) -> None:
    random = Random(4)
    outcomes = {True: 0, False: 0}
    for name, frame in frames(node.topic_id, kind):
        for bit, data in flips(frame, FLIPS_OF_A_FRAME, random):
            answer = shoot(node.listeners[kind.value], data)
            outcomes[answer is not None] += 1
            if answer is not None and bit >= 32:  # in the size itself: another frame
                _, _, asked = peek(memoryview(data)[4:])
                assert struct.unpack_from(">i", answer)[0] == asked, f"bit {bit} of {name}"
        node.serves()
    assert min(outcomes.values()) > 100, "one or the other does not happen any more: is this still a test?"


@KINDS
def test_rubbish_after_a_header_is_answered_or_closes_the_connection(node: Target, kind: ListenerKind) -> None:
    random = Random(5)
    for key, api in apis.items():
        if kind in api.listeners:
            for version in range(api.request.versions[0], api.request.versions[1] + 1):
                for length in (0, 1, 3, 20, 100, 1000):
                    few = bytes(random.choices([0, 0, 0, 1, 2, 255], k=length))
                    shoot(node.listeners[kind.value], framed(header(key, version) + few))
                    shoot(node.listeners[kind.value], framed(header(key, version) + random.randbytes(length)))


@KINDS
def test_what_is_no_kafka_closes_the_connection(node: Target, kind: ListenerKind) -> None:
    for data in (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        bytes.fromhex("1603010200010001fc0303") + bytes(600),
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x00" * 100,
        b"\xff" * 100,
        b"EHLO localhost\r\n",
    ):
        assert shoot(node.listeners[kind.value], data) is None
    random = Random(6)
    for _ in range(200):
        assert shoot(node.listeners[kind.value], random.randbytes(random.randrange(1, 300))) is None


# --- many, and slow ---------------------------------------------------------------------------------------------------


def test_three_hundred_who_say_nothing_hold_up_nobody(node: Target) -> None:
    silent: list[Connection] = []
    for number in range(300):
        silent.append(Connection(node.broker))
        if number % 25 == 0:  # the system keeps only so many waiting for the node to accept them
            node.serves()
    node.serves()
    for connection in silent:
        connection.close()


def test_who_does_not_read_is_not_read_from(node: Target) -> None:
    """Answers that are not read must fill the sockets, not the node's memory: so it takes no more requests."""
    names = [MetadataRequest.Topic(name=f"nobody-made-{'x' * 200}-{number}") for number in range(200)]
    frame = Connection.frame(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
    limit = 64 << 20
    with Connection(node.broker, patience_s=1.0, receive_buffer=4096) as connection:
        sent = 0
        try:
            for _ in itertools.repeat(None):
                assert sent < limit, f"{sent} bytes were taken of a client that reads nothing"
                connection.send_bytes(frame)
                sent += len(frame)
        except TimeoutError:
            pass  # the node has stopped reading
        node.serves()


def test_who_did_not_read_is_served_when_it_does(node: Target) -> None:
    names = [MetadataRequest.Topic(name=f"nobody-made-{'x' * 200}-{number}") for number in range(200)]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    with Connection(node.broker, receive_buffer=4096) as connection:
        sent = [connection.send(request, 9) for _ in range(30)]
        for correlation_id in sent:
            connection.receive(request, 9, correlation_id)


def test_a_connection_that_is_closed_says_so_to_those_who_go_on_sending(node: Target) -> None:
    with Connection(node.broker) as connection, pytest.raises(Closed):
        connection.send_bytes(framed(b"\x7f\xff" + bytes(20)))
        for _ in range(1000):
            connection.send_bytes(Connection.frame(ASK, 3))
            connection.receive_frame()
