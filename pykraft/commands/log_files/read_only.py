"""Files that are only looked at: the FileSystem port's files grow and are made when they are missing, these do not.

A tool that reads the log of a running node must not make, lock or change anything, not even by mistake.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from pykraft.storage.disk.filesystem import Data, OsFileSystem


class ReadOnlyFile:
    """A `storage.disk.filesystem.File` without the half that writes. Its size is that of the moment when it was
    opened."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._descriptor).st_size

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""
        return os.pread(self._descriptor, max(0, min(length, self.size - position)), position)

    def append(self, data: Data) -> NoReturn:
        raise PermissionError(f"{self.path} is open for reading")

    def truncate(self, size: int) -> NoReturn:
        raise PermissionError(f"{self.path} is open for reading")

    def trim(self) -> None:
        """Nothing was reserved."""

    def sync(self) -> None:
        """Nothing was written."""

    def region(self, position: int, length: int) -> bytes:
        return self.read(position, length)

    def close(self) -> None:
        os.close(self._descriptor)


class ReadOnlyFileSystem(OsFileSystem):
    """The disk of this machine, where opening makes no files."""

    def open(self, path: str) -> ReadOnlyFile:  # type: ignore[override]
        return ReadOnlyFile(path)


@contextmanager
def open_file(path: str) -> Iterator[ReadOnlyFile]:
    """A file, closed afterwards. OSError if it cannot be opened."""
    file = ReadOnlyFile(path)
    try:
        yield file
    finally:
        file.close()
