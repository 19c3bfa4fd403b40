"""Hostile requests against three nodes: no node is fenced or deposed, none grows.

One node after the other gets each request, from a client that waits for the answer, or until the node hangs up. A
broker that misses its session is fenced and leaves its ISRs, and a leader of the quorum that misses its fetches is
deposed: both raise an epoch. With ``--long`` each request is sent ten times, under the timeouts of a lesson (half a
second). Otherwise it is sent once, beside other tests, under Kafka's timeouts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from pykraft import Cluster, NewTopic
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.quorum import DescribeQuorumRequest
from pykraft.runtime.process import NodeProcess
from tests.harness.connection import Closed, Connection
from tests.live.hostile import COMPACTED, PARTITIONS, TOPIC, Hostile, hostile

pytestmark = pytest.mark.limit(900)

TIMES, TIMES_LONG = 1, 10
MAY_GROW_BYTES = 256 << 20
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def attacked(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    timeouts = "lesson" if request.config.getoption("--long") else "kafka"
    with Cluster(nodes=3, mode="processes", timeouts=timeouts) as cluster:
        compacted = NewTopic(COMPACTED, PARTITIONS, 3, topic_configs={"cleanup.policy": "compact"})
        with cluster.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3), compacted])
        yield cluster


def address(cluster: Cluster, node_id: int, kind: ListenerKind) -> str:
    listeners = dict(text.split("://") for text in cluster.properties(node_id)["listeners"].split(","))
    return listeners["PLAINTEXT" if kind is ListenerKind.BROKER else "CONTROLLER"]


def epochs(cluster: Cluster) -> Any:
    """What goes up when a node is fenced or deposed: the quorum's epoch, the leaders' and the ISRs."""
    with Connection(address(cluster, 1, ListenerKind.BROKER)) as connection:
        quorum = DescribeQuorumRequest(
            topics=[
                DescribeQuorumRequest.Topic(
                    topic_name="__cluster_metadata",
                    partitions=[DescribeQuorumRequest.Topic.Partition(partition_index=0)],
                )
            ]
        )
        ours = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in (TOPIC, COMPACTED)])
        epoch = connection.ask(quorum, 2).topics[0].partitions[0].leader_epoch
        topics = connection.ask(ours, 12).topics
    return epoch, {
        (topic.name, p.partition_index): (p.leader_epoch, sorted(p.isr_nodes))
        for topic in topics
        for p in topic.partitions
    }


def memory(cluster: Cluster) -> dict[int, int]:
    """Resident bytes of each node's process."""
    nodes = {node_id: cluster._nodes[node_id] for node_id in cluster.node_ids}
    return {n: psutil.Process(node.pid).memory_info().rss for n, node in nodes.items() if isinstance(node, NodeProcess)}


def attack(cluster: Cluster, request: Hostile, node_id: int) -> None:
    """Send it, and wait until the node has answered it or has hung up."""
    with (
        Connection(address(cluster, node_id, request.listener), patience_s=PATIENCE_S) as connection,
        contextlib.suppress(Closed),
    ):
        connection.send_bytes(request.frame)
        connection.receive_frame()


def test_no_hostile_request_fences_or_deposes_a_node_or_makes_it_grow(attacked: Cluster, is_long: bool) -> None:
    before, small = epochs(attacked), memory(attacked)
    largest = dict(small)
    for request in hostile():
        for _ in range(TIMES_LONG if is_long else TIMES):
            for node_id in attacked.node_ids:
                attack(attacked, request, node_id)
                largest[node_id] = max(largest[node_id], memory(attacked)[node_id])
        assert epochs(attacked) == before, request.name
        assert all(largest[n] - small[n] <= MAY_GROW_BYTES for n in small), (request.name, small, largest)
