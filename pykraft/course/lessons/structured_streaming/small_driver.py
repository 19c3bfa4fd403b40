"""A driver of a stream, as small as it can be: a process of its own, which a lesson kills at any step.

Spark's driver runs a stream in batches, and its source and sink are called in a fixed order
(org.apache.spark.sql.execution.streaming.MicroBatchExecution). This loop calls pykraft's own source and sink in that
order, without a JVM, and keeps the files of Spark's checkpoint:

    plan      where does the batch end? Written to ``offsets/N`` before anything is read
    task 1    the rows of partition 0 are read and handed to the sink
    task 2    those of partition 1
    sink      the sink commits the batch; one that writes at least once has nothing left to do
    note      ``commits/N`` is written: the batch is done

After each step the process prints it and waits for a line. Started again, it begins with the last batch whose
commit is missing. Run as ``python -m pykraft.course.lessons.structured_streaming.small_driver SERVERS FOLDER BOOL``.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadMaxRows

from pykraft.spark.source import PykraftDataSource, StreamReader
from pykraft.spark.writing.exactly_once import BATCH_ID, QUERY_ID, RUN_ID
from pykraft.spark.writing.sink import ExactlyOnceWriter, StreamWriter

SOURCE, SINK = "flights", "alerts"
STEPS = ("plan", "task 1", "task 2", "sink", "note")
BATCHES, RECORDS = 3, 8
"""How many batches there are, and how many records each of them has."""
_QUERY = "a-small-query"
_FILES = ("offsets", "commits")


class SmallDriver:
    """The loop. `pause` is called after each step with its batch and its name."""

    def __init__(self, servers: str, folder: Path, exactly_once: bool, pause: Callable[[int, str], None]) -> None:
        self._pause = pause
        self._folder = folder
        for name in _FILES:
            (folder / name).mkdir(parents=True, exist_ok=True)
        at = {"kafka.bootstrap.servers": servers}
        source = PykraftDataSource({**at, "subscribe": SOURCE, "startingOffsets": "earliest"})
        schema = source.schema()
        self._reader: StreamReader = source.streamReader(schema)
        self._value = schema.fieldNames().index("value")
        said = {**at, "topic": SINK, "exactlyOnce": str(exactly_once).lower(), "checkpointLocation": str(folder)}
        self._writer: StreamWriter | ExactlyOnceWriter = PykraftDataSource(said).streamWriter(
            type(schema)([schema["value"]]), False
        )

    def run(self) -> None:
        """All batches that are left."""
        for batch in range(self.first_batch, BATCHES):
            self._run_batch(batch)
        self._reader.stop()

    @property
    def first_batch(self) -> int:
        """The first one without a commit."""
        return sum(1 for _ in (self._folder / "commits").iterdir())

    def _run_batch(self, batch: int) -> None:
        start = self._planned(batch - 1) if batch else self._reader.initialOffset()
        end = self._planned(batch)
        if end is None:
            end = self._reader.latestOffset(start, ReadMaxRows(RECORDS))
            self._write("offsets", batch, json.dumps(end))
        self._pause(batch, "plan")
        messages: list[WriterCommitMessage | None] = []
        for number, partition in enumerate(self._reader.partitions(start, end), 1):
            messages.append(self._run_task(batch, partition))
            self._pause(batch, f"task {number}")
        if isinstance(self._writer, ExactlyOnceWriter):
            self._writer.commit(messages, batch)
        self._pause(batch, "sink")
        self._write("commits", batch, "{}")
        self._pause(batch, "note")

    def _run_task(self, batch: int, partition: InputPartition) -> WriterCommitMessage:
        """What an executor does; it learns of its query as Spark's tasks do."""
        context = TaskContext()
        context._localProperties = {QUERY_ID: _QUERY, BATCH_ID: str(batch), RUN_ID: _QUERY}
        TaskContext._taskContext = context
        rows = (self._only_values(each) for each in self._reader.read(partition))
        return self._writer.write(rows)

    def _only_values(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([rows.column(self._value)], names=["value"])

    def _planned(self, batch: int) -> Any:
        path = self._folder / "offsets" / str(batch)
        return json.loads(path.read_text().splitlines()[-1]) if path.exists() else None

    def _write(self, name: str, batch: int, text: str) -> None:
        """A file is there whole, or not at all."""
        path = self._folder / name / str(batch)
        new = path.with_suffix(".new")
        new.write_text(f"v1\n{text}")
        new.replace(path)


def main(servers: str, folder: str, exactly_once: str) -> None:
    def pause(batch: int, step: str) -> None:
        sys.stdout.write(f"{batch} {step}\n")
        sys.stdout.flush()
        sys.stdin.readline()

    SmallDriver(servers, Path(folder), exactly_once == "true", pause).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
