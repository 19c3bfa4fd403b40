"""Taking records out of a batch."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import HEADER_BYTES, RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.records.filtering import emptied, filtered, outlines, timestamp_of, unpacked

BYTES = st.none() | st.binary(max_size=200)
RECORDS = st.lists(st.tuples(st.integers(0, 1 << 45), BYTES, BYTES), min_size=1, max_size=8)


def built(records: list[tuple[int, bytes | None, bytes | None]], codec: Compression = Compression.NONE) -> RecordBatch:
    builder = RecordBatchBuilder(1000, codec, producer_id=7, producer_epoch=2, base_sequence=5, leader_epoch=3)
    for number, record in enumerate(records):
        builder.append(*record, [("h", b"x"), ("null", None)][: number % 3])
    return RecordBatch(memoryview(builder.build()))


@given(RECORDS)
def test_an_outline_says_what_the_record_says(records: list[tuple[int, bytes | None, bytes | None]]) -> None:
    batch = built(records)
    data = unpacked(batch)
    found = [
        (each.offset, timestamp_of(batch, data, each), each.key, each.is_tombstone) for each in outlines(batch, data)
    ]
    assert found == [(each.offset, each.timestamp, each.key, each.value is None) for each in batch.records()]


@given(RECORDS, st.sets(st.integers(1000, 1007)), st.integers(0, 1 << 45), st.sampled_from(Compression))
def test_what_is_kept_is_kept_as_it_was(
    records: list[tuple[int, bytes | None, bytes | None]], kept: set[int], horizon_ms: int, codec: Compression
) -> None:
    batch = built(records, codec)
    expected = [record for record in batch.records() if record.offset in kept]
    data = filtered(batch, lambda records: [each for each in records if each.offset in kept], horizon_ms)
    if not expected:
        assert data is None
        return
    assert data is not None
    again = RecordBatch(memoryview(data))
    assert again.is_valid and list(again.records()) == expected and again.compression is codec
    assert again.max_timestamp == max(record.timestamp for record in expected)
    has_tombstone = any(record.value is None for record in expected)
    assert again.delete_horizon_ms == (horizon_ms if has_tombstone else None)
    for name in ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence", "last_sequence"):
        assert getattr(again, name) == getattr(batch, name), name
    assert again.partition_leader_epoch == 3


def test_a_horizon_is_set_once() -> None:
    first = filtered(built([(5, b"a", None), (6, b"b", b"1")]), list, 1000)
    assert first is not None
    batch = RecordBatch(memoryview(first))
    assert filtered(batch, list, 9999) is batch.buffer, "nothing changes: the very same bytes"
    second = filtered(batch, lambda records: [each for each in records if each.key == b"a"], 9999)
    assert second is not None
    again = RecordBatch(memoryview(second))
    assert again.delete_horizon_ms == 1000 and [record.timestamp for record in again.records()] == [5]


@pytest.mark.parametrize("codec", Compression)
def test_an_emptied_batch_is_its_header(codec: Compression) -> None:
    batch = built([(5, b"a", b"1"), (9, b"b", b"1")], codec)
    data = emptied(batch)
    again = RecordBatch(memoryview(data))
    assert len(data) == HEADER_BYTES and again.is_valid and not list(again.records())
    assert (again.base_offset, again.next_offset, again.last_sequence, again.max_timestamp) == (1000, 1002, 6, 9)
    assert list(outlines(again, unpacked(again))) == [] and emptied(again) == data


@given(st.integers(0, 60), st.integers(0, 255))
def test_damaged_records_are_read_or_refused(position: int, octet: int) -> None:
    batch = built([(5, b"key", b"value"), (6, b"key", None)])
    position %= batch.size - HEADER_BYTES
    batch.buffer[HEADER_BYTES + position] = octet
    with contextlib.suppress(CorruptRecordError):
        list(outlines(batch, unpacked(batch)))


def test_a_key_or_a_batch_that_is_longer_than_it_says_is_refused() -> None:
    """Whatever else stood there would be compacted under a wrong key, or lost without a word."""
    longer = built([(5, b"key", b"value"), (6, b"key", None)])
    longer.buffer[HEADER_BYTES + 4] = 2 * len(b"key\x0avalue\x00")  # the key would be all that is left of the record
    fewer = RecordBatch(memoryview(bytearray(built([(5, b"key", b"value"), (6, b"key", None)]).buffer)))
    fewer.count = 1
    for batch, reason in ((longer, "past the end of its record"), (fewer, "bytes follow the last record")):
        with pytest.raises(CorruptRecordError, match=reason):
            list(outlines(batch, unpacked(batch)))
