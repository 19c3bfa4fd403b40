"""The ``.txnindex`` of a segment: which transactions were aborted.

One entry of 34 bytes for each ABORT marker in the segment::

    version             int16   0
    producer id         int64
    first offset        int64   of the transaction
    last offset         int64   that of the ABORT marker
    last stable offset  int64   of the partition when the marker was written

A reader of committed data gets, with the records, the aborted transactions that overlap them, and drops their batches
itself. The last stable offset tells where a search may stop: every transaction that begins later is none of ours.

The file is made with the first abort, written entry by entry, and synced with its segment. A crash may leave it
shorter, or with an entry that is torn. There is no checksum: a length that is no multiple of 34 is noticed, and all
else is repaired after an unclean stop, when the file is rebuilt from the log.

Follows org.apache.kafka.storage.internals.log.{TransactionIndex,AbortedTxn} (KIP-98).
"""

import struct
from bisect import bisect_left
from typing import NamedTuple

from pykraft.common.errors import CorruptRecordError
from pykraft.storage.disk.filesystem import File, FileSystem, replace_file

_ENTRY = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """An entry: offsets as above."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of a segment, in the order of their markers."""

    __slots__ = ("_data", "_file", "_filesystem", "path")

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self.path = path
        self._file: File | None = None
        self._data: bytearray | None = None
        """The file's bytes, once they were asked for: a segment may have millions of entries."""
        if filesystem.exists(path):
            self._file = filesystem.open(path)

    @property
    def entries(self) -> list[AbortedTransaction]:
        """All of them; CorruptRecordError if the file does not hold whole ones."""
        return [aborted for _, aborted in decode_transaction_index(bytes(self._bytes()))]

    def _bytes(self) -> bytearray:
        if self._data is None:
            self.check()
            self._data = bytearray() if self._file is None else bytearray(self._file.read(0, self._file.size))
        return self._data

    def check(self) -> None:
        """Raise CorruptRecordError unless the file holds whole entries."""
        if self._file is not None and self._file.size % _ENTRY.size:
            raise CorruptRecordError(f"{self.path} has {self._file.size} bytes: entries have {_ENTRY.size}")

    def append(self, aborted: AbortedTransaction) -> None:
        """Note a transaction whose marker was just appended to the log."""
        data = self._bytes()
        count = len(data) // _ENTRY.size
        assert not count or aborted.last_offset > _entry(data, count - 1).last_offset, f"{self.path}: out of order"
        if self._file is None:
            self._file = self._filesystem.open(self.path)
        packed = _ENTRY.pack(0, *aborted)
        self._file.append(packed)
        data += packed

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The transactions that overlap [fetch_offset, upper_bound_offset), and whether no later segment has more."""
        data, found = self._bytes(), []
        first = _first_ending_at(data, fetch_offset)
        # The last stable offset never goes back: if one before `first` has reached the upper bound, all after it have.
        for number in range(max(0, first - 1), len(data) // _ENTRY.size):
            aborted = _entry(data, number)
            if number >= first and aborted.first_offset < upper_bound_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker is at or above `offset`."""
        data = self._bytes()
        size = _first_ending_at(data, offset) * _ENTRY.size
        if self._file is not None and size < len(data):
            self._file.truncate(size)
            del data[size:]

    def rewrite(self, entries: list[AbortedTransaction]) -> None:
        """Have just these entries, in a file that a crash leaves as it was or as it is now."""
        data = bytearray().join(_ENTRY.pack(0, *aborted) for aborted in entries)
        if entries or self._file is not None:
            self.close()
            replace_file(self._filesystem, self.path, bytes(data))
            self._file = self._filesystem.open(self.path)
        self._data = data

    def let_go(self) -> None:
        """Nothing is appended any more: a lookup reads the file again."""
        self._data = None

    def rename_file(self, suffix: str) -> None:
        """The file's name, if there is one, ends in `suffix` now."""
        self.path += suffix
        if self._file is not None:
            self._file.path = self.path

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _entry(data: bytearray, number: int) -> AbortedTransaction:
    return AbortedTransaction(*_ENTRY.unpack_from(data, number * _ENTRY.size)[1:])


def _first_ending_at(data: bytearray, offset: int) -> int:
    """The number of the first entry whose marker is at or above `offset`; how many there are if none is."""
    numbers = range(len(data) // _ENTRY.size)
    return bisect_left(numbers, offset, key=lambda number: _entry(data, number).last_offset)


def decode_transaction_index(data: bytes) -> list[tuple[int, AbortedTransaction]]:
    """(version, entry) of each whole entry that a file with these bytes holds."""
    whole = data[: len(data) // _ENTRY.size * _ENTRY.size]
    return [(version, AbortedTransaction(*rest)) for version, *rest in _ENTRY.iter_unpack(whole)]
