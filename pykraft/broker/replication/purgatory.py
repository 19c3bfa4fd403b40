"""Where requests wait for something to happen.

A produce with acks=all waits for the high watermark, a fetch for new data. Such a request must not hold up the node's
thread, so it becomes a *delayed operation*: it is tried once, and if it cannot be completed yet, it watches the
partitions that it depends on. Whenever something happens to a partition (an append, a high watermark that rises, a
leadership that is lost), the operations that watch it are tried again. If nothing helps, it expires at its deadline and
answers with what there is.

An operation that is tried again hears which partition it is about. A hundred fetches of three hundred partitions may
wait for one that is written to: each looks at that one, and not at thirty thousand.

An operation watches several partitions and ends once: it is completed, it expires, or its client hangs up. Then it
leaves all of them at once. A client chooses how long its fetch waits, up to 24 days, so a fetch that outlived its
client would be tried at every append for as long.

An operation whose trial or expiry raises ends, too: its promise fails, so its request is answered with an error. Those
that wait for the same partition, and what has happened to the partition, have nothing to do with that.

Follows org.apache.kafka.server.purgatory.{DelayedOperation,DelayedOperationPurgatory}. Kafka's purgatory keeps what
departed clients asked for until it expires.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

from pykraft.common.core import Promise
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.timer import Timer, TimerTask


class DelayedOperation(Protocol):
    """Something that waits."""

    @property
    def promise(self) -> Promise[Any]:
        """Of its answer. When it is abandoned, the operation waits no longer."""
        ...

    def try_complete(self, key: Hashable = None) -> bool:
        """Complete if that is possible now; whether it was. Called again and again until it was. Something has happened
        to `key`, or if there is none perhaps to all."""
        ...

    def expire(self) -> None:
        """Complete with what there is: the time is up."""
        ...


class _Watcher:
    """One operation that waits, with the keys that it watches."""

    __slots__ = ("is_being_tried", "keys", "operation", "task")

    def __init__(self, operation: DelayedOperation, keys: list[Hashable]) -> None:
        self.operation = operation
        self.keys = keys
        self.is_being_tried = False
        """While it completes, its answer may make something happen to its own keys."""
        self.task: TimerTask


class Purgatory:
    """The delayed operations of one kind."""

    def __init__(self, timer: Timer, faults: FaultHandler) -> None:
        """`faults` hears of an error for which no request can be answered."""
        self._timer = timer
        self._faults = faults
        self._watchers: dict[Hashable, dict[_Watcher, None]] = {}
        """By key, in the order in which they came."""
        self._waiting = 0

    def __len__(self) -> int:
        """How many operations wait (each counted once)."""
        return self._waiting

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable], deadline: int) -> bool:
        """Complete the operation now, or watch these keys for it until `deadline`; whether it is complete."""
        if operation.try_complete():
            return True
        self.watch(operation, keys, deadline)
        return False

    def watch(self, operation: DelayedOperation, keys: Iterable[Hashable], deadline: int) -> Callable[[Hashable], None]:
        """Watch these keys for an operation that was tried already. While it waits, the function that is returned lets
        it watch another key."""
        watcher = _Watcher(operation, list(keys))
        for key in watcher.keys:
            self._watchers.setdefault(key, {})[watcher] = None
        self._waiting += 1
        watcher.task = self._timer.at(deadline, lambda _: self._expire(watcher))
        operation.promise.on_abandoned(lambda: self._leave(watcher))
        return lambda key: self._watch_also(watcher, key)

    def _watch_also(self, watcher: _Watcher, key: Hashable) -> None:
        watchers = self._watchers.setdefault(key, {})
        if watcher not in watchers:
            watchers[watcher] = None
            watcher.keys.append(key)

    def check(self, key: Hashable) -> None:
        """Something happened to `key`: try what watches it."""
        watchers = self._watchers.get(key)
        if not watchers:
            return
        # A copy: what is tried leaves, and may bring new watchers of the same key.
        for watcher in list(watchers):
            if watcher in watchers and not watcher.is_being_tried and self._try(watcher, key):
                self._leave(watcher)

    def _try(self, watcher: _Watcher, key: Hashable) -> bool:
        """Whether the operation has ended."""
        watcher.is_being_tried = True
        try:
            return watcher.operation.try_complete(key)
        except Exception as error:
            self._end_with(error, watcher.operation)
            return True
        finally:
            watcher.is_being_tried = False

    def _expire(self, watcher: _Watcher) -> None:
        self._leave(watcher)
        try:
            watcher.operation.expire()
        except Exception as error:
            self._end_with(error, watcher.operation)

    def _end_with(self, error: Exception, operation: DelayedOperation) -> None:
        """Answer the request with an error, or take note of one that came after its answer."""
        try:
            if operation.promise.kept:
                raise error
            operation.promise.fail(error)
        except Exception as unheard:
            self._faults.handle_fault("purgatory", unheard)

    def _leave(self, watcher: _Watcher) -> None:
        """The operation has ended: it watches nothing any more."""
        watcher.task.cancel()
        self._waiting -= 1
        for key in watcher.keys:
            watchers = self._watchers[key]
            del watchers[watcher]
            if not watchers:
                del self._watchers[key]
