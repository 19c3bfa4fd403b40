"""Which segments have had their time.

A log is shortened from its beginning, by whole segments, for one of three reasons:

* *start*: everything in the segment is below the log start offset, which DeleteRecords raised;
* *size*: without the segment the log is still as large as ``retention.bytes``;
* *time*: the youngest record in it is older than ``retention.ms``.

Size and time hold for logs whose ``cleanup.policy`` has ``delete``. A segment goes only if all of it is below the high
watermark, so the log never begins past what readers may see. The active segment may go, too: a new, empty one takes its
place first.

Follows org.apache.kafka.storage.internals.log.UnifiedLog.deleteOldSegments.
"""

from pykraft.common.settings.topic_config import CLEANUP_POLICY, RETENTION_BYTES, RETENTION_MS
from pykraft.storage.log import UnifiedLog


def count_deletable(log: UnifiedLog, now_ms: int) -> int:
    """How many of the oldest segments are to be deleted."""
    may_delete = "delete" in log.config[CLEANUP_POLICY]
    retention_ms = log.config[RETENTION_MS] if may_delete else -1
    retention_bytes = log.config[RETENTION_BYTES] if may_delete else -1
    excess = log.size - retention_bytes if retention_bytes >= 0 else -1
    segments = log.segments
    for number, segment in enumerate(segments):
        is_active = number + 1 == len(segments)
        end_offset = log.log_end_offset if is_active else segments[number + 1].base_offset
        is_before_start = not is_active and end_offset <= log.log_start_offset
        is_excess = excess >= segment.size
        is_old = retention_ms >= 0 and now_ms - segment.youngest_ms() > retention_ms
        is_kept = not (is_before_start or is_excess or is_old) or (is_active and not segment.size)
        if is_kept or end_offset > log.high_watermark:
            return number
        excess -= segment.size
    return len(segments)


def delete_old_segments(log: UnifiedLog, now_ms: int) -> int:
    """Delete them; how many there were."""
    count = count_deletable(log, now_ms)
    if count:
        log.delete_segments(count)
    return count
