"""Staging: what a task of an exactly-once stream makes of its rows, and leaves for the driver to write.

A task does all the work that can be spread over executors: it chooses each row's partition, and encodes and compresses
the record batches that brokers will keep (`encode`). It sends nothing. The driver sends the batches of all tasks in
one transaction, under its own producer's numbers (`records.encoded`).

Up to 256 KiB of a task's batches travel in the message that it returns to the driver. More of them go into a file in a
directory that both see, and the message names it. The driver only writes what the messages of successful tasks name: a
task that failed, or was run twice, leaves a file that no message names.

A file, and the bytes in a message, are a row of pieces: checksum (4 bytes), length of the topic's name (2), partition
(4), the name, and the record batch, which knows its own length. Pieces of a partition are in the order of the rows.

The checksum is the CRC-32C of the piece's other bytes and of all pieces before it. The message names the last one, and
the size. So a file that a disk or another program has changed, shortened or exchanged is noticed, at the latest when
its end is read and in any case before a changed piece is used. The driver reads everything once to make its digest
(`exactly_once`), before it sends anything, and checks again while it sends.

A task holds the rows that it encodes, and 256 KiB. The driver holds one piece, and what its producer has room for
(``buffer.memory``).
"""

import os
import shutil
import socket
import struct
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from pyspark.sql.datasource import WriterCommitMessage

from pykraft.common.errors import ConfigError, CorruptRecordError
from pykraft.common.types import TopicPartition
from pykraft.records.batch import LENGTH_OFFSET, LOG_OVERHEAD
from pykraft.records.crc32c import crc32c

IN_MESSAGE_BYTES = 256 << 10
_CHECKSUM = struct.Struct(">I")
_PLACE = struct.Struct(">Hi")
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True)
class StagedBatch(WriterCommitMessage):
    """What one task has staged of one batch of a stream."""

    query_id: str
    run_id: str
    """The start of the query: another one after each restart."""
    batch_id: int
    host: str
    path: str
    """The file; empty if the pieces are in `pieces`."""
    size: int
    checksum: int
    """Of all pieces; 0 if there is none."""
    pieces: bytes


class StagedFile:
    """Keeps the pieces of one task: in memory first, and from 256 KiB on in a file."""

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the batch."""
        self._folder = folder
        self._memory = BytesIO()
        self._file: BinaryIO | None = None
        self.path: Path | None = None
        self.size = 0
        self.checksum = 0

    def keep(self, place: TopicPartition, batch: bytes) -> None:
        name = place.topic.encode()
        piece = b"".join((_PLACE.pack(len(name), place.partition), name, batch))
        self.checksum = crc32c(piece, self.checksum)
        self.size += _CHECKSUM.size + len(piece)
        if self._file is None and self.size > IN_MESSAGE_BYTES:
            self._spill()
        with disk_errors(self._folder):
            (self._file or self._memory).write(_CHECKSUM.pack(self.checksum) + piece)

    def _spill(self) -> None:
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self.path = self._folder / uuid.uuid4().hex
            self._file = self.path.open("xb")
            self._file.write(self._memory.getvalue())
        self._memory = BytesIO()

    def close(self) -> bytes:
        """What goes with the message: all of it, or nothing if there is a file."""
        if self._file is not None:
            with disk_errors(self._folder):
                self._file.close()
        return self._memory.getvalue()

    def discard(self) -> None:
        if self._file is not None and self.path is not None:
            with suppress(OSError):
                self._file.close()
            self.path.unlink(missing_ok=True)


def batch_folder(directory: str, query_id: str, batch_id: int) -> Path:
    """Where the tasks of a batch leave their files."""
    return Path(directory) / query_id / str(batch_id)


def staged(message: StagedBatch) -> Iterator[tuple[TopicPartition, bytes]]:
    """The record batches of a task, in order. ConfigError if its file cannot be seen here."""
    if not message.path:
        yield from _pieces(BytesIO(message.pieces), message)
        return
    path = Path(message.path)
    try:
        file = path.open("rb")
        size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise ConfigError(
            f"the driver on {socket.gethostname()} cannot read {path}, which a task on {message.host} wrote"
            f" ({error.strerror}): stagingDirectory must name a directory that the driver and all executors share"
        ) from None
    with file:
        if size != message.size:
            raise CorruptRecordError(f"{path} has {size} bytes, but a task has written {message.size}")
        yield from _pieces(file, message)


def _pieces(file: BinaryIO, message: StagedBatch) -> Iterator[tuple[TopicPartition, bytes]]:
    left, checksum = message.size, 0
    while left > 0:
        (written,) = _CHECKSUM.unpack(_exactly(file, _CHECKSUM.size))
        place = _exactly(file, _PLACE.size)
        name_bytes, partition = _PLACE.unpack(place)
        name = _exactly(file, name_bytes)
        head = _exactly(file, LOG_OVERHEAD)
        batch = head + _exactly(file, *_LENGTH.unpack_from(head, LENGTH_OFFSET))
        piece = b"".join((place, name, batch))
        checksum = crc32c(piece, checksum)
        left -= _CHECKSUM.size + len(piece)
        if checksum != written or (left <= 0 and checksum != message.checksum):
            raise CorruptRecordError(f"{message.path or 'what a task has staged'} is not what the task has written")
        yield TopicPartition(name.decode(), partition), batch


def _exactly(file: BinaryIO, count: int) -> bytes:
    found = file.read(count) if count >= 0 else b""
    if len(found) != count:
        raise CorruptRecordError("what a task has staged ends in the middle of a record batch")
    return found


def discard(messages: Iterable[StagedBatch]) -> None:
    """Remove the files of these tasks."""
    for message in messages:
        if message.path:
            with suppress(OSError):
                os.unlink(message.path)


def discard_up_to(directory: str, query_id: str, batch_id: int) -> None:
    """Remove all files of this batch and of those before it, also the ones that no message names."""
    with suppress(OSError):
        for folder in (Path(directory) / query_id).iterdir():
            if folder.name.isdigit() and int(folder.name) <= batch_id:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Say in one sentence that the directory cannot be written to."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{folder} on {socket.gethostname()} cannot be written ({error.strerror}): stagingDirectory must name a"
            " directory with room that the driver and all executors share"
        ) from None
