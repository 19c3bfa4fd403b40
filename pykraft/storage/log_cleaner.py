"""Which log is compacted next, and the passes of the cleaner.

Every log whose ``cleanup.policy`` has ``compact`` has a mark, the first dirty offset: up to there it was compacted. The
marks are written to ``cleaner-offset-checkpoint``. Above it lies what may be cleaned, up to the first of these:

* the active segment;
* the last stable offset: nothing that may be lost or aborted yet decides over older records;
* the first segment with a record younger than ``min.compaction.lag.ms``.

The log with the largest share of dirty bytes comes first, if that is above ``min.cleanable.dirty.ratio``; one with a
record that waits longer than ``max.compaction.lag.ms`` comes at any share.

A pass (`cleaner.Cleaning`) runs in the background, a piece at a time. Its results come back to the node's own thread,
which swaps the files of one group of segments before the next group is begun. One pass runs at a time, and nothing else
removes segments of its log meanwhile. A pass whose log was truncated or closed is dropped; one that cannot read its log
ends with the log set aside, as *uncleanable*, until the next start.

Follows org.apache.kafka.storage.internals.log.{LogCleaner,LogCleanerManager}.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from pykraft.common.background import Background
from pykraft.common.core import Clock
from pykraft.common.errors import CorruptRecordError
from pykraft.common.topic_config import (
    CLEANUP_POLICY,
    MAX_COMPACTION_LAG_MS,
    MIN_CLEANABLE_DIRTY_RATIO,
    MIN_COMPACTION_LAG_MS,
)
from pykraft.common.types import TopicPartition
from pykraft.storage.checkpoint import CLEANER_CHECKPOINT, read_offsets, write_offsets
from pykraft.storage.cleaner import Cleaning, Step
from pykraft.storage.filesystem import FileSystem
from pykraft.storage.log import UnifiedLog

DEDUPE_BUFFER_BYTES = 128 << 20


class Candidate(NamedTuple):
    """A log that may be cleaned from its first dirty offset up to `end_offset`, where a segment begins."""

    log: UnifiedLog
    first_dirty_offset: int
    end_offset: int
    dirty_ratio: float
    is_due: bool
    """Whether it is dirty enough, or waits too long."""


def is_compacted(log: UnifiedLog) -> bool:
    return "compact" in log.config[CLEANUP_POLICY]


class LogCleaner:
    """Compacts the logs of a log manager."""

    def __init__(
        self,
        *,
        filesystem: FileSystem,
        directory: str,
        logs: Mapping[TopicPartition, UnifiedLog],
        clock: Clock,
        background: Background,
        buffer_bytes: int = DEDUPE_BUFFER_BYTES,
    ) -> None:
        """`logs` are the manager's own, as they come and go; a pass may use `buffer_bytes` for the keys."""
        self._filesystem = filesystem
        self._checkpoint = f"{directory}/{CLEANER_CHECKPOINT}"
        self._logs = logs
        self._clock = clock
        self._background = background
        self._buffer_bytes = buffer_bytes
        self.first_dirty: dict[TopicPartition, int] = {}
        """Up to where each log is clean."""
        self.uncleanable: dict[TopicPartition, str] = {}
        """Logs that could not be cleaned, and why."""
        self.current: Cleaning | None = None

    def start(self) -> None:
        """Read the marks. Those of logs that are gone, or that lost their end, are not believed."""
        written = read_offsets(self._filesystem, self._checkpoint)
        known = {key: offset for key, offset in written.items() if key in self._logs}
        self.first_dirty = {key: min(offset, self._logs[key].log_end_offset) for key, offset in known.items()}
        if self.first_dirty != written:
            self._write()

    # --- choosing -----------------------------------------------------------------------------------------------------

    def candidate(self, log: UnifiedLog, now_ms: int) -> Candidate:
        """What of the log may be cleaned."""
        first_dirty = max(self.first_dirty.get(log.topic_partition, 0), log.log_start_offset)
        end = self._first_uncleanable(log, first_dirty, now_ms)
        sizes = [(segment.base_offset, segment.size) for segment in log.segments]
        ends = [base for base, _ in sizes[1:]]
        dirty = [size for (base, size), after in zip(sizes, ends, strict=False) if after > first_dirty and base < end]
        clean = sum(size for (_, size), after in zip(sizes, ends, strict=False) if after <= first_dirty)
        ratio = sum(dirty) / (clean + sum(dirty)) if dirty else 0.0
        is_late = bool(dirty) and self._waits_too_long(log, first_dirty, end, now_ms)
        is_due = is_late or ratio > log.config[MIN_CLEANABLE_DIRTY_RATIO]
        return Candidate(log, first_dirty, end, ratio, is_due and end > first_dirty)

    def _first_uncleanable(self, log: UnifiedLog, first_dirty: int, now_ms: int) -> int:
        """The base offset of the first segment that must stay as it is."""
        limit = log.last_stable_offset
        lag_ms = log.config[MIN_COMPACTION_LAG_MS]
        for segment, following in pairwise(log.segments):
            is_young = lag_ms > 0 and segment.youngest_ms() > now_ms - lag_ms
            if following.base_offset > limit or (is_young and following.base_offset > first_dirty):
                return segment.base_offset
        return log.active_segment.base_offset

    def _waits_too_long(self, log: UnifiedLog, first_dirty: int, end: int, now_ms: int) -> bool:
        lag_ms = log.config[MAX_COMPACTION_LAG_MS]
        waiting = [
            segment.first_timestamp()
            for segment, following in pairwise(log.segments)
            if following.base_offset > first_dirty and segment.base_offset < end
        ]
        return any(0 <= timestamp < now_ms - lag_ms for timestamp in waiting)

    def _filthiest(self) -> Candidate | None:
        now_ms = self._clock.time_ms()
        found = [
            self.candidate(log, now_ms)
            for key, log in self._logs.items()
            if is_compacted(log) and key not in self.uncleanable
        ]
        return max((each for each in found if each.is_due), key=lambda each: each.dirty_ratio, default=None)

    # --- cleaning -----------------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Clean every log that is due, one after the other, unless that is being done."""
        if self.current is not None:
            return
        chosen = self._filthiest()
        if chosen is not None:
            now_ms = self._clock.time_ms()
            self.current = Cleaning.of(
                self._filesystem, chosen.log, chosen.first_dirty_offset, chosen.end_offset, now_ms, self._buffer_bytes
            )
            self._go_on(self.current)

    def is_busy_with(self, log: UnifiedLog) -> bool:
        """Whether the log is being cleaned: its segments must stay."""
        return self.current is not None and self.current.log is log

    def _go_on(self, cleaning: Cleaning) -> None:
        def job() -> Step | CorruptRecordError:
            try:
                return cleaning.step()
            except CorruptRecordError as error:
                return error

        self._background.submit(job, lambda done: self._on_step(cleaning, done))

    def _on_step(self, cleaning: Cleaning, done: Step | CorruptRecordError) -> None:
        """A piece of work is done; back on the node's own thread."""
        log = cleaning.log
        if isinstance(done, CorruptRecordError):
            self.uncleanable[log.topic_partition] = str(done)
        elif done is Step.OVERTAKEN or cleaning.is_overtaken:
            cleaning.take_back()
        elif done is not Step.DONE:
            if done is Step.CLEANED:
                cleaning.take_into_log()
            self._go_on(cleaning)
            return
        else:
            self.first_dirty[log.topic_partition] = cleaning.end_offset
            self._write()
        self.current = None
        self.clean()

    # --- marks --------------------------------------------------------------------------------------------------------

    def on_cut(self, log: UnifiedLog) -> None:
        """The log was truncated: what comes there now is dirty."""
        if self.first_dirty.get(log.topic_partition, 0) > log.log_end_offset:
            self.first_dirty[log.topic_partition] = log.log_end_offset
            self._write()

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is deleted."""
        self.uncleanable.pop(topic_partition, None)
        if self.first_dirty.pop(topic_partition, None) is not None:
            self._write()

    def _write(self) -> None:
        write_offsets(self._filesystem, self._checkpoint, self.first_dirty)
