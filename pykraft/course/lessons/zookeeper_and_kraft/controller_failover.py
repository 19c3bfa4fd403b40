"""What notebook 16 measures and models: the active controller dies, and another one takes over.

::

    failover = fail_over(partitions=100, seed=3)    a simulated cluster: one broker, three controllers
    failover.ms                                     from the crash until another controller is active
    failover.noticed_ms                             of these, until a controller misses the dead one
    failover.behind                                 how many records of the metadata log its successor still lacked
    failover.appended                               how many records the takeover itself writes

    ZooKeeperModel().failover_s(partitions=100)     a model with numbers that you can change, not a measurement

The nodes are pykraft's own, with the timeouts of a lesson, on the simulator's clock and network.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pykraft.raft.quorum_state import Follower
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.interventions import Kill
from pykraft.sim.trouble.knobs import Knobs, calm, draw
from pykraft.sim.world.network import Weather
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.timeouts import LESSON

if TYPE_CHECKING:
    from pykraft.cluster import Cluster
    from pykraft.cluster_view import ClusterView

_SHAPE_SEED, _LIMIT_MS, _SETTLE_MS = 2, 120_000, 500
BROKERS, CONTROLLERS = 1, 3


class Failover(NamedTuple):
    """One takeover."""

    partitions: int
    ms: float
    behind: int
    appended: int
    noticed_ms: float
    """From the crash until a controller misses the active one, and does not follow it any more."""


def _knobs(partitions: int) -> Knobs:
    properties = {
        **LESSON,
        "metadata.max.idle.interval.ms": 0,
        "internal.metadata.log.segment.bytes": 1 << 20,
        "broker.session.timeout.ms": 9_000,
    }
    none = replace(draw(_SHAPE_SEED), brokers=BROKERS, controllers=CONTROLLERS, partitions=partitions, topic={})
    quiet = replace(none, groups=(), producers=(), consumers=(), has_plain_producer=False, transactions=None)
    return replace(
        calm(replace(quiet, admin_every_ms=0, properties=properties)), storm_from_ms=0, storm_until_ms=_LIMIT_MS
    )


def fail_over(partitions: int, seed: int, *, round_trip_ms: float = 0) -> Failover:
    """Make a topic with this many partitions, kill the active controller when all controllers have its records, and
    wait for another one. A round trip of 0 ms leaves the network as it is. TimeoutError after two minutes of the
    virtual clock."""
    cluster = SimulatedCluster(seed, _knobs(partitions))
    cluster.begin()
    _run_until(cluster, lambda: _led_partitions(cluster) == partitions)
    _run_until_ms(cluster, _now_ms(cluster) + _SETTLE_MS)
    old = _active(cluster)
    assert old is not None
    if round_trip_ms:
        one_way_us = round(round_trip_ms * US_PER_MS / 2)
        cluster.network.weather = Weather(latency_us=(one_way_us, one_way_us))
        _run_until_ms(cluster, _now_ms(cluster) + _SETTLE_MS)
    ends = {node_id: _log_end(cluster, node_id) for node_id in _controllers(cluster)}
    cluster.intervene(Kill(old))
    began = _now_ms(cluster)
    _run_until(cluster, lambda: _is_missed(cluster, old))
    noticed = _now_ms(cluster) - began
    _run_until(cluster, lambda: _active(cluster) not in (None, old))
    new, taken = _active(cluster), _now_ms(cluster) - began
    assert new is not None
    behind = ends[old] - ends[new]
    _run_until_ms(cluster, _now_ms(cluster) + _SETTLE_MS)
    return Failover(partitions, taken, behind, _log_end(cluster, new) - ends[new], noticed)


def _controllers(cluster: SimulatedCluster) -> list[int]:
    return [node_id for node_id, machine in cluster.nodes.items() if machine.node and machine.node.controller]


def _is_missed(cluster: SimulatedCluster, old: int) -> bool:
    """Whether one of the other controllers has ceased to follow."""
    nodes = [cluster.nodes[node_id].node for node_id in _controllers(cluster) if node_id != old]
    return any(node is not None and not isinstance(node.raft.replica.quorum.role, Follower) for node in nodes)


def _active(cluster: SimulatedCluster) -> int | None:
    for node_id in _controllers(cluster):
        node = cluster.nodes[node_id].node
        if node is not None and node.controller is not None and node.controller.is_active:
            return node_id
    return None


def _log_end(cluster: SimulatedCluster, node_id: int) -> int:
    node = cluster.nodes[node_id].node
    assert node is not None
    return node.raft.replica.log.end.offset


def _led_partitions(cluster: SimulatedCluster) -> int:
    active = _active(cluster)
    node = None if active is None else cluster.nodes[active].node
    if node is None or node.controller is None:
        return 0
    topics = node.controller.image.topics.values()
    return sum(partition.leader >= 0 for topic in topics for partition in topic.partitions.values())


def _now_ms(cluster: SimulatedCluster) -> float:
    return cluster.scheduler.now_us / 1000


def _run_until_ms(cluster: SimulatedCluster, ms: float) -> None:
    _run_until(cluster, lambda: _now_ms(cluster) >= ms)


def _run_until(cluster: SimulatedCluster, condition: Callable[[], bool]) -> None:
    while not condition():
        if _now_ms(cluster) > _LIMIT_MS:
            raise TimeoutError(f"not within {_LIMIT_MS:,} ms of the virtual clock")
        cluster.step()


@dataclass(frozen=True)
class ZooKeeperModel:
    """A model of a controller's failover before KRaft. It is arithmetic, and no measurement: change the numbers.

    The new controller notices that the old one's session has ended. It then reads every broker, topic and partition
    from ZooKeeper, several requests at a time, and sends the state of all partitions to all brokers.
    """

    session_timeout_s: float = 18.0
    """``zookeeper.session.timeout.ms``."""
    round_trip_s: float = 0.001
    in_flight: int = 10
    """``zookeeper.max.in.flight.requests``."""
    brokers: int = 3
    partitions_per_topic: int = 10
    state_bytes: int = 100
    """Of one partition, in LeaderAndIsr and UpdateMetadata together."""
    bytes_per_s: float = 100e6

    def reads(self, partitions: int) -> int:
        """How many nodes of ZooKeeper the new controller reads."""
        topics = -(-partitions // self.partitions_per_topic)
        return self.brokers + topics + partitions

    def failover_s(self, partitions: int) -> float:
        """From the crash until all brokers have heard from the new controller."""
        return self.session_timeout_s + self.reading_s(partitions) + self.sending_s(partitions)

    def reading_s(self, partitions: int) -> float:
        """Of these the seconds in which the new controller reads from ZooKeeper."""
        return self.reads(partitions) * self.round_trip_s / self.in_flight

    def sending_s(self, partitions: int) -> float:
        """Of these the seconds in which it sends the state of all partitions to all brokers."""
        return self.brokers * partitions * self.state_bytes / self.bytes_per_s

    def after_session_s(self, partitions: int) -> float:
        """The same without the wait for the session's end: what depends on the partitions."""
        return self.failover_s(partitions) - self.session_timeout_s


def timed_failovers(cluster: "Cluster", times: int) -> list[float]:
    """Kill the active controller of a live cluster, wait for another one, start the dead one again, this many times;
    the seconds of each takeover on the real clock."""
    found = []
    for _ in range(times):
        old = cluster.describe().active_controller
        assert old is not None
        began = time.monotonic()
        cluster.kill(old)
        cluster.wait_until(_led_by_another(old), what="another controller is active")
        found.append(time.monotonic() - began)
        cluster.restart(old)
        cluster.wait_until(_are_equal, what="all controllers have the same log")
    return found


def _led_by_another(old: int) -> Callable[["ClusterView"], bool]:
    return lambda view: view.active_controller not in (None, old)


def _are_equal(view: "ClusterView") -> bool:
    """Whether all controllers run and their logs end at the same offset."""
    controllers = [node for node in view.nodes.values() if "controller" in node.roles]
    ends = {node.quorum.log_end_offset for node in controllers}
    return all(node.is_alive for node in controllers) and len(ends) == 1
