"""Kafka's own dump tool reads what our cleaner wrote: batches with a delete horizon, batches that are a header alone,
transactions of which only the marker is left, segments that were put together. It finds the records that our reader
finds, and complains of what Kafka's cleaner leaves as well, and of nothing else (`complaints_of_what_is_right`).
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
from itertools import pairwise

import pytest

from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.log_segment import LogSegment
from pykraft.storage.producer_state import AppendOrigin
from tests.harness import apache_kafka
from tests.harness.apache_kafka import java_command
from tests.harness.compaction import cleaner_of, compacting, records, shape_laws
from tests.harness.log_laws import all_batches
from tests.harness.storage import NOW_MS, PARTITION, ManualClock, marker, open_log


@pytest.fixture(autouse=True, scope="module")
def needs_java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


def compacted(folder: pathlib.Path) -> UnifiedLog:
    """A log in a real directory, cleaned twice, and closed."""
    filesystem, clock = OsFileSystem(), ManualClock()
    config = compacting(segment_bytes=700, delete_retention_ms=1000)
    directory = f"{folder}/{PARTITION}"
    log = open_log(filesystem, config, directory=directory, clock=clock)
    cleaner = cleaner_of(log, filesystem, clock, checkpoint_directory=str(folder))
    for turn in range(2):
        for number in range(30):
            value = None if number % 10 == 3 else f"value {turn} {number}"
            log.append_as_leader(records((f"key {number % 7 + 5 * turn}", value), timestamp=NOW_MS + number), 0)
        for producer, committed in ((7, True), (8, False)):
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": turn, "transactional": True}
            log.append_as_leader(records((f"of {producer}", "x"), timestamp=NOW_MS + 40, **fields), 0)
            ending = marker(producer, committed, timestamp=NOW_MS + 41)
            log.append_as_leader(ending, 0, AppendOrigin.COORDINATOR)
        log.roll(log.log_end_offset)
        log.update_high_watermark(log.log_end_offset)
        cleaner.clean()
        clock.now_ms += 500
    log.append_as_leader(records(("last", "x")), 0)
    shape_laws(log)
    return log


Complaints = dict[str, list[str]]
"""By the line that names the file, the lines below it, in order."""


def complaints_of_what_is_right(stem: str, segment: LogSegment) -> Complaints:
    """What the tool has to say of this segment, as it would of one that Kafka's cleaner wrote:

    * offsets follow each other with gaps: there were the records that are gone;
    * an entry of the time index has a timestamp, and its batch is a header alone: the tool takes the timestamps of
      records, and finds none (-1); Kafka's broker, as ours, takes the one in the header.
    """
    found = [batch for _, batch in segment.records.batches()]
    offsets = [record.offset for batch in found for record in batch.records()]
    gaps = [f"  {one} is followed by {other}" for one, other in pairwise(offsets) if other != one + 1]
    alone = {batch.last_offset for batch in found if not batch.count}
    entries = [segment.time_index[number] for number in range(len(segment.time_index))]
    unknown = [f"  Index timestamp: {each.timestamp}, log timestamp: -1" for each in entries if each.offset in alone]
    all_of_them = {
        f"Non-consecutive offsets in {stem}.log": gaps,
        f"Found timestamp mismatch in :{stem}.timeindex": unknown,
    }
    return {headline: sorted(lines) for headline, lines in all_of_them.items() if lines}


def complaints_in(output: str) -> Complaints:
    """What stands on standard error. The JVM's own word there, that it was given options, is none."""
    found: Complaints = {}
    headline = ""
    for line in output.splitlines():
        if line.startswith("  "):
            found[headline].append(line)
        elif "JAVA_TOOL_OPTIONS" not in line:
            headline = line
            found[headline] = []
    return {headline: sorted(lines) for headline, lines in found.items()}


def test_kafkas_tool_reads_a_compacted_log(tmp_path: pathlib.Path) -> None:
    log = compacted(tmp_path)
    found = all_batches(log)
    expected = [record.offset for each in found for record in each.records()]
    segments = [segment for segment in log.segments if segment.size]
    stems = [f"{tmp_path}/{PARTITION}/{segment.base_offset:020d}" for segment in segments]
    tolerated: Complaints = {}
    for stem, segment in zip(stems, segments, strict=True):
        tolerated |= complaints_of_what_is_right(stem, segment)
    assert {headline.partition(" in ")[0] for headline in tolerated} == {
        "Non-consecutive offsets",
        "Found timestamp mismatch",
    }
    log.close()
    assert any(each.delete_horizon_ms is not None for each in found), "tombstones"
    assert any(not each.count for each in found), "headers alone"
    assert 2 <= len(segments) <= 10 and len(expected) < 40
    files = [stem + kind for stem in stems for kind in (".log", ".index", ".timeindex")]
    arguments = ("--files", ",".join(files), "--deep-iteration", "--print-data-log")
    done = subprocess.run(
        java_command(apache_kafka.VERSION, "kafka.tools.DumpLogSegments", *arguments),
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert [int(offset) for offset in re.findall(r"^\| offset: (\d+)", done.stdout, re.MULTILINE)] == expected
    horizons = re.findall(r"deleteHorizonMs: OptionalLong\[(\d+)\]", done.stdout)
    assert [int(each) for each in horizons] == [each.delete_horizon_ms for each in found if each.delete_horizon_ms]
    assert done.stdout.count("isvalid: true") == len(found)
    assert "isvalid: false" not in done.stdout
    assert complaints_in(done.stderr) == tolerated
