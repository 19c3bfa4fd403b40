"""A lever of notebook 07: logs of many segments, and fewer descriptors than a guide asks for.

Apache Kafka's documentation (*Operations*, *Hardware and OS*) wants for each segment a descriptor: at least partitions,
times the size of a partition, divided by the size of a segment. At each move such logs are written, of pykraft's own
(`UnifiedLog`) and on the reader's disk. Then they are read twice with as many descriptors as the reader chooses, and
twice with one for each file: once at random places, as by consumers of old records, and once at their ends.

What is counted is the same on each machine, or nearly: reads that fail, and reads that first have to open their file.
What they cost is measured in pairs (`Experiment`), in time of the processor, so other programs hardly change it. All
files are in the page cache; what it costs to open one over a network is not measured.
"""

import tempfile
import time
from contextlib import closing
from pathlib import Path
from random import Random
from typing import NamedTuple

from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.common.types import TopicPartition
from pykraft.course.experiment import FEWEST_PAIRS, UNDECIDED, Experiment, Outcome
from pykraft.course.kernel import folder_for_measurements
from pykraft.course.lesson import FAILS, HOLDS
from pykraft.course.lessons.one_request.stages import few_descriptors
from pykraft.course.rigs.memory_log import empty_log
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.storage.answers import Isolation
from pykraft.storage.disk.filesystem import OsFile, OsFileSystem
from pykraft.storage.disk.open_files import OPEN_FILES
from pykraft.storage.log_segment import LogSegment
from pykraft.storage.producer_state import AppendOrigin
from pykraft.viz import Figure, verdicts

OLD, AT_THE_END = "old records", "the newest records"
READS = 100
_KB = 1 << 10
_BATCH_BYTES = 4 * _KB
_ENOUGH = 1 << 16


class Served(NamedTuple):
    """How some logs were read with few descriptors."""

    segments: int
    most_open: int
    """At most this many of them had a descriptor at a time."""
    opened: dict[str, int]
    """Of `READS` reads, how many had to open their file first: by what was read."""
    failed: int
    outcomes: dict[str, Outcome]

    @property
    def is_enough(self) -> bool:
        """Whether there were as many as the formula wants."""
        return self.most_open >= self.segments

    @property
    def verdict(self) -> str:
        """Of the sentence that a broker needs at least one descriptor for each segment."""
        if self.failed:
            return HOLDS
        return UNDECIDED if self.is_enough else FAILS


def draw_descriptors(partitions: int, partition_kb: int, segment_kb: int, descriptors: int) -> Figure:
    """Whether fewer descriptors than segments are enough, and what they cost."""
    found = served(partitions, partition_kb, segment_kb, descriptors)
    if found.is_enough:
        title = f"{descriptors} descriptors, and no more segments than that ({found.segments}): nothing is saved"
    else:
        sentence = f"'at least one for each' {found.verdict}" + " here" * (found.verdict == FAILS)
        title = f"{descriptors} descriptors serve {found.segments} segments: {sentence}"
    opened = " and ".join(f"{found.opened[what]} of {what}" for what in (OLD, AT_THE_END))
    note = f"{found.failed} reads fail. Of {READS} reads of each kind {opened} first open their file."
    rows = {f"Keep all open to read {what}": outcome.finding for what, outcome in found.outcomes.items()}
    return verdicts(rows, title=title, note=note)


def served(partitions: int, partition_kb: int, segment_kb: int, descriptors: int, seed: int = 0) -> Served:
    """Write the logs, and read them with this many descriptors and with one for each file."""
    with (
        tempfile.TemporaryDirectory(prefix="segments-", dir=folder_for_measurements()) as folder,
        closing(_Shelf(Path(folder), partitions, partition_kb, segment_kb)) as shelf,
    ):
        few = f"{descriptors} descriptors"
        limits = {few: descriptors, "one each": _ENOUGH}
        outcomes = {}
        for what in (OLD, AT_THE_END):
            plan = _plan(what, descriptors)

            def measure(arm: str, what: str = what) -> float:
                return shelf.read(what, limits[arm], counts=arm == few)

            outcomes[what] = plan.run(measure, seed)
        return Served(len(shelf.segments), shelf.most_open, shelf.opened, shelf.failed, outcomes)


def _plan(what: str, descriptors: int) -> Experiment:
    return Experiment(
        claim=f"A read of {what} takes at least 2 times as long with {descriptors} descriptors as with one each.",
        compared=(f"{descriptors} descriptors", "one each"),
        holds_if="at least 2 times",
        prediction=1.2,
        because="to open a file costs microseconds, and a read has a lookup, a header and the bytes to do besides",
        unit="µs a read",
        pairs=FEWEST_PAIRS,
    )


class _Shelf:
    """Some logs on the reader's disk, and how they are read; until `close`."""

    def __init__(self, folder: Path, partitions: int, partition_kb: int, segment_kb: int) -> None:
        config = LOG_CONFIG.resolve().with_values(segment_bytes=segment_kb * _KB, retention_ms=-1, retention_bytes=-1)
        self._random = Random(partitions)
        self._logs = [
            empty_log(TopicPartition("shelf", number), config, OsFileSystem(), str(folder))
            for number in range(partitions)
        ]
        batch = _batch()
        for log in self._logs:
            for _ in range(max(1, partition_kb * _KB // _BATCH_BYTES)):
                log.append_as_leader(RecordBatch(memoryview(bytearray(batch))), 0, AppendOrigin.CLIENT)
            log.update_high_watermark(log.log_end_offset)
        self._log_of = {segment: log for log in self._logs for segment in log.segments}
        self.segments = list(self._log_of)
        self.opened = dict.fromkeys((OLD, AT_THE_END), 0)
        self.most_open = self.failed = 0

    def read(self, what: str, limit: int, counts: bool) -> float:
        """Read `READS` batches with this many descriptors: microseconds of the processor for a read, its system calls
        included. A first round is not timed: it opens what will stay open."""
        with few_descriptors(limit):
            for segment in self.segments:
                OPEN_FILES.close(_file(segment))
            self._read_all([*self.segments, *self._places(what)])
            places = self._places(what)
            began = time.thread_time()
            opened = self._read_all(places)
            seconds = time.thread_time() - began
            if counts:
                self.opened[what] = opened
                self.most_open = max(self.most_open, sum(_file(segment).held is not None for segment in self.segments))
        return seconds * 1e6 / READS

    def _places(self, what: str) -> list[LogSegment]:
        """Which segments are read, in this order."""
        if what == AT_THE_END:
            return [log.active_segment for log in (self._logs * READS)[:READS]]
        return self._random.choices(self.segments, k=READS)

    def _read_all(self, places: list[LogSegment]) -> int:
        """Read the first batch of each segment; how many of them had to be opened."""
        opened = 0
        for segment in places:
            opened += _file(segment).held is None
            try:
                found = self._log_of[segment].read(
                    segment.base_offset, _BATCH_BYTES, Isolation.HIGH_WATERMARK, at_least_one=True
                )
                records = found.records
                is_read = len(records if isinstance(records, bytes) else records.read(0, len(records))) > 0
            except OSError:
                is_read = False
            self.failed += not is_read
        return opened

    def close(self) -> None:
        for log in self._logs:
            log.close()


def _file(segment: LogSegment) -> OsFile:
    file = segment.records._file
    assert isinstance(file, OsFile)
    return file


def _batch() -> bytes:
    builder = RecordBatchBuilder()
    builder.append(0, None, bytes(_BATCH_BYTES - 80))
    return bytes(builder.build())
