"""A log: appending, rolling, reading, truncating, and the marks that move on the way."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.records.batch import RecordBatch, batches
from pykraft.sim.world.disk import MemoryFile, MemoryFileSystem
from pykraft.storage.answers import AppendInfo, Isolation
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin
from tests.harness.log_laws import all_batches, check, every_timestamp_is_found
from tests.harness.storage import (
    DIRECTORY,
    NOW_MS,
    ByHand,
    ManualClock,
    at,
    batch,
    bytes_of,
    contents,
    disk,
    end_transaction,
    fill,
    marker,
    no_log_can_be_synced,
    open_log,
    produced,
    read_batches,
    settings,
    tiny,
)


def code_of(action: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        action()
    return refused.value.code


# --- appending as the leader ------------------------------------------------------------------------------------------


def test_a_leader_gives_offsets_and_its_epoch() -> None:
    log = open_log()
    first = log.append_as_leader(batch(3), leader_epoch=4)
    second = log.append_as_leader(batch(2), leader_epoch=4)
    assert (first.first_offset, first.last_offset, first.log_append_time_ms, first.log_start_offset) == (0, 2, -1, 0)
    assert (second.first_offset, second.last_offset, log.log_end_offset) == (3, 4, 5)
    assert [(some.base_offset, some.partition_leader_epoch) for some in all_batches(log)] == [(0, 4), (3, 4)]
    assert log.latest_epoch == 4 and open_log().latest_epoch == -1
    assert repr(log) == "UnifiedLog(flights-0, 0..5)"
    check(log)


def test_a_repeated_batch_is_not_appended_again_and_gets_its_old_place() -> None:
    log = open_log()
    log.append_as_leader(batch(5), 0)
    info = log.append_as_leader(produced(7, 0, 3, timestamp=100), 0)
    log.append_as_leader(produced(7, 3, 1), 0)
    size = log.size
    known = AppendInfo(info.first_offset, info.last_offset, 102, log.log_start_offset)
    assert log.append_as_leader(produced(7, 0, 3, timestamp=100), 1) == known
    assert (log.size, log.log_end_offset, log.latest_epoch) == (size, 9, 0)
    assert code_of(lambda: log.append_as_leader(produced(7, 9), 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_is_refused_leaves_no_trace() -> None:
    log = open_log(config=tiny(segment_bytes=300))
    fill(log, 3)
    before = contents(log), log.log_end_offset, log.epochs.entries, log.segments
    damaged = batch(2)
    damaged.buffer[70] ^= 1
    refused = {
        ErrorCode.CORRUPT_MESSAGE: damaged,
        ErrorCode.INVALID_RECORD: at(5, batch(1)),
        ErrorCode.RECORD_LIST_TOO_LARGE: batch(1, size=300),
    }
    for code, some in refused.items():
        assert code_of(lambda some=some: log.append_as_leader(some, 9)) is code  # type: ignore[misc]
    assert before == (contents(log), log.log_end_offset, log.epochs.entries, log.segments)


def test_a_full_disk_leaves_a_log_that_goes_on() -> None:
    filesystem = disk()
    log = open_log(filesystem)
    fill(log, 2)
    filesystem.fail_after(0, OSError(errno.ENOSPC, "no space left on device"))
    with pytest.raises(OSError, match="no space"):
        log.append_as_leader(produced(7, 0), 0)
    log.append_as_leader(produced(7, 0), 0)
    assert log.log_end_offset == 4
    check(log)


def test_with_log_append_time_the_answer_tells_it() -> None:
    log = open_log(config=settings(message_timestamp_type="LogAppendTime"))
    assert log.append_as_leader(batch(2), 0).log_append_time_ms == NOW_MS
    assert [record.timestamp for record in all_batches(log)[0].records()] == [NOW_MS] * 2


def test_coordinators_and_the_controller_are_not_held_to_a_clients_rules() -> None:
    log = open_log()
    log.append_as_leader(marker(7, committed=True), 0, AppendOrigin.COORDINATOR)
    log.append_as_leader(batch(1, control=True), 0, AppendOrigin.RAFT_LEADER)
    assert log.log_end_offset == 2
    assert code_of(lambda: log.append_as_leader(batch(1, control=True), 0)) is ErrorCode.INVALID_RECORD


# --- appending as a follower ------------------------------------------------------------------------------------------


def leaders(*some: RecordBatch, start: int = 0, epoch: int = 0) -> bytes:
    """The bytes of a leader's log."""
    out = bytearray()
    for each in some:
        out += at(start, each, epoch).buffer
        start = each.next_offset
    return bytes(out)


def test_a_follower_is_its_leader_byte_for_byte() -> None:
    leader, follower = open_log(config=tiny()), open_log(config=tiny())
    fill(leader, 30)
    offset = 0
    while offset < leader.log_end_offset:
        data = bytes_of(leader.read(offset, 250, Isolation.LOG_END, at_least_one=True).records)
        assert follower.append_as_follower(memoryview(data)) >= 1
        offset = follower.log_end_offset
    assert contents(follower) == contents(leader)
    assert follower.epochs.entries == leader.epochs.entries
    check(follower)


def test_a_follower_takes_whole_batches_and_waits_for_the_rest() -> None:
    log = open_log()
    data = leaders(batch(2), batch(3))
    for size in range(len(data)):
        assert open_log().append_as_follower(memoryview(data[:size])) == (size >= batch(2).size)
    assert log.append_as_follower(memoryview(data)) == 2 and log.log_end_offset == 5


def test_a_follower_refuses_what_is_damaged_or_comes_from_before_its_end() -> None:
    log = open_log()
    log.append_as_follower(memoryview(leaders(batch(3))))
    damaged = bytearray(leaders(batch(1), batch(1), start=3))
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="fails its checksum"):
        log.append_as_follower(memoryview(damaged))
    again = memoryview(leaders(batch(1), start=2))
    assert code_of(lambda: log.append_as_follower(again)) is ErrorCode.OFFSET_OUT_OF_RANGE
    overlapping = memoryview(leaders(batch(2), start=3) + leaders(batch(1), start=4))
    assert code_of(lambda: log.append_as_follower(overlapping)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.log_end_offset == 3
    check(log)


def test_a_follower_learns_the_epochs_of_all_batches() -> None:
    log = open_log()
    log.append_as_follower(memoryview(leaders(batch(2), epoch=1) + leaders(batch(1), batch(1), start=2, epoch=4)))
    assert log.epochs.entries == [(1, 0), (4, 2)]
    assert log.end_offset_for(1) == (2, 1) and log.end_offset_for(3) == (2, 1) and log.end_offset_for(5) is None


def test_a_followers_gap_stays_a_gap() -> None:
    """A leader's log that was compacted has none of some offsets."""
    log = open_log(config=tiny(segment_bytes=200))
    log.append_as_follower(memoryview(leaders(batch(2)) + leaders(batch(1), start=7) + leaders(batch(1), start=30)))
    log.append_as_follower(memoryview(leaders(batch(1), start=90)))
    assert [some.base_offset for some in read_batches(log, 3)] == [7, 30, 90]
    assert log.segments[-1].base_offset == 31 and log.log_end_offset == 91
    check(log)


@pytest.mark.parametrize("index_bytes", [4, 12, 24, 100])
def test_many_batches_at_once_fill_the_smallest_index(index_bytes: int) -> None:
    """The largest settings that Kafka allows are no trouble, the smallest must not be."""
    filesystem = disk()
    config = settings(index_interval_bytes=0, segment_index_bytes=index_bytes)
    log = open_log(filesystem, config)
    for start in (0, 40, 80):
        log.append_as_follower(memoryview(leaders(*[batch(1) for _ in range(40)], start=start)))
    for _ in range(5):
        log.append_as_leader(batch(1), 0)
    check(log)
    filesystem.crash_process()
    again = open_log(filesystem, config)
    assert again.log_end_offset == 125, "what no index entry leads to is not lost"
    check(again)


# --- rolling ----------------------------------------------------------------------------------------------------------


def test_a_segment_is_rolled_before_it_grows_too_large() -> None:
    log = open_log(config=tiny(segment_bytes=2 * batch(1).size))
    fill(log, 7, count=1)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]
    assert all(segment.size <= 2 * batch(1).size for segment in log.segments)
    check(log)


def test_a_segment_is_rolled_when_its_records_span_too_much_time() -> None:
    clock = ManualClock()
    log = open_log(config=settings(segment_ms=1000), clock=clock)
    for timestamp in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001, NOW_MS + 1500):
        log.append_as_leader(batch(1, timestamp=timestamp), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_marker_of_today_rolls_a_segment_of_old_records() -> None:
    log = open_log(config=settings(segment_ms=1000))
    log.append_as_leader(produced(7, 0, timestamp=500, transactional=True), 0)
    end_transaction(log, 7, committed=True, timestamp=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_an_empty_segment_is_not_rolled() -> None:
    clock = ManualClock()
    log = open_log(config=settings(segment_ms=1000), clock=clock)
    clock.now_ms += 5000
    log.append_as_leader(batch(1, timestamp=NOW_MS), 0)
    assert len(log.segments) == 1
    log.roll(log.log_end_offset)
    log.roll(log.log_end_offset)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_a_finished_segment_takes_no_more_room_than_it_has_bytes(tmp_path: Path) -> None:
    """While it grew it had room ahead."""
    log = open_log(OsFileSystem(), settings(internal_segment_bytes=3 << 19), directory=str(tmp_path / "flights-0"))
    while log.size < 11 << 18:
        log.append_as_leader(batch(size=60_000), 0)
    log.close()
    sizes = [(path.stat().st_size, path.stat().st_blocks * 512) for path in (tmp_path / "flights-0").glob("*.log")]
    assert len(sizes) == 2 and all(1 << 20 < size <= taken < size + 4096 for size, taken in sizes)


def test_a_roll_takes_a_snapshot_of_the_producers() -> None:
    filesystem = disk()
    log = open_log(filesystem, tiny(segment_bytes=150))
    log.append_as_leader(produced(7, 0, 3), 0)
    log.append_as_leader(produced(7, 3, 3), 0)
    assert "00000000000000000003.snapshot" in filesystem.list(DIRECTORY)


def test_offsets_too_far_apart_for_one_segment_make_two() -> None:
    log = open_log()
    log.append_as_follower(memoryview(leaders(batch(1))))
    far = (1 << 31) + 5
    log.append_as_follower(memoryview(leaders(batch(1), start=far)))
    assert [segment.base_offset for segment in log.segments] == [0, far]
    check_without_scanning_offsets = [some.base_offset for some in read_batches(log)]
    assert check_without_scanning_offsets == [0, far]


def test_of_batches_too_far_apart_for_one_segment_a_follower_takes_the_first_ones() -> None:
    log = open_log()
    far = (1 << 31) + 5
    data = memoryview(leaders(batch(1)) + leaders(batch(2), start=1) + leaders(batch(1), start=far))
    assert log.append_as_follower(data) == 2
    assert log.append_as_follower(data[2 * batch(1).size + batch(2).size - batch(1).size :]) == 1
    assert [some.base_offset for some in read_batches(log)] == [0, 1, far]


def test_a_batch_of_a_later_epoch_than_its_leaders_is_damaged() -> None:
    """No checksum covers it. Believed, it would keep the follower from every leader until that epoch."""
    log = open_log()
    with pytest.raises(CorruptRecordError, match="has no place in a log"):
        log.append_as_follower(memoryview(leaders(batch(1), epoch=6)), 5)
    assert log.append_as_follower(memoryview(leaders(batch(1), epoch=5)), 5) == 1


# --- syncing ----------------------------------------------------------------------------------------------------------


def three_segments(**fields: Any) -> tuple[UnifiedLog, ByHand]:
    background = ByHand()
    log = open_log(config=tiny(segment_bytes=2 * batch(1).size), background=background, **fields)
    fill(log, 5, count=1)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    return log, background


def test_a_finished_segment_moves_the_recovery_point_once_it_is_synced() -> None:
    log, background = three_segments()
    assert log.recovery_point == 0
    background.run_job()
    assert log.recovery_point == 0, "the node's own thread has not heard of it"
    background.deliver()
    assert log.recovery_point == 2
    background.run()
    assert log.recovery_point == 4
    log.flush()
    assert log.recovery_point == 5


def test_jobs_that_finish_in_another_order_never_claim_too_much() -> None:
    log, background = three_segments()
    background.run_job(1)
    background.deliver()
    assert log.recovery_point == 4
    assert all(inode_of(segment).synced == segment.size for segment in log.segments[:2])


def inode_of(segment: Any) -> Any:
    return segment.records._file._inode


def test_a_result_from_before_a_truncation_claims_nothing() -> None:
    log, background = three_segments()
    background.run_job()
    log.truncate_to(1)
    fill(log, 5, count=1)
    background.deliver()
    assert log.recovery_point == 0
    background.run()
    assert log.recovery_point == 4


def test_a_job_for_a_segment_that_is_gone_does_nothing() -> None:
    log, background = three_segments()
    log.truncate_to(1)
    log.abandon()
    background.run()
    assert log.recovery_point == 0


def test_a_log_is_flushed_after_so_many_records_as_its_topic_says_by_now() -> None:
    log = open_log()
    fill(log, 3, count=2)
    assert log.recovery_point == 0
    log.config = settings(flush_messages=4)
    fill(log, 1, count=1)
    assert log.recovery_point == 7
    fill(log, 1, count=3)
    assert log.recovery_point == 7
    fill(log, 1, count=1)
    assert log.recovery_point == 11


def test_a_disk_that_cannot_sync_is_not_hidden() -> None:
    filesystem = disk()
    _, background = three_segments(filesystem=filesystem)
    filesystem.fail_after(0, OSError(errno.EIO, "input/output error"))
    with pytest.raises(OSError, match="input/output"):
        background.run()


def test_a_sync_beside_a_write_does_not_count_what_is_being_written() -> None:
    """The background syncs the segment to which the node's own thread just appends, or which it truncates."""
    for change in (lambda log: fill(log, 1), lambda log: log.truncate_to(2)):
        filesystem = disk()
        log = open_log(filesystem)
        fill(log, 3)
        with pytest.MonkeyPatch.context() as beside:
            for operation in ("append", "truncate"):
                beside.setattr(MemoryFile, operation, after_a_sync(getattr(MemoryFile, operation), log))
            change(log)
        log.flush()
        assert is_on_the_disk(filesystem)


def after_a_sync(operation: Any, log: UnifiedLog) -> Any:
    """The operation of a file, before which the log is synced elsewhere: its bytes are not there yet."""

    def operate(file: MemoryFile, argument: Any) -> None:
        log.sync_segments(log.segments)
        operation(file, argument)

    return operate


def test_a_disk_that_fails_under_one_segment_is_not_hidden_by_another_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, background = three_segments()
    log.update_high_watermark(5)
    log.delete_segments(1)
    del background.jobs[0]  # the one that is left is about the deleted segment, too
    monkeypatch.setattr(MemoryFile, "sync", no_log_can_be_synced)
    with pytest.raises(OSError, match="input/output"):
        background.run()


def test_records_are_synced_without_their_indexes() -> None:
    log, _ = three_segments()
    log.sync_records()
    assert all(inode_of(segment).synced == segment.size for segment in log.segments)
    before = log._filesystem.operations  # type: ignore[attr-defined]
    log.sync_records()
    assert log._filesystem.operations == before, "nothing was written since"  # type: ignore[attr-defined]


def test_what_comes_after_a_cut_is_synced_however_far_the_log_was_synced_before_it() -> None:
    log = open_log(config=tiny(), background=ByHand())
    fill(log, 20)
    log.sync_records()
    log.truncate_to(1)
    fill(log, 12)
    assert len(log.segments) > 2
    log.sync_records()
    assert [inode_of(segment).synced for segment in log.segments] == [segment.size for segment in log.segments]


def is_on_the_disk(filesystem: MemoryFileSystem) -> bool:
    folder = filesystem._root.entries["logs"].entries["flights-0"]  # type: ignore[union-attr]
    is_synced = [inode.synced == len(inode.data) for inode in folder.entries.values()]  # type: ignore[union-attr]
    return all(is_synced) and not folder.unsynced  # type: ignore[union-attr]


def test_a_closed_log_is_on_the_disk_byte_for_byte() -> None:
    filesystem = disk()
    log = open_log(filesystem, tiny())
    fill(log, 20)
    assert not is_on_the_disk(filesystem)
    log.close()
    assert is_on_the_disk(filesystem)


def test_a_flushed_log_is_on_the_disk_with_the_index_of_its_first_abort() -> None:
    filesystem = disk()
    log = open_log(filesystem)
    log.append_as_leader(produced(7, 0, transactional=True), 0)
    log.flush()
    assert is_on_the_disk(filesystem)
    end_transaction(log, 7, committed=False)
    log.flush()
    assert filesystem.exists(f"{DIRECTORY}/{0:020d}.txnindex") and is_on_the_disk(filesystem)


def test_reading_goes_on_while_a_sync_is_waited_for() -> None:
    log, background = three_segments()
    assert len(read_batches(log)) == 5 and background.jobs
    assert list(batches(memoryview(contents(log))))[-1].base_offset == 4
    check(log, every_timestamp_is_found)


def test_of_an_append_that_fails_only_the_leader_epoch_stays_noted() -> None:
    failed, noted = 0, False
    for count in range(10):
        filesystem = disk()
        log = open_log(filesystem)
        fill(log, 2, leader_epoch=3)
        epochs, bytes_before = list(log.epochs.entries), contents(log)
        filesystem.fail_after(count, OSError(errno.ENOSPC, "no space left on device"), torn_bytes=20, for_good=False)
        try:
            log.append_as_leader(produced(7, 0), 9)
        except OSError:
            failed += 1
            assert contents(log) == bytes_before and log.log_end_offset == 3
            assert not log.producer_state.producers
            noted = noted or log.epochs.entries != epochs
            log.append_as_leader(produced(7, 0), 9)
        assert log.log_end_offset == 4 and log.epochs.entries == [*epochs, (9, 3)]
        if count >= failed:
            break
    assert failed and noted


@pytest.mark.costly
def test_the_indexes_are_less_than_half_a_percent_of_their_log() -> None:
    for size in (0, 100, 5000):
        log = open_log()
        while log.size < 500_000:
            log.append_as_leader(batch(1, size=size, timestamp=NOW_MS + log.log_end_offset), 0)
        segment = log.active_segment
        assert len(segment.offset_index) > 50
        assert segment.offset_index.size + segment.time_index.size < segment.size / 200
