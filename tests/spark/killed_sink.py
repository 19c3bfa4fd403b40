"""The sink with places in it where a process waits to be killed: ``format("pykraft_killed")``.

`Points` is a directory that the processes of a query share with the test. The test arms one point; the first process
that comes to it says so, and waits until the test has killed something, which may be that process.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from pykraft.spark.source import PykraftDataSource
from pykraft.spark.writing.exactly_once import ExactlyOnceCommit
from pykraft.spark.writing.sink import ExactlyOnceWriter
from pykraft.spark.writing.sink_options import WriteOptions, write_options
from pykraft.spark.writing.sink_rows import RowReader
from tests.harness.waiting import wait_until

OPTION = "pointsDirectory"
COMMIT_STEPS = ("fence", "begin", "mark", "marker", "is_written", "send", "commit", "clean_up")
STEPS = ("stage", *COMMIT_STEPS, "done")
"""`stage` is in a task, when it has staged its rows; the others are in the driver. At `done` Spark's turn comes."""
WAIT_S = 120.0


class Points:
    """Where processes stop; at most one point is armed at a time."""

    def __init__(self, directory: str) -> None:
        self._directory = pathlib.Path(directory)

    def arm(self, step: str) -> None:
        """Let the next process that comes to this step wait there."""
        for left in self._directory.iterdir():
            left.unlink()
        (self._directory / step).touch()

    @property
    def reached_by(self) -> int | None:
        """The process that waits at the armed point, if one has come to it."""
        found = list(self._directory.glob("reached.*"))
        return int(found[0].suffix[1:]) if found else None

    def go_on(self) -> None:
        (self._directory / "go").touch()

    def come_to(self, step: str) -> None:
        """In a process of the query."""
        with suppress(FileNotFoundError):
            (self._directory / step).rename(self._directory / f"reached.{os.getpid()}")
            wait_until((self._directory / "go").exists, "the test has killed something", WAIT_S)


class KilledCommit(ExactlyOnceCommit):
    """One batch, with a point before each step."""

    def __init__(self, points: Points, *arguments: Any) -> None:
        super().__init__(*arguments)
        for step in COMMIT_STEPS:
            setattr(self, step, self._with_point(points, step))

    def _with_point(self, points: Points, step: str) -> Any:
        then = getattr(self, step)

        def both(*arguments: Any) -> Any:
            points.come_to(step)
            return then(*arguments)

        return both


class KilledWriter(ExactlyOnceWriter):
    """A writer of such batches."""

    def __init__(self, points: Points, options: WriteOptions, rows: RowReader) -> None:
        super().__init__(options, rows)
        self._points = points

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        found = super().write(iterator)
        self._points.come_to("stage")
        return found

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        KilledCommit(self._points, self._options, messages, batchId).run()
        self._points.come_to("done")


class KilledDataSource(PykraftDataSource):
    """Writes only."""

    @classmethod
    def name(cls) -> str:
        return "pykraft_killed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KilledWriter:  # noqa: N802
        said = {name: value for name, value in self.options.items() if name.lower() != OPTION.lower()}
        options = write_options(said)
        return KilledWriter(Points(self.options[OPTION]), options, RowReader(schema, options.topic))
