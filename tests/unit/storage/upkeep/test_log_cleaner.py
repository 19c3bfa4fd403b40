"""Compaction: what stays, what goes, and when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykraft.common.core import finish
from pykraft.common.metrics import Metrics
from pykraft.common.types import Uuid
from pykraft.records.batch import DELETE_HORIZON, RecordBatch
from pykraft.records.compression import Compression
from pykraft.records.filtering import emptied, filtered
from pykraft.sim.world.disk import MemoryFile, MemoryFileSystem
from pykraft.storage.answers import Isolation
from pykraft.storage.disk.checkpoint import read_offsets
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.storage.disk.open_files import OPEN_FILES
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin
from pykraft.storage.segment_files import finish_leftovers
from pykraft.storage.transaction_index import AbortedTransaction
from pykraft.storage.upkeep.cleaner import ENTRY_BYTES, CleanedTransactions
from pykraft.storage.upkeep.log_cleaner import CleanerLimits, LogCleaner
from pykraft.storage.upkeep.log_manager import LogManager
from tests.harness.compaction import cleaner_of, compacting, fold, read_committed, records, shape_laws
from tests.harness.log_laws import all_batches
from tests.harness.storage import (
    DIRECTORY,
    LOGS,
    NEVER_MS,
    NOW_MS,
    PARTITION,
    ByHand,
    ManualClock,
    at,
    bytes_of,
    disk,
    marker,
    no_log_can_be_synced,
    open_log,
    produced,
)

DAY_MS = 86_400_000


class Compacted:
    """A compacted log, its cleaner and its clock. `put` appends one batch, and `close_segment` ends the segment: one
    append to the next one makes it certain that the segment may be cleaned."""

    def __init__(self, background: Any = None, buffer_bytes: int = 1 << 20, **config: Any) -> None:
        self.filesystem = disk()
        self.clock = ManualClock()
        self.log = open_log(self.filesystem, compacting(**{"segment_bytes": 100_000, **config}), clock=self.clock)
        fields = {"limits": CleanerLimits(buffer_bytes=buffer_bytes)}
        self.cleaner = cleaner_of(self.log, self.filesystem, self.clock, background, **fields)

    def put(self, *pairs: tuple[str | None, str | None], **fields: Any) -> int:
        some = records(*pairs, **{"timestamp": self.clock.now_ms, **fields})
        offset = self.log.append_as_leader(some, 0).first_offset
        self.log.update_high_watermark(self.log.log_end_offset)
        return offset

    def end(self, producer: int, committed: bool) -> int:
        some = marker(producer, committed, timestamp=self.clock.now_ms)
        offset = self.log.append_as_leader(some, 0, AppendOrigin.COORDINATOR).first_offset
        self.log.update_high_watermark(self.log.log_end_offset)
        return offset

    def close_segment(self) -> None:
        self.log.roll(self.log.log_end_offset)

    def clean(self) -> None:
        self.close_segment()
        self.cleaner.clean()

    def clean_again(self, after_ms: int) -> None:
        """Another pass; something dirty is there for it."""
        self.clock.now_ms += after_ms
        self.put(("another", "pass"))
        self.clean()

    @property
    def left(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [
            (record.offset, record.key, record.value)
            for each in all_batches(self.log)
            if not each.is_control
            for record in each.records()
        ]

    @property
    def offsets(self) -> list[int]:
        return [offset for offset, _, _ in self.left]


def producer(number: int, sequence: int, transactional: bool = False) -> dict[str, Any]:
    return {
        "producer_id": number,
        "producer_epoch": 0,
        "base_sequence": sequence,
        "transactional": transactional,
    }


def test_the_last_record_of_each_key_stays_where_it_was() -> None:
    some = Compacted()
    some.put(("a", "1"), ("b", "1"), ("a", "2"))
    some.put(("c", "1"), ("b", "2"))
    some.put(("a", "3"))
    some.clean()
    assert some.left == [(3, b"c", b"1"), (4, b"b", b"2"), (5, b"a", b"3")]
    assert some.log.log_end_offset == 6 and some.log.log_start_offset == 0
    shape_laws(some.log)
    assert fold(read_committed(some.log, 1)) == {b"a": b"3", b"b": b"2", b"c": b"1"}, "offset 1 is gone: go on at 3"


def test_a_key_of_the_clean_part_is_written_again() -> None:
    some = Compacted()
    some.put(("a", "1"), ("b", "1"))
    some.clean()
    some.put(("b", "2"))
    some.clean()
    assert some.left == [(0, b"a", b"1"), (2, b"b", b"2")]


def test_a_record_without_a_key_has_no_place() -> None:
    some = Compacted()
    compacted = some.log.config
    some.log.config = compacted.with_values(cleanup_policy=["delete"])  # later the topic is compacted, too
    some.put(("a", "1"), (None, "1"), ("b", "1"))
    some.log.config = compacted
    some.clean()
    assert some.offsets == [0, 2]


def test_keys_of_any_length_are_told_apart() -> None:
    keys = ["", "k", "k" * 15, "k" * 16, "k" * 17, "k" * 1000]
    some = Compacted()
    some.put(*[(key, "1") for key in keys])
    some.put(*[(key, "2") for key in keys[::2]])
    some.clean()
    assert some.offsets == [1, 3, 5, 6, 7, 8]


@pytest.mark.parametrize("codec", Compression)
def test_what_stays_of_a_compressed_batch_stays_compressed(codec: Compression) -> None:
    some = Compacted()
    some.put(*[(f"key {number}", "x" * 100) for number in range(20)], compression=codec, **producer(7, 0))
    some.put(("key 3", "new"))
    some.clean()
    first = all_batches(some.log)[0]
    assert first.compression is codec and first.count == 19 and first.is_valid
    assert (first.base_offset, first.last_offset, first.base_sequence, first.producer_id) == (0, 19, 0, 7)
    assert [record.offset for record in first.records()] == [each for each in range(20) if each != 3]
    assert [record.timestamp - NOW_MS for record in first.records()] == [each for each in range(20) if each != 3]


def test_timestamps_of_the_append_stay() -> None:
    batch = records(("a", "1"), ("b", "1"))
    batch.stamp(NOW_MS + 5000)
    kept = filtered(batch, lambda records: [each for each in records if each.offset == 0], horizon_ms=0)
    assert kept is not None
    again = RecordBatch(memoryview(kept))
    assert again.is_valid and again.uses_log_append_time and again.max_timestamp == NOW_MS + 5000
    assert RecordBatch(memoryview(emptied(batch))).max_timestamp == NOW_MS + 5000


# --- what may be cleaned, and when ------------------------------------------------------------------------------------


def test_the_active_segment_is_left_alone() -> None:
    some = Compacted()
    some.put(("a", "1"))
    some.put(("a", "2"))
    some.cleaner.clean()
    assert some.offsets == [0, 1]


def test_what_is_not_replicated_decides_over_nothing() -> None:
    some = Compacted()
    some.put(("a", "1"))
    some.close_segment()
    some.put(("a", "2"))
    some.log.high_watermark = 1
    some.clean()
    assert some.offsets == [0, 1]
    some.log.update_high_watermark(2)
    some.cleaner.clean()
    assert some.offsets == [1]


def test_what_follows_an_open_transaction_decides_over_nothing() -> None:
    some = Compacted()
    some.put(("a", "1"))
    some.put(("b", "1"))
    some.close_segment()
    some.put(("a", "2"), **producer(7, 0, transactional=True))
    some.put(("b", "2"))
    some.clean()
    assert some.offsets == [0, 1, 2, 3]
    some.end(7, committed=True)
    some.clean()
    assert some.offsets == [2, 3]


def test_young_records_are_not_compacted() -> None:
    some = Compacted(min_compaction_lag_ms=1000)
    some.put(("a", "1"))
    some.put(("a", "2"))
    some.clean()
    some.clock.now_ms += 999
    some.cleaner.clean()
    assert some.offsets == [0, 1]
    some.clock.now_ms += 2
    some.cleaner.clean()
    assert some.offsets == [1]


def test_a_log_is_compacted_when_enough_of_it_is_dirty() -> None:
    some = Compacted(min_cleanable_dirty_ratio=0.5)
    some.put(*[(f"{number}", "x" * 50) for number in range(20)])
    some.clean()
    for number in range(20):
        some.put((f"{number}", "y" * 50))
        some.close_segment()
        ratio = some.cleaner.candidate(some.log, some.clock.now_ms).dirty_ratio
        some.cleaner.clean()
        assert (some.cleaner.first_dirty[PARTITION] == some.log.log_end_offset) == (ratio > 0.5)
        if ratio > 0.5:
            break
    assert 5 < number < 19


def test_a_record_that_waits_too_long_is_compacted_at_any_ratio() -> None:
    some = Compacted(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
    some.put(("a", "1"))
    some.put(("a", "2"))
    for after_ms, left in ((1000, [0, 1]), (1, [1])):
        some.clock.now_ms += after_ms
        some.clean()
        assert some.offsets == left


def test_the_dirtiest_log_comes_first() -> None:
    filesystem, background, clock = disk(), ByHand(), ManualClock()
    logs = {}
    for number, dirty in enumerate((1, 30, 5)):
        log = open_log(filesystem, compacting(segment_bytes=1000), directory=f"{LOGS}/t-{number}", clock=clock)
        log.topic_partition = log.topic_partition._replace(topic="t", partition=number)
        logs[log.topic_partition] = log
        log.append_as_leader(records(*[(f"{key}", "x") for key in range(30)]), 0)
        log.roll(30)
        for _ in range(dirty):
            log.append_as_leader(records(("0", "y")), 0)
        log.update_high_watermark(log.log_end_offset)
        log.roll(log.log_end_offset)
    cleaner = LogCleaner(filesystem=filesystem, directory=LOGS, logs=logs, clock=clock, background=background)
    cleaner.first_dirty = dict.fromkeys(logs, 30)
    order = []
    cleaner.clean()
    while cleaner.current is not None:
        if cleaner.current.log.topic_partition.partition not in order:
            order.append(cleaner.current.log.topic_partition.partition)
        background.run_job()
        background.deliver()
    assert order == [1, 2, 0]


# --- tombstones -------------------------------------------------------------------------------------------------------


def test_a_tombstone_stays_until_its_delete_horizon() -> None:
    some = Compacted(delete_retention_ms=1000)
    some.put(("a", "1"), ("b", "1"))
    offset = some.put(("c", "1"), ("a", None))
    some.clean()
    assert some.offsets == [1, 2, 3]
    batch = all_batches(some.log)[1]
    assert batch.attributes & DELETE_HORIZON and batch.delete_horizon_ms == NOW_MS + 1000
    assert [record.timestamp for record in batch.records()] == [NOW_MS, NOW_MS + 1], "timestamps do not change"
    some.clean_again(after_ms=999)
    assert offset + 1 in some.offsets
    some.clean_again(after_ms=1)
    assert offset + 1 not in some.offsets and offset in some.offsets


def test_the_first_pass_sets_the_horizon_however_old_the_tombstone_is() -> None:
    some = Compacted(delete_retention_ms=1000)
    some.put(("a", None), timestamp=NOW_MS - 10 * DAY_MS)
    some.clean()
    assert some.offsets == [0]
    some.clean_again(after_ms=500)
    assert all_batches(some.log)[0].delete_horizon_ms == NOW_MS + 1000, "no later pass moves it"


# --- transactions and producers ---------------------------------------------------------------------------------------


def test_aborted_records_go_at_once_and_decide_over_nothing() -> None:
    some = Compacted()
    some.put(("a", "1"))
    some.put(("a", "2"), **producer(7, 0, transactional=True))
    some.put(("b", "1"), **producer(7, 1, transactional=True))
    some.end(7, committed=False)
    some.clean()
    assert some.left == [(0, b"a", b"1")]
    assert [each.base_offset for each in all_batches(some.log)] == [0, 2, 3], "the producer's last batch is a header"
    assert read_committed(some.log, 0)[0].value == b"1"


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_goes_after_its_transaction_and_its_horizon(committed: bool) -> None:
    some = Compacted(delete_retention_ms=1000)
    some.put(("a", "1"), **producer(7, 0, transactional=True))
    offset = some.end(7, committed)
    some.put(("a", "2"), **producer(7, 1))
    some.clean()

    def has_marker() -> bool:
        return any(each.base_offset == offset for each in all_batches(some.log))

    assert has_marker(), "the batch of its transaction was there when this pass came by"
    indexed = [len(segment.transaction_index.entries) for segment in some.log.segments]
    assert sum(indexed) == (0 if committed else 1)
    some.clean_again(after_ms=1)
    assert has_marker(), "nothing is left of the transaction: from now on it has a horizon"
    assert sum(len(segment.transaction_index.entries) for segment in some.log.segments) == 0
    some.clean_again(after_ms=999)
    assert has_marker()
    some.clean_again(after_ms=1)
    assert not has_marker()


def test_a_marker_whose_transaction_went_before_decides_over_nothing_that_follows() -> None:
    some = Compacted()
    some.put(("a", "1"), **producer(7, 0, transactional=True))
    some.end(7, committed=False)
    some.put(("a", "2"), **producer(7, 1, transactional=True))
    some.end(7, committed=True)
    some.clean()
    some.clean_again(after_ms=1)
    assert (2, b"a", b"2") in some.left


def test_each_transaction_of_a_producer_is_looked_at_by_itself() -> None:
    aborted = [AbortedTransaction(7, first, last, last + 1) for first, last in ((0, 1), (2, 3))]
    transactions = CleanedTransactions(aborted)
    assert transactions.pass_batch(at(0, produced(7, 0, transactional=True)))
    assert transactions.pass_marker(at(1, marker(7, committed=False))) == (False, aborted[0])
    assert transactions.pass_marker(at(3, marker(7, committed=False))) == (True, None), "nothing was left of it"
    assert not transactions.pass_batch(at(4, produced(7, 1))), "of no transaction"
    assert transactions.pass_marker(at(5, marker(7, committed=True))) == (True, None)


def test_the_batch_of_the_marker_that_fenced_a_producer_stays_as_long_as_the_producer() -> None:
    """As in Kafka, its header alone: nothing of the transaction is left."""
    some = Compacted(delete_retention_ms=1000)
    some.put(("a", "1"), **producer(7, 0, transactional=True))
    some.log.append_as_leader(marker(7, committed=True, epoch=1), 0, AppendOrigin.COORDINATOR)
    some.put(("a", "2"))
    for _ in range(4):
        some.clean_again(after_ms=1000)
    assert [key for _, key, _ in some.left] == [b"a", b"another"], "the passes after that had nothing to complain of"
    assert [each.count for each in all_batches(some.log) if each.is_control and each.producer_epoch == 1] == [0]


def test_a_producers_last_batch_keeps_its_sequence_number() -> None:
    some = Compacted()
    some.put(("a", "1"), ("a", "2"), **producer(7, 0))
    some.put(("a", "3"), ("a", "4"), **producer(7, 2))
    some.put(("a", "5"))
    some.clean()
    some.close_segment()
    assert some.offsets == [4]
    some.filesystem.crash_process()
    for name in some.filesystem.list(DIRECTORY):
        if name.endswith(".snapshot"):
            some.filesystem.remove(f"{DIRECTORY}/{name}")
    again = open_log(some.filesystem, some.log.config)
    repeated = records(("a", "3"), ("a", "4"), **producer(7, 2))
    assert again.append_as_leader(repeated, 0).first_offset == 2 and again.log_end_offset == 5


# --- segments ---------------------------------------------------------------------------------------------------------


def test_small_segments_are_put_together() -> None:
    some = Compacted(segment_bytes=500)
    for number in range(60):
        some.put((f"key {number % 4}", "x" * 20))
    some.clean()
    before = [segment.base_offset for segment in some.log.segments]
    some.clean_again(after_ms=1)
    after = [segment.base_offset for segment in some.log.segments]
    assert len(after) < 6 < 12 < len(before) and set(after) <= set(before) | {some.log.log_end_offset}
    assert all(segment.size <= 500 for segment in some.log.segments)
    shape_laws(some.log)


def test_a_segment_ends_where_the_next_one_begins() -> None:
    some = Compacted(segment_bytes=500)
    for number in range(60):
        some.put((f"key {number % 4}", "x" * 20))
    some.clean()
    for segment, following in zip(some.log.segments, some.log.segments[1:], strict=False):
        assert segment.next_offset() == following.base_offset


def test_a_full_map_ends_the_pass_and_the_next_one_goes_on() -> None:
    some = Compacted(buffer_bytes=10 * ENTRY_BYTES)
    for number in range(100):
        some.put((f"key {number % 35}", f"{number}"))
    some.close_segment()
    passes = []
    original = some.cleaner._write
    some.cleaner._write = lambda: (passes.append(some.cleaner.first_dirty[PARTITION]), original())  # type: ignore[func-returns-value,method-assign]
    some.cleaner.clean()
    assert len(passes) > 4 and passes == sorted(passes) and passes[-1] == 100
    assert [offset for offset in some.offsets if offset >= 65] == list(range(65, 100))
    assert fold(read_committed(some.log, 0)) == {
        f"key {number % 35}".encode(): f"{number}".encode() for number in range(100)
    }


def test_who_was_promised_bytes_of_a_segment_gets_them() -> None:
    some = Compacted()
    some.put(("a", "1"))
    some.put(("a", "2"))
    records_of_old = some.log.segments[0].records
    before = bytes_of(records_of_old.region(0, records_of_old.size))
    some.clean()
    assert some.log.segments[0].records is not records_of_old
    assert bytes_of(records_of_old.region(0, records_of_old.size)) == before


def test_who_was_promised_bytes_gets_them_after_the_next_compaction_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both segments are deleted under the same name, and the file of the first has to be opened again."""
    directory, filesystem = str(tmp_path / "flights-0"), OsFileSystem()
    log = open_log(filesystem, compacting(segment_bytes=100_000), directory=directory)
    cleaner = cleaner_of(log, filesystem, ManualClock(), checkpoint_directory=str(tmp_path))
    promised = []
    for number in range(3):
        some = records(*[(f"key {each}", f"{number}") for each in range(9 - number)], timestamp=NOW_MS)
        log.append_as_leader(some, 0)
        log.update_high_watermark(log.log_end_offset)
        region = log.read(0, 1 << 20, Isolation.HIGH_WATERMARK, at_least_one=True).records
        promised.append((region, bytes_of(region)))
        log.roll(log.log_end_offset)
        cleaner.clean()
    deleted = {name for name in filesystem.list(directory) if name.endswith("deleted")}
    assert deleted >= {f"{0:020d}.log{suffix}.deleted" for suffix in ("", ".2", ".3")}
    for file in list(OPEN_FILES._ring):
        OPEN_FILES.close(file)
    assert all(bytes_of(region) == before for region, before in promised)
    log.close()
    again = open_log(filesystem, compacting(), directory=directory, clean=True)
    assert not [name for name in filesystem.list(directory) if name.endswith("deleted")]
    again.abandon()


# --- a pass and the world around it -----------------------------------------------------------------------------------


def cleaned_names(filesystem: MemoryFileSystem) -> list[str]:
    return [name for name in filesystem.list(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def halfway(cleaner: LogCleaner, background: ByHand) -> None:
    """A pass is done but for the swap."""
    cleaner.clean()
    background.run_job()
    assert cleaner.current is not None


def in_background() -> tuple[Compacted, ByHand]:
    background = ByHand()
    some = Compacted(background=background)
    some.put(("a", "1"))
    some.put(("a", "2"))
    some.close_segment()
    some.put(("b", "1"))
    return some, background


def test_appends_go_on_while_a_log_is_cleaned() -> None:
    some, background = in_background()
    halfway(some.cleaner, background)
    assert some.offsets == [0, 1, 2] and cleaned_names(some.filesystem)
    some.put(("a", "3"))
    background.run()
    assert some.offsets == [1, 2, 3] and not cleaned_names(some.filesystem)
    shape_laws(some.log)


def test_a_pass_whose_log_was_truncated_is_dropped() -> None:
    some, background = in_background()
    halfway(some.cleaner, background)
    some.log.truncate_to(1)
    background.run()
    assert some.cleaner.current is None and some.offsets == [0] and not cleaned_names(some.filesystem)


def test_a_pass_whose_log_is_to_be_compacted_no_more_is_dropped() -> None:
    some, background = in_background()
    halfway(some.cleaner, background)
    some.log.config = some.log.config.with_values(cleanup_policy=["delete"])
    background.run()
    assert some.cleaner.current is None and some.offsets == [0, 1, 2] and not cleaned_names(some.filesystem)
    assert some.cleaner.first_dirty == {}


def test_a_log_that_is_closed_is_not_begun_again_and_again() -> None:
    background = ByHand()
    some = Compacted(background)
    some.put(("a", "1"))
    some.clean()
    some.log.close()
    background.run()
    assert some.cleaner.current is None and some.cleaner.first_dirty == {}


def test_a_pass_whose_log_is_closed_is_dropped() -> None:
    for steps in range(2):
        some, background = in_background()
        some.cleaner.clean()
        for _ in range(steps):
            background.run_job()
        some.log.close()
        while background.jobs:
            background.run_job()
        again = open_log(some.filesystem, some.log.config, clean=True)
        assert not cleaned_names(some.filesystem) and len(all_batches(again)) == 3


def test_a_disk_that_fails_under_a_pass_that_is_overtaken_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    some, background = in_background()
    some.cleaner.clean()
    some.log.truncate_to(2)
    some.put(("c", "1"))
    monkeypatch.setattr(MemoryFile, "sync", no_log_can_be_synced)
    with pytest.raises(OSError, match="input/output"):
        background.run_job()


@pytest.mark.parametrize("name", ["00000.log", "00000.index"])
def test_a_pass_that_goes_on_within_a_truncation_is_dropped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread in the background finds segments closed, and files gone, of a log that is being cut just then."""
    some, background = in_background()
    background.run()
    some.log.flush()
    some.cleaner.clean()
    during(monkeypatch, "remove", name, background.run_job)
    some.log.truncate_fully(1000)
    background.run()
    assert some.cleaner.current is None and not cleaned_names(some.filesystem)


def during(monkeypatch: pytest.MonkeyPatch, operation: str, name: str, action: Callable[[], None]) -> None:
    """Do this just after the disk has done that to the first file with such a name."""
    original, waiting = getattr(MemoryFileSystem, operation), [action]

    def operate(filesystem: MemoryFileSystem, path: str) -> Any:
        done = original(filesystem, path)
        if path.endswith(name) and waiting:
            waiting.pop()()
        return done

    monkeypatch.setattr(MemoryFileSystem, operation, operate)


def test_a_pass_whose_log_is_deleted_while_it_takes_back_what_it_wrote_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder gets its other name between two files."""
    some, background = in_background()
    background.run()
    folder = some.log.directory
    during(monkeypatch, "open", ".log.cleaned", some.log.abandon)
    during(monkeypatch, "remove", ".log.cleaned", lambda: some.filesystem.rename(folder, f"{LOGS}/elsewhere"))
    some.cleaner.clean()
    background.run()
    assert some.cleaner.current is None and some.filesystem.exists(f"{LOGS}/elsewhere")


def test_a_log_that_cannot_be_read_is_set_aside() -> None:
    some = Compacted()
    some.put(("a", "1"))
    some.put(("a", "2"))
    path = f"{DIRECTORY}/{0:020d}.log"
    data = bytearray(some.filesystem.read(path))
    data[-1] ^= 1
    some.filesystem.write(path, data)
    some.clean()
    assert "fails its checksum" in some.cleaner.uncleanable[PARTITION]
    assert not cleaned_names(some.filesystem) and some.cleaner.current is None
    some.cleaner.clean()
    assert some.cleaner.current is None


def test_a_log_of_which_not_even_the_first_time_can_be_read_is_set_aside() -> None:
    some = Compacted()
    some.put(("a", "1"))
    some.close_segment()
    some.log.close()
    path = f"{DIRECTORY}/{0:020d}.log"
    data = bytearray(some.filesystem.read(path))
    data[16] ^= 1  # the magic byte
    some.filesystem.write(path, data)
    log = open_log(some.filesystem, some.log.config, clean=True, clock=some.clock)
    log.update_high_watermark(log.log_end_offset)
    cleaner = cleaner_of(log, some.filesystem, some.clock)
    metrics = Metrics()
    cleaner.register_gauges(metrics)
    cleaner.clean()
    assert "has no batch header at byte 0" in cleaner.uncleanable[PARTITION]
    gauges = {name.split(",")[0]: value for _, name, value in metrics.read()}
    assert gauges["uncleanable-bytes"] == len(data) and gauges["max-dirty-percent"] == 0


def test_the_checkpoint_says_up_to_where_a_log_is_clean() -> None:
    some = Compacted()
    some.put(("a", "1"), ("a", "2"))
    some.clean()
    path = f"{LOGS}/cleaner-offset-checkpoint"
    assert some.filesystem.read(path) == b"0\n1\nflights 0 2\n"
    again = cleaner_of(some.log, some.filesystem, some.clock)
    again.start()
    assert again.first_dirty == {PARTITION: 2}
    some.log.truncate_to(0)
    again.on_truncated(some.log)
    assert read_offsets(some.filesystem, path) == {PARTITION: some.log.log_end_offset}
    again.forget([PARTITION])
    assert read_offsets(some.filesystem, path) == {}


def test_a_mark_above_the_end_of_its_log_is_not_believed() -> None:
    some = Compacted()
    some.put(("a", "1"))
    some.filesystem.write(f"{LOGS}/cleaner-offset-checkpoint", b"0\n2\nflights 0 20\ngone 0 5\n")
    some.cleaner.start()
    assert some.cleaner.first_dirty == {PARTITION: 1}


def test_a_log_is_not_shortened_while_it_is_cleaned() -> None:
    background, clock = ByHand(), ManualClock()
    manager = LogManager(
        filesystem=disk(),
        directory=LOGS,
        config_for=lambda _: compacting(cleanup_policy=["compact", "delete"], retention_ms=1000),
        clock=clock,
        background=background,
        random=Random(1),
        producer_id_expiration_ms=NEVER_MS,
    )
    manager.start()
    log: UnifiedLog = manager.get_or_create(PARTITION, Uuid(b"\x01" * 16))
    for number in range(40):
        log.append_as_leader(records((f"{number % 3}", "x"), timestamp=NOW_MS + number), 0)
    log.update_high_watermark(40)
    background.run()
    finish(manager.compact())
    assert manager.cleaner.is_busy_with(log)
    clock.now_ms += DAY_MS
    finish(manager.compact())
    assert log.log_start_offset == 0
    background.run()
    finish(manager.compact())
    assert log.log_start_offset == 40
    manager.cleaner.clean()
    manager.delete(PARTITION)
    background.run()
    assert manager.cleaner.first_dirty == {} and manager.cleaner.current is None


# --- what a crash leaves ----------------------------------------------------------------------------------------------

A, B, C = (f"{base:020d}" for base in (0, 10, 20))


@pytest.mark.parametrize(
    ("there", "left"),
    [
        ([f"{A}.log", f"{A}.index", f"{A}.index.tmp", f"{B}.index"], [f"{A}.index", f"{A}.log"]),
        ([f"{A}.log", "leader-epoch-checkpoint.tmp", "partition.metadata.tmp"], [f"{A}.log"]),
        ([f"{A}.log", "my.deleted", "my.index", "thesis.tmp"], [f"{A}.log", "my.deleted", "my.index", "thesis.tmp"]),
        ([f"{A}.log", f"{A}.log.deleted", f"{B}.index.deleted"], [f"{A}.log"]),
        ([f"{A}.log", f"{A}.log.cleaned", f"{A}.index.cleaned"], [f"{A}.log"]),
        ([f"{A}.log", f"{A}.log.cleaned", f"{A}.index.swap"], [f"{A}.log"]),
        ([f"{A}.log", f"{A}.txnindex", f"{A}.log.swap", f"{A}.index.swap"], [f"{A}.index", f"{A}.log"]),
        ([f"{A}.log", f"{A}.index", f"{A}.timeindex.swap"], [f"{A}.index", f"{A}.log", f"{A}.timeindex"]),
        ([f"{A}.log.swap", f"{B}.log", f"{B}.index", f"{C}.log"], [f"{A}.log", f"{C}.log"]),
        ([f"{A}.log.swap", f"{B}.log.cleaned", f"{B}.log"], [f"{A}.log"]),
        ([f"{A}.log", f"{B}.log.swap", f"{A}.log.cleaned"], [f"{A}.log"]),
        (
            ["notes", "partition.metadata", "leader-epoch-checkpoint"],
            ["leader-epoch-checkpoint", "notes", "partition.metadata"],
        ),
    ],
)
def test_leftovers_are_finished_or_taken_back(there: list[str], left: list[str]) -> None:
    filesystem = disk()
    filesystem.make_directory(DIRECTORY)
    up_to_19 = records(*[("a", "1")] * 20)
    for name in there:
        filesystem.write(f"{DIRECTORY}/{name}", up_to_19.buffer)
    finish_leftovers(filesystem, DIRECTORY)
    assert filesystem.list(DIRECTORY) == left
