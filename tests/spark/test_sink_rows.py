"""What a row becomes, and the sentences about rows and options that make no sense; there is no JVM and no broker."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pykraft.client import config as keys
from pykraft.client.producer import Outgoing
from pykraft.common.errors import ConfigError, KafkaError
from pykraft.spark.sink_options import write_options
from pykraft.spark.sink_rows import RowReader

PAIRS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
OTHER_PAIRS = ArrayType(StructType([StructField("name", StringType()), StructField("value", BinaryType())]))
TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "int": IntegerType(),
    "long": LongType(),
    "strings": ArrayType(StringType()),
    "map": MapType(StringType(), BinaryType()),
    "pairs": PAIRS,
    "other_pairs": OTHER_PAIRS,
    "string": StringType(),
    "timestamp": TimestampType(),
}
EVERYTHING = "key string, offset long, value binary, partition int, topic string, headers pairs"
SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def schema_of(text: str) -> StructType:
    """The schema with these columns. (Spark's own parser of such texts is in the JVM.)"""
    columns = [column.split() for column in text.split(", ")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in columns])


def records(text: str, rows: list[tuple[object, ...]], topic: str = "") -> list[Outgoing]:
    """The records of these rows, without their time."""
    schema = schema_of(text)
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), arrow, strict=True)]
    batch = pa.record_batch(columns, schema=arrow)
    return [record._replace(timestamp=0) for record in RowReader(schema, topic).records(batch)]


def test_all_columns_of_a_record_are_taken_and_others_ignored() -> None:
    header = [{"key": "a", "value": b"1"}, {"key": "", "value": None}]
    assert records(EVERYTHING, [("größe", 7, b"\0", 3, "t", header), (None, 8, None, None, "u", None)]) == [
        Outgoing("t", "größe".encode(), b"\0", [("a", b"1"), ("", None)], 3, 0),
        Outgoing("u", None, None, (), None, 0),
    ]


def test_a_value_is_enough_where_the_option_names_the_topic() -> None:
    assert records("value string", [("",)], "t") == [Outgoing("t", None, b"", (), None, 0)]


def test_the_option_topic_wins_over_the_column_whatever_that_holds() -> None:
    assert records("value string, topic int", [("v", 1)], "t") == [Outgoing("t", None, b"v", (), None, 0)]


def test_a_record_has_the_time_when_its_row_was_taken() -> None:
    reader = RowReader(schema_of("value string, timestamp timestamp"), "t")
    batch = pa.record_batch([pa.array(["v"]), pa.array([0], pa.timestamp("us", "UTC"))], ["value", "timestamp"])
    (record,) = reader.records(batch)
    assert record.timestamp > 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "topic", "sentence"),
    [
        ("value string", "", "the rows have no column topic: add one, or name a topic with the option topic"),
        ("value string, topic int", "", "the column topic is int, but must be string: cast it"),
        ("key long, value string", "t", "the column key is bigint, but must be string or binary: cast it"),
        ("key string, offset long", "t", "the rows have no column value, which a record needs; they have key, offset"),
        ("value strings", "t", "the column value is array<string>, but must be string or binary: cast it"),
        ("value string, partition long", "t", "the column partition is bigint, but must be int: cast it"),
        (
            "value string, headers map",
            "t",
            "the column headers is map<string,binary>, but must be array<struct<key:string,value:binary>>: cast it",
        ),
        (
            "value string, headers other_pairs",
            "t",
            "the column headers is array<struct<name:string,value:binary>>, but must be"
            " array<struct<key:string,value:binary>>: cast it",
        ),
    ],
)
def test_columns_that_are_not_those_of_a_record_are_refused(text: str, topic: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        RowReader(schema_of(text), topic)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("text", "row", "words"),
    [
        ("value string, topic string", ("v", None), "a row has null in the column topic: fill it, or name a topic for"),
        (EVERYTHING, (None, 1, b"", 0, "t", [{"key": None, "value": b"1"}]), "a row has a header without a key"),
        (EVERYTHING, (None, 1, b"", 0, "t", [None]), "a row has a header without a key"),
    ],
)
def test_a_row_that_can_be_no_record_is_refused(text: str, row: tuple[object, ...], words: str) -> None:
    with pytest.raises(KafkaError, match=words):
        records(text, [row])


# --- options ----------------------------------------------------------------------------------------------------------


def test_the_options_travel_and_the_producer_is_an_idempotent_one() -> None:
    said = {**SERVERS, "Topic": "t", "kafka.LINGER.ms": "7", "checkpointLocation": "x", "queryName": "y"}
    found = pickle.loads(pickle.dumps(write_options(said)))
    assert (found.topic, found.producer[keys.LINGER_MS], found.producer[keys.ACKS]) == ("t", 7, "all")
    assert found.producer[keys.ENABLE_IDEMPOTENCE]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "t"}, "kafka.bootstrap.servers"),
        (
            {**SERVERS, "topics": "t"},
            "topics is no option of this sink; it has kafka.bootstrap.servers, kafka.*, topic",
        ),
        ({**SERVERS, "topic": ""}, "topic is empty: name one, or leave the option out"),
        ({**SERVERS, "kafka.key.serializer": "x"}, "kafka.key.serializer cannot be set: the column key is text or"),
        ({**SERVERS, "kafka.transactional.id": "x"}, "kafka.transactional.id cannot be set: a task that is tried"),
        ({**SERVERS, "kafka.acks": "2"}, "kafka.acks"),
        ({**SERVERS, "kafka.group.id": "2"}, "kafka.group.id is no setting of this client"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        write_options(options)
    assert words in str(refused.value)
