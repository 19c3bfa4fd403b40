"""Damage that no crash leaves: bytes that changed on the disk, in a log that was closed in order.

A node need not notice it at once, and may lose what is damaged. It must not stop, or take damage for an order to drop
what is sound.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pykraft.common.core import finish
from pykraft.common.settings.config import Config
from pykraft.common.types import Uuid
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.answers import Isolation
from pykraft.storage.disk.checkpoint import RECOVERY_POINT_CHECKPOINT, read_offsets
from pykraft.storage.log import UnifiedLog
from tests.harness.compaction import compacting, records
from tests.harness.log_laws import (
    check,
    every_offset_is_found,
    every_timestamp_is_found,
    recovered_indexes_are_rebuilt_ones,
)
from tests.harness.storage import (
    DIRECTORY,
    LOGS,
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    ByHand,
    bytes_of,
    disk,
    end_transaction,
    fill,
    open_log,
    produced,
    settings,
    started,
    tiny,
)

MAGIC, HIGHEST_BASE_BYTE = 16, 0
LOG, INDEX = ".log", ".index"


def opened(filesystem: MemoryFileSystem, config: Config, **fields: Any) -> UnifiedLog:
    log = started(filesystem, config, **fields).logs[PARTITION]
    log.update_high_watermark(log.log_end_offset)
    return log


def written(config: Config, count: int = 30, producer_id: int | None = None) -> tuple[MemoryFileSystem, list[int]]:
    """A log that was closed in order, with so many records, each a batch; the base offsets of its segments."""
    filesystem = disk()
    logs = started(filesystem, config)
    log = logs.get_or_create(PARTITION, TOPIC_ID)
    for number in range(count):
        some = (
            records((f"k{number % 5}", f"v{number}" * 4), timestamp=NOW_MS + number)
            if producer_id is None
            else produced(producer_id, number, timestamp=NOW_MS + number)
        )
        log.append_as_leader(some, number // 10)
    log.update_high_watermark(log.log_end_offset)
    logs.close(1)
    return filesystem, [segment.base_offset for segment in log.segments]


def path(base_offset: int, suffix: str = LOG) -> str:
    return f"{DIRECTORY}/{base_offset:020d}{suffix}"


def change(filesystem: MemoryFileSystem, name: str, position: int, value: int) -> None:
    data = bytearray(filesystem.read(name))
    data[position] = value
    filesystem.write(name, bytes(data))
    filesystem.sync_all()


def values_of(log: UnifiedLog, key: bytes) -> list[bytes | None]:
    found = (batch for segment in log.segments for _, batch in segment.records.batches())
    return [record.value for batch in found for record in batch.records() if record.key == key]


# --- starting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 2, 99])
def test_a_log_opens_without_snapshots_also_where_a_header_is_damaged(kept: int) -> None:
    """The producers' state is then made from the headers: as far as they can be read."""
    config = tiny(600)
    filesystem, bases = written(config)
    change(filesystem, path(bases[1]), MAGIC, 0x7F)
    snapshots = [name for name in filesystem.list(DIRECTORY) if name.endswith(".snapshot")]
    for name in snapshots[kept:]:
        filesystem.remove(f"{DIRECTORY}/{name}")
    assert opened(filesystem, config).log_end_offset == 30


@pytest.mark.costly
def test_an_index_entry_that_is_not_of_its_batch_is_not_believed() -> None:
    """A start looks at the first and the last entries of closed segments only, and no checksum covers the others."""
    config = tiny(2000)
    filesystem, bases = written(config, count=40)
    assert len(bases) > 1 and len(filesystem.read(path(0, INDEX))) >= 5 * 8
    for position in range(8, len(filesystem.read(path(0, INDEX))) - 8):
        damaged = copy.deepcopy(filesystem)
        for bit in (1, 64):
            change(damaged, path(0, INDEX), position, filesystem.read(path(0, INDEX))[position] ^ bit)
            log = opened(copy.deepcopy(damaged), config)
            every_offset_is_found(log)
            every_timestamp_is_found(log)


def test_an_index_of_a_longer_life_of_its_segment_is_made_anew() -> None:
    """All its entries are in order, and their batches were there once."""
    config = tiny(100_000)
    filesystem, _ = written(config)
    older = {suffix: filesystem.read(path(0, suffix)) for suffix in (INDEX, ".timeindex")}
    log = opened(filesystem, config)
    log.truncate_to(7)
    fill(log, 6, leader_epoch=5, size=40)
    log.roll(log.log_end_offset)
    fill(log, 1, leader_epoch=5)
    log.close()
    for suffix, entries in older.items():
        filesystem.write(path(0, suffix), entries)
    log = open_log(filesystem, config, clean=True, recovery_point=log.log_end_offset)
    check(log, recovered_indexes_are_rebuilt_ones, every_timestamp_is_found)


@pytest.mark.parametrize("batch_count", [0, 1])
def test_a_log_that_lost_whole_batches_goes_on_and_is_closed_in_order(batch_count: int) -> None:
    """Nothing but the time index tells of it where the segment is too small for the other one to have entries."""
    filesystem, _ = written(settings(), count=5)
    data = filesystem.read(path(0))
    filesystem.write(path(0), data[: batch_count * len(data) // 5])
    filesystem.sync_all()
    logs = started(filesystem, settings())
    log = logs.logs[PARTITION]
    assert log.log_end_offset == batch_count
    fill(log, 1, leader_epoch=9)
    logs.close(2)
    assert opened(filesystem, settings()).log_end_offset == log.log_end_offset


def test_an_offset_beyond_the_next_segment_is_damage() -> None:
    """No checksum covers it, and nothing but the next segment tells."""
    config = tiny(600)
    filesystem, bases = written(config)
    change(filesystem, path(bases[1]), 6, 4)
    filesystem.remove(path(bases[1], INDEX))
    log = opened(filesystem, config)
    assert [segment.base_offset for segment in log.segments] == bases
    assert log.segments[1].size == 0 and log.log_end_offset == 30
    check_offsets = [each.base_offset for segment in log.segments for _, each in segment.records.batches()]
    assert check_offsets == [*range(bases[1]), *range(bases[2], 30)]


@pytest.mark.parametrize("position", range(4))
def test_an_index_that_knows_of_more_than_its_log_is_made_anew(position: int) -> None:
    config = tiny(2000)
    filesystem, _ = written(config, count=10)
    entries = len(filesystem.read(path(0, INDEX))) // 8
    change(filesystem, path(0, INDEX), 8 * (entries - 1) + position, 0x11)
    log = opened(filesystem, config)
    assert log.log_end_offset == 10
    fill(log, 8, leader_epoch=9)
    check(log)


def test_so_is_an_index_of_transactions() -> None:
    filesystem = disk()
    logs = started(filesystem, settings())
    log = logs.get_or_create(PARTITION, TOPIC_ID)
    log.append_as_leader(produced(7, 0, transactional=True), 0)
    end_transaction(log, 7, committed=False)
    logs.close(1)
    change(filesystem, path(0, ".txnindex"), 18, 1)  # the offset of the marker
    log = opened(filesystem, settings())
    log.append_as_leader(produced(7, 1, transactional=True), 0)
    end_transaction(log, 7, committed=False)
    assert [aborted.last_offset for aborted in log.aborted_transactions(0, 9)] == [1, 3]


def test_a_start_offset_beyond_all_numbers_is_damage_and_no_order_to_delete() -> None:
    filesystem, _ = written(settings(), count=5)
    filesystem.write(f"{LOGS}/log-start-offset-checkpoint", b"0\n1\nflights 0 9223372036854775808\n")
    with pytest.raises(Exception, match="log-start-offset-checkpoint is damaged"):
        started(filesystem, settings())
    assert filesystem.read(path(0))


# --- appending and truncating -----------------------------------------------------------------------------------------


def test_where_the_first_header_of_a_segment_cannot_be_read_appends_go_on() -> None:
    config = settings(index_interval_bytes=100)
    filesystem, _ = written(config)
    change(filesystem, path(0), MAGIC, 0x7F)
    log = opened(filesystem, config)
    fill(log, 1, leader_epoch=9)
    assert len(bytes_of(log.read(29, 1000, Isolation.LOG_END, at_least_one=True).records)) > 0


@pytest.mark.parametrize("position", [8, MAGIC])
def test_a_truncation_into_a_damaged_segment_is_whole(position: int) -> None:
    """The owner of the log gets a call, so that no checkpoint is too high; and producers are known by what can be
    read."""
    config = tiny(600)
    filesystem, bases = written(config, producer_id=7)
    change(filesystem, path(bases[2]), position, 0x7F)
    log = opened(filesystem, config)
    log.truncate_to(bases[3] - 1)
    assert log.log_end_offset < bases[3]
    assert read_offsets(filesystem, f"{LOGS}/{RECOVERY_POINT_CHECKPOINT}")[PARTITION] <= log.log_end_offset
    assert log.producer_state.producers[7].last_sequence == bases[2] - 1


@pytest.mark.parametrize("damaged", range(1, 8))
@pytest.mark.parametrize("offset", range(1, 9))
def test_a_truncation_goes_around_damage_wherever_the_index_points(offset: int, damaged: int) -> None:
    config = tiny(2000)
    filesystem, _ = written(config, count=10)
    batch_bytes = len(filesystem.read(path(0))) // 10
    change(filesystem, path(0), damaged * batch_bytes + MAGIC, 0x7F)
    log = opened(filesystem, config)
    log.truncate_to(offset)
    end = log.log_end_offset
    assert end == min(offset, damaged), "or a recovery would take what is appended behind the damage"
    fill(log, 8, leader_epoch=9)
    check(log)


@pytest.mark.parametrize("offset", range(1, 9))
@pytest.mark.parametrize("position", range(4, 28))
def test_a_truncation_goes_around_a_damaged_index(offset: int, position: int) -> None:
    """Of three entries; the last one is looked at when the log is opened."""
    config = tiny(2000)
    filesystem, _ = written(config, count=10)
    assert len(filesystem.read(path(0, INDEX))) > 28
    change(filesystem, path(0, INDEX), position, 0x01)
    log = opened(filesystem, config)
    log.truncate_to(offset)
    assert log.log_end_offset <= offset and log.size <= len(filesystem.read(path(0)))
    fill(log, 8, leader_epoch=9)
    log.flush()
    log.abandon()
    filesystem.crash_process()
    again = opened(filesystem, config)
    assert again.log_end_offset == log.log_end_offset


# --- compaction -------------------------------------------------------------------------------------------------------


def test_a_log_whose_closed_segments_are_empty_is_nothing_to_clean() -> None:
    config = compacting(segment_bytes=400)
    filesystem, bases = written(config, count=6)
    change(filesystem, path(bases[0]), MAGIC, 9)
    filesystem.remove(path(bases[0], INDEX))
    logs = started(filesystem, config)
    log = logs.logs[PARTITION]
    assert [segment.size for segment in log.segments[:-1]] == [0] * (len(log.segments) - 1)
    log.update_high_watermark(log.log_end_offset)
    finish(logs.compact())
    assert logs.cleaner._max_dirty_ratio() == 0


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("damaged", range(1, 9))
def test_an_offset_that_is_out_of_order_sets_the_log_aside(damaged: int, position: int) -> None:
    """No checksum covers a batch's base offset, so the cleaner looks whether it follows. Believed, it could make the
    newest value of a key look old."""
    config = compacting(segment_bytes=400)
    filesystem = disk()
    logs = started(filesystem, config)
    log = logs.get_or_create(PARTITION, TOPIC_ID)
    places = []
    for number in range(14):
        key = {0: "seat", 7: "seat"}.get(number, f"other{number}")
        log.append_as_leader(records((key, f"{number}"), timestamp=NOW_MS + number), 0)
        segment = log.active_segment
        batch_bytes = len(bytes_of(log.read(number, 1, Isolation.LOG_END, at_least_one=True).records))
        places.append((segment.base_offset, segment.size - batch_bytes))
    log.update_high_watermark(log.log_end_offset)
    logs.close(1)
    base_offset, start = places[damaged]
    change(filesystem, path(base_offset), start + position, 0x80 if position == HIGHEST_BASE_BYTE else 1)
    logs = started(filesystem, config)
    log = logs.logs[PARTITION]
    log.update_high_watermark(log.log_end_offset)
    finish(logs.compact())
    assert list(logs.cleaner.uncleanable) == [PARTITION]
    assert b"7" in values_of(log, b"seat")
    assert not [name for name in filesystem.list(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_damage_of_a_topic_that_is_gone_does_not_set_the_new_one_aside() -> None:
    config = compacting(segment_bytes=400)
    filesystem, bases = written(config)
    change(filesystem, path(bases[1]), 70, 0xAA)
    background = ByHand()
    logs = started(filesystem, config, background=background)
    logs.logs[PARTITION].update_high_watermark(30)
    finish(logs.compact())
    while not background.results:
        background.run_job()
    logs.delete(PARTITION)
    new = logs.get_or_create(PARTITION, Uuid(b"\x09" * 16))
    background.run()
    for number in range(30):
        new.append_as_leader(records((f"k{number % 5}", f"v{number}" * 4), timestamp=NOW_MS + number), 0)
    new.update_high_watermark(30)
    finish(logs.compact())
    background.run()
    assert not logs.cleaner.uncleanable
    assert logs.cleaner.first_dirty[PARTITION] > 0
