"""Section 3 of notebook 24: Spark's driver is killed between the sink's last write and Spark's note of it.

::

    died = write_up_to(flights, servers, "alerts", checkpoint, batch=1)    batch 1 is in the topic, and not noted
    kill_driver(spark)                                                     the JVM gets SIGKILL
    notes(checkpoint)                                                      {"offsets": [0, 1], "commits": [0]}

The driver of a notebook's session is its JVM, a child process of the kernel. To kill it at this moment, it must stay
there for a moment: `StoppingWriter` is pykraft's sink, which says when a batch is written, and then keeps Spark
waiting. All else is Spark's own: what is in the checkpoint afterwards, a dead process has left there.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from pykraft.course.lessons.structured_streaming.flight_stream import alerts
from pykraft.spark.source import PykraftDataSource
from pykraft.spark.writing.sink import ExactlyOnceWriter, StreamWriter

FORMAT = "pykraft_stopping"
_AFTER, _FILE = "stopsAfter", "stopsFile"
_PATIENCE_S, _LOOK_S = 120, 0.02


class StoppingWriter(DataSourceStreamArrowWriter):
    """pykraft's sink. When it has written one batch it makes a file, and keeps the driver here until that is killed."""

    def __init__(self, sink: StreamWriter | ExactlyOnceWriter, batch: int, file: str) -> None:
        self._sink, self._batch, self._file = sink, batch, file

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        self._sink.commit(messages, batchId)
        if batchId == self._batch:
            Path(self._file).touch()
            Event().wait(_PATIENCE_S)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._sink.abort(messages, batchId)


class StoppingDataSource(PykraftDataSource):
    """The source of this sink."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> StoppingWriter:  # type: ignore[override]  # noqa: N802
        own = {_AFTER.lower(), _FILE.lower()}
        said = {name: value for name, value in self.options.items() if name.lower() not in own}
        sink = PykraftDataSource(said).streamWriter(schema, overwrite)
        return StoppingWriter(sink, int(self.options[_AFTER]), self.options[_FILE])


def write_up_to(
    flights: DataFrame, servers: str, topic: str, checkpoint: str, *, batch: int, **options: str
) -> StreamingQuery:
    """Write alerts until this batch is in the topic, and Spark has not noted it. The query stays there. `options` are
    the sink's."""
    spark, written = flights.sparkSession, Path(f"{checkpoint}.written")
    spark.dataSource.register(StoppingDataSource)
    said = {"kafka.bootstrap.servers": servers, "topic": topic, "checkpointLocation": checkpoint, **options}
    said |= {_AFTER: str(batch), _FILE: str(written)}
    query = alerts(flights).writeStream.format(FORMAT).options(**said).trigger(availableNow=True).start()
    deadline = time.monotonic() + _PATIENCE_S
    while not written.exists():
        if not query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"batch {batch} is not written: {query.exception() or 'the query has ended'}")
        time.sleep(_LOOK_S)
    return query


def kill_driver(spark: SparkSession) -> int:
    """SIGKILL to the JVM of this session, and to its workers. The JVM's exit status."""
    assert spark.sparkContext._jvm is not None
    jvm = psutil.Process(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    workers = jvm.children(recursive=True)
    server = spark.sparkContext._accumulatorServer
    assert server is not None
    # Its connection breaks off, and it would print that.
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    os.kill(jvm.pid, signal.SIGKILL)
    status = jvm.wait(_PATIENCE_S)
    for worker in workers:
        if worker.is_running():
            worker.kill()
    psutil.wait_procs(workers, _PATIENCE_S)
    return int(status)


def notes(checkpoint: str) -> dict[str, list[int]]:
    """The batches that the checkpoint has planned, and those that it has noted as done."""
    folders = {name: Path(checkpoint, name) for name in ("offsets", "commits")}
    return {
        name: sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
        for name, folder in folders.items()
    }
