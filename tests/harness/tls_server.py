"""A listener with TLS, turned by hand, and callers whose bytes a test holds in its hands."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Any

from pykraft.broker.settings.tls_listeners import read_listener_tls
from pykraft.common.metrics import Metrics
from pykraft.common.settings.tls_config import read_tls
from pykraft.common.timer import Timer
from pykraft.network.selector import Selector
from pykraft.network.socket_server import Processor, SocketOptions
from pykraft.network.tls import AcceptedTls, ServerTls, accepting, client_context, server_context
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.header import encode_request
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.schema import Response
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.transport.request_metrics import RequestMetrics
from pykraft.transport.server_connection import Answer, Pace, QueuedRequest, RequestChannel
from tests.harness.certificates import side

MAX_IDLE_MS = 1000
ASK = b"".join(encode_request(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3, 7, "t"))
KNOWN: Response = ApiVersionsResponse(api_keys=[])


class TlsServer:
    """The processor of one listener with TLS. Its connections are handed to it, and it has no thread."""

    def __init__(self, **settings: str) -> None:
        """By default it shows a certificate, and asks for none."""
        tls = read_listener_tls("SSL", SecurityProtocol.SSL, side(**settings))
        assert tls.mapping is not None
        self.tls = ServerTls(server_context(tls.settings, tls.client_auth, "listener SSL"), tls.mapping.principal_of)
        self.selector, self.timer, self.now = Selector(), Timer(), 0
        pace = Pace(self.timer, lambda: self.now)
        self.requests = RequestChannel(500, pace, RequestMetrics(Metrics(), lambda: 0))
        options = SocketOptions(1 << 20, -1, -1, 50, MAX_IDLE_MS, 500, 1 << 20, {"SSL": accepting(self.tls)})
        self.processor = Processor(self.selector, self.requests, options)
        self.answer: Response = KNOWN
        self.taken: list[QueuedRequest] = []
        self._callers: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=500)

    def accept(self) -> socket.socket:
        """A new connection: the caller's end."""
        theirs = socket.create_connection(self._listening.getsockname())
        mine, _ = self._listening.accept()
        theirs.setblocking(False)
        theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._callers.append(theirs)
        self.processor.now = self.now
        listener = "SSL", ListenerKind.BROKER, (lambda: None), SecurityProtocol.SSL
        self.processor.add(mine, "127.0.0.1", *listener)
        return theirs

    def turn(self) -> None:
        """Look at all sockets once, and answer what has come."""
        self.processor.now = self.now
        self.selector.tell(self.selector.wait(0))
        while (request := self.requests.receive()) is not None:
            self.taken.append(request)
            request.connection.respond(request, Answer(self.answer))

    @property
    def streams(self) -> list[AcceptedTls]:
        return [stream for stream in self.processor._sockets if isinstance(stream, AcceptedTls)]

    def close(self) -> None:
        self.processor.close(reset=True)
        for caller in self._callers:
            caller.close()
        self._listening.close()
        self.selector.close()


class Caller:
    """A client of its own: an SSLObject, whose bytes go to the server as the test says."""

    def __init__(self, server: TlsServer, context: ssl.SSLContext | None = None, host: str = "localhost") -> None:
        self.server = server
        self.sock = server.accept()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = context or trusting()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.answers = b""

    def step(self) -> bytes:
        """Take what the server has sent, and return what is to be sent to it."""
        with suppress(BlockingIOError):
            data = self.sock.recv(1 << 20)
            if not data:
                raise EOFError
            self._incoming.write(data)
        try:
            if self.tls.version() is None or not self._is_shaken:
                self.tls.do_handshake()
                self._is_shaken = True
            while data := self.tls.read(1 << 16):
                self.answers += data
            raise EOFError
        except ssl.SSLWantReadError:
            return self._outgoing.read()

    _is_shaken = False

    def ask(self, data: bytes = ASK) -> bytes:
        """The bytes that ask the server something."""
        self.tls.write(data)
        return self._outgoing.read()

    def run(self, turns: int = 20) -> Caller:
        """Exchange bytes as they come. EOFError: the server has closed the connection; SSLError: it says why."""
        for _ in range(turns):
            if data := self.step():
                self.sock.sendall(data)
            self.server.turn()
        return self


def trusting(**settings: Any) -> ssl.SSLContext:
    """A client's context, by default without a certificate of its own."""
    own = {name: value for name, value in side(**settings).items() if settings or "keystore" not in name}
    return client_context(read_tls(own), "the caller")
