"""A log of pykraft's own, for a lever that writes one at each move: on a disk in memory, or on the reader's disk."""

from collections.abc import Callable
from typing import TypeVar

from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition
from pykraft.runtime.clock import SystemClock
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk.filesystem import FileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.log_loader import LogLoader

_T = TypeVar("_T")


def empty_log(
    partition: TopicPartition, config: Config, filesystem: FileSystem | None = None, folder: str = ""
) -> UnifiedLog:
    """A new log with these settings: in this folder of a file system, or on a disk of its own."""
    return LogLoader(
        filesystem=filesystem or MemoryFileSystem(),
        directory=f"{folder}/{partition}",
        config=config,
        clock=SystemClock(),
        background=_AtOnce(),
        topic_partition=partition,
        topic_id=None,
        clean=True,
    ).load()


class _AtOnce:
    """A background that does each job at once: this log has no thread to be kept from anything."""

    def submit(self, job: Callable[[], _T], on_done: Callable[[_T], None]) -> None:
        on_done(job())
