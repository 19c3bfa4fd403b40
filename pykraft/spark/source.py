"""The data source that Spark sees: ``spark.read.format("pykraft")``.

Spark is a program in Java, and it runs each step of a data source written in Python in a Python process of its own, to
which it sends pickled objects. So nothing is shared between the steps but what is handed on, and this file is where
they meet:

1. ``load()`` makes a `PykraftDataSource` of the options and asks for its schema. A wrong option ends here.
2. When a query is planned, the driver asks the `BatchReader` for partitions: that is where the brokers are asked for
   topics and offsets (`plan`). A topic that does not exist, or an offset that its log does not have, ends here.
3. Each task, in an executor, unpickles the reader and one range of offsets, fetches it from the partition's leader
   (`fetch`), and hands Arrow record batches to Spark (`decode`).

No record passes through the driver, and none through the process of the notebook. And no task commits or remembers
anything: a task that dies is run again, from the same range, and a query that is run twice is planned twice. Between
the two plans the topic may have grown; within one it cannot, because both ends of each range are fixed in step 2.

What a user did wrong, or what the cluster answers, is one sentence; the frames of the worker between would only hide
it. Spark leaves a traceback out if the worker says so, and the worker ends with the exception: `plainly` says so. A
mistake of this package keeps its traceback.

Follows org.apache.spark.sql.kafka010.{KafkaSourceProvider,KafkaBatch} and, in what Spark wants of it,
pyspark.sql.datasource.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pykraft.common.errors import ConfigError, KafkaError
from pykraft.spark.columns import check_columns, spark_schema
from pykraft.spark.decode import Decoder
from pykraft.spark.fetch import OffsetRange, PartitionFetch
from pykraft.spark.options import ReadOptions, read_options
from pykraft.spark.plan import plan

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
_NO_SINK = "this source only reads: collect() the rows, and send them with pykraft's Producer"


@contextmanager
def plainly() -> Iterator[None]:
    """Let the errors that are meant for the user leave this worker without its traceback."""
    try:
        yield
    except (ConfigError, KafkaError):
        os.environ[_HIDE_TRACEBACK] = "1"
        raise


class PykraftDataSource(DataSource):
    """Kafka's topics as rows."""

    @classmethod
    def name(cls) -> str:
        return "pykraft"

    def schema(self) -> StructType:
        """Checks the options; ConfigError says what is wrong with them."""
        with plainly():
            return spark_schema(read_options(self.options).include_headers)

    def reader(self, schema: StructType) -> "BatchReader":
        """`schema` is ours, or what the user asked for in its place: some of our columns."""
        with plainly():
            return BatchReader(read_options(self.options), check_columns(schema))

    def streamReader(self, schema: StructType) -> "NoStream":  # noqa: N802 (Spark's name)
        return NoStream()

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        with plainly():
            raise ConfigError(_NO_SINK)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802
        with plainly():
            raise ConfigError(_NO_SINK)


class NoStream(DataSourceStreamReader):
    """Says that there is no stream, when Spark asks where it begins: what `streamReader` raises, Spark 4.3 loses."""

    def initialOffset(self) -> NoReturn:  # noqa: N802
        with plainly():
            raise ConfigError("this source is no stream: spark.read reads what the topics hold when the query runs")

    def read(self, partition: InputPartition) -> NoReturn:
        raise AssertionError("what has no beginning has no partitions")


class BatchReader(DataSourceReader):
    """One query's reading."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """On the driver: one partition for each range of offsets."""
        with plainly():
            return [InputPartition(offsets) for offsets in plan(self._options)] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In an executor: the rows of one range. Of an empty plan Spark makes one partition of None."""
        with plainly():
            if partition.value is not None:
                yield from rows(self._options, self._columns, partition.value)


def rows(options: ReadOptions, columns: Sequence[str], offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of one range as Arrow record batches with these columns."""
    decoder = Decoder(*offsets.partition, columns)
    for batches in PartitionFetch(options, offsets).batches():
        yield from decoder.rows(batches, offsets.start, offsets.end)
