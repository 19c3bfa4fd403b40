"""What readers of a log see: isolation, sizes, aborted transactions, timestamps."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.records.batch import batches
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog
from tests.harness.log_laws import check, every_timestamp_is_found
from tests.harness.storage import (
    NOW_MS,
    at,
    batch,
    bytes_of,
    end_transaction,
    fill,
    marker,
    open_log,
    produced,
    read_batches,
    settings,
    tiny,
)

LOG_END, HIGH_WATERMARK, COMMITTED = Isolation.LOG_END, Isolation.HIGH_WATERMARK, Isolation.COMMITTED


def filled() -> UnifiedLog:
    """Twenty batches in several segments: the high watermark is 25 of 39."""
    log = open_log(config=tiny())
    fill(log, 20)
    log.update_high_watermark(25)
    return log


@pytest.mark.parametrize(("isolation", "end"), [(LOG_END, 39), (HIGH_WATERMARK, 25), (COMMITTED, 25)])
def test_a_reader_sees_everything_up_to_its_isolation(isolation: Isolation, end: int) -> None:
    log = filled()
    for offset in range(end):
        found = read_batches(log, offset, isolation, max_bytes=200)
        assert found[0].base_offset <= offset <= found[0].last_offset
        assert found[-1].next_offset == end
    for offset in range(end, 40):
        assert log.read(offset, 1000, isolation, at_least_one=True).records == b""


@pytest.mark.parametrize("offset", [-1, 40, 1 << 40])
def test_outside_of_the_log_an_offset_is_out_of_range(offset: int) -> None:
    with pytest.raises(KafkaError, match=r"0\.\.39\)") as refused:
        filled().read(offset, 1000, LOG_END, at_least_one=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_below_the_start_of_the_log_an_offset_is_out_of_range() -> None:
    log = filled()
    log.log_start_offset = 10
    with pytest.raises(KafkaError, match=r"10\.\.39\)"):
        log.read(9, 1000, LOG_END, at_least_one=True)
    assert read_batches(log, 10)[0].base_offset <= 10


@pytest.mark.parametrize("max_bytes", [0, 1, 60, 90, 200, 1000])
def test_a_read_has_at_most_max_bytes_but_the_first_batch_whole_if_asked(max_bytes: int) -> None:
    log = filled()
    for offset in range(39):
        for at_least_one in (False, True):
            found = log.read(offset, max_bytes, LOG_END, at_least_one)
            data = bytes_of(found.records)
            first = read_batches(log, offset)[0]
            assert data == bytes(first.buffer)[: len(data)] or data[: first.size] == first.buffer
            if at_least_one:
                assert first.size <= len(data) <= max(max_bytes, first.size) and not found.first_batch_is_cut
            else:
                assert len(data) <= max_bytes and found.first_batch_is_cut == (max_bytes < first.size)


def test_a_read_ends_at_the_end_of_a_segment() -> None:
    log = filled()
    first = log.segments[0]
    assert len(bytes_of(log.read(0, 1 << 20, LOG_END, at_least_one=True).records)) == first.size


def test_a_high_watermark_within_a_batch_hides_the_batch() -> None:
    log = open_log()
    log.append_as_leader(batch(3), 0)
    log.append_as_leader(batch(3), 0)
    log.update_high_watermark(4)
    assert [some.base_offset for some in read_batches(log, 0, HIGH_WATERMARK)] == [0]


def test_a_high_watermark_stays_within_the_log() -> None:
    log = filled()
    assert not log.update_high_watermark(25)
    assert log.update_high_watermark(99) and log.high_watermark == 39
    assert log.update_high_watermark(-5) and log.high_watermark == 0


def test_a_high_watermark_that_moves_back_and_forth_is_followed() -> None:
    """The place where readers stop is remembered; it must not be remembered for too long."""
    log = filled()
    for mark in (39, 25, 10, 25, 38, 39, 3):
        log.update_high_watermark(mark)
        found = read_batches(log, 0, HIGH_WATERMARK)
        assert [each.next_offset for each in found][-1] <= mark
        everything = read_batches(log)
        assert len(found) == sum(each.next_offset <= mark for each in everything)
    log.truncate_to(5)
    fill(log, 9)
    log.update_high_watermark(9)
    assert read_batches(log, 0, HIGH_WATERMARK)[-1].next_offset <= 9


# --- committed data ---------------------------------------------------------------------------------------------------


def transactions() -> UnifiedLog:
    """Two producers whose transactions overlap; 7 aborts, 8 commits, 7 aborts again, 9 stays open."""
    log = open_log(config=tiny(segment_bytes=250))
    log.append_as_leader(produced(7, 0, 2, transactional=True), 0)  # 0, 1
    log.append_as_leader(produced(8, 0, 2, transactional=True), 0)  # 2, 3
    end_transaction(log, 7, committed=False)  # 4
    log.append_as_leader(batch(2), 0)  # 5, 6
    end_transaction(log, 8, committed=True)  # 7
    log.append_as_leader(produced(7, 2, 2, transactional=True), 0)  # 8, 9
    log.append_as_leader(batch(2), 0)  # 10, 11
    end_transaction(log, 7, committed=False)  # 12
    log.append_as_leader(produced(9, 0, 1, transactional=True), 0)  # 13
    log.append_as_leader(batch(3), 0)  # 14 to 16
    return log


def test_the_last_stable_offset_is_below_every_open_transaction_and_the_high_watermark() -> None:
    log = transactions()
    stable = {}
    for mark in range(18):
        log.update_high_watermark(mark)
        stable[mark] = log.last_stable_offset
    # Until the high watermark passes the marker of 7 at offset 4, its transaction may turn out to be open still.
    assert [stable[mark] for mark in (0, 3, 4, 5, 7, 8, 12, 13, 14, 17)] == [0, 0, 0, 2, 2, 8, 8, 13, 13, 13]


@pytest.mark.parametrize(
    ("mark", "offset", "end", "aborted"),
    [
        (17, 0, 13, {(7, 0), (7, 8)}),
        (17, 5, 13, {(7, 8)}),
        (13, 10, 13, {(7, 8)}),
        (8, 0, 8, {(7, 0)}),
        (5, 0, 2, {(7, 0)}),
        (17, 13, 13, set()),
    ],
)
def test_a_reader_of_committed_data_gets_the_aborted_transactions_beside_it(
    mark: int, offset: int, end: int, aborted: set[tuple[int, int]]
) -> None:
    log = transactions()
    log.update_high_watermark(mark)
    seen: set[tuple[int, int]] = set()
    while offset < end:
        found = log.read(offset, 1, COMMITTED, at_least_one=True)
        assert found.aborted is not None
        last = list(batches(memoryview(bytes_of(found.records))))[-1]
        seen |= {(each.producer_id, each.first_offset) for each in found.aborted}
        overlapping = {each for each in aborted if each[1] <= last.last_offset}
        assert {(each.producer_id, each.first_offset) for each in found.aborted} >= {
            each for each in overlapping if each[1] + 4 >= offset
        }
        offset = last.next_offset
    assert offset == end and seen == aborted
    assert log.read(0, 1, HIGH_WATERMARK, at_least_one=True).aborted is None
    check(log)


def test_committed_data_are_the_same_for_a_follower_that_got_everything_at_once() -> None:
    leader, follower = transactions(), open_log(config=tiny(segment_bytes=250))
    data = b"".join(bytes(some.buffer) for some in read_batches(leader))
    follower.append_as_follower(memoryview(data))
    for log in (leader, follower):
        log.update_high_watermark(17)
    entries = [
        [each for segment in log.segments for each in segment.transaction_index.entries] for log in (leader, follower)
    ]
    assert entries[0] == entries[1]
    check(follower)


def test_a_transaction_that_was_decided_stays_decided_when_the_log_is_cut_behind_it() -> None:
    """The producers' state is rebuilt by a replay, which does not know how far the log is replicated."""
    log = transactions()
    log.update_high_watermark(13)
    assert log.last_stable_offset == 13
    log.truncate_to(13)
    assert log.last_stable_offset == log.high_watermark == 13


def test_an_aborted_transaction_that_spans_segments_is_found_from_its_beginning() -> None:
    log = open_log(config=tiny(segment_bytes=150))
    for sequence in range(10):
        log.append_as_leader(produced(7, sequence, transactional=True), 0)
    end_transaction(log, 7, committed=False)
    log.update_high_watermark(99)
    assert len(log.segments) > 5
    for offset in range(11):
        found = log.read(offset, 1, COMMITTED, at_least_one=True)
        assert [(each.producer_id, each.first_offset) for each in found.aborted or []] == [(7, 0)]


def test_aborted_transactions_of_later_segments_are_not_told() -> None:
    """Where the index has no entry behind the slice, what follows begins with the next segment."""
    log = open_log(config=settings(internal_segment_bytes=400))
    for number in range(20):
        log.append_as_leader(produced(7, number, transactional=True), 0)
        end_transaction(log, 7, committed=False)
    log.update_high_watermark(log.log_end_offset)
    assert len(log.segments) > 5
    for segment, following in pairwise(log.segments):
        found = log.read(segment.base_offset, 1, COMMITTED, at_least_one=True)
        assert found.aborted and all(each.first_offset < following.base_offset for each in found.aborted)


# --- timestamps -------------------------------------------------------------------------------------------------------


def test_every_timestamp_leads_to_the_first_record_that_is_young_enough() -> None:
    log = open_log(config=tiny())
    for number, timestamp in enumerate((50, 40, 70, 60, 10, 90, 90, 80, 5, 95)):
        log.append_as_leader(batch(1 + number % 3, timestamp=NOW_MS + timestamp), number // 4)
    every_timestamp_is_found(log)
    found = log.offset_for_timestamp(NOW_MS + 60)
    assert found is not None and found.leader_epoch == 0
    log.log_start_offset = 7
    every_timestamp_is_found(log)


def test_an_empty_log_has_no_timestamps() -> None:
    log = open_log()
    assert log.offset_for_timestamp(0) is None and log.offset_of_max_timestamp() is None


def test_the_largest_timestamp_is_that_of_the_first_record_that_has_it() -> None:
    log = open_log(config=tiny())
    for timestamp in (50, 90, 70, 90, 60):
        log.append_as_leader(batch(1, timestamp=NOW_MS + timestamp, size=100), 3)
    assert log.offset_of_max_timestamp() == (NOW_MS + 90, 1, 3)


def test_under_log_append_time_it_is_the_first_record_of_the_newest_batch() -> None:
    log = open_log(config=settings(message_timestamp_type="LogAppendTime"))
    log.append_as_leader(batch(3), 0)
    assert log.offset_of_max_timestamp() == (NOW_MS, 0, 0)


def test_markers_have_timestamps_too() -> None:
    log = open_log()
    log.append_as_leader(produced(7, 0, timestamp=NOW_MS, transactional=True), 0)
    end_transaction(log, 7, committed=True, timestamp=NOW_MS + 50)
    found = log.offset_for_timestamp(NOW_MS + 20)
    assert found is not None and found.offset == 1


def test_a_timestamp_is_found_behind_a_gap() -> None:
    log = open_log()
    log.append_as_follower(memoryview(at(5, batch(1, timestamp=NOW_MS)).buffer))
    log.append_as_follower(memoryview(at(50, marker(1, True, timestamp=NOW_MS + 9)).buffer))
    found = log.offset_for_timestamp(NOW_MS + 1)
    assert found is not None and found.offset == 50


def test_of_records_before_the_start_of_the_log_no_timestamp_is_the_largest() -> None:
    log = open_log()
    for timestamp in (90, 50, 70, 60):
        log.append_as_leader(batch(1, timestamp=NOW_MS + timestamp), 0)
    log.log_start_offset = 1
    assert log.offset_of_max_timestamp() == (NOW_MS + 70, 2, 0)
