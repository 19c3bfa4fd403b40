"""What of a log that is compacted, or shortened from its beginning, must still be there.

A `RecordsOfLog` knows every record that was ever committed in one partition: what became of its transaction, and which
later record has its key. From that follows of each record that a replica lacks, above its log start, whether it may
lack it:

* a record of an aborted transaction may go at once;
* a record goes for a later one of its key that is committed, and whose transaction is;
* a tombstone may go for no other record, ``delete.retention.ms`` after it was committed at the earliest: the cleaner
  gives it its delete horizon when it first comes by;
* the marker of a transaction goes in the same way, and only when none of the transaction's records is left. Their
  batches may be left without records.

Whatever is left is as it was appended: each record at its offset, in a batch with the same first and last offset and
the same producer. No more than that can be asked of one replica: a cleaner may always lag.

A `MovingReplicaLog` is the log of one replica with all that is gone. A file that has lost batches to compaction is read
as if they were still there, provided that they are committed. So all other laws hold of it as they do of any log.

Follows org.apache.kafka.storage.internals.log.Cleaner (KIP-280 is not used) and KIP-534's delete horizon.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple

from pykraft.records.batch import RecordBatch, batches
from pykraft.records.markers import read_marker
from pykraft.records.record import Record
from pykraft.sim.laws.invariants import CommittedLog, ReplicaLog, Violation, require
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog

_READ_BYTES = 1 << 20


class _Batch(NamedTuple):
    """A committed batch."""

    base_offset: int
    next_offset: int
    producer_id: int


class RecordsOfLog:
    """All that was ever committed in one partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: list[Record | None] = []
        """By offset; None where a marker is."""
        self._committed_at: list[int] = []
        self._aborted: set[int] = set()
        """Offsets of records whose transaction was aborted."""
        self._visible: dict[bytes | None, list[int]] = {}
        """By key: the offsets of the records that a reader of committed data sees, ascending."""
        self._open: dict[int, list[_Batch]] = {}
        """By producer id: what its transaction has written so far."""
        self.transactions: dict[int, list[_Batch]] = {}
        """By the offset of its marker: what a transaction wrote."""
        self._taken = 0
        self._justified: set[int] = set()
        """Offsets of records that may be gone. They may be for ever."""

    def take(self, committed: CommittedLog, now: int) -> None:
        """Take in what is committed by now."""
        for batch in committed.batches(self._taken, len(committed.ends)):
            self._take(batch, now)
        self._taken = len(committed.ends)

    def _take(self, batch: RecordBatch, now: int) -> None:
        self._committed_at += [now] * (batch.next_offset - batch.base_offset)
        if batch.is_control:
            self.records.append(None)
            ended = self._open.pop(batch.producer_id, [])
            self.transactions[batch.base_offset] = ended
            is_commit = read_marker(batch).committed
            for written in ended:
                for offset in range(written.base_offset, written.next_offset):
                    if is_commit:
                        self._show(offset)
                    else:
                        self._aborted.add(offset)
            return
        self.records += batch.records()
        if batch.is_transactional:
            place = _Batch(batch.base_offset, batch.next_offset, batch.producer_id)
            self._open.setdefault(batch.producer_id, []).append(place)
        else:
            for offset in range(batch.base_offset, batch.next_offset):
                self._show(offset)

    def _show(self, offset: int) -> None:
        record = self.records[offset]
        assert record is not None
        insort(self._visible.setdefault(record.key, []), offset)

    def is_aborted(self, offset: int) -> bool:
        return offset in self._aborted

    def is_visible(self, offset: int) -> bool:
        """Whether a reader of committed data may see it."""
        record = self.records[offset] if offset < len(self.records) else None
        if record is None:
            return False
        shown = self._visible.get(record.key, [])
        at = bisect_left(shown, offset)
        return at < len(shown) and shown[at] == offset

    def check_may_be_gone(self, where: str, offset: int, retention_ms: int, now: int) -> None:
        """The record at this offset is not there, and nothing but compaction has taken it. `retention_ms` is how long
        tombstones stay, at least."""
        if offset in self._justified:
            return
        require(offset < len(self.records), f"{where}: offset {offset} is gone, and was never committed")
        record = self.records[offset]
        if record is not None and offset not in self._aborted:
            shown = self._visible.get(record.key, [])
            is_last = bisect_right(shown, offset) == len(shown)
            what = f"{where}: compaction has taken the record at offset {offset}, key {record.key!r}"
            require(self.is_visible(offset) or not is_last, f"{what}, whose transaction is not decided")
            if is_last:
                require(record.value is None, f"{what}, which is the newest of its key")
                age = now - self._committed_at[offset]
                require(age >= retention_ms, f"{what}, a tombstone that was committed {age} ms ago")
        self._justified.add(offset)

    def check_marker_may_be_gone(
        self, where: str, offset: int, present: set[int], log_start: int, retention_ms: int, now: int
    ) -> None:
        """The marker at this offset is not there; these records of transactions are."""
        left = [
            each
            for written in self.transactions[offset]
            for each in range(max(log_start, written.base_offset), written.next_offset)
            if each in present
        ]
        what = f"{where}: the marker at offset {offset} is gone"
        require(not left, f"{what}, and of its transaction the records {left} are there")
        age = now - self._committed_at[offset]
        require(age >= retention_ms, f"{what}; it was committed {age} ms ago")


class MovingReplicaLog(ReplicaLog):
    """What is known of one replica's log that is compacted, or shortened: everything that it ever had, as if all of it
    were there."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._log_end = 0
        self.log_start: int | None = None
        """As it was last seen; None if it was not looked at since the log was opened, or truncated."""
        self.seen_truncations = 0
        self.cleaned: object = None
        """The last pass of the cleaner over it that was looked at."""

    @property
    def end(self) -> int:
        return max(self._log_end, super().end)

    def follow(self, log: UnifiedLog, committed: CommittedLog | None = None) -> range:
        assert committed is not None
        self.source = log
        if log.truncations != self.truncations or log.log_end_offset < self.end:
            self.truncations, self.agreed, self._log_end = log.truncations, 0, 0
            for column in (self.ends, self.epochs, self.hashes, self.data):
                column.clear()
        first = len(self.ends)
        position = max(self.end, log.log_start_offset)
        self._assume_up_to(position, committed)
        for batch in batches_of(log, position):
            self._take(batch, committed)
        self._log_end = log.log_end_offset
        return range(first, len(self.ends))

    @property
    def _whole_end(self) -> int:
        return self.ends[-1] if self.ends else 0

    def _assume_up_to(self, offset: int, committed: CommittedLog) -> None:
        """All that is before this offset, and is not in the file, was there: it is committed."""
        while len(self.ends) < len(committed.ends) and committed.ends[len(self.ends)] <= offset:
            self._assume_next(committed)

    def _assume_next(self, committed: CommittedLog) -> None:
        index = len(self.ends)
        if index and self.hashes[index - 1] != committed.hashes[index - 1]:
            raise Violation(
                f"{self.name}: after offset {self._whole_end} something is gone, and before it was never committed"
            )
        for batch in committed.batches(index, index + 1):
            self._add_any(batch)

    def _take(self, batch: RecordBatch, committed: CommittedLog) -> None:
        self._assume_up_to(batch.base_offset, committed)
        index = len(self.ends)
        if index < len(committed.ends):
            (known,) = committed.batches(index, index + 1)
            if bytes(known.buffer) != bytes(batch.buffer) and is_part_of(batch, known):
                check_part(self.name, batch, known)
                self._assume_next(committed)
                return
        self._add_any(batch)

    def _add_any(self, batch: RecordBatch) -> None:
        if batch.base_offset != self._whole_end:
            raise Violation(f"{self.name}: {batch} follows offset {self._whole_end}")
        self._log_end = batch.base_offset
        self._add(batch)

    def at(self, base_offset: int) -> int | None:
        """The number of the batch that begins there."""
        if base_offset == 0:
            return 0 if self.ends else None
        index = bisect_left(self.ends, base_offset)
        is_there = index < len(self.ends) - 1 and self.ends[index] == base_offset
        return index + 1 if is_there else None


def batches_of(log: UnifiedLog, position: int) -> Iterator[RecordBatch]:
    """The batches in the file from this offset on."""
    while position < log.log_end_offset:
        region = log.read(position, _READ_BYTES, Isolation.LOG_END, at_least_one=True).records
        data = region if isinstance(region, bytes) else region.read(0, len(region))
        if not data:
            return
        for batch in batches(memoryview(data)):
            yield batch
            position = batch.next_offset


def is_part_of(batch: RecordBatch, known: RecordBatch) -> bool:
    """Whether this may be what compaction has left of a batch."""
    return (batch.base_offset, batch.last_offset, batch.partition_leader_epoch, batch.producer_id) == (
        known.base_offset,
        known.last_offset,
        known.partition_leader_epoch,
        known.producer_id,
    )


def check_part(where: str, batch: RecordBatch, known: RecordBatch) -> None:
    """What compaction has left of a batch is as it was."""
    for what in ("producer_epoch", "base_sequence", "last_sequence", "is_transactional", "is_control"):
        ours, theirs = getattr(batch, what), getattr(known, what)
        require(ours == theirs, f"{where}: at offset {batch.base_offset} compaction has made {what} {ours} of {theirs}")
    before = {record.offset: record for record in known.records()}
    for record in batch.records():
        require(
            before.get(record.offset) == record,
            f"{where}: compaction has made {record} of {before.get(record.offset)}",
        )
