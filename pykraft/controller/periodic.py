"""What the active controller does from time to time: tasks, each with an interval of its own.

An interval begins when the controller becomes active, and again when the task has run. A task that has more to do than
it may do at once runs again after a short pause, so that requests are heard in between.

Follows org.apache.kafka.controller.{PeriodicTask,PeriodicTaskControlManager}.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from pykraft.common.core import FOREVER, Steps
from pykraft.controller.result import Result, VersionedRecord
from pykraft.metadata.image import MetadataImage

IMMEDIATE_MS = 10


class PeriodicTask(NamedTuple):
    """A plan that is made every `interval_ms`. With `most` records or more it is made again soon."""

    interval_ms: int
    plan: Callable[[MetadataImage], Steps[list[VersionedRecord]]]
    most: int


class PeriodicTasks:
    """The tasks, and when each is due."""

    def __init__(self, tasks: Sequence[PeriodicTask]) -> None:
        self._tasks = tasks
        self._due = [FOREVER] * len(tasks)

    def begin(self, now: int) -> None:
        """The controller has become active."""
        self._due = [now + task.interval_ms for task in self._tasks]

    def run(self, submit: Callable[[Callable[[MetadataImage], Steps[Result[None]]]], object], now: int) -> int:
        """Hand the plans that are due to ``submit(plan)``, which makes each on the image that the one before has left;
        returns when the next one is due."""
        for number, task in enumerate(self._tasks):
            if now >= self._due[number]:
                self._due[number] = now + task.interval_ms  # also if it fails
                submit(partial(self._planned, number, now))
        return min(self._due, default=FOREVER)

    def _planned(self, number: int, now: int, image: MetadataImage) -> Steps[Result[None]]:
        records = yield from self._tasks[number].plan(image)
        if len(records) >= self._tasks[number].most:
            self._due[number] = now + IMMEDIATE_MS
        return Result(records, None)
