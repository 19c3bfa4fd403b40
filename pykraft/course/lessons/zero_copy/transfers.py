"""A file goes through a socket, in one of several ways, and what it costs is counted.

::

    sender, a process of its own  -->  a TCP connection on this machine  -->  reader, a thread of the notebook
    way(file, out, size, piece)

A *way* is a function: `read_and_send`, `sendfile`, or one that a reader writes in a notebook. Its source is
handed to the sender (`programs`), so what a notebook shows is what runs; it may use the modules of `_SENDER`. The
notebook only reads meanwhile, so its processor time is the reader's.

Sender and reader share one core, where the system lets us say so (Linux). On two cores a sender also pays for waking
the reader's core, more or less by chance, and a consumer on another machine costs nothing like that.

There are two witnesses of what the sender does: it counts its own calls by name (`counted_calls`), and the kernel
counts what it reads, writes and fetches from a disk. `Transfer.path` makes a drawing of both (`viz.byte_paths`).
"""

import inspect
import json
import os
import socket
import ssl
import tempfile
import textwrap
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from pykraft.course.lessons.zero_copy import counted_calls
from pykraft.course.lessons.zero_copy.certificate import reading_side, sending_side
from pykraft.course.lessons.zero_copy.counted_calls import LENDS, READS, WRITES, Counts, between, most_used
from pykraft.course.lessons.zero_copy.programs import Program, Usage
from pykraft.viz.wire.byte_path import BytePath, Move

Way = Callable[[int, socket.socket, int, int], None]
"""way(file, out, size, piece): send this many bytes of an open file, in pieces."""

PIECE_BYTES = 1 << 20
ROUNDS = 3
_LISTENING = ("127.0.0.1", 0)
_PATIENCE_S = 30
_SENDER = """
{counting}

import json
import mmap
import sys

counts = count_calls()

{way}

path, piece, port, is_encrypted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "True"
file = os.open(path, os.O_RDONLY)
size = os.fstat(file).st_size
out = socket.create_connection(("127.0.0.1", port))
if is_encrypted:
    from pykraft.course.lessons.zero_copy.certificate import sending_side
    out = sending_side().wrap_socket(out, server_side=True)
print(json.dumps(counts), flush=True)
for line in sys.stdin:
    {name}(file, out, size, piece)
    print(json.dumps(counts), flush=True)
"""


# --- two ways ---------------------------------------------------------------------------------------------------------


def read_and_send(file: int, out: socket.socket, size: int, piece: int) -> None:
    """Read each piece into our own memory, and write it from there into the socket."""
    buffer = memoryview(bytearray(piece))
    position = 0
    while position < size:
        count = os.preadv(file, [buffer], position)
        position += os.write(out.fileno(), buffer[:count])


def sendfile(file: int, out: socket.socket, size: int, piece: int) -> None:
    """Tell the kernel which bytes of which file; our memory never sees them."""
    position = 0
    while position < size:
        position += os.sendfile(out.fileno(), file, position, piece)


# --- measuring --------------------------------------------------------------------------------------------------------


class Transfer(NamedTuple):
    """What it took to bring some bytes to their reader."""

    gigabytes: float
    seconds: float
    sender: Usage
    calls: Counts
    """The sender's calls, by name."""
    reader_cpu_s: float
    checksum: int = 0
    """CRC-32 of what the reader got; 0 unless it was asked for."""

    @property
    def gigabytes_a_second(self) -> float:
        return self.gigabytes / self.seconds

    @property
    def sender_cpu(self) -> float:
        """Seconds of the processor for a gigabyte, at the sender's side."""
        return self.sender.cpu_s / self.gigabytes

    @property
    def reader_cpu(self) -> float:
        return self.reader_cpu_s / self.gigabytes

    @property
    def copied_share(self) -> float:
        """Of the bytes that were sent, the part that passed through the sender's memory."""
        _, _, copied = most_used(self.calls, WRITES)
        _, _, lent = most_used(self.calls, LENDS)
        return copied / (copied + lent)

    def path(self, name: str, does: str = "") -> BytePath:
        """The way of the bytes, as a drawing takes it. A program that changes what it holds, as by encrypting, writes
        by other code than Python's: then we take the kernel's counter of written bytes, where there is one."""
        copied_in, copied_out, lent = (_move(self.calls, names) for names in (READS, WRITES, LENDS))
        if does and self.sender.write_calls:
            copied_out = Move("write", self.sender.write_calls, self.sender.bytes_written)
        cost, reader = (f"{1000 * cpu:,.0f} ms of CPU for a GB" for cpu in (self.sender_cpu, self.reader_cpu))
        return BytePath(name, copied_in, copied_out, lent, self.sender.fetched_bytes, does, cost, f"reader: {reader}")

    def __repr__(self) -> str:
        return (
            f"{self.gigabytes_a_second:.2f} GB/s; CPU seconds for a GB: sender {self.sender_cpu:.3f}, "
            f"reader {self.reader_cpu:.3f}"
        )


def _move(calls: Counts, names: tuple[str, ...]) -> Move | None:
    move = Move(*most_used(calls, names))
    return move if move.moved_bytes else None


def transfer(
    way: Way, path: Path, *, piece: int = PIECE_BYTES, encrypts: bool = False, checks: bool = False
) -> Transfer:
    """Send the file to the reader, once. ssl.SSLError if the reader cannot decrypt what comes."""
    size = path.stat().st_size
    with ExitStack() as stack:
        stack.enter_context(_on_one_core())
        pair = _Pair(stack, way, path, piece, encrypts)
        counts = json.loads(pair.program.hear())
        pair.begin(size, checks)
        before, own = pair.program.usage(), time.process_time()
        started = time.perf_counter()
        pair.program.say("once")
        pair.join()
        seconds, own = time.perf_counter() - started, time.process_time() - own
        pair.raise_failure()
        calls = between(counts, json.loads(pair.program.hear()))
        used = pair.program.usage().since(before)
    return Transfer(size / 1e9, seconds, used, calls, own, pair.checksum)


def compare(ways: Iterable[Way], path: Path, *, rounds: int = ROUNDS, encrypts: bool = False) -> dict[str, Transfer]:
    """Each way in turn, and all of it again, so that what else happens on this machine meets all of them. Each number
    is the best of the rounds."""
    found: dict[str, Transfer] = {}
    for _ in range(rounds):
        for way in ways:
            one = transfer(way, path, encrypts=encrypts)
            found[way.__name__] = best_of(found.get(way.__name__, one), one)
    return found


def best_of(*transfers: Transfer) -> Transfer:
    """The last of some equal transfers, with the best of each number."""
    return transfers[-1]._replace(
        seconds=min(one.seconds for one in transfers),
        sender=min(one.sender for one in transfers),
        reader_cpu_s=min(one.reader_cpu_s for one in transfers),
    )


# --- what leaves, and what arrives ------------------------------------------------------------------------------------


class OverTls(NamedTuple):
    """What a way puts into a TLS connection."""

    on_the_wire: bytes
    """All that came to the other end, before it was decrypted."""
    received: bytes
    """What the reader has decrypted; nothing if it refused."""
    refusal: str
    """Why the reader refused what came; nothing if it did not."""


def through_tls(way: Way, data: bytes) -> OverTls:
    """Send a file that holds the data, a few kilobytes, over a TLS connection in this way."""
    with ExitStack() as stack:
        file = stack.enter_context(SampleFile(data))
        out, end = stack.enter_context(connection())
        with ThreadPoolExecutor(1) as pool:
            shaking = pool.submit(sending_side().wrap_socket, out, server_side=True)
            decrypting = stack.enter_context(reading_side().wrap_socket(end))
        encrypting = stack.enter_context(shaking.result())
        way(file.number, encrypting, len(data), len(data))
        below = stack.enter_context(socket.socket(fileno=os.dup(decrypting.fileno())))
        on_the_wire = below.recv(PIECE_BYTES, socket.MSG_PEEK)
        try:
            return OverTls(on_the_wire, decrypting.recv(PIECE_BYTES), "")
        except ssl.SSLError as refusal:
            return OverTls(on_the_wire, b"", str(refusal.reason))


class SampleFile:
    """A temporary file, open and in the page cache, until `close`; in this folder, if one is given."""

    def __init__(self, data: bytes, times: int = 1, folder: Path | None = None) -> None:
        self._file = tempfile.NamedTemporaryFile(dir=folder, prefix="transfer-", buffering=0)  # noqa: SIM115 (`close`)
        for _ in range(times):
            self._file.write(data)
        self.path = Path(self._file.name)
        self.number = self._file.fileno()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "SampleFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection on this machine. What one end sends leaves at once; no end waits forever."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(_LISTENING))
        out = stack.enter_context(socket.create_connection(listener.getsockname()))
        end = stack.enter_context(listener.accept()[0])
        out.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.settimeout(_PATIENCE_S)
        yield out, end


class _Pair:
    """A sender, its connection, and the thread that reads from it."""

    def __init__(self, stack: ExitStack, way: Way, path: Path, piece: int, encrypts: bool) -> None:
        text = _SENDER.format(
            counting=inspect.getsource(counted_calls),  # to import it would take longer than a transfer
            way=textwrap.dedent(inspect.getsource(way)),
            name=way.__name__,
        )
        with socket.create_server(_LISTENING) as listener:
            listener.settimeout(_PATIENCE_S)
            self.program = Program(text, path, piece, listener.getsockname()[1], encrypts)
            stack.callback(self.program.close)
            self._sock, _ = listener.accept()
        self._sock.settimeout(_PATIENCE_S)
        if encrypts:
            self._sock = reading_side().wrap_socket(self._sock)
        stack.callback(self._sock.close)
        self.checksum = 0
        self._failure: Exception | None = None

    def begin(self, wanted: int, checks: bool) -> None:
        """Let the thread wait for this many bytes."""
        self._thread = threading.Thread(target=self._read, args=(wanted, checks), daemon=True)
        self._thread.start()

    def _read(self, wanted: int, checks: bool) -> None:
        buffer = memoryview(bytearray(PIECE_BYTES))
        try:
            while wanted > 0:
                count = self._sock.recv_into(buffer, min(wanted, PIECE_BYTES))
                if count == 0:
                    raise EOFError(f"the sender has ended, and {wanted:,} bytes have not come")
                if checks:
                    self.checksum = zlib.crc32(buffer[:count], self.checksum)
                wanted -= count
        except (OSError, EOFError) as failure:
            self._failure = failure
            self._sock.close()  # the sender writes no more

    def join(self) -> None:
        self._thread.join()

    def raise_failure(self) -> None:
        """What the reader met: a broken cipher, or that the sender died; of what, `hear` tells."""
        if isinstance(self._failure, ssl.SSLError):
            raise self._failure
        if self._failure is not None:
            self.program.hear()
            raise self._failure


@contextmanager
def _on_one_core() -> Iterator[None]:
    """This thread, and the threads and processes that it starts, share one core in the block."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
