"""The batch: 61 bytes of header, in which a leader changes twelve without touching the checksum."""

from __future__ import annotations

import pytest

from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import HEADER_BYTES, RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder, estimated_size
from pykraft.records.compression import Compression
from pykraft.records.crc32c import crc32c_by_table
from pykraft.records.record import Record
from pykraft.storage.producer_state import BatchMetadata
from tests.harness.storage import batch, copied, marker, produced

FROZEN = (
    "0000000000000000 00000044 ffffffff 02 49d5739d 0000 00000001 000001887596d800 000001887596d805"
    " 0000000000000007 0003 0000002a 00000002"
    " 16 00 00 00 02 6b 02 76 02 02 68 01"
    " 0c 00 0a 02 01 01 00"
)


def frozen() -> RecordBatch:
    builder = RecordBatchBuilder(producer_id=7, producer_epoch=3, base_sequence=42)
    builder.append(1_685_600_000_000, b"k", b"v", [("h", None)])
    builder.append(1_685_600_000_005, None, None)
    return RecordBatch(memoryview(builder.build()))


def test_a_batch_is_these_bytes() -> None:
    some = frozen()
    assert bytes(some.buffer).hex() == FROZEN.replace(" ", "")
    assert crc32c_by_table(some.buffer[21:]) == some.crc and some.is_valid


def test_a_batch_reads_its_header_and_records() -> None:
    some = frozen()
    assert (some.size, some.count, some.last_offset, some.next_offset) == (80, 2, 1, 2)
    assert (some.producer_id, some.producer_epoch, some.base_sequence, some.last_sequence) == (7, 3, 42, 43)
    assert some.has_producer_id and not some.is_transactional and not some.is_control
    assert some.delete_horizon_ms is None and some.compression is Compression.NONE
    assert list(some.records()) == [
        Record(0, 1_685_600_000_000, b"k", b"v", [("h", None)]),
        Record(1, 1_685_600_000_005, None, None, []),
    ]
    assert repr(some) == "RecordBatch(0..1, epoch -1)"


@pytest.mark.parametrize("codec", Compression)
def test_every_codec_holds_the_same_records(codec: Compression) -> None:
    some = batch(20, compression=codec, size=50, headers=[("a", b"b")])
    assert some.compression is codec and some.is_valid
    assert list(some.records()) == list(batch(20, size=50, headers=[("a", b"b")]).records())


def test_a_leader_places_a_batch_without_a_new_checksum() -> None:
    some, before = frozen(), frozen()
    some.assign(1000, leader_epoch=9)
    assert some.is_valid and some.crc == before.crc
    assert (some.base_offset, some.last_offset, some.partition_leader_epoch) == (1000, 1001, 9)
    changed = [n for n in range(some.size) if some.buffer[n] != before.buffer[n]]
    assert set(changed) <= {*range(8), *range(12, 16)}
    again = RecordBatch(some.buffer)
    assert (again.base_offset, again.partition_leader_epoch) == (1000, 9)
    assert [record.offset for record in again.records()] == [1000, 1001]


def test_a_stamp_replaces_the_timestamps_of_all_records() -> None:
    some = frozen()
    some.stamp(5)
    again = RecordBatch(some.buffer)
    assert again.is_valid and again.uses_log_append_time and again.max_timestamp == 5
    assert again.base_timestamp == 1_685_600_000_000
    assert [record.timestamp for record in again.records()] == [5, 5]


def test_a_delete_horizon_stands_in_place_of_the_base_timestamp() -> None:
    some = frozen()
    some.attributes |= 0x40
    assert some.delete_horizon_ms == 1_685_600_000_000


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    some = frozen()
    some.attributes |= codec
    with pytest.raises(CorruptRecordError, match=f"names codec {codec}"):
        next(some.records())


@pytest.mark.parametrize(
    ("base", "count", "last"),
    [(0, 1, 0), (5, 3, 7), (0x7FFFFFFF, 1, 0x7FFFFFFF), (0x7FFFFFFF, 2, 0), (0x7FFFFFFE, 4, 1), (-1, 3, -1)],
)
def test_sequence_numbers_wrap_to_zero(base: int, count: int, last: int) -> None:
    some = produced(1, base, count)
    assert some.last_sequence == last
    if base >= 0:
        assert BatchMetadata(last, 0, count - 1, 0).first_sequence == base


def test_a_negative_producer_id_is_none() -> None:
    assert not batch().has_producer_id and not produced(-2, 0).has_producer_id and produced(0, 0).has_producer_id


# --- several batches in a buffer --------------------------------------------------------------------------------------


def test_a_buffer_of_batches_is_read_one_by_one_without_a_copy() -> None:
    buffer = bytearray(b"".join([bytes(batch(2).buffer), bytes(marker(1, True).buffer), bytes(batch(1).buffer)]))
    found = list(batches(memoryview(buffer)))
    assert [some.count for some in found] == [2, 1, 1]
    found[1].assign(77, 0)
    assert int.from_bytes(buffer[found[0].size :][:8], "big") == 77


def test_a_last_batch_that_is_cut_off_is_left_out() -> None:
    first, second = batch(2), batch(3)
    whole = bytes(first.buffer) + bytes(second.buffer)
    for size in range(len(whole) + 1):
        expected = (size >= first.size) + (size >= len(whole))
        assert len(list(batches(memoryview(whole[:size])))) == expected


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_a_length_that_no_batch_can_have_is_refused(length: int) -> None:
    data = bytearray(batch().buffer)
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptRecordError, match=f"claims {length} bytes"):
        list(batches(memoryview(data)))


def test_a_batch_that_counts_no_records_has_none_whatever_follows_its_header() -> None:
    data = bytearray(frozen().buffer)
    data[57:61] = bytes(4)
    assert list(RecordBatch(memoryview(data)).records()) == []


@pytest.mark.parametrize(("first", "last"), [(-1, -1), (-3, -2), ((1 << 31) - 1, 0), ((1 << 31) - 2, (1 << 31) - 1)])
def test_the_last_sequence_wraps_above_the_largest_only(first: int, last: int) -> None:
    data = bytearray(frozen().buffer)
    data[53:57] = first.to_bytes(4, "big", signed=True)
    assert RecordBatch(memoryview(data)).last_sequence == last


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_another_magic_is_refused(magic: int) -> None:
    data = bytearray(batch().buffer)
    data[16] = magic
    with pytest.raises(CorruptRecordError, match=f"has magic {magic}, not 2"):
        list(batches(memoryview(data)))


# --- the builder ------------------------------------------------------------------------------------------------------


def test_a_builder_tells_its_size_and_the_offsets_it_gives() -> None:
    builder = RecordBatchBuilder(base_offset=10)
    assert builder.size == HEADER_BYTES
    assert [builder.append(1, None, b"x"), builder.append(9, None, b"y"), builder.append(3, None, b"z")] == [10, 11, 12]
    built = builder.build()
    assert builder.size == len(built)
    some = RecordBatch(memoryview(built))
    assert (some.base_offset, some.base_timestamp, some.max_timestamp) == (10, 1, 9)


def test_an_empty_batch_is_not_built() -> None:
    with pytest.raises(AssertionError, match="at least one record"):
        RecordBatchBuilder().build()


@pytest.mark.parametrize("flag", ["transactional", "control"])
def test_a_builder_sets_what_it_is_told(flag: str) -> None:
    some = batch(compression=Compression.LZ4, leader_epoch=4, **{flag: True})
    assert (some.is_transactional, some.is_control) == (flag == "transactional", flag == "control")
    assert some.partition_leader_epoch == 4 and some.compression is Compression.LZ4


@pytest.mark.parametrize("headers", [[], [("name", b"x" * 300), ("é", None)], [("h", b"")] * 100])
def test_an_estimate_is_not_too_low(headers: list[tuple[str, bytes | None]]) -> None:
    builder = RecordBatchBuilder()
    builder.append(0, None, None)
    before = builder.size
    for number in range(70):
        builder.append(1 << 60, b"k" * number, b"v" * number * number, headers)
        assert builder.size - before <= estimated_size(b"k" * number, b"v" * number * number, headers)
        before = builder.size


def test_an_estimate_may_be_too_low_by_the_lengths_of_key_and_value() -> None:
    """As Kafka's: its bound of the numbers in front leaves them out."""
    builder = RecordBatchBuilder()
    for _ in range(70):
        builder.append(0, None, None)
    before = builder.size
    key = bytes(20_000)
    builder.append(1 << 62, key, key)
    assert builder.size - before == estimated_size(key, key) + 1


def test_a_copy_of_a_batch_is_a_batch() -> None:
    some = batch(3)
    assert bytes(copied(some).buffer) == bytes(some.buffer)
