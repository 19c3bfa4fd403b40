"""The two sparse indexes of a segment: offset to position, timestamp to offset.

``.index``, 8 bytes an entry::

    relative offset  int32   last offset of a batch, less the segment's base offset
    position         int32   where that batch begins in the .log file

``.timeindex``, 12 bytes an entry::

    timestamp        int64   the largest timestamp so far in the segment
    relative offset  int32   last offset of the batch that has it

An entry is added about every ``index.interval.bytes`` of log, so an index is a thousandth of its log. A look-up finds
the last entry at or before the target, in a few steps of binary search, and the log is scanned from there.

The files carry no checksum. They can always be made anew from the log, and after an unclean stop they are: that is why
entries are gathered in memory and written when the log is flushed, rolled or closed, not one by one.

Follows org.apache.kafka.storage.internals.log.{AbstractIndex,OffsetIndex,TimeIndex}. Kafka maps the files into memory
and allocates them in advance; once closed, the files are the same bytes.
"""

import struct
from typing import NamedTuple

from pykraft.common.errors import CorruptRecordError
from pykraft.storage.filesystem import FileSystem, replace_file


class OffsetPosition(NamedTuple):
    """A batch's last offset, and where the batch begins."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """A timestamp, and the last offset of the batch that has it. (-1, base offset) before there is any."""

    timestamp: int
    offset: int


class _Index:
    """Entries of fixed size in a growing file, mirrored in memory."""

    __slots__ = ("_entries", "_file", "_filesystem", "_max_bytes", "_written", "base_offset", "path")

    entry: struct.Struct

    def __init__(self, filesystem: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        self._filesystem = filesystem
        self.path = path
        self.base_offset = base_offset
        self._max_bytes = max_bytes - max_bytes % self.entry.size
        self._file = filesystem.open(path)
        self._entries = bytearray(self._file.read(0, self._file.size))
        self._written = len(self._entries)

    def __len__(self) -> int:
        return len(self._entries) // self.entry.size

    @property
    def is_full(self) -> bool:
        return len(self._entries) >= self._max_bytes

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return len(self._entries)

    def check(self) -> None:
        """Raise CorruptRecordError unless the file can be what its log calls for. Only a rebuild proves that it is."""
        if len(self._entries) % self.entry.size:
            raise CorruptRecordError(f"{self.path} has {len(self._entries)} bytes: entries have {self.entry.size}")

    def write(self) -> None:
        """Hand the entries gathered since to the operating system."""
        if self._written < len(self._entries):
            self._file.append(bytes(self._entries[self._written :]))
            self._written = len(self._entries)

    def sync(self) -> None:
        """Return when what was written is on the disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file. Entries that were not written are lost."""
        self._file.close()

    def reset(self) -> None:
        """Forget all entries; the file has them still, until it is rewritten."""
        self._entries.clear()

    def rewrite(self) -> None:
        """Put all entries into the file, which a crash leaves as it was or as it is now."""
        self._file.close()
        replace_file(self._filesystem, self.path, self._entries)
        self._file = self._filesystem.open(self.path)
        self._written = len(self._entries)

    def _cut(self, count: int) -> None:
        del self._entries[count * self.entry.size :]
        if len(self._entries) < self._written:
            self._file.truncate(len(self._entries))
            self._written = len(self._entries)

    def _at(self, number: int) -> tuple[int, int]:
        first, second = self.entry.unpack_from(self._entries, number * self.entry.size)
        return first, second

    def _count_up_to(self, target: int, column: int) -> int:
        """How many entries have a value of at most `target` in this column: a binary search."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._at(middle)[column] <= target:
                low = middle + 1
            else:
                high = middle
        return low


class OffsetIndex(_Index):
    """Where in the .log file an offset is to be looked for."""

    __slots__ = ()

    entry = struct.Struct(">ii")

    def __getitem__(self, number: int) -> OffsetPosition:
        relative, position = self._at(number)
        return OffsetPosition(self.base_offset + relative, position)

    @property
    def last_offset(self) -> int:
        return self[len(self) - 1].offset if len(self) else self.base_offset

    def append(self, offset: int, position: int) -> None:
        assert not self.is_full, f"{self.path} is full: the segment should have been rolled"
        assert not self._entries or offset > self.last_offset, f"{self.path}: {offset} is not above {self.last_offset}"
        self._entries += self.entry.pack(offset - self.base_offset, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or below `offset`; (base offset, 0) if there is none."""
        count = self._count_up_to(offset - self.base_offset, column=0)
        return self[count - 1] if count else OffsetPosition(self.base_offset, 0)

    def first_offset_from(self, position: int) -> int | None:
        """The offset of the first entry at or after `position` in the .log file."""
        count = self._count_up_to(position - 1, column=1)
        return self[count].offset if count < len(self) else None

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._cut(self._count_up_to(offset - self.base_offset - 1, column=0))

    def check(self) -> None:
        super().check()
        # The first batch has no entry, so no position is 0: zeros are what a crash left of a file that had grown.
        if len(self) and (self.last_offset < self.base_offset or self[len(self) - 1].position <= 0):
            raise CorruptRecordError(f"{self.path} ends with an entry that no batch can have")


class TimeIndex(_Index):
    """From which offset on records of a timestamp are to be looked for."""

    __slots__ = ()

    entry = struct.Struct(">qi")

    def __getitem__(self, number: int) -> TimestampOffset:
        timestamp, relative = self._at(number)
        return TimestampOffset(timestamp, self.base_offset + relative)

    @property
    def last(self) -> TimestampOffset:
        return self[len(self) - 1] if len(self) else TimestampOffset(-1, self.base_offset)

    def maybe_append(self, timestamp: int, offset: int, closing: bool = False) -> None:
        """Add an entry if the timestamp rose. A segment that is `closing` may go over the limit by this one entry."""
        assert closing or not self.is_full, f"{self.path} is full: the segment should have been rolled"
        last = self.last
        assert not self._entries or offset >= last.offset, f"{self.path}: {offset} is below {last.offset}"
        if timestamp > last.timestamp:
            self._entries += self.entry.pack(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or before `timestamp`; (-1, base offset) if there is none."""
        count = self._count_up_to(timestamp, column=0)
        return self[count - 1] if count else TimestampOffset(-1, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._cut(self._count_up_to(offset - self.base_offset - 1, column=1))

    def check(self) -> None:
        super().check()
        rises = len(self) < 2 or self.last.timestamp > self[0].timestamp
        if not rises or self.last.offset < self.base_offset:
            raise CorruptRecordError(f"{self.path} ends before it begins")
