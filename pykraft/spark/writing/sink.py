"""Writing rows to topics: ``df.write.format("pykraft")`` and ``df.writeStream.format("pykraft")``.

Each task has a producer of its own, which is idempotent and waits for all in-sync replicas. A task succeeds when every
record of its rows is acknowledged. If it fails, Spark may run it again, and a stream repeats a batch that it did not
commit: rows whose records were acknowledged the first time are written again. So this is *at least once*, like Spark's
own sink. Idempotence does not help here: it numbers the records of one producer, and the repetition is another one.

With ``exactlyOnce=true`` the tasks of a stream only stage their rows, and the driver writes them (`exactly_once`).

Rows of one task keep their order in each partition. Rows of different tasks have none.

Follows org.apache.spark.sql.kafka010.{KafkaWriter,KafkaWriteTask,KafkaStreamingWrite}.
"""

from collections.abc import Iterator
from random import Random

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pykraft.spark.plainly import plainly
from pykraft.spark.writing.encode import RowEncoder
from pykraft.spark.writing.exactly_once import ExactlyOnceCommit, stage
from pykraft.spark.writing.sink_options import WriteOptions
from pykraft.spark.writing.sink_producer import SinkProducer
from pykraft.spark.writing.sink_rows import RowReader
from pykraft.spark.writing.staging import StagedBatch, discard


class Written(WriterCommitMessage):
    """A task's word that its records are acknowledged."""


class AtLeastOnceWriter:
    """What a batch query and a batch of a stream have in common: each task writes its rows, and says so."""

    def __init__(self, options: WriteOptions, rows: RowReader) -> None:
        self._options = options
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In an executor: the rows of one task."""
        with plainly():
            write_at_least_once(self._options, self._rows, iterator)
        return Written()


class BatchWriter(AtLeastOnceWriter, DataSourceArrowWriter):
    """Writes what a batch query finds, at least once."""


class StreamWriter(AtLeastOnceWriter, DataSourceStreamArrowWriter):
    """Writes the batches of a stream, at least once."""


class ExactlyOnceWriter(DataSourceStreamArrowWriter):
    """Writes each batch of a stream in one transaction. Spark makes one for the tasks of a batch, and another one in
    the driver for `commit` or `abort`."""

    def __init__(self, options: WriteOptions, rows: RowReader) -> None:
        self._options = options
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In an executor: stage the rows of one task."""
        with plainly():
            return stage(self._options, self._rows, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """In the driver, when all tasks have succeeded: write what they have staged."""
        with plainly():
            ExactlyOnceCommit(self._options, _staged(messages), batchId).run()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver, when a task has failed. Files that no message names go with the next batch that is written."""
        discard(_staged(messages))


def _staged(messages: list[WriterCommitMessage | None]) -> list[StagedBatch]:
    return [message for message in messages if isinstance(message, StagedBatch)]


def write_at_least_once(options: WriteOptions, rows: RowReader, batches: Iterator[pa.RecordBatch]) -> None:
    """Send these rows, and wait until all are acknowledged. A task without rows connects to nothing."""
    producer: SinkProducer | None = None
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if producer is None:
                producer = SinkProducer(options.producer)
                encoder = RowEncoder(options.producer, rows, producer.partitions_for, Random())
            for place, encoded in encoder.encode(batch):
                producer.send_encoded(place, encoded)
        if producer is not None:
            for place, encoded in encoder.finish():
                producer.send_encoded(place, encoded)
            producer.finish()
    except BaseException:
        if producer is not None:
            producer.close(timeout=0)  # what is still under way may be written: the task fails all the same
        raise
    if producer is not None:
        producer.close()
