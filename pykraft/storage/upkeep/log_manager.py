"""The partition logs below one log directory: one folder for each.

::

    log.dirs/
      .lock                              held while a node uses the directory
      .kafka_cleanshutdown               the last stop was orderly: nothing needs to be recovered
      meta.properties                    whose directory this is
      recovery-point-offset-checkpoint   up to where each log is synced
      replication-offset-checkpoint      the high watermark of each log
      log-start-offset-checkpoint        where logs begin whose first records were deleted
      flights-0/ flights-1/ ...          the logs
      cleaner-offset-checkpoint          up to where each compacted log is clean
      flights-2.0ad3...-delete/          a deleted log whose bytes are still there
      flights-3.97c1...-stray/           a log of no partition that is assigned here: its owner decides about it
      flights-4.11d8...-future/          a log that moves here from another directory (`future_logs`)

The checkpoints are written from time to time, and at once if they would claim too much: when a log was truncated below
what they say, or deleted. A recovery point that is too high makes the next start trust bytes that were never synced, a
high watermark that is too high shows readers what may yet be lost.

The clean-shutdown marker is removed as soon as the logs are open: if the node dies later, the next start finds none. It
holds the broker epoch of the node that wrote it, so that the controller can tell a node that lost its unsynced data
from one that did not (KIP-966).

From time to time old segments are deleted, logs compacted, and what was deleted for a while removed. A log that is
being compacted keeps its segments until that is done.

A log that the metadata do not know, or give to other brokers, is not deleted: it may be the metadata that are wrong. It
is set aside, and left alone from then on.

Folders that are no partition's, and unknown files, also in the folders of logs, are left alone and reported
(`unknown`). Kafka does not start where it finds such a folder, and says nothing of such files.

Follows org.apache.kafka.storage.internals.log.LogManager.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

from pykraft.common.background import Background
from pykraft.common.core import Clock, Steps, finish
from pykraft.common.metrics import Histogram, Metrics
from pykraft.common.settings.config import Config
from pykraft.common.settings.topic_config import FILE_DELETE_DELAY_MS, FLUSH_MS
from pykraft.common.types import TopicIdPartition, TopicPartition, Uuid
from pykraft.storage.disk.checkpoint import (
    BOOTSTRAP_CHECKPOINT,
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
    read_clean_shutdown,
    read_offsets,
    write_clean_shutdown,
    write_partition_metadata,
)
from pykraft.storage.disk.filesystem import TEMPORARY_SUFFIX, FileSystem, Lock, LockedError
from pykraft.storage.disk.flushes import flush_times
from pykraft.storage.disk.trash import Trash
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.future_logs import FutureLogs
from pykraft.storage.upkeep.log_cleaner import NO_LIMITS, After, CleanerLimits, LogCleaner, at_once, is_compacted
from pykraft.storage.upkeep.log_loader import LogLoader
from pykraft.storage.upkeep.retention import delete_old_segments

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
_LONGEST_NAME = 255
_LOOKED_AT_ONCE, _DELETED_AT_ONCE = 500, 20
_SYNCED_ONE_BY_ONE = 500
"""So many logs are synced one by one, after a crash and at a stop. To sync the whole disk costs less for more logs, but
then what others are writing has to be waited for, too."""
_KNOWN_FILES = frozenset(
    name + suffix
    for suffix in ("", TEMPORARY_SUFFIX)
    for name in (
        HIGH_WATERMARK_CHECKPOINT,
        RECOVERY_POINT_CHECKPOINT,
        LOG_START_CHECKPOINT,
        CLEANER_CHECKPOINT,
        META_PROPERTIES,
        CLEAN_SHUTDOWN,
        LOCK,
        BOOTSTRAP_CHECKPOINT,
    )
)
_APART = re.compile(rf".+-[0-9]+\.[0-9a-f]{{32}}({DELETE_SUFFIX}|{STRAY_SUFFIX})")


class DirectoryInUseError(Exception):
    """Another node uses the log directory."""


class LogDirectoryFailedError(OSError):
    """A directory cannot be read or written, and there is no other: the node stops."""


def lock_directory(filesystem: FileSystem, directory: str) -> Lock:
    """Take the directory for one node; DirectoryInUseError if another node has it."""
    filesystem.make_directory(directory)
    try:
        return filesystem.lock(f"{directory}/{LOCK}")
    except LockedError as error:
        raise DirectoryInUseError(
            f"the log directory {directory} is in use by {error}: stop that node first, or use another directory"
        ) from None


def parse_directory(name: str) -> TopicPartition | None:
    """The partition whose folder is called so; None if it is no partition's."""
    topic, dash, partition = name.rpartition("-")
    if not topic or not dash or not partition.isdecimal() or not partition.isascii():
        return None
    return TopicPartition(topic, int(partition))


def name_apart(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    """What the folder of a log is called that is not the partition's any more: of a long topic's name only the
    beginning is left, for no folder's name may be longer."""
    ending = f"-{topic_partition.partition}.{unique}{suffix}"
    return topic_partition.topic[: _LONGEST_NAME - len(ending)] + ending


class LogManager:
    """The logs below one directory, by partition."""

    def __init__(
        self,
        *,
        filesystem: FileSystem,
        directory: str,
        config_for: Callable[[str], Config],
        clock: Clock,
        background: Background,
        random: Random,
        producer_id_expiration_ms: int,
        not_mine: frozenset[str] = frozenset(),
        cleaner_limits: CleanerLimits = NO_LIMITS,
        after: After = at_once,
    ) -> None:
        """`config_for(topic)` gives a topic's settings; `not_mine` names folders that belong to others; the cleaner
        keeps to its limits, and rests by ``after(delay_ms, action)``."""
        self._filesystem = filesystem
        self.directory = directory
        self._config_for = config_for
        self._clock = clock
        self._background = background
        self._random = random
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._not_mine = not_mine
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.trash = Trash(filesystem, clock, background)
        self.cleaner = LogCleaner(
            filesystem=filesystem,
            directory=directory,
            logs=self.logs,
            clock=clock,
            background=background,
            limits=cleaner_limits,
            after=after,
        )
        self.previous_broker_epoch = -1
        """The broker epoch of the last orderly stop; -1 after a crash."""
        names = (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT)
        self._checkpoints = [OffsetCheckpoint(filesystem, f"{directory}/{name}") for name in names]
        self._high_watermarks, self._recovery_points, self._log_starts = self._checkpoints
        self._had_clean_shutdown = False
        self._syncs_at_once = False
        self._to_shorten: list[TopicPartition] = []
        """The logs that retention has still to look at, the next one last."""
        self.lost_bytes: dict[TopicPartition, int] = {}
        """How much a crash, or damage, had taken from logs: of those that lost something."""
        self.unknown: list[str] = []
        """What was found in the directory, or in the folder of a log, and does not belong there."""
        self.futures = FutureLogs(directory, self._open_future)
        """Logs that move here from other directories."""
        self._flush_times: Histogram | None = None
        self.on_truncated: Callable[[UnifiedLog], None] = lambda log: None
        """Hears of a log that was truncated, before anything is appended again."""
        self.failure: OSError | None = None
        """What the disk answered when it failed; from then on nothing is asked of it."""

    def register_metrics(self, metrics: Metrics) -> None:
        """Let these figures be read, under Kafka's names. Before the logs are opened."""
        self.cleaner.register_gauges(metrics)
        self._flush_times = flush_times(metrics)

    def fail(self, error: OSError) -> None:
        """The disk has failed: the directory is offline."""
        self.failure = self.failure or error

    def start(self) -> None:
        """Open every log that is there."""
        clean_epoch = read_clean_shutdown(self._filesystem, self.directory)
        self._had_clean_shutdown = clean_epoch is not None
        self.previous_broker_epoch = -1 if clean_epoch is None else clean_epoch
        for checkpoint in self._checkpoints:
            checkpoint.read()
        # What is clean was synced before it came into the log: it need not be recovered. (And Kafka's cleaner leaves
        # gaps in it, which look as if a segment had lost its end.)
        first_dirty = read_offsets(self._filesystem, f"{self.directory}/{CLEANER_CHECKPOINT}")
        names = self._filesystem.list(self.directory)
        self._syncs_at_once = not self._had_clean_shutdown and len(names) > _SYNCED_ONE_BY_ONE
        for name in names:
            topic_partition = parse_directory(name)
            if apart := _APART.fullmatch(name):
                if apart[1] == DELETE_SUFFIX:
                    self.trash.add([f"{self.directory}/{name}"], delay_ms=0)
            elif topic_partition is None:
                if name not in _KNOWN_FILES and not self.futures.find(name):
                    self.unknown.append(name)
            elif name not in self._not_mine:
                try:
                    self._open(topic_partition, first_dirty.get(topic_partition, 0))
                except NotADirectoryError:
                    self.unknown.append(name)
        if self._syncs_at_once:
            self._filesystem.sync_everything(self.directory)
        known = {key for checkpoint in self._checkpoints for key in checkpoint.offsets}
        if self._claims_too_much(known) or not self.logs.keys() <= self._recovery_points.offsets.keys():
            self.write_checkpoints()
        if self._had_clean_shutdown:
            self._filesystem.remove(f"{self.directory}/{CLEAN_SHUTDOWN}")
        # Also if no marker is there: the run before may have removed it and died before the disk knew.
        self._filesystem.sync_directory(self.directory)
        self.cleaner.start()
        self.trash.empty()

    def _open(self, topic_partition: TopicPartition, first_dirty_offset: int) -> None:
        log = self._load(
            topic_partition,
            None,
            log_start_offset=self._log_starts.offsets.get(topic_partition, 0),
            recovery_point=max(self._recovery_points.offsets.get(topic_partition, 0), first_dirty_offset),
            is_known=topic_partition in self._recovery_points.offsets,
            syncs=not self._syncs_at_once,
        )
        log.update_high_watermark(self._high_watermarks.offsets.get(topic_partition, log.log_start_offset))

    def get_or_create(self, topic_partition: TopicPartition, topic_id: Uuid) -> UnifiedLog:
        """The partition's log. A log of another incarnation of the topic is set aside first."""
        log = self.logs.get(topic_partition)
        if log is not None and log.topic_id is None:
            write_partition_metadata(self._filesystem, log.directory, topic_id)
            log.topic_id = topic_id
        elif log is not None and log.topic_id != topic_id:
            self.set_aside([topic_partition])
            log = None
        if log is None:
            self.create_all([TopicIdPartition(topic_id, *topic_partition)])
            log = self.logs[topic_partition]
        return log

    def create_all(self, keys: Sequence[TopicIdPartition]) -> None:
        """Make these logs, which are not there."""
        finish(self.create_in_steps(keys, is_wanted=lambda _: True))

    def create_in_steps(
        self, keys: Sequence[TopicIdPartition], is_wanted: Callable[[TopicIdPartition], bool]
    ) -> Steps[None]:
        """The same with a pause after each; one that is not wanted any more when its turn comes is left out. The folder
        above is synced once for all of them, and their marks are written down before anything is appended: a log that
        has none was put here by hand, and a gap in it is no loss (see `log_loader`)."""
        for key in keys:
            if is_wanted(key):
                self._load(key.topic_partition, key.topic_id, syncs=False)
                yield
        if keys:
            self._filesystem.sync_directory(self.directory)
            yield
            yield from self.checkpoint()

    # --- moves between directories ------------------------------------------------------------------------------------

    def create_future(self, topic_partition: TopicPartition, topic_id: Uuid) -> UnifiedLog:
        """Begin a log that moves here from another directory. TooLongError if its folder cannot be named."""
        return self.futures.create(topic_partition, topic_id, self._random.randbytes(16).hex())

    def discard_future(self, topic_partition: TopicPartition) -> None:
        """The log does not move here any more."""
        log = self.futures.logs.pop(topic_partition)
        log.abandon()
        unique = self._random.randbytes(16).hex()
        directory = f"{self.directory}/{name_apart(topic_partition, unique, DELETE_SUFFIX)}"
        self._filesystem.rename(log.directory, directory)
        self._filesystem.sync_directory(self.directory)
        self.trash.add([directory], delay_ms=0)

    def adopt_future(self, topic_partition: TopicPartition, high_watermark: int) -> UnifiedLog:
        """Make the future log the partition's log."""
        future = self.futures.logs[topic_partition]
        future.close()
        self._filesystem.rename(future.directory, f"{self.directory}/{topic_partition}")
        self._filesystem.sync_directory(self.directory)
        del self.futures.logs[topic_partition]
        log = self._load(
            topic_partition,
            None,
            log_start_offset=future.log_start_offset,
            recovery_point=future.log_end_offset,
            was_closed=True,
        )
        log.update_high_watermark(high_watermark)
        return log

    def let_go(self, topic_partition: TopicPartition) -> None:
        """The log is in another directory now. Those who read it finish: it is closed when its files are removed."""
        log = self.logs.pop(topic_partition)
        unique = self._random.randbytes(16).hex()
        directory = f"{self.directory}/{name_apart(topic_partition, unique, DELETE_SUFFIX)}"
        self._filesystem.rename(log.directory, directory)
        self._filesystem.sync_directory(self.directory)
        self.trash.add([directory], log.config[FILE_DELETE_DELAY_MS], log.abandon)
        self.write_checkpoints()
        self.cleaner.forget([topic_partition])

    def knows(self, topic_partition: TopicPartition) -> bool:
        """Whether the recovery points on the disk name this log."""
        return topic_partition in self._recovery_points.offsets

    def _open_future(self, topic_partition: TopicPartition, topic_id: Uuid | None, folder: str) -> UnifiedLog:
        return LogLoader(
            filesystem=self._filesystem,
            directory=folder,
            config=self._config_for(topic_partition.topic),
            clock=self._clock,
            background=self._background,
            topic_partition=topic_partition,
            topic_id=topic_id,
            clean=False,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            trash=self.trash,
        ).load()

    # --- deleting -----------------------------------------------------------------------------------------------------

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete one log."""
        self.delete_all([topic_partition])

    def delete_all(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Delete these logs: at once for every request, and their bytes later."""
        finish(self.delete_in_steps(topic_partitions))

    def delete_in_steps(self, topic_partitions: Collection[TopicPartition]) -> Steps[None]:
        """The same with a pause after each."""
        for log, directory in (yield from self._take_apart(topic_partitions, DELETE_SUFFIX)):
            self.trash.add([directory], log.config[FILE_DELETE_DELAY_MS])
            yield

    def set_aside(self, topic_partitions: Collection[TopicPartition]) -> list[str]:
        """Serve these logs no longer, and keep their bytes; the folders where they are now."""
        return [directory for _, directory in finish(self._take_apart(topic_partitions, STRAY_SUFFIX))]

    def _take_apart(
        self, topic_partitions: Collection[TopicPartition], suffix: str
    ) -> Steps[list[tuple[UnifiedLog, str]]]:
        """Close these logs and rename their folders, so that a crash leaves no half log behind. The folder above is
        synced once for all of them, and so are the checkpoints that name them."""
        apart = []
        for topic_partition in topic_partitions:
            log = self.logs.pop(topic_partition)
            log.abandon()
            directory = f"{self.directory}/{name_apart(topic_partition, self._random.randbytes(16).hex(), suffix)}"
            self._filesystem.rename(log.directory, directory)
            apart.append((log, directory))
            yield
        if apart:
            self._filesystem.sync_directory(self.directory)
            yield
            if self._claims_too_much(topic_partitions):
                yield from self.checkpoint()
            self.cleaner.forget(topic_partitions)
        return apart

    # --- from time to time --------------------------------------------------------------------------------------------

    def delete_old_segments(self) -> bool:
        """Shorten the logs that are not compacted by what retention does not keep; whether there is more to do. A disk
        takes milliseconds for each segment, so after a few others get their turn."""
        if not self._to_shorten:
            self._to_shorten = [key for key, log in reversed(self.logs.items()) if not is_compacted(log)]
        now_ms = self._clock.time_ms()
        looked_at = deleted = 0
        while self._to_shorten and looked_at < _LOOKED_AT_ONCE and deleted < _DELETED_AT_ONCE:
            log = self.logs.get(self._to_shorten.pop())
            looked_at += 1
            if log is not None and not self.cleaner.is_busy_with(log):
                deleted += delete_old_segments(log, now_ms)
        return bool(self._to_shorten)

    def compact(self) -> Steps[None]:
        """Let the cleaner compact what is due; of compacted logs, too, segments may have had their time. Pauses after
        each log."""
        now_ms = self._clock.time_ms()
        for log in list(self.logs.values()):
            if is_compacted(log) and not log.is_closed and not self.cleaner.is_busy_with(log):
                delete_old_segments(log, now_ms)
            yield
        self.cleaner.clean()

    def empty_trash(self) -> None:
        """Remove the files whose time since their deletion is over."""
        self.trash.empty()

    def flush_old(self) -> Steps[None]:
        """Flush the logs that were not flushed for ``flush.ms``. Pauses after each log."""
        for log in list(self.logs.values()):
            if not log.is_closed and log.flushes.age_ms >= log.config[FLUSH_MS]:
                log.flush()
            yield

    def write_log_starts(self) -> None:
        """Write down where the logs begin, if that has changed or was never written. Kafka does so from time to time
        only, and a crash may bring back for a while what was deleted; a file this small can be written before the
        answer."""
        before, starts = self._log_starts.offsets, self._current_log_starts()
        if before == starts and self._filesystem.exists(f"{self.directory}/{LOG_START_CHECKPOINT}"):
            return
        self._log_starts.write(starts)
        for key, offset in starts.items():
            if offset != before.get(key):
                self.logs[key].forget_epochs()

    def _current_log_starts(self) -> Mapping[TopicPartition, int]:
        """Of the logs that begin within a segment: where the others begin, their files tell."""
        logs = self.logs.items()
        return {key: log.log_start_offset for key, log in logs if log.log_start_offset > log.base_offset}

    def write_checkpoints(self) -> None:
        """Write down the marks of every log, as of now."""
        finish(self.checkpoint())

    def checkpoint(self) -> Steps[None]:
        """The same with a pause before each file: each is whole by itself."""
        self._high_watermarks.write({key: log.high_watermark for key, log in self.logs.items()})
        yield
        self._recovery_points.write({key: log.recovery_point for key, log in self.logs.items()})
        yield
        self.write_log_starts()

    def _claims_too_much(self, topic_partitions: Collection[TopicPartition]) -> bool:
        """Whether a checkpoint names one of these logs though it is gone, or an offset above the log's own mark."""
        return any(self._claims_too_much_of(topic_partition) for topic_partition in topic_partitions)

    def _claims_too_much_of(self, key: TopicPartition) -> bool:
        log = self.logs.get(key)
        true = (-1, -1, -1) if log is None else (log.high_watermark, log.recovery_point, log.log_start_offset)
        written = self._checkpoints
        return any(each.offsets.get(key, -1) > mark for each, mark in zip(written, true, strict=True))

    def close(self, broker_epoch: int) -> None:
        """Close every log in order, and say so. The marker comes last: it vouches for all the rest, on the disk. A disk
        that has failed may have lost what it was to sync, and sync the next time: OSError, and nothing is written."""
        if self.failure is not None:
            raise self.failure
        self._sync_many([log for log in self.logs.values() if log.finish()])
        for log in self.logs.values():
            log.close()
        self.futures.close()
        self.trash.close()
        self.write_checkpoints()
        write_clean_shutdown(self._filesystem, self.directory, broker_epoch)

    def _sync_many(self, logs: Sequence[UnifiedLog]) -> None:
        """Bring these logs, which are finished, to the disk at once, if they are many: each has four files or five, and
        the disk takes its time for every sync."""
        if len(logs) <= _SYNCED_ONE_BY_ONE:
            return
        for log in logs:
            for segment in log.unsynced_segments:
                segment.write_indexes()
        renewed = [log for log in logs if log.epochs.write_beside(log.log_end_offset)]
        self._filesystem.sync_everything(self.directory)
        for log in renewed:
            log.epochs.put_in_place(log.log_end_offset)
        if renewed:
            self._filesystem.sync_everything(self.directory)
        for log in logs:
            log.note_flushed()

    def abandon(self) -> None:
        """Close the files and write nothing, as a crash would."""
        for log in self.logs.values():
            log.abandon()
        self.futures.abandon()
        self.trash.close()

    def _on_log_truncated(self, log: UnifiedLog) -> None:
        self._on_truncated(log)
        self.on_truncated(log)

    def _on_truncated(self, log: UnifiedLog) -> None:
        self.cleaner.on_truncated(log)
        if self._claims_too_much([log.topic_partition]):
            self.write_checkpoints()

    def _on_recovery_point(self, key: TopicPartition, recovery_point: int) -> None:
        self._recovery_points.write({**self._recovery_points.offsets, key: recovery_point})

    def _load(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        is_known: bool = True,
        syncs: bool = True,
        was_closed: bool = False,
    ) -> UnifiedLog:
        loader = LogLoader(
            filesystem=self._filesystem,
            directory=f"{self.directory}/{topic_partition}",
            config=self._config_for(topic_partition.topic),
            clock=self._clock,
            background=self._background,
            topic_partition=topic_partition,
            topic_id=topic_id,
            # Of a log that was put here by hand an orderly stop says nothing.
            clean=was_closed or (self._had_clean_shutdown and is_known),
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            is_known=is_known,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            on_truncated=self._on_log_truncated,
            on_recovery_point=self._on_recovery_point,
            trash=self.trash,
            syncs=syncs,
        )
        log = loader.load()
        self.unknown += [f"{topic_partition}/{name}" for name in loader.unknown]
        if loader.lost_bytes:
            self.lost_bytes[topic_partition] = loader.lost_bytes
        log.flushes.times = self._flush_times
        self.logs[topic_partition] = log
        return log

    def set_producer_id_expiration(self, expiration_ms: int) -> None:
        """Forget producers after this long from now on."""
        if expiration_ms != self._producer_id_expiration_ms:
            self._producer_id_expiration_ms = expiration_ms
            for log in self.logs.values():
                log.producer_state.expiration_ms = expiration_ms
