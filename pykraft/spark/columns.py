"""The columns of a row, as Spark's own Kafka source has them: names, order, Spark's types and Arrow's.

A row is one record. Spark is told the schema as a line of DDL, and gets the rows as Arrow record batches whose schema
must be equal to what it makes of that line. `headers` is there only if it was asked for (``includeHeaders``), and null
for a record without any. `timestampType` is 0 for the producer's timestamp, 1 for the time of the append.

Spark 4.3 does not tell a Python data source which columns a query needs. Who wants fewer gives a schema:
``spark.read.format("pykraft").schema("key binary, offset long")``; the other columns are then not even decoded.

Follows org.apache.spark.sql.kafka010.KafkaRecordToRowConverter.
"""

from collections.abc import Sequence

import pyarrow as pa

from pykraft.common.errors import ConfigError

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

TYPES: dict[str, tuple[str, pa.DataType]] = {
    "key": ("binary", pa.binary()),
    "value": ("binary", pa.binary()),
    "topic": ("string", pa.string()),
    "partition": ("int", pa.int32()),
    "offset": ("bigint", pa.int64()),
    "timestamp": ("timestamp", pa.timestamp("us", tz="UTC")),
    "timestampType": ("int", pa.int32()),
    "headers": ("array<struct<key:string,value:binary>>", HEADERS),
}
"""For each column its type in Spark and in Arrow."""


def ddl(include_headers: bool) -> str:
    """The schema as Spark reads it."""
    names = [name for name in TYPES if include_headers or name != "headers"]
    return ", ".join(f"{name} {TYPES[name][0]}" for name in names)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of these columns."""
    return pa.schema([(name, TYPES[name][1]) for name in names])


def check_columns(wanted: Sequence[tuple[str, str]]) -> list[str]:
    """The names of the wanted (name, Spark type) pairs; ConfigError if one is no column of this source."""
    for name, spark_type in wanted:
        if name not in TYPES:
            raise ConfigError(f"the schema asks for a column {name!r}; this source has {', '.join(TYPES)}")
        if spark_type != TYPES[name][0]:
            raise ConfigError(f"the schema asks for {name} as {spark_type}, but it is {TYPES[name][0]}")
    return [name for name, _ in wanted]
