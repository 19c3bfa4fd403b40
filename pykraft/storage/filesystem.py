"""The FileSystem port: all that pykraft asks of a disk, and the disk of the operating system behind it.

This is the only module of the cores that may import `os`. Everything above it sees a `FileSystem`, so the simulator can
put its own in place, one that loses what was not synced, tears the last write and forgets renames.

What a crash may do, and what the port promises:

* the *process* dies (kill -9): everything written stays, since the kernel has it;
* the *power* fails: of a file's bytes only those are sure that were there at its last `sync`; of a folder's entries
  (a new file, a rename, a removal) only those at its last `sync_directory`. A file may come back shorter, or with its
  last bytes torn.

To replace a small file as a whole, write a new one beside it, sync it, rename it over the old one, sync the folder:
`replace_file`. A reader then sees the old or the new content, never a mixture, after any crash.

Follows java.nio.channels.FileChannel as Kafka uses it, and org.apache.kafka.common.utils.Utils.atomicMoveWithFallback.
"""

import errno
import fcntl
import os
from typing import Protocol

from pykraft.common.core import FileRegion

Data = bytes | bytearray | memoryview

# Bytes and length of a file, but not the time of its last change; macOS has only the call for all of it.
_sync_data = getattr(os, "fdatasync", os.fsync)


class File(Protocol):
    """An open file that grows at its end."""

    path: str
    size: int

    def append(self, data: Data) -> None:
        """Write at the end: all of it, or (OSError) nothing that stays."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position` on; fewer at the end of the file."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file down to `size` bytes."""
        ...

    def sync(self) -> None:
        """Return when everything written is on the disk."""
        ...

    def region(self, position: int, length: int) -> FileRegion | bytes:
        """These bytes, to be sent later; they are within the file now."""
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class FileSystem(Protocol):
    """A tree of folders and files. Paths use forward slashes. Missing files raise FileNotFoundError."""

    def open(self, path: str) -> File:
        """Open for reading and appending; the file is made if it does not exist."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def read(self, path: str) -> bytes:
        """The whole file."""
        ...

    def write(self, path: str, data: Data, mode: int = 0o644) -> None:
        """Make or overwrite a file, and sync it (but not its folder)."""
        ...

    def list(self, path: str) -> list[str]:
        """The names in a folder, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a folder, and those above it, unless they exist."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another name; a file of that name is replaced."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return when the entries of this folder are on the disk."""
        ...

    def lock(self, path: str) -> Lock | None:
        """Lock this file against every other process, until the lock is released or this process ends; None if another
        holds it."""
        ...


def parent(path: str) -> str:
    """The folder that holds `path`."""
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    """The last part of `path`."""
    return path.rpartition("/")[2]


def replace_file(filesystem: FileSystem, path: str, data: Data) -> None:
    """Replace the file's content as a whole: whatever crashes, a reader finds the old or the new."""
    temporary = path + ".tmp"
    filesystem.write(temporary, data)
    filesystem.rename(temporary, path)
    filesystem.sync_directory(parent(path))


class OsFileSystem:
    """The disk of this machine."""

    def open(self, path: str) -> "OsFile":
        return OsFile(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write(self, path: str, data: Data, mode: int = 0o644) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            _write_all(descriptor, memoryview(data))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        if not os.path.isdir(path):
            os.unlink(path)
            return
        for name in os.listdir(path):
            self.remove(f"{path}/{name}")
        os.rmdir(path)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> "OsLock | None":
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
            raise
        return OsLock(descriptor)


class OsLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


class OsFile:
    """A file of the operating system. `size` is kept here, so asking for it costs no system call."""

    __slots__ = ("_descriptor", "_truncations", "path", "size")

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self._descriptor).st_size
        self._truncations = 0

    def append(self, data: Data) -> None:
        try:
            _write_all(self._descriptor, data)
        except OSError:
            # A full disk may have taken a part: what was not acknowledged must not stay.
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(data)

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size
        self._truncations += 1

    def sync(self) -> None:
        _sync_data(self.descriptor)

    def region(self, position: int, length: int) -> "OsFileRegion":
        return OsFileRegion(self, position, length)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def descriptor(self) -> int:
        """The open file's number; OSError once it is closed."""
        if self._descriptor < 0:
            raise OSError(errno.EBADF, "the file is closed", self.path)
        return self._descriptor

    @property
    def truncations(self) -> int:
        """How often the file was cut: bytes promised before a cut may be other bytes after it."""
        return self._truncations


class OsFileRegion:
    """A piece of an `OsFile`. If the file is cut before the piece was sent, reading it fails: what stands there now may
    be another leader's records."""

    __slots__ = ("_file", "_length", "_position", "_truncations")

    def __init__(self, file: OsFile, position: int, length: int) -> None:
        self._file = file
        self._position = position
        self._length = length
        self._truncations = file.truncations

    def __len__(self) -> int:
        return self._length

    def read(self, start: int, length: int) -> bytes:
        data = os.pread(self._descriptor(), min(length, self._length - start), self._position + start)
        if not data:
            raise EOFError(f"{self._file.path} ends before byte {self._position + start}")
        return data

    def send_to(self, socket_fileno: int, start: int) -> int:
        sent = os.sendfile(socket_fileno, self._descriptor(), self._position + start, self._length - start)
        if sent == 0:
            raise EOFError(f"{self._file.path} ends before byte {self._position + start}")
        return sent

    def _descriptor(self) -> int:
        if self._truncations != self._file.truncations:
            raise EOFError(f"{self._file.path} was truncated after its bytes were promised")
        return self._file.descriptor


def _write_all(descriptor: int, data: Data) -> None:
    written = os.write(descriptor, data)
    if written < len(data):
        view = memoryview(data)
        while written < len(view):
            written += os.write(descriptor, view[written:])
