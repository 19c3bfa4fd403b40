"""Frames that clients sent to Apache Kafka 4.2.1, byte for byte, sent to pykraft: each gets an answer of its kind."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from pykraft.protocol.api import ListenerKind, apis, requests, served
from pykraft.protocol.header import decode_response
from tests.harness.connection import Connection
from tests.wire.ammunition import framed
from tests.wire.conftest import Target

GOLDEN = Path(__file__).parent.parent / "golden/kraft3/frames.jsonl"
CHANGES_THE_QUORUM = {52, 53, 54}
"""Sent by nodes of another cluster in epochs of theirs: that is for the simulator, not for a node that others use."""


class Frame(NamedTuple):
    key: int
    version: int
    octets: bytes

    @property
    def name(self) -> str:
        return f"{apis[self.key].name} {self.version}"


def golden() -> list[Frame]:
    rows = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    return [Frame(row["key"], row["version"], bytes.fromhex(row["frame"])) for row in rows if row["kind"] == "req"]


def frames_for(kind: ListenerKind) -> list[Frame]:
    return [frame for frame in golden() if served(kind, *frame[:2]) and frame.key not in CHANGES_THE_QUORUM]


@pytest.mark.parametrize("kind", list(ListenerKind), ids=lambda kind: kind.value)
def test_each_is_answered_on_the_listener_that_serves_it(node: Target, kind: ListenerKind) -> None:
    chosen = frames_for(kind)
    assert len({frame.name for frame in chosen}) >= 8
    with Connection(node.listeners[kind.value]) as connection:
        for frame in chosen:
            connection.send_bytes(framed(frame.octets))
            (asked,) = struct.unpack_from(">i", frame.octets, 4)
            answer = memoryview(connection.receive_frame())
            correlation_id, _ = decode_response(requests[frame.key].response, frame.version, answer)
            assert correlation_id == asked, frame.name


def test_the_other_listener_hangs_up(node: Target) -> None:
    for frame in golden():
        for kind in ListenerKind:
            if not served(kind, *frame[:2]):
                with Connection(node.listeners[kind.value]) as connection:
                    connection.send_bytes(framed(frame.octets))
                    assert connection.is_closed(), frame.name
