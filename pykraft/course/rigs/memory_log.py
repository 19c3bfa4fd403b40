"""A log of pykraft's own on a disk in memory, for a lever that writes one at each move."""

from collections.abc import Callable
from typing import TypeVar

from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition
from pykraft.runtime.clock import SystemClock
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.log_loader import LogLoader

_T = TypeVar("_T")


def empty_log(partition: TopicPartition, config: Config) -> UnifiedLog:
    """A new log with these settings, on a disk of its own."""
    return LogLoader(
        filesystem=MemoryFileSystem(),
        directory=f"/{partition}",
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
