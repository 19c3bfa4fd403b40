"""The client's side of a connection: a broker's to its controller, a follower's to its leader, a producer's to any
broker.

A new connection asks first what the server speaks (ApiVersions), in the newest version that this side knows. A server
that does not know that version says so in version 0, with the versions that it does know, and is asked again in the
newest of them. From then on every request goes out in the newest version that both know.

A client that has learned of the cluster also says which broker of which cluster it means. An address may have changed
hands since: then the broker there refuses (KIP-1242), and the client must begin with its bootstrap servers again.

Where the client must prove who it is, its login follows (`client_login`), and everything else waits for that.

Answers come in the order of the requests, so a queue of what was asked is all that is needed to read them.

Follows org.apache.kafka.clients.{NetworkClient,NodeApiVersions,InFlightRequests}.
"""

import struct
from collections import deque
from typing import Any, NamedTuple

from pykraft.common.errors import ErrorCode, ProtocolError
from pykraft.protocol.header import decode_response, encode_request
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.schema import Request, Response
from pykraft.security.mechanism import Salting
from pykraft.transport.client_login import LoginExchange
from pykraft.transport.frames import FrameReader

SOFTWARE_NAME = "pykraft"
SOFTWARE_VERSION = "0.1.0"
_MAX_RESPONSE_BYTES = (1 << 31) - 1


class UnsupportedVersion(Exception):  # noqa: N818 (it is an answer, not a fault)
    """The server speaks no version of this API that this side speaks."""


class MisroutedError(ProtocolError):
    """The server is not the broker that was meant, or is in another cluster."""


class Meant(NamedTuple):
    """Which broker a connection is to reach."""

    cluster_id: str
    node_id: int


class Sent(NamedTuple):
    """A request that was sent and not answered yet. `ticket` is the sender's own mark."""

    ticket: Any
    request: type[Request]
    version: int
    correlation_id: int


class ClientChannel:
    """One connection that was opened."""

    def __init__(self, client_id: str, login: LoginExchange | None = None) -> None:
        self._client_id = client_id
        self._login = login
        """The login that is to be made first, or is under way."""
        self.salting: Salting | None = None
        """What the login needs computed; give the result to `salted`."""
        self.frames = FrameReader(_MAX_RESPONSE_BYTES)
        self._in_flight: deque[Sent] = deque()
        self._correlation_id = 0
        self._greeting = ApiVersionsRequest()
        self.api_versions: dict[int, tuple[int, int]] | None = None
        """What the server speaks; None until it has said so."""

    @property
    def is_ready(self) -> bool:
        return self.api_versions is not None and self._login is None

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def greet(self, meant: Meant | None = None) -> list[Any]:
        """The first bytes to send; they say which broker is `meant`."""
        self._greeting = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        if meant is not None:
            self._greeting.cluster_id, self._greeting.node_id = meant
        return self._send(None, self._greeting, ApiVersionsRequest.versions[1])

    def send(self, ticket: Any, request: Request) -> list[Any]:
        """The bytes of a request, as parts; `UnsupportedVersion` if the server cannot read any version of it."""
        assert self.api_versions is not None, "the server has not said yet what it speaks"
        low, high = self.api_versions.get(request.api, (0, -1))
        version = min(high, request.versions[1])
        if version < max(low, request.versions[0]):
            raise UnsupportedVersion(f"{type(request).__name__} {request.versions}: the server speaks {low} to {high}")
        return self._send(ticket, request, version)

    def _send(self, ticket: Any, request: Request, version: int) -> list[Any]:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        if wants_answer(request):
            self._in_flight.append(Sent(ticket, type(request), version, self._correlation_id))
        return encode_request(request, version, self._correlation_id, self._client_id)

    def next_response(self) -> tuple[Any, Response] | None:
        """(ticket, response) of the next answer; None if there is none yet. ProtocolError, LoginFailed: close the
        connection.

        The server's greeting and the login are taken here and not returned; what must be sent because of them is in
        `greeting_again`.
        """
        while (frame := self.frames.next_frame()) is not None:
            if not self._in_flight:
                raise ProtocolError("an answer came to nothing that was asked")
            sent = self._in_flight.popleft()
            if sent.ticket is None:
                if sent.request is ApiVersionsRequest:
                    self._on_greeting(sent, frame)
                else:
                    self._on_login(sent, frame)
                continue
            correlation_id, response = decode_response(sent.request.response, sent.version, frame)
            if correlation_id != sent.correlation_id:
                raise ProtocolError(f"answer {correlation_id} came where {sent.correlation_id} was expected")
            return sent.ticket, response
        return None

    greeting_again: list[Any] | None = None
    """Bytes to send because the server did not know the greeting's version, or because the login goes on."""

    def _on_greeting(self, sent: Sent, frame: memoryview) -> None:
        if len(frame) < 6:
            raise ProtocolError("an ApiVersions answer has no error code")
        (error,) = struct.unpack_from(">h", frame, 4)
        if error == ErrorCode.UNSUPPORTED_VERSION and sent.version > 0:
            self.greeting_again = self._send(None, self._greeting, _common_version(frame, sent.version))
            return
        _, response = decode_response(ApiVersionsResponse, sent.version, frame)
        assert isinstance(response, ApiVersionsResponse)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            raise MisroutedError(f"{self._greeting.node_id} of cluster {self._greeting.cluster_id} is elsewhere")
        if response.error_code:
            raise ProtocolError(f"the server refused to say what it speaks: {ErrorCode.of(response.error_code).name}")
        self.api_versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        if self._login is not None:
            self.greeting_again = self.send(None, self._login.begin(self.api_versions))

    def _on_login(self, sent: Sent, frame: memoryview) -> None:
        assert self._login is not None, "only a login asks these things"
        _, response = decode_response(sent.request.response, sent.version, frame)
        found = self._login.heed(response)
        if isinstance(found, Salting):
            self.salting = found
        elif found is None:
            self._login = None
        else:
            self.greeting_again = self.send(None, found)

    def salted(self, result: bytes) -> list[Any]:
        """The bytes to send, now that what the login needs is computed."""
        assert self._login is not None, "only a login computes"
        return self.send(None, self._login.go_on(result))


def _common_version(refusal: memoryview, refused: int) -> int:
    """The newest version of ApiVersions below the `refused` one that the server knows. It refuses in version 0, and
    since KIP-511 says which ones it knows."""
    _, response = decode_response(ApiVersionsResponse, 0, refusal)
    assert isinstance(response, ApiVersionsResponse)
    known = {api.api_key: api.max_version for api in response.api_keys}
    return max(0, min(known.get(ApiVersionsRequest.api, 0), refused - 1))


def wants_answer(request: Request) -> bool:
    """A produce request with acks=0 is the only one that is not answered."""
    return getattr(request, "acks", None) != 0
