"""Kafka's own dump tool reads what our cleaner wrote: batches with a delete horizon, batches that are a header alone,
transactions of which only the marker is left, segments that were put together. It finds no fault but the gaps that
compaction makes, and the records that our reader finds.
"""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

from pykraft.storage.filesystem import OsFileSystem
from pykraft.storage.log import UnifiedLog
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


def test_kafkas_tool_reads_a_compacted_log(tmp_path: pathlib.Path) -> None:
    log = compacted(tmp_path)
    found = all_batches(log)
    expected = [record.offset for each in found for record in each.records()]
    segments = [segment for segment in log.segments if segment.size]
    log.close()
    assert any(each.delete_horizon_ms is not None for each in found), "tombstones"
    assert any(not each.count for each in found), "headers alone"
    assert 2 <= len(segments) <= 10 and len(expected) < 40
    stems = [f"{tmp_path}/{PARTITION}/{segment.base_offset:020d}" for segment in segments]
    files = [stem + kind for stem in stems for kind in (".log", ".index", ".timeindex")]
    arguments = ("--files", ",".join(files), "--deep-iteration", "--print-data-log")
    done = subprocess.run(
        java_command(apache_kafka.VERSION, "kafka.tools.DumpLogSegments", *arguments),
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert [int(offset) for offset in re.findall(r"^\| offset: (\d+)", done.stdout, re.MULTILINE)] == expected
    horizons = re.findall(r"deleteHorizonMs: OptionalLong\[(\d+)\]", done.stdout)
    assert [int(each) for each in horizons] == [each.delete_horizon_ms for each in found if each.delete_horizon_ms]
    assert done.stdout.count("isvalid: true") == len(found)
    for complaint in ("isvalid: false", "Mismatches", "out of order"):
        assert complaint not in done.stdout + done.stderr, done.stdout[-3000:] + done.stderr[-1000:]
    # Of a header alone the tool knows no timestamp, where Kafka's broker, as ours, takes the one in the header.
    assert set(re.findall(r"Index timestamp: \d+, log timestamp: (.+)", done.stdout)) <= {"-1"}
