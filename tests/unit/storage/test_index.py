"""The sparse indexes: their bytes, their answers, and what happens when they are full or damaged."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import CorruptRecordError
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.index import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from pykraft.storage.transaction_index import AbortedTransaction, TransactionIndex

BASE = 1000
PATH = "/i"


def offsets(filesystem: MemoryFileSystem | None = None, max_bytes: int = 800) -> OffsetIndex:
    return OffsetIndex(filesystem or MemoryFileSystem(), PATH, BASE, max_bytes)


def times(filesystem: MemoryFileSystem | None = None, max_bytes: int = 1200) -> TimeIndex:
    return TimeIndex(filesystem or MemoryFileSystem(), PATH, BASE, max_bytes)


# --- bytes ------------------------------------------------------------------------------------------------------------


def test_an_offset_index_is_these_bytes() -> None:
    filesystem = MemoryFileSystem()
    index = offsets(filesystem)
    index.append(1019, 3211)
    index.append(1039, 3700)
    assert filesystem.read(PATH) == b"", "entries are gathered in memory"
    index.write()
    assert filesystem.read(PATH).hex() == "0000001300000c8b0000002700000e74"
    index.append(1040, 3800)
    index.write()
    index.write()
    assert filesystem.size(PATH) == index.size == 24 and len(index) == 3
    again = offsets(filesystem)
    assert [again[number] for number in range(3)] == [(1019, 3211), (1039, 3700), (1040, 3800)]


def test_a_time_index_is_these_bytes() -> None:
    filesystem = MemoryFileSystem()
    index = times(filesystem)
    index.maybe_append(1_795_155_167_690, 1019)
    index.write()
    assert filesystem.read(PATH).hex() == "000001a1f79609ca00000013"
    assert times(filesystem).last == TimestampOffset(1_795_155_167_690, 1019)


def test_what_was_not_written_is_lost_at_close() -> None:
    filesystem = MemoryFileSystem()
    index = offsets(filesystem)
    index.append(1001, 1)
    index.close()
    assert len(offsets(filesystem)) == 0


# --- look-ups ---------------------------------------------------------------------------------------------------------


def test_an_empty_index_sends_a_scan_to_the_beginning() -> None:
    assert offsets().lookup(5000) == OffsetPosition(BASE, 0)
    assert offsets().last_offset == BASE and offsets().first_offset_from(0) is None
    assert times().lookup(5000) == times().last == TimestampOffset(-1, BASE)


ENTRIES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=10)


@given(ENTRIES, st.integers(-5, 120))
def test_a_look_up_is_a_linear_scan(steps: list[tuple[int, int]], target: int) -> None:
    index, entries = offsets(), [OffsetPosition(BASE, 0)]
    for offset_step, position_step in steps:
        entries.append(OffsetPosition(entries[-1].offset + offset_step, entries[-1].position + position_step))
        index.append(*entries[-1])
    expected = [entry for entry in entries if entry.offset <= BASE + target]
    assert index.lookup(BASE + target) == (expected or entries)[-1 if expected else 0]
    behind = [entry.offset for entry in entries[1:] if entry.position >= target]
    assert index.first_offset_from(target) == (behind[0] if behind else None)


@given(ENTRIES, st.integers(-5, 120))
def test_a_look_up_by_time_is_a_linear_scan(steps: list[tuple[int, int]], target: int) -> None:
    index, entries = times(), [TimestampOffset(-1, BASE)]
    for time_step, offset_step in steps:
        entries.append(TimestampOffset(entries[-1].timestamp + time_step, entries[-1].offset + offset_step))
        index.maybe_append(*entries[-1])
    expected = [entry for entry in entries if entry.timestamp <= target]
    assert index.lookup(target) == (expected or entries)[-1 if expected else 0]


@given(ENTRIES, st.integers(-5, 120), st.booleans())
def test_a_truncation_drops_just_the_entries_from_an_offset_on(
    steps: list[tuple[int, int]], target: int, written: bool
) -> None:
    filesystem = MemoryFileSystem()
    index, entries = offsets(filesystem), [OffsetPosition(BASE, 0)]
    for offset_step, position_step in steps:
        entries.append(OffsetPosition(entries[-1].offset + offset_step, entries[-1].position + position_step))
        index.append(*entries[-1])
        if written:
            index.write()
    index.truncate_to(BASE + target)
    kept = [entry for entry in entries[1:] if entry.offset < BASE + target]
    assert [index[number] for number in range(len(index))] == kept
    index.append(9_000, 9_000)
    index.write()
    again = offsets(filesystem)
    assert [again[number] for number in range(len(again))] == [*kept, (9_000, 9_000)]


def test_a_time_entry_is_added_only_when_the_timestamp_rose() -> None:
    index = times()
    for timestamp, offset in ((-1, 1000), (5, 1001), (5, 1002), (4, 1003), (6, 1004)):
        index.maybe_append(timestamp, offset)
    assert [index[number] for number in range(len(index))] == [(5, 1001), (6, 1004)]
    index.truncate_to(1004)
    assert index.last == (5, 1001)


def test_a_rewritten_index_replaces_its_file_as_a_whole() -> None:
    filesystem = MemoryFileSystem()
    index = offsets(filesystem)
    index.append(1001, 1)
    index.write()
    index.reset()
    index.append(1005, 5)
    assert offsets(filesystem).last_offset == 1001
    index.rewrite()
    index.append(1006, 6)
    index.write()
    again = offsets(filesystem)
    assert [again[number] for number in range(len(again))] == [(1005, 5), (1006, 6)]


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_limit_is_rounded_down_to_whole_entries() -> None:
    index = offsets(max_bytes=23)
    index.append(1001, 1)
    assert index.size < index.full_bytes
    index.append(1002, 2)
    assert index.size == index.full_bytes
    with pytest.raises(AssertionError, match="should have been rolled"):
        index.append(1003, 3)


def test_the_closing_entry_of_a_time_index_has_a_place_of_its_own() -> None:
    index = times(max_bytes=24)
    index.maybe_append(1, 1001)
    with pytest.raises(AssertionError, match="should have been rolled"):
        index.maybe_append(2, 1002)
    index.maybe_append(2, 1002, closing=True)
    assert index.size == 24


@pytest.mark.parametrize(("offset", "timestamp"), [(1001, 5), (1000, 9)])
def test_entries_only_rise(offset: int, timestamp: int) -> None:
    index = offsets()
    index.append(1001, 5)
    with pytest.raises(AssertionError):
        index.append(offset, 9)
    by_time = times()
    by_time.maybe_append(5, 1002)
    with pytest.raises(AssertionError):
        by_time.maybe_append(timestamp, 1001)


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "00000013",
        "0000001300000c8b00",
        "0000001300000c8b0000000000000000",
        "0000001300000c8bfffffff000000fff",
        "0000001300000c8b00000014ffffffff",
    ],
    ids=["half an entry", "a byte too many", "a tail of zeros", "below its base", "a negative position"],
)
def test_a_damaged_offset_index_is_seen(text: str) -> None:
    filesystem = MemoryFileSystem()
    filesystem.write(PATH, bytes.fromhex(text))
    with pytest.raises(CorruptRecordError, match=PATH):
        offsets(filesystem).check()


@pytest.mark.parametrize(
    "text",
    ["00" * 11, "000000000000000500000013" + "00" * 12, "0000000000000005fffffff0"],
    ids=["half an entry", "a tail of zeros", "below its base"],
)
def test_a_damaged_time_index_is_seen(text: str) -> None:
    filesystem = MemoryFileSystem()
    filesystem.write(PATH, bytes.fromhex(text))
    with pytest.raises(CorruptRecordError, match=PATH):
        times(filesystem).check()


def test_a_sound_index_is_no_damage() -> None:
    for index in (offsets(), times()):
        index.check()
    index = offsets()
    index.append(1019, 3211)
    index.check()
    by_time = times()
    by_time.maybe_append(0, 1000)
    by_time.check()


# --- aborted transactions ---------------------------------------------------------------------------------------------

ABORTED = [
    AbortedTransaction(5, 4, 7, 2),
    AbortedTransaction(6, 2, 9, 10),
    AbortedTransaction(5, 12, 15, 11),
    AbortedTransaction(7, 11, 17, 18),
]


def transactions(filesystem: MemoryFileSystem) -> TransactionIndex:
    return TransactionIndex(filesystem, PATH)


def filled(filesystem: MemoryFileSystem) -> TransactionIndex:
    index = transactions(filesystem)
    for aborted in ABORTED:
        index.append(aborted)
    return index


def test_a_transaction_index_is_these_bytes_and_no_file_before_the_first() -> None:
    filesystem = MemoryFileSystem()
    index = transactions(filesystem)
    index.check()
    index.sync()
    index.truncate_to(0)
    index.close()
    assert index.entries == [] and not filesystem.exists(PATH)
    index = transactions(filesystem)
    index.append(ABORTED[0])
    assert filesystem.read(PATH).hex() == "0000" + "".join(f"{number:016x}" for number in (5, 4, 7, 2))
    assert transactions(filesystem).entries == ABORTED[:1]


@pytest.mark.parametrize(
    ("fetch", "bound", "found", "complete"),
    [
        (0, 1, [], True),
        (0, 5, [0, 1], True),
        (0, 9, [0, 1], True),
        (8, 11, [1], True),
        (8, 12, [1, 3], True),
        (10, 20, [2, 3], False),
        (18, 20, [], False),
    ],
)
def test_a_reader_gets_the_transactions_that_overlap_what_it_reads(
    fetch: int, bound: int, found: list[int], complete: bool
) -> None:
    """The last stable offset beside an entry tells that whatever was aborted later began no earlier."""
    some, is_complete = filled(MemoryFileSystem()).collect(fetch, bound)
    assert some == [ABORTED[number] for number in found]
    assert is_complete == complete


def test_markers_only_rise_and_are_truncated_by_their_offset() -> None:
    filesystem = MemoryFileSystem()
    index = filled(filesystem)
    with pytest.raises(AssertionError, match="out of order"):
        index.append(ABORTED[0])
    index.truncate_to(15)
    assert index.entries == ABORTED[:2] and filesystem.size(PATH) == 68
    index.append(ABORTED[3])
    assert transactions(filesystem).entries == [*ABORTED[:2], ABORTED[3]]
    index.rewrite([])
    assert index.entries == [] and filesystem.size(PATH) == 0


def test_aborted_transactions_take_no_more_memory_than_their_file() -> None:
    index = transactions(MemoryFileSystem())
    tracemalloc.start()
    for number in range(5000):
        index.append(AbortedTransaction(10**6 + number, 10**6 + 3 * number, 10**6 + 3 * number + 1, 10**6 + 3 * number))
    found = index.collect(10**6 + 7500, 10**6 + 7510)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ([each.producer_id - 10**6 for each in found[0]], found[1]) == ([2500, 2501, 2502, 2503], True)
    assert used < 4 * 34 * 5000, "of which the file itself is half: it is in memory, too"


def test_a_torn_transaction_index_is_seen() -> None:
    filesystem = MemoryFileSystem()
    filled(filesystem)
    filesystem.write(PATH, filesystem.read(PATH)[:-1])
    with pytest.raises(CorruptRecordError, match="has 135 bytes: entries have 34"):
        transactions(filesystem).check()
    torn = transactions(filesystem)
    torn.rewrite(ABORTED[:1])
    torn.append(ABORTED[1])
    assert torn.entries == ABORTED[:2] == transactions(filesystem).entries
