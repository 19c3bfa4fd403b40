"""Changes that are made one after the other, each in steps.

A change of ten thousand records takes a large part of a second. It may pause, but nothing else may change meanwhile
what it is made from. So those that come later wait in this queue, as all events of Kafka's controller wait in one::

    add(steps)      begins at once, if nothing is before it and the slice of time lasts
    work()          goes on, for a slice
    give_up()       forgets them all: the leadership is lost

Follows org.apache.kafka.queue.KafkaEventQueue, which has a thread of its own.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from pykraft.common.core import Promise, Steps
from pykraft.common.time_slice import TimeSlice, take_steps

T = TypeVar("T")


class _Change(Generic[T]):
    """One that is being made, or waits until those before it are made."""

    __slots__ = ("is_begun", "promise", "steps")

    def __init__(self, steps: Steps[T]) -> None:
        self.steps = steps
        self.is_begun = False
        self.promise: Promise[T] = Promise()


class ChangeQueue(Generic[T]):
    """The change that is being made, and those that come after it."""

    def __init__(self, time_slice: TimeSlice, promise: Callable[[T, Promise[T]], None], failed: T) -> None:
        """``promise(outcome, promise)`` has to keep the promise of a change that is made, now or later. `failed` is
        the outcome of a change that raises."""
        self._time_slice = time_slice
        self._promise = promise
        self._failed = failed
        self._changes: deque[_Change[T]] = deque()
        self._is_working = False

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, steps: Steps[T], now: int) -> Promise[T]:
        """Make this change after those that are here: now, if there is none and the slice lasts."""
        change = _Change(steps)
        self._changes.append(change)
        if len(self._changes) == 1:
            self._work(now)
        return change.promise

    def work(self, now: int) -> bool:
        """Make changes for a slice; whether all are made."""
        if self._changes:
            self._time_slice.begin()
            self._work(now)
        return not self._changes

    def _work(self, now: int) -> None:
        """A promise that is kept may bring another change: that one comes after this one."""
        if self._is_working:
            return
        self._is_working = True
        try:
            while self._changes and self._go_on(self._changes[0], now):
                continue
        finally:
            self._is_working = False

    def _go_on(self, change: _Change[T], now: int) -> bool:
        """Go on with the first change; whether it is made. What it raises costs this change and no other."""
        sent, change.is_begun = now if change.is_begun else None, True
        try:
            is_done, outcome = take_steps(change.steps, sent, self._time_slice, now)
        except Exception:
            self._changes.popleft()
            change.promise.keep(self._failed)
            raise
        if is_done:
            self._changes.popleft()
            self._promise(outcome, change.promise)
        return is_done

    def give_up(self) -> list[Promise[T]]:
        """Forget all changes; the promises that are not kept."""
        changes, self._changes = self._changes, deque()
        for change in changes:
            change.steps.close()
        return [change.promise for change in changes]
