"""The server's side of a connection.

A request is taken when the one before is through: while one is in hand the channel is *muted*, and the next stays in
the buffer. So a client that sends faster than it is served fills its own socket buffers, not the server's memory. A
throttled client stays muted a while longer.

A Produce request with acks=all is through with its bytes long before it is answered: they are in the log, and it waits
for the replicas. The connection is read on then (`read_on`), but only for the Produce requests behind it, and for no
more than `MOST_IN_LINE` together: any other request could ask for what those before it have not done yet. Their answers
leave in the order in which they came, whichever is ready first. So the batches of a producer travel to the replicas
together, where Kafka takes a request of a connection only after it has answered the one before.

::

    event \\ state          NOT_MUTED               MUTED                   MUTED_AND_THROTTLED
    ---------------------  ----------------------  ----------------------  ----------------------
    request taken          MUTED                   -                       -
    next one must wait     MUTED                   -                       -
    in hand: read on       -                       NOT_MUTED (*)           -
    in hand: answered      -                       NOT_MUTED (*)           -
    in line: answered      NOT_MUTED (*)           MUTED, NOT_MUTED (*)    MUTED_AND_THROTTLED
    time is up             -                       MUTED                   NOT_MUTED (*)

    (*) or MUTED_AND_THROTTLED, as long as the client is throttled

(Kafka has five states, because there the answer and the end of the throttling come from different threads.)

What cannot be read, or is not served on this listener, closes the connection: there is nothing to answer it with. One
exception: ApiVersions in a version that is not known is answered in version 0, so that client and server of any age can
find out what they share.

Follows org.apache.kafka.common.network.KafkaChannel and kafka.network.{Processor,RequestChannel}.
"""

import re
from collections import deque
from enum import Enum
from typing import Any, NamedTuple

from pykraft.common.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import ListenerKind, advertised, requests, served
from pykraft.protocol.header import API_VERSIONS_KEY, RequestHeader, encode_response, peek, request_header_version
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.schema import Request, Response
from pykraft.transport.frames import FrameReader

_LEGAL_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

ANONYMOUS = "User:ANONYMOUS"

MOST_IN_LINE = 5
"""As many requests as an idempotent producer sends without an answer."""


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
    answered, or the connection is read on."""

    context: RequestContext
    message: Request


class ChannelState(Enum):
    NOT_MUTED = "not muted"
    MUTED = "muted"
    MUTED_AND_THROTTLED = "muted and throttled"


class _Taken:
    """A request that was taken, and its answer, which may have to wait for those before it."""

    __slots__ = ("answer", "context")

    def __init__(self, context: RequestContext) -> None:
        self.context = context
        self.answer: list[Any] | None = None


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
        self._line: deque[_Taken] = deque()
        """Whose answers have not left, in the order in which they came."""
        self._in_hand: _Taken | None = None
        self._throttles = 0

    @property
    def owes_answers(self) -> bool:
        return bool(self._line)

    def next_request(self) -> InboundRequest | Response | None:
        """The next request, or None if there is none, or if it has to wait for those before it.

        A request that the channel itself refuses comes out as the response to it (send it with `refuse`).
        ProtocolError: close the connection.
        """
        if self.state is not ChannelState.NOT_MUTED:
            return None
        frame = self.frames.peek_frame()
        if frame is None:
            return None
        self.state = ChannelState.MUTED
        key, version, _ = peek(frame)
        if self._line and (key != ProduceRequest.api or len(self._line) == MOST_IN_LINE):
            return None
        self.frames.next_frame()
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
        self._in_hand = _Taken(context)
        self._line.append(self._in_hand)
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

    def read_on(self) -> None:
        """The request in hand needs its bytes no more, and is answered later."""
        assert self._in_hand is not None, f"{self.connection_id} has nothing in hand"
        if self._in_hand.context.api_key == ProduceRequest.api:
            self._in_hand = None
            self._open()

    def respond(self, context: RequestContext, response: Response | None, throttled: bool = False) -> list[Any]:
        """The bytes that may leave with this answer, as parts (see `Message.encode`): none if the request wants no
        answer, or if one before it has none yet; else its own, and those of the answers that waited for it. With
        `throttled` no request is taken before `unthrottle`."""
        taken = next((taken for taken in self._line if taken.context is context and taken.answer is None), None)
        assert taken is not None, f"{self.connection_id} is answered while {self.state.value}"
        taken.answer = []
        if response is not None:
            taken.answer = encode_response(response, context.api_version, context.correlation_id)
        self._throttles += throttled
        if taken is self._in_hand:
            self._in_hand = None
        leaving: list[Any] = []
        while self._line and self._line[0].answer is not None:
            leaving += self._line.popleft().answer or ()
        self._open()
        return leaving

    def unthrottle(self) -> None:
        assert self._throttles, f"{self.connection_id} is not throttled"
        self._throttles -= 1
        self._open()

    def _open(self) -> None:
        """Take the next request, unless one is in hand or the client is throttled."""
        if self._in_hand is None:
            self.state = ChannelState.MUTED_AND_THROTTLED if self._throttles else ChannelState.NOT_MUTED


def _is_legal(message: ApiVersionsRequest) -> bool:
    """Client software is named by letters, digits, dots and dashes (KIP-511)."""
    names = (message.client_software_name, message.client_software_version)
    return all(_LEGAL_SOFTWARE.fullmatch(name) for name in names)
