"""What befalls the cluster of a scene: plans, which come in every branch, whatever a reader has done before.

Messages take 25 to 60 ms, as between data centres of a continent, so that they can be seen on their way.
"""

from collections.abc import Callable
from random import Random

from pykraft.cluster_view import MessageInFlight
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.workloads.workload import TOPIC
from pykraft.sim.world.network import Weather
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.story.views import Messages, cluster_view

_LATENCY_US = (25_000, 60_000)
_LOOKS_EVERY_MS = 5


def nothing(cluster: SimulatedCluster) -> None:
    """Nothing befalls it."""
    cluster.network.weather = Weather(latency_us=_LATENCY_US)


def leader_leaves(cluster: SimulatedCluster, cut_ms: int, heal_ms: int) -> None:
    """The partition's leader is cut off from the other nodes. Its producers still reach it."""
    nothing(cluster)
    links: list[tuple[str, str]] = []

    def cut() -> None:
        leader = cluster_view(cluster).leader(TOPIC, 0)
        if leader is None:
            return
        for other in cluster.nodes:
            if other != leader:
                pair = (cluster.nodes[leader].name, cluster.nodes[other].name)
                links.extend((pair, pair[::-1]))
        cluster.note("cut", {"links": links})
        for link in links:
            cluster.network.keep_cut(*link)

    def heal() -> None:
        still = [link for link in links if cluster.network.is_kept_cut(*link)]
        cluster.note("mend", {"links": still})
        for link in still:
            cluster.network.release(*link)

    cluster.scheduler.at(cut_ms * US_PER_MS, cut)
    cluster.scheduler.at(heal_ms * US_PER_MS, heal)


def controller_dies(cluster: SimulatedCluster, kill_ms: int, restart_ms: int) -> None:
    """The active controller crashes, and starts again."""
    nothing(cluster)
    killed: list[int] = []

    def kill() -> None:
        active = cluster_view(cluster).active_controller
        if active is not None:
            killed.append(active)
            cluster.nodes[active].is_kept_down = True
            cluster.nodes[active].crash()

    cluster.scheduler.at(kill_ms * US_PER_MS, kill)
    cluster.scheduler.at(restart_ms * US_PER_MS, lambda: _restart(cluster, killed))


def leader_dies(cluster: SimulatedCluster, kill_ms: int, restart_ms: int, loses_power: bool = False) -> None:
    """The partition's leader crashes, and starts again. If it loses its power, what was not on its disk is gone."""
    nothing(cluster)
    killed: list[int] = []

    def kill() -> None:
        leader = cluster_view(cluster).leader(TOPIC, 0)
        if leader is None:
            return
        machine = cluster.nodes[leader]
        killed.append(leader)
        machine.is_kept_down = True
        if not loses_power:
            machine.crash()
            return
        cluster.note("power_loss", {"node": leader})
        cluster.watcher.lossy.add(leader)
        machine.lose_power(Random(2))

    cluster.scheduler.at(kill_ms * US_PER_MS, kill)
    cluster.scheduler.at(restart_ms * US_PER_MS, lambda: _restart(cluster, killed))


def answer_is_lost(cluster: SimulatedCluster, from_ms: int) -> None:
    """The first answer to a producer from this time on never arrives."""
    nothing(cluster)
    _lose(cluster, from_ms, lambda message: message.name == "Produce" and message.is_response, lambda lost: None)


def marker_is_lost(cluster: SimulatedCluster, from_ms: int, restart_ms: int) -> None:
    """A transaction's marker is lost on its way to another node, and its coordinator dies at the same moment."""
    nothing(cluster)
    killed: list[int] = []

    def is_marker(message: MessageInFlight) -> bool:
        is_request = message.name == "WriteTxnMarkers" and not message.is_response
        return is_request and message.sender != message.receiver

    def kill(lost: MessageInFlight) -> None:
        assert isinstance(lost.sender, int)
        killed.append(lost.sender)
        cluster.nodes[lost.sender].is_kept_down = True
        cluster.nodes[lost.sender].crash()

    _lose(cluster, from_ms, is_marker, kill)
    cluster.scheduler.at(restart_ms * US_PER_MS, lambda: _restart(cluster, killed))


def members_come_and_go(cluster: SimulatedCluster, crash_ms: int, join_ms: int, pause_ms: int) -> None:
    """A member of the group crashes; later another one comes; then the user of a third does not poll for too long."""
    nothing(cluster)
    (group,) = cluster.groups
    cluster.scheduler.at(crash_ms * US_PER_MS, lambda: group.lose(next(iter(group.hosts))))
    cluster.scheduler.at(join_ms * US_PER_MS, group.join)
    cluster.scheduler.at(pause_ms * US_PER_MS, lambda: group.nap(list(group.hosts)[-1], 2_500))


def _restart(cluster: SimulatedCluster, killed: list[int]) -> None:
    for machine in (cluster.nodes[node_id] for node_id in killed):
        machine.is_kept_down = False
        if not machine.is_up:
            cluster.note("start", {"node": machine.node_id})
            machine.start()


def _lose(
    cluster: SimulatedCluster,
    from_ms: int,
    is_it: Callable[[MessageInFlight], bool],
    then: Callable[[MessageInFlight], None],
) -> None:
    """Lose the first such message that is on its way after this time, and do something then."""

    seen = Messages()

    def look() -> None:
        message = next(filter(is_it, seen.look(cluster)), None)
        if message is None:
            cluster.scheduler.after(_LOOKS_EVERY_MS * US_PER_MS, look)
            return
        cluster.note("drop", {"message": str(message).partition(":")[0]})
        cluster.network.drop(message.id)
        then(message)

    cluster.scheduler.at(from_ms * US_PER_MS, look)
