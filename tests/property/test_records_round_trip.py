"""Records and batches come back as they went in, through our own reader and through those of other clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.records.batch import HEADER_BYTES, RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression, compress, decompress
from pykraft.records.record import Header, decode_places
from tests.harness.others import module

CODECS = st.sampled_from(Compression)
BYTES = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=70)
NAMES = st.text(st.characters(codec="utf-8"), max_size=10)
HEADERS = st.lists(st.tuples(NAMES, BYTES), max_size=3)
TIMESTAMPS = st.integers(-1, 1 << 41)
RECORDS = st.lists(st.tuples(TIMESTAMPS, BYTES, BYTES, HEADERS), min_size=1, max_size=20)

Row = tuple[int, bytes | None, bytes | None, list[Header]]

THEIRS = ["kafka.record.default_records", "aiokafka.record.default_records"]
# What both can make. kafka-python brings no snappy; to aiokafka's builder -1 is no timestamp.
COMMON_CODECS = st.sampled_from([codec for codec in Compression if codec is not Compression.SNAPPY])
COMMON_RECORDS = st.lists(st.tuples(st.integers(0, 1 << 41), BYTES, BYTES, HEADERS), min_size=1, max_size=20)


def built(rows: Sequence[Row], **fields: Any) -> RecordBatch:
    builder = RecordBatchBuilder(**fields)
    for row in rows:
        builder.append(*row)
    return RecordBatch(memoryview(builder.build()))


def rows_of(some: RecordBatch) -> list[tuple[int, Row]]:
    return [(each.offset, (each.timestamp, each.key, each.value, list(each.headers))) for each in some.records()]


@given(
    RECORDS,
    CODECS,
    st.integers(0, 1 << 62),
    st.integers(-1, 1 << 62),
    st.integers(-1, 0x7FFF),
    st.integers(-1, 0x7FFFFFFF),
    st.booleans(),
)
def test_a_batch_holds_what_was_put_in(
    rows: list[Row],
    codec: Compression,
    base_offset: int,
    producer_id: int,
    epoch: int,
    sequence: int,
    transactional: bool,
) -> None:
    some = built(
        rows,
        base_offset=base_offset,
        compression=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    assert some.is_valid and some.is_transactional == transactional and some.compression is codec
    assert (some.producer_id, some.producer_epoch, some.base_sequence) == (producer_id, epoch, sequence)
    assert (some.count, some.last_offset) == (len(rows), base_offset + len(rows) - 1)
    assert some.max_timestamp == max([-1, *(row[0] for row in rows)])
    assert rows_of(some) == [(base_offset + number, row) for number, row in enumerate(rows)]


@given(RECORDS, CODECS, st.booleans(), st.integers(1, 100))
def test_places_are_those_of_the_records(
    rows: list[Row], codec: Compression, append_time: bool, chunk_bytes: int
) -> None:
    """Read without keys and values, and from chunks of any size."""
    some = built(rows, base_offset=5, compression=codec)
    if append_time:
        some.stamp(77)
    assert list(some.places()) == [(record.offset, record.timestamp) for record in some.records()]
    data = bytes(decompress(codec, some.buffer[HEADER_BYTES:]))
    chunks = [data[start : start + chunk_bytes] for start in range(0, len(data), chunk_bytes)]
    found = decode_places(chunks, some.count, 5, some.base_timestamp)
    assert list(found) == [(5 + number, row[0]) for number, row in enumerate(rows)]


@given(st.lists(RECORDS, max_size=4), st.data())
def test_a_piece_of_a_log_holds_its_whole_batches(contents: list[list[Row]], data: st.DataObject) -> None:
    some = [built(rows) for rows in contents]
    whole = b"".join(bytes(each.buffer) for each in some)
    cut = data.draw(st.integers(0, len(whole)))
    found = list(batches(memoryview(whole)[:cut]))
    assert [bytes(each.buffer) for each in found] == [bytes(each.buffer) for each in some[: len(found)]]
    left = cut - sum(each.size for each in found)
    assert left >= 0 and (len(found) == len(some) or left < some[len(found)].size)


@given(st.sampled_from(Compression), st.lists(st.binary(max_size=200), max_size=20))
def test_a_codec_gives_back_what_it_got(codec: Compression, parts: list[bytes]) -> None:
    data = b"".join(part * 7 for part in parts)
    assert bytes(decompress(codec, memoryview(compress(codec, data)))) == data


# --- other clients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", THEIRS)
@given(rows=COMMON_RECORDS, codec=COMMON_CODECS, transactional=st.booleans(), producer_id=st.integers(0, 1 << 40))
def test_other_clients_read_our_batches(
    name: str, rows: list[Row], codec: Compression, transactional: bool, producer_id: int
) -> None:
    ours = built(
        rows, compression=codec, transactional=transactional, producer_id=producer_id, producer_epoch=3, base_sequence=9
    )
    ours.assign(1000, leader_epoch=5)
    theirs = module(name).DefaultRecordBatch(bytes(ours.buffer))
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.next_offset, theirs.is_transactional) == (1000, 1000 + len(rows), transactional)
    assert (theirs.producer_id, theirs.compression_type) == (producer_id, codec)
    found = [(each.offset, (each.timestamp, each.key, each.value, list(each.headers))) for each in theirs]
    assert found == [(1000 + number, row) for number, row in enumerate(rows)]


@pytest.mark.parametrize("name", THEIRS)
@given(rows=COMMON_RECORDS, codec=COMMON_CODECS, transactional=st.booleans(), producer_id=st.integers(0, 1 << 40))
def test_we_read_the_batches_of_other_clients(
    name: str, rows: list[Row], codec: Compression, transactional: bool, producer_id: int
) -> None:
    data = build_theirs(name, rows, codec, transactional, producer_id)
    (ours,) = batches(memoryview(data))
    assert ours.is_valid and ours.is_transactional == transactional
    assert (ours.producer_id, ours.producer_epoch, ours.base_sequence) == (producer_id, 3, 9)
    assert rows_of(ours) == list(enumerate(rows))


@pytest.mark.parametrize("name", THEIRS)
@given(rows=COMMON_RECORDS, transactional=st.booleans(), producer_id=st.integers(0, 1 << 40))
def test_without_a_codec_all_build_the_same_bytes(
    name: str, rows: list[Row], transactional: bool, producer_id: int
) -> None:
    ours = built(rows, transactional=transactional, producer_id=producer_id, producer_epoch=3, base_sequence=9)
    theirs = build_theirs(name, rows, Compression.NONE, transactional, producer_id)
    ours.assign(0, int.from_bytes(theirs[12:16], "big", signed=True))  # they leave 0 where a leader puts its epoch
    assert bytes(ours.buffer) == theirs


@given(rows=COMMON_RECORDS)
def test_aiokafka_and_we_read_each_others_snappy(rows: list[Row]) -> None:
    (ours,) = batches(memoryview(build_theirs(THEIRS[1], rows, Compression.SNAPPY, False, 7)))
    assert rows_of(ours) == list(enumerate(rows))
    theirs = module(THEIRS[1]).DefaultRecordBatch(bytes(built(rows, compression=Compression.SNAPPY).buffer))
    assert [(each.offset, (each.timestamp, each.key, each.value, list(each.headers))) for each in theirs] == list(
        enumerate(rows)
    )


def build_theirs(name: str, rows: list[Row], codec: Compression, transactional: bool, producer_id: int) -> bytes:
    builder = module(name).DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec.value,
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=9,
        batch_size=1 << 20,
    )
    for offset, (timestamp, key, value, headers) in enumerate(rows):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    return bytes(builder.build())
