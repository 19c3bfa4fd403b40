"""The files that this process has open: a bounded number of them, however many logs there are.

A node with 10,000 partitions of two segments has 60,000 files, and a shell gives a process 1,024 descriptors. So a file
of a log has a descriptor only while it is in use. It is opened when something is read or written, and stays open until
there are too many; then those that were not used lately are closed, and opened again when they are needed. To open a
file costs about 5 microseconds.

Which one goes is found by the *clock* algorithm, also called second chance: the open files stand in a ring, a use sets
a mark, and a hand goes around. It takes the mark off where it finds one, and closes the first file that has none. That
is nearly the least recently used one, and a use costs no more than setting a mark.

Several threads use files: each node's own, and one in the background. None of them may find that its number belongs to
another file since. So no descriptor is closed while it is in use: the cache only lets go of a `Descriptor`, which
closes itself when its last holder, perhaps in the midst of a write, has let go of it, too.

What was written through a descriptor that is closed since is synced through the next one: the kernel keeps the pages
with the file. It also keeps the error of a write that failed in the background until the next sync asks for it (Linux
4.14 on).

Kafka has no such bound. It keeps the .log file of every segment open, maps the indexes into memory once they were used,
and asks its users for ``ulimit -n 100000`` and a large ``vm.max_map_count``. A notebook's server can rarely be given
that, and a lesson should run where its reader is.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Callable
from typing import Protocol

_AT_MOST = 8192
_NO_LIMIT = 1 << 31


class Descriptor:
    """An open file's number. It is closed when no reference to this object is left."""

    __slots__ = ("number", "was_used")

    def __init__(self, number: int) -> None:
        self.number = number
        self.was_used = False
        """Since it was opened for a first use, or since the hand came by."""

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.number)  # by a name of its own, for at the end of the process `os` may be gone before this


class Reopened(Protocol):
    """A file that can be opened again."""

    path: str
    held: Descriptor | None


class OpenFiles:
    """The files that have a descriptor: at most `limit`, and fewer if sockets or others leave no number below
    `highest_number`. Numbers above that are for files that are open for a moment: a checkpoint, a folder to sync."""

    def __init__(self, limit: int, highest_number: int = _NO_LIMIT) -> None:
        self.limit = limit
        self.highest_number = highest_number
        self._lock = threading.Lock()
        self._ring: dict[Reopened, Descriptor] = {}
        """In the order in which the hand comes to them."""

    def __len__(self) -> int:
        return len(self._ring)

    def open(self, file: Reopened, flags: int) -> Descriptor:
        """Give the file a descriptor, unless another thread has just done so."""
        with self._lock:
            if file.held is None:
                while len(self._ring) >= self.limit:
                    self._close_one()
                file.held = self._ring[file] = Descriptor(self._opened(file.path, flags))
            return file.held

    def _opened(self, path: str, flags: int) -> int:
        while True:
            try:
                number = os.open(path, flags, 0o644)
                if number > self.highest_number and self._ring:
                    self._close_one()
                    number, high = os.dup(number), number  # it moves to the number that has become free
                    os.close(high)
                return number
            except OSError as error:
                # Sockets took what the limit leaves them, and more.
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._ring:
                    raise
                self._close_one()

    def _close_one(self) -> None:
        while True:
            file = next(iter(self._ring))
            descriptor = self._ring.pop(file)
            if not descriptor.was_used:
                file.held = None
                return
            descriptor.was_used = False
            self._ring[file] = descriptor

    def close(self, file: Reopened) -> None:
        """Take the file's descriptor, if it has one."""
        with self._lock:
            self._ring.pop(file, None)
            file.held = None


def most_open_files() -> int:
    """What the system lets this process open (``ulimit -n``): files, sockets and all else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _NO_LIMIT if soft == resource.RLIM_INFINITY else soft


# Half is for files, the other half for sockets and for other users in the process. Sockets keep below seven eighths of
# the numbers (see `network.socket_server`), so a sixteenth is the files' alone.
OPEN_FILES = OpenFiles(max(16, min(_AT_MOST, most_open_files() // 2)), most_open_files() * 15 // 16)
"""Those of this process: the limit is the process's, so nodes that share it share them."""
