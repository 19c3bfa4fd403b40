"""The data source that Spark sees: ``format("pykraft")`` of `spark.read`, `readStream`, `df.write` and `writeStream`.

Spark is a program in Java, and it runs each step of a data source written in Python in a Python process of its own, to
which it sends pickled objects. So nothing is shared between the steps but what is handed on, and this file is where
they meet:

1. ``load()`` makes a `PykraftDataSource` of the options and asks for its schema. A wrong option ends here.
2. When a query is planned, the driver asks the `BatchReader` for partitions: that is where the brokers are asked for
   topics and offsets (`plan`), and where Spark's filters narrow them (`pushdown`). A topic that does not exist, or an
   offset that its log does not have, ends here.
3. Each task, in an executor, unpickles the reader and one range of offsets, fetches it from the partition's leader
   (`fetch`), and hands Arrow record batches to Spark (`decode`).

A stream (`StreamReader`) is planned once for each of its batches, between two offsets that Spark keeps (`stream`,
`offsets`); its tasks read like those of step 3.

No record passes through the driver, and none through the process of the notebook. And no task commits or remembers
anything: a task that dies is run again, from the same range, and both ends of each range are fixed in step 2, so a
topic does not grow within a query. Spark 4.3 keeps the plan of a DataFrame's first query for its later ones; a new
``load()`` makes a new plan.

Writing is in `sink`. What a user did wrong, or what the cluster answers, is one sentence, without a traceback
(`plainly`).

Follows org.apache.spark.sql.kafka010.{KafkaSourceProvider,KafkaBatch,KafkaMicroBatchStream} and, in what Spark wants of
it, pyspark.sql.datasource.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pykraft.common.errors import ConfigError
from pykraft.spark.columns import check_columns, spark_schema
from pykraft.spark.options import ReadOptions, check_options, read_options, stream_options
from pykraft.spark.plainly import plainly
from pykraft.spark.reading.decode import Decoder
from pykraft.spark.reading.fetch import OffsetRange, PartitionFetch
from pykraft.spark.reading.offsets import StreamOffset, offsets_as_json
from pykraft.spark.reading.plan import plan
from pykraft.spark.reading.pushdown import PushedFilters
from pykraft.spark.reading.stream import StreamPlanner
from pykraft.spark.worker import settle, shelf
from pykraft.spark.writing.sink import BatchWriter, ExactlyOnceWriter, StreamWriter
from pykraft.spark.writing.sink_options import write_options
from pykraft.spark.writing.sink_rows import RowReader

Json = dict[str, Any]
"""The JSON object of an offset, as `StreamOffset` writes it."""

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class PykraftDataSource(DataSource):
    """Kafka's topics as rows."""

    @classmethod
    def name(cls) -> str:
        return "pykraft"

    def schema(self) -> StructType:
        """Checks the options; ConfigError says what is wrong with them."""
        with plainly():
            return spark_schema(check_options(self.options))

    def reader(self, schema: StructType) -> "BatchReader":
        """`schema` is ours, or what the user asked for in its place: some of our columns."""
        with plainly():
            options = read_options(self.options)
            kind = FilteringReader if options.push_filters and _is_asked_for_filters() else BatchReader
            return kind(options, check_columns(schema))

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802 (Spark's name)
        return StreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """`schema` is that of the rows. Mode overwrite is refused: a topic is appended to."""
        with plainly():
            if overwrite:
                raise ConfigError('a topic can only be appended to, not overwritten: .mode("append")')
            options = write_options(self.options)
            if options.exactly_once:
                raise ConfigError(
                    "exactlyOnce is for streams: a batch query has no checkpoint that says what was written"
                )
            return BatchWriter(options, RowReader(schema, options.topic))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter | ExactlyOnceWriter:  # noqa: N802
        """`overwrite` is output mode complete: each batch appends the whole result, as in Spark's own sink."""
        with plainly():
            options = write_options(self.options)
            kind = ExactlyOnceWriter if options.exactly_once else StreamWriter
            return kind(options, RowReader(schema, options.topic))


class BatchReader(DataSourceReader):
    """One query's reading."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        self._pushed = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        """On the driver: one partition for each range of offsets."""
        with plainly():
            ranges = plan(self._options, self._pushed)
            return [InputPartition(offsets) for offsets in ranges] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In an executor: the rows of one range. Of an empty plan Spark makes one partition of None."""
        with plainly():
            if partition.value is not None:
                yield from rows(self._options, self._columns, partition.value)


class FilteringReader(BatchReader):
    """The same where Spark pushes filters down. A reader that has this method is an error where it does not, so there
    are two classes; and the setting is not shown to a source, so `_is_asked_for_filters` looks at the process."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        return self._pushed.push(filters)


def _is_asked_for_filters() -> bool:
    """Whether this process is the worker that Spark plans a read in when it pushes filters down. It has a module of its
    own, which a daemon imports, or Python runs."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or getattr(main, "name", "") == _PUSHDOWN_WORKER


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream's reading. Spark makes two: one plans all batches, in a process that lives as long as the query; the
    other one travels to the executors and reads. Options that make no sense are found out by the first method that
    Spark calls: what the constructor raises, Spark 4.3 loses."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._said = options
        self._schema = schema
        self._planner: StreamPlanner | None = None

    @contextmanager
    def _planning(self) -> Iterator[StreamPlanner]:
        with plainly():
            if self._planner is None:
                check_columns(self._schema)
                self._planner = StreamPlanner(stream_options(self._said))
            yield self._planner

    def initialOffset(self) -> Json:  # noqa: N802
        with self._planning() as planner:
            return planner.initial_offset().as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        with plainly():
            most = stream_options(self._said).max_offsets_per_trigger
            return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with self._planning() as planner:
            planner.fix_target()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        with self._planning() as planner:
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return planner.latest_offset(StreamOffset.of_json(start), most).as_json()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """The ends of the topics; what they are ahead of the batch's end is the query's lag."""
        with self._planning() as planner:
            return offsets_as_json(planner.latest.offsets) or None if planner.latest else None

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """On the driver: one partition for each range of offsets of the batch."""
        with self._planning() as planner:
            ranges = planner.ranges(StreamOffset.of_json(start), StreamOffset.of_json(end))
            return [InputPartition(offsets) for offsets in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In an executor: the rows of one range."""
        with plainly():
            yield from rows(stream_options(self._said), check_columns(self._schema), partition.value)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()


def rows(options: ReadOptions, columns: Sequence[str], offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of one range as Arrow record batches with these columns."""
    settle()
    decoder = Decoder(*offsets.partition, columns)
    fetch = PartitionFetch(options, offsets, shelf())
    for batches in fetch.batches():
        yield from decoder.rows(batches, fetch.start, offsets.end)
