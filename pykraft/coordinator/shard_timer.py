"""The timers of a coordinator's shard, on the timer of its node.

What is due is a plan: the runtime writes what it returns, as it does with a request's. A write that is refused is tried
again a little later. When the shard is unloaded, its timers are closed: nothing that it still wants may reach the shard
that comes after it.

Follows org.apache.kafka.coordinator.common.runtime.CoordinatorTimer.
"""

from collections.abc import Callable
from typing import Any

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.timer import Timer, TimerTask
from pykraft.coordinator.result import CoordinatorResult, CoordinatorTimer

RETRY_TIMER_MS = 500
"""A timer whose write failed is tried again after this."""


class NoTimer(CoordinatorTimer):
    """The timer of a shard that only follows: nothing becomes due."""

    def schedule(self, key: str, delay_ms: int, plan: Callable[[int], CoordinatorResult[None]]) -> None:
        pass

    def cancel(self, key: str) -> None:
        pass

    def is_scheduled(self, key: str) -> bool:
        return False


class ShardTimer(CoordinatorTimer):
    """The timers of one shard, on the node's `Timer`."""

    def __init__(self, timer: Timer, write: Callable[[Callable[[int], CoordinatorResult[None]], int], Any]) -> None:
        self._timer = timer
        self._write = write
        self._tasks: dict[str, TimerTask] = {}
        self._now = 0
        self._is_closed = False

    def set_time(self, now: int) -> None:
        """The time from which delays count until the next call."""
        self._now = now

    def schedule(self, key: str, delay_ms: int, plan: Callable[[int], CoordinatorResult[None]]) -> None:
        self.cancel(key)
        if not self._is_closed:
            self._tasks[key] = self._timer.at(self._now + delay_ms, lambda now: self._expire(key, plan, now))

    def _expire(self, key: str, plan: Callable[[int], CoordinatorResult[None]], now: int) -> None:
        self._now = now
        mine = self._tasks.pop(key)

        def retry(outcome: Any) -> None:
            is_free = key not in self._tasks and mine is not None
            if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.NOT_COORDINATOR and is_free:
                self.schedule(key, RETRY_TIMER_MS, plan)

        self._write(plan, now).then(retry)

    def cancel(self, key: str) -> None:
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    def is_scheduled(self, key: str) -> bool:
        return key in self._tasks

    @property
    def deadlines(self) -> dict[str, int]:
        """When each is due."""
        return {key: task.deadline for key, task in self._tasks.items()}

    def hasten(self, key: str, now: int) -> None:
        """Let one be due now that would be due later."""
        task = self._tasks[key]
        callback = task.callback
        assert callback is not None
        task.cancel()
        self._tasks[key] = self._timer.at(now, callback)

    def close(self) -> None:
        """The shard is gone: nothing that it still wants may reach the one that comes after it."""
        self._is_closed = True
        for key in list(self._tasks):
            self.cancel(key)
