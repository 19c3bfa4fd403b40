"""What the turns of a node's thread cost: virtual time, by the work that they did.

In most histories a turn takes no time, so no request is ever in the way of a heartbeat. Where a node has a `WorkMeter`,
each turn is charged for what it does, and the node is *busy* for that long: what comes meanwhile waits for the end, and
so does every timer. Then all of it is done in one turn, as a thread does that looks at its sockets again. What the turn
sends leaves when the work before it is done.

Work is counted where a node touches the world or asks about its time:

    turn      one round of the loop
    event     a piece that comes on a connection, or a job that another thread has done
    request   a request that is handled; besides its bytes, those of its answer, and its elements if it is read at once
    message   a request that the node itself sends
    step      a piece of long work: whenever a slice of time is asked whether it is over
    change    an operation that changes the disk
    replay    a record that the coordinator of groups takes in, and in the same way that of transactions
    trial     a request in purgatory that is tried again

A node's slices end by this clock (`WorkSlice`), as they do by the real one. The costs are those of an idle machine, by
rough measure; a seed draws how many times slower its machines are.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pykraft.broker.node import Node
from pykraft.broker.requests.long_answers import LARGE_REQUEST_BYTES
from pykraft.common.core import Promise
from pykraft.common.time_slice import LONG_STEPS, SLICE_US
from pykraft.protocol.schema import Struct
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.sim.world.scheduler import Scheduler
from pykraft.transport.server_channel import InboundRequest
from pykraft.transport.server_connection import Answer, QueuedRequest, RequestChannel

COSTS_US: Mapping[str, float] = MappingProxyType(
    {
        "turn": 20,
        "event": 20,
        "request": 60,
        "element": 2,
        "byte": 0.005,
        "message": 40,
        "step": 5,
        "change": 10,
        "replay": 5,
        "transactional replay": 5,
        "trial": 5,
    }
)
"""Microseconds for one of each."""
REPLAYS = ("replay", "transactional replay")
"""What the coordinators of groups and of transactions take in."""


class WorkMeter:
    """The work of one node, turn by turn."""

    def __init__(self, scheduler: Scheduler, filesystem: MemoryFileSystem, slowness: int) -> None:
        self._scheduler = scheduler
        self._filesystem = filesystem
        self.slowness = slowness
        self._charged_us = 0.0
        self._changes_before = filesystem.operations
        self.done: Counter[str] = Counter()
        """What this turn has done."""
        self.busy_until_us = 0
        self.on_turn: Callable[[int, Counter[str]], None] = lambda spent_us, done: None
        """Hears what each turn has cost, and of what."""

    @property
    def is_busy(self) -> bool:
        return self.busy_until_us > self._scheduler.now_us

    @property
    def spent_us(self) -> int:
        """What this turn has cost up to now."""
        changes = self._filesystem.operations - self._changes_before
        return round(self._charged_us + changes * COSTS_US["change"] * self.slowness)

    def add(self, kind: str, count: int = 1) -> None:
        self.done[kind] += count
        self._charged_us += COSTS_US[kind] * count * self.slowness

    def begin_turn(self) -> None:
        self._charged_us, self._changes_before = 0.0, self._filesystem.operations
        self.done.clear()
        self.add("turn")

    def end_turn(self, is_first: bool = False) -> None:
        """The node is busy for as long as this turn has cost. In its first one it has read its disk."""
        spent_us = self.spent_us
        self.busy_until_us = self._scheduler.now_us + spent_us
        self.done["change"] = self._filesystem.operations - self._changes_before
        self._charged_us, self._changes_before = 0.0, self._filesystem.operations
        if not is_first:
            self.on_turn(spent_us, self.done)

    def count(self, node: Node) -> None:
        """Count what this node's coordinators and purgatories do from now on."""
        if node.broker is None:
            return
        replicas = node.broker.replicas
        for purgatory in (replicas.produces, replicas.fetches, replicas.deletes):
            purgatory._try = self._counted("trial", purgatory._try)  # type: ignore[method-assign]
        groups, transactions = node.broker.groups.runtime, node.broker.transactions.runtime
        groups._make_shard = self._counting_shard(REPLAYS[0], groups._make_shard)
        transactions._make_shard = self._counting_shard(REPLAYS[1], transactions._make_shard)

    def _counted(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.add(kind)
            return function(*arguments)

        return counted

    def _counting_shard(self, kind: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def make_counting(*arguments: Any) -> Any:
            shard = make(*arguments)
            shard.replay = self._counted(kind, shard.replay)
            return shard

        return make_counting


class MeteredNode:
    """A node, as its connections see it: each request that it handles is counted."""

    def __init__(self, node: Node, meter: WorkMeter) -> None:
        self._node = node
        self._meter = meter

    def handle(self, inbound: InboundRequest, now: int) -> Answer | Promise[Answer]:
        self._meter.add("request")
        size = inbound.context.size_bytes
        self._meter.add("byte", size)
        if size <= LARGE_REQUEST_BYTES:  # a larger one was read in steps
            self._meter.add("element", elements(inbound.message))
        return self._node.handle(inbound, now)


class MeteredChannel(RequestChannel):
    """The queue of a node whose answers are counted."""

    meter: WorkMeter

    def deliver(self, request: QueuedRequest) -> QueuedRequest | None:
        self.meter.add("byte", sum(map(len, request.parts)))
        return super().deliver(request)


class WorkSlice:
    """A slice of time that ends by the work that was done in it."""

    def __init__(self, meter: WorkMeter) -> None:
        self._meter = meter
        self._ends_us = 0

    def begin(self) -> None:
        self._ends_us = self._meter.spent_us + SLICE_US

    def is_over(self) -> bool:
        self._meter.add("step")
        return self._meter.spent_us >= self._ends_us

    def is_long(self, steps: int) -> bool:
        self._meter.add("step")
        return steps >= LONG_STEPS


def elements(value: Any) -> int:
    """How many elements the lists of a message have, in all."""
    if isinstance(value, Struct):
        return sum(map(elements, value.__dict__.values()))
    if isinstance(value, list | tuple):
        return len(value) + sum(map(elements, value))
    return 0
