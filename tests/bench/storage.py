"""The storage engine by itself: appending, looking up, recovering and compacting, beside what the file system can do.

Everything here runs in this process, on files that are in the page cache: what is measured is the code. The peer of
each row does the same with the same bytes and no thought: it writes them, reads them, copies them.

The rows of `many_partitions` are of whole nodes.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from random import Random
from typing import TypeVar

from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.common.types import TopicPartition
from pykraft.records.batch import HEADER_BYTES, RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.overview import look_over
from pykraft.storage.answers import Isolation
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.storage.index import OffsetIndex, TimeIndex
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.cleaner import Cleaning, Step
from pykraft.storage.upkeep.log_cleaner import DEDUPE_BUFFER_BYTES
from pykraft.storage.upkeep.log_loader import LogLoader
from tests.bench.rows import Row, beside, progress

ROUNDS = 5
TURNS = 11
"""Of what takes a tenth of a second."""
T = TypeVar("T")

APPEND_BYTES = 16 << 10
APPENDED_BYTES = 128 << 20
SEGMENTS = 1000
LOOKUPS = 2000
RECOVERED_BYTES = 256 << 20
RECORD_BYTES = 1 << 10
CLEANED_BYTES = 64 << 20
RECORDS_PER_BATCH = 16
KEYS_PER_LOG = 4
PRODUCER_ID = 7

RAW_WRITE = "raw write of the same bytes"
RAW_READ = "raw read of the same bytes"
RAW_COPY = "raw copy of the same bytes"
NOW_MS = 1_700_000_000_000
_UNPLACED = bytes(8)
"""The base offset of a batch that is on its way."""


class Inline:
    """A background that does every job at once."""

    def submit(self, job: Callable[[], T], on_done: Callable[[T], None]) -> None:
        on_done(job())


class Clock:
    def time_ms(self) -> int:
        return NOW_MS

    def elapsed_us(self) -> int:
        return 0


def measure() -> list[Row]:
    return [*append(), append_of_a_follower(), *lookup(), recovery(), *cleaner()]


@contextmanager
def folder() -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory(prefix="pykraft-bench-") as name:
        yield pathlib.Path(name)


def open_log(directory: pathlib.Path, *, clean: bool = True, **settings: object) -> UnifiedLog:
    texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
    return LogLoader(
        filesystem=OsFileSystem(),
        directory=str(directory / "flights-0"),
        config=LOG_CONFIG.resolve(texts),
        clock=Clock(),
        background=Inline(),
        topic_partition=TopicPartition("flights", 0),
        topic_id=None,
        clean=clean,
    ).load()


def batch_of(size: int, count: int, key: Callable[[], bytes] | None = None, sequence: int | None = None) -> bytearray:
    """A batch of about `size` bytes with `count` records; with a sequence number it is an idempotent producer's."""
    builder = RecordBatchBuilder()
    if sequence is not None:
        builder = RecordBatchBuilder(producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence)
    value = bytes(max(0, size // count - 20))
    for _ in range(count):
        builder.append(NOW_MS, key() if key else None, value)
    return builder.build()


def append_again(log: UnifiedLog, data: bytearray) -> None:
    """Append the batch as a producer sends it: without its place in the log, which it may have from the last time."""
    data[: len(_UNPLACED)] = _UNPLACED
    log.append_as_leader(RecordBatch(memoryview(data)), 0)


def append() -> list[Row]:
    """`append_as_leader` of 16 KB batches, checks and indexes included, and no sync; as of a broker's log. Beside it
    what is left if Python does the least that a leader has to."""
    sent = batches_in_memory()

    def unplaced() -> None:
        """As producers send them: without the place in a log that they have from the last time."""
        for data in sent:
            data[: len(_UNPLACED)] = _UNPLACED

    def ours(directory: pathlib.Path, sent: Sequence[memoryview]) -> None:
        log = open_log(directory)
        for data in sent:
            log.append_as_leader(RecordBatch(data), 0)
        log.abandon()

    mine, bare, raw = in_turn((ours, with_least_effort, written_raw), sent, before_each=unplaced)
    return [
        beside("Log.append of 16 KB batches", "MB/s", mine, RAW_WRITE, raw, ratio_at_least=0.5),
        beside("the least that a leader does, in one loop", "MB/s", bare, RAW_WRITE, raw),
        append_of_one_batch(),
    ]


def append_of_one_batch() -> Row:
    """The same with one batch again and again. It never leaves the processor's cache, as no log's batches would; that
    makes a raw write quicker, and Python no slower."""
    data = batch_of(APPEND_BYTES, RECORDS_PER_BATCH)

    def ours(directory: pathlib.Path, sent: Sequence[memoryview]) -> None:
        log = open_log(directory)
        for _ in sent:
            append_again(log, data)
        log.abandon()

    mine, raw = in_turn((ours, written_raw), [memoryview(data)] * (APPENDED_BYTES // len(data)))
    return beside("Log.append of one batch again and again", "MB/s", mine, RAW_WRITE, raw)


def append_of_a_follower() -> Row:
    """`append_as_follower` of the same batches, as a fetch brings them: as many as fit into a megabyte at a time."""
    sent = batches_in_memory()
    per_fetch = (1 << 20) // APPEND_BYTES
    for number, data in enumerate(sent):
        RecordBatch(data).assign(number * RECORDS_PER_BATCH, leader_epoch=0)
    fetched = [memoryview(b"".join(sent[first : first + per_fetch])) for first in range(0, len(sent), per_fetch)]

    def ours(directory: pathlib.Path, _: object) -> None:
        log = open_log(directory)
        for piece in fetched:
            log.append_as_follower(piece)
        log.abandon()

    mine, raw = in_turn((ours, written_raw), sent)
    return beside("Log.append of fetched 16 KB batches", "MB/s", mine, RAW_WRITE, raw, ratio_at_least=0.5)


def batches_in_memory() -> list[memoryview]:
    """The batches to be written, each in its own place, as what comes from the network is. (One that is written again
    and again never leaves the processor's cache.)"""
    data = batch_of(APPEND_BYTES, RECORDS_PER_BATCH)
    whole = memoryview(data * (APPENDED_BYTES // len(data)))
    return [whole[at : at + len(data)] for at in range(0, len(whole), len(data))]


def written_raw(directory: pathlib.Path, sent: Sequence[memoryview]) -> None:
    """What the operating system asks for it."""
    with raw_file(directory) as number:
        for data in sent:
            os.write(number, data)


def with_least_effort(directory: pathlib.Path, sent: Sequence[memoryview]) -> None:
    """Check each batch as the log does, record by record, give it its offset, write it, make its entries for the
    indexes. For nothing else is there a name, a call or an object: not for what rolls a segment, knows a producer or an
    epoch, or survives a full disk."""
    end_offset = size = 0
    entries, times = bytearray(), bytearray()
    with raw_file(directory) as number:
        for data in sent:
            batch = RecordBatch(data)
            assert batch.is_valid
            look_over((data[HEADER_BYTES:],), batch.count, is_stream=False)
            batch.assign(end_offset, 0)
            assert os.write(number, data) == len(data)
            end_offset += batch.count
            entries += OffsetIndex.entry.pack(end_offset - 1, size)
            times += TimeIndex.entry.pack(batch.max_timestamp, end_offset - 1)
            size += len(data)


@contextmanager
def raw_file(directory: pathlib.Path) -> Iterator[int]:
    """The descriptor of a new file that is written at its end."""
    number = os.open(directory / "file", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        yield number
    finally:
        os.close(number)


def in_turn(
    works: Sequence[Callable[[pathlib.Path, Sequence[memoryview]], object]],
    sent: Sequence[memoryview],
    before_each: Callable[[], None] = lambda: None,
) -> list[list[float]]:
    """MB/s of each, every time in a folder of its own, by turns; the first turn of each does not count."""
    size = sum(map(len, sent))
    speeds: list[list[float]] = [[] for _ in works]
    for _ in range(TURNS + 1):
        for work, found in zip(works, speeds, strict=True):
            before_each()
            with folder() as directory:
                began = time.perf_counter()
                work(directory, sent)
                found.append(size / (time.perf_counter() - began) / 1e6)
    return [found[1:] for found in speeds]


def lookup() -> list[Row]:
    """Where a random offset lies in a log of 1,000 segments: what a fetch asks first. Most readers find the indexes in
    memory. In a log that was just opened none is: there each segment is asked once, in any order, and its index and the
    place in its log are read from files that are opened for it."""
    random = Random(1)
    cold = []
    with folder() as directory:
        data = batch_of(4 << 10, 4)
        log = open_log(directory, internal_segment_bytes=64 << 10)
        while len(log.segments) < SEGMENTS:
            append_again(log, data)
        log.update_high_watermark(log.log_end_offset)
        end = log.log_end_offset
        warm = [median_us(log, [random.randrange(end) for _ in range(LOOKUPS)]) for _ in range(ROUNDS + 1)]
        log.close()
        for _ in range(ROUNDS + 1):
            log = open_log(directory, internal_segment_bytes=64 << 10)
            log.update_high_watermark(end)
            begins = [segment.base_offset for segment in log.segments]
            each_once = [random.randrange(*ends) for ends in pairwise([*begins, end])]
            random.shuffle(each_once)
            cold.append(median_us(log, each_once))
            log.abandon()
    name = f"a look-up in a log of {SEGMENTS:,} segments"
    return [
        beside(name, "us", warm[1:], "", (), at_most=50),
        beside(f"{name}, the first in each since it was opened", "us", cold[1:], "", ()),
    ]


def median_us(log: UnifiedLog, offsets: Sequence[int]) -> float:
    """Microseconds of a look-up: the median over these offsets."""
    times = []
    for offset in offsets:
        began = time.perf_counter()
        log.read(offset, 1 << 20, Isolation.HIGH_WATERMARK, at_least_one=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def recovery() -> Row:
    """Reading a log of an idempotent producer through after a crash: checksums checked, indexes and the producer's
    state rebuilt."""
    speeds: tuple[list[float], list[float]] = ([], [])
    with folder() as directory:
        log = open_log(directory)
        while log.size < RECOVERED_BYTES:
            append_again(log, batch_of(64 << 10, 64, sequence=log.log_end_offset))
        log.flush()
        log.abandon()
        path = directory / "flights-0" / f"{0:020d}.log"
        for _ in range(ROUNDS + 1):
            began = time.perf_counter()
            again = open_log(directory, clean=False)
            speeds[0].append(again.size / (time.perf_counter() - began) / 1e6)
            assert again.producer_state.producers[PRODUCER_ID].last_offset == again.log_end_offset - 1
            again.abandon()
            began = time.perf_counter()
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass
            speeds[1].append(path.stat().st_size / (time.perf_counter() - began) / 1e6)
    mine, raw = speeds[0][1:], speeds[1][1:]
    return beside("recovery of a log, checked whole", "MB/s", mine, RAW_READ, raw, at_least=1000)


def cleaner() -> list[Row]:
    """One pass over a log of 1 KB records: where each key comes four times, and where each comes once."""
    rows = []
    for name, distinct in (("every key four times", 0.25), ("no key twice", 1.0)):
        mine, raw = [], []
        for _ in range(ROUNDS):
            with folder() as directory:
                mine.append(clean(directory, distinct))
            with folder() as directory:
                raw.append(copied(directory))
        progress(f"cleaner, {name}: {', '.join(f'{speed:.0f}' for speed in mine)} MB/s")
        rows.append(beside(f"cleaner at 1 KB records, {name}", "MB/s", mine, RAW_COPY, raw, at_least=100))
    return rows


def clean(directory: pathlib.Path, distinct: float) -> float:
    """MB/s of a pass: bytes of the log, by the seconds from the first look at it to the last swap."""
    random = Random(1)
    records = CLEANED_BYTES // RECORD_BYTES
    keys = max(1, int(records * distinct))
    order = [number % keys for number in range(records)]
    random.shuffle(order)
    left = iter(order)
    log = open_log(directory, cleanup_policy="compact", segment_bytes=16 << 20)
    while log.log_end_offset < records:
        data = batch_of(RECORD_BYTES * RECORDS_PER_BATCH, RECORDS_PER_BATCH, lambda: b"key-%012d" % next(left))
        append_again(log, data)
    log.roll(log.log_end_offset)
    log.update_high_watermark(log.log_end_offset)
    size = log.size
    began = time.perf_counter()
    cleaning = Cleaning.of(
        OsFileSystem(),
        log,
        first_dirty_offset=0,
        end_offset=log.log_end_offset,
        now_ms=NOW_MS,
        buffer_bytes=DEDUPE_BUFFER_BYTES,
    )
    while (step := cleaning.step()) is not Step.DONE:
        assert step is not Step.OVERTAKEN
        if step is Step.CLEANED:
            cleaning.take_into_log()
    seconds = time.perf_counter() - began
    assert log.size < size or distinct == 1
    log.abandon()
    return size / seconds / 1e6


def copied(directory: pathlib.Path) -> float:
    """MB/s of copying a file of the same size, synced at the end as the cleaner does."""
    source, target = directory / "a", directory / "b"
    source.write_bytes(os.urandom(1 << 20) * (CLEANED_BYTES >> 20))
    began = time.perf_counter()
    with source.open("rb", buffering=0) as file, target.open("wb", buffering=0) as copy:
        shutil.copyfileobj(file, copy, 1 << 20)
        os.fdatasync(copy.fileno())
    return CLEANED_BYTES / (time.perf_counter() - began) / 1e6
