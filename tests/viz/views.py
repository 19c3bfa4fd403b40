"""Cluster views to draw, made by hand: what a board must be able to show."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from pykraft.broker.describe import CellKind, Cells, EpochStart, NodeView, PartitionView, QuorumView
from pykraft.cluster_view import ClusterView, MessageInFlight
from pykraft.common.types import TopicPartition

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
    """No node leads, and none could tell where the logs end."""
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


def lens(
    partition: PartitionView, *epochs: tuple[int, int], stable: int = -1, kinds: tuple[tuple[int, CellKind], ...] = ()
) -> PartitionView:
    """The replica with these leader epochs (epoch, start offset); in its tail `kinds` begin at these offsets."""
    edges = [*kinds, (partition.log_end_offset, CellKind.DATA)]
    starts = tuple(EpochStart(*entry) for entry in epochs)
    runs = [Cells(low, high, epochs[-1][0], kind) for (low, kind), (high, _) in pairwise(edges)]
    return partition._replace(epochs=starts, last_stable_offset=stable, tail=tuple(run for run in runs if run.size > 0))


def torn_tail() -> ClusterView:
    """Node 1 was cut off with seven records that no follower has; nodes 2 and 3 went on without it."""
    old = lens(replica("orders", 0, 1, 1211, 1204), (0, 0), kinds=((1187, CellKind.DATA),))
    led = lens(replica("orders", 0, 2, 1215, 1215, isr=(2, 3), epoch=1), (0, 0), (1, 1204))
    follower = lens(replica("orders", 0, 2, 1213, 1212, isr=(2, 3), epoch=1), (0, 0), (1, 1204))
    cut = frozenset({(1, 2), (2, 1), (1, 3), (3, 1)})
    seen = view(
        node(1, old, role="leader"),
        node(2, led, role="leader", leader=2, epoch=2),
        node(3, follower, leader=2, epoch=2),
    )
    fenced = frozenset({1})
    nodes = {n: each._replace(metadata_offset=20 + n, fenced_brokers=fenced) for n, each in seen.nodes.items()}
    quorums = {2: {"granted": frozenset({2, 3})}, 3: {"voted_for": 2}}
    nodes |= {n: nodes[n]._replace(quorum=nodes[n].quorum._replace(**fields)) for n, fields in quorums.items()}
    return replace(seen, nodes=nodes, cut_links=cut)


def transactions() -> ClusterView:
    """An aborted transaction, a committed one, and one that is open and holds back the last stable offset."""
    kinds = (
        (300, CellKind.DATA), (304, CellKind.ABORTED), (307, CellKind.ABORT_MARKER), (308, CellKind.COMMITTED),
        (310, CellKind.COMMIT_MARKER), (311, CellKind.DATA), (313, CellKind.OPEN),
    )  # fmt: skip
    held = [
        lens(replica("payments", 0, 1, end, mark), (0, 0), (3, 303), (4, 312), stable=min(mark, 313), kinds=kinds)
        for end, mark in ((318, 316), (318, 315), (316, 315))
    ]
    return view(node(1, held[0], role="leader"), node(2, held[1]), node(3, held[2]))


def messages() -> ClusterView:
    """Requests and responses between nodes, and from a client; one is held back by a link that is cut."""
    on_the_way = (
        MessageInFlight(7, 2, 1, "Fetch", False, "flights-0, epoch 0, from offset 1,000", 1490.0, 1510.0),
        MessageInFlight(8, 1, 3, "Fetch", True, "flights-0, epoch 0, offsets 990 to 999", 1499.0, 1501.0),
        MessageInFlight(9, 3, 1, "Vote", False, "epoch 2, its log ends at 17 in epoch 1", 1400.0, float("inf")),
    )
    return replace(healthy(), messages=on_the_way, cut_links=frozenset({(3, 1)}))


def clients_messages() -> ClusterView:
    one = MessageInFlight(1, "producer", 1, "Produce", False, "flights-0, 5 records, acks all", 1490.0, 1510.0)
    answer = replace(one, id=2, sender=1, receiver="producer", is_response=True)
    return replace(healthy(), messages=(one, answer))


def far_apart() -> ClusterView:
    """A follower that lags by a million, a dead one further behind still, and a log of which much was deleted."""
    epochs = ((5, 0), (7, 8_900_000))
    led = lens(replica("clicks", 0, 1, 9_204_711, 9_204_711, isr=(1,), epoch=7), *epochs)
    far = lens(replica("clicks", 0, 1, 8_204_000, 8_200_000, isr=(1,), epoch=7), (5, 0))
    old = lens(replica("clicks", 0, 2, 4_000, 4_000, epoch=3), (3, 0))
    return view(
        node(1, led._replace(log_start_offset=8_000_000), role="leader"), node(2, far), node(3, old, alive=False)
    )


def lost_long_ago() -> ClusterView:
    """Node 1 died with 1,131 records that no follower has; the others have gone on for 55,000."""
    old = lens(replica("flights", 0, 1, 57_089, 55_958), (0, 0))
    led = lens(replica("flights", 0, 2, 111_075, 111_075, isr=(2, 3), epoch=1), (0, 0), (1, 55_958))
    follower = led._replace(log_end_offset=110_700, high_watermark=110_700)
    return view(
        node(1, old, role="leader", alive=False),
        node(2, led, role="leader", leader=2, epoch=2),
        node(3, follower, leader=2, epoch=2),
    )


VIEWS = {
    "healthy": healthy,
    "the leader is dead": leader_dead,
    "the leader was cut off": cut_off_leader,
    "an election": election,
    "separate roles": separate_roles,
    "a torn tail": torn_tail,
    "records lost long ago": lost_long_ago,
    "transactions": transactions,
    "messages": messages,
    "a client's messages": clients_messages,
    "replicas far apart": far_apart,
}
