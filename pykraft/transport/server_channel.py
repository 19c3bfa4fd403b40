"""The server's side of a connection.

Requests are taken one at a time: while one is being answered the channel is *muted*, and the next stays in the buffer.
So answers come in the order of the requests, however long one waits in a purgatory, and a client that sends faster than
it is served fills its own socket buffers, not the server's memory. A throttled client stays muted a while longer.

::

    event \\ state   NOT_MUTED    MUTED                    MUTED_AND_THROTTLED
    --------------  -----------  -----------------------  -------------------------
    request taken   MUTED        -                        -
    answered        -            NOT_MUTED                -
    throttled       -            MUTED_AND_THROTTLED      -
    time is up      -            -                        NOT_MUTED

(Kafka has five states, because there the answer and the end of the throttling come from different threads.)

What cannot be read, or is not served on this listener, closes the connection: there is nothing to answer it with. One
exception: ApiVersions in a version that is not known is answered in version 0, so that client and server of any age can
find out what they share.

Follows org.apache.kafka.common.network.KafkaChannel and kafka.network.{Processor,RequestChannel}.
"""

import re
from enum import Enum
from typing import Any, NamedTuple

from pykraft.common.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import ListenerKind, advertised, requests, served
from pykraft.protocol.header import API_VERSIONS_KEY, RequestHeader, encode_response, peek, request_header_version
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.schema import Request, Response
from pykraft.transport.frames import FrameReader

_LEGAL_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

ANONYMOUS = "User:ANONYMOUS"


class RequestContext(NamedTuple):
    """Whose request it is, and how it came: handed to every handler."""

    connection_id: str
    listener: str
    kind: ListenerKind
    principal: str
    client_id: str | None
    client_address: str
    api_key: int
    api_version: int
    correlation_id: int


class InboundRequest(NamedTuple):
    """A request and its context. Record batches in it are views of the connection's buffer, good until the request is
    answered."""

    context: RequestContext
    message: Request


class ChannelState(Enum):
    NOT_MUTED = "not muted"
    MUTED = "muted"
    MUTED_AND_THROTTLED = "muted and throttled"


class ServerChannel:
    """One accepted connection."""

    def __init__(
        self, connection_id: str, listener: str, kind: ListenerKind, client_address: str, max_request_bytes: int
    ) -> None:
        self.connection_id = connection_id
        self.listener = listener
        self.kind = kind
        self._client_address = client_address
        self.frames = FrameReader(max_request_bytes)
        self.state = ChannelState.NOT_MUTED

    def next_request(self) -> InboundRequest | Response | None:
        """The next request, or None if there is none or one is being answered.

        A request that the channel itself refuses comes out as the response to it (send it with `refuse`).
        ProtocolError: close the connection.
        """
        if self.state is not ChannelState.NOT_MUTED:
            return None
        frame = self.frames.next_frame()
        if frame is None:
            return None
        self.state = ChannelState.MUTED
        key, version, _ = peek(frame)
        if not served(self.kind, key, version) and key != API_VERSIONS_KEY:
            raise ProtocolError(f"API {key} version {version} is not served on a {self.kind.value} listener")
        known_version = version if served(self.kind, key, version) else 0
        request_type = requests[key]
        header_version = request_header_version(request_type, version)
        header, position = RequestHeader.decode_from(frame, header_version)
        context = RequestContext(
            self.connection_id,
            self.listener,
            self.kind,
            ANONYMOUS,
            header.client_id,
            self._client_address,
            key,
            known_version,
            header.correlation_id,
        )
        if known_version != version:
            return self._refusal(context, ErrorCode.UNSUPPORTED_VERSION)
        message = request_type.decode(frame, version, position)
        if isinstance(message, ApiVersionsRequest) and version >= 3 and not _is_legal(message):
            return self._refusal(context, ErrorCode.INVALID_REQUEST)
        return InboundRequest(context, message)

    def _refusal(self, context: RequestContext, error: ErrorCode) -> Response:
        """An ApiVersions answer that says what went wrong; after a version that is not known, also what this API
        speaks."""
        self._refused = context
        known = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, low, high in advertised(self.kind)
            if key == API_VERSIONS_KEY and error is ErrorCode.UNSUPPORTED_VERSION
        ]
        return ApiVersionsResponse(error_code=error, api_keys=known)

    def refuse(self, response: Response) -> list[Any]:
        """The bytes of a refusal that `next_request` returned."""
        return self.respond(self._refused, response)

    def respond(self, context: RequestContext, response: Response | None, throttled: bool = False) -> list[Any]:
        """The bytes of an answer, as parts (see `Message.encode`); none if the request wants no answer. The next
        request may be taken, or with `throttled` after `unthrottle`."""
        assert self.state is ChannelState.MUTED, f"{self.connection_id} is answered while {self.state.value}"
        self.state = ChannelState.MUTED_AND_THROTTLED if throttled else ChannelState.NOT_MUTED
        if response is None:
            return []
        return encode_response(response, context.api_version, context.correlation_id)

    def unthrottle(self) -> None:
        assert self.state is ChannelState.MUTED_AND_THROTTLED
        self.state = ChannelState.NOT_MUTED


def _is_legal(message: ApiVersionsRequest) -> bool:
    """Client software is named by letters, digits, dots and dashes (KIP-511)."""
    names = (message.client_software_name, message.client_software_version)
    return all(_LEGAL_SOFTWARE.fullmatch(name) for name in names)
