"""The laws of time and memory, where work takes time (`sim.world.work`).

*Turns are short.* While a node's thread is in a turn, its heartbeats and votes wait. So a turn ends after
`MOST_TURN_US` of work, however much its clients ask for: long work is done in slices. What cannot be interrupted costs
more on a slower machine. Records that a coordinator takes in are bounded by their number: when it loads,
`RECORDS_PER_TURN` for its shards, and for its committed views as many and a tenth of what they may keep.

*Being busy is not being dead.* A broker whose machine runs, in a network that delivers, is not fenced, however many
requests it gets. This is looked at in quiet histories, where no fault comes.

*What a node holds* is bounded by what its clients have open. Counted are

=====================  ================================================================================================
delayed operations     each is that of a request on a connection that is open, and waits for its answer
fetch sessions         no more than ``max.incremental.fetch.session.cache.slots``
queued requests        no more than ``queued.max.requests``
connections            one whose client has hung up is closed when it is looked at and its request is answered
bytes of buffers       what was read and not handled, and answers that were not sent: `MOST_BUFFER_BYTES` a connection
timers                 one for each delayed operation, connection and member, and a few of the node's own
=====================  ================================================================================================
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pykraft.broker.settings.socket_config import QUEUED_MAX_REQUESTS
from pykraft.coordinator.replay_turn import RECORDS_PER_TURN
from pykraft.metadata.image import MetadataImage
from pykraft.sim.laws.invariants import require
from pykraft.sim.laws.progress import Progress
from pykraft.sim.world.hosts import MAX_HANDLING_US, SimulatedNode
from pykraft.sim.world.work import COSTS_US, REPLAYS

_LONG_US = 5_000
"""A turn of more work is counted as a long one."""
MOST_TURN_US = MAX_HANDLING_US + 10_000
MOST_UNCUT_US = 10_000
"""Besides, on a machine of usual speed: what a turn may do in one piece."""
MOST_REPLAYS = RECORDS_PER_TURN
"""Of each coordinator, the groups' and the transactions'."""
MOST_BUFFER_BYTES = 256 * 1024
_MOST_OWN_TIMERS = 100


class Held(NamedTuple):
    """What a node holds."""

    delayed: int
    sessions: int
    queued: int
    connections: int
    abandoned: int
    """Connections whose clients have hung up, and wait for no answer."""
    buffer_bytes: int
    timers: int


class WorkLaws:
    """The laws of one run."""

    def __init__(
        self,
        nodes: Mapping[int, SimulatedNode],
        image: Callable[[], MetadataImage | None],
        is_quiet: bool,
        progress: Progress,
    ) -> None:
        self._nodes = nodes
        self._image = image
        self._is_quiet = is_quiet
        self._progress = progress
        self._last: MetadataImage | None = None

    def watch(self, machine: SimulatedNode) -> None:
        """See the turns of this node."""
        assert machine.work is not None
        machine.work.on_turn = lambda spent_us, done: self._check_turn(machine, spent_us, done)

    def _check_turn(self, machine: SimulatedNode, spent_us: int, done: Counter[str]) -> None:
        assert machine.work is not None
        self._progress.long_turns += spent_us > _LONG_US
        replays_us = sum(COSTS_US[kind] * min(done[kind], MOST_REPLAYS) for kind in REPLAYS)
        most_us = MOST_TURN_US + machine.work.slowness * (MOST_UNCUT_US + replays_us)
        require(
            spent_us <= most_us,
            f"a turn of node {machine.node_id} takes {spent_us / 1000:.1f} ms of work, {most_us / 1000:.1f} ms are "
            f"allowed: {dict(done.most_common())}",
        )

    def look(self, machine: SimulatedNode) -> None:
        """After a turn of this node."""
        if self._is_quiet:
            self._look_at_fences()
        self._check_held(machine)

    def _look_at_fences(self) -> None:
        image = self._image()
        if image is None or image is self._last:
            return
        before, self._last = self._last, image
        for node_id, broker in image.brokers.items():
            was = None if before is None else before.brokers.get(node_id)
            if was is not None and was.epoch == broker.epoch and not was.fenced:
                require(not broker.fenced, f"broker {node_id} runs, and is fenced: it was too busy for its heartbeats")

    def _check_held(self, machine: SimulatedNode) -> None:
        node = machine.node
        if node is None or node.broker is None:
            return
        held, where = held_by(machine), f"node {machine.node_id} holds"
        broker, waiting = node.broker, sum(each.connection._waiting is not None for each in machine.streams)
        slots, capacity = broker.fetch_sessions._slots, node.config.values[QUEUED_MAX_REQUESTS]
        require(held.delayed <= waiting, f"{where} {held.delayed} delayed operations; {waiting} connections wait")
        require(held.sessions <= slots, f"{where} {held.sessions} fetch sessions; {slots} are allowed")
        require(held.queued <= capacity, f"{where} {held.queued} requests in its queue; {capacity} are allowed")
        gone, unseen = held.abandoned, machine.unseen_events + held.queued
        require(gone <= unseen, f"{where} {gone} connections without a client; {unseen} were not looked at")
        most_bytes = held.connections * MOST_BUFFER_BYTES
        require(
            held.buffer_bytes <= most_bytes, f"{where} {held.buffer_bytes} bytes for {held.connections} connections"
        )
        timers = _MOST_OWN_TIMERS + 2 * (held.delayed + held.connections)
        require(held.timers <= timers, f"{where} {held.timers} timers; {timers} are enough for what it does")


def held_by(machine: SimulatedNode) -> Held:
    """What a broker holds now, by its own structures."""
    assert machine.node is not None and machine.node.broker is not None
    broker, connections = machine.node.broker, [stream.connection for stream in machine.streams]
    replicas = broker.replicas
    return Held(
        delayed=len(replicas.produces) + len(replicas.fetches) + len(replicas.deletes),
        sessions=len(broker.fetch_sessions),
        queued=machine.queued_requests,
        connections=len(connections),
        abandoned=sum(each.has_hung_up and each.connection._waiting is None for each in machine.streams),
        buffer_bytes=sum(
            each.channel.frames.end - each.channel.frames.start + each._held_bytes for each in connections
        ),
        timers=len(machine.node.timer),
    )
