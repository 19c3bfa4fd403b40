"""What is true of every log, whatever happened to it: the laws that crash tests and random runs hold a log to.

Each law takes an open log (whose batches it reads from the .log files itself, header by header) and computes the answer
by the simplest road there is: a linear scan, a loop over all batches. `laws` names those that always hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pykraft.records.batch import RecordBatch, batches
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.leader_epoch_cache import EpochEntry
from pykraft.storage.log import UnifiedLog
from pykraft.storage.log_segment import LogSegment
from pykraft.storage.producer_state import ProducerStateManager
from pykraft.storage.transaction_index import AbortedTransaction
from tests.harness.storage import DIRECTORY, NEVER_MS, bytes_of


class Placed(NamedTuple):
    """A batch and where it begins in its file."""

    position: int
    batch: RecordBatch


def placed(segment: LogSegment) -> list[Placed]:
    """All batches of a segment, from its bytes alone."""
    data = memoryview(bytes_of(segment.records.region(0, segment.size)))
    found: list[Placed] = []
    position = 0
    for some in batches(data):
        found.append(Placed(position, some))
        position += some.size
    assert position == segment.size, f"{segment}: {segment.size - position} bytes at its end are no batch"
    return found


def all_batches(log: UnifiedLog) -> list[RecordBatch]:
    return [at.batch for segment in log.segments for at in placed(segment)]


# --- the laws ---------------------------------------------------------------------------------------------------------


def batches_are_whole_and_in_order(log: UnifiedLog) -> None:
    expected = log.segments[0].base_offset
    for segment in log.segments:
        assert segment.base_offset >= expected, f"{segment} begins below {expected}"
        expected = segment.base_offset  # behind a gap, an empty one ends where it begins
        for at in placed(segment):
            assert at.batch.is_valid, f"{at.batch} fails its checksum"
            assert at.batch.base_offset >= expected, f"{at.batch} begins below {expected}"
            expected = at.batch.next_offset
    assert log.log_end_offset == max(expected, log.log_start_offset)


def marks_are_in_order(log: UnifiedLog) -> None:
    assert log.segments[0].base_offset <= log.log_start_offset <= log.high_watermark <= log.log_end_offset
    assert log.last_stable_offset <= log.high_watermark
    assert log.recovery_point <= log.log_end_offset
    bases = [segment.base_offset for segment in log.segments]
    assert bases == sorted(set(bases)), "two segments begin at one offset"


def offset_index_entries_are_batches(log: UnifiedLog) -> None:
    for segment in log.segments:
        known = {at.batch.last_offset: at.position for at in placed(segment)}
        entries = [segment.offset_index[number] for number in range(len(segment.offset_index))]
        assert entries == sorted(set(entries)), f"{segment}: {entries} are out of order"
        for entry in entries:
            assert known.get(entry.offset) == entry.position, f"{segment}: {entry} is no batch"


def every_offset_is_found(log: UnifiedLog) -> None:
    for segment in log.segments:
        there = placed(segment)
        end = there[-1].batch.next_offset if there else segment.base_offset
        near = [range(max(at.batch.base_offset - 2, segment.base_offset), at.batch.next_offset + 1) for at in there]
        for offset in {segment.base_offset, end}.union(*near):
            expected = next((at.position for at in there if at.batch.last_offset >= offset), None)
            found = segment.find(offset)
            assert (found.position if found else None) == expected, f"{segment}: offset {offset} at {found}"


def time_index_entries_are_maxima(log: UnifiedLog) -> None:
    for segment in log.segments:
        maxima = dict(running_maxima(at.batch for at in placed(segment)))
        entries = [segment.time_index[number] for number in range(len(segment.time_index))]
        assert entries == sorted(set(entries)), f"{segment}: {entries} are out of order"
        for timestamp, offset in entries:
            assert maxima.get(offset) == timestamp, f"{segment}: ({timestamp}, {offset}) is no maximum"
        largest = max(maxima.values(), default=-1)
        assert segment.largest_timestamp().timestamp == largest, f"{segment}: largest timestamp"


def running_maxima(some: Iterable[RecordBatch]) -> list[tuple[int, int]]:
    """(last offset, max timestamp) of each batch that is younger than all before it."""
    found: list[tuple[int, int]] = []
    largest = -1
    for each in some:
        if each.max_timestamp > largest:
            largest = each.max_timestamp
            found.append((each.last_offset, largest))
    return found


def every_timestamp_is_found(log: UnifiedLog) -> None:
    records = [
        (record.timestamp, record.offset)
        for some in all_batches(log)
        for record in some.records()
        if record.offset >= log.log_start_offset
    ]
    for timestamp in {time + step for time, _ in records for step in (-1, 0, 1)}:
        expected = next((offset for time, offset in records if time >= timestamp), None)
        found = log.offset_for_timestamp(timestamp)
        assert (found.offset if found else None) == expected, f"timestamp {timestamp}: {found}, not {expected}"


def epochs_are_those_of_the_batches(log: UnifiedLog) -> None:
    known = [entry for entry in log.epochs.entries if entry.start_offset < log.log_end_offset]
    assert known == epochs_of(log), f"{known}, but the batches say {epochs_of(log)}"
    assert len(log.epochs.entries) - len(known) <= 1, "only the leader's own epoch may have no batch yet"


def no_epoch_is_ahead(log: UnifiedLog) -> None:
    """Right after a start: no leader has begun its own epoch yet."""
    assert all(entry.start_offset < log.log_end_offset for entry in log.epochs.entries), log.epochs.entries


def epochs_of(log: UnifiedLog) -> list[EpochEntry]:
    found: list[EpochEntry] = []
    for some in all_batches(log):
        is_new = not found or found[-1].epoch != some.partition_leader_epoch
        if some.next_offset > log.log_start_offset and some.partition_leader_epoch >= 0 and is_new:
            found.append(EpochEntry(some.partition_leader_epoch, max(some.base_offset, log.log_start_offset)))
    return found


class Producer(NamedTuple):
    """What the log must know of a producer, at the least."""

    epoch: int
    last_sequence: int
    last_offset: int
    coordinator_epoch: int
    open_since: int | None


def producers_are_those_of_the_batches(log: UnifiedLog) -> None:
    known = {
        producer_id: Producer(
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
        for producer_id, entry in log.producer_state.producers.items()
    }
    replayed, _ = replay(all_batches(log))
    assert known == replayed, f"{known}, but the batches say {replayed}"
    assert log.producer_state.map_end_offset == log.log_end_offset


def replay(some: Iterable[RecordBatch]) -> tuple[dict[int, Producer], list[AbortedTransaction]]:
    """The producers at the end of these batches, and the transactions that were aborted in them."""
    producers: dict[int, Producer] = {}
    aborted: list[AbortedTransaction] = []
    for each in some:
        if not each.has_producer_id:
            continue
        before = producers.get(each.producer_id, Producer(-1, -1, -1, -1, None))
        last_sequence, last_offset = before.last_sequence, before.last_offset
        if each.producer_epoch != before.epoch:
            last_sequence = last_offset = -1
        if not each.is_control:
            since = before.open_since
            if since is None and each.is_transactional:
                since = each.base_offset
            producers[each.producer_id] = Producer(
                each.producer_epoch, each.last_sequence, each.last_offset, before.coordinator_epoch, since
            )
            continue
        record = next(each.records())
        assert record.key is not None and record.value is not None
        coordinator_epoch = int.from_bytes(record.value[2:6], "big")
        producers[each.producer_id] = Producer(each.producer_epoch, last_sequence, last_offset, coordinator_epoch, None)
        if record.key[3] == 0 and before.open_since is not None:
            still_open = [other.open_since for other in producers.values() if other.open_since is not None]
            stable = min(still_open, default=each.next_offset)
            aborted.append(AbortedTransaction(each.producer_id, before.open_since, each.base_offset, stable))
    return producers, aborted


def aborted_transactions_are_indexed(log: UnifiedLog) -> None:
    _, expected = replay(all_batches(log))
    indexed = [aborted for segment in log.segments for aborted in segment.transaction_index.entries]
    assert indexed == expected, f"{indexed}, but the batches say {expected}"


def recovered_indexes_are_rebuilt_ones(log: UnifiedLog, trusted_below: int = 0) -> None:
    """Only right after a recovery: later an index depends on where the log was closed and opened in between. The same
    holds for segments that were trusted."""
    filesystem = MemoryFileSystem()
    filesystem.make_directory(DIRECTORY)
    state = ProducerStateManager(filesystem, DIRECTORY, NEVER_MS)
    for segment in log.segments:
        filesystem.write(
            f"{DIRECTORY}/{segment.base_offset:020d}.log", b"".join(at.batch.buffer for at in placed(segment))
        )
        again = LogSegment(filesystem, DIRECTORY, segment.base_offset, log.config, now_ms=0)
        end = again.recover(state, []).next_offset
        if end <= trusted_below and segment is not log.active_segment:
            continue
        for index, rebuilt in ((segment.offset_index, again.offset_index), (segment.time_index, again.time_index)):
            assert index._entries == rebuilt._entries, f"{index.path} is not what a rebuild gives"


Law = Callable[[UnifiedLog], None]

laws: tuple[Law, ...] = (
    batches_are_whole_and_in_order,
    marks_are_in_order,
    offset_index_entries_are_batches,
    every_offset_is_found,
    time_index_entries_are_maxima,
    epochs_are_those_of_the_batches,
    producers_are_those_of_the_batches,
    aborted_transactions_are_indexed,
)


def check(log: UnifiedLog, *more: Law) -> None:
    """Hold the log to the laws that always hold, and to these."""
    for law in (*laws, *more):
        law(log)
