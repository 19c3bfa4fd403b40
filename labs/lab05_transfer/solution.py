"""Lab 05: how does a piece of a file leave through a socket that takes only a part?"""

import os
import socket
import ssl

PIECE_BYTES = 32_768
"""As much as `copy_piece` reads at once."""


# --- task 5.1: the kernel sends ---
def send_piece(out: socket.socket, file: int, position: int, count: int) -> int:
    """Let the kernel send at most `count` bytes of the file from `position` on. How many left, 0 if the
    socket is full; EOFError if the file has nothing there."""
    try:
        sent = os.sendfile(out.fileno(), file, position, count)
    except BlockingIOError:
        return 0
    if sent == 0:
        raise EOFError(f"the file ends before byte {position:,}")
    return sent


# --- end of task 5.1 ---


# --- task 5.2: where the kernel cannot ---
def copy_piece(out: socket.socket, file: int, position: int, count: int) -> int:
    """The same by reading and sending, at most PIECE_BYTES at once; `out` may be a TLS connection."""
    data = os.pread(file, min(count, PIECE_BYTES), position)
    if not data:
        raise EOFError(f"the file ends before byte {position:,}")
    try:
        return out.send(data)
    except (BlockingIOError, ssl.SSLWantWriteError):
        return 0


# --- end of task 5.2 ---


# --- task 5.3: all of it, in as many turns as it takes ---
class Transfer:
    """A range of a file on its way out; `remaining` bytes of it have not left."""

    def __init__(self, file: int, position: int, count: int) -> None:
        """`count` bytes of the file from `position` on; nothing is sent yet."""
        self.file, self.position, self.remaining = file, position, count

    def transfer_to(self, out: socket.socket) -> int:
        """Send until everything has left or the socket is full; how many bytes left in this call."""
        way = copy_piece if isinstance(out, ssl.SSLSocket) else send_piece
        before = self.remaining
        while self.remaining and (sent := way(out, self.file, self.position, self.remaining)):
            self.position += sent
            self.remaining -= sent
        return before - self.remaining


# --- end of task 5.3 ---
