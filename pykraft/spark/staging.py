"""Staging: what a task of an exactly-once stream makes of its rows, and leaves for the driver to write.

A task does all the work that can be spread over executors: it chooses each row's partition, encodes the records, and
compresses them into the batches that brokers will keep. It sends nothing. The driver sends the batches of all tasks in
one transaction, under its own producer's numbers (`records.encoded`).

Up to 256 KiB of a task's batches travel in the message that it returns to the driver. More of them go into a file in a
directory that both see, and the message names it. The driver only writes what the messages of successful tasks name: a
task that failed, or was run twice, leaves a file that no message names.

A file, and the bytes in a message, are a row of pieces: length of the topic's name (2 bytes), partition (4 bytes), the
name, and the record batch, which knows its own length. Pieces of a partition are in the order of the rows.

A task holds one open batch for each partition that it writes to, at most ``buffer.memory`` bytes in all: then it closes
all of them. The driver holds one piece at a time.
"""

import os
import shutil
import socket
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from random import Random
from typing import BinaryIO

from pyspark.sql.datasource import WriterCommitMessage

from pykraft.client import config as keys
from pykraft.client.arguments import topic_name
from pykraft.client.partitioner import StickyPartitioner, partition_of_key
from pykraft.client.producer import Outgoing
from pykraft.common.config import Config
from pykraft.common.errors import ConfigError, CorruptRecordError, ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.records.batch import LENGTH_OFFSET, LOG_OVERHEAD
from pykraft.records.builder import RecordBatchBuilder, estimated_size
from pykraft.records.compression import Compression

IN_MESSAGE_BYTES = 256 << 10
_PIECE = struct.Struct(">Hi")
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
    pieces: bytes


class RecordStager:
    """Encodes records into batches, and hands each finished one to `keep`."""

    def __init__(
        self,
        config: Config,
        partitions_of: Callable[[str], Sequence[int]],
        keep: Callable[[TopicPartition, bytes], None],
        random: Random,
    ) -> None:
        """`partitions_of` says a topic's partitions, or raises a KafkaError."""
        self._partitions_of = partitions_of
        self._keep = keep
        self._compression = Compression.named(config[keys.COMPRESSION_TYPE])
        self._batch_bytes: int = config[keys.BATCH_SIZE]
        self._most_open_bytes: int = config[keys.BUFFER_MEMORY]
        self._largest_record: int = config[keys.MAX_REQUEST_SIZE]
        self._partitioner = StickyPartitioner(random, self._batch_bytes)
        self._partitions: dict[str, Sequence[int]] = {}
        self._open: dict[TopicPartition, RecordBatchBuilder] = {}
        self._open_bytes = 0

    def add(self, record: Outgoing) -> None:
        """Encode one record; KafkaError if it can never be sent."""
        size = estimated_size(record.key, record.value, record.headers)
        if size > self._largest_record:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the record has {size} bytes, max.request.size allows {self._largest_record}",
            )
        place = TopicPartition(record.topic, self._partition(record, size))
        builder = self._open.get(place)
        if builder is not None and builder.size + size > self._batch_bytes:
            self._close(place)
            builder = None
        if builder is None:
            builder = self._open[place] = RecordBatchBuilder(compression=self._compression)
        before = builder.size
        builder.append(record.timestamp, record.key, record.value, record.headers)
        self._open_bytes += builder.size - before
        if self._open_bytes > self._most_open_bytes:
            self.close_all()

    def close_all(self) -> None:
        """Finish the batches that are open."""
        for place in list(self._open):
            self._close(place)

    def _close(self, place: TopicPartition) -> None:
        builder = self._open.pop(place)
        self._open_bytes -= builder.size - RecordBatchBuilder().size
        self._keep(place, bytes(builder.build()))

    def _partition(self, record: Outgoing, size: int) -> int:
        partitions = self._partitions.get(record.topic)
        if partitions is None:
            partitions = self._partitions[record.topic] = self._partitions_of(topic_name(record.topic))
        if record.partition is not None:
            if record.partition not in partitions:
                last = partitions[-1]
                raise KafkaError(
                    ErrorCode.INVALID_PARTITIONS,
                    f"a row cannot be written: {record.topic} has partitions 0 to {last}, not {record.partition}",
                )
            return record.partition
        if record.key is not None:
            return partition_of_key(record.key, len(partitions))
        return self._partitioner.partition(record.topic, partitions, size)


class StagedFile:
    """Keeps the pieces of one task: in memory first, and from 256 KiB on in a file."""

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the batch."""
        self._folder = folder
        self._memory = BytesIO()
        self._file: BinaryIO | None = None
        self.path: Path | None = None
        self.size = 0

    def keep(self, place: TopicPartition, batch: bytes) -> None:
        name = place.topic.encode()
        piece = b"".join((_PIECE.pack(len(name), place.partition), name, batch))
        self.size += len(piece)
        if self._file is None and self.size > IN_MESSAGE_BYTES:
            self._spill()
        with disk_errors(self._folder):
            (self._file or self._memory).write(piece)

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
        yield from _pieces(BytesIO(message.pieces), message.size)
        return
    path = Path(message.path)
    try:
        size = path.stat().st_size
        file = path.open("rb")
    except OSError as error:
        raise ConfigError(
            f"the driver on {socket.gethostname()} cannot read {path}, which a task on {message.host} wrote"
            f" ({error.strerror}): stagingDirectory must name a directory that the driver and all executors share"
        ) from None
    with file:
        if size != message.size:
            raise CorruptRecordError(f"{path} has {size} bytes, but a task has written {message.size}")
        yield from _pieces(file, size)


def _pieces(file: BinaryIO, size: int) -> Iterator[tuple[TopicPartition, bytes]]:
    while size:
        name_bytes, partition = _PIECE.unpack(_exactly(file, _PIECE.size))
        name = _exactly(file, name_bytes)
        head = _exactly(file, LOG_OVERHEAD)
        batch = head + _exactly(file, *_LENGTH.unpack_from(head, LENGTH_OFFSET))
        size -= _PIECE.size + len(name) + len(batch)
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
