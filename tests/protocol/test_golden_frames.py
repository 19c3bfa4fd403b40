"""Frames that passed between three nodes of Apache Kafka 4.2.1, and its clients: read, and written again byte for byte.

`tests/golden/kraft3/frames.jsonl` has one frame a line, without its size, in hex.
"""

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pykraft.protocol import api
from pykraft.protocol.header import (
    SIZE,
    RequestHeader,
    ResponseHeader,
    decode_response,
    encode_request,
    encode_response,
    peek,
    request_header_version,
    response_header_version,
)
from pykraft.protocol.messages.brokers import DefaultPrincipalData, EnvelopeRequest

GOLDEN = Path(__file__).parent.parent / "golden"


class Frame(NamedTuple):
    request: bool
    key: int
    version: int
    octets: bytes


def frames() -> list[Frame]:
    lines = (GOLDEN / "kraft3/frames.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [Frame(row["kind"] == "req", row["key"], row["version"], bytes.fromhex(row["frame"])) for row in rows]


FRAMES = frames()


def by_api() -> Any:
    """One test for each API, version and direction, with all frames of it."""
    ordered = sorted(FRAMES, key=lambda frame: frame[1:3])
    groups = {
        f"{api.requests[key].__name__.removesuffix('Request')}-v{version}": list(group)
        for (key, version), group in itertools.groupby(ordered, key=lambda frame: frame[1:3])
    }
    return pytest.mark.parametrize("group", groups.values(), ids=list(groups))


@by_api()
def test_each_frame_is_read_and_written_again_byte_for_byte(group: list[Frame]) -> None:
    for frame in group:
        if frame.request:
            assert_request_round_trip(frame)
        else:
            assert_response_round_trip(frame)


def assert_request_round_trip(frame: Frame) -> None:
    request = api.requests[frame.key]
    header, position = RequestHeader.decode_from(frame.octets, request_header_version(request, frame.version))
    assert peek(memoryview(frame.octets)) == (frame.key, frame.version, header.correlation_id)
    message, end = request.decode_from(frame.octets, frame.version, position)
    assert end == len(frame.octets)
    parts = encode_request(message, frame.version, header.correlation_id, header.client_id)
    assert b"".join(parts) == SIZE.pack(len(frame.octets)) + frame.octets


def assert_response_round_trip(frame: Frame) -> None:
    response = api.requests[frame.key].response
    correlation_id, message = decode_response(response, frame.version, memoryview(frame.octets))
    _, position = ResponseHeader.decode_from(frame.octets, response_header_version(response, frame.version))
    assert response.decode_from(frame.octets, frame.version, position)[1] == len(frame.octets)
    parts = encode_response(message, frame.version, correlation_id)
    assert b"".join(parts) == SIZE.pack(len(frame.octets)) + frame.octets


def test_no_frame_is_left_out() -> None:
    assert Counter(frame.request for frame in FRAMES) == {True: 164, False: 163}
    assert {frame.key for frame in FRAMES} <= api.requests.keys()


def test_an_envelope_holds_a_whole_request_and_who_it_is_from() -> None:
    inner = set()
    for frame in FRAMES:
        if frame.key == EnvelopeRequest.api and frame.request:
            _, position = RequestHeader.decode_from(frame.octets, 2)
            envelope = EnvelopeRequest.decode(frame.octets, frame.version, position)
            key, version, _ = peek(memoryview(envelope.request_data))
            inner.add(key)
            assert_request_round_trip(Frame(True, key, version, envelope.request_data))
            assert envelope.request_principal is not None
            assert envelope.request_principal[:2] == b"\0\0"
            principal = DefaultPrincipalData.decode(envelope.request_principal, 0, 2)
            assert principal == DefaultPrincipalData(type="User", name="ANONYMOUS")
            assert principal.to_bytes(0) == envelope.request_principal[2:]
            assert len(envelope.client_host_address) in (4, 16)
    assert inner
