"""DescribeTopicPartitions: any series of pages tells the whole, and what each partition says of its brokers.

What a request may ask, and how it is refused, is compared with Apache Kafka in tests/conformance.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.brokers import SecuredEndpoint
from tests.harness.asking import describe_partitions, grow
from tests.harness.controllers import directory_id, registration
from tests.harness.lone_node import CLUSTER_ID, LoneNode

SIZES = {"a": 1, "b": 7, "c": 1, "d": 4, "e": 2}


@pytest.fixture(scope="module")
def node() -> LoneNode:
    """An answer has at most 5 partitions. Brokers 1 and 2 can be reached, 3 has another listener, 4 is fenced,
    5 has lost the directory of its replica."""
    found = LoneNode(max_request_partition_size_limit="5", broker_session_timeout_ms="3600000")
    found.join(2)
    elsewhere = [SecuredEndpoint(name="ELSEWHERE", host="h", port=1, security_protocol=0)]
    for broker_id in (3, 4):
        listeners = elsewhere if broker_id == 3 else registration(4).listeners
        request = registration(broker_id, cluster_id=CLUSTER_ID, listeners=listeners)
        found.ask(request, ListenerKind.CONTROLLER)
    two = [directory_id(105), directory_id(205)]
    found.ask(registration(5, cluster_id=CLUSTER_ID, log_dirs=two), ListenerKind.CONTROLLER)
    for broker_id in (2, 3, 5):
        found.heartbeat(broker_id)
    for name, size in SIZES.items():
        found.create(name, (1, 2))
        if size > 1:
            found.ask(grow((name, size)), ListenerKind.CONTROLLER)
    for name, replicas in {"followed": (1, 3), "led": (3, 1), "fenced": (1, 4), "lost": (1, 5)}.items():
        found.create(name, replicas)
    found.lose_a_directory(5, "lost")
    return found


def pages(node: LoneNode, names: list[str], limit: int) -> list[Any]:
    """All answers of a series."""
    answers = [node.ask(describe_partitions(*names, limit=limit))]
    while (cursor := answers[-1].next_cursor) is not None:
        following = (cursor.topic_name, cursor.partition_index)
        answers.append(node.ask(describe_partitions(*names, limit=limit, cursor=following)))
        assert len(answers) < 100, "the cursor goes on"
    return answers


@settings(max_examples=40, deadline=None)
@given(
    names=st.lists(st.sampled_from([*SIZES, "aa-missing", "zz-missing"]), min_size=1, unique=True),
    limit=st.integers(-1, 9),
)
def test_a_series_of_pages_tells_each_partition_once_and_no_page_has_more_than_the_limit(
    node: LoneNode, names: list[str], limit: int
) -> None:
    answers = pages(node, names, limit)
    told = [
        (topic.name, partition.partition_index)
        for answer in answers
        for topic in answer.topics
        for partition in topic.partitions
    ]
    assert told == [(name, number) for name in sorted(names) for number in range(SIZES.get(name, 0))]
    sizes = [sum(len(topic.partitions) for topic in answer.topics) for answer in answers]
    assert all(size == max(1, min(5, limit)) for size in sizes[:-1]), "every page but the last is full"
    assert {topic.name for answer in answers for topic in answer.topics if topic.error_code} == {
        name for name in names if name not in SIZES
    }


@pytest.mark.parametrize(
    ("topic", "leader", "replicas", "isr", "offline"),
    [
        ("a", 1, [1, 2], [1, 2], []),
        ("followed", 1, [1, 3], [1, 3], [3]),
        ("led", -1, [3, 1], [3, 1], [3]),
        ("fenced", 1, [1, 4], [1], [4]),
        ("lost", 1, [1, 5], [1], [5]),
    ],
)
def test_a_partition_shows_the_leader_that_the_client_can_reach(
    node: LoneNode, topic: str, leader: int, replicas: list[int], isr: list[int], offline: list[int]
) -> None:
    (found,) = node.ask(describe_partitions(topic)).topics
    (partition,) = found.partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, leader, 0)
    assert [*partition.replica_nodes] == replicas
    assert ([*partition.isr_nodes], [*partition.offline_replicas]) == (isr, offline)
    assert ([*partition.eligible_leader_replicas], [*partition.last_known_elr]) == ([], [])
