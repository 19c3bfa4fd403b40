"""The ``.log`` file of a segment: record batches back to back, and nothing else.

There is no framing around the batches and no end mark: the length in a batch's header says where the next begins. A
crash may leave a last batch that is cut off or torn, which its length or its checksum gives away. Or it takes whole
batches from the end: then only the next segment's base offset shows that some are missing (`log_loader`).

To find something in the file its headers are read, not its records: a scan reads pieces of 16 KB and jumps from header
to header. A caller that wants the records as well reads larger pieces, and reads a batch that a piece cuts off once
more.

Follows org.apache.kafka.common.record.FileRecords.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from pykraft.common.core import FileRegion
from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import CURRENT_MAGIC, HEADER_BYTES, LOG_OVERHEAD, RecordBatch
from pykraft.storage.disk.filesystem import Data, Synced

_OFFSETS_LENGTH_MAGIC = struct.Struct(">qi4xb6xi")
"""Of a header what tells where the next one is: base offset, length, magic and last offset delta."""
_SCAN_BYTES = 16 * 1024
_READ_BYTES = 1024 * 1024


class BatchPosition(NamedTuple):
    """Where a batch begins in its file, and its header. The batch's buffer holds the header alone."""

    position: int
    header: RecordBatch

    @property
    def end(self) -> int:
        return self.position + self.header.size


class FileRecords(Synced):
    """The batches of one file."""

    __slots__ = ()

    @property
    def size(self) -> int:
        return self._file.size

    @property
    def path(self) -> str:
        """The path of the file; set it after the file was renamed."""
        return self._file.path

    @path.setter
    def path(self, path: str) -> None:
        self._file.path = path

    def append(self, data: Data) -> int:
        """Write at the end; where that was."""
        position = self._file.size
        try:
            self._file.append(data)
        finally:
            self._changes += 1
        return position

    def region(self, position: int, length: int) -> FileRegion | bytes:
        """A promise of these bytes: the network sends them from the file itself."""
        return self._file.region(position, length)

    def truncate(self, size: int) -> None:
        """Cut the file; not on the disk yet."""
        try:
            self._file.truncate(size)
        finally:
            self._changes += 1

    def trim(self) -> None:
        """Give back the room that was reserved behind the end."""
        self._file.trim()

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
        for start, batch in self._scan(position):
            yield BatchPosition(start, batch)

    def batches(self, position: int = 0) -> Iterator[tuple[int, RecordBatch]]:
        """(position, batch) from `position` on, with their records: what recovery and compaction read."""
        return self._scan(position, whole=True)

    def _scan(
        self, position: int, offset: int | None = None, *, whole: bool = False
    ) -> Iterator[tuple[int, RecordBatch]]:
        """The batches, each in a buffer of its header, or of the `whole` batch. Of those that end before `offset` no
        more is looked at than what it takes to jump over them."""
        piece_bytes = _READ_BYTES if whole else _SCAN_BYTES
        file = self._file
        piece = memoryview(b"")
        start = position  # of the piece
        while position < file.size:
            here = position - start
            if here + HEADER_BYTES > len(piece):
                start, here, piece = position, 0, memoryview(file.read(position, piece_bytes))
            if len(piece) - here < HEADER_BYTES:
                raise CorruptRecordError(f"{self.path} ends within the header at byte {position}")
            base_offset, length, magic, last_offset_delta = _OFFSETS_LENGTH_MAGIC.unpack_from(piece, here)
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

    def has_batch_up_to(self, offset: int, position: int) -> bool:
        """Whether the header of a batch is at `position`, and none of its offsets is above `offset`."""
        if position + HEADER_BYTES > self._file.size:
            return False
        header = self._file.read(position, HEADER_BYTES)
        base_offset, length, magic, last_offset_delta = _OFFSETS_LENGTH_MAGIC.unpack_from(header)
        is_header = magic == CURRENT_MAGIC and length >= HEADER_BYTES - LOG_OVERHEAD and last_offset_delta >= 0
        return bool(is_header and base_offset + last_offset_delta <= offset)

    def find(self, offset: int, position: int) -> BatchPosition | None:
        """The first batch at or after `position` whose last offset is at least `offset`."""
        for found in self._scan(position, offset):
            return BatchPosition(*found)
        return None
