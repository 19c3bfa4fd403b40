"""Writing rows to topics: ``df.write.format("pykraft")`` and ``df.writeStream.format("pykraft")``.

Each task has a producer of its own, which is idempotent and waits for all in-sync replicas. A task succeeds when every
record of its rows is acknowledged. If it fails, Spark may run it again, and a stream repeats a batch that it did not
commit: rows whose records were acknowledged the first time are written again. So this is *at least once*, like Spark's
own sink. Idempotence does not help here: it numbers the records of one producer, and the repetition is another one.

Rows of one task keep their order in each partition. Rows of different tasks have none.

Follows org.apache.spark.sql.kafka010.{KafkaWriter,KafkaWriteTask,KafkaStreamingWrite}.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pykraft.spark.plainly import plainly
from pykraft.spark.sink_options import WriteOptions
from pykraft.spark.sink_producer import SinkProducer
from pykraft.spark.sink_rows import RowReader


class Written(WriterCommitMessage):
    """A task's word that its records are acknowledged."""


class BatchWriter(DataSourceArrowWriter):
    """Writes what a batch query finds, at least once."""

    def __init__(self, options: WriteOptions, rows: RowReader) -> None:
        self._options = options
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In an executor: the rows of one task."""
        with plainly():
            write_at_least_once(self._options, self._rows, iterator)
        return Written()


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream, at least once."""

    def __init__(self, options: WriteOptions, rows: RowReader) -> None:
        self._options = options
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In an executor: the rows of one task of one batch."""
        with plainly():
            write_at_least_once(self._options, self._rows, iterator)
        return Written()


def write_at_least_once(options: WriteOptions, rows: RowReader, batches: Iterator[pa.RecordBatch]) -> None:
    """Send these rows, and wait until all are acknowledged. A task without rows connects to nothing."""
    producer: SinkProducer | None = None
    try:
        for batch in batches:
            if producer is None and batch.num_rows:
                producer = SinkProducer(options.producer)
            if producer is not None:
                producer.send_all(rows.records(batch))
        if producer is not None:
            producer.finish()
    except BaseException:
        if producer is not None:
            producer.close(timeout=0)  # what is still under way may be written: the task fails all the same
        raise
    if producer is not None:
        producer.close()
