"""Cutting a log: what goes, what stays, and the marks that must not be left behind."""

from __future__ import annotations

import pytest

from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog
from tests.harness.log_laws import all_batches, check, every_timestamp_is_found
from tests.harness.storage import (
    DIRECTORY,
    ByHand,
    batch,
    disk,
    end_transaction,
    fill,
    open_log,
    produced,
    read_batches,
    tiny,
)


def filled(batch_count: int = 20) -> UnifiedLog:
    """Batches of one to three records in segments of three or four."""
    log = open_log(config=tiny())
    for epoch in range(batch_count // 5):
        fill(log, 5, leader_epoch=epoch)
    return log


@pytest.mark.costly
@pytest.mark.parametrize("offset", range(41))
def test_a_log_is_cut_at_any_offset(offset: int) -> None:
    log = filled()
    whole = all_batches(log)
    log.truncate_to(offset)
    kept = [some for some in whole if some.next_offset <= offset]
    assert [bytes(some.buffer) for some in all_batches(log)] == [bytes(some.buffer) for some in kept]
    assert log.log_end_offset == (kept[-1].next_offset if kept else 0)
    check(log, every_timestamp_is_found)
    fill(log, 4, leader_epoch=9)
    check(log, every_timestamp_is_found)


def test_a_cut_at_or_beyond_the_end_changes_nothing() -> None:
    filesystem = disk()
    log = open_log(filesystem)
    fill(log, 3)
    before = filesystem.operations
    log.truncate_to(log.log_end_offset)
    log.truncate_to(99)
    assert filesystem.operations == before


def test_an_epoch_in_which_nothing_was_written_is_forgotten_by_a_cut_at_the_end() -> None:
    """A leader notes its epoch before its first record. If another is elected before there is one, the note must go:
    it says that this log has more of the epochs up to its own than the new leader's has, which is not so."""
    filesystem = disk()
    log = open_log(filesystem)
    fill(log, 3, leader_epoch=1)
    end = log.log_end_offset
    log.epochs.assign(2, end)
    log.truncate_to(end)
    assert log.epochs.entries == [(1, 0)]
    assert open_log(filesystem).epochs.entries == [(1, 0)]
    assert log.log_end_offset == end


def test_marks_go_down_with_the_end() -> None:
    log = filled()
    log.update_high_watermark(39)
    log.flush()
    log.truncate_to(20)
    assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (19, 19, 19)
    assert log.epochs.entries == [(0, 0), (1, 9), (2, 18)]


def test_a_start_beyond_the_cut_goes_down_too() -> None:
    """Records were deleted up to 20, then another leader had the log end before that."""
    log = filled()
    log.log_start_offset = 20
    log.update_high_watermark(25)
    log.truncate_to(12)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (12, 12, 12)
    log.append_as_leader(batch(1), 5)
    assert read_batches(log)[0].base_offset == 12


def test_dropping_everything_begins_anew_at_an_offset() -> None:
    log = filled()
    log.update_high_watermark(5)
    log.truncate_fully(100)
    marks = (log.log_start_offset, log.high_watermark, log.log_end_offset, log.last_stable_offset)
    assert marks == (100, 100, 100, 100)
    assert log.latest_epoch == -1 and log.producer_state.producers == {} and log.size == 0
    assert [segment.base_offset for segment in log.segments] == [100]
    log.append_as_leader(batch(2), 7)
    assert log.epochs.entries == [(7, 100)]
    check(log)


def test_a_cut_below_the_first_segment_drops_everything() -> None:
    log = open_log()
    log.truncate_fully(100)
    fill(log, 3)
    log.truncate_to(50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


def test_producers_go_back_to_what_the_log_still_says() -> None:
    log = open_log(config=tiny(segment_bytes=200))
    for sequence in range(9):
        log.append_as_leader(produced(7, sequence, transactional=sequence >= 6), 0)
    end_transaction(log, 7, committed=True)
    log.truncate_to(8)
    assert log.producer_state.producers[7].last_sequence == 7
    assert log.producer_state.first_unstable_offset == 6, "the transaction is open again"
    log.truncate_to(3)
    assert log.producer_state.producers[7].last_sequence == 2
    log.append_as_leader(produced(7, 3), 1)
    check(log)


def test_a_reader_stops_at_the_high_watermark_of_what_came_after_a_cut() -> None:
    log = open_log()
    for size in (10, 200):
        for _ in range(2):
            log.append_as_leader(batch(1, size=size), 0)
        log.update_high_watermark(1)
        (seen,) = read_batches(log, 0, Isolation.HIGH_WATERMARK)[:1]
        assert seen.is_valid and seen.next_offset == 1
        log.truncate_to(0)


def test_a_transaction_that_was_cut_away_holds_back_nobody() -> None:
    log = open_log()
    fill(log, 1)
    log.append_as_leader(produced(7, 0, transactional=True), 0)
    log.truncate_to(1)
    fill(log, 2)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset == 4


def test_an_abortion_that_was_cut_away_is_forgotten_on_the_disk_too() -> None:
    filesystem = disk()
    log = open_log(filesystem)
    for sequence in range(2):
        log.append_as_leader(produced(7, sequence, transactional=True), 0)
        end_transaction(log, 7, committed=False)
    log.truncate_to(3)
    assert [each.first_offset for each in log.aborted_transactions(0, 9)] == [0]
    log.close()
    again = open_log(filesystem, clean=True)
    assert [each.first_offset for each in again.aborted_transactions(0, 9)] == [0]


def test_what_was_cut_has_no_files_left() -> None:
    filesystem = disk()
    log = open_log(filesystem, tiny(segment_bytes=200))
    for sequence in range(9):
        log.append_as_leader(produced(7, sequence, transactional=True), 0)
    end_transaction(log, 7, committed=False)
    log.truncate_to(3)
    names = filesystem.list(DIRECTORY)
    bases = {f"{segment.base_offset:020d}" for segment in log.segments}
    assert {name.partition(".")[0] for name in names if name[0].isdigit()} <= bases
    log.close()
    assert open_log(filesystem, clean=True).log_end_offset == log.log_end_offset


def test_the_owner_is_told_of_a_cut() -> None:
    heard: list[int] = []
    log = open_log(on_truncated=lambda log: heard.append(log.log_end_offset))
    fill(log, 3)
    log.truncate_to(99)
    assert heard == []
    log.truncate_to(4)
    log.truncate_fully(50)
    assert heard == [3, 50]


def test_a_reader_does_not_see_what_was_cut_behind_a_remembered_place() -> None:
    log = filled()
    log.update_high_watermark(10)
    assert read_batches(log, 0, Isolation.HIGH_WATERMARK)[-1].next_offset == 10
    log.truncate_to(0)
    fill(log, 3, size=50)
    log.update_high_watermark(6)
    assert read_batches(log, 0, Isolation.HIGH_WATERMARK)[-1].next_offset == 6


def test_a_cut_while_a_segment_is_being_synced() -> None:
    background = ByHand()
    log = open_log(config=tiny(), background=background)
    fill(log, 10)
    log.truncate_to(5)
    fill(log, 10, leader_epoch=1)
    background.run()
    assert log.recovery_point <= log.segments[-1].base_offset
    check(log)
