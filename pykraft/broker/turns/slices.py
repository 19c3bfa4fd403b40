"""Requests that are lists, answered item by item, a slice of time at a time.

One thread owns a node, and heartbeats wait for whatever that thread does. A request may name ten thousand partitions,
or bring thirty batches that each unpack to megabytes. So a handler of such a request does not walk through it. It
declares what the request is a list of, how one item is answered, and how the answers are put together::

    def list_offsets(self, request, context, now):
        asked = {...}                                    by partition
        return ItemByItem(list(asked.items()), partial(self._offset, request), partial(_response, request))

The dispatcher works through the items until its slice of time is over. Then the node looks after itself and serves
others, and the request goes on in the next turn of the loop, with the time as it is then. Time is measured here and
nowhere else (`common.time_slice`): a handler counts nothing, and a request of one item is a plain call.

**An item that takes long** is answered in *steps*: `answer` may return a generator, which yields wherever it may be
interrupted, and returns the answer. Whether it is interrupted there, the slice decides.

**What is put together** may be a list again, or a promise: `gather` returns whatever a handler may return. A produce
first checks its batches, then waits for what the transaction's coordinator says of them, then appends, then answers.

**Only reads are sliced freely.** Between two slices anything may change: a leader epoch, a group's generation, the
topic itself. A read answers each item as it finds it. A write (`is_write`) either does all that depends on one decision
within one item, as a commit does, whose plan is one item; or it asks again what it has decided on, as a produce does
after the steps in which a batch was checked. And once begun it goes to its end, also if its client hangs up: half of a
request must not be what remains of it. Of a read, the rest is dropped with the client.

While a request is worked through its connection takes no other one: order is kept, and the bytes of its records stay
where they are.

This is ours: Kafka's request handlers are threads of their own and need not pause.
"""

from collections.abc import Callable, Sequence
from types import GeneratorType
from typing import Any, NamedTuple

from pykraft.common.core import FOREVER, Promise, Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.rooms import Room
from pykraft.common.time_slice import TimeSlice, take_steps
from pykraft.protocol.schema import Struct
from pykraft.transport.server_channel import InboundRequest

MAX_ANSWER_BYTES = 64 << 20
"""An answer may have this many bytes, as far as its items are weighed. It is built in memory before it is sent."""


class ItemByItem(NamedTuple):
    """A request, or a part of its handling, that is the same for each item of a list."""

    items: Sequence[Any]
    answer: Callable[[Any, int], Any]
    """``answer(item, now)``: the item's answer, or the steps that lead to it."""
    gather: Callable[[list[Any], int], Any]
    """``gather(answers, now)``: what the request comes to, as a handler would return it. Called at once if there are no
    items."""
    is_write: bool = False
    """The rest is done even if the client has hung up."""
    is_large: bool = False
    """Few items make a large answer: it is encoded in slices."""
    weigh: Callable[[Any], int] | None = None
    """How many bytes an answer is worth, if few bytes of a request can bring many of an answer. A request that comes to
    more than `MAX_ANSWER_BYTES` is refused before the rest of its answer is built."""


class Weights:
    """Weighs the parts of answers, each object once: what is named again and again is described once, and is encoded
    again and again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Struct, int]] = {}

    def __call__(self, part: Struct) -> int:
        known = self._known.get(id(part))
        if known is None:
            known = self._known[id(part)] = part, _size(part)
        return known[1]


def _size(value: Any) -> int:
    """About how many bytes a value has in an answer."""
    if isinstance(value, Struct):
        return sum(map(_size, value.__dict__.values()))
    if isinstance(value, list | tuple):
        return 4 + sum(map(_size, value))
    return 2 + len(value) if isinstance(value, str | bytes) else 4


class Work:
    """One request, from its handler's first word to its answer."""

    __slots__ = (
        "_bytes",
        "_position",
        "_steps",
        "answers",
        "handling_us",
        "inbound",
        "is_large",
        "is_refused",
        "listed",
        "promise",
    )

    def __init__(self, inbound: InboundRequest) -> None:
        self.inbound = inbound
        self.listed: ItemByItem | None = None
        """What is worked through now."""
        self.answers: list[Any] = []
        self.promise: Promise[Any] | None = None
        """Of the answer, once it is known that it comes later."""
        self.handling_us = 0
        self.is_large = False
        """Its answer is about many items."""
        self.is_refused = False
        """The answer is a refusal of it all."""
        self._position = self._bytes = 0
        self._steps: Steps[Any] | None = None
        """Of the item that was interrupted."""

    def go_on(self, listed: ItemByItem, time_slice: TimeSlice, now: int) -> bool:
        """Answer the items of this list until the slice is over; whether all are answered."""
        if listed is not self.listed:
            self.listed, self.answers, self._position = listed, [], 0
        items, answer, _, _, _, weigh = listed
        answers, position, count = self.answers, self._position, len(items)
        while position < count:
            found: Any = self._steps or answer(items[position], now)
            if type(found) is GeneratorType:
                sent = None if self._steps is None else now  # a generator begins with None
                self._steps, self._position = found, position
                is_done, found = take_steps(found, sent, time_slice, now)
                if not is_done:
                    return False
                self._steps = None
            answers.append(found)
            position += 1
            if weigh is not None:
                self._weigh(weigh(found))
            if position < count and time_slice.is_over():
                self._position = position
                return False
        return True

    def _weigh(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_ANSWER_BYTES:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the answer would have more than {MAX_ANSWER_BYTES} bytes: ask for less at once",
            )

    def close(self) -> None:
        """It is not worked through any more."""
        if self._steps is not None:
            self._steps.close()


class Slices:
    """The requests of a node that were interrupted. They go on in turn, one slice for all of them in a turn of the
    loop, so that a hundred of them take no more of the node's time than one."""

    def __init__(self, time_slice: TimeSlice, go_on: Callable[[Work, int], None]) -> None:
        """`go_on(work, now)` goes on with a request, and lets it pause here again if it has to."""
        self._time_slice = time_slice
        self._go_on = go_on
        self.room = Room("slices")
        self._paused: dict[Work, None] = {}
        """In the order in which they go on."""

    def __len__(self) -> int:
        return len(self._paused)

    def pause(self, work: Work) -> None:
        """The slice is over: go on with this in another turn."""
        self._paused[work] = None
        self.room.mark("paused")

    def drop(self, work: Work) -> None:
        """The client has hung up. A write goes on all the same."""
        if work in self._paused and not (work.listed is not None and work.listed.is_write):
            del self._paused[work]
            work.close()

    def poll(self, now: int) -> int:
        """Go on, and again in the next turn if some are left."""
        self.go_on(now)
        return now if self._paused else FOREVER

    def go_on(self, now: int) -> None:
        """Go on with those that can, for a slice."""
        if not self._paused:
            return
        self._time_slice.begin()
        for work in list(self._paused):
            if work in self._paused:  # else its client has hung up a moment ago
                del self._paused[work]
                self._go_on(work, now)
                if self._time_slice.is_over():
                    return
