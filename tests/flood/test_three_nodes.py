"""Floods against three nodes with the timeouts of a lesson: no node is fenced or deposed.

A broker that misses its session of 600 ms is fenced and leaves its ISRs; a leader of the quorum that misses its fetches
for 500 ms is deposed. Both raise an epoch, so epochs and ISRs tell.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykraft import Cluster, NewTopic
from pykraft.common.types import METADATA_TOPIC
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.quorum import DescribeQuorumRequest
from tests.flood.generator import MOST, Flood, fill, variants
from tests.flood.order import LAST, ordered
from tests.flood.vocabulary import State
from tests.harness.asking import batch
from tests.harness.connection import Closed, Connection

PARTITIONS, TOPICS = 100, 20
PATIENCE_S = 30.0
_QUORUM, _METADATA = 2, 12


def address(cluster: Cluster, node: int, kind: ListenerKind) -> str:
    listeners = dict(text.split("://") for text in cluster.properties(node)["listeners"].split(","))
    return listeners["PLAINTEXT" if kind is ListenerKind.BROKER else "CONTROLLER"]


def epochs(cluster: Cluster, names: list[str]) -> Any:
    """What goes up when a node is fenced or deposed: the quorum's epoch, the leaders' epochs and the ISRs."""
    topic = DescribeQuorumRequest.Topic
    quorum = DescribeQuorumRequest(
        topics=[topic(topic_name=METADATA_TOPIC, partitions=[topic.Partition(partition_index=0)])]
    )
    metadata = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in names])
    with Connection(address(cluster, 1, ListenerKind.BROKER)) as connection:
        epoch = connection.ask(quorum, _QUORUM).topics[0].partitions[0].leader_epoch
        topics = connection.ask(metadata, _METADATA).topics
    return epoch, {
        (one.name, p.partition_index): (p.leader_epoch, sorted(p.isr_nodes)) for one in topics for p in one.partitions
    }


@pytest.mark.long
@pytest.mark.limit(3600)
def test_no_flood_fences_or_deposes_a_node() -> None:
    """Requests that elect, move and delete raise epochs by themselves: they are tried on one node."""
    names = ["large", *(f"small-{number}" for number in range(TOPICS))]
    with Cluster(nodes=3, mode="processes", timeouts="lesson") as cluster:
        with cluster.admin() as admin:
            admin.create_topics([NewTopic(name, PARTITIONS if name == "large" else 1, 3) for name in names])
        state = State(batch=batch(1), time_ms=1)
        state.names |= {"topic": names, "partition": range(PARTITIONS), "broker": [1, 2, 3], "broker name": ["1"]}
        before = epochs(cluster, names)
        for target in ordered():
            if target.api.name in LAST:
                continue
            for kind in ("repeated", "strangers"):
                state.salt += 1
                flood = Flood(target, kind, MOST, variants(target)[0])
                frame = Connection.frame(fill(flood, state), target.version)
                for node in cluster.node_ids:
                    with Connection(address(cluster, node, target.listener), PATIENCE_S) as connection:
                        connection.send_bytes(frame)
                        try:
                            connection.receive_frame()
                        except Closed:
                            continue
            assert epochs(cluster, names) == before, str(target)
