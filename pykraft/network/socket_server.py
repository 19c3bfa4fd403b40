"""Kafka's network stages, as objects in one loop.

::

    clients --> Acceptor --> Processor --> RequestChannel --> the node
                 accepts      reads and     a bounded          handles one
                              writes        queue              after the other

In Kafka each stage has threads of its own, and requests cross from one to the next. Here the loop of one thread runs
them in turn, because every crossing between Python threads waits for the interpreter's lock. What the stages are for
stays the same: the acceptor spreads connections, a processor reads no more from a connection while one of its requests
is in hand (it is *muted*), and the queue in front of the handlers is bounded, so that a flood of requests backs
up into the clients' sockets and not into memory.

Follows kafka.network.{SocketServer,Acceptor,Processor,RequestChannel}.
"""

import errno
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from pykraft.common.core import FOREVER
from pykraft.network.connection_quotas import ConnectionQuotas
from pykraft.network.inherited import closed_in_child
from pykraft.network.selector import HANG_UP, READ, RESET, WRITE, Selector, WatchedStream
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.transport.pace import close_idle
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.server_connection import RequestChannel, ServerConnection

_ACCEPT_AT_ONCE = 64
_MOST_THROTTLED = 256
"""So many sockets of a listener are kept, not served, until their addresses may connect again."""
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 seconds: close() resets the connection


StreamMaker = Callable[["Processor", socket.socket, ServerChannel, Callable[[], object]], "AcceptedSocket"]
"""(processor, socket, its channel, what to call when it is closed) -> the stream under a connection."""


class SocketOptions(NamedTuple):
    """What the configuration says about sockets."""

    max_request_bytes: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    backlog: int
    max_idle_ms: int
    queued_max_requests: int
    max_file_number: int
    """Sockets stay below it: the rest of what the system lets the process open is for the log. The system gives the
    lowest number that is free, so a socket's number tells how many files are open."""
    streams: Mapping[str, StreamMaker] = {}
    """By listener: what makes its streams, where its bytes do not travel as they are (`network.tls`)."""


class AcceptedSocket(WatchedStream):
    """One accepted socket: the byte stream under a connection."""

    connection: ServerConnection

    def __init__(
        self, processor: "Processor", sock: socket.socket, channel: ServerChannel, when_closed: Callable[[], object]
    ) -> None:
        super().__init__(processor.selector, sock, channel.frames)
        self._processor = processor
        self._when_closed = when_closed
        self.has_hung_up = False
        self.last_active = processor.now

    def on_ready(self, events: int) -> None:
        """The socket can be read or written, or is broken. An error closes this connection, and no other."""
        if not self.events:
            return
        self.last_active = self._processor.now
        if events & RESET and (self.has_ended or self.connection.is_busy):
            self.connection.close()  # it is not read now, and its answers would go nowhere
            return
        if events & WRITE:
            try:
                self.flush()
            except (OSError, EOFError):
                self.connection.close()
                return
        if events & ~WRITE:
            self.is_readable = True
        if events & HANG_UP:
            self.has_hung_up = True
        self.connection.go_on()

    def give_up(self) -> None:
        if self.events:
            self.connection.close(reset=True)
        if self.events:  # what raised was the closing
            self.close(reset=True)

    def watch(self) -> None:
        """Wait for what the socket does next, but not for what is known already: the system reports that again and
        again. (A muted connection stays watched: mostly nothing comes, and one report costs less than to stop watching
        and to begin again.)"""
        events = RESET | WRITE if self.output else RESET
        if not self.is_readable and not self.has_ended:
            events |= READ
        if not self.has_hung_up:
            events |= HANG_UP
        if events != self.events:
            self.watch_for(events)

    def close(self, reset: bool) -> None:
        """Close the socket; with `reset` the client sees an error instead of an end, as when a process dies."""
        self._processor.remove(self)
        if reset:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close_socket()
        self._when_closed()
        del self.connection  # or the two keep each other, and the buffer, until the garbage collector comes


class Processor:
    """The accepted connections of a node."""

    def __init__(
        self,
        selector: Selector,
        requests: RequestChannel,
        options: SocketOptions,
    ) -> None:
        self.selector = selector
        self._requests = requests
        self._options = options
        self._sockets: set[AcceptedSocket] = set()
        self._accepted = 0
        self.now = 0

    def __len__(self) -> int:
        return len(self._sockets)

    def count_by_listener(self) -> Counter[str]:
        """How many connections each listener has."""
        return Counter(stream.connection.channel.listener for stream in self._sockets)

    def add(
        self,
        sock: socket.socket,
        address: str,
        listener: str,
        kind: ListenerKind,
        when_closed: Callable[[], object] = lambda: None,
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
    ) -> None:
        """Serve an accepted socket, and call back when it is closed. If the system refuses what that needs, this socket
        is closed, and nothing else."""
        try:
            if sock.fileno() >= self._options.max_file_number:
                if not self.make_room():
                    raise OSError(errno.EMFILE, "too many connections")
                sock, high = sock.dup(), sock  # it moves to the number that is free now, or what is free is used up
                high.close()
            self._serve(sock, address, listener, kind, when_closed, protocol)
        except Exception as error:
            sock.close()
            when_closed()
            if not isinstance(error, OSError):
                raise

    def _serve(
        self,
        sock: socket.socket,
        address: str,
        listener: str,
        kind: ListenerKind,
        when_closed: Callable[[], object],
        protocol: SecurityProtocol,
    ) -> None:
        options = self._options
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if options.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
        self._accepted += 1
        connection_id = f"{listener}-{address}-{self._accepted}"
        channel = self._requests.channel(connection_id, listener, kind, address, options.max_request_bytes, protocol)
        stream = options.streams.get(listener, AcceptedSocket)(self, sock, channel, when_closed)
        stream.connection = ServerConnection(channel, stream, self._requests)
        stream.watch()
        self._sockets.add(stream)

    def make_room(self) -> bool:
        """There are too many connections: close the one that has been silent the longest, and is not owed an answer;
        False if there is none. A flood of connections neither takes the log's files from it, nor do those that say
        nothing keep others out."""
        idle = [stream for stream in self._sockets if not stream.connection.is_busy]
        if idle:
            min(idle, key=lambda stream: stream.last_active).connection.close()
        return bool(idle)

    def remove(self, stream: AcceptedSocket) -> None:
        self._sockets.discard(stream)

    def close_idle(self, now: int) -> int:
        """Close connections that have been silent for too long; returns when to look again."""
        return close_idle(self._sockets, self._options.max_idle_ms, now)

    def close_excess(self, quotas: ConnectionQuotas) -> None:
        """A protected listener took more connections than there are: those that have been silent the longest on the
        others have to go."""
        while True:
            others = [each for each in self._sockets if quotas.is_exceeded(each.connection.channel.listener)]
            if not others:
                return
            min(others, key=lambda stream: stream.last_active).connection.close()

    def close(self, reset: bool) -> None:
        for connection in [stream.connection for stream in self._sockets]:
            connection.close(reset)


class Connections(Protocol):
    """Where accepted sockets go: a processor, or several in turn."""

    def add(
        self,
        sock: socket.socket,
        address: str,
        listener: str,
        kind: ListenerKind,
        when_closed: Callable[[], object],
        protocol: SecurityProtocol,
    ) -> None: ...

    def make_room(self) -> bool: ...


class Acceptor:
    """One listener's socket. A connection that has to wait (see `connection_quotas`) is held here, and no other is
    accepted meanwhile."""

    def __init__(
        self,
        selector: Selector,
        connections: Connections,
        listener: str,
        kind: ListenerKind,
        quotas: ConnectionQuotas,
        clock: Callable[[], int],
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
    ) -> None:
        self._selector = selector
        self._connections = connections
        self.listener = listener
        self._kind = kind
        self._protocol = protocol
        self._quotas = quotas
        self._clock = clock
        self._sock: socket.socket | None = None
        self._is_watched = False
        self._held: tuple[socket.socket, str] | None = None
        self._held_until = 0
        self._throttled: deque[tuple[int, socket.socket]] = deque()
        """Sockets of addresses that have used up their quota, and when each is closed."""

    def bind(self, host: str, port: int, options: SocketOptions) -> int:
        """Listen; returns the port, which the system chooses if `port` is 0. OSError if it is taken."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = closed_in_child(socket.socket(family, socket.SOCK_STREAM))
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if options.receive_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
            sock.bind((host, port))
            sock.listen(options.backlog)
        except OSError:
            sock.close()
            raise
        sock.setblocking(False)
        self._sock = sock
        self._watch(True)
        bound: int = sock.getsockname()[1]
        return bound

    def _watch(self, is_wanted: bool) -> None:
        assert self._sock is not None
        if is_wanted != self._is_watched:
            self._selector.watch(self._sock, READ if self._is_watched else 0, READ if is_wanted else 0, self)
            self._is_watched = is_wanted

    @property
    def is_holding(self) -> bool:
        """A connection waits here: call `go_on`."""
        return self._held is not None or bool(self._throttled)

    def on_ready(self, events: int) -> None:
        assert self._sock is not None
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                sock, address = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as error:  # the client is gone already, or no files are left
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._connections.make_room()
                return
            now = self._clock()
            self._held = closed_in_child(sock), str(address[0])
            self._held_until = now + self._quotas.wait_ms(self.listener, now)
            self.go_on(now)
            if self._held is not None:
                return

    def give_up(self) -> None:
        """Close the connection that could not be served; others may come."""
        if self._held is not None:
            self._held[0].close()
            self._held = None
        if self._sock is not None:
            self._watch(True)

    def go_on(self, now: int) -> int:
        """Let the connection that waits be served if it may; returns when to ask again. (When a connection is closed,
        ask besides.)"""
        closing = self._close_throttled(now)
        if self._held is None:
            return closing
        if now < self._held_until or not self._quotas.has_slot(self.listener):
            self._watch(False)
            return min(closing, self._held_until) if now < self._held_until else closing
        sock, address = self._held
        self._held = None
        self._watch(True)
        throttle_ms = self._quotas.throttle_address_ms(address, now)
        if throttle_ms:
            return self._throttle(sock, now + throttle_ms)
        if self._quotas.admit(self.listener, address):
            release = partial(self._quotas.release, self.listener, address)
            self._connections.add(sock, address, self.listener, self._kind, release, self._protocol)
        else:
            sock.close()
        return closing

    def _throttle(self, sock: socket.socket, until: int) -> int:
        """Keep a socket that is not served, so that its client does not come again at once; returns when to look
        again. Very many of them would take the system's files."""
        self._throttled.append((until, sock))
        if len(self._throttled) > _MOST_THROTTLED:
            self._throttled.popleft()[1].close()
        return self._throttled[0][0]

    def _close_throttled(self, now: int) -> int:
        while self._throttled and self._throttled[0][0] <= now:
            self._throttled.popleft()[1].close()
        return self._throttled[0][0] if self._throttled else FOREVER

    def close(self) -> None:
        self._close_throttled(FOREVER)
        if self._held is not None:
            self._held[0].close()
            self._held = None
        if self._sock is not None:
            self._watch(False)
            self._sock.close()
            self._sock = None
