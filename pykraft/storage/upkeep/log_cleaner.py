"""Which log is compacted next, and the passes of the cleaner.

Every log whose ``cleanup.policy`` has ``compact`` has a mark, the first dirty offset: up to there it was compacted. The
marks are written to ``cleaner-offset-checkpoint``. Above it the log may be cleaned, up to the first of these:

* the active segment;
* the last stable offset: nothing that may be lost or aborted yet decides over older records;
* the first segment with a record younger than ``min.compaction.lag.ms``.

The log with the largest share of dirty bytes comes first, if that is above ``min.cleanable.dirty.ratio``; one with a
record that waits longer than ``max.compaction.lag.ms`` comes at any share.

A pass (`cleaner.Cleaning`) runs in the background, a piece at a time. Its results come back to the node's own thread,
which swaps the files of one group of segments before the next group is begun. One pass runs at a time, and nothing else
removes segments of its log meanwhile. A pass whose log was truncated or closed, or is to be compacted no more, is
dropped; one that cannot read its log ends with the log given up as *uncleanable*, until the next start.

With ``log.cleaner.io.max.bytes.per.second`` a pass rests between two pieces of work for as long as what it has read and
written should have taken; the pieces are made small enough for that.

Follows org.apache.kafka.storage.internals.log.{LogCleaner,LogCleanerManager}.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import NamedTuple

from pykraft.common.background import Background
from pykraft.common.core import Clock
from pykraft.common.errors import CorruptRecordError
from pykraft.common.metrics import LOG, Metrics
from pykraft.common.settings.topic_config import (
    CLEANUP_POLICY,
    MAX_COMPACTION_LAG_MS,
    MIN_CLEANABLE_DIRTY_RATIO,
    MIN_COMPACTION_LAG_MS,
)
from pykraft.common.types import TopicPartition
from pykraft.storage.disk.checkpoint import CLEANER_CHECKPOINT, read_offsets, write_offsets
from pykraft.storage.disk.filesystem import FileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.cleaner import PIECE_BYTES, Cleaning, Step

DEDUPE_BUFFER_BYTES = 128 << 20
_PIECES_PER_SECOND = 3
_MIN_PIECE_BYTES = 4096

After = Callable[[int, Callable[[], None]], object]
"""``after(delay_ms, action)``: do it later, on the node's own thread."""


def at_once(delay_ms: int, action: Callable[[], None]) -> None:
    """Never waits: no throttle is set."""
    action()


@dataclass(frozen=True, kw_only=True)
class CleanerLimits:
    """What a pass may use: memory for its keys, and the disk."""

    buffer_bytes: int = DEDUPE_BUFFER_BYTES
    io_bytes_per_second: float = inf

    @property
    def piece_bytes(self) -> int:
        """How much is read between two rests."""
        return int(max(_MIN_PIECE_BYTES, min(PIECE_BYTES, self.io_bytes_per_second / _PIECES_PER_SECOND)))


NO_LIMITS = CleanerLimits()


class Candidate(NamedTuple):
    """A log that may be cleaned from its first dirty offset up to `end_offset`, where a segment begins."""

    log: UnifiedLog
    first_dirty_offset: int
    end_offset: int
    dirty_ratio: float
    is_due: bool
    """Whether it is dirty enough, or waits too long."""


def is_compacted(log: UnifiedLog) -> bool:
    """Whether its topic's ``cleanup.policy`` has ``compact``, by now."""
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
        limits: CleanerLimits = NO_LIMITS,
        after: After = at_once,
    ) -> None:
        """`logs` are the manager's own, as they come and go."""
        self._filesystem = filesystem
        self._directory = directory
        self._checkpoint = f"{directory}/{CLEANER_CHECKPOINT}"
        self._logs = logs
        self._clock = clock
        self._background = background
        self.limits = limits
        self._after = after
        self._moved_bytes = 0
        self._step_began_us = 0
        self._looked_us = self._pass_began_us = clock.elapsed_us()
        self._last_pass_ms = 0
        self.last: Cleaning | None = None
        """The last pass that was finished."""
        self.on_uncleanable: Callable[[TopicPartition, str], None] = lambda key, reason: None
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
        clean = [segment for segment, after in pairwise(log.segments) if after.base_offset <= first_dirty]
        dirty = [segment for segment in log.segments[len(clean) :] if segment.base_offset < end]
        clean_bytes, dirty_bytes = (sum(segment.size for segment in part) for part in (clean, dirty))
        ratio = dirty_bytes / (clean_bytes + dirty_bytes) if dirty_bytes else 0.0
        lag_ms = log.config[MAX_COMPACTION_LAG_MS]
        is_late = any(0 <= segment.first_timestamp() < now_ms - lag_ms for segment in dirty)
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

    def _candidates(self) -> list[Candidate]:
        """All logs that may be cleaned. One that is too damaged to be judged is given up."""
        now_ms, found = self._clock.time_ms(), []
        for key, log in self._logs.items():
            if is_compacted(log) and not log.is_closed and key not in self.uncleanable:
                try:
                    found.append(self.candidate(log, now_ms))
                except CorruptRecordError as error:
                    self._give_up(key, error)
        return found

    def _give_up(self, key: TopicPartition, error: CorruptRecordError) -> None:
        self.uncleanable[key] = str(error)
        self.on_uncleanable(key, str(error))

    def _filthiest(self) -> Candidate | None:
        due = (each for each in self._candidates() if each.is_due)
        return max(due, key=lambda each: each.dirty_ratio, default=None)

    # --- cleaning -----------------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Clean every log that is due, one after the other, unless that is being done."""
        if self.current is not None:
            return
        self._looked_us, now_ms = self._clock.elapsed_us(), self._clock.time_ms()
        chosen = self._filthiest()
        if chosen is not None:
            self.current = Cleaning.of(
                self._filesystem,
                chosen.log,
                first_dirty_offset=chosen.first_dirty_offset,
                end_offset=chosen.end_offset,
                now_ms=now_ms,
                buffer_bytes=self.limits.buffer_bytes,
                piece_bytes=self.limits.piece_bytes,
            )
            self._moved_bytes, self._pass_began_us = 0, self._looked_us
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

        self._step_began_us = self._clock.elapsed_us()
        self._background.submit(job, lambda done: self._on_step(cleaning, done))

    def _on_step(self, cleaning: Cleaning, done: Step | CorruptRecordError) -> None:
        """A piece of work is done; back on the node's own thread."""
        log = cleaning.log
        if done is Step.OVERTAKEN or cleaning.is_overtaken or not is_compacted(log):  # its policy may have changed
            cleaning.take_back()
        elif isinstance(done, CorruptRecordError):
            self._give_up(log.topic_partition, done)
        elif done is not Step.DONE:
            if done is Step.CLEANED:
                cleaning.take_into_log()
            self._after(self._rest_ms(cleaning), lambda: self._go_on(cleaning))
            return
        else:
            self.first_dirty[log.topic_partition] = cleaning.end_offset
            self._write()
            self.last, self._last_pass_ms = cleaning, self._ms_since(self._pass_began_us)
        self.current = None
        self.clean()

    def _rest_ms(self, cleaning: Cleaning) -> int:
        """How much sooner the step was done than it may be."""
        moved_bytes = cleaning.read_bytes + cleaning.written_bytes
        due_ms = (moved_bytes - self._moved_bytes) * 1000 / self.limits.io_bytes_per_second
        self._moved_bytes = moved_bytes
        return max(0, int(due_ms) - self._ms_since(self._step_began_us))

    def _ms_since(self, time_us: int) -> int:
        """By the stopwatch: were the time of day set back by hours, the cleaner would rest as long."""
        return (self._clock.elapsed_us() - time_us) // 1000

    # --- figures ------------------------------------------------------------------------------------------------------

    def register_gauges(self, metrics: Metrics) -> None:
        """Let these figures be read, under Kafka's names."""
        kind, here = "LogCleanerManager", {"logDirectory": self._directory}
        metrics.gauge(kind, "uncleanable-partitions-count", lambda: len(self.uncleanable), LOG, **here)
        metrics.gauge(kind, "uncleanable-bytes", self._uncleanable_bytes, LOG, **here)
        register_gauges(metrics, [self])

    def _uncleanable_bytes(self) -> int:
        logs = [self._logs[key] for key in self.uncleanable if key in self._logs]
        return sum(self._dirty_bytes(log) for log in logs)

    def _dirty_bytes(self, log: UnifiedLog) -> int:
        """All of them, whether they may be cleaned by now or not."""
        first_dirty = self.first_dirty.get(log.topic_partition, 0)
        return sum(one.size for one, after in pairwise(log.segments) if after.base_offset > first_dirty)

    def _max_dirty_ratio(self) -> float:
        return max((candidate.dirty_ratio for candidate in self._candidates()), default=0.0)

    # --- marks --------------------------------------------------------------------------------------------------------

    def on_truncated(self, log: UnifiedLog) -> None:
        """The log was truncated: what comes there now is dirty."""
        if self.first_dirty.get(log.topic_partition, 0) > log.log_end_offset:
            self.first_dirty[log.topic_partition] = log.log_end_offset
            self._write()

    def forget(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """These logs are deleted."""
        before = len(self.first_dirty)
        for topic_partition in topic_partitions:
            self.uncleanable.pop(topic_partition, None)
            self.first_dirty.pop(topic_partition, None)
        if len(self.first_dirty) < before:
            self._write()

    def _write(self) -> None:
        write_offsets(self._filesystem, self._checkpoint, self.first_dirty)


def register_gauges(metrics: Metrics, cleaners: Sequence[LogCleaner]) -> None:
    """Let what holds for all cleaners of a broker be read, under Kafka's names: the largest figure of any."""

    def gauge(kind: str, name: str, figure: Callable[[LogCleaner], float]) -> None:
        metrics.gauge(kind, name, lambda: max(map(figure, cleaners), default=0), LOG)

    gauge("LogCleanerManager", "max-dirty-percent", lambda each: int(100 * each._max_dirty_ratio()))
    gauge("LogCleanerManager", "time-since-last-run-ms", lambda each: each._ms_since(each._looked_us))
    gauge("LogCleaner", "cleaner-recopy-percent", lambda each: _of(each.last, _recopied_percent))
    gauge("LogCleaner", "max-buffer-utilization-percent", lambda each: _of(each.last, _used_percent))
    gauge("LogCleaner", "max-clean-time-secs", lambda each: each._last_pass_ms / 1000)


def _of(cleaning: Cleaning | None, figure: Callable[[Cleaning], float]) -> float:
    return 0 if cleaning is None else figure(cleaning)


def _recopied_percent(cleaning: Cleaning) -> float:
    return 100 * cleaning.written_bytes / max(1, cleaning.read_bytes)


def _used_percent(cleaning: Cleaning) -> float:
    return 100 * cleaning.offsets.utilization
