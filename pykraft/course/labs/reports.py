"""A report as a lab's result: what was claimed, what was measured, what came out, in a form that can be checked.

Some questions have no program as their answer, but an experiment. Its report is a Markdown file with the marks of tasks
in it (`task_cells`). Three things in it can be read by a program:

    - Claim: one sentence ...              a *field*, one item of a list; it may go on in indented lines
    ```csv                                 the *raw numbers*, one line for each run, under a line with the columns
    | order | median MB/s | ...            a *table*, which tells what follows from the raw numbers

Whatever still says FILL IN is not written yet: to ask for it raises NotImplementedError, with the task's name. What is
checked is form and arithmetic: that a prediction was there before the numbers, that the runs were made as designed,
that the summary is what the raw numbers give. Whether the question was worth asking, only a reader can say.

`RawNumbers` writes such lines down while an experiment runs, with the kernel's counters beside each.
"""

import csv
import io
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from pykraft.course import kernel
from pykraft.course.labs.task_cells import TaskError, body_of

UNWRITTEN = "FILL IN"
COUNTED = ("bytes", "seconds", "read_bytes")
"""Columns that each run measures; `read_bytes` is the kernel's."""
FIXED = ("at", "cache", *COUNTED)
"""All columns that each report has. The others are the experiment's own."""
CACHES = ("cold", "warm", "written")
"""What a run read: from a device, from memory; or whether it wrote."""


class Report:
    """A report's text, in pieces. Whatever is asked for and not there is an AssertionError in words."""

    def __init__(self, text: str) -> None:
        self.text = text

    def fields(self, task: str, name: str) -> list[str]:
        """All items ``- name: ...`` of a task."""
        body = self._body(task)
        found = re.findall(rf"^- {re.escape(name)}: *(.*(?:\n  +\S.*)*)", body, re.MULTILINE)
        assert found, f"task {task} has no line '- {name}: ...': put it back as it is in starter.md"
        return [self._written(" ".join(value.split()), task, name) for value in found]

    def field(self, task: str, name: str) -> str:
        """The one item ``- name: ...`` of a task."""
        found = self.fields(task, name)
        assert len(found) == 1, f"task {task} has {len(found)} lines '- {name}: ...', and needs one"
        return found[0]

    def rows(self, task: str) -> list[dict[str, str]]:
        """The raw numbers: one dict for each run, by column."""
        block = re.search(r"^```csv\n(.*?)^```", self._body(task), re.MULTILINE | re.DOTALL)
        assert block is not None, f"task {task} has no block of raw numbers: it begins with ```csv and ends with ```"
        lines = self._written(block[1], task, "the raw numbers").strip().splitlines()
        found = list(csv.DictReader(lines))
        assert all(None not in row and None not in row.values() for row in found), (
            "a line of the raw numbers has more or fewer columns than the first line tells"
        )
        return found

    def table(self, task: str) -> list[dict[str, str]]:
        """The table of a task: one dict for each row, by the words above."""
        lines = [line.strip().strip("|").split("|") for line in self._body(task).splitlines() if line.startswith("|")]
        assert len(lines) > 2, f"task {task} has no table"
        header, _, *rows = [[self._written(cell.strip(), task, "the table") for cell in line] for line in lines]
        assert all(len(row) == len(header) for row in rows), "a row of the table has more or fewer cells than its head"
        return [dict(zip(header, row, strict=True)) for row in rows]

    def _body(self, task: str) -> str:
        try:
            return body_of(self.text, task)
        except TaskError as error:
            raise AssertionError(str(error)) from None

    def _written(self, value: str, task: str, what: str) -> str:
        if UNWRITTEN in value or not value.strip():
            raise NotImplementedError(f"Task {task}: {what} still says {UNWRITTEN}")
        return value


def read_report(path: Path) -> Report:
    """The report in a file. OSError or UnicodeDecodeError if there is none."""
    return Report(path.read_text(encoding="utf-8"))


# --- while the experiment runs ----------------------------------------------------------------------------------------


class Run:
    """One run; say how many `bytes` it moved."""

    bytes = 0


class RawNumbers:
    """Lines of raw numbers, written down as they come."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    @contextmanager
    def run(self, cache: str, **columns: object) -> Iterator[Run]:
        """Time a block and count its bytes; `columns` are the experiment's own, such as ``block_bytes=4096``, the same
        ones in each run. ValueError if they are not, before the block runs."""
        if cache not in CACHES:
            raise ValueError(f"cache={cache!r}: a run is {', '.join(CACHES)}")
        before = set(self.rows[0]) - set(FIXED) if self.rows else set(columns)
        if before != set(columns):
            raise ValueError(
                f"this run has the columns {sorted(columns)}, those before have {sorted(before)}: "
                "start again with raw = RawNumbers()"
            )
        run, at = Run(), datetime.now().isoformat(" ", "milliseconds")
        with kernel.counted() as moved:
            started = time.perf_counter()
            yield run
            seconds = time.perf_counter() - started
        counted = {"bytes": run.bytes, "seconds": f"{seconds:.6f}", "read_bytes": moved.get("read_bytes", 0)}
        self.rows.append({"at": at, "cache": cache, **columns, **counted})

    def csv(self) -> str:
        """All of them, under a line with the columns. ValueError before the first run."""
        if not self.rows:
            raise ValueError("nothing was measured yet")
        file = io.StringIO()
        writer = csv.DictWriter(file, list(self.rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return file.getvalue()

    def section(self) -> str:
        """As they stand in a report."""
        return f"## The raw numbers\n\n```csv\n{self.csv()}```"
