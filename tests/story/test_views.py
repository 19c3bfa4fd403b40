"""A simulated cluster is described like a live one, with the messages on their way besides."""

from __future__ import annotations

from math import inf

from pykraft.broker.describe import describe
from pykraft.cluster_view import ClusterView, MessageInFlight
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.interventions import Cut, Kill
from pykraft.sim.world.frames import read_frame
from pykraft.simulation import Simulation
from pykraft.story.views import cluster_view
from pykraft.viz import board

SEED = 39


def test_the_nodes_describe_themselves() -> None:
    simulation = Simulation(SEED)
    cluster = simulation.at(1_500)
    while any(machine.node is None for machine in cluster.nodes.values()):
        cluster.step()
    view = simulation.describe()
    assert view.cluster_id == cluster.cluster_id
    assert view.time_ms == cluster.scheduler.now
    assert set(view.nodes) == {1, 2, 3}
    for node_id, machine in cluster.nodes.items():
        assert machine.node is not None
        assert view.nodes[node_id] == describe(machine.node)
    assert "node 1" in board(simulation).text


def test_a_dead_node_is_there_as_it_was_last_seen() -> None:
    cluster = Simulation(SEED).at(1_500)
    before = cluster_view(cluster).nodes[2]
    cluster.intervene(Kill(2))
    assert cluster_view(cluster).nodes[2] == before._replace(is_alive=False)


def test_a_node_that_has_not_started_yet_is_shown_as_dead() -> None:
    view = Simulation(SEED).describe()
    assert [node.is_alive for node in view.nodes.values()] == [False] * 3
    assert "is dead" in str(view)


def test_every_frame_on_its_way_is_read_and_named() -> None:
    cluster = SimulatedCluster(SEED)
    cluster.begin()
    names = set()
    for _ in range(2_500):
        cluster.step()
        for flight in cluster.network.in_flight():
            if flight.piece.data:
                frame = read_frame(flight)
                assert frame is not None, flight.piece.data
                assert "cannot be read" not in frame.tree()
                assert len(frame.data) == int.from_bytes(flight.piece.data[:4], "big"), "one frame a piece"
                names.add(frame.name)
    assert names >= {"ApiVersions", "Fetch", "Vote", "Produce", "JoinGroup", "ConsumerGroupHeartbeat", "AlterPartition"}


def found(cluster: SimulatedCluster, name: str, is_response: bool, words: str) -> MessageInFlight:
    """The next message of this name with these words in its summary."""
    while True:
        for message in cluster_view(cluster).messages:
            if message.name == name and message.is_response is is_response and words in message.summary:
                return message
        cluster.step()


def test_a_summary_names_the_epoch_and_the_offsets() -> None:
    cluster = Simulation(SEED).cluster
    assert found(cluster, "Vote", False, "epoch").summary == "metadata log, pre-vote, epoch 0, log end 0"
    assert found(cluster, "Vote", True, "epoch").summary == "metadata log, granted, epoch 0"
    assert found(cluster, "Fetch", False, "t-1").summary.startswith("t-1, epoch 0, from offset 0")
    sent = found(cluster, "Produce", False, "").summary
    partition, rest = sent[:3], sent[3:]
    assert (partition in ("t-0", "t-1"), rest) == (True, ", 1 record, acks -1")
    read = found(cluster, "Fetch", True, partition).summary
    assert read.removesuffix(", and 1 more partition") == f"{partition}, offset 0, high watermark 0"


def test_a_message_over_a_cut_link_is_never_due() -> None:
    cluster = Simulation(SEED).cluster
    while not (sent := [m for m in cluster_view(cluster).messages if (m.sender, m.receiver) == (1, 3)]):
        cluster.step()
    assert sent[0].sent_ms <= cluster.scheduler.now_us / 1_000 <= sent[0].due_ms < inf
    cluster.intervene(Cut(1, 3))
    while cluster.scheduler.now_us / 1_000 <= sent[0].due_ms:
        cluster.step()
    view: ClusterView = cluster_view(cluster)
    assert view.cut_links == {(1, 3), (3, 1)}
    assert next(m.due_ms for m in view.messages if m.id == sent[0].id) == inf
