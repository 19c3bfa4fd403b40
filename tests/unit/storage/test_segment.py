"""A segment: its files, its indexes, and what can be found in it."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.core import finish
from pykraft.common.errors import CorruptRecordError
from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.records.batch import RecordBatch
from pykraft.records.compression import Compression
from pykraft.sim.world.disk import MemoryFile, MemoryFileSystem
from pykraft.storage.file_records import FileRecords
from pykraft.storage.leader_epoch_cache import EpochEntry
from pykraft.storage.log_segment import LogSegment
from pykraft.storage.producer_state import ProducerStateManager
from tests.harness.storage import NEVER_MS, NOW_MS, at, batch, bytes_of, marker, produced

BASE = 100


def segment(
    filesystem: MemoryFileSystem | None = None, interval: int = 100, max_index_bytes: int = 1 << 20
) -> LogSegment:
    filesystem = filesystem or MemoryFileSystem()
    filesystem.make_directory("/d")
    limits = {"index.interval.bytes": str(interval), "segment.index.bytes": str(max_index_bytes)}
    return LogSegment(filesystem, "/d", BASE, LOG_CONFIG.resolve(limits), NOW_MS)


def put(target: LogSegment, *some: RecordBatch, epoch: int = 0) -> None:
    """Append batches, one after the other, as one piece."""
    offset = target.next_offset()
    for each in some:
        at(offset, each, epoch)
        offset = each.next_offset
    target.append(b"".join(each.buffer for each in some), list(some))


def filled(filesystem: MemoryFileSystem | None = None, **fields: Any) -> LogSegment:
    """Ten batches of two records, ten milliseconds apart: offsets 100 to 119."""
    found = segment(filesystem, **fields)
    for number in range(10):
        put(found, batch(2, timestamp=NOW_MS + 10 * number))
    return found


def entries(index: Any) -> list[tuple[int, int]]:
    return [tuple(index[number]) for number in range(len(index))]


def state() -> ProducerStateManager:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/s")
    return ProducerStateManager(filesystem, "/s", NEVER_MS)


SIZE = batch(2).size  # 95


def test_an_entry_is_added_before_a_batch_once_enough_bytes_went_by() -> None:
    """Two batches of 95 bytes are more than 100: the third, fifth, ... get one, with their last offset and position."""
    found = filled()
    assert entries(found.offset_index) == [(BASE + 2 * n + 1, n * SIZE) for n in (2, 4, 6, 8)]
    assert entries(found.time_index) == [(NOW_MS + 10 * n + 1, BASE + 2 * n + 1) for n in (2, 4, 6, 8)]


def test_with_an_interval_of_zero_every_batch_but_the_first_gets_an_entry() -> None:
    assert [offset for offset, _ in entries(filled(interval=0).offset_index)] == [
        BASE + 2 * n + 1 for n in range(1, 10)
    ]


def test_batches_that_come_as_one_piece_are_indexed_one_by_one() -> None:
    one_by_one, at_once = filled(), segment()
    put(at_once, *[batch(2, timestamp=NOW_MS + 10 * number) for number in range(10)])
    assert entries(at_once.offset_index) == entries(one_by_one.offset_index)
    assert entries(at_once.time_index) == entries(one_by_one.time_index)


def test_a_full_index_gets_no_more_entries_and_the_segment_is_still_searched() -> None:
    found = filled(interval=0, max_index_bytes=24)
    assert len(found.offset_index) == len(found.time_index) == 1 and found.is_index_full
    for offset in range(BASE, BASE + 20):
        at_offset = found.find(offset)
        assert at_offset is not None and at_offset.header.base_offset == offset - offset % 2
    assert found.recover(state(), []).next_offset == BASE + 20


def test_the_largest_timestamp_goes_into_the_time_index_at_the_end() -> None:
    found = filled()
    found.on_become_inactive()
    assert found.time_index.last == (NOW_MS + 91, BASE + 19)
    found.on_become_inactive()
    assert len(found.time_index) == 5


def test_a_segment_that_was_cut_or_only_opened_gets_its_closing_entry_too() -> None:
    filesystem = MemoryFileSystem()
    found = filled(filesystem)
    found.truncate_to(BASE + 4)
    found.on_become_inactive()
    assert found.time_index.last == (NOW_MS + 11, BASE + 3)
    found.truncate_to(BASE + 2)
    again = segment(filesystem)
    again.on_become_inactive()
    assert again.time_index.last == (NOW_MS + 1, BASE + 1)


def test_timestamps_may_go_back() -> None:
    found = segment(interval=0)
    for timestamp in (50, 40, 60, 10, 60):
        put(found, batch(1, timestamp=timestamp))
    assert found.largest_timestamp() == (60, BASE + 2)
    assert entries(found.time_index) == [(50, BASE), (60, BASE + 2)]


def test_a_segment_without_timestamps_has_an_empty_time_index() -> None:
    found = segment(interval=0)
    put(found, *[batch(1, timestamp=-1) for _ in range(3)])
    found.on_become_inactive()
    found.check()
    assert found.largest_timestamp() == (-1, BASE) and len(found.time_index) == 0


# --- finding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "base"), [(BASE, 100), (BASE + 1, 100), (BASE + 2, 102), (BASE + 19, 118), (BASE - 5, 100)]
)
def test_the_batch_that_holds_an_offset_is_found(offset: int, base: int) -> None:
    found = filled().find(offset)
    assert found is not None and found.header.base_offset == base


def test_past_the_end_there_is_nothing() -> None:
    assert filled().find(BASE + 20) is None and segment().find(BASE) is None


@pytest.mark.parametrize(
    ("max_bytes", "at_least_one", "size", "is_cut"),
    [
        (1000, True, 10 * SIZE, False),
        (SIZE, True, SIZE, False),
        (SIZE + 1, True, SIZE + 1, False),
        (SIZE - 1, True, SIZE, False),
        (SIZE - 1, False, SIZE - 1, True),
        (0, True, SIZE, False),
        (0, False, 0, True),
    ],
)
def test_a_piece_has_about_max_bytes_but_at_least_one_batch_if_asked(
    max_bytes: int, at_least_one: bool, size: int, is_cut: bool
) -> None:
    found = filled()
    piece = found.read(BASE + 1, max_bytes, found.size, at_least_one)
    assert piece is not None and (piece.position, piece.size, piece.first_batch_is_cut) == (0, size, is_cut)
    assert len(bytes_of(found.region(piece))) == size


@pytest.mark.parametrize("offset", [BASE + 18, BASE + 19])
def test_the_newest_batch_is_found_without_a_look_into_the_file(offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = filled()
    monkeypatch.setattr(FileRecords, "_scan", None)
    assert found.read(offset, 1000, found.size, at_least_one=True) == (9 * SIZE, SIZE, False)


def test_a_newest_batch_that_was_truncated_is_not_there() -> None:
    found = filled()
    found.truncate_to(BASE + 18)
    assert found.read(BASE + 18, 1000, found.size, at_least_one=True) is None
    put(found, batch(1))
    assert found.read(BASE + 18, 1000, found.size, at_least_one=True) == (9 * SIZE, found.size - 9 * SIZE, False)
    assert found.read(BASE + 19, 1000, found.size, at_least_one=True) is None


def test_a_piece_ends_where_the_reader_must_stop() -> None:
    found = filled()
    piece = found.read(BASE + 4, 1000, 3 * SIZE, at_least_one=True)
    assert piece is not None and (piece.position, piece.size) == (2 * SIZE, SIZE)
    nothing = found.read(BASE + 4, 1000, 2 * SIZE, at_least_one=True)
    assert nothing is not None and nothing.size == 0 and found.region(nothing) == b""


@pytest.mark.parametrize(
    ("timestamp", "start", "found"),
    [
        (0, BASE, (NOW_MS, BASE)),
        (NOW_MS + 1, BASE, (NOW_MS + 1, BASE + 1)),
        (NOW_MS + 2, BASE, (NOW_MS + 10, BASE + 2)),
        (NOW_MS + 91, BASE, (NOW_MS + 91, BASE + 19)),
        (NOW_MS + 92, BASE, None),
        (0, BASE + 5, (NOW_MS + 21, BASE + 5)),
        (NOW_MS + 51, BASE + 30, None),
    ],
)
def test_the_first_record_that_is_young_enough_is_found(
    timestamp: int, start: int, found: tuple[int, int] | None
) -> None:
    assert finish(filled().find_timestamp(timestamp, start)) == found


def test_a_record_is_found_by_time_inside_a_compressed_batch() -> None:
    found = segment()
    put(found, batch(30, timestamp=NOW_MS, compression=Compression.ZSTD))
    assert finish(found.find_timestamp(NOW_MS + 17, 0)) == (NOW_MS + 17, BASE + 17)


# --- opening an old one -----------------------------------------------------------------------------------------------


def test_an_opened_segment_knows_its_end_and_its_largest_timestamp() -> None:
    filesystem = MemoryFileSystem()
    found = filled(filesystem)
    found.write_indexes()
    again = segment(filesystem)
    again.check()
    assert again.next_offset() == BASE + 20
    assert again.largest_timestamp() == (NOW_MS + 91, BASE + 19)


def is_older(found: LogSegment, max_ms: int, timestamp: int) -> bool:
    """Whether a batch with this timestamp, 5 ms after the segment was made, would find it too old, if that is all."""
    return found.should_roll(0, BASE, timestamp, now_ms=NOW_MS + 5, max_bytes=1 << 30, max_ms=max_ms)


def test_a_segment_is_as_old_as_its_first_batch() -> None:
    filesystem = MemoryFileSystem()
    found = segment(filesystem)
    assert not is_older(found, 0, timestamp=999), "an empty one is never too old"
    put(found, batch(1, timestamp=700))
    for each in (found, segment(filesystem)):
        assert is_older(each, 298, timestamp=999) and not is_older(each, 299, timestamp=999)
    without = segment()
    put(without, batch(1, timestamp=-1))
    assert is_older(without, 4, timestamp=-1) and not is_older(without, 5, timestamp=-1)


def test_a_failed_append_leaves_no_trace() -> None:
    filesystem = MemoryFileSystem()
    found = segment(filesystem, interval=0)
    put(found, batch(1, timestamp=500))
    found.truncate_to(BASE)
    for _ in range(2):
        filesystem.fail_after(0, OSError("no space left"))
        with pytest.raises(OSError, match="no space"):
            put(found, batch(1, timestamp=1))
    assert (found.size, len(found.offset_index)) == (0, 0)
    put(found, batch(1, timestamp=900))
    assert is_older(found, 99, timestamp=1000) and not is_older(found, 100, timestamp=1000)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        ("index", b"\x00" * 7),
        ("index", bytes.fromhex("00000001000003b6")),
        ("timeindex", b""),
        ("timeindex", b"\x00" * 11),
        ("txnindex", b"\x00" * 35),
    ],
    ids=["torn index", "past the end of the log", "empty time index", "torn time index", "torn transaction index"],
)
def test_indexes_that_cannot_belong_to_the_log_are_seen(suffix: str, content: bytes) -> None:
    filesystem = MemoryFileSystem()
    filled(filesystem).write_indexes()
    filesystem.write(f"/d/00000000000000000100.{suffix}", content)
    with pytest.raises(CorruptRecordError):
        segment(filesystem).check()


# --- recovery ---------------------------------------------------------------------------------------------------------


def test_recovery_makes_the_same_indexes_anew() -> None:
    filesystem = MemoryFileSystem()
    found = filled(filesystem)
    found.on_become_inactive()
    before = entries(found.offset_index), entries(found.time_index)
    filesystem.write("/d/00000000000000000100.index", b"nonsense" * 9)
    again = segment(filesystem)
    epochs: list[EpochEntry] = []
    assert again.recover(state(), epochs) == (10 * SIZE, BASE + 20, BASE)
    assert (entries(again.offset_index), entries(again.time_index)) == before
    assert epochs == [(0, BASE)]
    assert filesystem.size("/d/00000000000000000100.index") == again.offset_index.size, "and they are written"


def test_recovery_tells_producers_epochs_and_aborted_transactions() -> None:
    found = segment()
    put(found, produced(7, 0, 2, transactional=True), epoch=1)
    put(found, produced(8, 0, 1), marker(7, committed=False), epoch=3)
    known, epochs = state(), list[EpochEntry]()
    found.recover(known, epochs)
    assert sorted(known.producers) == [7, 8] and epochs == [(1, BASE), (3, BASE + 2)]
    assert found.transaction_index.entries == [(7, BASE, BASE + 3, BASE + 4)]
    found.recover(state(), [])
    assert len(found.transaction_index.entries) == 1


@pytest.mark.costly
@pytest.mark.parametrize("damage", ["cut", "flip", "zeros", "garbage"])
def test_recovery_stops_at_the_first_damaged_batch(damage: str) -> None:
    for position in range(7 * SIZE, 8 * SIZE):
        filesystem = MemoryFileSystem()
        filled(filesystem)
        data = bytearray(filesystem.read("/d/00000000000000000100.log"))
        if damage == "cut":
            del data[position:]
        elif damage == "flip" and position - 7 * SIZE >= 16:
            data[position] ^= 0x10
        elif damage == "zeros":
            start = min(position, 8 * SIZE - 2)  # the very last byte is a zero anyway
            data[start:] = bytes(len(data) - start)
        else:
            data[7 * SIZE + 16 :] = b"\xa7" * (len(data) - 7 * SIZE - 16)
        filesystem.write("/d/00000000000000000100.log", data)
        found = segment(filesystem)
        size, end, _ = found.recover(state(), [])
        assert (size, end) == (7 * SIZE, BASE + 14)
        found.truncate_file(size)
        found.check()
        assert found.size == 7 * SIZE and found.next_offset() == BASE + 14


@pytest.mark.parametrize("number", [0, 5, 9])
def test_a_sound_batch_that_does_not_follow_ends_a_recovery(number: int) -> None:
    """What lies behind the end of a file may be anything, also a piece of the same log."""
    filesystem = MemoryFileSystem()
    filled(filesystem)
    path = "/d/00000000000000000100.log"
    data = filesystem.read(path)
    filesystem.write(path, data + data[number * SIZE :])
    assert segment(filesystem).recover(state(), []) == (10 * SIZE, BASE + 20, BASE)


def test_an_offset_that_the_indexes_cannot_express_ends_a_recovery() -> None:
    filesystem = MemoryFileSystem()
    filled(filesystem)
    far = at(BASE + (1 << 31), batch(1))
    filesystem.write("/d/00000000000000000100.log", filesystem.read("/d/00000000000000000100.log") + bytes(far.buffer))
    assert segment(filesystem).recover(state(), []) == (10 * SIZE, BASE + 20, BASE)


def test_replay_skips_what_the_state_has_seen() -> None:
    found = segment()
    put(found, produced(7, 0, 2, transactional=True), marker(7, committed=True), produced(8, 0, 1))
    known = state()
    known.map_end_offset = BASE + 2
    found.replay(known)
    assert sorted(known.producers) == [7, 8] and known.producers[7].batches == ()
    assert known.map_end_offset == BASE + 4


# --- truncation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "kept"), [(BASE + 25, 10), (BASE + 20, 10), (BASE + 19, 9), (BASE + 18, 9), (BASE + 1, 0), (BASE, 0)]
)
def test_a_truncation_never_splits_a_batch(offset: int, kept: int) -> None:
    found = filled(interval=0)
    assert found.truncate_to(offset) == BASE + 2 * kept
    assert found.size == kept * SIZE and found.next_offset() == BASE + 2 * kept
    assert len(found.offset_index) == max(0, kept - 1)
    assert found.largest_timestamp().timestamp == (NOW_MS + 10 * kept - 9 if kept else -1)
    found.check()


# --- the .log file alone ----------------------------------------------------------------------------------------------


def test_headers_are_read_across_the_edges_of_pieces() -> None:
    """Batches larger than a scanned piece, smaller ones, and one that straddles it."""
    found = segment()
    sizes = [200_000, 10, 65_000, 400, 131_000, 7]
    put(found, *[batch(1, size=size) for size in sizes])
    assert [position.header.base_offset for position in found.records.headers()] == [
        BASE + n for n in range(len(sizes))
    ]
    for position, whole in found.records.batches():
        assert whole.is_valid and found.records.batch_at(position).buffer == whole.buffer


@pytest.mark.parametrize(
    ("tail", "complaint"),
    [
        (b"\x00", "ends within the header"),
        (bytes(61), "no batch header"),
        (bytes(16) + b"\x02" + bytes(44), "claims 12 bytes"),
        (bytes(8) + b"\x00\x00\x10\x00" + bytes(4) + b"\x02" + bytes(44), "claims 4108 bytes"),
        (bytes(8) + b"\xff\xff\xff\xff" + bytes(4) + b"\x02" + bytes(44), "claims 11 bytes"),
    ],
)
def test_what_is_no_batch_is_refused_with_its_position(tail: bytes, complaint: str) -> None:
    filesystem = MemoryFileSystem()
    file = filesystem.open("/a")
    file.append(bytes(batch(2).buffer) + tail)
    with pytest.raises(CorruptRecordError, match=complaint) as refused:
        list(FileRecords(file).headers())
    assert str(SIZE) in str(refused.value)


def test_a_sync_that_another_thread_has_only_begun_is_none_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both begin before either ends: who returns first has seen to it that the bytes are on the disk."""
    filesystem = MemoryFileSystem()
    target = filled(filesystem)
    target.write_indexes()
    filesystem.sync_directory("/d")
    begun: list[str] = []
    sync = MemoryFile.sync

    def slow_sync(file: MemoryFile) -> None:
        if file.path not in begun:
            begun.append(file.path)
            target.sync()
            again = filesystem.read(file.path)
            assert file._inode.synced == len(again) > 0, f"{file.path} was not on the disk"
        sync(file)

    monkeypatch.setattr(MemoryFile, "sync", slow_sync)
    target.sync()
    assert [path.rpartition(".")[2] for path in begun] == ["log", "index", "timeindex"]
