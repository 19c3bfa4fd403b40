"""What comes before a message: the size of its frame, and the header.

A connection carries frames: int32 size, then that many bytes. A request's frame begins with a header that says which
API in which version follows and a correlation id that the answer repeats; answers come in the order of the requests.

=======  ===========================================================  ==============================================
version  request header                                               response header
=======  ===========================================================  ==============================================
0        (gone: only ControlledShutdown used it)                      correlation_id
1        api_key, api_version, correlation_id, client_id              the same and tagged fields
2        the same and tagged fields; client_id keeps classic form
=======  ===========================================================  ==============================================

A message in a flexible version has request header 2 and response header 1; before that, 1 and 0. One exception: the
response of ApiVersions always has header 0, since a client reads it before it knows what the server speaks (KIP-511).

Follows org.apache.kafka.common.requests.{RequestHeader,ResponseHeader}.
"""

import struct
from typing import Any

from pykraft.common.core import Steps
from pykraft.common.errors import ProtocolError
from pykraft.protocol.schema import Message, Request, Response, field, int16, int32, string

API_VERSIONS_KEY = 18
SIZE = struct.Struct(">i")
_KEY_VERSION_CORRELATION = struct.Struct(">hhi")
_REQUEST_HEADER = struct.Struct(">hhih")
"""With the length of the client id, which follows."""
_CORRELATION = struct.Struct(">i")
_NO_TAGGED_FIELDS = b"\0"


class RequestHeader(Message, versions=(1, 2), flexible=2):
    """Which API, in which version, and whose request this is."""

    api_key: int16
    api_version: int16
    correlation_id: int32
    client_id: string | None = field(default=None, flexible=False)


class ResponseHeader(Message, versions=(0, 1), flexible=1):
    """Which request this answers."""

    correlation_id: int32


def request_header_version(request: type[Request], version: int) -> int:
    return 2 if version >= request.flexible else 1


def response_header_version(response: type[Response], version: int) -> int:
    return 1 if version >= response.flexible and response.api != API_VERSIONS_KEY else 0


def peek(frame: memoryview) -> tuple[int, int, int]:
    """(api key, api version, correlation id) of a request's frame: enough to choose how to read the rest."""
    if len(frame) < 8:
        raise ProtocolError(f"a request of {len(frame)} bytes has no header")
    key, version, correlation_id = _KEY_VERSION_CORRELATION.unpack_from(frame)
    return key, version, correlation_id


def decode_request_header(
    frame: memoryview, header_version: int, max_elements: int
) -> tuple[int, int, int, str | None, int]:
    """(api key, api version, correlation id, client id, position after the header) of a request's frame. ProtocolError
    if it cannot be read. A header with a client id and without tagged fields, as nearly all are, is read here without
    its decoder."""
    if len(frame) >= _REQUEST_HEADER.size:
        key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
        end = _REQUEST_HEADER.size + length
        if length >= 0 and end < len(frame) and (header_version == 1 or not frame[end]):
            name = str(frame[_REQUEST_HEADER.size : end], "utf-8", "replace")
            return key, version, correlation_id, name, end + header_version - 1
    header, position = RequestHeader.decode_from(frame, header_version, 0, max_elements)
    return header.api_key, header.api_version, header.correlation_id, header.client_id, position


def encode_request(request: Request, version: int, correlation_id: int, client_id: str | None) -> list[bytes]:
    """A request's frame with its size, as parts."""
    return request_frame(type(request), version, correlation_id, client_id, request.encode(version))


def request_frame(
    request: type[Request], version: int, correlation_id: int, client_id: str | None, body: list[bytes]
) -> list[bytes]:
    """The same, where the request is encoded already. Every request has such a header, so `RequestHeader` is written
    here without its encoder."""
    name = None if client_id is None else client_id.encode()
    header = _REQUEST_HEADER.pack(request.api, version, correlation_id, -1 if name is None else len(name))
    header += name or b""
    if version >= request.flexible:
        header += _NO_TAGGED_FIELDS
    return with_size([header, *body])


def encode_response(response: Response, version: int, correlation_id: int) -> list[bytes]:
    """A response's frame with its size, as parts; `records` in it stay parts of their own."""
    return response_frame(type(response), version, correlation_id, response.encode(version))


def response_frame(response: type[Response], version: int, correlation_id: int, body: list[Any]) -> list[Any]:
    """The same, where the response is encoded already. Every answer has such a header, so `ResponseHeader` is written
    here without its encoder."""
    header = _CORRELATION.pack(correlation_id)
    if version >= response.flexible and response.api != API_VERSIONS_KEY:
        header += _NO_TAGGED_FIELDS
    return [SIZE.pack(len(header) + sum(map(len, body))), header, *body]


def with_size(parts: list[bytes]) -> list[bytes]:
    """The parts of a frame behind their total size."""
    return [SIZE.pack(sum(map(len, parts))), *parts]


def decode_response_in_steps(response: type[Response], version: int, frame: memoryview) -> Steps[Response]:
    """The message of a response's frame, in steps of a few elements."""
    _, position = ResponseHeader.decode_from(frame, response_header_version(response, version))
    return (yield from response.decode_in_steps(frame, version, position))


def decode_response(response: type[Response], version: int, frame: memoryview) -> tuple[int, Response]:
    """(correlation id, message) of a response's frame, given what was asked."""
    if len(frame) > 4 and not frame[4] and version >= response.flexible and response.api != API_VERSIONS_KEY:
        # A header without tagged fields, as nearly all are: it is read here without its decoder.
        return _CORRELATION.unpack_from(frame)[0], response.decode(frame, version, 5)
    header, position = ResponseHeader.decode_from(frame, response_header_version(response, version))
    return header.correlation_id, response.decode(frame, version, position)
