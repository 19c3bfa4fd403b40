"""The server's side of a connection.

A request is taken when the one before is answered: while one is in hand the channel is *muted*, and the next stays in
the buffer. (When the answer is sent is its connection's affair, see the bursts there.) So a client that sends faster
than it is served fills its own socket buffers, not the server's memory. A throttled client stays muted a while longer.

::

    event \\ state            NOT_MUTED    MUTED                             MUTED_AND_THROTTLED
    -----------------------  -----------  --------------------------------  -------------------
    request taken            MUTED        -                                 -
    the one in hand is done  -            NOT_MUTED or MUTED_AND_THROTTLED  -
    time is up               -            -                                 NOT_MUTED

(Kafka has five states, because there the answer and the end of the throttling come from different threads.)

A request of very many elements takes tens of milliseconds to read. So the channel reads a few hundred at once. If there
are more, it hands out steps (`reading`), and its connection takes them a slice of time at a time.

What cannot be read, or is not served on this listener, closes the connection when its turn comes: there is nothing to
answer it with. One exception: ApiVersions in a version that is not known is answered in version 0, so that client and
server of any age can find out what they share.

Follows org.apache.kafka.common.network.KafkaChannel and kafka.network.{Processor,RequestChannel}.
"""

import re
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import ListenerKind, advertised, formats
from pykraft.protocol.header import (
    API_VERSIONS_KEY,
    decode_request_header,
    encode_response,
    peek,
    request_header_version,
)
from pykraft.protocol.messages.brokers import EnvelopeRequest
from pykraft.protocol.messages.cluster import ANY_NODE, ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.primitives import TooManyElementsError
from pykraft.protocol.schema import Request, Response
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.transport.frame_recorder import FrameRecorder
from pykraft.transport.frames import FrameReader

_LEGAL_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

ANONYMOUS = "User:ANONYMOUS"

MAX_REQUEST_ELEMENTS = 20_000
"""The arrays of a request may have this many elements, all together. To read them takes a tenth of a second, and no
client needs nearly as many. (Apache Kafka 4.4 allows each array 1,000,000, and its handlers are threads.)"""
MAX_NAMES_BYTES = 32 << 20
"""A request that carries no records may have this many bytes. Its names may come back in the answer, so they are in
memory four times: in the frame, as strings, and twice in the answer. (Apache Kafka has ``socket.request.max.bytes``
for all requests alike.)"""
_LARGE = {ProduceRequest, EnvelopeRequest}
"""What may be larger: records, and a client's request in a broker's."""
READ_AT_ONCE = 500
"""A request of more elements is read in steps."""


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
    size_bytes: int
    """Of the request, header and body."""


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

    authentication_ms = 0
    """The client has this long to prove who it is; 0: it need not, or for ever."""

    def __init__(
        self,
        connection_id: str,
        listener: str,
        kind: ListenerKind,
        client_address: str,
        max_request_bytes: int,
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
    ) -> None:
        self.protocol = protocol
        self.principal = ANONYMOUS
        """Who the client is: what its security protocol has found."""
        self.connection_id = connection_id
        self.listener = listener
        self.kind = kind
        self._client_address = client_address
        self._formats = formats(kind)
        self.frames = FrameReader(max_request_bytes, MAX_NAMES_BYTES, self._may_be_large)
        self.count_login: Callable[[bool], object] = lambda succeeded: None
        """Hears when the client has proved who it is, or has failed to, where it must."""
        self._in_hand: RequestContext | None = None
        self.reading: Steps[InboundRequest] | None = None
        """The steps in which the request in hand is read, if it is a large one; they may raise ProtocolError."""
        self._is_throttled = False
        self.wants_bytes = True
        """Nothing but the rest of the next request is missing: bytes may be read."""

    @property
    def is_authenticated(self) -> bool:
        """Whether the client has proved who it is, or need not."""
        return True

    def _may_be_large(self, head: bytes) -> bool:
        found = self._formats.get(head)
        return found is not None and found.request in _LARGE

    @property
    def state(self) -> ChannelState:
        if self._in_hand is not None:
            return ChannelState.MUTED
        return ChannelState.MUTED_AND_THROTTLED if self._is_throttled else ChannelState.NOT_MUTED

    def next_request(self, recorder: FrameRecorder | None = None) -> InboundRequest | Response | bytes | None:
        """The next request; None if there is none, if it has to wait for the one before it, or if it is read in steps.

        A request that the channel itself refuses comes out as the response to it (send it with `refuse`).
        ProtocolError: close the connection. A recorder sees the frame before it is read.
        """
        self.wants_bytes = False
        if self._in_hand is not None or self._is_throttled:
            return None
        frame = self.frames.next_frame()
        if frame is None:
            self.wants_bytes = True
            return None
        if recorder is not None:
            recorder.took(self.connection_id, self.listener, frame)
        context, message = self._read(frame)
        self._in_hand = context
        if isinstance(message, ErrorCode):
            return refusal_of_versions(self.kind, message)
        return None if message is None else InboundRequest(context, message)

    def _read(self, frame: memoryview) -> tuple[RequestContext, Request | ErrorCode | None]:
        """The content of a frame: a request, or why the channel itself refuses it; None if it is read in steps."""
        found = self._formats.get(bytes(frame[:4]))
        header_version = self._header_of_unknown(frame) if found is None else found.header_version
        header = decode_request_header(frame, header_version, MAX_REQUEST_ELEMENTS)
        api_key, api_version, correlation_id, client_id, position = header
        context = RequestContext(
            self.connection_id,
            self.listener,
            self.kind,
            self.principal,
            client_id,
            self._client_address,
            api_key,
            0 if found is None else api_version,
            correlation_id,
            len(frame),
        )
        if found is None:
            return context, ErrorCode.UNSUPPORTED_VERSION
        try:
            message, _ = found.request.decode_from(frame, api_version, position, READ_AT_ONCE)
        except TooManyElementsError:
            self.reading = _read_in_steps(found.request, frame, context, position)
            return context, None
        if isinstance(message, ApiVersionsRequest) and api_version >= 3 and not _is_legal(message):
            return context, ErrorCode.INVALID_REQUEST
        return context, message

    def _header_of_unknown(self, frame: memoryview) -> int:
        """The header's version of a request that is not served; ProtocolError unless it is ApiVersions."""
        key, version, _ = peek(frame)
        if key != API_VERSIONS_KEY:
            raise ProtocolError(f"API {key} version {version} is not served on a {self.kind.value} listener")
        return request_header_version(ApiVersionsRequest, version)

    def has_read(self) -> None:
        """The steps are taken, or nothing wants the request any more."""
        self.reading = None

    def refuse(self, response: Response | bytes) -> list[Any]:
        """The bytes of a refusal that `next_request` returned."""
        assert isinstance(response, Response), "only a channel that authenticates answers with bytes"
        context = self._in_hand
        assert context is not None, f"{self.connection_id} has nothing in hand"
        self.done(context)
        return encode_response(response, context.api_version, context.correlation_id)

    def done(self, context: RequestContext, throttled: bool = False) -> None:
        """The request in hand is answered, or wants no answer. With `throttled` no request is taken before
        `unthrottle`."""
        assert self._in_hand is context, f"{self.connection_id} is answered while {self.state.value}"
        self._in_hand = None
        self._is_throttled = throttled

    def unthrottle(self) -> None:
        assert self._is_throttled, f"{self.connection_id} is not throttled"
        self._is_throttled = False


def _read_in_steps(
    request: type[Request], frame: memoryview, context: RequestContext, position: int
) -> Steps[InboundRequest]:
    message = yield from request.decode_in_steps(frame, context.api_version, position, MAX_REQUEST_ELEMENTS)
    return InboundRequest(context, message)


def refusal_of_versions(kind: ListenerKind, error: ErrorCode) -> Response:
    """An ApiVersions answer that says what went wrong; after a version that is not known, also what this API speaks."""
    known = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, low, high in advertised(kind)
        if key == API_VERSIONS_KEY and error is ErrorCode.UNSUPPORTED_VERSION
    ]
    return ApiVersionsResponse(error_code=error, api_keys=known)


def _is_legal(message: ApiVersionsRequest) -> bool:
    """Client software is named by letters, digits, dots and dashes (KIP-511). A client names the cluster and the node
    that it means, or neither."""
    names = (message.client_software_name, message.client_software_version)
    if (message.cluster_id is None) != (message.node_id == ANY_NODE):
        return False
    return all(_LEGAL_SOFTWARE.fullmatch(name) for name in names)
