"""A frame for people to look at, without what is in it of passwords.

A token of SASL proves a password or is one; a salted password is as good as the password; some settings are one. In a
frame that is shown, each of their bytes is an asterisk, so that every other field keeps its place. Not in Kafka, which
shows no frames.
"""

from typing import Any

from pykraft.common.errors import ProtocolError
from pykraft.common.settings.secrets import is_secret
from pykraft.protocol.header import RequestHeader, ResponseHeader, request_header_version, response_header_version
from pykraft.protocol.messages.brokers import EnvelopeRequest
from pykraft.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from pykraft.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from pykraft.protocol.schema import Request

_HIDES = b"*"
_ALTERING = (IncrementalAlterConfigsRequest, AlterConfigsRequest)
_KEYS = {SaslAuthenticateRequest.api, AlterUserScramCredentialsRequest.api}
_PERHAPS: dict[int, type[Request]] = {each.api: each for each in (EnvelopeRequest, *_ALTERING)}
"""What must be read to know."""


def has_secret(frame: memoryview) -> bool:
    """Whether a request has a password in it, or what is as good: a token of SASL, a new SCRAM credential, or a setting
    that is one, also in an envelope."""
    key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    kind = _PERHAPS.get(key)
    if kind is None:
        return key in _KEYS
    try:
        _, position = RequestHeader.decode_from(frame, request_header_version(kind, version))
        return _is_secret(kind.decode(frame, version, position))
    except ProtocolError:
        return True  # it cannot be known


def without_secrets(kind: type[Request], version: int, is_response: bool, frame: memoryview) -> memoryview:
    """The frame as it may be shown."""
    if kind.api not in _KEYS and (kind.api not in _PERHAPS or is_response):
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
    if isinstance(message, _ALTERING):
        return message.replace(resources=[_hidden_settings(each) for each in message.resources])
    if isinstance(message, EnvelopeRequest) and _is_secret(message):
        head = bytes(message.request_data[:8])
        return message.replace(request_data=head + _HIDES * (len(message.request_data) - len(head)))
    return message


def _hidden_settings(resource: Any) -> Any:
    return resource.replace(
        configs=[
            each.replace(value="*" * len(each.value.encode())) if each.value and is_secret(each.name) else each
            for each in resource.configs
        ]
    )


def _is_secret(message: Any) -> bool:
    if isinstance(message, EnvelopeRequest):
        return has_secret(memoryview(message.request_data))
    return any(each.value and is_secret(each.name) for resource in message.resources for each in resource.configs)
