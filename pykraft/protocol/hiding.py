"""A frame for people to look at, without what is in it of passwords.

A token of SASL proves a password or is one; a salted password is as good as the password. In a frame that is shown,
each of their bytes is an asterisk, so that every other field keeps its place. Not in Kafka, which shows no frames.
"""

from typing import Any

from pykraft.common.errors import ProtocolError
from pykraft.protocol.header import RequestHeader, ResponseHeader, request_header_version, response_header_version
from pykraft.protocol.messages.brokers import EnvelopeRequest
from pykraft.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from pykraft.protocol.schema import Request

_HIDES = b"*"
_KEYS = {SaslAuthenticateRequest.api, AlterUserScramCredentialsRequest.api}


def has_secret(frame: memoryview) -> bool:
    """Whether a request has a password in it, or what is as good: a token of SASL, or a new SCRAM credential, also in
    an envelope."""
    key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    if key != EnvelopeRequest.api:
        return key in _KEYS
    try:
        _, position = RequestHeader.decode_from(frame, request_header_version(EnvelopeRequest, version))
        return _is_secret(EnvelopeRequest.decode(frame, version, position))
    except ProtocolError:
        return True  # it cannot be known


def without_secrets(kind: type[Request], version: int, is_response: bool, frame: memoryview) -> memoryview:
    """The frame as it may be shown."""
    if kind.api not in _KEYS and kind is not EnvelopeRequest:
        return frame
    try:
        message: Any
        if is_response:
            _, position = ResponseHeader.decode_from(frame, response_header_version(kind.response, version))
            message = kind.response.decode(frame, version, position)
        else:
            _, position = RequestHeader.decode_from(frame, request_header_version(kind, version))
            message = kind.decode(frame, version, position)
    except ProtocolError:
        return memoryview(bytes(frame[:8]) + _HIDES * (len(frame) - 8))
    return memoryview(bytes(frame[:position]) + _hidden(message).to_bytes(version))


def _hidden(message: Any) -> Any:
    if isinstance(message, SaslAuthenticateRequest | SaslAuthenticateResponse):
        return message.replace(auth_bytes=_HIDES * len(message.auth_bytes))
    if isinstance(message, AlterUserScramCredentialsRequest):
        upsertions: list[Any] = list(message.upsertions)
        return message.replace(
            upsertions=[each.replace(salted_password=_HIDES * len(each.salted_password)) for each in upsertions]
        )
    if isinstance(message, EnvelopeRequest) and _is_secret(message):
        head = bytes(message.request_data[:8])
        return message.replace(request_data=head + _HIDES * (len(message.request_data) - len(head)))
    return message


def _is_secret(envelope: EnvelopeRequest) -> bool:
    return int.from_bytes(envelope.request_data[:2], "big") in _KEYS
