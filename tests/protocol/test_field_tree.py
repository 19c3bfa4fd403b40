"""A frame's tree of fields: its leaves cover each byte once, and say what the broker's decoder reads."""

import random
import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from pykraft.common.core import finish
from pykraft.common.errors import ProtocolError
from pykraft.common.metrics import Meter
from pykraft.protocol import api
from pykraft.protocol.error_counts import count_in_steps, error_counter
from pykraft.protocol.field_tree import NOT_READ, FieldNode, FrameTree, read_request_tree, read_tree
from pykraft.protocol.header import (
    SIZE,
    RequestHeader,
    ResponseHeader,
    encode_request,
    request_header_version,
    response_header_version,
)
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from pykraft.protocol.schema import Request, encode_in_steps
from tests.protocol.test_golden_frames import FRAMES, Frame
from tests.protocol.values import example


def tree_of(frame: Frame, octets: bytes | None = None) -> FrameTree:
    return read_tree(octets or frame.octets, api.requests[frame.key], frame.version, not frame.request)


def assert_covered(tree: FrameTree, size: int) -> None:
    """The leaves follow each other without a gap, from the first byte to the last; each node spans its children."""
    position = 0
    for leaf in tree.root.leaves():
        assert leaf.start == position, (leaf, position)
        position = leaf.end
    assert position == size
    for node in nodes(tree.root):
        if node.children:
            assert (node.start, node.end) == (node.children[0].start, node.children[-1].end), node


def nodes(node: FieldNode) -> Iterator[FieldNode]:
    yield node
    for child in node.children:
        yield from nodes(child)


def decoded(frame: Frame, octets: bytes) -> tuple[Any, int]:
    request = api.requests[frame.key]
    if frame.request:
        header = request_header_version(request, frame.version)
        return request.decode_from(octets, frame.version, RequestHeader.decode_from(octets, header)[1])
    header = response_header_version(request.response, frame.version)
    return request.response.decode_from(octets, frame.version, ResponseHeader.decode_from(octets, header)[1])


@pytest.mark.parametrize("key", sorted({frame.key for frame in FRAMES}), ids=lambda key: api.apis[key].name)
def test_the_leaves_of_each_frame_of_apache_kafka_cover_each_byte_exactly_once(key: int) -> None:
    for frame in FRAMES:
        if frame.key == key:
            tree = tree_of(frame)
            assert not tree.problem
            assert_covered(tree, len(frame.octets))
            assert NOT_READ not in [node.name for node in nodes(tree.root)]
            assert tree.root.find("body").value == decoded(frame, frame.octets)[0]


@pytest.mark.parametrize("row", api.apis.values(), ids=lambda row: row.name)
def test_the_leaves_of_every_request_and_response_in_every_version_cover_each_byte(row: api.Api) -> None:
    """Also of those that no recorded frame has: one message with something in each field."""
    for is_response in (False, True):
        message = row.request.response if is_response else row.request
        for version in range(message.versions[0], message.versions[1] + 1):
            frame = header_of(row.request, version, is_response) + example(message, version).to_bytes(version)
            tree = read_tree(frame, row.request, version, is_response)
            assert not tree.problem, (message, version)
            assert_covered(tree, len(frame))


@pytest.mark.parametrize("row", api.apis.values(), ids=lambda row: row.name)
def test_a_message_that_is_encoded_in_steps_has_the_same_bytes_in_every_version(row: api.Api) -> None:
    response = row.request.response
    for version in range(response.versions[0], response.versions[1] + 1):
        message = example(response, version)
        assert b"".join(finish(encode_in_steps(message, version))) == message.to_bytes(version), version


@pytest.mark.parametrize("row", api.apis.values(), ids=lambda row: row.name)
def test_a_request_that_is_decoded_in_steps_is_the_same_in_every_version(row: api.Api) -> None:
    for version in range(row.request.versions[0], row.request.versions[1] + 1):
        message = example(row.request, version)
        data = message.to_bytes(version)
        assert finish(row.request.decode_in_steps(data, version, 0, 100)) == message, version
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            finish(row.request.decode_in_steps(data[:size], version, 0, 100))


@pytest.mark.parametrize("row", api.apis.values(), ids=lambda row: row.name)
def test_errors_that_are_counted_in_steps_are_those_that_are_counted_at_once(row: api.Api) -> None:
    message = example(row.request.response, row.request.response.versions[1])
    meters: defaultdict[int, Meter] = defaultdict(Meter)
    error_counter(type(message))(message, meters)
    assert finish(count_in_steps(message)) == {code: meter.count for code, meter in meters.items()}


def header_of(request: type[Request], version: int, is_response: bool) -> bytes:
    if is_response:
        return ResponseHeader(correlation_id=7).to_bytes(response_header_version(request.response, version))
    header = RequestHeader(api_key=request.api, api_version=version, correlation_id=7, client_id="me")
    return header.to_bytes(request_header_version(request, version))


def test_a_leaf_is_encoded_as_its_value() -> None:
    """The bytes of a number are the number, so a tree that is shifted by one byte is found."""
    letters = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "bool": "?"}
    checked = 0
    for frame in FRAMES:
        for leaf in tree_of(frame).root.leaves():
            octets = frame.octets[leaf.start : leaf.end]
            if leaf.type in letters:
                assert struct.pack(">" + letters[leaf.type], leaf.value) == octets
                checked += 1
            elif leaf.type == "string":
                assert leaf.value.encode() == octets
    assert checked > 2_000


def test_a_damaged_frame_has_a_tree_that_covers_it_and_a_problem_where_the_decoder_has_one() -> None:
    chance = random.Random(7)
    broken = 0
    for frame in FRAMES:
        octets = bytearray(frame.octets)
        octets[chance.randrange(len(octets))] = chance.randrange(256)
        damaged = bytes(octets[: chance.randint(1, len(octets))] if chance.random() < 0.5 else octets)
        tree = tree_of(frame, damaged)
        assert_covered(tree, len(damaged))
        try:
            decoded(frame, damaged)
        except ProtocolError:
            broken += 1
            assert tree.problem
        else:
            assert not tree.problem
    assert broken > 50


def test_a_request_says_itself_what_it_is() -> None:
    frame = b"".join(encode_request(ApiVersionsRequest(client_software_name="hand"), 3, 7, "me"))
    tree = read_request_tree(frame, has_size=True)
    assert tree.root.find("size").value == len(frame) - SIZE.size
    assert tree.root.find("correlationId").value == 7
    assert tree.root.find("clientSoftwareName").value == "hand"
    assert_covered(tree, len(frame))


@pytest.mark.parametrize(
    ("octets", "problem"),
    [
        (struct.pack(">hhih", 999, 0, 1, -1) + b"xyz", "pykraft knows no API 999"),
        (struct.pack(">hhihb", 18, 99, 1, -1, 0), "ApiVersionsRequest has no version 99"),
        (b"GET / HTTP/1.1\r\n", "pykraft knows no API 18245"),
        (b"\0", "pykraft knows no API -1"),
    ],
)
def test_bytes_that_are_no_known_request_have_a_tree_too(octets: bytes, problem: str) -> None:
    tree = read_request_tree(octets)
    assert problem in tree.problem
    assert_covered(tree, len(octets))
