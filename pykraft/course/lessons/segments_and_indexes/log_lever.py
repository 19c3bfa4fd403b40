"""The first picture of notebook 02: a log whose segments, index and retention follow from its settings.

At each move a log of pykraft's own (`UnifiedLog`) is written on a disk in memory: `BATCHES` batches of 1,000 records,
16 KB each. It rolls its segments, fills its indexes, and deletes its oldest segments as a broker's log does. Then one
offset is looked up in it. How many reads that takes is not said: the notebook asks for it.
"""

from functools import lru_cache

from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.common.types import TopicPartition
from pykraft.course.rigs.memory_log import empty_log
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.runtime.clock import SystemClock
from pykraft.storage.log import UnifiedLog
from pykraft.storage.log_segment import LogSegment
from pykraft.storage.producer_state import AppendOrigin
from pykraft.storage.upkeep.retention import delete_old_segments
from pykraft.viz import Figure
from pykraft.viz.logs.lookup_chart import Batch, Segment, lookup_chart

BATCHES, RECORDS = 600, 1_000
"""So many batches, and so many records in each."""
LAST_OFFSET = BATCHES * RECORDS - 1
_VALUE = b"1234567"
_MB, _KB = 1 << 20, 1 << 10


def draw_log(offset: int, segment_mb: int, index_interval_kb: int, retention_mb: int) -> Figure:
    """The log with these settings, and the way to one offset in it."""
    log, deleted = written_log(segment_mb, index_interval_kb, retention_mb)
    segments = [Segment(each.base_offset, each.size) for each in log.segments]
    if offset < log.log_start_offset:
        title = f"Offset {offset:,} is deleted: the log begins at {log.log_start_offset:,}"
        return lookup_chart(segments, [], [], offset, deleted=deleted, title=title)
    segment = next(each for each in reversed(log.segments) if each.base_offset <= offset)
    batches, entries = batches_of(segment), entries_of(segment)
    title = f"Offset {offset:,} is in segment {segment.base_offset:,}, which has {len(batches)} batches"
    note = f"Its index has {_counted(entries)}. Of {len(segments) + len(deleted)} segments {len(deleted)} are deleted."
    return lookup_chart(segments, batches, entries, offset, deleted=deleted, title=title, note=note)


def written_log(segment_mb: int, index_interval_kb: int, retention_mb: int) -> tuple[UnifiedLog, list[Segment]]:
    """A log with all batches and these settings, and the segments that it has deleted."""
    config = LOG_CONFIG.resolve().with_values(
        segment_bytes=segment_mb * _MB,
        index_interval_bytes=index_interval_kb * _KB,
        retention_bytes=retention_mb * _MB,
        retention_ms=-1,
    )
    log = empty_log(TopicPartition("ticks", 0), config)
    for _ in range(BATCHES):
        log.append_as_leader(RecordBatch(memoryview(bytearray(_batch()))), 0, AppendOrigin.CLIENT)
    log.update_high_watermark(log.log_end_offset)
    before = [Segment(each.base_offset, each.size) for each in log.segments]
    return log, before[: delete_old_segments(log, SystemClock().time_ms())]


def batches_of(segment: LogSegment) -> list[Batch]:
    return [
        Batch(at.header.base_offset, at.header.last_offset, at.position, at.header.size)
        for at in segment.records.headers()
    ]


def entries_of(segment: LogSegment) -> list[tuple[int, int]]:
    """The index: the last offset of a batch, and where it begins."""
    index = segment.offset_index
    return [(index[number].offset, index[number].position) for number in range(len(index))]


def _counted(entries: list[tuple[int, int]]) -> str:
    return "1 entry" if len(entries) == 1 else f"{len(entries)} entries"


@lru_cache(maxsize=1)
def _batch() -> bytes:
    builder = RecordBatchBuilder()
    for number in range(RECORDS):
        builder.append(number, None, _VALUE)
    return bytes(builder.build())
