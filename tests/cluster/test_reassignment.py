"""Partitions move to other brokers while they are written and read: on real sockets and disks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykraft import Admin, Cluster, Consumer, ErrorCode, KafkaError, NewTopic, Producer, TopicPartition
from pykraft.client.administration.reassignments import PartitionReassignment
from tests.harness.waiting import wait_until

NODES = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(NODES) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with cluster.admin() as admin:
        yield admin


def folder(cluster: Cluster, node: int, key: TopicPartition) -> Path:
    return cluster.partition_directory(node, *key)


def wait_until_moved(admin: Admin, key: TopicPartition, brokers: tuple[int, ...]) -> None:
    wait_until(lambda: not admin.list_partition_reassignments(), "the reassignment has ended")

    def is_so() -> bool:
        found = admin.describe_topics([key.topic])[key.topic].partitions[key.partition]
        return found.replicas == brokers and set(found.isr) == set(brokers) and found.leader in brokers

    wait_until(is_so, "the brokers know it")


def test_a_partition_moves_to_other_brokers_while_it_is_written_and_read(cluster: Cluster, admin: Admin) -> None:
    key = TopicPartition("moving", 0)
    admin.create_topics([NewTopic("moving", replica_assignments={0: [1, 2]})])
    moved = threading.Event()
    sent: list[int] = []

    def produce() -> None:
        with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all", linger_ms=5) as producer:
            while not moved.is_set():
                futures = [producer.send("moving", b"%d" % (len(sent) + more)) for more in range(50)]
                sent.extend(future.result(30).offset for future in futures)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        wait_until(lambda: len(sent) > 500, "there is something to move")
        admin.alter_partition_reassignments({key: [3, 4]})
        wait_until_moved(admin, key, (3, 4))
        several = len(sent) + 200
        wait_until(lambda: len(sent) > several, "the producer has found the new leader")
    finally:
        moved.set()
        thread.join()
    assert sent == list(range(len(sent))), "each record was acknowledged once, in order"
    with Consumer("moving", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        values = [next(iter(consumer)).value for _ in sent]
    assert values == [b"%d" % number for number in range(len(sent))]
    wait_until(lambda: not folder(cluster, 1, key).exists(), "the old replicas have deleted their logs")
    assert not folder(cluster, 2, key).exists() and folder(cluster, 3, key).exists()


def test_a_replica_that_cannot_be_reached_keeps_the_reassignment_open_and_it_can_be_cancelled(
    cluster: Cluster, admin: Admin
) -> None:
    key = TopicPartition("stuck", 0)
    admin.create_topics([NewTopic("stuck", replica_assignments={0: [1, 2]})])
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        producer.send("stuck", b"before").result(30)
        cluster.kill(4)
        admin.alter_partition_reassignments({key: [3, 4]})
        wait_until(
            lambda: 3 in admin.describe_topics(["stuck"])["stuck"].partitions[0].isr, "one of the two is in sync"
        )
        assert admin.list_partition_reassignments([key]) == {key: PartitionReassignment((3, 4, 1, 2), (3, 4), (1, 2))}
        producer.send("stuck", b"between").result(30)
        admin.alter_partition_reassignments({key: None})
        assert admin.list_partition_reassignments([key]) == {}
        wait_until_moved(admin, key, (1, 2))
        producer.send("stuck", b"after").result(30)
    cluster.restart(4)
    wait_until(lambda: not folder(cluster, 3, key).exists(), "the replica that was added has deleted its log")
    with pytest.raises(KafkaError) as refused:
        admin.alter_partition_reassignments({key: None})
    assert refused.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_groups_and_transactions_follow_their_coordinators_partition(cluster: Cluster, admin: Admin) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers}
    admin.create_topics([NewTopic("kept", replica_assignments={0: [1, 2]})])
    with (
        Producer(transactional_id="mover", **settings) as producer,
        Consumer("kept", group_id="mover", auto_offset_reset="earliest", **settings) as consumer,
    ):
        producer.init_transactions()

        def exchange(value: bytes) -> None:
            producer.begin_transaction()
            producer.send("kept", value)
            producer.commit_transaction()
            record = next(iter(consumer))
            assert record.value == value
            consumer.commit()

        exchange(b"before")
        internal = admin.describe_topics(["__consumer_offsets", "__transaction_state"])
        targets = {
            TopicPartition(topic.name, partition.partition): [broker % NODES + 1 for broker in partition.replicas]
            for topic in internal.values()
            for partition in topic.partitions
        }
        admin.alter_partition_reassignments(targets)
        wait_until(lambda: not admin.list_partition_reassignments(), "all coordinators' partitions have moved")
        exchange(b"after")
        committed = admin.list_consumer_group_offsets("mover")[TopicPartition("kept", 0)]
        assert committed is not None and committed.offset >= 3
