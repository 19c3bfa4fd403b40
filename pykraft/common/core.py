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

from collections.abc import Callable, Generator, Sequence
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

    The asker may *abandon* a promise: it does not want the value any more, for instance because the client that sent
    the request has closed its connection. The operation that would keep the promise asks to hear of that with
    `on_abandoned`, and stops waiting. A promise has one asker: those that derive promises from it (`map`) pass
    abandonment on to it.

    A node belongs to one thread, so there is no lock and nothing to wait on: a core never waits. (The façades, which
    other threads wait on, hand out `concurrent.futures.Future`.)
    """

    __slots__ = ("_callbacks", "_on_abandoned", "_value", "abandoned", "kept")

    def __init__(self) -> None:
        self.kept = False
        self.abandoned = False
        self._value: T | None = None
        self._callbacks: list[Callable[[T], None]] = []
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
        assert self.kept, "the promise has not been kept yet"
        return self._value  # type: ignore[return-value]

    def keep(self, value: T) -> None:
        """Give the value to all that asked for it, also if one of them raises; then the first error is raised. On an
        abandoned promise this does nothing."""
        if self.abandoned:
            return
        assert not self.kept, "a promise is kept once"
        self.kept = True
        self._value = value
        self._on_abandoned = ()
        callbacks, self._callbacks = self._callbacks, []
        fault: Exception | None = None
        for callback in callbacks:
            try:
                callback(value)
            except Exception as error:
                fault = fault or error
        if fault is not None:
            raise fault

    def then(self, callback: Callable[[T], None]) -> None:
        """Call back with the value: now, if the promise is kept, or when it is."""
        if self.kept:
            callback(self._value)  # type: ignore[arg-type]
        elif not self.abandoned:
            self._callbacks.append(callback)

    def map(self, make: Callable[[T], U]) -> "Promise[U]":
        """The promise of what `make` returns for this value. When it is abandoned, so is this one."""
        if self.kept:
            return Promise.of(make(self._value))  # type: ignore[arg-type]
        made: Promise[U] = Promise()
        made.on_abandoned(self.abandon)
        self.then(lambda value: made.keep(make(value)))
        return made

    def abandon(self) -> None:
        """Say that the value is not wanted any more. A promise that is kept stays kept."""
        if self.kept or self.abandoned:
            return
        self.abandoned = True
        self._callbacks = []
        callbacks, self._on_abandoned = self._on_abandoned, ()
        for callback in callbacks:
            callback()

    def on_abandoned(self, callback: Callable[[], object]) -> None:
        """Call back when the promise is abandoned: now, if it is already. Never, if it is kept first.

        Be ready for it at any moment: an answer that cannot be sent closes its connection, which abandons the other
        promises of that connection while `keep` of this one is still on its way."""
        if self.abandoned:
            callback()
        elif not self.kept:
            self._on_abandoned += (callback,)


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
    """The time of day, for what is written into records and files, and a stopwatch; neither is for deadlines."""

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
