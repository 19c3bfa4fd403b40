"""What comes before a message is understood: sizes, headers, versions, listeners.

Mostly it ends in a closed connection, and each time another connection is served as before.
"""

from __future__ import annotations

import struct

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.protocol.api import ListenerKind, apis, served
from pykraft.protocol.header import RequestHeader, encode_request, request_header_version, with_size
from pykraft.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataResponse,
)
from pykraft.protocol.messages.data import ListOffsetsRequest
from pykraft.protocol.schema import Request
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import list_offsets, versions
from tests.harness.connection import Connection

MAX_REQUEST = 104_857_600
CORRELATION_ID = 4


def header(key: int, version: int, flexible: bool = True, client_id: str | None = "conformance") -> bytes:
    message = RequestHeader(api_key=key, api_version=version, correlation_id=CORRELATION_ID, client_id=client_id)
    return message.to_bytes(2 if flexible else 1)


def framed(*parts: bytes) -> bytes:
    return b"".join(with_size(list(parts)))


def served_still(talk: Dialogue) -> None:
    talk.to(1).close()
    talk.to_controller(1).close()
    with Connection(talk.server.address(1)) as connection:
        assert (
            connection.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3).error_code == 0
        )


def test_versions_that_are_not_there(talk: Dialogue) -> None:
    """But for ApiVersions: every client must be able to ask that."""
    talk.topic("frames-versions")
    for request in (MetadataRequest(topics=[]), list_offsets("frames-versions", -1), FindCoordinatorRequest(key="a")):
        key = request.api
        for version in (-1, type(request).versions[0] - 1, type(request).versions[1] + 1, 32767):
            if version >= type(request).versions[0] or version < 0 or key == ListOffsetsRequest.api:
                talk.to().send_bytes(framed(header(key, version), bytes(60)), f"{apis[key].name} {version}")
    served_still(talk)


def test_produce_is_advertised_below_what_is_served(talk: Dialogue) -> None:
    for version in (0, 1, 2):
        talk.to().send_bytes(framed(header(0, version, flexible=False), bytes(20)), f"Produce {version}")
    served_still(talk)


def test_keys_that_are_not_there(talk: Dialogue) -> None:
    for key in (-1, 4, 5, 6, 7, 93, 1000, 32767):
        talk.to().send_bytes(framed(header(key, 0), bytes(60)), f"key {key}")
        talk.to_controller().send_bytes(framed(header(key, 0), bytes(60)), f"key {key}")
    served_still(talk)


_NEVER_ANSWERED = ("DescribeUserScramCredentials", ListenerKind.CONTROLLER)
"""Kafka's controllers advertise it, and do not answer."""


def test_each_listener_has_its_own_keys(talk: Dialogue) -> None:
    for key, api in sorted(apis.items()):
        version = api.request.versions[0]
        for kind, speaker in ((ListenerKind.BROKER, talk.to()), (ListenerKind.CONTROLLER, talk.to_controller())):
            if not served(kind, key, version) and api.listeners and (api.name, kind) != _NEVER_ANSWERED:
                flexible = request_header_version(api.request, version) == 2
                speaker.send_bytes(framed(header(key, version, flexible), bytes(60)), f"{api.name} {version}")
    served_still(talk)


def test_api_versions_in_a_version_that_is_not_there(talk: Dialogue) -> None:
    software = ApiVersionsRequest(client_software_name="a", client_software_version="1").to_bytes(3)
    for version in (6, 9, 32767, -1, -32768):
        frame = talk.to().send_bytes(framed(header(18, version), software), f"ApiVersions {version}")
        assert frame is not None
        talk.to().read(ApiVersionsResponse, 0, frame, 4)
        frame = talk.to_controller().send_bytes(framed(header(18, version), b""), f"ApiVersions {version}, no body")
        assert frame is not None
        talk.to_controller().read(ApiVersionsResponse, 0, frame, 4)


def test_software_has_a_name(talk: Dialogue) -> None:
    for name, version in (
        ("", ""),
        ("a", ""),
        ("", "1"),
        ("a b", "1"),
        ("-a", "1"),
        ("a-", "1"),
        ("a", "1.0+x"),
        ("a.b-c", "1"),
    ):
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        for number in (3, 4):
            frame = talk.to().send_bytes(
                framed(*encode_request(request, number, CORRELATION_ID, "me")[1:]),
                f"ApiVersions {number} {name!r} {version!r}",
            )
            assert frame is not None
            message = ApiVersionsResponse.decode(frame, number, 4)
            talk.write(f"  error {message.error_code}, {min(len(message.api_keys), 2)} keys or more")


@pytest.mark.newest
def test_a_client_may_say_which_node_it_means(talk: Dialogue) -> None:
    with Connection(talk.server.address(1)) as connection:
        cluster_id = connection.ask(DescribeClusterRequest(), 2).cluster_id
    for says, meant, node_id in (
        ("neither", None, -1),
        ("this one", cluster_id, 1),
        ("another node", cluster_id, 2),
        ("another cluster", "another", 1),
        ("no cluster", None, 1),
        ("no node", cluster_id, -1),
        ("the empty cluster", "", 1),
    ):
        for speaker in (talk.to(), talk.to_controller()):
            request = ApiVersionsRequest(
                client_software_name="a", client_software_version="1", cluster_id=meant, node_id=node_id
            )
            frame = speaker.send_bytes(framed(*encode_request(request, 5, CORRELATION_ID, "me")[1:]), says)
            assert frame is not None
            message = ApiVersionsResponse.decode(frame, 5, 4)
            talk.write(f"  {ErrorCode.of(message.error_code).name}, {min(len(message.api_keys), 2)} keys or more")
    served_still(talk)


@pytest.mark.newest
def test_the_ranges_are_kafkas(talk: Dialogue) -> None:
    """Of the keys that pykraft serves; it has not all of Kafka's."""
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    for speaker, kind, address in (
        ("broker", ListenerKind.BROKER, talk.server.address(1)),
        ("controller", ListenerKind.CONTROLLER, talk.server.controller_address(1)),
    ):
        ours = {key for key, api in apis.items() if kind in api.listeners}
        for version in versions(ApiVersionsRequest):
            with Connection(address) as connection:
                answer = connection.ask(request, version)
            told = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
            talk.say(f"{speaker}, ApiVersions {version}")
            talk.write(*(f"  {apis[key].name} {told.get(key)}" for key in sorted(ours)))


def test_sizes_that_no_frame_has(talk: Dialogue) -> None:
    for size in (0, -1, -(2**31), MAX_REQUEST + 1, 2**31 - 1):
        talk.to().send_bytes(struct.pack(">i", size), f"size {size}")
        talk.to_controller().send_bytes(struct.pack(">i", size), f"size {size}")
    served_still(talk)


def test_frames_that_are_no_requests(talk: Dialogue) -> None:
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="frames")], allow_auto_topic_creation=False)
    whole = b"".join(encode_request(request, 9, CORRELATION_ID, "me")[1:])
    for says, data in {
        "one byte": framed(b"\0"),
        "seven bytes": framed(bytes(7)),
        "a header without a client id": framed(struct.pack(">hhi", 3, 9, 1)),
        "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(80),
        "a message cut off": framed(whole[:-1]),
        "half a message": framed(whole[: len(whole) // 2]),
        "a client id of -2": framed(struct.pack(">hhih", 3, 9, 1, -2) + bytes(20)),
        "a client id beyond the end": framed(struct.pack(">hhih", 3, 9, 1, 999) + bytes(20)),
        "a client id that is no text": framed(struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe"),
        "an array of 2^31 - 1": framed(header(3, 1, False) + struct.pack(">i", 2**31 - 1)),
        "an array of -2": framed(header(3, 1, False) + struct.pack(">i", -2)),
        "a compact array without an end": framed(header(3, 9) + b"\xff" * 5),
    }.items():
        talk.to().send_bytes(data, says)
        talk.to().close()
    served_still(talk)


def test_what_is_ignored(talk: Dialogue) -> None:
    """Unknown tagged fields and bytes after the message; librdkafka sends some of the latter."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    body = request.to_bytes(9)
    assert body[-1] == 0
    tag = b"\x01\x63\x03abc"
    for says, data in {
        "bytes after the message": header(3, 9) + body + b"rubbish",
        "a tagged field in the header": header(3, 9)[:-1] + tag + body,
        "a tagged field in the message": header(3, 9) + body[:-1] + tag,
        "two of the same": header(3, 9) + body[:-1] + b"\x02\x63\x01a\x63\x01b",
        "no client id": header(3, 9, client_id=None) + body,
        "an empty client id": header(3, 9, client_id="") + body,
        "all topics as librdkafka asks for them": header(3, 9) + bytes(4) + b"\x01\x00\x00",
    }.items():
        frame = talk.to().send_bytes(framed(data), says)
        if frame is not None:
            message = MetadataResponse.decode(frame, 9, 5)
            talk.write(f"  {len(message.brokers)} brokers")


def test_answers_come_in_order(talk: Dialogue) -> None:
    """A fetch that waits holds up what follows it on its connection."""
    talk.topic("frames-order")
    requests: list[tuple[Request, int]] = [
        (MetadataRequest(topics=[MetadataRequest.Topic(name="frames-order")]), version) for version in (9, 5, 12, 1)
    ]
    with Connection(talk.server.address(1)) as connection:
        sent = [connection.send(request, version) for request, version in requests]
        for (request, version), correlation_id in zip(requests, sent, strict=True):
            answer = connection.receive(request, version, correlation_id)
            talk.write(f"Metadata {version}: {len(answer.topics)} topics")  # type: ignore[attr-defined]
