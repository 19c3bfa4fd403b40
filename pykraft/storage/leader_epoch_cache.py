"""Which leader epoch began at which offset: ``leader-epoch-checkpoint`` (its lines are shown in `checkpoint`).

Each batch carries the epoch of the leader that appended it. The cache keeps, for every epoch in the log, the offset at
which it began. That answers the question on which truncation depends: where does the log of epoch e end? Two replicas
that agree on the answer agree on everything before it (log matching), so a follower truncates its log there and nowhere
else. Truncating to the high watermark instead loses acknowledged records or lets replicas diverge: the histories are in
KIP-101.

Epochs and start offsets both rise strictly. An epoch that begins at or below a known one replaces it.

A new epoch is not written to the file at once. As long as its first batch may have to be read again after a crash, that
batch tells of it, and if there is none the epoch is forgotten anyhow. So it is early enough to write the file before
the log's recovery point passes that batch: when the log is flushed, rolled or closed. A broker that becomes the leader
of ten thousand partitions has that many files less to sync.

Follows org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache (KIP-101, KIP-279).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pykraft.common.types import OffsetAndEpoch
from pykraft.storage.disk.checkpoint import LEADER_EPOCH_CHECKPOINT, format_checkpoint, parse_checkpoint, parse_number
from pykraft.storage.disk.filesystem import FileSystem, put_in_place, read_if_there, replace_file, write_beside


class EpochEntry(NamedTuple):
    """A leader epoch, and the offset of its first record."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The epochs of one log, oldest first, and the file that keeps them."""

    __slots__ = ("_filesystem", "_path", "_written", "entries")

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self.entries: list[EpochEntry] = []
        self._written: list[EpochEntry] = []
        data = read_if_there(filesystem, self._path)
        if data is not None:
            self._written = parse_checkpoint(self._path, data, _entry)
        for entry in self._written:  # one by one, lest a damaged file has them in disorder
            self.assign(*entry)

    @property
    def latest_epoch(self) -> int | None:
        return self.entries[-1].epoch if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """The batch at `start_offset` has this epoch. Only the first batch of an epoch is news. It is not in the file
        before `write`."""
        latest = self.entries[-1] if self.entries else None
        if latest is not None and latest.epoch == epoch and latest.start_offset <= start_offset:
            return
        while self.entries and (self.entries[-1].epoch >= epoch or self.entries[-1].start_offset >= start_offset):
            self.entries.pop()
        self.entries.append(EpochEntry(epoch, start_offset))

    def relearn(self, start_offset: int, found: Iterable[EpochEntry]) -> None:
        """The log was read again from `start_offset` on, after a crash: the file's entries from there on may be
        outdated, and go. `found` has an entry for each change of the epoch."""
        self.entries = [entry for entry in self.entries if entry.start_offset < start_offset]
        for entry in found:
            if entry.epoch > (-1 if self.latest_epoch is None else self.latest_epoch):
                self.entries.append(entry)
        self._write(self.entries)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> OffsetAndEpoch | None:
        """The end of that epoch's log: (the offset after its last record, the largest known epoch up to it).

        None if the epoch is newer than all that is known, or -1. If it is older than all, its end is the start of the
        first one known.
        """
        if epoch < 0 or not self.entries or epoch > self.entries[-1].epoch:
            return None
        if epoch == self.entries[-1].epoch:
            return OffsetAndEpoch(log_end_offset, epoch)
        following = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        known = self.entries[following - 1].epoch if following else epoch
        return OffsetAndEpoch(self.entries[following].start_offset, known)

    def epoch_for(self, offset: int) -> int | None:
        """The epoch of the record at `offset`; None if it is before the first known one."""
        following = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[following - 1].epoch if following else None

    def truncate_from_end(self, end_offset: int) -> None:
        """The log was truncated to `end_offset`: forget the epochs that began there or later."""
        self.entries = self._of_records(end_offset)
        self._write(self.entries)

    def truncate_from_start(self, start_offset: int) -> None:
        """The log begins at `start_offset` now: the epoch that holds it begins there, older ones are gone."""
        following = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset)
        if following:
            first = self.entries[following - 1]
            self.entries = [EpochEntry(first.epoch, start_offset), *self.entries[following:]]
            self._write(self.entries)

    def clear(self) -> None:
        self.entries = []
        self._write(self.entries)

    def write(self, log_end_offset: int) -> bool:
        """Bring the file in step with the log, which ends there; whether it had to be written. It is on the disk when
        the folder was synced. An epoch without a record is left out: the next start would forget it."""
        return self._write(self._of_records(log_end_offset), sync_directory=False)

    def write_beside(self, log_end_offset: int) -> bool:
        """The first half of `write`, of many logs at once: nothing is synced. If there was something to be written,
        `put_in_place` is the second half, once the disk was synced."""
        entries = self._of_records(log_end_offset)
        if entries == self._written:
            return False
        write_beside(self._filesystem, self._path, _content(entries))
        return True

    def put_in_place(self, log_end_offset: int) -> None:
        """What was written beside becomes the file. The folder is to be synced then."""
        put_in_place(self._filesystem, self._path)
        self._written = self._of_records(log_end_offset)

    def _of_records(self, log_end_offset: int) -> list[EpochEntry]:
        return [entry for entry in self.entries if entry.start_offset < log_end_offset]

    def _write(self, entries: Sequence[EpochEntry], sync_directory: bool = True) -> bool:
        if entries == self._written:
            return False
        replace_file(self._filesystem, self._path, _content(entries), sync_directory)
        self._written = list(entries)
        return True


def _content(entries: Sequence[EpochEntry]) -> bytes:
    return format_checkpoint([f"{entry.epoch} {entry.start_offset}" for entry in entries])


def _entry(words: list[str]) -> EpochEntry:
    epoch, start_offset = map(parse_number, words)
    if not (0 <= epoch < 1 << 31 and 0 <= start_offset < 1 << 63):
        raise ValueError(f"no epoch {epoch} can begin at {start_offset}")
    return EpochEntry(epoch, start_offset)
