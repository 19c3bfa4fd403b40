"""The columns of a row, as Spark's own Kafka source has them: names, order, Spark's types and Arrow's.

A row is one record. Spark gets the schema first, then the rows as Arrow record batches whose schema must be equal to
what it makes of that. `headers` is there only if it was asked for (``includeHeaders``), and null for a record without
any. `timestampType` is 0 for the producer's timestamp, 1 for the time of the append.

Spark 4.3 does not tell a Python data source which columns a query needs. If you want fewer, give a schema:
``spark.read.format("pykraft").schema("key binary, offset long")``; the other columns are then not even decoded.

Follows org.apache.spark.sql.kafka010.KafkaRecordToRowConverter.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pykraft.common.errors import ConfigError

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

TYPES: dict[str, tuple[DataType, pa.DataType]] = {
    "key": (BinaryType(), pa.binary()),
    "value": (BinaryType(), pa.binary()),
    "topic": (StringType(), pa.string()),
    "partition": (IntegerType(), pa.int32()),
    "offset": (LongType(), pa.int64()),
    "timestamp": (TimestampType(), pa.timestamp("us", tz="UTC")),
    "timestampType": (IntegerType(), pa.int32()),
    "headers": (_HEADERS, HEADERS),
}
"""For each column its type in Spark and in Arrow. Each may be null, as in Spark's own source."""


def spark_schema(include_headers: bool) -> StructType:
    """The schema as Spark has it. (Not as text: what the word "timestamp" means there, a setting decides.)"""
    names = [name for name in TYPES if include_headers or name != "headers"]
    return StructType([StructField(name, TYPES[name][0]) for name in names])


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of these columns."""
    return pa.schema([(name, TYPES[name][1]) for name in names])


def check_columns(wanted: StructType) -> list[str]:
    """The names of the wanted columns; ConfigError if one is no column of this source."""
    names = [field.name for field in wanted.fields]
    if not names:
        raise ConfigError(f"the schema asks for no column; this source has {', '.join(TYPES)}")
    for field in wanted.fields:
        _check_column(field)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConfigError(f"the schema asks for {twice[0]} twice")
    return names


def _check_column(field: StructField) -> None:
    if field.name not in TYPES:
        raise ConfigError(f"the schema asks for a column {field.name!r}; this source has {', '.join(TYPES)}")
    asked, is_so = field.dataType, TYPES[field.name][0]
    if asked.simpleString() != is_so.simpleString():
        raise ConfigError(
            f"the schema asks for {field.name} as {asked.simpleString()}, but it is {is_so.simpleString()}"
        )
    if not field.nullable or asked != is_so:
        raise ConfigError(f"the schema asks for {field.name} without nulls, but there may be some: leave out NOT NULL")
