"""The ``.log`` file of a segment: record batches back to back, and nothing else.

There is no framing around the batches and no end mark: the length in a batch's header says where the next begins. What
a crash may leave is a last batch that is cut off or torn; its length or its checksum gives it away.

To find something in the file its headers are read, not its records: a scan reads pieces of 16 KB and jumps from header
to header. Who wants the records as well reads larger pieces, each byte once.

Follows org.apache.kafka.common.record.FileRecords.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from pykraft.common.core import FileRegion
from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import CURRENT_MAGIC, HEADER_BYTES, LOG_OVERHEAD, RecordBatch
from pykraft.storage.filesystem import Data, File

_PLACE = struct.Struct(">qi4xb6xi")
"""Of a header: base offset, length, magic and last offset delta."""
_SCAN_BYTES = 16 * 1024
_READ_BYTES = 1024 * 1024


class BatchPosition(NamedTuple):
    """Where a batch begins in its file, and its header. The batch's buffer holds the header alone."""

    position: int
    header: RecordBatch

    @property
    def end(self) -> int:
        return self.position + self.header.size


class FileRecords:
    """The batches of one file."""

    __slots__ = ("_changes", "_file", "_synced_changes")

    def __init__(self, file: File) -> None:
        self._file = file
        self._changes = self._synced_changes = 0

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def path(self) -> str:
        """Where the file is; who gives it another name says so here."""
        return self._file.path

    @path.setter
    def path(self, path: str) -> None:
        self._file.path = path

    def append(self, data: Data) -> int:
        """Write at the end; where that was."""
        position = self._file.size
        self._changes += 1
        self._file.append(data)
        return position

    def region(self, position: int, length: int) -> FileRegion | bytes:
        return self._file.region(position, length)

    def truncate(self, size: int) -> None:
        self._changes += 1
        self._file.truncate(size)

    def trim(self) -> None:
        self._file.trim()

    def distrust(self) -> None:
        """Another process has written the file, and nobody knows how much of it is on the disk."""
        self._changes += 1

    def sync(self) -> None:
        """Return when what was written is on the disk, also if another thread has just begun to sync it."""
        changes = self._changes
        if self._synced_changes != changes:
            self._file.sync()
            self._synced_changes = changes

    def close(self) -> None:
        self._file.close()

    def batch_at(self, position: int) -> RecordBatch:
        """The whole batch that begins at `position`, in a buffer of its own."""
        header = RecordBatch(memoryview(self._file.read(position, HEADER_BYTES)))
        return RecordBatch(memoryview(self._file.read(position, header.size)))

    def headers(self, position: int = 0) -> Iterator[BatchPosition]:
        """The batches from `position` on, which must be where one begins.

        Raises CorruptRecordError where no header can be, or where the file ends within a batch.
        """
        for start, batch in self._scan(position, _SCAN_BYTES):
            yield BatchPosition(start, batch)

    def batches(self, position: int = 0) -> Iterator[tuple[int, RecordBatch]]:
        """(position, batch) from `position` on, with their records: what recovery and compaction read."""
        return self._scan(position, _READ_BYTES)

    def _scan(self, position: int, piece_bytes: int, offset: int | None = None) -> Iterator[tuple[int, RecordBatch]]:
        """The batches, each in a buffer of its header (small pieces) or of all of it (large ones). Of those that end
        before `offset` no more is looked at than what it takes to jump over them."""
        whole = piece_bytes == _READ_BYTES
        file = self._file
        piece = memoryview(b"")
        start = position  # of the piece
        while position < file.size:
            here = position - start
            if here + HEADER_BYTES > len(piece):
                start, here, piece = position, 0, memoryview(file.read(position, piece_bytes))
            if len(piece) - here < HEADER_BYTES:
                raise CorruptRecordError(f"{self.path} ends within the header at byte {position}")
            base_offset, length, magic, last_offset_delta = _PLACE.unpack_from(piece, here)
            if magic != CURRENT_MAGIC:
                raise CorruptRecordError(f"{self.path} has no batch header at byte {position}")
            size = LOG_OVERHEAD + length
            if size < HEADER_BYTES or position + size > file.size:
                raise CorruptRecordError(f"{self.path}: the batch at byte {position} claims {size} bytes")
            if offset is None or base_offset + last_offset_delta >= offset:
                if whole and here + size > len(piece):
                    start, here, piece = position, 0, memoryview(file.read(position, max(size, piece_bytes)))
                yield position, RecordBatch(piece[here : here + (size if whole else HEADER_BYTES)])
            position += size

    def find(self, offset: int, position: int) -> BatchPosition | None:
        """The first batch at or after `position` whose last offset is at least `offset`."""
        return next((BatchPosition(*found) for found in self._scan(position, _SCAN_BYTES, offset)), None)
