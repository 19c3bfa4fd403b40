"""What a log remembers of its producers, so that a retry is no duplicate and an open transaction is seen.

An idempotent producer numbers its records from 0 for each partition. For each producer id the log keeps the epoch and
the last five batches. A batch that comes again is recognised, its old offsets are answered and nothing is appended; a
batch that leaves a gap is refused. Five, because a producer may have five requests in flight, and retry any of them.

A producer with an open transaction also has the offset where the transaction began. The smallest of these bounds what
readers of committed data may see: the last stable offset.

The state is a function of the log: replaying the batches rebuilds it. To save that at start, it is written to
``%020d.snapshot`` when a segment is rolled and at an orderly stop; the name is the offset up to which it holds::

    version int16 = 1 | crc uint32, CRC-32C of all that follows | count int32 | entries of 46 bytes:
    producer id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta int32 | timestamp int64 |
    coordinator epoch int32 | first offset of the open transaction int64, -1 if none

A snapshot that is damaged is removed and the one before it is used; one that is beyond the log's end is removed too.

Follows org.apache.kafka.storage.internals.log.{ProducerStateManager,ProducerAppendInfo,ProducerStateEntry} (KIP-98,
KIP-360).
"""

import struct
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.records.batch import LARGEST_SEQUENCE, NO_PRODUCER_EPOCH, NO_SEQUENCE, RecordBatch
from pykraft.records.crc32c import crc32c
from pykraft.records.markers import read_marker
from pykraft.storage.disk.filesystem import File, FileSystem
from pykraft.storage.segment_files import offset_of
from pykraft.storage.verification_state import NO_CHECK, AppendCheck, Verification, Verifications

BATCHES_TO_RETAIN = 5
SNAPSHOT_SUFFIX = ".snapshot"

_FIRST_BUMPING_VERSION = 2
"""From this transaction.version on the producer's epoch rises with each transaction."""

_SNAPSHOT_HEADER = struct.Struct(">hIi")
_SNAPSHOT_CRC_END = 6
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")


class AppendOrigin(Enum):
    """The origin of an append decides how much is checked."""

    CLIENT = "a producer: epoch and sequence are checked"
    COORDINATOR = "a coordinator: its batches have no sequence, only the epoch is checked"
    REPLICATION = "a leader's log: it was checked there"
    RAFT_LEADER = "the controller: no producer is involved"


class BatchMetadata(NamedTuple):
    """What is kept of a batch: enough to know it again."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & LARGEST_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction whose marker is being appended at `last_offset`; with it the log is stable up to
    `last_stable_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool
    last_stable_offset: int = -1


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """One producer as the log knows it. Entries are replaced, never changed."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    batches: tuple[BatchMetadata, ...] = ()
    """At most five, oldest first."""
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    transaction_first_offset: int | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def duplicate_of(self, batch: RecordBatch) -> BatchMetadata | None:
        """The batch on record that this one repeats."""
        if batch.producer_epoch != self.epoch:
            return None
        for known in self.batches:
            if known.first_sequence == batch.base_sequence and known.last_sequence == batch.last_sequence:
                return known
        return None

    def has_ongoing_transaction(self, epoch: int) -> bool:
        """Whether the producer of this epoch has a transaction open here. One of a lower epoch may have ended by now:
        its marker is on the way."""
        return self.transaction_first_offset is not None and self.epoch == epoch

    def after_batch(
        self, batch: RecordBatch, origin: AppendOrigin, verification: Verification | None = None
    ) -> "ProducerEntry":
        """The entry once this batch of records is in the log; KafkaError if it must not be. `verification` is the one
        on record for the producer."""
        self._check_epoch(batch.producer_epoch, origin)
        if origin is AppendOrigin.CLIENT:
            if verification is not None:
                self._check_verified_sequence(batch, verification)
            self._check_sequence(batch)
        transaction = self.transaction_first_offset
        if transaction is not None and not batch.is_transactional:
            if origin is not AppendOrigin.REPLICATION:
                raise KafkaError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"producer {self.producer_id} has an open transaction in this partition",
                )
            transaction = None  # the leader had forgotten it, with its records, which were deleted
        if transaction is None and batch.is_transactional:
            transaction = batch.base_offset
        kept = self.batches if batch.producer_epoch == self.epoch else ()
        added = BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
        return ProducerEntry(
            self.producer_id,
            batch.producer_epoch,
            (*kept, added)[-BATCHES_TO_RETAIN:],
            self.coordinator_epoch,
            batch.max_timestamp,
            transaction,
        )

    def after_marker(
        self, batch: RecordBatch, origin: AppendOrigin, transaction_version: int = 0
    ) -> tuple["ProducerEntry", CompletedTransaction | None]:
        """The entry once this end-of-transaction marker is in the log, and the transaction that it ends, if there was
        one in this partition."""
        marker = read_marker(batch)
        self._check_epoch(batch.producer_epoch, origin)
        if transaction_version >= _FIRST_BUMPING_VERSION and origin is not AppendOrigin.REPLICATION:
            self._check_bumped_epoch(batch.producer_epoch)
        if marker.coordinator_epoch < self.coordinator_epoch and origin is not AppendOrigin.REPLICATION:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the marker has coordinator epoch {marker.coordinator_epoch}, {self.coordinator_epoch} is known",
            )
        completed = None
        if self.transaction_first_offset is not None:
            first_offset = self.transaction_first_offset
            completed = CompletedTransaction(self.producer_id, first_offset, batch.base_offset, not marker.committed)
        # A marker with a new epoch fences: the batches of the old epoch can no longer be repeated.
        kept = self.batches if batch.producer_epoch == self.epoch else ()
        entry = replace(
            self,
            epoch=batch.producer_epoch,
            batches=kept,
            coordinator_epoch=marker.coordinator_epoch,
            last_timestamp=batch.max_timestamp,
            transaction_first_offset=None,
        )
        return entry, completed

    def _check_epoch(self, epoch: int, origin: AppendOrigin) -> None:
        if origin is not AppendOrigin.REPLICATION:
            self.check_not_fenced(epoch)

    def check_not_fenced(self, epoch: int) -> None:
        """KafkaError if a higher epoch of the producer is on record."""
        if epoch < self.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {self.producer_id} has epoch {epoch}, {self.epoch} is known",
            )

    def _check_bumped_epoch(self, epoch: int) -> None:
        """With transaction.version 2 the coordinator raises the epoch before it writes the marker. A marker with the
        transaction's own epoch is late; one with the epoch on record is repeated, if no transaction is open."""
        if epoch == self.epoch and self.transaction_first_offset is not None:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the marker has epoch {epoch}, which producer {self.producer_id} began its transaction with",
            )

    def _check_verified_sequence(self, batch: RecordBatch, verification: Verification) -> None:
        """A batch that is verified together with others must not be appended before one with a lower sequence."""
        lowest = verification.lowest_sequence
        if verification.bumps_epoch and not self.batches:
            lowest = 0
        if batch.base_sequence > lowest:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {self.producer_id} sent sequence {batch.base_sequence}, sequence {lowest} comes first",
            )

    def _check_sequence(self, batch: RecordBatch) -> None:
        if not self._is_next(batch):
            expected = self._next_sequence(batch.producer_epoch)
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {self.producer_id} sent sequence {batch.base_sequence}, expected {expected}",
            )

    def _is_next(self, batch: RecordBatch) -> bool:
        """Whether the batch comes where the last one ends. Of a producer that is not known (its records may be gone by
        retention) any sequence is accepted."""
        return self.epoch == NO_PRODUCER_EPOCH or batch.base_sequence == self._next_sequence(batch.producer_epoch)

    def _next_sequence(self, epoch: int) -> int:
        """The next sequence number follows the last one and wraps to 0; a new epoch starts at 0."""
        if epoch != self.epoch or self.last_sequence == LARGEST_SEQUENCE:
            return 0
        return self.last_sequence + 1


class ProducerUpdate(NamedTuple):
    """What appending some batches will change: planned before the append, applied after it."""

    entries: Mapping[int, ProducerEntry]
    completed: Sequence[CompletedTransaction]


NO_UPDATE = ProducerUpdate({}, ())
"""What batches without a producer id change."""


class ProducerStateManager:
    """The producers of one log, and the snapshots of them in its folder."""

    def __init__(
        self, filesystem: FileSystem, directory: str, expiration_ms: int, snapshots: list[int] | None = None
    ) -> None:
        """`snapshots` are those in the folder, ascending, if it was listed already."""
        self._filesystem = filesystem
        self._directory = directory
        self.expiration_ms = expiration_ms
        """A producer that is silent for this long is forgotten. It may be changed."""
        self.producers: dict[int, ProducerEntry] = {}
        self.verifications = Verifications()
        self._open_transactions: dict[int, int] = {}
        self._unreplicated: list[CompletedTransaction] = []
        self.map_end_offset = 0
        """The state is that of the log up to here."""
        self.last_snapshot_offset = 0
        """Up to where the newest snapshot holds that this object has read or written."""
        self._unsynced: list[File] = []
        """The snapshots that were written and are not on the disk yet."""
        self._snapshots = snapshots
        """The snapshots in the folder, ascending, once they were looked for: only this manager makes or removes any."""

    # --- appending ----------------------------------------------------------------------------------------------------

    def plan(
        self, batches: Iterable[RecordBatch], origin: AppendOrigin, check: AppendCheck = NO_CHECK
    ) -> ProducerUpdate:
        """Check batches that have their offsets; KafkaError if one of them must not be appended."""
        entries: dict[int, ProducerEntry] = {}
        ended: list[CompletedTransaction] = []
        open_transactions = dict(self._open_transactions)  # as of the batch that the loop has come to
        for batch in batches:
            if not batch.has_producer_id or (batch.is_control and not batch.count):
                continue  # cleaning may leave a control batch without its marker
            known = entries.get(batch.producer_id) or self.producers.get(batch.producer_id)
            entry = known or ProducerEntry(batch.producer_id)
            if not batch.is_control:
                if check.needs_verification and batch.is_transactional:
                    self._check_verified(batch, entry, check.verification)
                entry = entry.after_batch(batch, origin, self.verifications.of(batch.producer_id))
            else:
                entry, completed = entry.after_marker(batch, origin, check.transaction_version)
                if completed is not None:
                    open_transactions.pop(batch.producer_id)
                    stable = min(open_transactions.values(), default=completed.last_offset + 1)
                    ended.append(completed._replace(last_stable_offset=stable))
            if entry.transaction_first_offset is None:
                open_transactions.pop(batch.producer_id, None)
            else:
                open_transactions[batch.producer_id] = entry.transaction_first_offset
            entries[batch.producer_id] = entry
        return ProducerUpdate(entries, ended)

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, bumps_epoch: bool, now_ms: int
    ) -> Verification | None:
        """The verification that an append of this producer has to present; None if its transaction is open here
        already. KafkaError if the producer is fenced."""
        entry = self.producers.get(producer_id)
        if entry is not None:
            entry.check_not_fenced(epoch)
            if entry.has_ongoing_transaction(epoch):
                return None
        return self.verifications.start(producer_id, sequence, epoch, bumps_epoch, now_ms)

    def _check_verified(self, batch: RecordBatch, entry: ProducerEntry, presented: Verification | None) -> None:
        """KafkaError unless the batch's transaction is open here, or was verified for this very append."""
        if entry.has_ongoing_transaction(batch.producer_epoch):
            return
        entry.check_not_fenced(batch.producer_epoch)
        if presented is None or presented is not self.verifications.of(batch.producer_id):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")

    def apply(self, update: ProducerUpdate, end_offset: int) -> None:
        """The batches of a plan are in the log, which now ends at `end_offset`."""
        if update is not NO_UPDATE:
            for entry in update.entries.values():
                self._put(entry)
            self._unreplicated += update.completed
        self.map_end_offset = end_offset

    def replay(self, batch: RecordBatch) -> Sequence[CompletedTransaction]:
        """Carry the state through a batch that is in the log already; the transactions that it ends."""
        update = self.plan([batch], AppendOrigin.REPLICATION)
        self.apply(update, batch.next_offset)
        return update.completed

    def _put(self, entry: ProducerEntry) -> None:
        self.producers[entry.producer_id] = entry
        if entry.transaction_first_offset is None:
            self._open_transactions.pop(entry.producer_id, None)
        else:
            self._open_transactions[entry.producer_id] = entry.transaction_first_offset

    def duplicate_of(self, batch: RecordBatch) -> BatchMetadata | None:
        """The batch in the log that this one repeats."""
        known = self.producers.get(batch.producer_id)
        return known.duplicate_of(batch) if known else None

    # --- what readers of committed data may see -----------------------------------------------------------------------

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open, or whose end may still be lost."""
        decided = [done.first_offset for done in self._unreplicated]
        return min([*self._open_transactions.values(), *decided], default=None)

    def on_high_watermark(self, high_watermark: int) -> None:
        """The ends of transactions below the high watermark cannot be lost any more."""
        if self._unreplicated:
            self._unreplicated = [done for done in self._unreplicated if done.last_offset >= high_watermark]

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers that have been silent for longer than ``producer.id.expiration.ms``, and verifications that
        are as old."""
        expired = {number for number, entry in self.producers.items() if self._is_expired(entry, now_ms)}
        if expired:
            self.producers = {number: entry for number, entry in self.producers.items() if number not in expired}
        self.verifications.remove_expired(now_ms, self.expiration_ms)

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.transaction_first_offset is None and now_ms - entry.last_timestamp >= self.expiration_ms

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def take_snapshot(self) -> bool:
        """Write the state, unless it is that of the last snapshot; whether it was written. It is on the disk once
        `sync_snapshots` and a sync of the folder are done. A loss of power before that leaves a snapshot that is whole,
        damaged or not there; then the one before it is used."""
        if self.map_end_offset <= self.last_snapshot_offset:
            return False
        path = self._snapshot_path(self.map_end_offset)
        if self._filesystem.exists(path):
            self._filesystem.remove(path)
        file = self._filesystem.open(path)
        file.append(self._encode())
        self.last_snapshot_offset = self.map_end_offset
        self._snapshots = sorted({*self.snapshot_offsets(), self.map_end_offset})
        self._unsynced.append(file)
        return True

    def sync_snapshots(self) -> None:
        """Return when the snapshots are on the disk, but for those that another thread is just syncing."""
        with suppress(IndexError):  # two threads may do this at once
            while True:
                file = self._unsynced.pop()
                with closing(file), suppress(FileNotFoundError):  # it may have gone, with the end of the log
                    file.sync()

    def forget_unsynced_snapshots(self) -> None:
        """Close their files: all were synced at once, or need not be any more."""
        with suppress(IndexError):
            while True:
                self._unsynced.pop().close()

    def snapshot_offsets(self) -> list[int]:
        """The offsets of the snapshots in the folder, ascending."""
        if self._snapshots is None:
            self._snapshots = snapshots_among(self._filesystem.list(self._directory))
        return list(self._snapshots)

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """The log was truncated to [log_start_offset, log_end_offset): go back to the newest snapshot in there. The
        caller replays the batches from `map_end_offset` on."""
        offsets = self.snapshot_offsets()
        self._remove_snapshots([offset for offset in offsets if not log_start_offset < offset <= log_end_offset])
        if log_end_offset != self.map_end_offset:
            self.load_newest(log_start_offset, log_end_offset, now_ms)

    def load_newest(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Take over the newest snapshot in (log_start_offset, log_end_offset], or begin with nothing."""
        self._clear()
        self.map_end_offset = self.last_snapshot_offset = log_start_offset
        for offset in reversed(self.snapshot_offsets()):
            try:
                if log_start_offset < offset <= log_end_offset:
                    self._load(offset, now_ms)
                    return
            except CorruptRecordError:
                self._remove_snapshots([offset])

    def remove_strays(self, base_offsets: Container[int]) -> None:
        """Remove the snapshots at which no segment begins, but for the newest: orderly stops left them."""
        self._remove_snapshots([offset for offset in self.snapshot_offsets()[:-1] if offset not in base_offsets])

    def truncate_fully(self, offset: int) -> None:
        """The log begins again, empty, at `offset`."""
        self._remove_snapshots(self.snapshot_offsets())
        self._clear()
        self.verifications.clear()
        self.map_end_offset = self.last_snapshot_offset = offset

    def _clear(self) -> None:
        self.producers = {}
        self._open_transactions = {}
        self._unreplicated = []

    def _remove_snapshots(self, offsets: Sequence[int]) -> None:
        """Remove them for good: one that came back after a crash could pass for one of what was appended since."""
        for offset in offsets:
            self._filesystem.remove(self._snapshot_path(offset))
        if offsets:
            self._snapshots = [offset for offset in self.snapshot_offsets() if offset not in offsets]
            self._filesystem.sync_directory(self._directory)

    def _snapshot_path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SNAPSHOT_SUFFIX}"

    def _encode(self) -> bytes:
        data = bytearray(_SNAPSHOT_HEADER.size)
        for _, entry in sorted(self.producers.items()):
            last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, -1, 0, -1)
            data += _SNAPSHOT_ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                -1 if entry.transaction_first_offset is None else entry.transaction_first_offset,
            )
        _SNAPSHOT_HEADER.pack_into(data, 0, 1, 0, len(self.producers))
        _SNAPSHOT_HEADER.pack_into(data, 0, 1, crc32c(memoryview(data)[_SNAPSHOT_CRC_END:]), len(self.producers))
        return bytes(data)

    def _load(self, offset: int, now_ms: int) -> None:
        path = self._snapshot_path(offset)
        for entry in decode_snapshot(self._filesystem.read(path)):
            if not self._is_expired(entry, now_ms):
                self._put(entry)
        self._unsynced.append(
            self._filesystem.open(path)
        )  # the process that wrote it may have been killed before the sync
        self.map_end_offset = self.last_snapshot_offset = offset


def snapshots_among(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots among the files of a folder, ascending."""
    stems = [name.removesuffix(SNAPSHOT_SUFFIX) for name in names if name.endswith(SNAPSHOT_SUFFIX)]
    return sorted(offset for stem in stems if (offset := offset_of(stem)) is not None)


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers in a snapshot file; CorruptRecordError if it is damaged."""
    if len(data) < _SNAPSHOT_HEADER.size:
        raise CorruptRecordError(f"a producer snapshot has {len(data)} bytes")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != 1 or crc != crc32c(memoryview(data)[_SNAPSHOT_CRC_END:]):
        raise CorruptRecordError(f"a producer snapshot of version {version} fails its checksum")
    if len(data) != _SNAPSHOT_HEADER.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptRecordError(f"a producer snapshot of {len(data)} bytes announces {count} entries")
    return [_decode_entry(*fields) for fields in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEADER.size :])]


def _decode_entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> ProducerEntry:
    has_batch = last_offset >= 0
    return ProducerEntry(
        producer_id,
        epoch,
        (BatchMetadata(last_sequence, last_offset, offset_delta, timestamp),) if has_batch else (),
        coordinator_epoch,
        timestamp,
        None if transaction_first_offset < 0 else transaction_first_offset,
    )
