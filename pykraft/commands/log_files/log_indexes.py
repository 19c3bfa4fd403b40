"""Printing the ``.index`` and the ``.timeindex`` of a segment, and comparing them with its ``.log``.

An offset index is right if at each position begins a batch with that last offset; a time index if the batch that ends
at each offset has that largest timestamp, and if the timestamps rise. What is wrong is collected and printed last.

A node does less when it starts: it only checks whether an index is plausible (`storage.index`), and rebuilds it if not.
`--index-sanity-check` makes that check, as Kafka does.

Follows kafka.tools.DumpLogSegments.{dumpIndex,dumpTimeIndex,TimeIndexDumpErrors}.
"""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import PurePath

from pykraft.commands.common import say
from pykraft.commands.log_files.log_batches import batches_from, offset_in_name
from pykraft.commands.log_files.read_only import ReadOnlyFile, ReadOnlyFileSystem, open_file
from pykraft.common.errors import CorruptRecordError
from pykraft.records.record import NO_TIMESTAMP
from pykraft.storage.index import OffsetIndex, TimeIndex, TimestampOffset
from pykraft.storage.segment_files import INDEX_SUFFIX, LOG_SUFFIX

_ANY_SIZE = sys.maxsize


class IndexDump:
    """Prints indexes, and remembers what is wrong with them."""

    def __init__(self, only_sanity: bool, only_verify: bool, max_message_size: int) -> None:
        self._only_sanity = only_sanity
        self._only_verify = only_verify
        self._max_message_size = max_message_size
        self._wrong_offsets: dict[str, list[tuple[int, int]]] = {}
        self._wrong_timestamps: dict[str, list[tuple[int, int]]] = {}
        self._falling_timestamps: dict[str, list[tuple[int, int]]] = {}
        self._missing_offsets: dict[str, list[tuple[int, int]]] = {}

    def dump_offset_index(self, path: str) -> None:
        """Print one ``.index``. CorruptRecordError if it points at what is no batch, or fails the sanity check."""
        with (
            open_file(_beside(path, LOG_SUFFIX)) as log,
            closing(OffsetIndex(ReadOnlyFileSystem(), path, offset_in_name(PurePath(path)), _ANY_SIZE)) as index,
        ):
            if not len(index):
                say(f"{path} is empty.")
                return
            if self._only_sanity:
                index.check_as_kafka()
                say(f"{path} passed sanity check.")
                return
            for number in range(len(index)):
                entry = index[number]
                if number and entry.offset == index.base_offset:  # the zeros of a file that grows in advance
                    return
                last_offset = self._last_offset_at(log, entry.position)
                if last_offset != entry.offset:
                    self._wrong_offsets.setdefault(path, []).append((entry.offset, last_offset))
                if not self._only_verify:
                    say(f"offset: {entry.offset} position: {entry.position}")

    def _last_offset_at(self, log: ReadOnlyFile, position: int) -> int:
        end = min(log.size, position + self._max_message_size)
        found = next(batches_from(log, position, end), None)
        if found is None:
            raise CorruptRecordError(f"it points at byte {position} of {log.path}, where no batch begins")
        return found[1].last_offset

    def dump_time_index(self, path: str) -> None:
        """Print one ``.timeindex``. CorruptRecordError if it fails the sanity check."""
        base_offset = offset_in_name(PurePath(path))
        files = ReadOnlyFileSystem()
        with (
            open_file(_beside(path, LOG_SUFFIX)) as log,
            closing(OffsetIndex(files, _beside(path, INDEX_SUFFIX), base_offset, _ANY_SIZE)) as offsets,
            closing(TimeIndex(files, path, base_offset, _ANY_SIZE)) as index,
        ):
            if self._only_sanity:
                index.check()
                say(f"{path} passed sanity check.")
                return
            previous = NO_TIMESTAMP
            for number in range(len(index)):
                entry = index[number]
                if number and entry.offset == base_offset:
                    return
                self._compare(path, log, offsets, entry, previous)
                if not self._only_verify:
                    say(f"timestamp: {entry.timestamp} offset: {entry.offset}")
                previous = entry.timestamp

    def _compare(
        self, path: str, log: ReadOnlyFile, offsets: OffsetIndex, entry: TimestampOffset, previous: int
    ) -> None:
        position = offsets.lookup(entry.offset).position
        behind = (batch for _, batch in batches_from(log, position, log.size) if batch.last_offset >= entry.offset)
        batch = next(behind, None)
        if batch is None or batch.last_offset != entry.offset:
            last_offset = -1 if batch is None else batch.last_offset
            self._missing_offsets.setdefault(path, []).append((entry.offset, last_offset))
            return
        largest = max((record.timestamp for record in batch.records()), default=NO_TIMESTAMP)
        if largest != entry.timestamp:
            self._wrong_timestamps.setdefault(path, []).append((entry.timestamp, largest))
        if previous >= entry.timestamp:
            self._falling_timestamps.setdefault(path, []).append((entry.timestamp, previous))

    def complaints(self) -> Iterator[str]:
        """What was found wrong."""
        for path, pairs in self._wrong_offsets.items():
            yield f"Mismatches in :{path}"
            yield from (f"  Index offset: {said}, log offset: {found}" for said, found in reversed(pairs))
        for path, pairs in self._wrong_timestamps.items():
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {said}, log timestamp: {found}" for said, found in pairs)
        for path, pairs in self._falling_timestamps.items():
            yield f"Found out of order timestamp in :{path}"
            yield from (f"  Index timestamp: {said}, Previously indexed timestamp: {last}" for said, last in pairs)
        for pairs in self._missing_offsets.values():
            yield "The following indexed offsets are not found in the log."
            yield from (f"Indexed offset: {said}, found log offset: {found}" for said, found in pairs)


def _beside(path: str, suffix: str) -> str:
    """Another file of the same segment."""
    return str(PurePath(path).with_suffix(suffix))
