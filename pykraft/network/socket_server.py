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
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from pykraft.common.errors import ProtocolError
from pykraft.network.selector import READ, WRITE, Selector, Stream
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.schema import Request, Response
from pykraft.transport.server_channel import ChannelState, InboundRequest, RequestContext, ServerChannel

_ACCEPT_AT_ONCE = 64
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 seconds: close() resets the connection


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


class QueuedRequest(NamedTuple):
    """A request that waits to be handled, and where its answer goes."""

    connection: "Connection"
    inbound: InboundRequest


class RequestChannel:
    """The queue between the processors and the node."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._queue: deque[QueuedRequest] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def has_room(self) -> bool:
        return len(self._queue) < self._capacity

    def put(self, request: QueuedRequest) -> None:
        self._queue.append(request)

    def receive(self) -> QueuedRequest | None:
        """The request that has waited longest."""
        return self._queue.popleft() if self._queue else None


class Connection:
    """One accepted connection: its socket and its channel."""

    def __init__(self, processor: "Processor", sock: socket.socket, channel: ServerChannel, now: int) -> None:
        self._processor = processor
        self._stream = Stream(sock, channel.frames)
        self.channel = channel
        self.last_active = now
        self.is_open = True
        self._has_ended = False
        """The client has closed its half. It may still read what it is owed."""
        self._events = READ

    @property
    def sock(self) -> socket.socket:
        return self._stream.sock

    def on_ready(self, events: int) -> None:
        """The socket can be read or written. Whatever is wrong with it closes this connection, and no other."""
        self.last_active = self._processor.now
        try:
            if events & WRITE:
                self._stream.flush()
                self.take_request()
            reads = READ
            if events & READ and self.is_busy:
                reads = 0
            elif events & READ:
                self._has_ended = not self._stream.receive()
                self.take_request()
            self._go_on(reads)
        except (OSError, EOFError, ProtocolError):
            self.close()

    @property
    def is_busy(self) -> bool:
        """A request is in hand, or an answer has not left yet: who does not read is not read from."""
        return self.channel.state is not ChannelState.NOT_MUTED or self._stream.has_output

    def take_request(self) -> None:
        """Queue the next request, if one has come in full. One that the channel refuses is answered here."""
        while self.is_open and not self._stream.has_output:
            if not self._processor.requests.has_room:
                self._processor.starved.append(self)
                return
            taken = self.channel.next_request()
            if taken is None:
                return
            if isinstance(taken, InboundRequest):
                self._processor.requests.put(QueuedRequest(self, taken))
                return
            self._stream.send(self.channel.refuse(taken))

    def respond(self, context: RequestContext, response: Response | None, throttled: bool) -> None:
        """Send the answer, and take the next request that waits in the buffer."""
        if not self.is_open:
            return
        try:
            self._stream.send(self.channel.respond(context, response, throttled))
        except (OSError, EOFError, struct.error):
            self.close()
            return
        self.resume()

    def read_on(self) -> None:
        """The request in hand was looked at, and is answered later."""
        if self.is_open:
            self.channel.read_on()
            self.resume()

    def unthrottle(self) -> None:
        """The client's time of rest is over."""
        if self.is_open:
            self.channel.unthrottle()
            self.resume()

    def resume(self) -> None:
        """Go on with what waits in the buffer, and in the socket."""
        try:
            self.take_request()
            self._go_on()
        except (OSError, EOFError, ProtocolError):
            self.close()

    def _go_on(self, reads: int = READ) -> None:
        """Wait for what the socket does next. Who has ended is closed when nothing is owed any more. (Who is busy may
        be watched all the same: mostly nothing comes, and to stop watching costs more than to be told once.)"""
        if self._has_ended and not (self.is_busy or self.channel.owes_answers):
            self.close()
        if self.is_open:
            self._watch(0 if self._has_ended else reads)

    def _watch(self, reads: int) -> None:
        """A socket that nothing is wanted of is not watched at all: the system tells of a reset again and again."""
        wanted = reads | (WRITE if self._stream.has_output else 0)
        if wanted != self._events:
            self._processor.watch(self, self._events, wanted)
            self._events = wanted

    def close(self, reset: bool = False) -> None:
        """Close the socket; with `reset` the peer sees an error instead of an end, as when a process dies."""
        if self.is_open:
            self.is_open = False
            self._processor.remove(self, self._events)
            if reset:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.sock.close()


class Processor:
    """The accepted connections of a node."""

    def __init__(
        self,
        selector: Selector,
        requests: RequestChannel,
        options: SocketOptions,
        may_wait_in_line: Callable[[Request], bool],
    ) -> None:
        self._selector = selector
        self.requests = requests
        self._options = options
        self._may_wait_in_line = may_wait_in_line
        self._connections: set[Connection] = set()
        self.starved: list[Connection] = []
        """Connections with a request in their buffer for which the queue had no room."""
        self._accepted = 0
        self.now = 0

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, sock: socket.socket, address: str, listener: str, kind: ListenerKind) -> None:
        if sock.fileno() >= self._options.max_file_number:
            if not self.make_room():
                sock.close()
                return
            sock, high = sock.dup(), sock  # it moves to the number that has become free, or what is free is used up
            high.close()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._options.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._options.send_buffer_bytes)
        self._accepted += 1
        connection_id = f"{listener}-{address}-{self._accepted}"
        most_bytes = self._options.max_request_bytes
        channel = ServerChannel(connection_id, listener, kind, address, most_bytes, self._may_wait_in_line)
        connection = Connection(self, sock, channel, self.now)
        self._connections.add(connection)
        self._selector.register(sock, READ, connection)

    def make_room(self) -> bool:
        """There are too many connections: close the one that has been silent the longest, and is not owed an answer;
        False if there is none. A flood of connections neither takes the log's files from it, nor do those that say
        nothing keep others out."""
        idle = [each for each in self._connections if not (each.is_busy or each.channel.owes_answers)]
        if idle:
            min(idle, key=lambda connection: connection.last_active).close()
        return bool(idle)

    def watch(self, connection: Connection, before: int, events: int) -> None:
        """Watch its socket for these events, instead of those before."""
        if not before:
            self._selector.register(connection.sock, events, connection)
        elif not events:
            self._selector.unregister(connection.sock)
        else:
            self._selector.modify(connection.sock, events, connection)

    def remove(self, connection: Connection, events: int) -> None:
        self._connections.discard(connection)
        if events:
            self._selector.unregister(connection.sock)

    def feed(self) -> None:
        """The queue has room again."""
        starved, self.starved = self.starved, []
        for connection in starved:
            connection.resume()

    def close_idle(self, now: int) -> None:
        """Close connections that have been silent for too long."""
        for connection in list(self._connections):
            if now - connection.last_active > self._options.max_idle_ms:
                connection.close()

    def close(self, reset: bool) -> None:
        for connection in list(self._connections):
            connection.close(reset)


class Acceptor:
    """One listener's socket."""

    def __init__(self, selector: Selector, processor: Processor, listener: str, kind: ListenerKind) -> None:
        self._selector = selector
        self._processor = processor
        self._listener = listener
        self._kind = kind
        self._sock: socket.socket | None = None

    def bind(self, host: str, port: int, options: SocketOptions) -> int:
        """Listen; returns the port, which the system chooses if `port` is 0. OSError if it is taken."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
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
        self._selector.register(sock, READ, self)
        bound: int = sock.getsockname()[1]
        return bound

    def on_ready(self, events: int) -> None:
        assert self._sock is not None
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                sock, address = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as error:  # the client is gone already, or no files are left
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._processor.make_room()
                return
            self._processor.add(sock, str(address[0]), self._listener, self._kind)

    def close(self) -> None:
        if self._sock is not None:
            self._selector.unregister(self._sock)
            self._sock.close()
            self._sock = None
