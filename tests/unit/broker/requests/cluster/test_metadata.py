"""Metadata about leaders and replicas that the asking client cannot reach: version by version, on a node with brokers
that are only names.

Apache Kafka's answers about a broker that is dead are in tests/conformance/answers/replication.txt. The same for one
that lives but has no listener of the client's, or has lost a directory, is the table here: it follows
KRaftMetadataCache of Kafka 4.2.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.brokers import SecuredEndpoint
from pykraft.protocol.messages.cluster import MetadataRequest, MetadataResponse
from tests.harness.controllers import directory_id, registration
from tests.harness.lone_node import CLUSTER_ID, LoneNode

NONE = ErrorCode.NONE


@pytest.fixture(scope="module")
def node() -> LoneNode:
    """Brokers 1 and 2 can be reached, 3 has another listener, 4 is fenced, 5 has lost the directory of its replica."""
    found = LoneNode()
    found.join(2)
    elsewhere = [SecuredEndpoint(name="ELSEWHERE", host="h", port=1, security_protocol=0)]
    for broker_id in (3, 4):
        listeners = elsewhere if broker_id == 3 else registration(4).listeners
        request = registration(broker_id, cluster_id=CLUSTER_ID, listeners=listeners)
        found.ask(request, ListenerKind.CONTROLLER)
    two = [directory_id(105), directory_id(205)]
    found.ask(registration(5, cluster_id=CLUSTER_ID, log_dirs=two), ListenerKind.CONTROLLER)
    for broker_id in (3, 5):
        found.heartbeat(broker_id)
    for name, replicas in TOPICS.items():
        found.create(name, replicas)
    found.lose_a_directory(5, "lost")
    return found


TOPICS = {"reached": (1, 2), "followed": (1, 3), "led": (3, 1), "fenced": (1, 4), "lost": (1, 5), "alone": (3,)}


@pytest.mark.parametrize(
    ("topic", "version", "error", "leader", "replicas", "in_sync", "offline"),
    [
        ("reached", 0, NONE, 1, [1, 2], [1, 2], []),
        ("reached", 13, NONE, 1, [1, 2], [1, 2], []),
        ("followed", 0, ErrorCode.REPLICA_NOT_AVAILABLE, 1, [1], [1], []),
        ("followed", 1, NONE, 1, [1, 3], [1, 3], []),
        ("followed", 13, NONE, 1, [1, 3], [1, 3], [3]),
        ("led", 0, ErrorCode.LEADER_NOT_AVAILABLE, -1, [1], [1], []),
        ("led", 5, ErrorCode.LEADER_NOT_AVAILABLE, -1, [3, 1], [3, 1], [3]),
        ("led", 6, ErrorCode.LISTENER_NOT_FOUND, -1, [3, 1], [3, 1], [3]),
        ("led", 13, ErrorCode.LISTENER_NOT_FOUND, -1, [3, 1], [3, 1], [3]),
        ("fenced", 0, ErrorCode.REPLICA_NOT_AVAILABLE, 1, [1], [1], []),
        ("fenced", 13, NONE, 1, [1, 4], [1], [4]),
        ("lost", 0, NONE, 1, [1, 5], [1], []),
        ("lost", 5, NONE, 1, [1, 5], [1], [5]),
        ("lost", 13, NONE, 1, [1, 5], [1], [5]),
        ("alone", 0, ErrorCode.LEADER_NOT_AVAILABLE, -1, [], [], []),
        ("alone", 13, ErrorCode.LISTENER_NOT_FOUND, -1, [3], [3], [3]),
    ],
)
def test_what_a_client_is_told_of_those_that_it_cannot_reach(
    node: LoneNode,
    topic: str,
    version: int,
    error: ErrorCode,
    leader: int,
    replicas: Sequence[int],
    in_sync: Sequence[int],
    offline: Sequence[int],
) -> None:
    for broker_id in (2, 3, 5):
        node.heartbeat(broker_id)
    answer = node.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]), version=version)
    (told,) = MetadataResponse.decode(answer.to_bytes(version), version).topics[0].partitions
    assert (ErrorCode.of(told.error_code), told.leader_id) == (error, leader)
    assert (list(told.replica_nodes), list(told.isr_nodes)) == (replicas, in_sync)
    assert list(told.offline_replicas) == offline
