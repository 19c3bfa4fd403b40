"""The world of an incident: the nodes of a simulated cluster, the programs that use it, and a clock that is let on.

The nodes and clients are the real ones; clock, network and disks are the simulator's. No time passes by itself:
`run_to` lets the world go on up to a moment. So a minute costs less than a second, and the same seed with the same
deeds at the same moments is the same history on any machine.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from pykraft.broker.broker import Broker
from pykraft.broker.describe import describe
from pykraft.broker.replication.partition import Partition
from pykraft.cluster_view import ClusterView
from pykraft.common.core import FOREVER, RequestManager
from pykraft.common.types import ReplicaKey, TopicPartition
from pykraft.course.incidents.client_host import SimulatedHosts
from pykraft.sim.cluster import FIRST_CONTROLLER_ID, SimulatedCluster
from pykraft.sim.node_files import BROKER_PORT, CONTROLLER_PORT
from pykraft.sim.trouble.knobs import Knobs, calm, draw
from pykraft.sim.trouble.voter_changes import VoterKnobs
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.sim.world.hosts import EPOCH_MS, SimulatedNode
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.storage.disk.checkpoint import read_meta_properties
from pykraft.story.views import as_view

_PROPERTIES = {
    "replica.lag.time.max.ms": 10_000,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 1_000,
}
"""What an incident has instead of Kafka's defaults, so that a reader waits for seconds."""


_DYNAMIC = VoterKnobs(
    first=0, spare=1, administrators=0, every_ms=0, again_ms=0, of_leader=0.0, joins=False, fault_every_ms=0
)  # fmt: skip
"""A quorum whose voters come and go: all controllers but the last are its first voters. No one changes it by lot."""


def _knobs(seed: int, brokers: int, properties: Mapping[str, int], controllers: int) -> Knobs:
    """A quiet cluster without clients. With more than one controller its quorum is a dynamic one."""
    given = {**_PROPERTIES, **properties}
    return replace(
        calm(draw(seed)), brokers=brokers, controllers=controllers, partitions=1,
        voters=_DYNAMIC if controllers > 1 else None, topic={}, producers=(), consumers=(),
        groups=(), transactions=None, background_us=100, storm_until_ms=FOREVER, properties=given,
        features={"eligible.leader.replicas.version": 0},
    )  # fmt: skip


class _NodesOnly(SimulatedCluster):
    """The nodes; the clients are the incident's, and no law is checked."""

    def _make_clients(self) -> None:
        """There are no others."""

    def replace_disk(self, machine: SimulatedNode, key: ReplicaKey) -> None:
        """An empty disk, formatted for this cluster; `key` is what the old one was to the quorum."""
        self.watcher.forget_disk(machine, key)
        machine.filesystem = MemoryFileSystem()
        self._format(machine)

    def _before_end(self, machine: SimulatedNode) -> None:
        if machine.node is not None:
            last = describe(machine.node, tail_of=self._tails)
            self._last_seen[machine.node_id] = last._replace(is_alive=False)


class World:
    """A cluster with its programs."""

    def __init__(
        self, seed: int, brokers: int = 3, properties: Mapping[str, int] | None = None, controllers: int = 1
    ) -> None:
        self.seed = seed
        self.cluster = _NodesOnly(seed, _knobs(seed, brokers, properties or {}, controllers))
        self.scheduler = self.cluster.scheduler
        self.brokers = list(range(1, brokers + 1))
        self.controllers = [FIRST_CONTROLLER_ID + number for number in range(controllers)]
        self.servers = ",".join(f"node-{number}:{BROKER_PORT}" for number in self.brokers)
        self.controller_servers = ",".join(f"node-{number}:{CONTROLLER_PORT}" for number in self.controllers)
        self.hosts = SimulatedHosts(self.scheduler, self.cluster.network, "you")

    # --- its clock ----------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.scheduler.now

    @property
    def time_ms(self) -> int:
        """The time of day, as on the records."""
        return EPOCH_MS + self.scheduler.now

    def run_to(self, ms: int) -> None:
        """Let the world go on up to this moment."""
        until_us = ms * US_PER_MS
        self.scheduler.at(until_us, _nothing)
        while self.scheduler.now_us < until_us:
            self.scheduler.run_next()

    def after(self, ms: int, act: Callable[[], None]) -> None:
        self.scheduler.after(ms * US_PER_MS, act)

    def chance(self, name: str) -> Random:
        return Random(f"{self.seed}/{name}")

    def start(self, name: str, core: RequestManager) -> SimulatedClient:
        """A program starts on a host of its own."""
        host = SimulatedClient(name, core, self.scheduler, self.cluster.network, self.chance(f"{name} host"))
        host.act(_nothing)
        return host

    # --- its nodes ----------------------------------------------------------------------------------------------------

    def is_up(self, node: int) -> bool:
        return self.cluster.nodes[node].is_up

    def crash(self, node: int) -> None:
        """The process ends; what it wrote stays, and nothing starts it again."""
        machine = self.cluster.nodes[node]
        machine.is_kept_down = True
        if machine.is_up:
            machine.crash()

    def lose_power(self, node: int) -> None:
        """The machine stops; what was not synced is lost, as the dice fall."""
        machine = self.cluster.nodes[node]
        if machine.is_up:
            machine.lose_power(self.chance(f"power of {node}"))

    def replace_disk(self, node: int) -> None:
        """A node that is down gets an empty disk, formatted for this cluster: it has its id, and another directory."""
        self.cluster.replace_disk(self.cluster.nodes[node], self.key_of(node))

    def key_of(self, node: int) -> ReplicaKey:
        """What a node's disk is to the quorum."""
        machine = self.cluster.nodes[node]
        found = read_meta_properties(machine.filesystem, machine.config.metadata_dir)
        assert found is not None
        return ReplicaKey(node, found.directory_id)

    def boot(self, node: int) -> None:
        """A node that is down starts on its disk."""
        machine = self.cluster.nodes[node]
        machine.is_kept_down = False
        if not machine.is_up:
            machine.start()

    def restart(self, node: int) -> None:
        """Stop a node in order, and start it again; one that is down starts."""
        machine = self.cluster.nodes[node]
        if machine.is_up:
            machine.stop()
            limit_ms = self.now_ms + 30_000
            while machine.is_up and self.now_ms < limit_ms:
                self.scheduler.run_next()
            if machine.is_up:
                machine.crash()
        self.boot(node)

    def brokers_up(self) -> dict[int, Broker]:
        found = ((n, self.cluster.nodes[n].node) for n in self.brokers)
        return {n: node.broker for n, node in found if node is not None and node.broker is not None}

    def replicas(self, topic: str, partition: int) -> dict[int, Partition]:
        """What the brokers that run have of a partition."""
        key = TopicPartition(topic, partition)
        found = {n: broker.replicas.partitions.get(key) for n, broker in self.brokers_up().items()}
        return {n: each for n, each in found.items() if each is not None}

    def leader(self, topic: str, partition: int) -> Partition | None:
        """The replica that leads, as those that run know it; the highest epoch is right."""
        leaders = [each for each in self.replicas(topic, partition).values() if each.is_leader]
        return max(leaders, key=lambda each: each.leader_epoch, default=None)

    def in_sync(self, topic: str, partition: int) -> frozenset[int]:
        """The ISR that the leader knows; empty without a leader."""
        leader = self.leader(topic, partition)
        return frozenset() if leader is None else frozenset(leader.isr_state.isr)

    def describe(self) -> ClusterView:
        nodes = {node_id: self.cluster.describe(node_id) for node_id in self.cluster.nodes}
        return as_view(self.cluster, nodes, ())


def _nothing() -> None:
    """Only time passes."""
