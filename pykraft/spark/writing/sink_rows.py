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
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.records.record import put_bytes
from pykraft.records.varint import encode_varint
from pykraft.spark.columns import TYPES

_BYTES = (StringType, BinaryType)
_HEADERS = TYPES["headers"][0].simpleString()
_NO_HEADERS = b"\0"
"""Their number."""


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

    def columns(self, batch: pa.RecordBatch) -> "Columns":
        """What these rows say of their records. KafkaError if a row can be no record."""
        count = batch.num_rows
        numbers, is_given = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        if "partition" in self._places:
            column = batch.column(self._places["partition"])
            is_given = column.is_valid().to_numpy(zero_copy_only=False)
            numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return Columns(
            topic=self._topic,
            topic_column=None if self._topic else self._named_topics(batch),
            keys=self._bytes(batch, "key"),
            values=self._bytes(batch, "value"),
            headers=self._encoded_headers(batch),
            partitions=numbers,
            has_partition=is_given,
            timestamp=time.time_ns() // 1_000_000,
        )

    def _named_topics(self, batch: pa.RecordBatch) -> pa.Array:
        column = batch.column(self._places["topic"])
        if column.null_count:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                "a row has null in the column topic: fill it, or name a topic for all rows with the option topic",
            )
        return column

    def _bytes(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """A column of text or bytes; text is UTF-8 in Arrow already."""
        if name not in self._places:
            return pa.nulls(batch.num_rows, pa.large_binary())
        column = batch.column(self._places[name])
        return (
            column.cast(pa.binary()).cast(pa.large_binary())
            if pa.types.is_string(column.type)
            else (column.cast(pa.large_binary()))
        )

    def _encoded_headers(self, batch: pa.RecordBatch) -> pa.Array:
        """The headers of each row as a record has them: their number, and each name and value with its length."""
        none = pa.repeat(pa.scalar(_NO_HEADERS, pa.large_binary()), batch.num_rows)
        if "headers" not in self._places:
            return none
        column = batch.column(self._places["headers"])
        if not len(column.flatten()):
            return none
        return pa.array([_encoded(found) for found in column.to_pylist()], pa.large_binary())


class Columns(NamedTuple):
    """What some rows say of their records."""

    topic: str
    """That of all rows, or empty."""
    topic_column: pa.Array | None
    keys: pa.Array
    """Like the next two, an Arrow column of large_binary."""
    values: pa.Array
    headers: pa.Array
    """They are encoded already."""
    partitions: npt.NDArray[np.int64]
    has_partition: npt.NDArray[np.bool_]
    """Whether the row chooses its partition itself."""
    timestamp: int
    """That of all records."""

    def topics(self) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
        """Each topic, and which rows go there."""
        if self.topic_column is None:
            yield self.topic, np.arange(len(self.values))
            return
        encoded = self.topic_column.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        for code, topic in enumerate(encoded.dictionary.to_pylist()):
            yield topic, np.flatnonzero(codes == code)


def _encoded(headers: Sequence[dict[str, Any] | None] | None) -> bytes:
    if not headers:
        return _NO_HEADERS
    out = bytearray(encode_varint(len(headers)))
    for header in headers:
        if header is None or header["key"] is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, "a row has a header without a key: a header's key may be empty, but not null"
            )
        put_bytes(out, header["key"].encode())
        put_bytes(out, header["value"])
    return bytes(out)


def _type_of(schema: StructType, name: str) -> DataType:
    return next(field.dataType for field in schema.fields if field.name == name)


def _wrong(name: str, found: DataType, words: str) -> str:
    return f"the column {name} is {found.simpleString()}, but must be {words}: cast it"
