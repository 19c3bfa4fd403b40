"""Retention: which segments go, when, and what is left on the disk at each moment."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykraft.common.core import finish
from pykraft.common.errors import KafkaError
from pykraft.common.settings.topic_config import LOG_CONFIG, RETENTION_MS
from pykraft.common.types import Uuid
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.answers import Isolation
from pykraft.storage.disk.trash import Trash
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.log_manager import LogManager
from pykraft.storage.upkeep.retention import count_deletable, delete_old_segments
from tests.harness.log_laws import check
from tests.harness.storage import (
    DIRECTORY,
    LOGS,
    NEVER_MS,
    NOW_MS,
    PARTITION,
    ByHand,
    ManualClock,
    batch,
    bytes_of,
    disk,
    fill,
    open_log,
    produced,
    read_batches,
    tiny,
)

FIRST = Uuid(b"\x01" * 16)
KEEP = {"retention_ms": -1, "retention_bytes": -1}


def filled(batch_count: int = 20, replicated: int | None = None, **config: Any) -> UnifiedLog:
    """A log of small segments, one millisecond of log time for each offset, replicated up to an offset."""
    log = open_log(config=tiny(**{**KEEP, **config}))
    for _ in range(batch_count):
        log.append_as_leader(batch(1, timestamp=NOW_MS + log.log_end_offset, size=30, key=b""), 0)
    log.update_high_watermark(log.log_end_offset if replicated is None else replicated)
    return log


def bases(log: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_log_without_limits_keeps_everything() -> None:
    log = filled()
    assert len(log.segments) > 4
    assert delete_old_segments(log, NOW_MS + NEVER_MS) == 0


def test_a_segment_is_too_old_when_its_youngest_record_is() -> None:
    log = filled(retention_ms=1000)
    first, second = log.segments[:2]
    youngest = first.largest_timestamp().timestamp
    assert count_deletable(log, youngest + 1000) == 0
    assert count_deletable(log, youngest + 1001) == 1
    assert count_deletable(log, second.largest_timestamp().timestamp + 1001) == 2


def test_of_a_damaged_segment_the_index_tells_how_old_it_is() -> None:
    log = filled(retention_ms=1000)
    second_offset = log.segments[1].base_offset
    youngest = log.segments[0].largest_timestamp().timestamp
    last = [position for position, _ in log.segments[0].records.batches()][-1]
    log.close()
    path = f"{DIRECTORY}/{0:020d}.log"
    data = bytearray(log._filesystem.read(path))
    data[last + 16] ^= 1  # the magic byte of the last batch
    log._filesystem.write(path, data)
    again = open_log(log._filesystem, log.config, clean=True)
    again.update_high_watermark(again.log_end_offset)
    assert delete_old_segments(again, youngest + 1000) == 0
    assert delete_old_segments(again, youngest + 1001) == 1 and bases(again)[0] == second_offset


def test_a_young_record_in_an_old_segment_keeps_it_and_all_that_follow() -> None:
    log = open_log(config=tiny(**{**KEEP, "retention_ms": 1000}))
    log.append_as_leader(batch(1, timestamp=NOW_MS + 5000), 0)
    fill(log, 20)
    log.update_high_watermark(log.log_end_offset)
    assert count_deletable(log, NOW_MS + 4000) == 0
    assert count_deletable(log, NOW_MS + 9000) > 4


@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_a_segment_goes_if_the_log_is_large_enough_without_it(spare: int) -> None:
    log = filled()
    limit = sum(segment.size for segment in log.segments[2:]) - spare
    log.config = log.config.with_values(retention_bytes=limit)
    assert count_deletable(log, NOW_MS) == (1 if spare < 0 else 2)


def test_segments_below_the_log_start_go_whatever_the_policy_is() -> None:
    log = filled(cleanup_policy=["compact"], retention_ms=1, retention_bytes=0)
    second, third = bases(log)[1:3]
    for start, count in ((second - 1, 0), (second, 1), (third - 1, 1), (third, 2)):
        log.increase_log_start(start)
        assert count_deletable(log, NOW_MS + NEVER_MS) == count
    log.config = log.config.with_values(cleanup_policy=["compact", "delete"])
    assert count_deletable(log, NOW_MS + NEVER_MS) == len(log.segments)


def test_no_segment_goes_that_is_not_wholly_below_the_high_watermark() -> None:
    log = filled(retention_ms=1)
    third = bases(log)[2]
    for mark, count in ((third - 1, 1), (third, 2), (third + 1, 2)):
        log.update_high_watermark(mark)
        assert count_deletable(log, NOW_MS + NEVER_MS) == count


def test_no_segment_that_may_be_lost_is_deleted() -> None:
    log = filled(replicated=0, retention_ms=1)
    delete_old_segments(log, NOW_MS + NEVER_MS)
    assert log.log_start_offset == 0 and len(log.segments) > 4


def test_the_log_begins_where_the_first_segment_that_is_left_begins() -> None:
    log = filled(retention_ms=1)
    kept = bases(log)[3:]
    log.delete_segments(3)
    assert bases(log) == kept and log.log_start_offset == kept[0]
    with pytest.raises(KafkaError, match=rf"{kept[0]}\.\.20\)"):
        log.read(kept[0] - 1, 1000, Isolation.HIGH_WATERMARK, at_least_one=True)
    assert [each.base_offset for each in read_batches(log)] == list(range(kept[0], 20))
    check(log)


def test_when_all_goes_an_empty_segment_takes_the_place() -> None:
    log = filled(retention_ms=1)
    assert delete_old_segments(log, NOW_MS + NEVER_MS) > 4
    assert bases(log) == [20] and (log.log_start_offset, log.log_end_offset, log.size) == (20, 20, 0)
    assert delete_old_segments(log, NOW_MS + NEVER_MS) == 0, "an empty segment is never too old"
    log.append_as_leader(batch(2, timestamp=NOW_MS), 0)
    assert log.log_end_offset == 22


def test_a_producer_is_known_after_its_batches_are_gone() -> None:
    log = open_log(config=tiny())
    for sequence in range(20):
        log.append_as_leader(produced(7, sequence, timestamp=NOW_MS), 0)
    log.update_high_watermark(20)
    log.delete_segments(len(log.segments))
    assert log.append_as_leader(produced(7, 19, timestamp=NOW_MS), 0).first_offset == 19, "it is no new batch"
    assert log.append_as_leader(produced(7, 20, timestamp=NOW_MS), 0).first_offset == 20


def test_an_open_transaction_below_the_log_start_does_not_hide_the_log() -> None:
    log = open_log(config=tiny(**KEEP))
    log.append_as_leader(produced(7, 0, transactional=True), 0)
    fill(log, 20)
    log.update_high_watermark(log.log_end_offset)
    log.delete_segments(2)
    assert log.last_stable_offset == log.log_start_offset
    check_marks = log.read(log.log_start_offset, 1000, Isolation.COMMITTED, at_least_one=True)
    assert bytes_of(check_marks.records) == b""


def test_a_deleted_segment_is_read_to_its_end_by_who_has_begun() -> None:
    log = filled()
    path = log.segments[0].records
    log.delete_segments(1)
    assert len(bytes_of(path.region(0, path.size))) == path.size


# --- delayed deletion -------------------------------------------------------------------------------------------------


def test_a_deleted_segments_files_stay_for_a_while_under_another_name() -> None:
    filesystem, clock, background = disk(), ManualClock(), ByHand()
    trash = Trash(filesystem, clock, background)
    log = open_log(filesystem, tiny(file_delete_delay_ms=5000), clock=clock, background=background, trash=trash)
    fill(log, 20)
    log.update_high_watermark(log.log_end_offset)
    background.run()
    doomed = f"{DIRECTORY}/{0:020d}"
    log.delete_segments(1)
    for suffix in ("log", "index", "timeindex"):
        assert not filesystem.exists(f"{doomed}.{suffix}")
        assert filesystem.exists(f"{doomed}.{suffix}.deleted")
    clock.now_ms += 4999
    trash.empty()
    background.run()
    assert filesystem.exists(f"{doomed}.log.deleted")
    clock.now_ms += 1
    trash.empty()
    assert filesystem.exists(f"{doomed}.log.deleted"), "removing is work for the background"
    background.run()
    assert not any(name.endswith(".deleted") for name in filesystem.list(DIRECTORY))


def test_what_was_deleted_before_a_stop_goes_at_the_start() -> None:
    filesystem = disk()
    log = open_log(filesystem, tiny())
    fill(log, 20)
    log.update_high_watermark(log.log_end_offset)
    log.delete_segments(2)
    kept = bases(log)
    log.close()
    again = open_log(filesystem, tiny(), clean=True)
    assert bases(again) == kept and again.log_start_offset == kept[0]
    assert not any(name.endswith(".deleted") for name in filesystem.list(DIRECTORY))


def manager(filesystem: MemoryFileSystem, clock: ManualClock, **config: Any) -> LogManager:
    found = LogManager(
        filesystem=filesystem,
        directory=LOGS,
        config_for=lambda _: tiny(**config),
        clock=clock,
        background=ByHand(),
        random=Random(1),
        producer_id_expiration_ms=NEVER_MS,
    )
    found.start()
    return found


def test_the_log_manager_shortens_its_logs_and_the_next_start_agrees() -> None:
    filesystem, clock = disk(), ManualClock()
    found = manager(filesystem, clock, retention_ms=1000)
    log = found.get_or_create(PARTITION, FIRST)
    fill(log, 20)
    log.update_high_watermark(log.log_end_offset)
    clock.now_ms = NOW_MS + 100
    found.delete_old_segments()
    assert log.log_start_offset == 0
    clock.now_ms = NOW_MS + 1100
    found.delete_old_segments()
    start = log.log_start_offset
    assert 0 < start < log.log_end_offset
    filesystem.crash_process()
    assert manager(filesystem, clock).logs[PARTITION].log_start_offset == start


def test_a_compacted_log_is_shortened_by_the_cleaner() -> None:
    clock = ManualClock(NOW_MS + 5000)
    found = manager(disk(), clock, retention_ms=1000, cleanup_policy=["compact", "delete"])
    log = found.get_or_create(PARTITION, FIRST)
    fill(log, 20, key=b"key")
    log.update_high_watermark(log.log_end_offset)
    found.delete_old_segments()
    assert log.log_start_offset == 0
    finish(found.compact())
    assert log.log_start_offset == log.log_end_offset


# --- other settings that act by time ----------------------------------------------------------------------------------


def test_a_log_is_flushed_after_so_many_records() -> None:
    log = open_log(config=tiny(segment_bytes=10_000, flush_messages=5))
    points = []
    for _ in range(12):
        log.append_as_leader(batch(1), 0)
        points.append(log.recovery_point)
    assert points == [0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10]


def test_a_log_is_flushed_after_so_long() -> None:
    clock = ManualClock()
    found = manager(disk(), clock, segment_bytes=10_000, flush_ms=100)
    log = found.get_or_create(PARTITION, FIRST)
    fill(log, 3)
    for waited_ms, is_flushed in ((99, False), (1, True)):
        clock.now_ms += waited_ms
        finish(found.flush_old())
        assert (log.recovery_point == log.log_end_offset) == is_flushed


def rolled_after_ms(base_offset: int, **config: Any) -> int:
    """How much time the segment that begins there spans at most."""
    log = open_log(config=tiny(segment_bytes=100_000, segment_ms=1000, **config), log_start_offset=base_offset)
    log.append_as_leader(batch(1, timestamp=NOW_MS, key=b""), 0)
    for waited_ms in range(1, 1100):
        log.append_as_leader(batch(1, timestamp=NOW_MS + waited_ms, key=b""), 0)
        if len(log.segments) > 1:
            return waited_ms - 1
    raise AssertionError("it was not rolled")


@pytest.mark.costly
def test_jitter_spreads_the_rolling_of_segments() -> None:
    assert rolled_after_ms(0) == 1000
    spread = [rolled_after_ms(base, segment_jitter_ms=300) for base in range(8)]
    assert all(700 < each <= 1000 for each in spread) and len(set(spread)) > 5
    assert spread[0] == rolled_after_ms(0, segment_jitter_ms=300), "the same segment always at the same age"


def test_a_compacted_log_rolls_before_its_records_wait_too_long() -> None:
    assert rolled_after_ms(0, max_compaction_lag_ms=200) == 1000
    assert rolled_after_ms(0, max_compaction_lag_ms=200, cleanup_policy=["compact"]) == 200


@pytest.mark.parametrize(
    ("said", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "3", "log.retention.ms": "5"}, 5),
    ],
)
def test_retention_has_a_name_for_every_unit(said: dict[str, str], retention_ms: int) -> None:
    assert LOG_CONFIG.resolve({}, said)[RETENTION_MS] == retention_ms
