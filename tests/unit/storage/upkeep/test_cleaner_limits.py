"""What the cleaner may use of the disk and of memory, and what it tells of itself."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from pykraft.common.metrics import Metrics
from pykraft.records.filtering import Outline
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.storage.upkeep.cleaner import ENTRY_BYTES, Cleaning, OffsetMap, Step
from pykraft.storage.upkeep.log_cleaner import CleanerLimits
from tests.harness.compaction import cleaner_of, compacting, records
from tests.harness.log_laws import all_batches
from tests.harness.lone_node import LoneNode
from tests.harness.storage import NOW_MS, PARTITION, ByHand, Inline, ManualClock, disk, open_log
from tests.unit.broker.test_log_care import filled


class Timed:
    """A cleaner whose steps take no time, and whose rests are taken at once and counted."""

    def __init__(self, io_bytes_per_second: float) -> None:
        self.clock = ManualClock()
        self.rests_ms: list[int] = []
        filesystem = disk()
        self.log = open_log(filesystem, compacting(segment_bytes=20_000), clock=self.clock)
        for number in range(400):
            self.log.append_as_leader(records((f"key {number % 7}", "x" * 500), timestamp=NOW_MS), 0)
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.roll(self.log.log_end_offset)
        limits = CleanerLimits(io_bytes_per_second=io_bytes_per_second)
        self.cleaner = cleaner_of(self.log, filesystem, self.clock, Inline(), limits=limits, after=self.rest)

    @property
    def rested_ms(self) -> int:
        return sum(self.rests_ms)

    def rest(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.rests_ms.append(delay_ms)
        self.clock.now_ms += delay_ms
        action()


def test_a_pass_takes_as_long_as_its_bytes_may() -> None:
    some = Timed(io_bytes_per_second=50_000)
    some.cleaner.clean()
    done = some.cleaner.last
    assert done is not None
    moved_bytes = done.read_bytes + done.written_bytes
    assert moved_bytes > 400_000, "everything is read twice"
    assert 0.9 * moved_bytes / 50 < some.rested_ms <= moved_bytes / 50
    assert max(some.rests_ms) < 1000, "it rests often, and for a moment"


def test_without_a_limit_there_is_no_rest() -> None:
    some = Timed(io_bytes_per_second=float("inf"))
    some.cleaner.clean()
    assert some.cleaner.last is not None and some.rested_ms == 0


def test_a_limit_is_kept_in_small_steps() -> None:
    assert CleanerLimits(io_bytes_per_second=300_000).piece_bytes == 100_000
    assert CleanerLimits(io_bytes_per_second=1).piece_bytes == 4096
    assert CleanerLimits().piece_bytes == 8 << 20


def test_others_get_their_turn_while_a_pass_runs() -> None:
    """After each piece, in the map's half of the pass and in the copy's; nothing is copied twice for it."""
    clock = ManualClock()
    log = open_log(filesystem := disk(), compacting(segment_bytes=20_000), clock=clock)
    for number in range(400):
        log.append_as_leader(records((f"key {number}", "x" * 500), timestamp=NOW_MS), 0)
    log.update_high_watermark(log.log_end_offset)
    log.roll(log.log_end_offset)
    cleaning = Cleaning.of(
        filesystem,
        log,
        first_dirty_offset=0,
        end_offset=log.log_end_offset,
        now_ms=NOW_MS,
        buffer_bytes=1 << 20,
        piece_bytes=5000,
    )
    read_bytes, steps = [0], []
    while (step := cleaning.step()) is not Step.DONE:
        steps.append(step)
        read_bytes.append(cleaning.read_bytes)
        if step is Step.CLEANED:
            cleaning.take_into_log()
    assert steps.count(Step.PAUSE) > 2 * 200_000 // 6000
    assert max(after - before for before, after in pairwise(read_bytes)) < 6000


def test_a_pass_holds_a_megabyte_or_two_of_the_log_however_large_its_segments_are(tmp_path: Path) -> None:
    """All records stay, so all 24 MB are written again."""
    config, filesystem = compacting(segment_bytes=1 << 30), OsFileSystem()
    log = open_log(filesystem, config, directory=f"{tmp_path}/flights-0")
    for number in range(2400):
        log.append_as_leader(records((f"key {number}", "x" * 10_000), timestamp=NOW_MS), 0)
    log.update_high_watermark(log.log_end_offset)
    log.roll(log.log_end_offset)
    fields = {"first_dirty_offset": 0, "end_offset": log.log_end_offset, "now_ms": NOW_MS, "buffer_bytes": 1 << 20}
    cleaning = Cleaning.of(filesystem, log, **fields)
    tracemalloc.start()
    try:
        while cleaning.step() is not Step.CLEANED:
            pass
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert cleaning.written_bytes > 24_000_000 and most < 6 << 20, f"{most >> 20} MB were held"
    cleaning.take_back()
    log.abandon()


def test_a_node_lets_its_cleaner_rest() -> None:
    """Half a megabyte in a second at most: the pass over some three kilobytes, twice, ends after 10 ms and more."""
    node = LoneNode(
        log_cleaner_backoff_ms="5000",
        log_cleaner_min_cleanable_ratio="0.1",
        **{"log.cleaner.io.max.bytes.per.second": "1000"},
    )
    log = filled(node, cleanup_policy="compact")
    node.run(5200)
    assert node.broker.logs.cleaners[0].is_busy_with(log)
    node.run(60_000)
    assert (
        not node.broker.logs.cleaners[0].is_busy_with(log)
        and node.broker.logs.cleaners[0].first_dirty[PARTITION_T] > 30
    )


PARTITION_T = PARTITION._replace(topic="t")


def test_the_map_of_keys_stays_within_its_memory() -> None:
    limit = 4 << 20
    keys = [f"a key that is longer than a digest {number}".encode() for number in range(40_000)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        offsets = OffsetMap(limit)
        is_full = not offsets.note((Outline(0, 0, 0, number, key, False) for number, key in enumerate(keys)), 0)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert is_full and offsets.utilization == 1 and offsets.latest_offset == len(offsets) - 1
    assert used <= limit, f"{used} bytes for {len(offsets)} keys"


def test_a_batch_of_more_keys_than_the_map_holds_takes_several_passes() -> None:
    clock = ManualClock()
    log = open_log(filesystem := disk(), compacting(segment_bytes=100_000), clock=clock)
    for value in ("old", "new"):
        pairs = [(f"key {number}", value) for number in range(50)]
        log.append_as_leader(records(*pairs, timestamp=NOW_MS), 0)
    log.update_high_watermark(log.log_end_offset)
    log.roll(log.log_end_offset)
    cleaner = cleaner_of(log, filesystem, clock, limits=CleanerLimits(buffer_bytes=7 * ENTRY_BYTES))
    cleaner.clean()
    assert cleaner.last is not None and len(cleaner.last.offsets) <= 7
    assert cleaner.first_dirty[PARTITION] == 100
    left = [record for each in all_batches(log) for record in each.records()]
    assert [record.offset for record in left] == list(range(50, 100))


def test_a_key_that_the_map_has_needs_room_all_the_same() -> None:
    """As in Kafka: the map is asked whether it is full, not whether it has the key."""
    offsets = OffsetMap(2 * ENTRY_BYTES)
    keys = (b"a", None, b"b", None, b"a")
    assert not offsets.note([Outline(0, 0, 0, number, key, False) for number, key in enumerate(keys)], 0)
    assert len(offsets) == 2 and offsets.latest_offset == 3


def test_the_load_factor_leaves_a_part_of_the_buffer_empty() -> None:
    node = LoneNode(**{"log.cleaner.io.buffer.load.factor": "0.5", "log.cleaner.dedupe.buffer.size": "2000000"})
    assert node.broker.logs.cleaners[0].limits.buffer_bytes == 1_000_000


def test_figures_are_told_under_kafkas_names() -> None:
    some = Timed(io_bytes_per_second=50_000)
    metrics = Metrics()
    some.cleaner.register_gauges(metrics)

    def read() -> dict[str, float]:
        return {name.split(",")[0]: value for _, name, value in metrics.read()}

    assert read()["max-dirty-percent"] == 100
    some.cleaner.clean()
    some.clock.now_ms += 5000
    found = read()
    assert found["max-dirty-percent"] == found["uncleanable-partitions-count"] == found["uncleanable-bytes"] == 0
    assert 0 < found["cleaner-recopy-percent"] < 50 and 0 < found["max-buffer-utilization-percent"] < 1
    assert found["max-clean-time-secs"] == some.rested_ms / 1000
    assert found["time-since-last-run-ms"] == 5000, "after the pass it looked once more, and found nothing"


def test_the_time_of_a_pass_is_that_of_the_last_one_also_while_another_runs() -> None:
    clock, background, metrics = ManualClock(), ByHand(), Metrics()
    log = open_log(filesystem := disk(), compacting(), clock=clock)
    cleaner = cleaner_of(log, filesystem, clock, background)
    cleaner.register_gauges(metrics)

    def pass_s() -> float:
        return next(value for _, name, value in metrics.read() if name == "max-clean-time-secs")

    for seconds in (2, 60):
        log.append_as_leader(records(("k", "v"), timestamp=NOW_MS), 0)
        log.update_high_watermark(log.log_end_offset)
        log.roll(log.log_end_offset)
        cleaner.clean()
        assert cleaner.current is not None
        clock.now_ms += seconds * 1000
        assert pass_s() == (0 if seconds == 2 else 2)
        background.run()
        assert pass_s() == seconds


def test_a_log_that_cannot_be_cleaned_is_told_and_counted() -> None:
    some = Timed(io_bytes_per_second=float("inf"))
    metrics = Metrics()
    some.cleaner.register_gauges(metrics)
    told: list[str] = []
    some.cleaner.on_uncleanable = lambda key, reason: told.append(f"{key}: {reason}")
    some.log.segments[1].records._file._inode.data[100] ^= 1  # type: ignore[attr-defined]
    some.cleaner.clean()
    found = {name.split(",")[0]: value for _, name, value in metrics.read()}
    assert len(told) == 1 and "flights-0: " in told[0] and "fails its checksum" in told[0]
    assert found["uncleanable-partitions-count"] == 1 and found["uncleanable-bytes"] > 100_000
