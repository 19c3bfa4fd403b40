"""A schema of the user's: some of the columns, in any order; one sentence for any other."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructField, StructType

from pykraft.common.errors import ConfigError
from pykraft.spark.columns import check_columns, spark_schema


def schema(*fields: StructField) -> StructType:
    return StructType(list(fields))


OFFSET, KEY = StructField("offset", LongType()), StructField("key", BinaryType())
NAMED_HEADERS = ArrayType(StructType([StructField("key", StringType(), False), StructField("value", BinaryType())]))


def test_some_columns_in_any_order_will_do() -> None:
    assert check_columns(schema(OFFSET, KEY)) == ["offset", "key"]
    assert check_columns(spark_schema(include_headers=True))[-1] == "headers"


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (schema(), "the schema asks for no column; this source has key, value, topic"),
        (
            schema(StructField("OFFSET", LongType())),
            "the schema asks for a column 'OFFSET'; this source has key, value",
        ),
        (schema(StructField("offset", IntegerType())), "the schema asks for offset as int, but it is bigint"),
        (schema(OFFSET, KEY, OFFSET), "the schema asks for offset twice"),
        (
            schema(StructField("offset", LongType(), False)),
            "the schema asks for offset without nulls, but there may be",
        ),
        (schema(StructField("headers", NAMED_HEADERS)), "the schema asks for headers without nulls, but there may be"),
    ],
)
def test_another_schema_is_one_sentence(wanted: StructType, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_columns(wanted)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
