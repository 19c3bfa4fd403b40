"""Faults that look for who leads and who coordinates: cuts that part the clients too, and leaders that fall in a row.

What each does is in the docstring of `trouble.one_sided`. All that is drawn is drawn when a fault comes: what follows
from it later, as the second fall of a cascade, draws nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from pykraft.common.types import TopicIdPartition
from pykraft.sim.laws.progress import Progress
from pykraft.sim.trouble.outages import Outages
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.network import Link, Network
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler

_LOOK_US = 10 * US_PER_MS
_PATIENCE_US = 4_000 * US_PER_MS
"""For so long a cascade waits for the next leader."""
_LONGEST_LAG_MS = 300
_LAGS = 0.6
"""How likely a follower of a leader that is about to fall lags."""
_LONGEST_CLIENT_CUT_MS = 2_500


class _Fall(NamedTuple):
    """One leader of a cascade."""

    lagging: frozenset[str]
    """These nodes hear it late, if they are its followers,"""
    clog_us: int
    """for this long,"""
    after_us: int
    """and after this time it crashes."""


class AimedFaults:
    """Brings them to one cluster."""

    def __init__(
        self,
        nodes: Mapping[int, SimulatedNode],
        brokers: int,
        session_ms: int,
        scheduler: Scheduler,
        network: Network,
        outages: Outages,
        random: Random,
        report: Callable[[str, dict[str, object]], None],
        crash: Callable[[SimulatedNode], None],
        progress: Progress,
        is_calm: Callable[[], bool],
    ) -> None:
        """`session_ms` is for how long a broker may be silent. While it is calm no leader falls."""
        self._nodes = nodes
        self._brokers = [nodes[node_id] for node_id in range(1, brokers + 1)]
        self._session_ms = session_ms
        self._scheduler = scheduler
        self._network = network
        self._outages = outages
        self._random = random
        self._report = report
        self._crash = crash
        self._progress = progress
        self._is_calm = is_calm

    # --- cuts ---------------------------------------------------------------------------------------------------------

    def side_cut(self) -> None:
        """A leader with some clients on one side, all else on the other."""
        leaders = [machine for machine in self._brokers if self._led_by(machine)]
        if not leaders:
            return
        leader, random = self._random.choice(leaders), self._random
        with_leader = [name for name in self._clients() if random.random() < 0.5]
        without = [name for name in self._clients() if name not in with_leader and random.random() < 0.7]
        duration_us = random.randint(self._session_ms, 4 * self._session_ms) * US_PER_MS
        lasts_us = random.choice((0, 0, random.randint(0, _LONGEST_CLIENT_CUT_MS))) * US_PER_MS
        self._progress.client_cuts += 1
        self._outages.cut(_both_ways([leader.name], [each.name for each in self._others(leader)]), duration_us)
        brokers = [machine.name for machine in self._brokers if machine is not leader]
        links = [*_both_ways(with_leader, brokers), *_both_ways(without, [leader.name])]
        self._outages.cut(links, duration_us + lasts_us)

    def coordinator_cut(self) -> None:
        """Some clients do not hear a coordinator, or are not heard by it, or both."""
        coordinators, clients = [each for each in self._brokers if _coordinates(each)], self._clients()
        if not coordinators or not clients:
            return
        self._progress.client_cuts += 1
        random = self._random
        one = [random.choice(coordinators).name]
        some = random.sample(clients, random.randint(1, len(clients)))
        there = [(client, node) for client in some for node in one]
        back = [(node, client) for client in some for node in one]
        links = random.choice((there + back, there, back))
        self._outages.cut(links, random.randint(1, _LONGEST_CLIENT_CUT_MS) * US_PER_MS)

    def _clients(self) -> list[str]:
        """Those that have a connection."""
        nodes = {machine.name for machine in self._nodes.values()}
        return [name for name in self._network.connected_hosts if name not in nodes]

    def _others(self, one: SimulatedNode) -> list[SimulatedNode]:
        return [machine for machine in self._nodes.values() if machine is not one]

    # --- falls --------------------------------------------------------------------------------------------------------

    def cascade(self) -> None:
        """The leader of a partition falls while its followers lag, and so do the next ones."""
        led = [(machine, key) for machine in self._brokers for key in self._led_by(machine)]
        if led:
            leader, key = self._random.choice(led)
            falls = [self._draw_fall() for _ in range(self._random.choice((2, 2, 3)))]
            self._let_fall(leader, key, falls)

    def _draw_fall(self) -> _Fall:
        lag_us = self._random.randint(20, _LONGEST_LAG_MS) * US_PER_MS
        lagging = frozenset(each.name for each in self._brokers if self._random.random() < _LAGS)
        return _Fall(lagging, lag_us, self._random.randint(1, lag_us))

    def _let_fall(self, leader: SimulatedNode, key: TopicIdPartition, falls: Sequence[_Fall]) -> None:
        fall, life = falls[0], leader.life
        for name in sorted(fall.lagging - {leader.name}):
            self._network.clog(leader.name, name, self._scheduler.now_us + fall.clog_us)
        self._report("leader_lags", {"node": leader.name, "partition": str(key.topic_partition)})

        def end() -> None:
            if leader.is_up and leader.life == life and not self._is_calm():
                self._progress.falls += 1
                self._crash(leader)
                if falls[1:]:
                    self._await_next(key, leader, falls[1:], self._scheduler.now_us + _PATIENCE_US)

        self._scheduler.after(fall.after_us, end)

    def _await_next(self, key: TopicIdPartition, last: SimulatedNode, falls: Sequence[_Fall], until_us: int) -> None:
        """Strike the next leader of the partition, as soon as there is one."""
        found = next((each for each in self._brokers if each is not last and key in self._led_by(each)), None)
        if self._is_calm() or self._scheduler.now_us > until_us:
            return
        if found is not None:
            self._let_fall(found, key, falls)
        else:
            self._scheduler.after(_LOOK_US, lambda: self._await_next(key, last, falls, until_us))

    @staticmethod
    def _led_by(machine: SimulatedNode) -> list[TopicIdPartition]:
        """The partitions that a broker leads, as far as it knows."""
        node = machine.node
        if node is None or node.broker is None or machine.is_stopping:
            return []
        return [partition.key for partition in node.broker.replicas.partitions.values() if partition.is_leader]


def _coordinates(machine: SimulatedNode) -> bool:
    if machine.node is None or machine.node.broker is None:
        return False
    broker = machine.node.broker
    return bool(broker.groups.runtime.active_partitions()) or bool(broker.transactions.runtime.active_partitions())


def _both_ways(some: Sequence[str], others: Sequence[str]) -> list[Link]:
    return [link for one in some for other in others for link in ((one, other), (other, one))]
