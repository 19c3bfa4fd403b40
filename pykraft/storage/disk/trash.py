"""What was deleted and is still on the disk.

A deleted segment gets another name at once, and stays open for ``file.delete.delay.ms``: a response that promised bytes
of it can still send them. A deleted log is closed at once, for no request is answered from it any more; its folder gets
another name and stays as long. Then the files are removed. What a stop leaves behind is removed by the next start.

Follows the scheduled deletions in org.apache.kafka.storage.internals.log.{LocalLog,LogManager}.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from pykraft.common.background import Background
from pykraft.common.core import Clock
from pykraft.storage.disk.filesystem import FileSystem


def nothing() -> None:
    """There is no open file."""


class Doomed(NamedTuple):
    """Files or folders to be removed once it is `due_us`, and how the open ones among them are closed."""

    due_us: int
    """By the stopwatch: the time of day may be set meanwhile, and a reader would lose what it was promised."""
    paths: tuple[str, ...]
    close: Callable[[], None]


class Trash:
    """Deleted files, until they are removed."""

    def __init__(self, filesystem: FileSystem, clock: Clock, background: Background) -> None:
        self._filesystem = filesystem
        self._clock = clock
        self._background = background
        self.doomed: list[Doomed] = []

    def add(self, paths: Sequence[str], delay_ms: int, close: Callable[[], None] = nothing) -> None:
        """Remove these files in `delay_ms`."""
        self.doomed.append(Doomed(self._clock.elapsed_us() + delay_ms * 1000, tuple(paths), close))

    def empty(self) -> None:
        """Remove what is due, in the background."""
        if not self.doomed:
            return
        now_us = self._clock.elapsed_us()
        due = [each for each in self.doomed if each.due_us <= now_us]
        self.doomed = [each for each in self.doomed if each.due_us > now_us]
        for each in due:
            each.close()
        paths = [path for each in due for path in each.paths]
        if paths:
            self._background.submit(lambda: self._remove(paths), lambda _: None)

    def close(self) -> None:
        """Close what is open; the next start removes it."""
        for each in self.doomed:
            each.close()
        self.doomed = []

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            # It may be gone with its folder.
            with suppress(FileNotFoundError):
                self._filesystem.remove(path)
