"""A file goes through a socket, in a way that the notebook wrote, and what it costs is measured.

::

    sender, a process of its own  -->  a TCP connection on this machine  -->  reader, a thread of the notebook
    way(file, out, size, piece)

A *way* is a function of the notebook. Its source is handed to the sender (`programs`), so what is read in the notebook
is what runs, and it must bring nothing but the modules of `_SENDER`. The notebook only reads meanwhile, so its
processor time is the reader's.

A reader that *discards* asks the kernel to throw away what has come (MSG_TRUNC, see tcp(7)), so nobody copies it out
of the kernel. It stands for a network card: that, too, takes the bytes away and costs the processor nothing for each.
"""

import inspect
import os
import socket
import ssl
import textwrap
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pykraft.course.rigs.certificate import reading_side
from pykraft.course.rigs.programs import Program, Usage

Way = Callable[[int, socket.socket, int, int], None]
"""way(file, out, size, piece): send so many bytes of an open file, in pieces."""

PIECE_BYTES = 1 << 20
ROUNDS = 3
_HOST = "127.0.0.1"
_PATIENCE_S = 30
_SENDER = """
import mmap
import os
import socket
import sys

{way}

path, piece, port, is_encrypted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "True"
file = os.open(path, os.O_RDONLY)
size = os.fstat(file).st_size
out = socket.create_connection(("127.0.0.1", port))
if is_encrypted:
    from pykraft.course.rigs.certificate import sending_side
    out = sending_side().wrap_socket(out, server_side=True)
for line in sys.stdin:
    for _ in range(int(line)):
        {name}(file, out, size, piece)
    print("sent", flush=True)
"""


class Transfer(NamedTuple):
    """What it took to bring some bytes to their readers."""

    gigabytes: float
    seconds: float
    sender: Usage
    """Of all senders."""
    reader_cpu_s: float
    checksum: int
    """CRC-32 of what the first reader got; 0 unless it was asked for."""

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
    def cpu(self) -> float:
        """Both sides together."""
        return self.sender_cpu + self.reader_cpu

    def __repr__(self) -> str:
        return (
            f"{self.gigabytes_a_second:.2f} GB/s; CPU seconds for a GB: sender {self.sender_cpu:.3f}, "
            f"reader {self.reader_cpu:.3f}"
        )


def transfer(
    way: Way,
    path: Path,
    *,
    times: int = 1,
    piece: int = PIECE_BYTES,
    pairs: int = 1,
    discards: bool = False,
    one_core: bool = False,
    encrypts: bool = False,
    checks: bool = False,
) -> Transfer:
    """Send the file so many times to the reader; with `pairs` so many senders and readers do it at once, with
    `one_core` all of them on the same core. ssl.SSLError if a reader cannot decrypt what comes."""
    with ExitStack() as stack:
        if one_core:
            stack.enter_context(_on_one_core())
        senders = [_Pair(stack, way, path, piece, encrypts) for _ in range(pairs)]
        gigabytes = path.stat().st_size * times / 1e9
        for pair in senders:
            pair.begin(path.stat().st_size * times, discards, checks)
        before, own = [pair.program.usage() for pair in senders], time.process_time()
        started = time.perf_counter()
        for pair in senders:
            pair.program.say(times)
        for pair in senders:
            pair.join()
        seconds, own = time.perf_counter() - started, time.process_time() - own
        for pair in senders:
            pair.raise_failure()
            pair.program.hear()
        used = [pair.program.usage().since(then) for pair, then in zip(senders, before, strict=True)]
    total = Usage(*map(sum, zip(*used, strict=True)))
    return Transfer(gigabytes * pairs, seconds, total, own, senders[0].checksum)


def compare(ways: Iterable[Way], path: Path, *, rounds: int = ROUNDS, **options: Any) -> dict[str, Transfer]:
    """Each way in turn, and all of it again, so that what else happens on this machine meets all of them. Each number
    is the best of the rounds. `options` are those of `transfer`."""
    found: dict[str, Transfer] = {}
    for _ in range(rounds):
        for way in ways:
            one = transfer(way, path, **options)
            known = found.get(way.__name__, one)
            found[way.__name__] = one._replace(
                seconds=min(known.seconds, one.seconds),
                sender=min(known.sender, one.sender),
                reader_cpu_s=min(known.reader_cpu_s, one.reader_cpu_s),
            )
    return found


class _Pair:
    """A sender, its connection, and the thread that reads from it."""

    def __init__(self, stack: ExitStack, way: Way, path: Path, piece: int, encrypts: bool) -> None:
        text = _SENDER.format(way=textwrap.dedent(inspect.getsource(way)), name=way.__name__)
        with socket.create_server((_HOST, 0)) as listener:
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

    def begin(self, wanted: int, discards: bool, checks: bool) -> None:
        """Let the thread wait for so many bytes."""
        flags = socket.MSG_TRUNC if discards else 0
        self._thread = threading.Thread(target=self._read, args=(wanted, flags, checks), daemon=True)
        self._thread.start()

    def _read(self, wanted: int, flags: int, checks: bool) -> None:
        buffer = memoryview(bytearray(PIECE_BYTES))
        try:
            while wanted > 0:
                count = self._sock.recv_into(buffer, min(wanted, PIECE_BYTES), flags)
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
    """This thread, and the threads and processes that it starts, share one core in the block; on a system where one
    cannot say so, nothing changes."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
