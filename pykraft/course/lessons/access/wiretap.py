"""An eavesdropper of notebook 21: it passes the bytes of connections on, and keeps a copy.

A `Wiretap` listens on a port of its own. It connects each client that comes to the real server, and hands on every
piece of bytes unchanged::

    client  ->  tap  ->  broker
            <-       <-

A broker that advertises the tap's port sends all of its clients there. What the eavesdropper can do with the copy is
in `overheard`. Not in Kafka: on a real network this is a switch, or a program such as tcpdump.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

_HOST = "127.0.0.1"
_PIECE_BYTES = 64 * 1024


class Piece(NamedTuple):
    """Some bytes that passed by."""

    connection: int
    """Which one, in the order of their beginning."""
    is_answer: bool
    """Whether the server sent them."""
    time_s: float
    """When, on the clock of the process."""
    data: bytes


class Wiretap:
    """One port, and the server that its connections go on to."""

    def __init__(self, first: int = 1) -> None:
        """Connections are numbered from `first` on: those of two taps are to differ."""
        self._number = first - 1
        self._listener = socket.create_server((_HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._target: tuple[str, int] | None = None
        self._lock = threading.Lock()
        self._kept: list[Piece] | None = None
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def connect_to(self, port: int) -> None:
        """Begin to pass connections on to the server on this port."""
        self._target = (_HOST, port)
        self._start(self._accept)

    @contextmanager
    def listening(self) -> Iterator[list[Piece]]:
        """What passes by meanwhile, in order."""
        pieces: list[Piece] = []
        with self._lock:
            self._kept = pieces
        try:
            yield pieces
        finally:
            with self._lock:
                self._kept = None

    def _start(self, run: object, *arguments: object) -> None:
        assert callable(run)
        thread = threading.Thread(target=run, args=arguments, name="wiretap", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        assert self._target is not None
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
            except OSError:  # closed, or the server is gone
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, server]
            self._number += 1
            self._start(self._pass_on, self._number, False, client, server)
            self._start(self._pass_on, self._number, True, server, client)

    def _pass_on(self, number: int, is_answer: bool, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE_BYTES):
                with self._lock:
                    if self._kept is not None:
                        self._kept.append(Piece(number, is_answer, time.monotonic(), data))
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all connections, and wait for the threads."""
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()
