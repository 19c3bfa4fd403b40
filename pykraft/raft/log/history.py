"""The history of the metadata log: its newest snapshot, then the batches that follow it.

A snapshot replaces all records before its offset, so the log may have deleted those::

    snapshot    [everything before 47)
    the log                   40 .. 46 47 .. 59 60 .. 70
                              start    |                 end
                                       a reader begins here

Every reader of the metadata begins like that: Raft for its voters, the listeners for what is committed, a starting node
for the settings of its topics and for the feature levels. A reader comes back to the newest snapshot if the log has
deleted what it would have read next. A gap between that snapshot and the log's start is damage: its records are lost.

Follows org.apache.kafka.snapshot.RecordsSnapshotReader, org.apache.kafka.raft.internals.RecordsBatchReader, and
maybeLoadSnapshot and maybeLoadLog of org.apache.kafka.raft.internals.KRaftControlRecordStateMachine.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from pykraft.common.core import Steps, finish
from pykraft.common.errors import CorruptRecordError, KafkaError, ProtocolError
from pykraft.common.types import OffsetAndEpoch
from pykraft.protocol.messages.control import (
    ControlRecord,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    decode_control_record,
)
from pykraft.protocol.messages.records import decode_metadata_record
from pykraft.raft.log.listener import CommittedBatch
from pykraft.raft.log.snapshot import BOOTSTRAP_SNAPSHOT, LEFTOVER_SUFFIXES, snapshot_name, snapshot_of
from pykraft.raft.log.voters import NO_VOTERS, STATIC_VOTERS, VoterSet
from pykraft.records.batch import RecordBatch, batches
from pykraft.storage.disk.checkpoint import DamagedFileError
from pykraft.storage.disk.filesystem import FileSystem

BatchDecoder = Callable[[RecordBatch], CommittedBatch]

_HEADER_BYTES = 1 << 20
"""More than the first batch of a snapshot has, with a quorum's voters in it."""


# --- batches ----------------------------------------------------------------------------------------------------------


def committed(batch: RecordBatch) -> CommittedBatch:
    """A batch with its metadata records decoded; one of control records has none."""
    return finish(committed_in_steps(batch))


def committed_in_steps(batch: RecordBatch) -> Steps[CommittedBatch]:
    """The same, with a pause after each record."""
    records = []
    for record in () if batch.is_control else batch.records():
        records.append(decode_metadata_record(record.value or b"")[0])
        yield
    return CommittedBatch(
        batch.base_offset, batch.last_offset, batch.partition_leader_epoch, batch.max_timestamp, records, batch.size
    )


def control_records(batch: RecordBatch) -> list[tuple[int, ControlRecord]]:
    """(offset, record) of each record of a control batch."""
    return [
        (record.offset, decode_control_record(record.key or b"", record.value or b"")[1]) for record in batch.records()
    ]


def check_understood(batch: RecordBatch) -> Steps[None]:
    """CorruptRecordError unless every record of the batch can be read: what is in the log has to be, at each start.
    Pauses after each record."""
    try:
        if batch.is_control:
            control_records(batch)
        else:
            yield from committed_in_steps(batch)
    except ProtocolError as error:
        raise CorruptRecordError(f"{batch} holds what is no record of the metadata log: {error}") from error


# --- snapshots --------------------------------------------------------------------------------------------------------


@contextmanager
def damage_named(path: str) -> Iterator[None]:
    """What cannot be read in here makes the file a damaged one."""
    try:
        yield
    except (KafkaError, ProtocolError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error


class Snapshot(NamedTuple):
    """One file: everything before `id`, in batches whose offsets are places in the file."""

    id: OffsetAndEpoch
    path: str
    batches: Sequence[RecordBatch]

    @property
    def voters(self) -> VoterSet:
        """The voters in it; none, if it is without Raft's own state."""
        voters = [VoterSet.from_record(message) for message in self._controls() if isinstance(message, VotersRecord)]
        return voters[-1] if voters else NO_VOTERS

    @property
    def kraft_version(self) -> int:
        """The level in it: 0 where none is written."""
        levels = [message.kraft_version for message in self._controls() if isinstance(message, KRaftVersionRecord)]
        return levels[-1] if levels else STATIC_VOTERS

    def _controls(self) -> list[ControlRecord]:
        with damage_named(self.path):
            return [message for batch in self.batches if batch.is_control for _, message in control_records(batch)]

    def decoded(self, decode: BatchDecoder = committed) -> list[CommittedBatch]:
        """The metadata in it; DamagedFileError if a record cannot be read."""
        return finish(self.decoded_in_steps(decode))

    def decoded_in_steps(self, decode: BatchDecoder = committed) -> Steps[list[CommittedBatch]]:
        """The same, with a pause between two batches."""
        found: list[CommittedBatch] = []
        for batch in self.batches:
            if not batch.is_control:
                if found:
                    yield
                with damage_named(self.path):
                    found.append(decode(batch))
        return found


def read_snapshot(filesystem: FileSystem, path: str) -> Snapshot | None:
    """What the file holds; None if there is none; DamagedFileError if it is not complete."""
    if not filesystem.exists(path):
        return None
    data = memoryview(filesystem.read(path))
    with damage_named(path):
        found = list(batches(data))
        is_whole = sum(batch.size for batch in found) == len(data) and all(batch.is_valid for batch in found)
        if not is_whole or len(found) < 2 or not _is_footer(found[-1]):
            raise DamagedFileError(
                f"{path} is damaged: it has no footer, ends in a batch, or a batch fails its checksum"
            )
    return Snapshot(snapshot_of(path.rpartition("/")[2]) or BOOTSTRAP_SNAPSHOT, path, found)


def _is_footer(batch: RecordBatch) -> bool:
    return batch.is_control and any(isinstance(message, SnapshotFooterRecord) for _, message in control_records(batch))


def by_reach(snapshot: OffsetAndEpoch) -> tuple[int, int]:
    """The key that sorts snapshots: one of a later epoch reaches further."""
    return snapshot.epoch, snapshot.offset


class SnapshotFolder(NamedTuple):
    """The snapshots in the metadata log's folder."""

    filesystem: FileSystem
    directory: str

    def path(self, snapshot: OffsetAndEpoch) -> str:
        return f"{self.directory}/{snapshot_name(snapshot)}"

    def _names(self) -> list[str]:
        return self.filesystem.list(self.directory) if self.filesystem.exists(self.directory) else []

    def ids(self) -> list[OffsetAndEpoch]:
        """Those that are there, the one that reaches furthest last."""
        return sorted((found for name in self._names() if (found := snapshot_of(name)) is not None), key=by_reach)

    def newest_id(self) -> OffsetAndEpoch | None:
        """The one that reaches furthest."""
        return max(self.ids(), key=by_reach, default=None)

    def check_reaches(self, start_offset: int) -> OffsetAndEpoch | None:
        """The one that reaches furthest; DamagedFileError if that is not as far as the log's start."""
        newest = self.newest_id()
        if (0 if newest is None else newest.offset) < start_offset:
            raise DamagedFileError(
                f"the metadata log in {self.directory} begins at offset {start_offset}, and what was before it is in "
                "no snapshot: there must be one of that offset or a later one; restore it from a copy of the directory"
            )
        return newest

    def size(self, snapshot: OffsetAndEpoch) -> int:
        """In bytes."""
        return self.filesystem.size(self.path(snapshot))

    def read(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """A piece of the file."""
        file = self.filesystem.open(self.path(snapshot))
        try:
            return file.read(position, max_bytes)
        finally:
            file.close()

    def remove_leftovers(self) -> None:
        """Remove what a crash has left of files that were being written, or deleted."""
        for name in self._names():
            if name.endswith(LEFTOVER_SUFFIXES):
                self.filesystem.remove(f"{self.directory}/{name}")

    def timestamp(self, snapshot: OffsetAndEpoch) -> int:
        """When the last record was written that is in it. Only the header is read."""
        header = next(batches(memoryview(self.read(snapshot, 0, _HEADER_BYTES))), None)
        with damage_named(self.path(snapshot)):
            for _, message in control_records(header) if header is not None and header.is_control else ():
                if isinstance(message, SnapshotHeaderRecord):
                    return message.last_contained_log_timestamp
        raise DamagedFileError(f"{self.path(snapshot)} is damaged: it has no header")

    def newest(self, start_offset: int = 0) -> Snapshot | None:
        """The one that reaches furthest. DamagedFileError if it is not complete, or does not reach the log's start."""
        newest = self.check_reaches(start_offset)
        return None if newest is None else read_snapshot(self.filesystem, self.path(newest))


# --- the reader -------------------------------------------------------------------------------------------------------


class MetadataLog(Protocol):
    """The log as its reader needs it: the open one, or files that are not open."""

    @property
    def snapshots(self) -> SnapshotFolder: ...

    @property
    def start_offset(self) -> int: ...

    def batches_between(self, offset: int, end_offset: int) -> Sequence[RecordBatch]:
        """Some of the whole batches from `offset` on that end at or before `end_offset`; none when all were read."""
        ...


class HistoryReader:
    """One reader, and how far it has come."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log
        self.next_offset = -1
        """-1 before everything: a log begins at 0 at the earliest."""

    def read(self, end_offset: int) -> Iterator[Snapshot | Sequence[RecordBatch]]:
        """What is new up to `end_offset`: a snapshot if the log alone does not tell, then batches, some at a time. A
        snapshot is committed, so it is read whatever `end_offset` is. DamagedFileError if a part is missing."""
        start_offset = self._log.start_offset
        if self.next_offset < start_offset:
            snapshot = self._log.snapshots.newest(start_offset)
            self.next_offset = 0 if snapshot is None else snapshot.id.offset
            if snapshot is not None:
                yield snapshot
        while found := self._log.batches_between(self.next_offset, end_offset):
            self.next_offset = found[-1].next_offset
            yield found

    def has_read(self, end_offset: int) -> bool:
        """Whether there is nothing new up to `end_offset`."""
        return self.next_offset >= max(self._log.start_offset, end_offset)

    def truncate_to(self, end_offset: int) -> None:
        """The log was truncated: what comes after `end_offset` now is read again."""
        self.next_offset = min(self.next_offset, end_offset)
