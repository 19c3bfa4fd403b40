"""Waiting for sockets, and the sockets' two hands: reading into a frame reader, writing a queue of parts.

A response is a list of parts, most of them bytes, some of them pieces of files. Neighbouring bytes go out in one system
call; a large piece of a file is handed to the kernel (sendfile), which moves it from its page cache to the socket
without bringing it to Python.

Whatever does not fit into the socket's buffer waits, and is written when the socket is ready again. No call here ever
waits but `Selector.wait`, and that one can be woken from another thread.

Follows org.apache.kafka.common.network.{Selector,KafkaChannel,PlaintextTransportLayer}.
"""

import select
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from pykraft.common.core import FileRegion
from pykraft.network.inherited import end_in_child
from pykraft.transport.frames import FrameReader

HAS_EPOLL = hasattr(select, "epoll")
READ, WRITE = (select.EPOLLIN, select.EPOLLOUT) if HAS_EPOLL else (selectors.EVENT_READ, selectors.EVENT_WRITE)
HANG_UP = select.EPOLLRDHUP if HAS_EPOLL else 0
"""The peer has closed its half. What it sent before may still be there to read. Only epoll reports this."""
RESET = select.EPOLLHUP | select.EPOLLERR if HAS_EPOLL else 0
"""The connection is broken. epoll reports this for every socket that it watches."""

_COPIED_BYTES = 64 * 1024
"""A piece of a file up to this size is read and sent with its neighbours: one system call less."""
_MAX_PARTS = 64
MAX_TELLING_S = 0.01
"""After this long the thread looks after the rest of its work before it reads from the other sockets."""
_MAX_EVENTS_BYTES = 4096


class Ready(Protocol):
    """The owner of a socket: the selector calls it when the socket is ready."""

    def on_ready(self, events: int) -> None: ...

    def give_up(self) -> None:
        """`on_ready` has raised what nothing expected: close the connection that it was about."""
        ...


Told = tuple[Ready, int]
"""The owner of a socket that is ready, and for which events."""


class _Portable(selectors.DefaultSelector):
    """A replacement for epoll where the system has none, under the same names."""

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        return [(key.fd, events) for key, events in self.select(timeout)]


class Selector:
    """The sockets of one node (or client), and their owners."""

    _seconds = staticmethod(time.perf_counter)
    """Held here, where a test that freezes the time of day does not find it (`runtime.clock`)."""

    def __init__(self) -> None:
        self._poller: Any = select.epoll() if HAS_EPOLL else _Portable()
        self._owners: dict[int, Ready] = {}
        self.on_error: Callable[[Exception], None] | None = None
        """Hears of what an owner has raised, unless the system refused something to it; None: `tell` raises it."""
        self._untold: list[Told] = []
        """Owners of sockets that were ready, and have not been called yet."""
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self.watch(self._wake_reader, 0, READ, self)
        end_in_child(self, Selector.close)

    def watch(self, sock: socket.socket, before: int, events: int, owner: Ready) -> None:
        """Watch a socket for these events, instead of those before. Without any it is not watched at all.
        OSError: the system has no room for more."""
        number = sock.fileno()
        if not events:
            self._poller.unregister(number)
            del self._owners[number]
        elif before:
            self._poller.modify(number, events)
        else:
            self._poller.register(number, events)
            self._owners[number] = owner

    def wait(self, timeout_s: float) -> list[Told]:
        """Wait until a socket is ready, at most for this long; what is ready is for `tell`."""
        owners, untold = self._owners, self._untold
        if not untold:
            return [(owners[number], events) for number, events in self._poller.poll(max(0.0, timeout_s))]
        self._untold = []
        told = {id(owner) for owner, _ in untold}
        ready = [(owners[number], events) for number, events in self._poller.poll(0)]
        return untold + [(owner, events) for owner, events in ready if id(owner) not in told]

    def tell(self, ready: list[Told]) -> None:
        """Call the owners of the sockets that are ready. (A thread that needs a lock for it takes it after `wait`.)

        After `MAX_TELLING_S` the rest has to wait: a request takes up to a twentieth of a second to be decoded, and may
        have come on many sockets at once. An owner that raises gives up its connection, and the others are called."""
        enough = self._seconds() + MAX_TELLING_S
        for number, (owner, events) in enumerate(ready, 1):
            try:
                owner.on_ready(events)
            except Exception as error:
                self._give_up(owner, error)
            if self._seconds() >= enough:
                self._untold = ready[number:]
                return

    def _give_up(self, owner: Ready, error: Exception) -> None:
        if self.on_error is None:
            raise error
        try:
            owner.give_up()
        except Exception as second:
            error = error if isinstance(second, OSError) else second
        if not isinstance(error, OSError):
            self.on_error(error)

    def wakeup(self) -> None:
        """Let `wait` return now. This alone may be called from any thread."""
        try:
            self._wake_writer.send(b"\0")
        except (BlockingIOError, OSError):
            return  # it is full of wake-ups, or closed

    def on_ready(self, events: int) -> None:
        """Another thread has woken this one."""
        try:
            while self._wake_reader.recv(_MAX_EVENTS_BYTES):
                continue
        except BlockingIOError:
            return

    def give_up(self) -> None:
        """There is no connection to close."""

    def close(self) -> None:
        self._poller.close()
        self._wake_reader.close()
        self._wake_writer.close()


class Stream:
    """One connected socket, which is read into a frame reader."""

    def __init__(self, sock: socket.socket, frames: FrameReader) -> None:
        self.sock = sock
        self._out: deque[Any] = deque()
        self.is_readable = False
        """The socket was ready, and was not read since."""
        self.has_ended = False
        self._frames = frames
        self._sent_of_first = 0

    @property
    def output(self) -> Collection[Any]:
        """What was sent, and has not left yet."""
        return self._out

    @property
    def has_output(self) -> bool:
        return bool(self._out)

    def receive(self) -> bool:
        """Read what is there; False at the end of the stream. OSError, ProtocolError: close it."""
        self.is_readable = False
        try:
            count = self.sock.recv_into(self._frames.space())
        except BlockingIOError:
            return True
        self._frames.received(count)
        self.has_ended = not count
        return count > 0

    def send(self, parts: Sequence[Any]) -> None:
        """Queue these parts, and write what the socket takes. OSError, EOFError: close it."""
        self.queue(parts)
        self.flush()

    def queue(self, parts: Sequence[Any]) -> None:
        """Let these parts wait for the next `flush`. A message is encoded field by field; neighbouring fields become
        one part here, since a part costs more than its bytes."""
        fields: list[bytes] = []
        for part in parts:
            if type(part) is bytes:
                fields.append(part)
                continue
            self._queue_one(b"".join(fields))
            fields = []
            self._queue_one(part)
        self._queue_one(b"".join(fields))

    def _queue_one(self, part: Any) -> None:
        if len(part):
            self._out.append(part)

    def flush(self) -> None:
        """Write what the socket takes."""
        try:
            while self._out:
                if self._sends_file(self._out[0]):
                    self._advance(self._out[0].send_to(self.sock.fileno(), self._sent_of_first))
                else:
                    self._advance(self.sock.sendmsg(self._gathered()))
        except BlockingIOError:
            return

    @staticmethod
    def _sends_file(part: Any) -> bool:
        return not isinstance(part, bytes | bytearray | memoryview) and len(part) > _COPIED_BYTES

    def _gathered(self) -> list[Any]:
        """The parts at the front that go out together, as bytes."""
        gathered: list[Any] = []
        for number, part in enumerate(self._out):
            if self._sends_file(part) or len(gathered) == _MAX_PARTS:
                break
            if not isinstance(part, bytes | bytearray | memoryview):
                part = self._out[number] = _read_all(part)
            gathered.append(memoryview(part)[self._sent_of_first :] if number == 0 and self._sent_of_first else part)
        return gathered

    def _advance(self, count: int) -> None:
        count += self._sent_of_first
        while self._out and count >= len(self._out[0]):
            count -= len(self._out.popleft())
        self._sent_of_first = count


class WatchedStream(Stream):
    """A stream that a selector watches for it."""

    def __init__(self, selector: Selector, sock: socket.socket, frames: FrameReader) -> None:
        super().__init__(sock, frames)
        self._selector = selector
        self.events = 0
        """What it is watched for."""

    def watch_for(self, events: int) -> None:
        """Have the socket watched for these events from now on, or for none. OSError: the system has no room."""
        if events != self.events:
            self._selector.watch(self.sock, self.events, events, self)
            self.events = events

    def on_ready(self, events: int) -> None:
        """The socket is ready, or was before it was closed: then `events` of this stream are 0."""
        raise NotImplementedError

    def give_up(self) -> None:
        raise NotImplementedError

    def close_socket(self) -> None:
        """Close the socket, once or again."""
        self.watch_for(0)
        self.sock.close()


def _read_all(region: FileRegion) -> bytes:
    data = region.read(0, len(region))
    while len(data) < len(region):
        data += region.read(len(data), len(region) - len(data))
    return data
