"""Rows to record batches: what the plain encoder of records makes of the same, and where each row goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from pykraft.client.producing.partitioner import murmur2, partition_of_key
from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicPartition
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.spark.writing import encode
from pykraft.spark.writing.encode import RowEncoder, murmur2_of
from pykraft.spark.writing.sink_options import write_options
from pykraft.spark.writing.sink_rows import RowReader
from tests.spark.writing.test_sink_rows import EVERYTHING, SERVERS, schema_of

Batches = list[tuple[TopicPartition, RecordBatch]]


class Content(NamedTuple):
    """A record without its place."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def arrow(text: str, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    schema = to_arrow_schema(schema_of(text), timezone="UTC")
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    return pa.record_batch([pa.array(v, field.type) for v, field in zip(columns, schema, strict=True)], schema=schema)


def encoded(
    text: str, batches: Iterable[pa.RecordBatch], topic: str = "", partitions: int = 3, **settings: str
) -> Batches:
    """The record batches of these rows, each with its place."""
    said = {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    rows = RowReader(schema_of(text), topic)
    encoder = RowEncoder(write_options({**SERVERS, **said}).producer, rows, lambda name: range(partitions), Random(1))
    found = [each for batch in batches for each in encoder.encode(batch)] + list(encoder.finish())
    made = [(place, RecordBatch(memoryview(bytearray(data)))) for place, data in found]
    assert all(batch.is_valid and batch.size == len(data) for (_, batch), (_, data) in zip(made, found, strict=True))
    return made


def contents(batch: RecordBatch) -> list[Content]:
    return [Content(each.key, each.value, tuple(each.headers)) for each in batch.records()]


def by_place(batches: Batches) -> dict[TopicPartition, list[Content]]:
    found: dict[TopicPartition, list[Content]] = {}
    for place, batch in batches:
        found.setdefault(place, []).extend(contents(batch))
    return found


def some_rows(chance: Random, count: int) -> list[tuple[Any, ...]]:
    """Rows of EVERYTHING: null, empty, short and long; keys of every length modulo 4, some longer than 256 bytes."""

    def octets(longest: int) -> bytes | None:
        return None if chance.random() < 0.2 else chance.randbytes(chance.choice([0, 1, 5, 63, 64, longest]))

    def headers() -> list[dict[str, Any]] | None:
        some = [{"key": chance.choice(["", "a", "größe"]), "value": octets(70)} for _ in range(chance.randrange(70))]
        return chance.choice([None, [], some])

    return [
        (
            None if chance.random() < 0.2 else "k" * chance.choice([0, 1, 2, 3, 4, 7, 250, 255, 256, 257, 1000]),
            number,
            octets(9000),
            chance.choice([None, None, 0, 1, 2]),
            chance.choice(["t", "u"]),
            headers(),
        )
        for number in range(count)
    ]


def content(row: tuple[Any, ...]) -> Content:
    key, _, value, _, _, headers = row
    named = tuple((each["key"], each["value"]) for each in headers or ())
    return Content(None if key is None else key.encode(), value, named)


@pytest.mark.parametrize("codec", [each.name.lower() for each in Compression])
def test_the_bytes_are_those_of_the_plain_encoder(codec: str) -> None:
    chance = Random(codec)
    rows = some_rows(chance, 600)
    whole = arrow(EVERYTHING, rows)
    found = encoded(EVERYTHING, [whole.slice(0, 7), whole.slice(7, 400), whole.slice(407)], compression_type=codec)
    for _, batch in found:
        builder = RecordBatchBuilder(compression=batch.compression)
        for record in batch.records():
            builder.append(record.timestamp, record.key, record.value, record.headers)
        assert bytes(batch.buffer) == bytes(builder.build())
        assert batch.compression.name.lower() == codec and batch.base_timestamp > 1_700_000_000_000
    assert sum(batch.count for _, batch in found) == len(rows)
    at = by_place(found)
    for topic, number in [(topic, number) for topic in "tu" for number in range(3)]:
        certain = [
            content(row)
            for row in rows
            if row[4] == topic and number == (row[3] if row[3] is not None else of_key(row[0]))
        ]
        free = {content(row) for row in rows if row[3] is None and row[0] is None}
        assert [each for each in at[TopicPartition(topic, number)] if each not in free] == [
            each for each in certain if each not in free
        ]
    everything = [each for some in at.values() for each in some]
    assert sorted(map(repr, everything)) == sorted(repr(content(row)) for row in rows)


def of_key(key: str | None) -> int:
    return -1 if key is None else partition_of_key(key.encode(), 3)


def test_keys_hash_as_one_by_one() -> None:
    chance = Random(7)
    keys = [chance.randbytes(length) for length in range(300) for _ in range(2)]
    column = pa.array([b"before", *keys], pa.large_binary()).slice(1)
    assert murmur2_of(column).tolist() == [murmur2(key) for key in keys]
    assert murmur2_of(pa.array([], pa.large_binary())).tolist() == []


def test_batches_of_a_partition_are_full_and_in_order() -> None:
    rows = [(b"%03d" % number, number % 2) for number in range(100)]
    found = encoded("value binary, partition int", [arrow("value binary, partition int", rows)], "t", batch_size="500")
    for parity in (0, 1):
        batches = [batch for place, batch in found if place.partition == parity]
        assert all(200 < batch.size <= 500 for batch in batches[:-1])
        values = [each.value for batch in batches for each in contents(batch)]
        assert values == [b"%03d" % number for number in range(parity, 100, 2)]


def test_a_row_that_is_larger_than_a_batch_has_one_of_its_own() -> None:
    rows = [(b"v" * size,) for size in (10, 1000, 10, 2000)]
    found = encoded("value binary", [arrow("value binary", rows)], "t", partitions=1, batch_size="200")
    assert [batch.count for _, batch in found] == [1, 1, 1, 1]


def test_rows_without_a_key_fill_one_partition_after_the_other() -> None:
    rows = [(b"%03d" % number,) for number in range(200)]
    found = encoded("value binary", [arrow("value binary", rows)], "t", batch_size="500")
    assert {place.partition for place, _ in found} == {0, 1, 2}
    assert len(found) < 25


def test_rows_wait_for_others_until_there_are_some_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "WAITING_BYTES", 500)
    rows = RowReader(schema_of("value binary"), "t")
    encoder = RowEncoder(write_options(SERVERS).producer, rows, lambda name: range(1), Random(1))
    batch = arrow("value binary", [(b"x" * 100,)])
    found = [list(encoder.encode(batch)) for _ in range(10)]
    assert [len(batches) for batches in found] == [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert list(encoder.finish()) == []


def test_a_value_is_enough_where_the_option_names_the_topic() -> None:
    ((place, batch),) = encoded("value string", [arrow("value string", [("",)])], "t", partitions=1)
    assert (place, contents(batch)) == (TopicPartition("t", 0), [Content(None, b"", ())])


def test_the_option_topic_wins_over_the_column_whatever_that_holds() -> None:
    text = "value string, topic int"
    assert list(by_place(encoded(text, [arrow(text, [("v", 1)])], "t", partitions=1))) == [TopicPartition("t", 0)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_text_and_bytes_may_come_in_each_of_arrows_ways(kind: pa.DataType) -> None:
    values = pa.array(["größe", None, ""]).cast(kind) if "string" in str(kind) else pa.array([b"1", None, b""], kind)
    batch = pa.record_batch([values], names=["value"])
    ((_, found),) = encoded("value string", [batch], "t", partitions=1)
    expected = ["größe".encode(), None, b""] if "string" in str(kind) else [b"1", None, b""]
    assert [each.value for each in contents(found)] == expected


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((None, 1, b"", 3, "t", None), "INVALID_PARTITIONS: a row cannot be written: t has partitions 0 to 2, not 3"),
        ((None, 1, b"", -1, "t", None), "INVALID_PARTITIONS: a row cannot be written: t has partitions 0 to 2, not -1"),
        ((None, 1, b"v" * 2_000_000, None, "t", None), "MESSAGE_TOO_LARGE: the record has 2000022 bytes, max.request."),
        ((None, 1, b"", None, "t\n", None), "INVALID_TOPIC_EXCEPTION"),
        ((None, 1, b"", None, None, None), "a row has null in the column topic: fill it, or name a topic for"),
        ((None, 1, b"", 0, "t", [{"key": None, "value": b"1"}]), "a row has a header without a key"),
        ((None, 1, b"", 0, "t", [None]), "a row has a header without a key"),
    ],
    ids=["above", "below", "large", "name", "no topic", "no header's key", "no header"],
)
def test_a_row_that_can_be_no_record_is_refused(row: tuple[Any, ...], words: str) -> None:
    usual = ("k", 0, b"v", None, "t", None)
    with pytest.raises(KafkaError) as refused:
        encoded(EVERYTHING, [arrow(EVERYTHING, [usual, row, usual])])
    assert words in str(refused.value)


def test_no_rows_make_no_batch() -> None:
    assert encoded(EVERYTHING, [arrow(EVERYTHING, [])]) == []
