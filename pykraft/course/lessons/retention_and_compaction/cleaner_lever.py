"""The first picture of notebook 20: a compacted log that grows, and the cleaner that waits until it is dirty enough.

At each move a log of pykraft's own (`UnifiedLog`) is written on a disk in memory: 600 batches of ten records, whose
keys come again and again. After each batch its cleaner (`LogCleaner`) looks, as a broker's thread does. It makes a pass
when the dirty part is more than ``min.cleanable.dirty.ratio`` of what it may clean.
"""

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import NamedTuple, TypeVar

from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.common.types import TopicPartition
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.runtime.clock import SystemClock
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin
from pykraft.storage.upkeep.log_cleaner import LogCleaner
from pykraft.storage.upkeep.log_loader import LogLoader
from pykraft.viz import Figure, lines

BATCHES, RECORDS, VALUE_BYTES = 600, 10, 90
SEGMENT_BYTES = 24 << 10
_SEED = 20
_KEY = TopicPartition("states", 0)
_T = TypeVar("_T")


class Course(NamedTuple):
    """What became of the log while it was written."""

    sizes: list[tuple[float, float]]
    """KB written, and KB of the log then."""
    passes: int
    copied_bytes: int
    """What the passes wrote again."""


def draw_cleaner(dirty_ratio_percent: int, keys: int) -> Figure:
    """The log's size while it is written."""
    course = cleaned_log(dirty_ratio_percent / 100, keys)
    largest = max(size for _, size in course.sizes)
    written = course.sizes[-1][0]
    times = "once" if course.passes == 1 else f"{course.passes} times"
    copied_kb = course.copied_bytes / 1000
    title = f"The cleaner runs {times} and copies {copied_kb:,.0f} KB; the log has {largest:,.0f} KB at most"
    ratio = f"min.cleanable.dirty.ratio={dirty_ratio_percent / 100:g}, 0.5 by default"
    note = f"{written:,.0f} KB written, {keys:,} keys; {ratio}"
    return lines({"the log": course.sizes}, x_unit="KB written", y_unit="KB", title=title, note=note)


def cleaned_log(dirty_ratio: float, keys: int) -> Course:
    """Write all batches; the cleaner looks after each."""
    disk, clock = MemoryFileSystem(), SystemClock()
    config = LOG_CONFIG.resolve().with_values(
        segment_bytes=SEGMENT_BYTES, cleanup_policy=("compact",), min_cleanable_dirty_ratio=dirty_ratio, retention_ms=-1
    )
    log = LogLoader(
        filesystem=disk, directory="/states-0", config=config, clock=clock, background=_AtOnce(),
        topic_partition=_KEY, topic_id=None, clean=True,
    ).load()  # fmt: skip
    cleaner = LogCleaner(filesystem=disk, directory="/", logs={_KEY: log}, clock=clock, background=_AtOnce())
    chance, written, sizes = Random(_SEED), 0, [(0.0, 0.0)]
    passes = copied_bytes = 0
    for _ in range(BATCHES):
        batch = _batch(chance, keys)
        log.append_as_leader(RecordBatch(memoryview(batch)), 0, AppendOrigin.CLIENT)
        log.update_high_watermark(log.log_end_offset)
        written += len(batch)
        before, last = log_bytes(log), cleaner.last
        cleaner.clean()
        if cleaner.last is not last and cleaner.last is not None:
            passes, copied_bytes = passes + 1, copied_bytes + cleaner.last.written_bytes
            sizes.append(((written - 1) / 1000, before / 1000))  # a byte before: a curve has one point at each place
        sizes.append((written / 1000, log_bytes(log) / 1000))
    return Course(_corners(sizes), passes, copied_bytes)


def log_bytes(log: UnifiedLog) -> int:
    return sum(segment.size for segment in log.segments)


def _batch(chance: Random, keys: int) -> bytearray:
    builder = RecordBatchBuilder()
    for _ in range(RECORDS):
        builder.append(0, b"%06d" % chance.randrange(keys), bytes(VALUE_BYTES))
    return bytearray(builder.build())


def _corners(sizes: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points at which the line turns: between them it is straight."""
    turns = [
        here
        for (before, here), (_, after) in pairwise(list(pairwise(sizes)))
        if (here[1] > before[1]) != (after[1] > here[1])
    ]
    return [sizes[0], *turns, sizes[-1]]


class _AtOnce:
    """A background that does each job at once: this log has no thread to be kept from anything."""

    def submit(self, job: Callable[[], _T], on_done: Callable[[_T], None]) -> None:
        on_done(job())
