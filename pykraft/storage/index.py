"""The two sparse indexes of a segment: offset to position, timestamp to offset.

``.index``, 8 bytes an entry::

    relative offset  int32   last offset of a batch, less the segment's base offset
    position         int32   where that batch begins in the .log file

``.timeindex``, 12 bytes an entry::

    timestamp        int64   the largest timestamp so far in the segment
    relative offset  int32   last offset of the batch that has it

An entry is added with the first batch before which more than ``index.interval.bytes`` (4096) went by since the last, so
the two indexes together are less than half a percent of their log. A look-up finds the last entry at or before the
target, in a few steps of binary search, and the log is scanned from there.

The files carry no checksum. They can always be rebuilt from the log, and after an unclean stop recovery does that for
the segments that it reads: that is why entries are gathered in memory and written when the log is flushed, rolled or
closed, not one by one.

An index comes into memory when something is looked up in it, or added. At a start only its first and last entries are
looked at, and of a segment that gets no more the entries are let go: a node has many segments and uses few of them.

Follows org.apache.kafka.storage.internals.log.{AbstractIndex,OffsetIndex,TimeIndex,LazyIndex}. Kafka maps the files
into memory and allocates them in advance; once closed, the files are the same bytes.
"""

import struct
from typing import NamedTuple

from pykraft.common.errors import CorruptRecordError
from pykraft.storage.disk.filesystem import FileSystem, Synced, replace_file

_SMALLEST_ALLOCATED_BYTES = 1024
"""A smaller file that ends in zeros may be a full index of ours after a loss of power; a larger one is taken for
Kafka's."""


class OffsetPosition(NamedTuple):
    """A batch's last offset, and where the batch begins."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """A timestamp, and the last offset of the batch that has it. (-1, base offset) before there is any."""

    timestamp: int
    offset: int


class _Index(Synced):
    """Entries of fixed size in a growing file, mirrored in memory as soon as they are asked for."""

    __slots__ = (
        *("_filesystem", "_max_bytes", "_mirror", "_newest", "_written"),
        *("base_offset", "full_bytes", "path", "size"),
    )

    entry: struct.Struct
    kept_places = 0
    """Room for this many entries is left when the index counts as full."""

    def __init__(self, filesystem: FileSystem, path: str, base_offset: int, max_bytes: int) -> None:
        self._filesystem = filesystem
        self.path = path
        self.base_offset = base_offset
        self._max_bytes = max_bytes - max_bytes % self.entry.size
        self.full_bytes = self._max_bytes - self.kept_places * self.entry.size
        """With a size of this much, or more, it is full."""
        super().__init__(filesystem.open(path))
        self.size = self._written = self._file.size
        """Bytes of all entries."""
        self._mirror: bytearray | None = None if self._written else bytearray()
        self._newest: tuple[int, int] | None = None
        """The last entry, once it was looked up or added."""

    @property
    def _entries(self) -> bytearray:
        mirror = self._mirror
        if mirror is None:
            mirror = self._mirror = bytearray(self._file.read(0, self._written))
        return mirror

    def __len__(self) -> int:
        return self.size // self.entry.size

    @property
    def has_unwritten_entries(self) -> bool:
        return self._written < self.size

    @property
    def is_allocated(self) -> bool:
        """Whether Apache Kafka was writing the file when it died: it makes it as large as it may become, with zeros at
        the end, and truncates it to its entries when the segment is rolled or closed. Ours have their entries alone."""
        size = self.entry.size
        is_whole = self._written == self._max_bytes >= _SMALLEST_ALLOCATED_BYTES
        return is_whole and not any(self._file.read(self._written - size, size))

    def check(self) -> None:
        """Raise CorruptRecordError unless the file can be what its log calls for. Only a rebuild proves that it is."""
        if self.size % self.entry.size:
            raise CorruptRecordError(f"{self.path} has {self.size} bytes: entries have {self.entry.size}")

    def write(self) -> None:
        """Hand the entries gathered since to the operating system."""
        if self.has_unwritten_entries:
            try:
                self._file.append(bytes(self._entries[self._written :]))
            finally:
                self._changes += 1
            self._written = self.size

    def rename_file(self, suffix: str) -> None:
        """The file's name ends in `suffix` now."""
        self.path = self._file.path = self.path + suffix

    def let_go(self) -> None:
        """Keep no entry in memory that is in the file."""
        if self._written == self.size:
            self._mirror = None

    def close(self) -> None:
        """Close the file. Entries that were not written are lost."""
        self._file.close()

    def reset(self) -> None:
        """Forget all entries; the file has them still, until it is rewritten."""
        self._mirror = bytearray()
        self._newest = None
        self.size = 0

    def rewrite(self) -> None:
        """Put all entries into the file. If it begins with them, the others are added: what a crash leaves of those is
        an index with fewer entries, or one that `check` refuses, until `sync` returns. Else the file is replaced as a
        whole: a crash leaves it as it was or as it is now."""
        self._written = self._file.size
        self.distrust()
        if self._file.read(0, self._written) == self._entries[: self._written]:
            self.write()
            return
        self._file.close()
        replace_file(self._filesystem, self.path, self._entries)
        self._file = self._filesystem.open(self.path)
        self._written = self.size

    def _cut(self, count: int) -> None:
        self.size = count * self.entry.size
        self._newest = None
        del self._entries[self.size :]
        if self.size < self._written:
            try:
                self._file.truncate(self.size)
            finally:
                self._changes += 1
            self._written = self.size

    def _look_up_newest(self) -> tuple[int, int]:
        """The last entry; (-1, 0), which is below all others, if there is none."""
        self._newest = self._at(len(self) - 1) if self.size else (-1, 0)
        return self._newest

    def _add(self, first: int, second: int) -> None:
        """Put one entry behind the others."""
        self._entries.extend(self.entry.pack(first, second))
        self._newest = (first, second)
        self.size += self.entry.size

    def _at(self, number: int) -> tuple[int, int]:
        """One entry. If they are not in memory, that is no reason to read all."""
        at = number * self.entry.size
        if self._mirror is None:
            first, second = self.entry.unpack(self._file.read(at, self.entry.size))
        else:
            first, second = self.entry.unpack_from(self._mirror, at)
        return first, second

    def _count_up_to(self, target: int, column: int) -> int:
        """How many entries have a value of at most `target` in this column: a binary search."""
        entries, unpack_from, size = self._entries, self.entry.unpack_from, self.entry.size
        low, high = 0, len(entries) // size
        while low < high:
            middle = (low + high) // 2
            if unpack_from(entries, middle * size)[column] <= target:
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
        count = len(self)
        return self.base_offset + self._at(count - 1)[0] if count else self.base_offset

    def append(self, offset: int, position: int) -> None:
        """Note where the batch with this last offset begins; it comes after all that were noted before."""
        relative = offset - self.base_offset
        last, _ = self._newest or self._look_up_newest()
        assert self.size < self.full_bytes, f"{self.path} is full: the segment should have been rolled"
        assert relative > last, f"{self.path}: {offset} is not above {self.last_offset}"
        self._add(relative, position)

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
        self.check_as_kafka()
        # The first batch has no entry, so no position is 0: zeros are what a crash left of a file that had grown.
        if len(self) and self[len(self) - 1].position <= 0:
            raise CorruptRecordError(f"{self.path} ends with an entry that no batch can have")

    def check_as_kafka(self) -> None:
        """Kafka lets zeros at the end pass: a node of it that runs has them in its active segment's index."""
        super().check()
        if len(self) and self.last_offset < self.base_offset:
            raise CorruptRecordError(f"{self.path} ends with an entry that no batch can have")


class TimeIndex(_Index):
    """From which offset on records of a timestamp are to be looked for."""

    __slots__ = ()

    entry = struct.Struct(">qi")
    kept_places = 1
    """For the entry that is made when the segment is closed."""

    def __getitem__(self, number: int) -> TimestampOffset:
        timestamp, relative = self._at(number)
        return TimestampOffset(timestamp, self.base_offset + relative)

    @property
    def last(self) -> TimestampOffset:
        timestamp, relative = self._newest or self._look_up_newest()
        return TimestampOffset(timestamp, self.base_offset + relative)

    def maybe_append(self, timestamp: int, offset: int, closing: bool = False) -> None:
        """Add an entry if the timestamp rose. A segment that is `closing` takes the place that was kept."""
        relative = offset - self.base_offset
        newest, last = self._newest or self._look_up_newest()
        assert relative >= last, f"{self.path}: {offset} is below {self.last.offset}"
        if timestamp > newest:
            assert closing or self.size < self.full_bytes, f"{self.path} is full: the segment should have been rolled"
            self._add(timestamp, relative)

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
