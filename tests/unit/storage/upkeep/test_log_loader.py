"""Opening a log: after an orderly stop, after a crash, and in a folder that is not as it should be."""

from __future__ import annotations

import copy
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.records.batch import RecordBatch
from pykraft.sim.world.disk import Crash, MemoryFileSystem
from pykraft.storage.disk.checkpoint import DamagedFileError, read_partition_metadata
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep import cleaner
from tests.harness.compaction import cleaner_of, compacting, records
from tests.harness.log_laws import all_batches, check, recovered_indexes_are_rebuilt_ones
from tests.harness.storage import (
    DIRECTORY,
    LOGS,
    NOW_MS,
    TOPIC_ID,
    ManualClock,
    batch,
    contents,
    disk,
    end_transaction,
    fill,
    loader,
    open_log,
    produced,
    tiny,
)


def stopped(in_order: bool = True) -> tuple[MemoryFileSystem, UnifiedLog]:
    """A disk with a log of twenty batches and an idempotent producer, closed in order or left by its process."""
    filesystem = disk()
    log = open_log(filesystem, tiny())
    fill(log, 20)
    log.append_as_leader(produced(7, 0, 2), 3)
    if in_order:
        log.close()
    else:
        filesystem.crash_process()
    return filesystem, log


def path(log: UnifiedLog, number: int, suffix: str) -> str:
    return f"{DIRECTORY}/{log.segments[number].base_offset:020d}.{suffix}"


def test_a_snapshot_from_before_the_first_segment_tells_nothing_any_more() -> None:
    """Segments were deleted and the power failed before the newer snapshots were on the disk: the old one knows of an
    open transaction whose end was deleted."""
    filesystem = disk()
    log = open_log(filesystem, tiny())
    log.append_as_leader(produced(7, 0, transactional=True), 0)
    log.roll(log.log_end_offset)
    end_transaction(log, 7, committed=True)
    log.roll(log.log_end_offset)
    fill(log, 3)
    filesystem.crash_process()
    for base in (0, 1):
        for suffix in ("log", "index", "timeindex"):
            filesystem.remove(f"{DIRECTORY}/{base:020d}.{suffix}")
    filesystem.remove(f"{DIRECTORY}/{2:020d}.snapshot")
    assert filesystem.exists(f"{DIRECTORY}/{1:020d}.snapshot")
    log = open_log(filesystem, tiny())
    log.update_high_watermark(log.log_end_offset)
    assert log.log_start_offset == 2 and log.last_stable_offset == log.log_end_offset
    assert log.producer_state.producers == {}


def test_a_fresh_log_is_an_empty_folder_with_a_topic_id() -> None:
    filesystem = disk()
    log = open_log(filesystem)
    assert (log.log_start_offset, log.log_end_offset, log.size, log.latest_epoch) == (0, 0, 0, -1)
    assert filesystem.list(DIRECTORY) == [f"{0:020d}.{suffix}" for suffix in ("index", "log", "timeindex")] + [
        "partition.metadata"
    ]
    assert read_partition_metadata(filesystem, DIRECTORY) == TOPIC_ID
    assert filesystem._root.entries["logs"].unsynced == [], "its folder is on the disk"  # type: ignore[union-attr]


def test_a_closed_log_opens_as_it_was_and_nothing_is_written() -> None:
    filesystem, before = stopped()
    operations = filesystem.operations
    log = open_log(filesystem, tiny(), clean=True, recovery_point=before.log_end_offset)
    assert filesystem.operations == operations
    assert contents(log) and log.log_end_offset == before.log_end_offset == log.recovery_point
    assert log.epochs.entries == before.epochs.entries
    assert log.producer_state.producers == before.producer_state.producers
    check(log)


def test_a_closed_log_is_opened_without_reading_its_batches() -> None:
    """A damaged batch far below the end is not noticed: it is not looked at."""
    filesystem, before = stopped()
    data = bytearray(filesystem.read(path(before, 0, "log")))
    data[30] ^= 1
    filesystem.write(path(before, 0, "log"), data)
    assert open_log(filesystem, tiny(), clean=True).log_end_offset == before.log_end_offset


def test_a_log_that_its_process_left_has_every_append() -> None:
    filesystem, before = stopped(in_order=False)
    opened = loader(filesystem, tiny())
    log = opened.load()
    assert opened.lost_bytes == 0
    assert log.log_end_offset == before.log_end_offset and 7 in log.producer_state.producers
    assert log.recovery_point == 0, "the indexes are not on the disk yet: another crash, and all is read again"
    assert all(inode.synced == len(inode.data) for name, inode in files_of_the_log(filesystem) if name.endswith(".log"))
    check(log, recovered_indexes_are_rebuilt_ones)


def test_a_torn_tail_goes_and_is_counted() -> None:
    filesystem, before = stopped(in_order=False)
    last = path(before, -1, "log")
    filesystem.write(last, filesystem.read(last)[:-5])
    opened = loader(filesystem, tiny())
    log = opened.load()
    assert opened.lost_bytes == produced(7, 0, 2).size - 5
    assert log.log_end_offset == before.log_end_offset - 2
    assert log.latest_epoch == 0, "epoch 3 began with the batch that is gone"
    check(log, recovered_indexes_are_rebuilt_ones)


def test_segments_behind_a_damaged_one_go_with_it() -> None:
    filesystem, before = stopped(in_order=False)
    damaged = path(before, 1, "log")
    data = bytearray(filesystem.read(damaged))
    data[-1] ^= 1
    filesystem.write(damaged, data)
    log = open_log(filesystem, tiny())
    assert [segment.base_offset for segment in log.segments] == [0, 7]
    assert [name for name in filesystem.list(DIRECTORY) if name > "00000000000000000008" and name[0].isdigit()] == []
    check(log, recovered_indexes_are_rebuilt_ones)


@pytest.mark.parametrize("in_order", [True, False])
def test_an_offset_index_that_is_missing_is_made_anew_also_below_the_recovery_point(in_order: bool) -> None:
    filesystem, before = stopped()
    lost = path(before, 0, "index")
    index = filesystem.read(lost)
    assert index
    filesystem.remove(lost)
    log = open_log(filesystem, tiny(), clean=in_order, recovery_point=before.log_end_offset)
    assert filesystem.read(lost) == index
    assert log.log_end_offset == before.log_end_offset
    check(log, recovered_indexes_are_rebuilt_ones)


def test_what_lies_below_the_recovery_point_is_trusted() -> None:
    filesystem, before = stopped(in_order=False)
    data = bytearray(filesystem.read(path(before, 0, "log")))
    data[30] ^= 1
    filesystem.write(path(before, 0, "log"), data)
    second = before.segments[1].base_offset
    assert open_log(filesystem, tiny(), recovery_point=second).log_end_offset == before.log_end_offset
    filesystem.crash_process()
    assert open_log(filesystem, tiny(), recovery_point=second - 1).log_end_offset == 0


def test_a_segment_that_lost_its_tail_without_a_trace_shows_by_the_gap_behind_it() -> None:
    """The power failed before the segment was synced: its last batch is missing, and what is left is sound."""
    filesystem, before = stopped(in_order=False)
    short = path(before, 1, "log")
    last = all_batches(before)[-1] if len(before.segments) == 1 else None
    assert last is None
    whole = filesystem.read(short)
    position = before_last_batch(whole)
    filesystem.write(short, whole[:position])
    log = open_log(filesystem, tiny())
    assert len(log.segments) == 2
    check(log, recovered_indexes_are_rebuilt_ones)


def before_last_batch(data: bytes) -> int:
    position = following = 0
    while following < len(data):
        position, following = following, following + RecordBatch(memoryview(data)[following:]).size
    return position


def test_a_gap_between_trusted_segments_is_compactions_doing() -> None:
    filesystem, before = stopped()
    short = path(before, 1, "log")
    whole = filesystem.read(short)
    filesystem.write(short, whole[: before_last_batch(whole)])
    for suffix in ("index", "timeindex"):
        filesystem.remove(path(before, 1, suffix))
    log = open_log(filesystem, tiny(), clean=True)
    assert len(log.segments) == len(before.segments) and log.log_end_offset == before.log_end_offset
    check(log)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("content", [b"", b"\x00", b"\x00" * 24, b"\xff" * 24])
def test_indexes_that_do_not_fit_are_rebuilt(clean: bool, suffix: str, content: bytes) -> None:
    filesystem, before = stopped(in_order=clean)
    for number in range(3):
        filesystem.write(path(before, number, suffix), content)
    point = before.log_end_offset if clean else before.segments[-1].base_offset
    log = open_log(filesystem, tiny(), clean=clean, recovery_point=point)
    assert log.log_end_offset == before.log_end_offset
    check(log)
    for name, inode in files_of_the_log(filesystem):
        is_read_again = not clean and name.startswith(f"{point:020d}.")
        assert inode.synced == len(inode.data) or (is_read_again and not name.endswith(".log")), name


def files_of_the_log(filesystem: MemoryFileSystem) -> list[tuple[str, Any]]:
    """The names of its files, and what the disk has of each."""
    folder: Any = filesystem._root.entries["logs"]
    return list(folder.entries["flights-0"].entries.items())


def test_half_written_files_and_indexes_without_a_log_go() -> None:
    filesystem, before = stopped()
    for name in ("leader-epoch-checkpoint.tmp", "00000000000000009999.index", "00000000000000009999.timeindex"):
        filesystem.write(f"{DIRECTORY}/{name}", b"x")
    before_names = set(filesystem.list(DIRECTORY))
    open_log(filesystem, tiny(), clean=True)
    assert len(before_names - set(filesystem.list(DIRECTORY))) == 3
    assert before.log_end_offset == 41


STRANGERS = (
    "notes.txt",
    "notes.log",
    "5.log",
    "5.snapshot",
    f"{5:021d}.log",
    f"{5:021d}.snapshot",
    f"{10**20 - 1}.log",
)


@pytest.mark.parametrize(
    "name", [*STRANGERS, f"{10**20 - 1}.snapshot", "\u0665" * 20 + ".log", "\u0665" * 20 + ".snapshot"]
)
def test_files_that_are_not_the_logs_are_left_alone(name: str) -> None:
    """Also those with a number for a name: a log's files have 20 digits."""
    for in_order in (True, False):
        filesystem, before = stopped(in_order=in_order)
        names = set(filesystem.list(DIRECTORY))
        filesystem.write(f"{DIRECTORY}/{name}", b"x")
        filesystem.write(f"{DIRECTORY}/00000000000000000000.log.deleted", b"x")
        log = open_log(filesystem, tiny(), clean=in_order)
        assert [each.base_offset for each in log.segments] == [each.base_offset for each in before.segments]
        assert log.log_end_offset == before.log_end_offset
        assert set(filesystem.list(DIRECTORY)) == {*names, name}


def test_epochs_and_snapshots_beyond_the_end_go() -> None:
    filesystem, before = stopped(in_order=False)
    filesystem.write(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n3\n0 0\n3 39\n9 41\n")
    filesystem.write(f"{DIRECTORY}/00000000000000000099.snapshot", b"x")
    log = open_log(filesystem, tiny())
    assert log.epochs.entries == [(0, 0), (3, 39)]
    assert 99 not in log.producer_state.snapshot_offsets()
    assert log.log_end_offset == before.log_end_offset


def test_an_epoch_whose_leader_wrote_nothing_before_an_orderly_stop_goes() -> None:
    """Apache Kafka notes an epoch when its leader is elected, whether it writes anything or not."""
    filesystem, _ = stopped()
    filesystem.write(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n3\n0 0\n3 39\n9 41\n")
    assert open_log(filesystem, tiny(), clean=True).epochs.entries == [(0, 0), (3, 39)]


def test_epochs_of_what_was_read_through_are_those_of_the_batches() -> None:
    """The file may tell of a log that the power failure took back."""
    filesystem, _ = stopped(in_order=False)
    filesystem.write(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n2\n0 0\n5 20\n")
    log = open_log(filesystem, tiny())
    assert log.epochs.entries == [(0, 0), (3, 39)]


def test_snapshots_of_earlier_stops_do_not_pile_up() -> None:
    filesystem = disk()
    for number in range(5):
        log = open_log(filesystem, clean=True)
        fill(log, 1)
        log.close()
        assert len(log.producer_state.snapshot_offsets()) <= 2, number


def test_a_log_start_above_the_first_segment_holds() -> None:
    filesystem, _ = stopped()
    log = open_log(filesystem, tiny(), clean=True, log_start_offset=12)
    assert (log.log_start_offset, log.high_watermark) == (12, 12)
    assert log.epochs.entries == [(0, 12), (3, 39)]


def test_a_log_start_above_its_end_is_its_end() -> None:
    """The records between were lost with the power, but they had been deleted anyway."""
    filesystem, _ = stopped()
    log = open_log(filesystem, tiny(), log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert [name for name in filesystem.list(DIRECTORY) if name.endswith(".log")] == [f"{100:020d}.log"]
    log.append_as_leader(batch(1), 9)
    assert log.log_end_offset == 101


def test_a_transaction_of_which_nothing_is_left_is_forgotten_at_the_next_start() -> None:
    """As in Kafka, where a snapshot of the producers is dropped that does not lie above the log's start."""
    filesystem = MemoryFileSystem()
    log = open_log(filesystem)
    log.append_as_leader(produced(7, 0, transactional=True), 0)
    log.update_high_watermark(log.log_end_offset)
    log.increase_log_start(log.log_end_offset)
    fill(log, 1)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_start_offset < log.log_end_offset, "it is open still"
    log.truncate_to(log.log_start_offset)
    start = log.log_start_offset
    log.close()
    again = open_log(filesystem, clean=True, log_start_offset=start)
    fill(again, 1)
    again.update_high_watermark(again.log_end_offset)
    assert again.last_stable_offset == again.log_end_offset


def test_a_folder_belongs_to_one_topic_id() -> None:
    filesystem, _ = stopped()
    assert loader(filesystem, tiny(), topic_id=None, clean=True).load().topic_id == TOPIC_ID
    with pytest.raises(DamagedFileError, match=f"belongs to topic {TOPIC_ID}"):
        open_log(filesystem, tiny(), topic_id=Uuid(b"\x07" * 16))


def test_a_folder_without_an_id_gets_the_one_that_is_known() -> None:
    filesystem, _ = stopped()
    filesystem.remove(f"{DIRECTORY}/partition.metadata")
    assert loader(filesystem, tiny(), topic_id=None, clean=True).load().topic_id is None
    assert open_log(filesystem, tiny(), topic_id=ZERO_UUID, clean=True).topic_id == ZERO_UUID
    assert read_partition_metadata(filesystem, DIRECTORY) == ZERO_UUID


def test_silent_producers_are_not_taken_over() -> None:
    filesystem, _ = stopped()
    late = ManualClock(NOW_MS + 200_000)
    log = open_log(filesystem, tiny(), clean=True, clock=late, producer_id_expiration_ms=100_000)
    assert log.producer_state.producers == {}


def test_damage_in_a_log_that_was_closed_in_order_is_cut_off_if_its_indexes_show_it() -> None:
    """No crash does that. What stands behind the damage in that segment cannot be read; what follows it stays, as in
    Apache Kafka (tests/interop/test_java_damaged_segment.py)."""
    filesystem, before = stopped()
    data = bytearray(filesystem.read(path(before, 1, "log")))
    data[-1] ^= 1
    filesystem.write(path(before, 1, "log"), data)
    filesystem.write(path(before, 1, "timeindex"), b"")
    log = open_log(filesystem, tiny(), clean=True)
    assert [segment.base_offset for segment in log.segments] == [segment.base_offset for segment in before.segments]
    assert log.segments[1].size < len(data) and log.log_end_offset == before.log_end_offset
    left = [batch.base_offset for batch in all_batches(log)]
    assert left == sorted(left) and left[-1] < before.log_end_offset
    check(log)


@pytest.mark.parametrize("tail", [b"garbage!" * 5, bytes(40), b"x"])
def test_what_stands_behind_the_end_of_a_log_that_was_closed_in_order_is_cut_off(tail: bytes) -> None:
    """Kafka leaves it there and appends after it, where no consumer can read; with zeros it does not start."""
    filesystem, before = stopped()
    last = path(before, -1, "log")
    whole = filesystem.read(last)
    filesystem.write(last, whole + tail)
    log = open_log(filesystem, tiny(), clean=True)
    assert log.log_end_offset == before.log_end_offset and filesystem.read(last) == whole
    check(log)


def test_a_snapshot_that_is_missing_is_taken_at_the_next_stop_though_nothing_was_appended() -> None:
    filesystem, before = stopped()
    name = f"{DIRECTORY}/{before.log_end_offset:020d}.snapshot"
    filesystem.remove(name)
    open_log(filesystem, tiny(), clean=True).close()
    assert filesystem.exists(name)


def test_a_torn_tail_of_a_log_that_was_closed_in_order_goes() -> None:
    filesystem, before = stopped()
    last = path(before, -1, "log")
    filesystem.write(last, filesystem.read(last)[:-5])
    log = open_log(filesystem, tiny(), clean=True)
    assert log.log_end_offset < before.log_end_offset and len(log.segments) == len(before.segments)
    check(log)
    log.append_as_leader(batch(1), 9)
    check(log)


def compacted_as_kafka_does(monkeypatch: pytest.MonkeyPatch) -> tuple[MemoryFileSystem, UnifiedLog]:
    """A log whose cleaned segments do not end where the next ones begin; then the process died."""
    monkeypatch.setattr(cleaner, "emptied", lambda *_: None)
    filesystem, clock = disk(), ManualClock()
    log = open_log(filesystem, compacting(segment_bytes=300))
    for number in range(40):
        log.append_as_leader(records((f"only {number}", "x" * 40)), 0)
        log.append_as_leader(records(("again", "y")), 0)
    log.update_high_watermark(log.log_end_offset)
    cleaner_of(log, filesystem, clock).clean()
    bases = [segment.base_offset for segment in log.segments]
    assert any(one.next_offset() != base for one, base in zip(log.segments, bases[1:], strict=False)), "no gap"
    log.abandon()
    filesystem.crash_process()
    return filesystem, log


ALLOCATED = 4096
KAFKAS = compacting(segment_bytes=300, segment_index_bytes=ALLOCATED)
SIGNS = ["index", "timeindex", "nothing is written down"]


def left_by_kafka(monkeypatch: pytest.MonkeyPatch, sign: str) -> tuple[MemoryFileSystem, dict[str, Any]]:
    """Kafka was killed while it cleaned: its active segment has an index that is as large as it may become. Or a log
    of Kafka's was put here by hand: of that nothing is written down. And what is known of it."""
    filesystem, before = compacted_as_kafka_does(monkeypatch)
    if sign not in ("index", "timeindex"):
        return filesystem, {"is_known": False}
    name, entry = path(before, -1, sign), {"index": 8, "timeindex": 12}[sign]
    content = filesystem.read(name)
    filesystem.write(name, content + bytes(ALLOCATED // entry * entry - len(content)))
    return filesystem, {"recovery_point": before.segments[1].base_offset}


@pytest.mark.parametrize("sign", SIGNS)
def test_nothing_is_lost_to_the_gaps_that_kafka_left(sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filesystem, known = left_by_kafka(monkeypatch, sign)
    marks: list[int] = []
    logs = all_logs(filesystem)
    log = open_log(filesystem, KAFKAS, on_recovery_point=lambda _, offset: marks.append(offset), **known)
    assert all_logs(filesystem) == logs and marks == [log.active_segment.base_offset]
    check(log, recovered_indexes_are_rebuilt_ones)
    assert log.recovery_point == log.active_segment.base_offset
    filesystem.crash_power(Random(1))
    open_log(filesystem, KAFKAS, recovery_point=marks[-1])
    assert all_logs(filesystem) == logs


@pytest.mark.parametrize("sign", SIGNS)
def test_the_recovery_point_is_raised_over_what_is_on_the_disk_by_then(
    sign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, known = left_by_kafka(monkeypatch, sign)
    filesystem = disk()
    filesystem.make_directory(DIRECTORY)
    filesystem.sync_directory(LOGS)
    files = [f"{DIRECTORY}/{name}" for name in left.list(DIRECTORY)]
    for name in files:  # copied here, or written by a process that was killed: it may not be on the disk
        filesystem.open(name).append(left.read(name))
    logs = [name for name in files if name.endswith(".log")]
    assert not any(filesystem.durable_size(name) for name in logs)
    trusted = known.get("recovery_point", 0)
    on_disk: list[bool] = []

    def raised(_: object, recovery_point: int) -> None:
        between = [name for name in logs if trusted <= int(name.removesuffix(".log")[-20:]) < recovery_point]
        on_disk.extend(filesystem.durable_size(name) == filesystem.size(name) for name in between)

    open_log(filesystem, KAFKAS, on_recovery_point=raised, **known)
    assert all(on_disk) and len(on_disk) > 5


def all_logs(filesystem: MemoryFileSystem) -> list[bytes]:
    return [filesystem.read(f"{DIRECTORY}/{name}") for name in filesystem.list(DIRECTORY) if name.endswith(".log")]


def open_and_note(filesystem: MemoryFileSystem, known: dict[str, Any]) -> UnifiedLog:
    """Open it with what is known of it; and with what that raises, from then on."""

    def raised(_: object, recovery_point: int) -> None:
        known.clear()
        known["recovery_point"] = recovery_point

    return open_log(filesystem, KAFKAS, on_recovery_point=raised, **known)


@pytest.mark.costly
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("sign", SIGNS)
def test_nothing_is_lost_either_if_the_next_crash_comes_while_that_log_is_opened(
    sign: str, is_damaged: bool, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but what follows a damaged batch, if there is one. In a short run the crash comes at each fifth write of
    the file system, in a long one at each."""
    left, first = left_by_kafka(monkeypatch, sign)
    if is_damaged:
        name = sorted(name for name in left.list(DIRECTORY) if name.endswith(".log"))[-3]
        left.write(f"{DIRECTORY}/{name}", left.read(f"{DIRECTORY}/{name}")[:-1] + b"?")
    left.sync_all()
    whole = copy.deepcopy(left)
    open_and_note(whole, dict(first))
    tries, is_open = 0, False
    while not is_open:
        filesystem, known = copy.deepcopy(left), dict(first)
        filesystem.crash_after(tries)
        with suppress(Crash):
            open_and_note(filesystem, known)
            is_open = True
        tries += stride
        filesystem.crash_power(Random(tries))
        open_and_note(filesystem, known)
        assert all_logs(filesystem) == all_logs(whole)
    assert tries > 20
