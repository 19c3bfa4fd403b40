"""Frames for people to look at have no password in them, and every other byte as it was."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.protocol.header import encode_request, encode_response
from pykraft.protocol.hiding import has_secret, without_secrets
from pykraft.protocol.messages.brokers import EnvelopeRequest
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from pykraft.protocol.schema import Request

SECRET = b"secret-secret"
UPSERTION = AlterUserScramCredentialsRequest.Upsertion(
    name="alice", mechanism=1, iterations=4096, salt=b"pepper", salted_password=SECRET
)
TOKEN = SaslAuthenticateRequest(auth_bytes=SECRET)
ALTER = AlterUserScramCredentialsRequest(deletions=[], upsertions=[UPSERTION, UPSERTION])


def frame_of(request: Request, version: int) -> memoryview:
    return memoryview(b"".join(encode_request(request, version, 7, "client"))[4:])


def envelope(inner: Request, version: int) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=bytes(frame_of(inner, version)), request_principal=None, client_host_address=bytes(4)
    )


@pytest.mark.parametrize(
    ("request_", "version", "is_secret"),
    [
        *((TOKEN, version, True) for version in range(3)),
        (ALTER, 0, True),
        (envelope(ALTER, 0), 0, True),
        (envelope(MetadataRequest(topics=[]), 12), 0, False),
        (SaslHandshakeRequest(mechanism="PLAIN"), 1, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Request) else str(value),
)
def test_a_request_has_asterisks_in_the_place_of_a_secret(request_: Request, version: int, is_secret: bool) -> None:
    frame = frame_of(request_, version)
    shown = without_secrets(type(request_), version, False, frame)
    assert has_secret(frame) is is_secret
    assert len(shown) == len(frame)
    assert SECRET not in bytes(shown)
    differing = [number for number in range(len(frame)) if frame[number] != shown[number]]
    assert bool(differing) is is_secret
    assert all(shown[number] == ord("*") for number in differing)


def test_so_has_the_answer_of_a_server() -> None:
    response = SaslAuthenticateResponse(auth_bytes=SECRET)
    frame = memoryview(b"".join(encode_response(response, 2, 7))[4:])
    shown: Any = bytes(without_secrets(SaslAuthenticateRequest, 2, True, frame))
    assert shown == bytes(frame).replace(SECRET, b"*" * len(SECRET))


def test_what_cannot_be_read_shows_nothing() -> None:
    frame = memoryview(bytes(frame_of(TOKEN, 2))[:-5] + b"\xff\xff")
    assert SECRET[:5] not in bytes(without_secrets(SaslAuthenticateRequest, 2, False, frame))
    assert has_secret(memoryview(bytes(frame_of(envelope(ALTER, 0), 0))[:20]))
