"""Logs for tests: batches, a clock and a background that tests drive by hand, and logs on a disk in memory.

The disk is the simulator's. It costs so little that a test may open a thousand logs, and it can be crashed.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from pykraft.common.errors import CorruptRecordError
from pykraft.common.settings.config import Config
from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.common.types import TopicPartition, Uuid
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.records.markers import Marker, end_transaction_marker
from pykraft.records.record import Header
from pykraft.runtime.clock import SystemClock
from pykraft.sim.world.disk import MemoryFile, MemoryFileSystem
from pykraft.storage.answers import Isolation
from pykraft.storage.disk.filesystem import FileSystem, OsFileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin
from pykraft.storage.upkeep.log_loader import LogLoader
from pykraft.storage.upkeep.log_manager import LogManager

T = TypeVar("T")

LOGS = "/logs"
PARTITION = TopicPartition("flights", 0)
DIRECTORY = f"{LOGS}/{PARTITION}"
TOPIC_ID = Uuid.parse("Zmxp" + "A" * 18)
NOW_MS = 1_700_000_000_000
NEVER_MS = 1 << 60


class ManualClock:
    """It is as late as the test says."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = self._begin_ms = now_ms
        self.now_us = 0
        """What the stopwatch shows beyond the milliseconds that have passed."""

    def set_by(self, by_ms: int) -> None:
        """The wall clock is set. The stopwatch goes on as before."""
        self.now_ms += by_ms
        self._begin_ms += by_ms

    def time_ms(self) -> int:
        return self.now_ms

    def elapsed_us(self) -> int:
        return self.now_us + (self.now_ms - self._begin_ms) * 1000


class CountedSlice:
    """A slice of time that is over when it was asked about often enough."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._left = length

    def begin(self) -> None:
        self._left = self.length

    def is_over(self) -> bool:
        self._left -= 1
        return self._left <= 0

    def is_long(self, steps: int) -> bool:
        return False


class Inline:
    """A background that does every job at once."""

    def submit(self, job: Callable[[], T], on_done: Callable[[T], None]) -> None:
        on_done(job())


class ByHand:
    """A background whose jobs, and whose results, wait until the test calls for them."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.results: list[Callable[[], None]] = []

    def submit(self, job: Callable[[], T], on_done: Callable[[T], None]) -> None:
        self.jobs.append((job, on_done))

    def run_job(self, number: int = 0) -> None:
        """Do one of the waiting jobs; its result waits in turn."""
        job, on_done = self.jobs.pop(number)
        result = job()
        self.results.append(lambda: on_done(result))

    def deliver(self, number: int = 0) -> None:
        """Bring one of the waiting results to the node's own thread."""
        self.results.pop(number)()

    def run(self) -> None:
        """Do all that waits, and what comes of it."""
        while self.jobs or self.results:
            while self.jobs:
                self.run_job()
            while self.results:
                self.deliver()


def no_log_can_be_synced(file: MemoryFile) -> None:
    """What the sync of a file is on a disk that cannot write the records that it has taken."""
    if file.path.endswith(".log"):
        raise OSError(errno.EIO, "input/output error", file.path)


def settings(**values: Any) -> Config:
    """A log's settings; names with underscores for dots."""
    return LOG_CONFIG.resolve().with_values(**values)


def tiny(segment_bytes: int = 400, **values: Any) -> Config:
    """Settings under which a few small batches make several segments with several index entries each."""
    return settings(internal_segment_bytes=segment_bytes, index_interval_bytes=100, **values)


def disk() -> MemoryFileSystem:
    """An empty disk with a synced folder for logs."""
    filesystem = MemoryFileSystem()
    filesystem.make_directory(LOGS)
    filesystem.sync_all()
    return filesystem


def loader(filesystem: FileSystem, config: Config | None = None, **fields: Any) -> LogLoader:
    return LogLoader(
        **{
            "filesystem": filesystem,
            "directory": DIRECTORY,
            "config": config or settings(),
            "clock": ManualClock(),
            "background": Inline(),
            "topic_partition": PARTITION,
            "topic_id": TOPIC_ID,
            "clean": False,
            **fields,
        }
    )


def open_log(filesystem: FileSystem | None = None, config: Config | None = None, **fields: Any) -> UnifiedLog:
    """A log on this disk, or on a fresh one; after a crash unless `clean`."""
    return loader(filesystem or disk(), config, **fields).load()


def durable_end(filesystem: MemoryFileSystem, directory: str = DIRECTORY) -> int:
    """The offset after the last batch that outlasts a loss of power with all before it: as the disk tells it, whatever
    the log believes. 0 if there is none."""
    names = filesystem.list(directory) if filesystem.exists(directory) else []
    end = 0
    with suppress(CorruptRecordError):
        for number, path in enumerate(sorted(f"{directory}/{name}" for name in names if name.endswith(".log"))):
            base_offset = int(path.removesuffix(".log")[-20:])
            if number and base_offset != end:
                break
            data, durable = filesystem.read(path), filesystem.durable_size(path)
            end = base_offset if durable else end
            for some in batches(memoryview(data)[:durable]):
                if not some.is_valid:
                    return end
                end = some.next_offset
            if durable < len(data):
                break
    return end


def open_directory(home: Path, config: Config, **fields: Any) -> LogManager:
    """The logs of a directory on this machine's disk, all with these settings, on the machine's clock; started."""
    manager = LogManager(
        filesystem=OsFileSystem(),
        directory=str(home),
        config_for=lambda topic: config,
        clock=SystemClock(),
        background=Inline(),
        random=Random(1),
        producer_id_expiration_ms=NEVER_MS,
        **fields,
    )
    manager.start()
    return manager


def started(filesystem: FileSystem, config: Config, **fields: Any) -> LogManager:
    """A log manager whose logs have these settings; started."""
    manager = LogManager(
        **{
            "filesystem": filesystem,
            "directory": LOGS,
            "config_for": lambda _: config,
            "clock": ManualClock(),
            "background": Inline(),
            "random": Random(1),
            "producer_id_expiration_ms": NEVER_MS,
            **fields,
        }
    )
    manager.start()
    return manager


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW_MS,
    size: int = 10,
    key: bytes | None = None,
    headers: Sequence[Header] = (),
    **fields: Any,
) -> RecordBatch:
    """A batch of `count` records with values of `size` bytes, one millisecond apart, as a producer sends it."""
    builder = RecordBatchBuilder(**fields)
    for number in range(count):
        builder.append(timestamp + number, key, (b"%d " % number * size)[:size], headers)
    return RecordBatch(memoryview(builder.build()))


def produced(
    producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = False, **fields: Any
) -> RecordBatch:
    """A batch of an idempotent producer."""
    return batch(
        count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        **fields,
    )


def marker(
    producer_id: int, committed: bool, *, epoch: int = 0, coordinator_epoch: int = 0, timestamp: int = NOW_MS
) -> RecordBatch:
    """The control batch that ends a transaction."""
    ending = Marker(committed, coordinator_epoch)
    return RecordBatch(memoryview(end_transaction_marker(producer_id, epoch, ending, timestamp)))


def at(offset: int, some: RecordBatch, leader_epoch: int = 0) -> RecordBatch:
    """The batch as it stands in a leader's log."""
    some.assign(offset, leader_epoch)
    return some


def fill(log: UnifiedLog, batch_count: int, *, leader_epoch: int = 0, **fields: Any) -> list[RecordBatch]:
    """Append so many batches as the leader; what was appended."""
    appended = []
    for number in range(batch_count):
        some = batch(**{"count": 1 + number % 3, "timestamp": NOW_MS + 10 * number, **fields})
        log.append_as_leader(some, leader_epoch)
        appended.append(some)
    return appended


def end_transaction(log: UnifiedLog, producer_id: int, committed: bool, leader_epoch: int = 0, **fields: Any) -> None:
    log.append_as_leader(marker(producer_id, committed, **fields), leader_epoch, AppendOrigin.COORDINATOR)


def copied(some: RecordBatch) -> RecordBatch:
    return RecordBatch(memoryview(bytearray(some.buffer)))


def bytes_of(region: Any) -> bytes:
    """The bytes that a read found."""
    return region if isinstance(region, bytes) else region.read(0, len(region)) if len(region) else b""


def read_batches(
    log: UnifiedLog, offset: int | None = None, isolation: Isolation = Isolation.LOG_END, max_bytes: int = 1 << 20
) -> list[RecordBatch]:
    """All batches from `offset` on that this isolation lets see, by as many reads as it takes."""
    position = log.log_start_offset if offset is None else offset
    found: list[RecordBatch] = []
    while position < log.log_end_offset:
        data = bytes_of(log.read(position, max_bytes, isolation, at_least_one=True).records)
        some = list(batches(memoryview(data)))
        if not some:
            break
        found += some
        position = some[-1].next_offset
    return found


def contents(log: UnifiedLog) -> bytes:
    """Every byte of every .log file."""
    return b"".join(bytes_of(segment.records.region(0, segment.size)) for segment in log.segments)


def codecs() -> list[Compression]:
    return list(Compression)
