"""Reads what Kafka's own dump tool printed of the golden files: the expected reading of each batch, record and entry.

A dump is a list of sections. `Dumping PATH` begins one; then a `.log` or snapshot of the metadata has a line for each
batch (`baseOffset: 0 lastOffset: 19 ...`) and under it one for each record (`| offset: 0 CreateTime: ...`); the other
files have a line for each entry. A line is a row of `name: value`.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.harness.tree import ROOT

GOLDEN = ROOT / "tests" / "golden"
DATA = GOLDEN / "kafka-4.2.0-rc1-data"
NODE1 = GOLDEN / "kraft3" / "node1__cluster_metadata-0"
LOG_START = GOLDEN / "log-start" / "__cluster_metadata-0"
DUMPS = (
    "dump-golden.txt",
    "dump-coordinators.txt",
    "dump-cluster-metadata.txt",
    "kraft3/dump.txt",
    "log-start/dump.txt",
)

Row = dict[str, str]
_PAIR = re.compile(r"(\w+): (\S+)")
_RECORD = re.compile(r"\| (?P<fields>offset: .*?) headerKeys: \[(?P<headers>.*?)\] ?(?P<content>.*)")


@dataclass
class DumpedRecord:
    """A record as the tool read it; `content` is what it printed of key and value."""

    fields: Row
    header_keys: list[str]
    content: str


@dataclass
class DumpedBatch:
    fields: Row
    records: list[DumpedRecord] = field(default_factory=list)


@dataclass
class Section:
    """One dumped file: batches with records, or plain entries."""

    path: pathlib.Path
    batches: list[DumpedBatch] = field(default_factory=list)
    entries: list[Row] = field(default_factory=list)


def sections() -> Iterator[Section]:
    """Every dumped file of the golden logs that have all their records: each is one segment, from offset 0 on."""
    for dump in DUMPS[:-1]:
        yield from read(home_of(dump), (GOLDEN / dump).read_text())


def home_of(dump: str) -> pathlib.Path:
    """The folder that the paths in this dump begin at."""
    return GOLDEN if "/" in dump else DATA


def read(home: pathlib.Path, text: str) -> Iterator[Section]:
    current: Section | None = None
    for line in text.split("\n"):
        if line.startswith("Dumping "):
            if current is not None:
                yield current
            current = Section(home / line.removeprefix("Dumping "))
        elif current is not None:
            read_line(current, line)
    assert current is not None
    yield current


def read_line(section: Section, line: str) -> None:
    record = _RECORD.fullmatch(line)
    if record is not None:
        headers = [name for name in record["headers"].split(",") if name]
        section.batches[-1].records.append(DumpedRecord(row(record["fields"]), headers, record["content"]))
    elif line.startswith("baseOffset: "):
        section.batches.append(DumpedBatch(row(line)))
    elif line and line.split(":")[0] in ("offset", "timestamp", "version", "producerId"):
        section.entries.append(row(line))
    else:
        titles = ("Log starting offset", "Snapshot end offset", "KRaft bootstrap snapshot")
        assert not line or line.startswith(titles) or line.endswith(" is empty."), f"what is {line!r}?"


def row(line: str) -> Row:
    return dict(_PAIR.findall(line))
