"""The columns that numpy makes of record batches are the rows that one gets record by record; garbage is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.records.batch import HEADER_BYTES, LOG_APPEND_TIME, RecordBatch
from pykraft.records.compression import Compression
from pykraft.records.varint import encode_varint
from pykraft.spark import columns
from pykraft.spark.reading import decode
from pykraft.spark.reading.decode import Decoder
from tests.spark.batches import ALL_COLUMNS, Fields, Row, encoded, plain_rows, raw_batch, sealed

END = 1 << 62
IN_STEP, BY_LOOP = 0, 1 << 40
"""Values of `_LANES` that make the decoder find all records in one of its two ways."""


def rows(
    batches: Iterable[RecordBatch], first: int = 0, end: int = END, names: Sequence[str] = ALL_COLUMNS
) -> list[Row]:
    """What the decoder makes of these batches."""
    found: list[Row] = []
    for table in Decoder("t", 3, names).rows(batches, first, end):
        table.validate(full=True)
        assert table.schema.equals(columns.arrow_schema(names))
        if "timestamp" in names:
            place = table.schema.get_field_index("timestamp")
            table = table.set_column(place, "timestamp", pc.cast(table.column("timestamp"), pa.int64()))
        found += table.to_pylist()
    return found


@pytest.fixture(params=[IN_STEP, BY_LOOP], ids=["in step", "by loop"])
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "_LANES", request.param)
        yield


def outcome(read: Callable[[], list[Row]]) -> list[Row] | str:
    try:
        return read()
    except CorruptRecordError:
        return "corrupt"


# --- what comes out ---------------------------------------------------------------------------------------------------

octets = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=12)), max_size=4)
milliseconds = st.integers(-(1 << 52), 1 << 52)


@st.composite
def some_batches(draw: st.DrawFn, max_batches: int = 60) -> list[RecordBatch]:
    """Batches as a log may have them, with gaps between records and between batches."""
    found = []
    offset = draw(st.integers(0, 1 << 40))
    for _ in range(draw(st.integers(1, max_batches))):
        deltas = sorted(draw(st.sets(st.integers(0, 9), max_size=5)))
        records: list[Fields] = [
            (delta, draw(st.integers(-(1 << 33), 1 << 33)), draw(octets), draw(octets), draw(headers))
            for delta in deltas
        ]
        last = draw(st.integers(9, 12))
        found.append(
            raw_batch(
                encoded(records),
                len(records),
                offset,
                last_offset_delta=last,
                compression=draw(st.sampled_from(Compression)) if records else Compression.NONE,
                attributes=draw(st.sampled_from([0, LOG_APPEND_TIME])),
                base_timestamp=draw(milliseconds),
                max_timestamp=draw(milliseconds),
            )
        )
        offset += last + 1 + draw(st.integers(0, 3))
    return found


@pytest.mark.usefixtures("both_ways")
@given(batches=some_batches(max_batches=8), data=st.data())
def test_the_columns_hold_what_the_records_hold(batches: list[RecordBatch], data: st.DataObject) -> None:
    first = data.draw(st.integers(batches[0].base_offset - 2, batches[-1].next_offset + 2))
    end = data.draw(st.integers(first, batches[-1].next_offset + 2))
    assert rows(batches, first, end) == plain_rows(batches, "t", 3, first, end)


@given(batches=some_batches(max_batches=3), names=st.lists(st.sampled_from(ALL_COLUMNS), min_size=1, unique=True))
def test_only_the_columns_that_were_asked_for_come_in_the_order_asked(
    batches: list[RecordBatch], names: list[str]
) -> None:
    expected = [{name: row[name] for name in names} for row in plain_rows(batches, "t", 3, 0, END)]
    assert [list(row.items()) for row in rows(batches, names=names)] == [list(row.items()) for row in expected]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("size", [0, 1, 54, 55, 56, 8180, 8190, 8200, 1 << 20, (1 << 20) + 60])
def test_lengths_of_every_width_are_read(size: int) -> None:
    records: list[Fields] = [(delta, 0, b"k", b"v" * size, ()) for delta in range(3)]
    batches = [raw_batch(encoded(records), 3), raw_batch(encoded(records[:1]), 1, 3)]
    assert rows(batches) == plain_rows(batches, "t", 3, 0, END)


@pytest.mark.usefixtures("both_ways")
def test_bits_beyond_32_and_64_are_dropped_as_the_plain_way_drops_them() -> None:
    body = b"\0" + b"\x84" + b"\x80" * 8 + b"\x7e" + b"\x80\x80\x80\x80\x70" + b"\x82\x80\x80\x80\x10k" + b"\1\0"
    batches = [raw_batch(bytes([0x80 | len(body) << 1, 0x80, 0x80, 0x80, 0x70]) + body, 1)]
    assert rows(batches) == plain_rows(batches, "t", 3, 0, END) != []


@pytest.mark.parametrize(("batch_count", "record_count"), [(1, 5000), (3000, 1), (100, 30), (7, 900)])
def test_more_than_a_chunk_of_any_shape_is_read(
    batch_count: int, record_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "CHUNK_BYTES", 20_000)
    records: list[Fields] = [(delta, delta, b"k%d" % delta, b"v" * (delta % 90), ()) for delta in range(record_count)]
    data = encoded(records)
    batches = [raw_batch(data, record_count, record_count * number) for number in range(batch_count)]
    assert rows(batches) == plain_rows(batches, "t", 3, 0, END)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"ok\x80", b"\xed\xa0\x80"])
def test_a_header_name_that_is_no_utf8_is_read_as_the_plain_way_does(name: bytes) -> None:
    data = bytearray(encoded([(0, 0, b"k", b"v", [("x" * len(name), b"value")]), (1, 0, None, None, [])]))
    place = data.index(b"x" * len(name))
    data[place : place + len(name)] = name
    batch = raw_batch(bytes(data), 2)
    assert rows([batch]) == plain_rows([batch], "t", 3, 0, END)
    assert "\N{REPLACEMENT CHARACTER}" in rows([batch])[0]["headers"][0]["key"]


def test_a_record_with_thousands_of_headers_is_read() -> None:
    many = [(f"h{number}", b"%d" % number) for number in range(5000)]
    batch = raw_batch(encoded([(0, 0, b"k", b"v", many), (1, 7, None, b"", [("a", None)])]), 2)
    assert rows([batch], 1, 2) == plain_rows([batch], "t", 3, 1, 2)
    assert rows([batch]) == plain_rows([batch], "t", 3, 0, END)


def test_what_was_read_may_be_overwritten() -> None:
    """A fetch overwrites the buffer of the one before it, while Spark may still hold its rows."""
    batch = raw_batch(encoded([(0, 0, b"key", b"value", [("name", b"content")])]), 1)
    (table,) = Decoder("t", 3, ALL_COLUMNS).rows([batch], 0, END)
    before = table.to_pylist()
    batch.buffer[:] = bytes(len(batch.buffer))
    assert table.to_pylist() == before


# --- garbage ----------------------------------------------------------------------------------------------------------

GOOD: list[Fields] = [
    (0, 0, b"key", b"value", [("h", b"1"), ("i", None)]),
    (1, 5, None, b"", []),
    (2, 300, b"k" * 70, None, [("", b"")]),
    (9, -70, b"", b"v" * 200, []),
]


def same_verdict(batch: RecordBatch) -> None:
    """Both readings make the same of it: the same rows, or that it is corrupt. A damaged offset may be negative."""
    assert outcome(lambda: rows([batch], -END)) == outcome(lambda: plain_rows([batch], "t", 3, -END, END))


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("value", [0x00, 0x01, 0x7F, 0x80, 0xFF])
def test_one_wrong_byte_anywhere_is_judged_as_the_plain_way_does(value: int) -> None:
    data = encoded(GOOD)
    for place in range(len(data)):
        same_verdict(raw_batch(data[:place] + bytes([value]) + data[place + 1 :], len(GOOD)))


@pytest.mark.usefixtures("both_ways")
def test_every_missing_tail_and_every_added_byte_is_refused() -> None:
    data = encoded(GOOD)
    for size in range(len(data)):
        assert outcome(lambda size=size: rows([raw_batch(data[:size], len(GOOD))])) == "corrupt"
    for extra in (b"\0", b"\x0c" + bytes(6), data):
        assert outcome(lambda extra=extra: rows([raw_batch(data + extra, len(GOOD))])) == "corrupt"


@pytest.mark.usefixtures("both_ways")
@given(data=st.binary(max_size=80), count=st.integers(-2, 12))
def test_arbitrary_bytes_are_judged_as_the_plain_way_does(data: bytes, count: int) -> None:
    same_verdict(raw_batch(data, count))


@pytest.mark.usefixtures("both_ways")
@given(data=st.data())
def test_damaged_records_are_judged_as_the_plain_way_does(data: st.DataObject) -> None:
    octets = bytearray(encoded(GOOD))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(octets) - 1))
        patch = data.draw(st.binary(min_size=1, max_size=11) | st.sampled_from([b"\xff" * 4 + b"\x0f", b"\xff" * 10]))
        octets[place : place + data.draw(st.integers(0, len(patch)))] = patch
    damaged = raw_batch(bytes(octets), len(GOOD))
    good = raw_batch(encoded(GOOD), len(GOOD), 100)
    same_verdict(damaged)
    both = [good, damaged, good]
    assert outcome(lambda: rows(both, -END)) == outcome(lambda: plain_rows(both, "t", 3, -END, END))


@given(codec=st.sampled_from(list(Compression)[1:]), data=st.data())
def test_damaged_compressed_data_is_judged_as_the_plain_way_does(codec: Compression, data: st.DataObject) -> None:
    batch = bytearray(raw_batch(encoded(GOOD * 3), 3 * len(GOOD), compression=codec).buffer)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    same_verdict(sealed(batch))


@pytest.mark.parametrize("count", [-1, 1, len(GOOD) - 1, len(GOOD) + 1, 1 << 20, (1 << 31) - 1])
def test_a_wrong_count_is_refused_before_memory_is_taken_for_it(count: int) -> None:
    with pytest.raises(CorruptRecordError, match="t-3: "):
        rows([raw_batch(encoded(GOOD), count)])


@pytest.mark.parametrize("data", [b"", encoded(GOOD)])
def test_a_batch_that_counts_no_records_has_no_rows(data: bytes) -> None:
    """Cleaning leaves them, to remember a producer's last number. Kafka's clients look at nothing else, either."""
    assert rows([raw_batch(data, 0, last_offset_delta=5)]) == []


def test_a_batch_that_counts_less_than_none_is_refused() -> None:
    with pytest.raises(CorruptRecordError, match="t-3: "):
        rows([raw_batch(b"", -1)])


@pytest.mark.parametrize("claimed", [1 << 20, (1 << 31) - 1])
def test_a_claim_of_many_headers_is_refused_at_once(claimed: int) -> None:
    body = b"\0\0\0\x01\x01" + encode_varint(claimed)
    with pytest.raises(CorruptRecordError):
        rows([raw_batch(encode_varint(len(body)) + body, 1)])


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused(codec: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"t-3: .*codec {codec}"):
        rows([raw_batch(encoded(GOOD), len(GOOD), attributes=codec)])


@pytest.mark.parametrize("offset", [-1, -(1 << 63), (1 << 63) - 1])
def test_an_offset_that_no_log_has_is_refused(offset: int) -> None:
    with pytest.raises(CorruptRecordError, match="impossible offset"):
        rows([raw_batch(encoded(GOOD), len(GOOD), offset)])


@pytest.mark.parametrize("base", [(1 << 63) - 1, -(1 << 63), 1 << 54, -(1 << 54)])
def test_a_time_that_spark_cannot_tell_is_refused(base: int) -> None:
    with pytest.raises(CorruptRecordError, match="timestamp"):
        rows([raw_batch(encoded(GOOD), len(GOOD), base_timestamp=base)])


def test_a_time_in_nanoseconds_is_told_with_its_record_and_what_to_do() -> None:
    nanoseconds = 1_795_837_290_783_000_000
    with pytest.raises(KafkaError) as caught:
        rows([raw_batch(encoded(GOOD), len(GOOD), 17, base_timestamp=nanoseconds)])
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    said = str(caught.value)
    assert f"t-3, offset 17: the timestamp {nanoseconds} is nothing that Spark can show" in said
    assert "has the producer written nanoseconds?" in said
    assert 'startingOffsets={"t": {"3": 18}}' in said


@pytest.mark.parametrize("base", [-1, 0, ((1 << 63) - 1) // 1000])
def test_times_at_the_edge_are_kept(base: int) -> None:
    batch = raw_batch(encoded(GOOD[:1]), 1, base_timestamp=base)
    assert [row["timestamp"] for row in rows([batch])] == [base * 1000]
