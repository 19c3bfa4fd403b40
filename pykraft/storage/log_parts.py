"""What a log is opened with: where it is, what it uses of the world, and what was found in its folder.

Follows org.apache.kafka.storage.internals.log.LoadedLogOffsets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pykraft.common.background import Background
from pykraft.common.core import Clock
from pykraft.common.types import TopicPartition, Uuid
from pykraft.storage.disk.filesystem import FileSystem
from pykraft.storage.disk.trash import Trash
from pykraft.storage.leader_epoch_cache import LeaderEpochCache
from pykraft.storage.log_segment import LogSegment
from pykraft.storage.producer_state import ProducerStateManager


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Which partition's log this is, and the folder that it has."""

    directory: str
    topic_partition: TopicPartition
    topic_id: Uuid | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPorts:
    """What a log uses of the world."""

    filesystem: FileSystem
    clock: Clock
    background: Background
    trash: Trash
    """Where deleted segments go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContent:
    """What a log has when it is opened: found in its folder, and repaired after a crash."""

    segments: Sequence[LogSegment]
    epochs: LeaderEpochCache
    producer_state: ProducerStateManager
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    """Everything below is synced: after a crash it need not be checked."""
