"""The sentences about columns and options that make no sense; there is no JVM and no broker."""

from __future__ import annotations

import pickle

import pytest
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
from pykraft.common.errors import ConfigError
from pykraft.spark.writing.sink_options import write_options
from pykraft.spark.writing.sink_rows import RowReader

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
        ({**SERVERS, "kafka.acks.all": "2"}, "kafka.acks.all is no setting of this client"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        write_options(options)
    assert words in str(refused.value)
