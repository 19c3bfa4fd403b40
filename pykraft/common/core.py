"""The one idiom in which every core of pykraft is written.

A core is an object without a thread, a socket, a clock or dice of its own. Its owner has a clock and a network (a
thread with sockets, a process, the simulator), and drives it through two kinds of call:

* ``handle(request, context, now)`` brings it a request; the answer is a `Promise`, kept at once or later;
* ``poll(now)`` lets it act on time. It returns what it wants from the world: the requests to send, and the deadline
  by which it must be polled again at the latest. Answers to those requests come back through ``on_response``.

``now`` is a count of milliseconds since an arbitrary start, the same for all calls of one run. It never goes back. It
is not the time of day: what a record's timestamp needs is the `Clock` port.

Because all of a core's inputs are arguments, a run is a function of its inputs: the simulator repeats it from a seed.

Kafka came to the same form three times: KafkaRaftClient.poll, the RequestManagers of the consumer (KIP-945), and the
(records, response) results of the controller and the new coordinators.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pykraft.common.types import Node

T = TypeVar("T")
U = TypeVar("U")

FOREVER = 1 << 62
"""A deadline that never comes."""


class Failure(Enum):
    """Why a request that was sent has no response. The receiver may or may not have carried it out."""

    DISCONNECTED = "the connection broke, or could not be made"
    TIMED_OUT = "no answer came in time"
    UNSUPPORTED_VERSION = "the peer speaks no version of this API that we speak"


class Outbound(NamedTuple):
    """A request on its way out.

    Requests of one `channel` to one node travel on one connection, in order, and are answered in order. A manager whose
    requests may wait long at the receiver (a fetch) has a channel of its own, so that they do not hold up those of
    others.
    """

    channel: str
    destination: Node
    request: Any
    on_response: Callable[[Any, int], None]
    """Called once with the response message, or a `Failure`, and the time."""
    timeout_ms: int
    waits_for_connection: bool = True
    """Whether it waits where the last connection failed a moment ago. If not, it fails at once: its sender has other
    nodes to ask, and must not lose the time until this one may be tried again."""
    is_to_controller: bool = False
    """It goes to the controllers' listener, whose security protocol may differ from that of the brokers'."""


class Poll(NamedTuple):
    """What a core wants: to be polled again by `deadline`, and these requests sent."""

    deadline: int = FOREVER
    requests: Sequence[Outbound] = ()


class RequestManager(Protocol):
    """A part of a core that sends requests: raft, a replica fetcher, the heartbeats, a producer's sender."""

    def poll(self, now: int) -> Poll: ...


def merge(polls: Sequence[Poll]) -> Poll:
    """The wants of several managers as the want of one."""
    deadline = FOREVER
    requests: list[Outbound] = []
    for poll in polls:
        if poll.deadline < deadline:
            deadline = poll.deadline
        if poll.requests:
            requests += poll.requests
    return Poll(deadline, requests)


class Promise(Generic[T]):
    """A value that may come later. It is kept once, and then calls back what asked for it with `then`.

    A promise may *fail* instead: what was to make the value has raised. An asker that can answer for that says so
    (`then` with `on_failure`); if none does, the error goes to the caller of `fail`, so it is never lost.

    The asker may *abandon* a promise: it does not want the value any more, for instance because the client that sent
    the request has closed its connection. The operation that would keep the promise asks to hear of that with
    `on_abandoned`, and stops waiting. A promise has one asker: those that derive promises from it (`map`) pass
    abandonment on to it.

    A node belongs to one thread, so there is no lock and nothing to wait on: a core never waits. (The façades, which
    other threads wait on, hand out `concurrent.futures.Future`.)
    """

    __slots__ = ("_callbacks", "_failure", "_on_abandoned", "_on_failure", "_value", "abandoned", "kept")

    def __init__(self) -> None:
        self.kept = False
        """Nothing more will come: the value is there, or the promise has failed."""
        self.abandoned = False
        self._value: T | None = None
        self._failure: Exception | None = None
        self._callbacks: list[Callable[[T], None]] = []
        self._on_failure: tuple[Callable[[Exception], None], ...] = ()
        self._on_abandoned: tuple[Callable[[], object], ...] = ()

    @classmethod
    def of(cls, value: T) -> "Promise[T]":
        """A promise that is kept from the start. It can never be abandoned."""
        promise: Promise[T] = cls()
        promise.kept = True
        promise._value = value
        return promise

    @property
    def value(self) -> T:
        """The value of a promise that is kept; raises the error of one that has failed."""
        assert self.kept, "the promise has not been kept yet"
        if self._failure is not None:
            raise self._failure
        return self._value  # type: ignore[return-value]

    def keep(self, value: T) -> None:
        """Give the value to all that asked for it, also if one of them raises; then the first error is raised. On an
        abandoned promise this does nothing."""
        if self.abandoned:
            return
        assert not self.kept, "a promise is kept once"
        self._value = value
        callbacks = self._callbacks
        self._end()
        _call_all(callbacks, value)

    def fail(self, error: Exception) -> None:
        """There will be no value, because of this error: tell those that asked to hear of it. Raises the error if none
        did, also if the promise is abandoned."""
        if self.abandoned:
            raise error
        assert not self.kept, "a promise is kept once"
        self._failure = error
        callbacks = self._on_failure
        self._end()
        if not callbacks:
            raise error
        _call_all(callbacks, error)

    def _end(self) -> None:
        self.kept = True
        self._callbacks, self._on_failure, self._on_abandoned = [], (), ()

    def then(self, callback: Callable[[T], None], on_failure: Callable[[Exception], None] | None = None) -> None:
        """Call back with the value, or with the error of a promise that fails: now, if it is kept, or when it is."""
        if not self.kept:
            if not self.abandoned:
                self._callbacks.append(callback)
                if on_failure is not None:
                    self._on_failure += (on_failure,)
        elif self._failure is None:
            callback(self._value)  # type: ignore[arg-type]
        elif on_failure is not None:
            on_failure(self._failure)
        else:
            raise self._failure

    def map(self, make: Callable[[T], U]) -> "Promise[U]":
        """The promise of what `make` returns for this value. It fails if `make` raises, or if this one fails. When it
        is abandoned, so is this one. (If this one is kept already, what `make` raises comes to the caller.)"""
        if self.kept:
            return Promise.of(make(self.value))
        made: Promise[U] = Promise()
        made.on_abandoned(self.abandon)

        def on_value(value: T) -> None:
            try:
                found = make(value)
            except Exception as error:
                made.fail(error)
            else:
                made.keep(found)

        self.then(on_value, made.fail)
        return made

    def pass_on_to(self, other: "Promise[T]") -> None:
        """Let what becomes of this promise become of the other. When that one is abandoned, so is this one."""
        other.on_abandoned(self.abandon)
        self.then(other.keep, other.fail)

    def abandon(self) -> None:
        """Say that the value is not wanted any more. A promise that is kept stays kept."""
        if self.kept or self.abandoned:
            return
        self.abandoned = True
        self._callbacks, self._on_failure = [], ()
        callbacks, self._on_abandoned = self._on_abandoned, ()
        _call_all(callbacks)

    def on_abandoned(self, callback: Callable[[], object]) -> None:
        """Call back when the promise is abandoned: now, if it is already. Never, if it is kept first.

        Be ready for it at any moment: an answer that cannot be sent closes its connection, which abandons the other
        promises of that connection while `keep` of this one is still on its way."""
        if self.abandoned:
            callback()
        elif not self.kept:
            self._on_abandoned += (callback,)


def gather(promises: Sequence[Promise[Any]]) -> Promise[list[Any]]:
    """The values of all promises, when all are kept. It fails as soon as one of them does."""
    gathered: Promise[list[Any]] = Promise()
    if all(promise.kept for promise in promises):
        return Promise.of([promise.value for promise in promises])
    left = [len(promises)]

    def on_one(_: Any) -> None:
        left[0] -= 1
        if not left[0]:
            gathered.keep([promise.value for promise in promises])

    def on_failure(error: Exception) -> None:
        if not gathered.kept:
            gathered.fail(error)

    for promise in promises:
        gathered.on_abandoned(promise.abandon)
    for promise in promises:
        promise.then(on_one, on_failure)
    return gathered


def _call_all(callbacks: Iterable[Callable[..., object]], *arguments: Any) -> None:
    """Call each, also if one of them raises; then the first error is raised. A failure of a disk comes first: it stops
    the node."""
    fault: Exception | None = None
    for callback in callbacks:
        try:
            callback(*arguments)
        except Exception as error:
            if fault is None or (isinstance(error, OSError) and not isinstance(fault, OSError)):
                fault = error
    if fault is not None:
        raise fault


Steps = Generator[Any, int, T]
"""Work that takes long, done in pieces: it may be interrupted at each yield, is sent the time when it goes on, and
returns a value. What runs it (`broker.turns.slices`) lets others come between."""


def finish(steps: Steps[T]) -> T:
    """What the steps return, without a pause: where nothing else waits, or the work is known to be small."""
    try:
        next(steps)
        while True:
            steps.send(0)
    except StopIteration as end:
        result: T = end.value
        return result


class Clock(Protocol):
    """The time of day, for what is written into records and files, and a stopwatch. The time of day may be set, by
    hours and backwards: what waits for a duration goes by the stopwatch, or by the `now` of each turn."""

    def time_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...

    def elapsed_us(self) -> int:
        """Microseconds since an arbitrary start: the difference of two calls is the time between them."""
        ...


class FileRegion(Protocol):
    """A piece of a file that is to be sent as it is. It takes the place of bytes among the parts of a response, so that
    the network can hand it to the kernel without reading it."""

    def __len__(self) -> int: ...

    def read(self, start: int, length: int) -> bytes:
        """`length` bytes of the region from `start` on. EOFError if the file was cut shorter since."""
        ...

    def send_to(self, socket_fileno: int, start: int) -> int:
        """Let the kernel send the region from `start` on; how many bytes went. EOFError as for `read`."""
        ...
