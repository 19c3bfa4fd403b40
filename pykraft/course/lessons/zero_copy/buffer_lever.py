"""A lever of notebook 05: the buffers of a socket, and how many bytes can be on their way.

Apache Kafka's documentation (*Operations*, *Hardware and OS*) says that the largest socket buffer "can be increased to
enable high-performance data transfer between data centers". The reason is TCP's. A sender keeps each byte until it is
acknowledged, a round trip later, and a receiver has to have room for what it has not read. So the smaller of the two
buffers bounds what is under way: at most that much in each round trip. A link holds its bandwidth times its round trip.

**What is measured.** pykraft's own `OsFileRegion.send_to` sends a file into a connection of this machine until the
kernel takes no more. Against a reader that reads nothing, what is left at the sender's side is what its buffer holds.
The receiver's buffer is filled and read several times, since the kernel lets a buffer of its own choice grow. These
numbers are the kernel's: it may give less than it is asked for (``net.core.wmem_max``), and says nothing.

**What is computed.** A connection on one machine has no delay, and giving it one takes an administrator (``tc netem``).
So the time on a link follows from the measured buffers: bytes, divided by what a round trip or the link lets pass. Lost
packets and a slow start, which make it longer, are left out.

**On this machine** one thread fills the connection, and reads it, in turn, until 4 MB have come. That is measured in
time of the processor.
"""

import fcntl
import socket
import struct
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from statistics import median
from typing import NamedTuple

from pykraft.course.experiment import FEWEST_PAIRS, Experiment, Outcome
from pykraft.course.lessons.zero_copy.transfers import SampleFile
from pykraft.storage.disk.filesystem import OsFile, OsFileRegion
from pykraft.viz import Figure, verdicts

HERE, FAR = "Your buffers, on this machine", "Your buffers, over the link"
SYSTEMS = "The system's choice (-1), over the link"
KAFKAS_KB = 100, 64
"""`socket.send.buffer.bytes` of a broker, and `receive.buffer.bytes` of a consumer, out of the box."""
_SYSTEMS = 0, 0
_KB, _MB = 1 << 10, 1 << 20
_SMALLEST_KB = 4
_FILE_BYTES, _MANY = 4 * _MB, 4
_SENT_BYTES = 100_000_000
_ROUNDS = 20
_TRIES, _PAUSE_S = 4, 0.0005
_PATIENCE_S = 10.0
_LOCALHOST = ("127.0.0.1", 0)


class Buffers(NamedTuple):
    """How many bytes of a file the buffers of a connection hold."""

    sender: int
    receiver: int

    @property
    def under_way(self) -> int:
        """The most that can be on its way."""
        return min(self)

    def seconds(self, size: int, round_trip_ms: int, link_mbit: int) -> float:
        """How long this many bytes take on a link."""
        return size / min(link_mbit * 125_000, self.under_way * 1000 / round_trip_ms)


def draw_buffers(send_kb: int, receive_kb: int, round_trip_ms: int, link_mbit: int) -> Figure:
    """Whether these buffers are better than Kafka's, and whether the system's own choice is; 0 KB leaves it to the
    system."""
    yours, outcomes = outcomes_of(send_kb, receive_kb, round_trip_ms, link_mbit)
    full_s = _SENT_BYTES / (link_mbit * 125_000)
    share = full_s / yours.seconds(_SENT_BYTES, round_trip_ms, link_mbit)
    title = f"With {_named((send_kb, receive_kb))} a connection uses {share:.0%} of {link_mbit:,} Mbit/s"
    note = (
        f"In {round_trip_ms} ms the link takes {link_mbit * round_trip_ms / 8:,.0f} KB. Your sender's buffer holds "
        f"{yours.sender / 1000:,.0f} KB, your reader's {yours.receiver / 1000:,.0f} KB."
    )
    return verdicts({said: outcome.finding for said, outcome in outcomes.items()}, title=title, note=note)


def outcomes_of(
    send_kb: int, receive_kb: int, round_trip_ms: int, link_mbit: int, seed: int = 0
) -> tuple[Buffers, dict[str, Outcome]]:
    """What the kernel gives for these sizes, and what came of each sentence. What would be compared with itself is left
    out."""
    sizes = {_named(each): each for each in (KAFKAS_KB, (send_kb, receive_kb), _SYSTEMS)}
    with _Source() as source:
        given = {name: source.buffers(*each) for name, each in sizes.items()}

        def here(arm: str) -> float:
            return source.cpu_ms(*sizes[arm])

        def on_the_link(arm: str) -> float:
            return given[arm].seconds(_SENT_BYTES, round_trip_ms, link_mbit)

        yours = _named((send_kb, receive_kb))
        compared: dict[str, tuple[str, str, Callable[[str], float]]] = {
            HERE: (yours, "ms of CPU", here),
            FAR: (yours, "s for 100 MB", on_the_link),
            SYSTEMS: (_named(_SYSTEMS), "s for 100 MB", on_the_link),
        }
        outcomes = {
            said: _plan(said, other, unit).run(measure, seed)
            for said, (other, unit, measure) in compared.items()
            if other != _named(KAFKAS_KB)
        }
    return given[yours], outcomes


def _plan(said: str, other: str, unit: str) -> Experiment:
    kafkas = _named(KAFKAS_KB)
    return Experiment(
        claim=f"{said}: with {kafkas} the same bytes take at least 1.5 times as much as with {other}.",
        compared=(kafkas, other),
        holds_if="at least 1.5 times",
        prediction=1 if said == HERE else 10,
        because="in a round trip as many bytes pass as the smaller buffer holds, and here it takes no time",
        unit=unit,
        pairs=FEWEST_PAIRS,
    )


def _named(sizes: tuple[int, int]) -> str:
    """Sender and reader."""
    if sizes == _SYSTEMS:
        return "the system's"
    return "/".join(f"{each:,}" if each else "system's" for each in sizes) + " KB"


class _Source:
    """A file that was just written, and pykraft's own way to send a piece of it."""

    def __enter__(self) -> "_Source":
        with ExitStack() as stack:
            sample = stack.enter_context(SampleFile(bytes(_FILE_BYTES), times=_MANY))
            self._file = OsFile(str(sample.path))
            stack.callback(self._file.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def buffers(self, send_kb: int, receive_kb: int) -> Buffers:
        """How much the kernel lets both ends hold."""
        with _connection(send_kb, _SMALLEST_KB) as (out, end):
            sender = self._fill(out) - _unread(end)
        with _connection(0, receive_kb) as (out, end):
            held = []
            for _ in range(_ROUNDS):
                size = self._fill(out)
                held.append(_unread(end))
                _read(end, size)
        return Buffers(sender, round(median(held[_ROUNDS // 2 :])))

    def _fill(self, out: socket.socket) -> int:
        """Send until the kernel takes no more; how many bytes that were."""
        region, sent, tries = self._region(_FILE_BYTES * _MANY), 0, 0
        while tries < _TRIES and sent < len(region):
            try:
                sent += region.send_to(out.fileno(), sent)
                tries = 0
            except BlockingIOError:
                tries += 1
                time.sleep(_PAUSE_S)
        return sent

    def cpu_ms(self, send_kb: int, receive_kb: int) -> float:
        """Send the file and read it, in turns: milliseconds of the processor."""
        region, sent, got, buffer = self._region(_FILE_BYTES), 0, 0, bytearray(_MB)
        with _connection(send_kb, receive_kb) as (out, end):
            began, deadline = time.thread_time(), time.monotonic() + _PATIENCE_S
            while got < len(region) and time.monotonic() < deadline:
                before = sent, got
                with suppress(BlockingIOError):
                    while sent < len(region):
                        sent += region.send_to(out.fileno(), sent)
                with suppress(BlockingIOError):
                    while got < sent:
                        got += end.recv_into(buffer)
                if before == (sent, got):
                    time.sleep(_PAUSE_S)
            return (time.thread_time() - began) * 1000

    def _region(self, size: int) -> OsFileRegion:
        return self._file.region(0, size)


@contextmanager
def _connection(send_kb: int, receive_kb: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection on this machine; no call waits. The reader's size is set before it connects, or its
    kernel would have promised another one already."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(_LOCALHOST)
        listener.listen(1)
        end = stack.enter_context(socket.socket())
        if receive_kb:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_kb * _KB)
        end.connect(listener.getsockname())
        out = stack.enter_context(listener.accept()[0])
        if send_kb:
            out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_kb * _KB)
        for each in (out, end):
            each.setblocking(False)
        yield out, end


def _unread(end: socket.socket) -> int:
    """The bytes that have come and were not read."""
    return int(struct.unpack("i", fcntl.ioctl(end, termios.FIONREAD, bytes(4)))[0])


def _read(end: socket.socket, size: int) -> None:
    """Read this many bytes, which were sent."""
    deadline = time.monotonic() + _PATIENCE_S
    while size and time.monotonic() < deadline:
        try:
            size -= len(end.recv(_MB))
        except BlockingIOError:
            time.sleep(_PAUSE_S)
