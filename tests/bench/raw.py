"""What the machine itself can do: a file that is written, a socket that is filled, and a server that only echoes.

No broker can be faster than these. Each takes a second or less, so that it fits between two runs of a broker.

    python -m tests.bench.raw receive|echo     what runs on the other side of a socket; it says its port first
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

HOST = "127.0.0.1"
BUFFER_BYTES = 1 << 20
FILE = "raw write to a file"
SOCKET = "raw socket"
ECHO = "bare epoll echo in Python"


def written(total_bytes: int, block_bytes: int) -> float:
    """MB/s of appending blocks to a new file, which is not synced: that is how a log is written, too."""
    block = os.urandom(block_bytes)
    with tempfile.TemporaryDirectory() as directory:
        number = os.open(pathlib.Path(directory) / "file", os.O_CREAT | os.O_WRONLY)
        try:
            began = time.monotonic()
            for _ in range(total_bytes // block_bytes):
                os.write(number, block)
            return total_bytes / (time.monotonic() - began) / 1e6
        finally:
            os.close(number)


def sent(total_bytes: int, block_bytes: int) -> float:
    """MB/s of sending blocks to another process, which reads them and throws them away."""
    block = os.urandom(block_bytes)
    with other_side("receive") as port, socket.create_connection((HOST, port)) as sock:
        began = time.monotonic()
        for _ in range(total_bytes // block_bytes):
            sock.sendall(block)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b"", "it says nothing, and ends when it has read all"
        return total_bytes / (time.monotonic() - began) / 1e6


@contextlib.contextmanager
def other_side(module_argument: str, module: str = "tests.bench.raw") -> Iterator[int]:
    """A process that listens; its port. It ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, module_argument], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def say_port(listener: socket.socket) -> None:
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()


def receive(listener: socket.socket) -> None:
    """Read one connection to its end."""
    connection, _ = listener.accept()
    buffer = bytearray(BUFFER_BYTES)
    with connection:
        while connection.recv_into(buffer):
            pass


def echo(listener: socket.socket) -> None:
    """Send back what comes, from one loop over epoll, for ever."""
    poll = select.epoll()
    listener.setblocking(False)
    poll.register(listener, select.EPOLLIN)
    connections: dict[int, socket.socket] = {}
    while True:
        for number, _ in poll.poll():
            if number == listener.fileno():
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[connection.fileno()] = connection
                poll.register(connection, select.EPOLLIN)
                continue
            connection = connections[number]
            try:
                if connection.send(connection.recv(65536)):
                    continue
            except OSError:
                pass  # reset by a client that had enough
            del connections[number]
            connection.close()


def main() -> None:
    with socket.create_server((HOST, 0)) as listener:
        say_port(listener)
        {"receive": receive, "echo": echo}[sys.argv[1]](listener)


if __name__ == "__main__":
    main()
