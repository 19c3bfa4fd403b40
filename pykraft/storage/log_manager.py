"""All partition logs of a node: one folder for each below the log directory.

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

The checkpoints are written from time to time, and at once if they would claim too much: when a log was truncated below
what they say, or deleted. A recovery point that is too high makes the next start trust bytes that were never synced, a
high watermark that is too high shows readers what may yet be lost.

The clean-shutdown marker is removed as soon as the logs are open: if the node dies later, the next start finds none. It
holds the broker epoch of the node that wrote it, so that the controller can tell a node that lost its unsynced data
from one that did not (KIP-966).

From time to time old segments are deleted, logs compacted, and what was deleted for a while removed. A log that is
being compacted keeps its segments until that is done.

Folders that are no partition's, and unknown files, are left alone.

Follows org.apache.kafka.storage.internals.log.LogManager.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random

from pykraft.common.background import Background
from pykraft.common.config import Config
from pykraft.common.core import Clock
from pykraft.common.topic_config import FILE_DELETE_DELAY_MS, FLUSH_MS
from pykraft.common.types import TopicPartition, Uuid
from pykraft.storage.checkpoint import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    read_clean_shutdown,
    read_offsets,
    write_clean_shutdown,
    write_offsets,
    write_partition_metadata,
)
from pykraft.storage.filesystem import FileSystem, Lock
from pykraft.storage.log import UnifiedLog
from pykraft.storage.log_cleaner import DEDUPE_BUFFER_BYTES, LogCleaner, is_compacted
from pykraft.storage.log_loader import LogLoader
from pykraft.storage.retention import delete_old_segments
from pykraft.storage.trash import Trash

DELETE_SUFFIX = "-delete"
_DELETED = re.compile(r".+-[0-9]+\.[0-9a-f]{32}-delete")


class DirectoryInUseError(Exception):
    """Another process uses the log directory."""


def lock_directory(filesystem: FileSystem, directory: str) -> Lock:
    """Take the directory for this process; DirectoryInUseError if another has it."""
    filesystem.make_directory(directory)
    lock = filesystem.lock(f"{directory}/{LOCK}")
    if lock is None:
        raise DirectoryInUseError(f"the log directory {directory} is in use by another process: stop that one first")
    return lock


def parse_directory(name: str) -> TopicPartition | None:
    """The partition whose folder is called so; None if it is no partition's."""
    topic, dash, partition = name.rpartition("-")
    if not topic or not dash or not partition.isdecimal() or not partition.isascii():
        return None
    return TopicPartition(topic, int(partition))


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
        dedupe_buffer_bytes: int = DEDUPE_BUFFER_BYTES,
    ) -> None:
        """`config_for(topic)` gives a topic's settings; `not_mine` names folders that belong to others; the cleaner may
        use `dedupe_buffer_bytes`."""
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
            buffer_bytes=dedupe_buffer_bytes,
        )
        self.previous_broker_epoch = -1
        """The broker epoch of the last orderly stop; -1 after a crash."""
        # What is written down.
        self._high_watermarks: Mapping[TopicPartition, int] = {}
        self._recovery_points: Mapping[TopicPartition, int] = {}
        self._log_starts: Mapping[TopicPartition, int] = {}
        self._clean = False
        self.recovered_bytes = 0

    def start(self) -> None:
        """Open every log that is there."""
        clean_epoch = read_clean_shutdown(self._filesystem, self.directory)
        self._clean = clean_epoch is not None
        self.previous_broker_epoch = -1 if clean_epoch is None else clean_epoch
        self._recovery_points = self._read_checkpoint(RECOVERY_POINT_CHECKPOINT)
        self._high_watermarks = self._read_checkpoint(HIGH_WATERMARK_CHECKPOINT)
        self._log_starts = self._read_checkpoint(LOG_START_CHECKPOINT)
        for name in self._filesystem.list(self.directory):
            topic_partition = parse_directory(name)
            if _DELETED.fullmatch(name):
                self.trash.add([f"{self.directory}/{name}"], delay_ms=0)
            elif topic_partition is not None and name not in self._not_mine:
                log = self._load(
                    topic_partition,
                    None,
                    log_start_offset=self._log_starts.get(topic_partition, 0),
                    recovery_point=self._recovery_points.get(topic_partition, 0),
                )
                log.update_high_watermark(self._high_watermarks.get(topic_partition, log.log_start_offset))
        if self._claims_too_much():
            self.write_checkpoints()
        if self._clean:
            self._filesystem.remove(f"{self.directory}/{CLEAN_SHUTDOWN}")
        # Also if no marker is there: the run before may have removed it and died before the disk knew.
        self._filesystem.sync_directory(self.directory)
        self.cleaner.start()
        self.trash.empty()

    def get_or_create(self, topic_partition: TopicPartition, topic_id: Uuid) -> UnifiedLog:
        """The partition's log. A log of another incarnation of the topic is deleted first."""
        log = self.logs.get(topic_partition)
        if log is not None and log.topic_id is None:
            write_partition_metadata(self._filesystem, log.directory, topic_id)
            log.topic_id = topic_id
        elif log is not None and log.topic_id != topic_id:
            self.delete(topic_partition)
            log = None
        return log or self._load(topic_partition, topic_id)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Close the log and rename its folder, so that a crash leaves no half log behind; its bytes go later."""
        log = self.logs.pop(topic_partition)
        log.abandon()
        doomed = f"{log.directory}.{self._random.randbytes(16).hex()}{DELETE_SUFFIX}"
        self._filesystem.rename(log.directory, doomed)
        self._filesystem.sync_directory(self.directory)
        if self._claims_too_much():
            self.write_checkpoints()
        self.cleaner.forget(topic_partition)
        self.trash.add([doomed], log.config[FILE_DELETE_DELAY_MS])

    # --- from time to time --------------------------------------------------------------------------------------------

    def delete_old_segments(self) -> None:
        """Shorten the logs that are not compacted by what retention does not keep."""
        self._shorten([log for log in self.logs.values() if not is_compacted(log)])

    def clean(self) -> None:
        """Compact what is due; of compacted logs, too, segments may have had their time."""
        self._shorten([log for log in self.logs.values() if is_compacted(log)])
        self.cleaner.clean()

    def _shorten(self, logs: Sequence[UnifiedLog]) -> None:
        now_ms = self._clock.time_ms()
        for log in logs:
            if not self.cleaner.is_busy_with(log):
                delete_old_segments(log, now_ms)

    def empty_trash(self) -> None:
        """Remove the files whose time since their deletion is over."""
        self.trash.empty()

    def flush_old(self) -> None:
        """Flush the logs that were not flushed for ``flush.ms``."""
        now_ms = self._clock.time_ms()
        for log in self.logs.values():
            if now_ms - log.flushed_ms >= log.config[FLUSH_MS]:
                log.flush()

    def write_checkpoints(self) -> None:
        """Write down the marks of every log, as of now."""
        logs = self.logs.items()
        self._high_watermarks = {key: log.high_watermark for key, log in logs}
        self._recovery_points = {key: log.recovery_point for key, log in logs}
        self._log_starts = {
            key: log.log_start_offset for key, log in logs if log.log_start_offset > log.segments[0].base_offset
        }
        self._write_checkpoint(HIGH_WATERMARK_CHECKPOINT, self._high_watermarks)
        self._write_checkpoint(RECOVERY_POINT_CHECKPOINT, self._recovery_points)
        self._write_checkpoint(LOG_START_CHECKPOINT, self._log_starts)

    def _claims_too_much(self) -> bool:
        """Whether a checkpoint names a log that is gone, or an offset above the log's own mark."""
        marks = [
            (self._high_watermarks, {key: log.high_watermark for key, log in self.logs.items()}),
            (self._recovery_points, {key: log.recovery_point for key, log in self.logs.items()}),
            (self._log_starts, {key: log.log_start_offset for key, log in self.logs.items()}),
        ]
        return any(offset > true.get(key, -1) for written, true in marks for key, offset in written.items())

    def close(self, broker_epoch: int) -> None:
        """Close every log in order, and say so."""
        for log in self.logs.values():
            log.close()
        self.trash.close()
        self.write_checkpoints()
        write_clean_shutdown(self._filesystem, self.directory, broker_epoch)

    def abandon(self) -> None:
        """Close the files and write nothing, as a crash would."""
        for log in self.logs.values():
            log.abandon()
        self.trash.close()

    def _on_cut(self, log: UnifiedLog) -> None:
        self.cleaner.on_cut(log)
        if self._claims_too_much():
            self.write_checkpoints()

    def _load(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        log_start_offset: int = 0,
        recovery_point: int = 0,
    ) -> UnifiedLog:
        loader = LogLoader(
            filesystem=self._filesystem,
            directory=f"{self.directory}/{topic_partition}",
            config=self._config_for(topic_partition.topic),
            clock=self._clock,
            background=self._background,
            topic_partition=topic_partition,
            topic_id=topic_id,
            clean=self._clean,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
            on_cut=self._on_cut,
            trash=self.trash,
        )
        log = loader.load()
        self.recovered_bytes += loader.recovered_bytes
        self.logs[topic_partition] = log
        return log

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        return read_offsets(self._filesystem, f"{self.directory}/{name}")

    def _write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        write_offsets(self._filesystem, f"{self.directory}/{name}", offsets)
