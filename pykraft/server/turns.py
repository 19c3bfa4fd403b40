"""Requests whose handling takes more than one turn of the node's loop.

One thread owns a node, and heartbeats wait for whatever that thread does. A request may name ten thousand
partitions, or bring thirty batches that each unpack to megabytes. So a handler may be a generator: it yields after a
piece of its work, the node looks after itself and serves others, and the handler goes on in the next turn with the
time as it is then::

    def list_offsets(self, request, context, now):
        for number, asked in enumerate(request.partitions, 1):
            answers.append(self._offset(asked))
            if number % PARTS_PER_TURN == 0:
                now = yield
        return ListOffsetsResponse(answers)

A handler that needs another broker's answer yields the promise of it, and goes on in the turn after it is kept::

        if not verified.kept:
            now = yield verified

A small request is through before its first yield and costs one turn, as if its handler were a plain function. While a
request pauses, its connection takes no other one: order is kept, and the bytes of its records stay where they are. If
its client hangs up, the rest of it is dropped.

This is ours: Kafka's request handlers are threads of their own and need not pause.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from pykraft.common.core import Promise, Steps

S = TypeVar("S")
T = TypeVar("T")

PARTS_PER_TURN = 500
"""This many partitions or topics of a request are handled in one turn: 10 us each, 5 ms together."""


def in_turns(ask: Callable[[S, int], T], names: Iterable[S], now: int) -> Steps[list[T]]:
    """``ask(name, now)`` for each name, `PARTS_PER_TURN` in one turn."""
    answers = []
    for number, name in enumerate(names, 1):
        if number % PARTS_PER_TURN == 0:
            now = yield
        answers.append(ask(name, now))
    return answers


class _Paused(NamedTuple):
    request: object
    steps: Steps[Any]
    promise: Promise[Any]


class Turns:
    """The requests of a node that pause."""

    def __init__(self) -> None:
        self._paused: dict[int, _Paused] = {}
        """Those that can go on, by the identity of the request, in the order in which they paused."""
        self._waiting: dict[int, _Paused] = {}
        """Those that wait for a promise."""

    def __len__(self) -> int:
        """How many can go on."""
        return len(self._paused)

    def run(self, request: object, steps: Steps[T | Promise[T]]) -> T | Promise[T]:
        """Take the first of the steps that handle a request; what the steps return, or a promise of it if they
        pause."""
        try:
            awaited = next(steps)
        except StopIteration as end:
            result: T | Promise[T] = end.value
            return result
        promise: Promise[Any] = Promise()
        paused = self._paused[id(request)] = _Paused(request, steps, promise)
        promise.on_abandoned(lambda: self._drop(request))
        if awaited is not None:
            self._wait(paused, awaited)
        return promise

    def _wait(self, paused: _Paused, awaited: Promise[Any]) -> None:
        """The request goes on once the promise is kept. If its client hangs up before that, nothing wants it."""
        key = id(paused.request)
        if self._paused.pop(key, None) is None:
            awaited.abandon()
            return
        self._waiting[key] = paused
        paused.promise.on_abandoned(awaited.abandon)

        def go_on(_: Any) -> None:
            if self._waiting.pop(key, None) is not None:
                self._paused[key] = paused

        awaited.then(go_on)

    def _drop(self, request: object) -> None:
        paused = self._paused.pop(id(request), None) or self._waiting.pop(id(request), None)
        if paused is not None:
            paused.steps.close()

    def go_on(self, now: int) -> None:
        """One step of each request that can go on."""
        for paused in list(self._paused.values()):
            request, steps, promise = paused
            if promise.abandoned:
                continue  # a moment ago
            try:
                awaited = steps.send(now)
            except StopIteration as end:
                del self._paused[id(request)]
                self._keep(promise, end.value)
                continue
            if awaited is not None:
                self._wait(paused, awaited)

    @staticmethod
    def _keep(promise: Promise[Any], result: Any) -> None:
        if isinstance(result, Promise):
            promise.on_abandoned(result.abandon)
            result.then(promise.keep)
        else:
            promise.keep(result)
