"""A small blocking connection that speaks the protocol and hides nothing: what is sent, and what comes back.

It is a client's opposite: no retry, no choice of version, no check of what comes but its correlation id. What is wrong
on purpose can be sent, too: any bytes, in any pieces.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from pykraft.protocol.header import SIZE, decode_response, encode_request
from pykraft.protocol.schema import Request, Response

PATIENCE_S = 20.0
CLIENT_ID = "conformance"


class Closed(Exception):  # noqa: N818 (for most tests it is the expected answer)
    """The server has closed the connection."""


class Connection:
    """One connection to ``host:port``."""

    def __init__(
        self, address: str, patience_s: float = PATIENCE_S, receive_buffer: int = 0, source_host: str = ""
    ) -> None:
        """`source_host` is the address of this machine that the server sees; by default the one of the way there."""
        host, _, port = address.rpartition(":")
        self.sock = socket.socket()
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(patience_s)
        if source_host:
            self.sock.bind((source_host, 0))
        try:
            self.sock.connect((host, int(port)))
        except OSError:
            self.sock.close()
            raise
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)

    # --- messages -----------------------------------------------------------------------------------------------------

    def ask(self, request: Request, version: int) -> Any:
        """Send a request and wait for its answer. Closed, TimeoutError: there is none."""
        correlation_id = self.send(request, version)
        return self.receive(request, version, correlation_id)

    def send(self, request: Request, version: int) -> int:
        """Send a request; its correlation id."""
        correlation_id = next(self._correlation_ids)
        self.send_bytes(self.frame(request, version, correlation_id))
        return correlation_id

    @staticmethod
    def frame(request: Request, version: int, correlation_id: int = 1, client_id: str | None = CLIENT_ID) -> bytes:
        """A request's bytes with their size in front."""
        return b"".join(encode_request(request, version, correlation_id, client_id))

    def receive(self, request: Request, version: int, correlation_id: int) -> Response:
        """The answer to this request, which must be the next one."""
        answered, response = decode_response(type(request).response, version, memoryview(self.receive_frame()))
        assert answered == correlation_id, f"{answered} is answered, {correlation_id} was asked"
        return response

    # --- bytes --------------------------------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        """Send them. Closed: the server has hung up."""
        try:
            self.sock.sendall(data)
        except (ConnectionResetError, BrokenPipeError) as error:
            raise Closed from error

    def receive_frame(self) -> bytes:
        """The next frame, without its size."""
        (size,) = SIZE.unpack(self._exactly(SIZE.size))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = self.sock.recv(min(size, 1 << 20))
            except ConnectionResetError as error:
                raise Closed from error
            if not part:
                raise Closed
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def is_closed(self) -> bool:
        """Wait until the server hangs up without a word; False if it answers."""
        try:
            self.receive_frame()
        except Closed:
            return True
        return False

    def end_sending(self) -> None:
        """Close our half."""
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def answer_that(
    condition: Callable[[Any], bool], address: str, request: Request, version: int, timeout_s: float = 30
) -> Any:
    """Ask again and again until the answer is so; that answer."""
    with Connection(address, max(PATIENCE_S, timeout_s)) as connection:
        deadline = time.monotonic() + timeout_s
        while not condition(answer := connection.ask(request, version)):
            assert time.monotonic() < deadline, f"after {timeout_s:g} s {address} answers {answer}"
    return answer
