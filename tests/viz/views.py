"""Cluster views to draw, made by hand: what a board must be able to show."""

from __future__ import annotations

from pykraft.cluster_view import ClusterView
from pykraft.common.types import TopicPartition
from pykraft.server.describe import NodeView, PartitionView, QuorumView

ALL = (1, 2, 3)


def replica(
    topic: str, partition: int, leader: int, end: int, watermark: int, *, isr: tuple[int, ...] = ALL, epoch: int = 0
) -> PartitionView:
    return PartitionView(TopicPartition(topic, partition), leader, epoch, ALL, isr, 0, end, watermark)


def node(
    node_id: int,
    *partitions: PartitionView,
    role: str = "follower",
    leader: int = 1,
    epoch: int = 1,
    alive: bool = True,
    roles: tuple[str, ...] = ("broker", "controller"),
) -> NodeView:
    state = "running" if "broker" in roles else None
    return NodeView(node_id, alive, roles, state, QuorumView(role, epoch, leader, ALL, 17, 17), partitions)


def view(*nodes: NodeView) -> ClusterView:
    return ClusterView("a-cluster", 1500, {each.node_id: each for each in nodes})


def healthy() -> ClusterView:
    return view(
        node(1, replica("flights", 0, 1, 1000, 1000), replica("flights", 1, 2, 500, 490), role="leader"),
        node(2, replica("flights", 0, 1, 1000, 990), replica("flights", 1, 2, 500, 490)),
        node(3, replica("flights", 0, 1, 990, 980), replica("flights", 1, 2, 495, 480)),
    )


def leader_dead() -> ClusterView:
    """Node 1 led everything and is dead; node 2 has taken over, in higher epochs."""
    return view(
        node(1, replica("flights", 0, 1, 700, 600), role="leader", alive=False),
        node(2, replica("flights", 0, 2, 1000, 1000, isr=(2, 3), epoch=1), role="leader", leader=2, epoch=2),
        node(3, replica("flights", 0, 2, 1000, 900, isr=(2, 3), epoch=1), leader=2, epoch=2),
    )


def cut_off_leader() -> ClusterView:
    """Node 1 lives, and has not heard that it leads nothing any more."""
    return view(
        node(1, replica("flights", 0, 1, 1200, 1000), role="leader"),
        node(2, replica("flights", 0, 2, 1100, 1100, isr=(2, 3), epoch=1), role="leader", leader=2, epoch=2),
        node(3, replica("flights", 0, 2, 1100, 1100, isr=(2, 3), epoch=1), leader=2, epoch=2),
    )


def election() -> ClusterView:
    """Nobody leads, and nobody could tell where the logs end."""
    return view(
        node(1, replica("flights", 0, -1, -1, -1), role="prospective", leader=-1),
        node(2, replica("flights", 0, -1, -1, -1), role="candidate", leader=-1, epoch=2),
        node(3, replica("flights", 0, -1, -1, -1), role="unattached", leader=-1, epoch=2),
    )


def separate_roles() -> ClusterView:
    """Two controllers, and brokers that have no vote; many partitions, and a topic of Kafka's own."""
    many = [replica(f"a-topic-with-quite-a-long-name-{n}", n, 1, 10**n, 10**n) for n in range(9)]
    return view(
        node(1, *many, replica("__consumer_offsets", 0, 1, 5, 5), role="observer", leader=101, roles=("broker",)),
        node(2, *many, role="observer", leader=101, roles=("broker",)),
        node(101, role="leader", leader=101, roles=("controller",)),
        node(102, role="follower", leader=101, roles=("controller",)),
    )


VIEWS = {
    "healthy": healthy,
    "the leader is dead": leader_dead,
    "the leader was cut off": cut_off_leader,
    "an election": election,
    "separate roles": separate_roles,
}
