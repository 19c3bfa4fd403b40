"""The tail of a log as cells: which records, of which leader epoch, and how their transactions ended."""

from __future__ import annotations

import pytest

from pykraft.storage.log_tail import MOST_HEADERS, CellKind, Cells, tail
from tests.harness.storage import disk, end_transaction, fill, open_log, produced, tiny

DATA, OPEN, COMMITTED, ABORTED = CellKind.DATA, CellKind.OPEN, CellKind.COMMITTED, CellKind.ABORTED


def test_each_batch_is_a_run_with_its_leader_epoch() -> None:
    log = open_log()
    fill(log, 3, leader_epoch=0)  # one, two and three records
    fill(log, 1, leader_epoch=4)
    assert tail(log, 24) == (Cells(0, 1, 0), Cells(1, 3, 0), Cells(3, 6, 0), Cells(6, 7, 4))


@pytest.mark.parametrize("count", range(45))
def test_the_last_offsets_are_told_whatever_the_segments(count: int) -> None:
    log = open_log(config=tiny())
    fill(log, 20)  # 39 records
    assert len(log.segments) > 4
    offsets = [offset for run in tail(log, count) for offset in range(run.base_offset, run.end_offset)]
    assert offsets == list(range(max(0, 39 - count), 39))


def test_what_is_before_the_log_start_is_not_told() -> None:
    log = open_log()
    fill(log, 6)
    log.update_high_watermark(12)
    log.increase_log_start(11)
    assert tail(log, 24) == (Cells(11, 12, 0),)
    log.increase_log_start(12)
    assert tail(log, 24) == ()


def test_a_transactions_records_say_how_it_ended_once_a_marker_follows() -> None:
    log = open_log()
    log.append_as_leader(produced(1, 0, 2, transactional=True), 0)
    log.append_as_leader(produced(2, 0, 1, transactional=True), 0)
    assert [run.kind for run in tail(log, 24)] == [OPEN, OPEN]
    end_transaction(log, 1, committed=False)
    log.append_as_leader(produced(1, 2, 1, transactional=True), 0)
    end_transaction(log, 2, committed=True)
    fill(log, 1)
    kinds = [run.kind for run in tail(log, 24)]
    assert kinds == [ABORTED, COMMITTED, CellKind.ABORT_MARKER, OPEN, CellKind.COMMIT_MARKER, DATA]
    assert [run.base_offset for run in tail(log, 3)] == [4, 5, 6]


def test_of_very_many_batches_only_the_last_is_told_and_not_all_are_read() -> None:
    log = open_log()
    fill(log, MOST_HEADERS + 2, count=1)
    assert len(tail(log, 100)) == 100
    assert tail(log, 2 * MOST_HEADERS) == (Cells(MOST_HEADERS + 1, MOST_HEADERS + 2, 0),)


def test_a_damaged_or_closed_log_has_no_tail() -> None:
    filesystem = disk()
    log = open_log(filesystem)
    fill(log, 3)
    log.abandon()
    filesystem.crash_process()
    assert tail(log, 24) == ()
    log = open_log(filesystem)
    log.active_segment.records.truncate(log.active_segment.size - 1)
    assert tail(log, 24) == ()
