"""Where requests wait for something to happen.

A produce with acks=all waits for the high watermark, a fetch for new data. Such a request must not hold up the node's
thread, so it becomes a *delayed operation*: it is tried once, and if it cannot be completed yet, it is put under watch
for the partitions that it depends on. Whenever something happens to a partition (an append, a high watermark that
rises, a leadership that is lost), the operations that watch it are tried again. If nothing helps, it expires at its
deadline and answers with what there is.

An operation watches several partitions and is completed once, through whichever of them; it is then dead in the other
lists, and swept from them when they are looked at next.

Follows org.apache.kafka.server.purgatory.{DelayedOperation,DelayedOperationPurgatory}.
"""

from collections.abc import Hashable, Iterable
from typing import Protocol

from pykraft.common.timer import Timer, TimerTask

_SWEEP_AT = 64


class DelayedOperation(Protocol):
    """Something that waits."""

    def try_complete(self) -> bool:
        """Complete if that is possible now; whether it was. Called again and again until it was."""
        ...

    def expire(self) -> None:
        """Complete with what there is: the time is up."""
        ...


class _Watched:
    __slots__ = ("done", "operation", "task")

    def __init__(self, operation: DelayedOperation) -> None:
        self.operation = operation
        self.done = False
        self.task: TimerTask | None = None


class Purgatory:
    """The delayed operations of one kind."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._watched: dict[Hashable, list[_Watched]] = {}

    def __len__(self) -> int:
        """How many operations wait (each counted once)."""
        return len({id(entry) for entries in self._watched.values() for entry in entries if not entry.done})

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable], deadline: int) -> bool:
        """Complete the operation now, or watch these keys for it until `deadline`; whether it is complete."""
        if operation.try_complete():
            return True
        entry = _Watched(operation)
        for key in keys:
            entries = self._watched.setdefault(key, [])
            entries.append(entry)
            if len(entries) > _SWEEP_AT and len(entries) % _SWEEP_AT == 0:
                self._watched[key] = [each for each in entries if not each.done]
        entry.task = self._timer.at(deadline, lambda _: self._expire(entry))
        return False

    def check(self, key: Hashable) -> None:
        """Something happened to `key`: try what watches it."""
        entries = self._watched.pop(key, None)
        if not entries:
            return
        still_waiting = [entry for entry in entries if not entry.done and not self._try(entry)]
        if still_waiting:
            # Trying may have brought new watchers of the same key.
            self._watched[key] = still_waiting + self._watched.get(key, [])

    def _try(self, entry: _Watched) -> bool:
        if not entry.operation.try_complete():
            return False
        entry.done = True
        if entry.task is not None:
            entry.task.cancel()
        return True

    def _expire(self, entry: _Watched) -> None:
        if not entry.done:
            entry.done = True
            entry.operation.expire()
