"""Requests whose handling takes more than one turn of the node's loop.

One thread owns a node, and heartbeats wait for whatever that thread does. A request may name a hundred thousand
partitions, or bring thirty batches that each unpack to megabytes. So a handler may be a generator: it yields after a
piece of its work, the node looks after itself and serves others, and the handler goes on in the next turn with the
time as it is then::

    def list_offsets(self, request, context, now):
        for number, asked in enumerate(request.partitions, 1):
            answers.append(self._offset(asked))
            if number % PARTS_PER_TURN == 0:
                now = yield
        return ListOffsetsResponse(answers)

A small request is through before its first yield and costs one turn, as if its handler were a plain function. While a
request pauses, its connection takes no other one: order is kept, and the bytes of its records stay where they are. If
its client hangs up, the rest of it is dropped.

This is ours: Kafka's request handlers are threads of their own and need not pause.
"""

from collections.abc import Generator
from typing import Any, TypeVar

from pykraft.common.core import Promise

T = TypeVar("T")

Steps = Generator[None, int, T]
"""A handler that pauses at each yield, is sent the time, and returns what a plain handler returns."""

PARTS_PER_TURN = 500
"""So many partitions or topics of a request are handled in one turn: 10 us each, 5 ms together."""


def finish(steps: Steps[T]) -> T:
    """What the steps return, taken all at once: for work that is small because it waited for what is really there."""
    try:
        next(steps)
        while True:
            steps.send(0)
    except StopIteration as end:
        result: T = end.value
        return result


class Turns:
    """The requests of a node that pause."""

    def __init__(self) -> None:
        self._paused: dict[Steps[Any], Promise[Any]] = {}

    def __len__(self) -> int:
        return len(self._paused)

    def run(self, steps: Steps[T | Promise[T]]) -> T | Promise[T]:
        """Take the first step; what the steps return, or a promise of it if they pause."""
        try:
            next(steps)
        except StopIteration as end:
            result: T | Promise[T] = end.value
            return result
        promise = self._paused[steps] = Promise()
        promise.on_abandoned(lambda: self._drop(steps))
        return promise

    def _drop(self, steps: Steps[Any]) -> None:
        if self._paused.pop(steps, None) is not None:
            steps.close()

    def go_on(self, now: int) -> None:
        """One step of each request that pauses."""
        for steps, promise in list(self._paused.items()):
            if promise.abandoned:
                continue  # a moment ago
            try:
                steps.send(now)
            except StopIteration as end:
                del self._paused[steps]
                self._keep(promise, end.value)

    @staticmethod
    def _keep(promise: Promise[Any], result: Any) -> None:
        if isinstance(result, Promise):
            promise.on_abandoned(result.abandon)
            result.then(promise.keep)
        else:
            promise.keep(result)
