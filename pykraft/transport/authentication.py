"""The server's side of a connection whose client must first prove who it is (SASL).

Until then the channel answers, or refuses, everything itself, but for ApiVersions. The states, and what a request does
in each::

    request \\ state     INITIAL          VERSIONS_SENT    AUTHENTICATING                    COMPLETE
    ------------------  ---------------  ---------------  --------------------------------  ------------------
    ApiVersions         VERSIONS_SENT    failed           failed, after ILLEGAL_SASL_STATE  to the node
    SaslHandshake       AUTHENTICATING   AUTHENTICATING   failed, after ILLEGAL_SASL_STATE  to the node, which says
    SaslAuthenticate    failed           failed           the token's answer, or COMPLETE   ILLEGAL_SASL_STATE
    any other           failed           failed           failed, after ILLEGAL_SASL_STATE  to the node

After SaslHandshake 0 the tokens follow as they are, each in a frame of its own, and so do the answers. After version 1
they are SaslAuthenticate requests. A mechanism that is not enabled fails after UNSUPPORTED_SASL_MECHANISM.

A failed connection is closed, after its answer if it has one. Both wait for
`connection.failed.authentication.delay.ms`, so that passwords cannot be tried as fast as the line lets it.

Before the proof a frame may have `sasl.server.max.receive.size` bytes, and the whole exchange may take as long as a
connection may be idle: a stranger holds neither memory nor a connection for good.

A recorder sees no token: it would keep a password.

Follows org.apache.kafka.common.security.authenticator.SaslServerAuthenticator, and
org.apache.kafka.common.network.KafkaChannel for the delay.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.protocol.api import ListenerKind, apis
from pykraft.protocol.header import SIZE, encode_response
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from pykraft.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from pykraft.protocol.schema import Request, Response
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.security.mechanism import SaslAuthenticationError, SaslServer
from pykraft.transport.frame_recorder import FrameRecorder
from pykraft.transport.server_channel import InboundRequest, RequestContext, ServerChannel, refusal_of_versions


class Authentication(NamedTuple):
    """How the clients of one listener prove who they are."""

    mechanisms: tuple[str, ...]
    begin: Callable[[str], SaslServer]
    """The server's side of a new exchange, by mechanism."""
    max_receive_bytes: int
    failure_delay_ms: int
    max_ms: int
    """The whole exchange may take this long; 0 or less: for ever."""


class AuthenticationFailed(ProtocolError):  # noqa: N818 (it is an answer, not a fault)
    """The client has not proved who it is: answer with these parts, and close the connection, after this delay."""

    def __init__(self, parts: list[Any], delay_ms: int) -> None:
        super().__init__("the client has not proved who it is")
        self.parts = parts
        self.delay_ms = delay_ms


class AuthenticationState(Enum):
    INITIAL = "initial"
    VERSIONS_SENT = "versions sent"
    AUTHENTICATING = "authenticating"
    COMPLETE = "complete"
    FAILED = "failed"


_BEFORE = {ApiVersionsRequest.api: ApiVersionsRequest, SaslHandshakeRequest.api: SaslHandshakeRequest}
"""The requests that may come before a token, by key."""
_INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"


class SaslServerChannel(ServerChannel):
    """One accepted connection that begins with SASL."""

    def __init__(
        self,
        connection_id: str,
        listener: str,
        kind: ListenerKind,
        client_address: str,
        max_request_bytes: int,
        protocol: SecurityProtocol,
        authentication: Authentication,
    ) -> None:
        super().__init__(connection_id, listener, kind, client_address, max_request_bytes, protocol)
        self.frames.limit(min(max_request_bytes, authentication.max_receive_bytes))
        self.authentication_ms = max(0, authentication.max_ms)
        self.authentication_state = AuthenticationState.INITIAL
        self._authentication = authentication
        self._max_request_bytes = max_request_bytes
        self._server: SaslServer | None = None
        self._mechanism = ""
        self._has_headers = False
        """Tokens come as SaslAuthenticate requests."""

    @property
    def is_authenticated(self) -> bool:
        return self.authentication_state is AuthenticationState.COMPLETE

    def next_request(self, recorder: FrameRecorder | None = None) -> InboundRequest | Response | bytes | None:
        """The next request; before the proof, the answer to it. AuthenticationFailed: close the connection, later."""
        if self.authentication_state is AuthenticationState.COMPLETE:
            return super().next_request(recorder)
        self.wants_bytes = False
        if self._in_hand is not None or self.authentication_state is AuthenticationState.FAILED:
            return None
        try:
            frame = self.frames.next_frame()
            if frame is None:
                self.wants_bytes = True
                return None
            if self._server is not None:
                return self._token(self._server, frame)
            return self._before_tokens(frame, recorder)
        except AuthenticationFailed:
            raise
        except ProtocolError:
            raise self._failed() from None

    def _before_tokens(
        self, frame: memoryview, recorder: FrameRecorder | None
    ) -> InboundRequest | Response | bytes | None:
        """A request that comes before the first token."""
        expected = _BEFORE.get(int.from_bytes(frame[:2], "big"))
        is_early = self.authentication_state is AuthenticationState.INITIAL
        if expected is None or (expected is ApiVersionsRequest and not is_early):
            raise self._failed()
        if recorder is not None:
            recorder.took(self.connection_id, self.listener, frame)
        context, message = self._read(frame)
        self._in_hand = context
        if isinstance(message, ErrorCode):
            return refusal_of_versions(self.kind, message)
        if isinstance(message, SaslHandshakeRequest):
            return self._handshake(message, context)
        if message is None:  # it has more elements than any such request needs
            raise self._failed()
        self.authentication_state = AuthenticationState.VERSIONS_SENT
        return InboundRequest(context, message)

    def _handshake(self, request: SaslHandshakeRequest, context: RequestContext) -> Response:
        names = list(self._authentication.mechanisms)
        if request.mechanism not in names:
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            raise self._failed(SaslHandshakeResponse(error_code=error, mechanisms=names))
        self._mechanism = request.mechanism
        self._has_headers = context.api_version >= 1
        self._server = self._authentication.begin(request.mechanism)
        self.authentication_state = AuthenticationState.AUTHENTICATING
        return SaslHandshakeResponse(mechanisms=names)

    def _token(self, server: SaslServer, frame: memoryview) -> Response | bytes:
        """The answer to a token."""
        if not self._has_headers:
            try:
                return self._evaluate(server, bytes(frame))
            except SaslAuthenticationError:
                raise self._failed() from None
        context, message = self._read(frame)
        self._in_hand = context
        if not isinstance(message, SaslAuthenticateRequest):
            raise self._failed(_out_of_place(message, context, self.kind))
        try:
            return SaslAuthenticateResponse(auth_bytes=self._evaluate(server, bytes(message.auth_bytes)))
        except SaslAuthenticationError as error:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            reason = error.reason or _INVALID.format(self._mechanism)
            refusal = SaslAuthenticateResponse(error_code=code, error_message=reason, auth_bytes=b"")
        raise self._failed(refusal)

    def _evaluate(self, server: SaslServer, token: bytes) -> bytes:
        answer = server.evaluate(token)
        if server.user is not None:
            self.principal = f"User:{server.user}"
            self.authentication_state = AuthenticationState.COMPLETE
            self.count_login(True)
            self._server = None
            self.frames.limit(self._max_request_bytes)
        return answer

    def refuse(self, response: Response | bytes) -> list[Any]:
        """The bytes of what `next_request` returned."""
        if isinstance(response, bytes):
            return [SIZE.pack(len(response)), response]
        return super().refuse(response)

    def _failed(self, response: Response | None = None) -> AuthenticationFailed:
        """The connection is to be closed, after this response."""
        self.authentication_state = AuthenticationState.FAILED
        self.count_login(False)
        self._server = None
        context, self._in_hand = self._in_hand, None
        parts: list[Any] = []
        if response is not None and context is not None:
            parts = encode_response(response, context.api_version, context.correlation_id)
        return AuthenticationFailed(parts, self._authentication.failure_delay_ms)


def channel_with(
    how: Authentication | None,
    connection_id: str,
    listener: str,
    kind: ListenerKind,
    address: str,
    most_bytes: int,
    by: SecurityProtocol,
) -> ServerChannel:
    """The channel of a connection whose client must log in, or need not."""
    if how is None:
        return ServerChannel(connection_id, listener, kind, address, most_bytes, by)
    return SaslServerChannel(connection_id, listener, kind, address, most_bytes, by, how)


def _out_of_place(message: Request | ErrorCode | None, context: RequestContext, kind: ListenerKind) -> Response | None:
    """What is said to a request that comes where a token was expected."""
    if message is None:
        return None
    if isinstance(message, ErrorCode):
        return refusal_of_versions(kind, ErrorCode.ILLEGAL_SASL_STATE)
    name = apis[context.api_key].name
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in name).strip("_").upper()
    detail = f"Unexpected Kafka request of type {words} during SASL authentication."
    return message.refusal(KafkaError(ErrorCode.ILLEGAL_SASL_STATE, detail))
