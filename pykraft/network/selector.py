"""Waiting for sockets, and the sockets' two hands: reading into a frame reader, writing a queue of parts.

A response is a list of parts, most of them bytes, some of them pieces of files. Neighbouring bytes go out in one system
call; a large piece of a file is handed to the kernel (sendfile), which moves it from its page cache to the socket
without bringing it to Python.

Whatever does not fit into the socket's buffer waits, and is written when the socket is ready again. No call here ever
waits but `Selector.wait`, and that one can be woken from another thread.

Follows org.apache.kafka.common.network.{Selector,KafkaChannel,PlaintextTransportLayer}.
"""

import selectors
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from pykraft.common.core import FileRegion
from pykraft.transport.frames import FrameReader

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE

_COPIED_BYTES = 64 * 1024
"""A piece of a file up to this size is read and sent with its neighbours: one system call less."""
_MAX_PARTS = 64
_MAX_EVENTS_BYTES = 4096


class Ready(Protocol):
    """Whoever wants to know when a socket is ready."""

    def on_ready(self, events: int) -> None: ...


class Selector:
    """The sockets of one node (or client), and who is told when one of them is ready."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._selector.register(self._wake_reader, READ, None)

    def register(self, sock: socket.socket, events: int, owner: Ready) -> None:
        self._selector.register(sock, events, owner)

    def modify(self, sock: socket.socket, events: int, owner: Ready) -> None:
        """Other events, perhaps none: a socket without events is not watched at all."""
        self._selector.modify(sock, events, owner)

    def unregister(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)

    def wait(self, timeout_s: float) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait until a socket is ready, at most for so long; what is ready is for `tell`."""
        return self._selector.select(max(0.0, timeout_s))

    def tell(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        """Tell the owners of the sockets that are ready. (Who holds a lock while it works takes it between the two.)"""
        for key, events in ready:
            owner: Ready | None = key.data
            if owner is None:
                self._drain()
            else:
                owner.on_ready(events)

    def wakeup(self) -> None:
        """Let `poll` return now. This alone may be called from any thread."""
        try:
            self._wake_writer.send(b"\0")
        except (BlockingIOError, OSError):
            return  # it is full of wake-ups, or closed

    def _drain(self) -> None:
        try:
            while self._wake_reader.recv(_MAX_EVENTS_BYTES):
                continue
        except BlockingIOError:
            return

    def close(self) -> None:
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()


class Stream:
    """One connected socket."""

    def __init__(self, sock: socket.socket, frames: FrameReader) -> None:
        self.sock = sock
        self._frames = frames
        self._out: deque[Any] = deque()
        self._sent_of_first = 0

    @property
    def has_output(self) -> bool:
        return bool(self._out)

    def receive(self) -> bool:
        """Read what is there; False at the end of the stream. OSError, ProtocolError: close it."""
        try:
            count = self.sock.recv_into(self._frames.space())
        except BlockingIOError:
            return True
        self._frames.received(count)
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


def _read_all(region: FileRegion) -> bytes:
    data = region.read(0, len(region))
    while len(data) < len(region):
        data += region.read(len(data), len(region) - len(data))
    return data
