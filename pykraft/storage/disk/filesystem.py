"""The FileSystem port: all that pykraft asks of a disk, and the disk of the operating system behind it.

This and `open_files` are the only modules of the cores that may import `os`. Everything above sees a `FileSystem`, so
the simulator can put its own in place, one that loses what was not synced, tears the last write and forgets renames.

What a crash may do, and what the port promises:

* the *process* dies (kill -9): everything written stays, since the kernel has it;
* the *power* fails: of a file's bytes only those are sure that were there at its last `sync`; of a folder's entries
  (a new file, a rename, a removal) only those at its last `sync_directory`. A file may come back shorter, or with its
  last bytes torn.

To replace a small file as a whole, write a new one beside it, sync it, rename it over the old one, sync the folder:
`replace_file`. A reader then sees the old or the new content, never a mixture, after any crash. Where very many files
are to be replaced, all are written first (`write_beside`), the disk is synced once for all, and then all are renamed.

Follows java.nio.channels.FileChannel as Kafka uses it, and org.apache.kafka.common.utils.Utils.atomicMoveWithFallback.
"""

import ctypes
import errno
import fcntl
import os
import stat
import struct
from typing import NamedTuple, Protocol

from pykraft.common.core import FileRegion
from pykraft.storage.disk.open_files import OPEN_FILES, Descriptor

Data = bytes | bytearray | memoryview

TEMPORARY_SUFFIX = ".tmp"
"""Of a file that is to take the place of another."""
_LEAST_RESERVED_BYTES = 1 << 20
"""Nothing is reserved for a file that is smaller: there are too many of those."""
_MOST_AHEAD_BYTES = 4 << 20
_BLOCK_BYTES = 512
"""The unit in which the system tells how much room a file takes."""
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC

# Bytes and length of a file, but not the time of its last change; macOS has only the call for all of it.
_sync_data = getattr(os, "fdatasync", os.fsync)
# Two calls of Linux for which Python has no name. One syncs a volume and, unlike sync(2), tells of what could not be
# written. The other finds room on it for a piece of a file, which need not be within the file yet.
_SYSTEM = ctypes.CDLL(None, use_errno=True)
_syncfs = getattr(_SYSTEM, "syncfs", None)
_fallocate = getattr(_SYSTEM, "fallocate64", None)
_KEEP_SIZE = 1


class File(Protocol):
    """An open file that grows at its end."""

    path: str
    """The path of the file; set it after the file was renamed, for it may have to be opened again."""
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

    def trim(self) -> None:
        """Nothing is appended for a while: give back the room that was reserved for it."""
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


class LockedError(Exception):
    """The lock is taken; the message names the owner: "process 4711", "this process" or "another process"."""


class Space(NamedTuple):
    """The size of a volume, and what of it may still be written."""

    total_bytes: int
    usable_bytes: int


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

    def sync_everything(self, path: str) -> None:
        """Return when all that any process has written below this folder is on the disk."""
        ...

    def lock(self, path: str) -> Lock:
        """Lock this file against other processes and other callers, until the lock is released or this process ends.
        LockedError if it is locked, also by this process."""
        ...

    def space(self, path: str) -> Space:
        """The space of the volume that holds `path`."""
        ...

    def absolute(self, path: str) -> str:
        """The whole path."""
        ...


def is_gone(error: OSError) -> bool:
    """Whether the error only says that the file was closed, renamed or removed meanwhile."""
    return error.errno in (errno.EBADF, errno.ENOENT)


class Synced:
    """What has a file, and syncs it only if it was changed since: by another thread, too, beside the one that changes
    it. A change counts once it is done. One that is being made while the file is synced may not be on the disk."""

    __slots__ = ("_changes", "_file", "_synced_changes")

    def __init__(self, file: File) -> None:
        self._file = file
        self._changes = self._synced_changes = 0

    def distrust(self) -> None:
        """Another process has written the file, and we do not know how much of it is on the disk."""
        self._changes += 1

    def sync(self) -> None:
        """Return when what was written is on the disk, also if another thread has just begun to sync it."""
        changes = self._changes
        if self._synced_changes != changes:
            self._file.sync()
            self._synced_changes = changes


def parent(path: str) -> str:
    """The folder that holds `path`."""
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    """The last part of `path`."""
    return path.rpartition("/")[2]


def replace_file(filesystem: FileSystem, path: str, data: Data, sync_directory: bool = True) -> None:
    """Replace the file's content as a whole: whatever crashes, a reader finds the old or the new. Without
    `sync_directory` it may be the old one until the folder is synced."""
    filesystem.write(path + TEMPORARY_SUFFIX, data)
    put_in_place(filesystem, path)
    if sync_directory:
        filesystem.sync_directory(parent(path))


def write_beside(filesystem: FileSystem, path: str, data: Data) -> None:
    """The first half of `replace_file`, without the sync."""
    temporary = path + TEMPORARY_SUFFIX
    if filesystem.exists(temporary):
        filesystem.remove(temporary)
    file = filesystem.open(temporary)
    file.append(data)
    file.close()


def put_in_place(filesystem: FileSystem, path: str) -> None:
    """The second half, when what `write_beside` wrote is on the disk. The folder is not synced."""
    filesystem.rename(path + TEMPORARY_SUFFIX, path)


def read_if_there(filesystem: FileSystem, path: str) -> bytes | None:
    """The whole file; None if there is none. The system is asked once: a start reads very many small files."""
    try:
        return filesystem.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


class OsFileSystem:
    """The disk of this machine."""

    def open(self, path: str) -> "OsFile":
        return OsFile(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def read(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            data = os.read(descriptor, size)
            while len(data) < size and (more := os.read(descriptor, size - len(data))):
                data += more
            return data
        except OSError as error:
            raise _of(path, error) from None
        finally:
            os.close(descriptor)

    def write(self, path: str, data: Data, mode: int = 0o644) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            _write_all(descriptor, memoryview(data))
            self._sync(descriptor)
        except OSError as error:
            raise _of(path, error) from None
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
            self._sync(descriptor)
        except OSError as error:
            raise _of(path, error) from None
        finally:
            os.close(descriptor)

    def _sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def sync_everything(self, path: str) -> None:
        if _syncfs is None:
            for folder, _, names in os.walk(path):
                for each in (folder, *(f"{folder}/{name}" for name in names)):
                    self.sync_directory(each)
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _syncfs(descriptor):
                raise _of(path, OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> "OsLock":
        return OsLock(path)

    def space(self, path: str) -> Space:
        found = os.statvfs(path)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)


class OsLock:
    """A record lock over the whole file, as Java's FileChannel.tryLock takes it: each keeps the other out.

    The system gives such a lock to a process, not to an open file, with two consequences. It does not keep the same
    process from locking twice; that is what `_locked` is for. And it is lost as soon as the process closes *any* open
    file of this name: nothing else in the process may open a lock file, not even to see whether it is locked.
    """

    _locked: "dict[tuple[int, int, str], OsLock]" = {}  # noqa: RUF012 (of the whole process, on purpose)

    def __init__(self, path: str) -> None:
        folder = os.stat(parent(path))
        self._key = (folder.st_dev, folder.st_ino, name_of(path))
        if self._locked.setdefault(self._key, self) is not self:
            raise LockedError("this process")
        try:
            self._descriptor = _locked_file(path)
        except BaseException:
            del self._locked[self._key]
            raise

    def release(self) -> None:
        if self._locked.get(self._key) is self:
            os.close(self._descriptor)
            del self._locked[self._key]


def _locked_file(path: str) -> int:
    """The file's descriptor, once it is locked; LockedError if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _holder(descriptor)
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise LockedError(holder) from None
        raise
    return descriptor


def _holder(descriptor: int) -> str:
    """Which process has the lock, where the system says so in a way that is known here."""
    if os.uname().sysname != "Linux":
        return "another process"
    layout = "hhqqi"  # struct flock: type, whence, start, length, process
    asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, process = struct.unpack(layout, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return f"process {process}" if kind != fcntl.F_UNLCK and process > 0 else "another process"


class OsFile:
    """A file of the operating system. `size` is kept here, so asking for it costs no system call.

    A file that grows beyond a megabyte has room reserved for it, as RocksDB and Redpanda do for their logs: to find
    room page by page takes a fifth of the time of a write. The size stays what was written, and a crash leaves no more
    than blocks behind the end of the file, which the next `trim` gives back.

    Its descriptor is opened when it is needed, and may be taken back whenever it is not in use (`open_files`).
    """

    __slots__ = ("_is_closed", "_reserved", "held", "path", "size", "truncations")

    def __init__(self, path: str) -> None:
        self.path = path
        self.held: Descriptor | None = None
        self.truncations = 0
        """How often the file was truncated: bytes promised before that may be other bytes after it."""
        self._is_closed = False
        try:
            status = os.stat(path)
        except FileNotFoundError:
            self.size = self._reserved = 0
            OPEN_FILES.open(self, _FLAGS | os.O_CREAT)
            return
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        self.size = status.st_size
        self._reserved = status.st_blocks * _BLOCK_BYTES

    def append(self, data: Data) -> None:
        descriptor = self.descriptor
        end = self.size + len(data)
        if end > self._reserved:
            self._reserve(descriptor.number, end)
        try:
            written = os.write(descriptor.number, data)
            if written < len(data):
                _write_all(descriptor.number, memoryview(data)[written:])
        except OSError as error:
            # A full disk may have taken a part: what was not acknowledged must not stay.
            os.ftruncate(descriptor.number, self.size)
            self._reserved = self.size
            raise _of(self.path, error) from None
        self.size = end

    def _reserve(self, number: int, end: int) -> None:
        """Have room for what is to be written up to `end`, and for as much again, 4 MB at most. Where this cannot be
        done, it is not missed: a write finds its room itself, or says that there is none."""
        if end < _LEAST_RESERVED_BYTES:
            self._reserved = _LEAST_RESERVED_BYTES
            return
        self._reserved = end + min(end, _MOST_AHEAD_BYTES)
        reserve(number, self.size, self._reserved - self.size)

    def read(self, position: int, length: int) -> bytes:
        descriptor = self.descriptor
        try:
            return os.pread(descriptor.number, length, position)
        except OSError as error:
            raise _of(self.path, error) from None

    def truncate(self, size: int) -> None:
        descriptor = self.descriptor
        try:
            os.ftruncate(descriptor.number, size)
        except OSError as error:
            raise _of(self.path, error) from None
        self.size = self._reserved = size
        self.truncations += 1

    def trim(self) -> None:
        if _LEAST_RESERVED_BYTES <= self.size < self._reserved:
            descriptor = self.descriptor
            try:
                os.ftruncate(descriptor.number, self.size)
            except OSError as error:
                raise _of(self.path, error) from None
            self._reserved = self.size

    def sync(self) -> None:
        descriptor = self.descriptor
        try:
            _sync_data(descriptor.number)
        except OSError as error:
            raise _of(self.path, error) from None

    def region(self, position: int, length: int) -> "OsFileRegion":
        return OsFileRegion(self, position, length)

    def close(self) -> None:
        self._is_closed = True
        OPEN_FILES.close(self)

    @property
    def descriptor(self) -> Descriptor:
        """The open file; OSError once it is closed. Hold on to the descriptor while you use its number."""
        descriptor = self.held
        if descriptor is not None:
            descriptor.was_used = True
            return descriptor
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed", self.path)
        return OPEN_FILES.open(self, _FLAGS)


class OsFileRegion:
    """A piece of an `OsFile`. If the file is truncated before the piece was sent, reading it fails: the bytes there now
    may be another leader's records."""

    __slots__ = ("_file", "_length", "_position", "_truncations")

    def __init__(self, file: OsFile, position: int, length: int) -> None:
        self._file = file
        self._position = position
        self._length = length
        self._truncations = file.truncations

    def __len__(self) -> int:
        return self._length

    def read(self, start: int, length: int) -> bytes:
        descriptor = self._descriptor()
        data = os.pread(descriptor.number, min(length, self._length - start), self._position + start)
        if not data:
            raise EOFError(f"{self._file.path} ends before byte {self._position + start}")
        self._check()
        return data

    def send_to(self, socket_fileno: int, start: int) -> int:
        descriptor = self._descriptor()
        sent = os.sendfile(socket_fileno, descriptor.number, self._position + start, self._length - start)
        if sent == 0:
            raise EOFError(f"{self._file.path} ends before byte {self._position + start}")
        self._check()
        return sent

    def _descriptor(self) -> Descriptor:
        self._check()
        return self._file.descriptor

    def _check(self) -> None:
        """Before the bytes are read, and after, since another thread may own the log (`runtime.staged`)."""
        if self._truncations != self._file.truncations:
            raise EOFError(f"{self._file.path} was truncated after its bytes were promised")


def reserve(descriptor: int, start: int, length: int) -> None:
    """Have room found on the volume for a piece of the file, also behind its end, which stays where it is."""
    if _fallocate is not None:
        _fallocate(descriptor, _KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(length))


def _of(path: str, error: OSError) -> OSError:
    """The error with the file's name, which the system does not know of an open file."""
    return OSError(error.errno, error.strerror, path)


def _write_all(descriptor: int, data: memoryview) -> None:
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
