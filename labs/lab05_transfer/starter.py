"""Lab 05: how does a piece of a file leave through a socket that takes only a part?"""

import socket

PIECE_BYTES = 32_768
"""As much as `copy_piece` reads at once."""


# --- task 5.1: the kernel sends ---
def send_piece(out: socket.socket, file: int, position: int, count: int) -> int:
    """Let the kernel send at most `count` bytes of the file from `position` on. How many left, 0 if the
    socket is full; EOFError if the file has nothing there."""
    raise NotImplementedError("Task 5.1: call os.sendfile; is the socket full, or does the file end?")


# --- end of task 5.1 ---


# --- task 5.2: where the kernel cannot ---
def copy_piece(out: socket.socket, file: int, position: int, count: int) -> int:
    """The same by reading and sending, at most PIECE_BYTES at once; `out` may be a TLS connection."""
    raise NotImplementedError("Task 5.2: read a piece, send it, and return what the connection took")


# --- end of task 5.2 ---


# --- task 5.3: all of it, in as many turns as it takes ---
class Transfer:
    """A range of a file on its way out; `remaining` bytes of it have not left."""

    def __init__(self, file: int, position: int, count: int) -> None:
        """`count` bytes of the file from `position` on; nothing is sent yet."""
        raise NotImplementedError("Task 5.3: remember what you need to go on later")

    def transfer_to(self, out: socket.socket) -> int:
        """Send until everything has left or the socket is full; how many bytes left in this call."""
        raise NotImplementedError("Task 5.3: choose the way, send while there is room, and keep count")


# --- end of task 5.3 ---
