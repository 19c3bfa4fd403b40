"""A scenario: a producer on a simulated cluster of three brokers; one or all end while records are on their way.

::

    run = VirtualFailover(acks="1")
    run.crash_leader(at_ms=47)
    run.send(100, records_per_s=1000)
    run.acknowledged, run.lost          numbers; lost are those that were acknowledged and that no reader will find

    lanes, steps = VirtualFailover(acks="all").one_way()
    record_way(lanes, steps, title="...")       the way of one record, and which message satisfies which acks

It is a `VirtualProducer` with three replicas. The controller is a node of its own, so the quorum is not concerned. A
message takes half a round trip on every link, also between brokers. A broker that does not send a heartbeat for 600 ms
is fenced.

A crash ends a process: what it wrote stays in its machine's memory and on its disk. When the power fails, what was not
synced to the disk is lost, as the dice fall; the machines start again a second later.
"""

from collections.abc import Mapping
from typing import ClassVar

from pykraft.course.rigs.virtual_producer import VirtualProducer
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.viz.clients.record_chart import COMMITTED, UNCOMMITTED, Copy, Way

_PRODUCER = "producer"
_OFF_MS = 1_000
_UNDER_WAY_MS, _SETTLED_MS = 1_000, 5_000


class VirtualFailover(VirtualProducer):
    """One producer, three brokers with a replica each, and what befalls them."""

    REPLICAS = 3
    PROPERTIES: ClassVar[Mapping[str, int]] = {
        "broker.session.timeout.ms": 600,
        "broker.heartbeat.interval.ms": 100,
        "replica.lag.time.max.ms": 1_000,
    }

    _seen: list[tuple[float, int, int, str]] | None = None
    """While one record is followed: when, at which broker, where its log ends, and whether that is committed."""

    def crash_leader(self, at_ms: float) -> None:
        """The leader's process ends this many milliseconds after the next `send` begins, and stays away."""
        self._troubles.append((at_ms, lambda: self._machine(self._leader().config.node_id).crash()))

    def lose_power(self, at_ms: float) -> None:
        """All three machines stop at this moment, and start again a second later."""
        self._troubles.append((at_ms, self._lose_power))

    def slow_follower(self, ms: float) -> None:
        """From now on each message between the leader and one follower takes so much longer."""
        leader, follower = f"node-{self._leader().config.node_id}", f"node-{self._followers()[0]}"
        for link in ((leader, follower), (follower, leader)):
            self._cluster.network.slow_down(*link, round(ms * US_PER_MS))

    def leave_out(self, followers: int) -> None:
        """Cut so many followers off from the leader, and wait until the ISR is without them."""
        leader = self._leader().config.node_id
        for other in self._followers()[:followers]:
            self._cut(leader, other)
        self._pass(self.PROPERTIES["replica.lag.time.max.ms"] * 2 + _UNDER_WAY_MS)

    def cut_followers_off(self, at_ms: float) -> None:
        """From this moment on the leader and the followers do not hear each other."""
        self._troubles.append((at_ms, self._cut_followers_off))

    # --- what was seen ------------------------------------------------------------------------------------------------

    @property
    def acknowledged(self) -> list[int]:
        """The numbers of the records whose acknowledgement the program has received."""
        return sorted(self._latency)

    @property
    def lost(self) -> list[int]:
        """Those that were acknowledged and are not in the log that the cluster goes on with."""
        self._settle()
        return sorted(set(self._latency) - set(self.log))

    @property
    def waits(self) -> list[tuple[float, float | None]]:
        """Of each record, in the order of their numbers, when the program sent it and when it was acknowledged, if it
        was: milliseconds since `send` began."""
        return [
            (taken, taken + self._latency[number] if number in self._latency else None)
            for number, taken in sorted(self._taken.items())
        ]

    def one_way(self) -> tuple[list[str], list[Way]]:
        """Send one record: the columns and the steps of its way, as `pykraft.viz.record_way` draws them. The first
        follower is the one that has the record first."""
        self._known, self._seen = self._ends(), []
        self.send(1, records_per_s=1)
        seen, self._seen = self._seen, None
        leader = seen[0][1]
        followers = list(dict.fromkeys(number for _, number, _, _ in seen if number != leader))
        lanes = {leader: "leader"} | {number: f"follower {place}" for place, number in enumerate(followers, 1)}
        steps = [Way(0, _PRODUCER, "sends the record; acks=0 waits for nothing more")]
        for at_ms, number, end, state in seen:
            copies = {**steps[-1].copies, lanes[number]: Copy(end - 1, state)}
            said, source = "has copied it", "leader"
            if number == leader:
                said, source = "appends it; acks=1 is answered", _PRODUCER
                if state == COMMITTED:
                    said = "hears that both have it: it is committed, and acks=all is answered"
                    source = lanes[followers[-1]]
            steps.append(Way(at_ms, lanes[number], said, source, copies))
        steps.append(Way(self.latency_ms(), _PRODUCER, "hears of it", "leader", steps[-1].copies))
        return [_PRODUCER, *lanes.values()], steps

    def _ends(self) -> dict[int, tuple[int, bool]]:
        """Of each broker, where its log of partition 0 ends, and whether it leads and has committed all of it."""
        found = {}
        for node, partition in self._replicas():
            end, mark = partition.log.log_end_offset, partition.log.high_watermark
            found[node.config.node_id] = end, partition.is_leader and mark == end
        return found

    def _look(self) -> None:
        if self._seen is None:
            return
        ends = self._ends()
        for number, (end, is_committed) in ends.items():
            if (end, is_committed) != self._known[number]:
                self._seen.append((self._now_ms(), number, end, COMMITTED if is_committed else UNCOMMITTED))
        self._known = ends

    # --- what befalls them --------------------------------------------------------------------------------------------

    def _machine(self, node_id: int) -> SimulatedNode:
        return self._cluster.nodes[node_id]

    def _lose_power(self) -> None:
        for node_id in range(1, self.REPLICAS + 1):
            machine = self._machine(node_id)
            machine.lose_power(self._chance(f"power of {node_id}"))
            self._scheduler.after(_OFF_MS * US_PER_MS, machine.start)

    def _cut_followers_off(self) -> None:
        for other in self._followers():
            self._cut(self._leader().config.node_id, other)

    def _followers(self) -> list[int]:
        leader = self._leader().config.node_id
        return [node for node in range(1, self.REPLICAS + 1) if node != leader]

    def _cut(self, one: int, other: int) -> None:
        self._cluster.network.cut(f"node-{one}", f"node-{other}")
        self._cluster.network.cut(f"node-{other}", f"node-{one}")

    def _settle(self) -> None:
        """Let a second pass, so that what is under way arrives; then wait for a leader, five seconds at most."""
        self._pass(_UNDER_WAY_MS)
        for _ in range(_SETTLED_MS // _UNDER_WAY_MS):
            if not any(partition.is_leader for _, partition in self._replicas()):
                self._pass(_UNDER_WAY_MS)

    def _pass(self, milliseconds: int) -> None:
        until_us = self._scheduler.now_us + milliseconds * US_PER_MS
        self._scheduler.at(until_us, lambda: None)
        self._run(self._host, lambda: self._scheduler.now_us >= until_us)
