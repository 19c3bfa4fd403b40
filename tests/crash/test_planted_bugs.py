"""Bugs put into the storage on purpose: each must be seen by the suite.

A row names a bug, plants it, and names the check that has to fail then: one that the suite runs anyway, on the same
stories and laws. Without a bug every check passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import GeneratorType
from typing import Any

import pytest

from pykraft.common.core import Steps
from pykraft.common.errors import CorruptRecordError, KafkaError
from pykraft.records.batch import RecordBatch
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage import leader_epoch_cache
from pykraft.storage.disk import checkpoint
from pykraft.storage.disk.checkpoint import DamagedFileError
from pykraft.storage.disk.filesystem import Data, FileSystem
from pykraft.storage.file_records import FileRecords
from pykraft.storage.index import OffsetIndex, TimeIndex
from pykraft.storage.leader_epoch_cache import LeaderEpochCache
from pykraft.storage.log import LogOwner, UnifiedLog
from pykraft.storage.log_segment import LogSegment
from pykraft.storage.log_segments import LogSegments
from pykraft.storage.producer_state import BatchMetadata, ProducerEntry, ProducerStateManager, ProducerUpdate
from pykraft.storage.upkeep import log_loader
from pykraft.storage.upkeep.log_loader import LogLoader, ignore
from pykraft.storage.upkeep.log_manager import LogManager
from tests.crash import test_crash_log as log_crashes
from tests.crash import test_crash_manager as manager_crashes
from tests.crash import test_failing_disk as failing
from tests.golden import test_golden_storage as golden
from tests.harness.log_laws import check, every_timestamp_is_found
from tests.harness.storage import batch, end_transaction, fill, open_log, produced, read_batches, tiny
from tests.harness.story import Player
from tests.unit.storage import test_log as appending
from tests.unit.storage.upkeep import test_damage as damage
from tests.unit.storage.upkeep import test_log_loader as loading

# --- checks: each is a piece of the suite, in its own words there -----------------------------------------------------


def processes_end() -> None:
    for name in log_crashes.SCRIPTS:
        log_crashes.test_a_log_keeps_every_append_when_its_process_ends(name)


def the_power_fails() -> None:
    for name in log_crashes.SCRIPTS:
        log_crashes.test_a_log_keeps_what_was_synced_when_the_power_fails(name)


def the_power_fails_in_random_stories() -> None:
    for seed in range(6):
        log_crashes.test_a_log_survives_random_stories(seed)


def a_directory_loses_its_power() -> None:
    for name in manager_crashes.STORIES:
        for seed in range(3):
            manager_crashes.test_a_directory_survives_a_loss_of_power_at_any_moment(name, seed)


def a_directory_keeps_what_follows_gaps() -> None:
    manager_crashes.test_a_directory_survives_the_end_of_its_process_at_any_moment(
        "batches come behind gaps that no index can express"
    )


def a_directory_stops_with_one_sync_for_all() -> None:
    for seed in range(4):
        with pytest.MonkeyPatch.context() as monkeypatch:
            manager_crashes.test_a_directory_whose_logs_are_synced_at_once_survives_a_loss_of_power(seed, monkeypatch)


def a_directory_crashes_twice() -> None:
    for name in manager_crashes.STORIES:
        for seed in range(2):
            manager_crashes.test_a_second_loss_of_power_soon_after_a_crash_finds_no_stale_claims(name, seed)


def logs_are_cut() -> None:
    for offset in range(40):
        log = open_log(config=tiny())
        for epoch in range(4):
            fill(log, 5, leader_epoch=epoch)
        log.update_high_watermark(30)
        log.truncate_to(offset)
        check(log, every_timestamp_is_found)


def producers_repeat_themselves() -> None:
    log = open_log()
    log.append_as_leader(produced(7, 0, 3), 0)
    info = log.append_as_leader(produced(7, 0, 3), 0)
    assert (info.first_offset, log.log_end_offset) == (0, 3)
    with pytest.raises(KafkaError):
        log.append_as_leader(produced(7, 0, 2), 0)


def followers_get_transactions_at_once() -> None:
    leader, follower = open_log(), open_log()
    for producer in (7, 8):
        leader.append_as_leader(produced(producer, 0, transactional=True), 0)
    for producer in (7, 8):
        end_transaction(leader, producer, committed=False)
    follower.append_as_follower(memoryview(b"".join(bytes(some.buffer) for some in read_batches(leader))))
    check(follower)


def decided_transactions_stay_decided() -> None:
    log = open_log()
    log.append_as_leader(produced(7, 0, transactional=True), 0)
    end_transaction(log, 7, committed=True)
    log.append_as_leader(batch(1), 0)
    log.update_high_watermark(2)
    log.truncate_to(2)
    assert log.last_stable_offset == 2


def kafkas_files_are_written_again() -> None:
    for folder in golden.LOG_FOLDERS:
        for way in golden.WAYS:
            golden.test_a_log_that_gets_the_same_batches_writes_the_same_files(folder, way)


def rolls_leave_snapshots() -> None:
    player = Player()
    player.play([("append", (3, 7))] * 12)
    bases = [segment.base_offset for segment in player.now.segments[1:]]
    assert player.now.producer_state.snapshot_offsets() == bases


def epochs_are_learned_from_the_batches() -> None:
    loading.test_epochs_of_what_was_read_through_are_those_of_the_batches()


def rebuilt_indexes_are_interrupted() -> None:
    for suffix in ("index", "timeindex"):
        log_crashes.test_an_index_that_is_rebuilt_is_the_old_file_or_the_new_one(suffix)


def stale_indexes_are_found() -> None:
    loading.test_indexes_that_do_not_fit_are_rebuilt(clean=True, suffix="index", content=b"\xff" * 24)


def older_indexes_are_found() -> None:
    damage.test_an_index_of_a_longer_life_of_its_segment_is_made_anew()


def batches_go_missing() -> None:
    damage.test_a_log_that_lost_whole_batches_goes_on_and_is_closed_in_order(0)


def a_sync_fails() -> None:
    failing.test_a_finished_segment_that_cannot_be_synced_stops_its_log()


def writes_fail() -> None:
    for name in ("segments are rolled and synced behind", "a follower takes many batches at once"):
        failing.test_a_log_keeps_what_was_acknowledged(name, "an I/O error")


def syncs_come_beside_writes() -> None:
    appending.test_a_sync_beside_a_write_does_not_count_what_is_being_written()


def records_are_deleted() -> None:
    name = "records are deleted, and segments after them"
    manager_crashes.test_a_directory_survives_the_end_of_its_process_at_any_moment(name)


# Those that are more than a call of another test, which runs without a bug anyway.
CHECKS = [
    logs_are_cut,
    producers_repeat_themselves,
    followers_get_transactions_at_once,
    decided_transactions_stay_decided,
    rolls_leave_snapshots,
]


@pytest.mark.parametrize("check_of_the_suite", CHECKS)
def test_without_a_bug_nothing_is_seen(check_of_the_suite: Callable[[], None]) -> None:
    check_of_the_suite()


# --- bugs -------------------------------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def nothing(*_: Any, **__: Any) -> None:
    """What a forgotten call does."""


def forget(owner: Any, name: str) -> Plant:
    """The method does nothing."""
    return lambda monkeypatch: monkeypatch.setattr(owner, name, nothing)


def without_folder_syncs(owner: Any, name: str) -> Plant:
    """While this one runs, no folder is synced."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        original = getattr(owner, name)

        def in_steps(steps: Steps[Any]) -> Steps[Any]:
            with pytest.MonkeyPatch.context() as within:
                within.setattr(MemoryFileSystem, "sync_directory", nothing)
                return (yield from steps)

        def run(*arguments: Any, **fields: Any) -> Any:
            with pytest.MonkeyPatch.context() as within:
                within.setattr(MemoryFileSystem, "sync_directory", nothing)
                found = original(*arguments, **fields)
            return in_steps(found) if isinstance(found, GeneratorType) else found

        monkeypatch.setattr(owner, name, run)

    return plant


def instead(owner: Any, name: str, function: Any) -> Plant:
    return lambda monkeypatch: monkeypatch.setattr(owner, name, function)


def trusting(segment: LogSegment, start: int, following: int) -> Iterator[tuple[int, RecordBatch]]:
    try:
        yield from segment.records.batches(start)
    except CorruptRecordError:
        return


def by_first_sequence(entry: ProducerEntry, some: RecordBatch) -> BatchMetadata | None:
    return next((known for known in entry.batches if known.first_sequence == some.base_sequence), None)


def newest_of_all(state: ProducerStateManager, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
    state._clear()
    state.map_end_offset = log_start_offset
    for offset in state.snapshot_offsets()[-1:]:
        state._load(offset, now_ms)


_after_truncation = UnifiedLog._after_truncation


def with_the_old_high_watermark(log: UnifiedLog) -> None:
    before = log.high_watermark
    _after_truncation(log)
    log.high_watermark = before


def rebuilt_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewrite(index: Any) -> None:
        index._file.truncate(0)
        index._file.append(bytes(index._entries))
        index._file.sync()
        index._written = len(index._entries)

    monkeypatch.setattr(OffsetIndex, "rewrite", rewrite)
    monkeypatch.setattr(TimeIndex, "rewrite", rewrite)


def all_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last stable offset of each transaction as it is after the whole append."""

    def plan(state: ProducerStateManager, *arguments: Any) -> ProducerUpdate:
        update = original(state, *arguments)
        last = max((each.last_stable_offset for each in update.completed), default=0)
        update.completed[:] = [each._replace(last_stable_offset=last) for each in update.completed]
        return update

    original = ProducerStateManager.plan
    monkeypatch.setattr(ProducerStateManager, "plan", plan)


def in_place(filesystem: FileSystem, path: str, data: Data, sync_directory: bool = True) -> None:
    filesystem.write(path, data)


def replaced_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (checkpoint, leader_epoch_cache):
        monkeypatch.setattr(module, "replace_file", in_place)


def by_first_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OffsetIndex.append
    monkeypatch.setattr(OffsetIndex, "append", lambda index, offset, position: original(index, offset - 1, position))


def marker_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal of the clean-shutdown marker is not synced."""
    original = MemoryFileSystem.sync_directory
    monkeypatch.setattr(
        MemoryFileSystem, "sync_directory", lambda disk, path: None if path == "/logs" else original(disk, path)
    )


def accepts_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that begins behind the end of the one before it is taken as it is."""
    monkeypatch.setattr(log_loader, "_was_kafka", lambda _: True)


def leaves_gaps_unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the log does not learn that all before a gap is on the disk."""
    monkeypatch.setattr(log_loader, "LogOwner", lambda on_truncated, _: LogOwner(on_truncated, ignore))


def unsynced_truncation(segment: LogSegment, size: int) -> None:
    segment.records.truncate(size)


def all_epochs_kept(epochs: LeaderEpochCache, start_offset: int, found: Any) -> None:
    """What the file says is believed after a crash."""
    latest = -1 if epochs.latest_epoch is None else epochs.latest_epoch
    epochs.entries += [entry for entry in found if entry.epoch > latest]
    epochs.write(1 << 60)


def without_timestamps(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ProducerEntry.after_batch
    monkeypatch.setattr(
        ProducerEntry,
        "after_batch",
        lambda entry, *arguments: replace(original(entry, *arguments), last_timestamp=0),
    )


def marker_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays where it is when the node has started."""
    original = MemoryFileSystem.remove
    monkeypatch.setattr(
        MemoryFileSystem,
        "remove",
        lambda disk, path: None if path.endswith(checkpoint.CLEAN_SHUTDOWN) else original(disk, path),
    )


def renamed_before_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace_file(filesystem: FileSystem, path: str, data: Data, sync_directory: bool = True) -> None:
        temporary = path + ".tmp"
        if filesystem.exists(temporary):
            filesystem.remove(temporary)
        file = filesystem.open(temporary)
        file.append(data)
        filesystem.rename(temporary, path)
        filesystem.sync_directory(path.rpartition("/")[0])
        file.sync()
        file.close()

    for module in (checkpoint, leader_epoch_cache):
        monkeypatch.setattr(module, "replace_file", replace_file)


_close = LogManager.close


def marker_comes_first(manager: LogManager, broker_epoch: int) -> None:
    checkpoint.write_clean_shutdown(manager._filesystem, manager.directory, broker_epoch)
    _close(manager, broker_epoch)


def named_before_the_sync(epochs: LeaderEpochCache, log_end_offset: int) -> bool:
    """The half-written file takes the place of the old one at once."""
    if not _write_beside(epochs, log_end_offset):
        return False
    epochs.put_in_place(log_end_offset)
    return False


_write_beside = LeaderEpochCache.write_beside


def syncs_fail_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    original = LogSegment.sync

    def sync(segment: LogSegment) -> None:
        with suppress(OSError):
            original(segment)

    monkeypatch.setattr(LogSegment, "sync", sync)


def writes_fail_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    original = FileRecords.append

    def append(file: FileRecords, data: Data) -> int:
        position = file.size
        with suppress(OSError):
            original(file, data)
        return position

    monkeypatch.setattr(FileRecords, "append", append)


def counted_before_it_is_there(records: FileRecords, data: Data) -> int:
    position = records.size
    records._changes += 1
    records._file.append(data)
    return position


def epochs_go_at_once(log: UnifiedLog, offset: int) -> bool:
    log.log_start_offset = max(log.log_start_offset, offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    return True


BUGS: dict[str, tuple[Plant, Callable[[], None]]] = {
    "a truncation keeps offset index entries": (forget(OffsetIndex, "truncate_to"), logs_are_cut),
    "a truncation keeps time index entries past the end": (forget(TimeIndex, "truncate_to"), logs_are_cut),
    "a truncation keeps leader epochs": (forget(LeaderEpochCache, "truncate_from_end"), logs_are_cut),
    "a truncation leaves the high watermark": (
        instead(UnifiedLog, "_after_truncation", with_the_old_high_watermark),
        logs_are_cut,
    ),
    "a truncation is not synced": (
        instead(LogSegment, "truncate_file", unsynced_truncation),
        the_power_fails_in_random_stories,
    ),
    "a truncation is not written down": (forget(LogManager, "_on_truncated"), a_directory_loses_its_power),
    "after a truncation decided transactions are open again": (
        forget(ProducerStateManager, "on_high_watermark"),
        decided_transactions_stay_decided,
    ),
    "recovery trusts the bytes": (instead(LogSegment, "_undamaged_batches", trusting), the_power_fails),
    "recovery accepts a gap": (accepts_gaps, the_power_fails_in_random_stories),
    "a gap is not written down": (leaves_gaps_unsaid, processes_end),
    "no checkpoint says that a gap is no loss": (
        forget(LogManager, "_on_recovery_point"),
        a_directory_keeps_what_follows_gaps,
    ),
    "recovery believes the epochs in the file": (
        instead(LeaderEpochCache, "relearn", all_epochs_kept),
        epochs_are_learned_from_the_batches,
    ),
    "recovery keeps the old index entries": (forget(OffsetIndex, "reset"), the_power_fails_in_random_stories),
    "indexes are rebuilt in place": (rebuilt_in_place, rebuilt_indexes_are_interrupted),
    "a segment counts as synced before it is": (
        instead(UnifiedLog, "sync_segments", lambda log, segments: True),
        the_power_fails,
    ),
    "a flush forgets the segments before the last": (
        instead(LogSegments, "floor", lambda segments, offset: len(segments) - 1),
        the_power_fails,
    ),
    "a producer snapshot ahead of the log is used": (
        instead(ProducerStateManager, "load_newest", newest_of_all),
        the_power_fails_in_random_stories,
    ),
    "a roll takes no snapshot": (
        instead(ProducerStateManager, "take_snapshot", lambda state: False),
        rolls_leave_snapshots,
    ),
    "a repeated batch is known by its first sequence alone": (
        instead(ProducerEntry, "duplicate_of", by_first_sequence),
        producers_repeat_themselves,
    ),
    "transactions of one append all end at its end": (all_at_the_end, followers_get_transactions_at_once),
    "a snapshot's timestamps are lost": (without_timestamps, kafkas_files_are_written_again),
    "an index entry has the first offset of its batch": (by_first_offset, kafkas_files_are_written_again),
    "the last entry of the time index is forgotten": (
        forget(LogSegment, "on_become_inactive"),
        kafkas_files_are_written_again,
    ),
    "small files are replaced in place": (replaced_in_place, the_power_fails),
    "checkpoints go on claiming too much": (
        instead(LogManager, "_claims_too_much", lambda *_: False),
        a_directory_loses_its_power,
    ),
    "the clean-shutdown marker comes back": (marker_stays, a_directory_crashes_twice),
    "the marker is written before the logs are synced": (
        instead(LogManager, "close", marker_comes_first),
        a_directory_loses_its_power,
    ),
    "the marker is written though many logs were not synced": (
        forget(MemoryFileSystem, "sync_everything"),
        a_directory_stops_with_one_sync_for_all,
    ),
    "of many logs the epochs' files are renamed before the sync": (
        instead(LeaderEpochCache, "write_beside", named_before_the_sync),
        a_directory_stops_with_one_sync_for_all,
    ),
    "the marker is honoured after an unclean stop": (marker_is_kept, a_directory_crashes_twice),
    "a missing directory sync": (forget(MemoryFileSystem, "sync_directory"), a_directory_loses_its_power),
    "a rename before the fsync": (renamed_before_the_sync, the_power_fails),
    "a missing directory sync, when a log is made": (without_folder_syncs(LogLoader, "load"), the_power_fails),
    "a missing directory sync, behind a roll": (without_folder_syncs(UnifiedLog, "sync_segments"), the_power_fails),
    "a missing directory sync, under a Raft log": (without_folder_syncs(UnifiedLog, "sync_records"), the_power_fails),
    "a missing directory sync, in a flush": (without_folder_syncs(UnifiedLog, "flush"), the_power_fails),
    "a missing directory sync, in a truncation": (without_folder_syncs(UnifiedLog, "truncate_to"), the_power_fails),
    "a missing directory sync, when a log is deleted": (
        without_folder_syncs(LogManager, "_take_apart"),
        a_directory_loses_its_power,
    ),
    "a missing directory sync, at a start": (without_folder_syncs(LogManager, "start"), a_directory_crashes_twice),
    "a stale index is trusted": (forget(LogSegment, "check"), older_indexes_are_found),
    "an index that cannot be read is trusted": (forget(LogSegment, "check"), stale_indexes_are_found),
    "a start keeps epochs past the end": (
        forget(LeaderEpochCache, "truncate_from_end"),
        loading.test_an_epoch_whose_leader_wrote_nothing_before_an_orderly_stop_goes,
    ),
    "a start keeps time index entries past the end": (
        instead(LogSegment, "last_indexed", property(lambda segment: -1)),
        batches_go_missing,
    ),
    "a write counts before its bytes are there": (
        instead(FileRecords, "append", counted_before_it_is_there),
        syncs_come_beside_writes,
    ),
    "a failed sync counts as one": (syncs_fail_silently, a_sync_fails),
    "a failed write counts as one": (writes_fail_silently, writes_fail),
    "the start of a log is forgotten before a crash can forget it": (
        instead(UnifiedLog, "increase_log_start", epochs_go_at_once),
        records_are_deleted,
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check_of_the_suite = BUGS[name]
    plant(monkeypatch)
    with pytest.raises((AssertionError, KafkaError, DamagedFileError, pytest.fail.Exception)):
        check_of_the_suite()
