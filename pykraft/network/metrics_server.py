"""Where a node's metrics are read: ``GET /metrics`` over HTTP answers with Prometheus' text.

The server runs on the node's own thread and selector. The text is made a slice of time in a turn, one family of metrics
after the other: the figures of a family are all of one moment. The server is off unless ``pykraft.metrics.listener``
names an address, and it authenticates no client: keep it on 127.0.0.1, or behind something that does.

It is the least of HTTP/1.1 that a scraper needs: a request has no body, the answer closes the connection. A request
may have 8 KB, and sixteen clients may be connected: one more closes the oldest.
"""

import socket
from collections.abc import Callable

from pykraft.common.core import Steps
from pykraft.common.prometheus import CONTENT_TYPE
from pykraft.common.time_slice import TimeSlice, take_steps
from pykraft.common.types import Endpoint
from pykraft.network.inherited import closed_in_child
from pykraft.network.selector import READ, RESET, WRITE, Selector

_MOST_BYTES = 8 << 10
_MOST_CLIENTS = 16
_END = b"\r\n\r\n"
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


def answer(request: bytes, text: Callable[[], Steps[str]]) -> Steps[bytes]:
    """The answer to a request's head; `text` are the steps to what /metrics says."""
    words = request.split(b"\r\n", 1)[0].split(b" ")
    method, path = words[0], words[1].split(b"?")[0] if len(words) == 3 else b""
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        status, body = 400, "this is no HTTP/1.1 request\n"
    elif method not in (b"GET", b"HEAD"):
        status, body = 405, "metrics are read with GET\n"
    elif path != b"/metrics":
        status, body = 404, "metrics are at /metrics\n"
    else:
        status, body = 200, (yield from text())
    content = body.encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {CONTENT_TYPE if status == 200 else 'text/plain'}\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else content)


class _Client:
    """One connection."""

    def __init__(self, server: "MetricsServer", sock: socket.socket) -> None:
        self._server = server
        self._sock = sock
        self._request = b""
        self._steps: Steps[bytes] | None = None
        """To the answer, once the request is here."""
        self._output = memoryview(b"")
        self._events = 0
        self._watch(READ | RESET)

    def _watch(self, events: int) -> None:
        self._server.selector.watch(self._sock, self._events, events, self)
        self._events = events

    def on_ready(self, events: int) -> None:
        """The socket can be read or written, or is broken."""
        if not self._events:
            return
        try:
            if self._steps is not None:
                self._answer()
            elif self._output:
                self._write()
            else:
                self._read()
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def give_up(self) -> None:
        self.close()

    def _read(self) -> None:
        data = self._sock.recv(_MOST_BYTES)
        self._request += data
        if not data:
            self.close()
        elif _END in self._request or len(self._request) >= _MOST_BYTES:
            is_whole = _END in self._request
            self._steps = answer(self._request if is_whole else b"", self._server.text)
            self._watch(WRITE | RESET)
            self._answer()

    def _answer(self) -> None:
        """Go on with the answer. The socket can be written, so the selector calls again in the next turn."""
        assert self._steps is not None
        time_slice = self._server.time_slice
        time_slice.begin()
        is_done, found = take_steps(self._steps, None, time_slice, 0)
        if is_done:
            self._steps, self._output = None, memoryview(found)
            self._write()

    def _write(self) -> None:
        self._output = self._output[self._sock.send(self._output) :]
        if not self._output:
            self._sock.shutdown(socket.SHUT_WR)
            self.close()

    def close(self) -> None:
        """Close the socket, once or again."""
        if self._events:
            self._watch(0)
            self._server.clients.pop(self, None)
            self._sock.close()


class MetricsServer:
    """The listener, and the connections that it has accepted."""

    def __init__(
        self, selector: Selector, endpoint: Endpoint, text: Callable[[], Steps[str]], time_slice: TimeSlice
    ) -> None:
        """Listen. OSError if the address cannot be had. The system chooses the port if it is 0."""
        self.selector = selector
        self.text = text
        self.time_slice = time_slice
        self.clients: dict[_Client, None] = {}
        """In the order in which they came."""
        family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        self._sock = closed_in_child(socket.socket(family, socket.SOCK_STREAM))
        try:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._sock.bind((endpoint.host, endpoint.port))
            self._sock.listen(_MOST_CLIENTS)
        except OSError:
            self._sock.close()
            raise
        self._sock.setblocking(False)
        self.endpoint = Endpoint(endpoint.host, self._sock.getsockname()[1])
        selector.watch(self._sock, 0, READ, self)

    def on_ready(self, events: int) -> None:
        """A client connects."""
        try:
            sock, _ = self._sock.accept()
        except OSError:  # it is gone already, or no files are left
            return
        closed_in_child(sock).setblocking(False)
        if len(self.clients) >= _MOST_CLIENTS:
            next(iter(self.clients)).close()
        try:
            self.clients[_Client(self, sock)] = None
        except OSError:
            sock.close()

    def give_up(self) -> None:
        """The client that could not be served is gone; others may come."""

    def close(self) -> None:
        for client in list(self.clients):
            client.close()
        self.selector.watch(self._sock, READ, 0, self)
        self._sock.close()
