"""From rows to records: which columns a DataFrame must have to be written, and what a row becomes.

=========  =======================================  ================================================================
column     type                                     meaning
=========  =======================================  ================================================================
value      string or binary                         needed; null writes a tombstone
key        string or binary                         null without the column
topic      string                                   needed, unless the option ``topic`` names one, which wins
partition  int                                      null without the column: the key's hash chooses, as in Java
headers    array<struct<key: string,                none without the column
           value: binary>>
=========  =======================================  ================================================================

Other columns are ignored, so what the source reads can be written as it is. Text becomes UTF-8. The record's timestamp
is the time when a task takes the row, as in Spark's own sink, which does not write the column `timestamp` either.

Follows org.apache.spark.sql.kafka010.{KafkaWriter,KafkaWriteTask}: the same columns, types and order of checks.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

from pykraft.client.producer import Outgoing
from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.records.record import Header
from pykraft.spark.columns import TYPES

_BYTES = (StringType, BinaryType)
_HEADERS = TYPES["headers"][0].simpleString()
_NO_HEADERS: tuple[Header, ...] = ()


class RowReader:
    """Makes records of the rows that one query writes. It travels to the executors."""

    def __init__(self, schema: StructType, topic: str) -> None:
        """`topic` is what the option says, or empty. ConfigError if the columns are not those of a record."""
        self._topic = topic
        self._places: dict[str, int] = {}
        for place, name in enumerate(schema.fieldNames()):
            self._places.setdefault(name, place)
        if not topic:
            if "topic" not in self._places:
                raise ConfigError("the rows have no column topic: add one, or name a topic with the option topic")
            self._check(schema, "topic", (StringType,), "string")
        self._check(schema, "key", _BYTES, "string or binary")
        if "value" not in self._places:
            found = ", ".join(schema.fieldNames())
            raise ConfigError(f"the rows have no column value, which a record needs; they have {found}")
        self._check(schema, "value", _BYTES, "string or binary")
        if "headers" in self._places and _type_of(schema, "headers").simpleString() != _HEADERS:
            raise ConfigError(_wrong("headers", _type_of(schema, "headers"), _HEADERS))
        self._check(schema, "partition", (IntegerType,), "int")

    def _check(self, schema: StructType, name: str, kinds: tuple[type[DataType], ...], words: str) -> None:
        if name in self._places and not isinstance(_type_of(schema, name), kinds):
            raise ConfigError(_wrong(name, _type_of(schema, name), words))

    def records(self, batch: pa.RecordBatch) -> Iterator[Outgoing]:
        """The records of these rows, in order. KafkaError if a row can be none."""
        count = batch.num_rows
        topics: Iterable[str | None] = [self._topic] * count
        if not self._topic:
            topics = self._column(batch, "topic")
        keys, values = self._bytes(batch, "key"), self._bytes(batch, "value")
        partitions, headers = self._column(batch, "partition"), self._column(batch, "headers")
        timestamp = time.time_ns() // 1_000_000
        for topic, key, value, some, partition in zip(topics, keys, values, headers, partitions, strict=True):
            if topic is None:
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    "a row has null in the column topic: fill it, or name a topic for all rows with the option topic",
                )
            yield Outgoing(topic, key, value, _headers(some) if some else _NO_HEADERS, partition, timestamp)

    def _column(self, batch: pa.RecordBatch, name: str) -> list[Any]:
        if name not in self._places:
            return [None] * batch.num_rows
        found: list[Any] = batch.column(self._places[name]).to_pylist()
        return found

    def _bytes(self, batch: pa.RecordBatch, name: str) -> list[bytes | None]:
        """A column of text or bytes; text is UTF-8 in Arrow already."""
        if name not in self._places:
            return [None] * batch.num_rows
        column = batch.column(self._places[name])
        if pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        elif pa.types.is_large_string(column.type):
            column = column.cast(pa.large_binary())
        found: list[bytes | None] = column.to_pylist()
        return found


def _headers(found: Sequence[dict[str, Any] | None]) -> list[Header]:
    headers: list[Header] = []
    for header in found:
        if header is None or header["key"] is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "a row has a header without a key: a header's key may be empty, but not null"
            )
        headers.append((header["key"], header["value"]))
    return headers


def _type_of(schema: StructType, name: str) -> DataType:
    return next(field.dataType for field in schema.fields if field.name == name)


def _wrong(name: str, found: DataType, words: str) -> str:
    return f"the column {name} is {found.simpleString()}, but must be {words}: cast it"
