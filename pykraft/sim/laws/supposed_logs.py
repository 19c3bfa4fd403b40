"""What would become of a log and its producers: when a history has ended, what it seldom comes to is supposed.

A history has few of some events: a producer is silent for a day while its transaction is open, a voter truncates the
metadata log to just its high watermark, the newest record there being one of the voters. So, as in `stale_laws`, the
state that a history has come to is copied, and the event is supposed to happen to the copy.

* *Producers.* One that is silent is forgotten, unless it has a transaction open. A snapshot of what a log knows of its
  producers has all that their last batches and markers say.
  A reader of records of aborted transactions hears of each of these, however they overlap. A cleaner that begins within
  such a transaction takes none of its records for the newest of a key.
* *The metadata log.* A replica truncates to where its leader says that their logs part, and to nowhere below its high
  watermark. The records of the voters that it truncates hold no more. A leader commits nothing before a record
  of its own epoch. It says of a log that it is a beginning of its own only if it is.

Follows org.apache.kafka.storage.internals.log.ProducerStateManager, org.apache.kafka.raft.ReplicatedLog and
org.apache.kafka.raft.internals.TreeMapLogHistory.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from pykraft.common.types import OffsetAndEpoch
from pykraft.raft.leader_state import LeaderState
from pykraft.raft.log.replicated_log import ReplicatedLog, Verdict
from pykraft.raft.log.voters import LogHistory
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.filtering import Outline
from pykraft.records.markers import Marker, end_transaction_marker
from pykraft.sim.laws.invariants import require
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import ProducerEntry, ProducerStateManager
from pykraft.storage.transaction_index import AbortedTransaction, TransactionIndex
from pykraft.storage.upkeep.cleaner import Cleaning, OffsetMap
from pykraft.storage.verification_state import Verifications

_NEVER, _MOST_EPOCH = 1 << 62, (1 << 31) - 1
_READ_BYTES, _BUFFER_BYTES = 1 << 16, 1 << 20
_MOST = 8
"""This many logs of a node, and batches of the metadata log, are looked at."""


def check_supposed_logs(machines: Mapping[int, SimulatedNode]) -> None:
    """Suppose all of it, of every node. They have settled."""
    for node_id, machine in machines.items():
        node = machine.node
        if node is None:
            continue
        partitions = {} if node.broker is None else node.broker.replicas.partitions
        known = [(place, each.log.producer_state) for place, each in sorted(partitions.items())]
        for place, state in [pair for pair in known if pair[1].producers][:_MOST]:
            name = f"{place} of node {node_id}"
            _check_forgotten(name, state)
            _check_producer_snapshot(name, state)
            _check_aborted(name, state)
            _check_cleaning(name, partitions[place].log)
        replica = node.raft.replica
        _check_truncation(f"the metadata log of node {node_id}", replica.log)
        _check_prefixes(f"the metadata log of node {node_id}", replica.log)
        if replica.leader is not None:
            _check_commits(f"node {node_id}", replica.leader)
        _check_history(f"node {node_id}", replica.control_records.history)


# --- producers --------------------------------------------------------------------------------------------------------


def _check_forgotten(name: str, state: ProducerStateManager) -> None:
    """However long they are silent, those with an open transaction stay, and no others."""
    ids = sorted(state.producers)
    for is_open in (True, False):
        twin = copy(state)
        twin.verifications = Verifications()
        began = {key: replace(state.producers[key], transaction_first_offset=0 if is_open else None) for key in ids}
        twin.producers = began
        twin.remove_expired(_NEVER)
        require(
            bool(twin.producers) is is_open and (not is_open or sorted(twin.producers) == ids),
            f"{name} has the producers {ids}; were their transactions {'open' if is_open else 'ended'}, and they "
            f"silent for ever, it would know {sorted(twin.producers)}",
        )


def _check_producer_snapshot(name: str, state: ProducerStateManager) -> None:
    """What a snapshot keeps is what there is, of each producer's batches the last one; also after one more marker."""
    filesystem = MemoryFileSystem()
    twin = ProducerStateManager(filesystem, "", _NEVER)
    producers = {
        key: replace(each, coordinator_epoch=min(each.coordinator_epoch + 1, _MOST_EPOCH))
        for key, each in state.producers.items()
    }
    twin.producers, twin.map_end_offset = producers, max(state.map_end_offset, 1)
    twin.take_snapshot()
    twin.sync_snapshots()
    read = ProducerStateManager(filesystem, "", _NEVER)
    read.load_newest(0, twin.map_end_offset, 0)
    kept = {key: _said(each) for key, each in sorted(read.producers.items())}
    expected = {key: _said(each) for key, each in sorted(producers.items())}
    require(kept == expected, f"{name}, were it to know of its producers {expected}, would keep {kept} in a snapshot")


def _check_aborted(name: str, state: ProducerStateManager) -> None:
    """Suppose that its first producers had one transaction each, that the second is aborted within the first, and the
    first then. Of both there are records before any marker, so each reader of records there has to hear of both."""
    twin, index = ProducerStateManager(MemoryFileSystem(), "", _NEVER), TransactionIndex(MemoryFileSystem(), "")
    first, second = [*sorted(state.producers), _NEVER, _NEVER + 1][:2]
    offset = state.map_end_offset
    written = [
        *(_records(offset + number, producer) for number, producer in enumerate((first, second))),
        *(_abort(offset + 2 + number, producer) for number, producer in enumerate((second, first))),
    ]
    for batch in written:
        for ended in twin.replay(batch):
            index.append(
                AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset)
            )
    found = {each.producer_id for each in index.collect(offset, offset + 2)[0]}
    require(
        found == {first, second},
        f"{name}: were the transactions of producers {first} and {second} aborted, which begin at {offset}, "
        f"the second one after the first and within it, a reader of their records would hear "
        f"that those of {sorted(found)} were",
    )


def _check_cleaning(name: str, log: UnifiedLog) -> None:
    """Suppose that one of its transactions was aborted, and that the log is compacted, and clean up to the first record
    of that transaction, that one included. None of the others is the newest record of a key."""
    for producer_id, first, last in _transactions(log)[-1:]:
        cleaning = Cleaning.of(
            MemoryFileSystem(),
            log,
            first_dirty_offset=first + 1,
            end_offset=last + 1,
            now_ms=0,
            buffer_bytes=_BUFFER_BYTES,
        )
        noted = cleaning.offsets = _Noted()
        cleaning.aborted = [AbortedTransaction(producer_id, first, last + 1, last + 2)]
        list(cleaning._make_map())  # slice by slice; it reads the log, and changes nothing
        found = [each for each in _found(log, first) if each.producer_id == producer_id and each.is_transactional]
        mine = [place[0] for each in found if each.base_offset <= last for place in each.places()]
        wrong = sorted(noted.offsets.intersection(mine))
        require(
            not wrong,
            f"{name}, were it clean up to {first + 1}, and had producer {producer_id} aborted what it wrote from "
            f"{first} to {last}: the cleaner would take {wrong} for the newest of their keys, and remove what was "
            f"committed before",
        )


def _found(log: UnifiedLog, offset: int) -> Iterator[RecordBatch]:
    if offset < log.log_end_offset:
        region = log.read(offset, _READ_BYTES, Isolation.LOG_END, at_least_one=True).records
        yield from batches(memoryview(region if isinstance(region, bytes) else region.read(0, len(region))))


def _transactions(log: UnifiedLog) -> Sequence[tuple[int, int, int]]:
    """Of each transaction that has several records in the log: the producer, the first offset, and the last one."""
    open_since: dict[int, tuple[int, int]] = {}
    several = []
    for batch in _found(log, log.log_start_offset):
        if batch.is_control:
            open_since.pop(batch.producer_id, None)
        elif batch.is_transactional and batch.count:
            first, count = open_since.get(batch.producer_id, (batch.base_offset, 0))
            open_since[batch.producer_id] = first, count + batch.count
            if count + batch.count > 1:
                several.append((batch.producer_id, first, batch.last_offset))
    return several


class _Noted(OffsetMap):
    """Notes each offset that a cleaner takes for one that may be the newest of its key."""

    def __init__(self) -> None:
        super().__init__(_BUFFER_BYTES)
        self.offsets: set[int] = set()

    def note(self, records: Iterable[Outline], first_offset: int) -> bool:
        self.offsets |= {offset for _, _, _, offset, _, _ in records if offset >= first_offset}
        return True


def _records(offset: int, producer_id: int) -> RecordBatch:
    builder = RecordBatchBuilder(offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    builder.append(0, b"", b"")
    return RecordBatch(memoryview(builder.build()))


def _abort(offset: int, producer_id: int) -> RecordBatch:
    batch = RecordBatch(memoryview(end_transaction_marker(producer_id, 0, Marker(False, 0), 0)))
    batch.assign(offset, 0)
    return batch


def _said(entry: ProducerEntry) -> tuple[Any, ...]:
    last = entry.batches[-1] if entry.batches else None
    place = None if last is None else (last.last_sequence, last.last_offset, last.offset_delta)
    return entry.epoch, place, entry.coordinator_epoch, entry.last_timestamp, entry.transaction_first_offset


# --- the metadata log -------------------------------------------------------------------------------------------------


class _Unmoved:
    """A log as it is, with a high watermark that is supposed. It notes a truncation instead of doing it."""

    def __init__(self, log: Any, high_watermark: int, start_offset: int | None = None) -> None:
        self._log, self.high_watermark, self.log_end_offset = log, high_watermark, log.log_end_offset
        self.log_start_offset = log.log_start_offset if start_offset is None else start_offset

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def truncate_to(self, offset: int) -> None:
        self.log_end_offset = offset


def _ends(log: ReplicatedLog) -> Sequence[OffsetAndEpoch]:
    """Where its newest batches end."""
    first = max(log.start_offset, log.end_offset - 4 * _MOST)
    found = log.batches_between(first, log.end_offset) if first < log.end_offset else []
    return [OffsetAndEpoch(each.next_offset, each.partition_leader_epoch) for each in found][-_MOST:]


def _check_truncation(name: str, log: ReplicatedLog) -> None:
    ends = _ends(log)
    for below, end, above in list(zip(ends, ends[1:], ends[2:], strict=False))[-1:]:
        for agreed, is_right in ((below, False), (end, True), (above, True)):
            twin = copy(log)
            twin._log = _Unmoved(log.unified, end.offset)  # type: ignore[assignment]
            cut = twin.truncate_to_match(agreed)
            require(
                cut == (agreed.offset if is_right else None),
                f"{name}, were its high watermark {end.offset}, and its leader's log parted from it at {agreed}, would "
                f"be truncated to {cut} (None: not at all)",
            )


def _check_prefixes(name: str, log: ReplicatedLog) -> None:
    """What this log says of others that end where a batch of it ends; and where an epoch begins, were that the log's
    start."""
    epochs = [each.epoch for each in log.epochs[-_MOST:]]
    for end in _ends(log)[-2:]:
        later = {each.epoch for each in log.epochs if each.start_offset >= end.offset}
        earlier = [each for each in epochs if each not in later]  # Kafka lets an epoch pass that begins only then
        _check_validation(name, log, end, {*earlier, end.epoch, end.epoch + 1} - later)
    before = 0
    for entry in log.epochs:
        if entry.start_offset > 0 and entry.start_offset >= log.start_offset:
            twin, snapshot = copy(log), OffsetAndEpoch(entry.start_offset, before)
            twin._log = _Unmoved(log.unified, log.high_watermark, snapshot.offset)  # type: ignore[assignment]
            twin._ids = [snapshot]
            others = {*epochs, snapshot.epoch, snapshot.epoch + 1}
            _check_validation(f"{name}, were {snapshot} its start,", twin, snapshot, others)
        before = entry.epoch


def _check_validation(name: str, log: ReplicatedLog, end: OffsetAndEpoch, epochs: Iterable[int]) -> None:
    oldest = log._ids[0].epoch if log._ids else 0
    for other in sorted(epochs):
        found = log.validate(end.offset, other)
        if found.verdict is Verdict.SNAPSHOT and other < oldest:
            continue  # it might judge, and sends a snapshot all the same, as in Kafka
        require(
            (found.verdict is Verdict.VALID) is (other == end.epoch),
            f"{name} has a last record of epoch {end.epoch} before offset {end.offset}; of a log that ends there with "
            f"one of epoch {other} it says: {found}",
        )


def _check_commits(name: str, leader: LeaderState) -> None:
    """A leader commits with its own epoch's first record, and not before, though a majority has all that is older."""
    for end, is_committed in ((leader.epoch_start_offset, False), (leader.epoch_start_offset + 1, True)):
        twin = copy(leader)
        twin.high_watermark = None
        twin.voters = {key: copy(progress) for key, progress in leader.voters.items()}
        for progress in twin.voters.values():
            progress.end_offset = end
        twin._update_high_watermark()
        require(
            (twin.high_watermark is not None) is is_committed,
            f"{name} leads from offset {leader.epoch_start_offset} on; were all voters' logs to end at {end}, it would "
            f"take for committed what is below {twin.high_watermark}",
        )


def _check_history(name: str, history: LogHistory[Any]) -> None:
    """Truncated to where one of its values is, a log does not have that value any more, and has those before."""
    offsets = [offset for offset, _ in history._history]
    for end in offsets[1:]:
        twin = copy(history)
        twin.truncate_to(end)
        kept = [offset for offset, _ in twin._history]
        _require_kept(name, end, kept, offsets[: bisect_left(offsets, end)])


def _require_kept(name: str, end: int, kept: Sequence[int], expected: Iterable[int]) -> None:
    require(
        kept == list(expected),
        f"{name}, were its metadata log truncated to {end}, would go by the voters of the offsets {kept}; the log "
        f"would have {list(expected)}",
    )
