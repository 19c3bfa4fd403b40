"""Transactional producers of other hands on three nodes: committed, aborted, fenced, and with a group's offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition

from pykraft import Cluster
from tests.interop.test_others import make_topic

PATIENCE_S = 30.0
PROPERTIES = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Cluster(nodes=3, properties=PROPERTIES) as cluster:
        yield cluster.bootstrap_servers


def producer(servers: str, transactional_id: str) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": transactional_id})
    made.init_transactions(PATIENCE_S)
    return made


def send(sender: confluent_kafka.Producer, topic: str, *values: str) -> None:
    for number, value in enumerate(values):
        sender.produce(topic, value, partition=number % 3)


def values(servers: str, topic: str, isolation: str) -> list[str]:
    """All that a consumer of this isolation level finds in the topic."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(3)])
    found, ended = [], set()
    while len(ended) < 3:
        message: Any = consumer.poll(PATIENCE_S)
        assert message is not None, "nothing came"
        if message.error() is None:
            found.append(message.value().decode())
        else:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
    consumer.close()
    return sorted(found)


def test_readers_of_committed_data_see_what_was_committed(servers: str) -> None:
    topic = make_topic(servers, "txn-committed")
    sender = producer(servers, "committed")
    for number in range(4):
        sender.begin_transaction()
        send(sender, topic, *(f"{number}{letter}" for letter in "abc"))
        if number % 2:
            sender.flush(PATIENCE_S)
            sender.abort_transaction(PATIENCE_S)
        else:
            sender.commit_transaction(PATIENCE_S)
    assert values(servers, topic, "read_committed") == ["0a", "0b", "0c", "2a", "2b", "2c"]
    assert len(values(servers, topic, "read_uncommitted")) == 12


def test_an_open_transaction_holds_back_what_comes_after_it(servers: str) -> None:
    topic = make_topic(servers, "txn-open")
    first, second = producer(servers, "open-1"), producer(servers, "open-2")
    first.begin_transaction()
    send(first, topic, "first a", "first b", "first c")
    first.flush(PATIENCE_S)
    second.begin_transaction()
    send(second, topic, "second a", "second b", "second c")
    second.commit_transaction(PATIENCE_S)
    assert values(servers, topic, "read_committed") == []
    first.commit_transaction(PATIENCE_S)
    assert len(values(servers, topic, "read_committed")) == 6


def test_a_zombie_is_fenced_and_its_transaction_aborted(servers: str) -> None:
    topic = make_topic(servers, "txn-fenced")
    zombie = producer(servers, "fenced")
    zombie.begin_transaction()
    send(zombie, topic, "zombie a", "zombie b", "zombie c")
    zombie.flush(PATIENCE_S)
    successor = producer(servers, "fenced")
    successor.begin_transaction()
    send(successor, topic, "successor")
    successor.commit_transaction(PATIENCE_S)
    with pytest.raises(KafkaException) as caught:
        zombie.commit_transaction(PATIENCE_S)
    assert caught.value.args[0].fatal()
    assert values(servers, topic, "read_committed") == ["successor"]


def test_a_copy_reads_each_record_once_though_a_part_of_it_is_aborted(servers: str) -> None:
    source, target = make_topic(servers, "txn-source"), make_topic(servers, "txn-target")
    plain = confluent_kafka.Producer({"bootstrap.servers": servers})
    send(plain, source, *(f"{number:03}" for number in range(60)))
    plain.flush(PATIENCE_S)
    copier = producer(servers, "copier")
    aborted = False
    while not aborted or len(values(servers, target, "read_committed")) < 60:
        aborted = copy(servers, source, target, copier, abort=not aborted) or aborted
    assert values(servers, target, "read_committed") == [f"{number:03}" for number in range(60)]
    assert len(values(servers, target, "read_uncommitted")) > 60


def copy(servers: str, source: str, target: str, copier: confluent_kafka.Producer, abort: bool) -> bool:
    """Copy what the group has not read, some records in a transaction; with `abort` the second is aborted, and what
    reads next begins again at the offsets that are committed. Whether one was aborted."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "copy",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
        }
    )
    consumer.subscribe([source])
    try:
        transactions = 0
        while messages := consumer.consume(10, PATIENCE_S if not transactions else 1.0):
            copier.begin_transaction()
            for message in messages:
                assert message.error() is None, message.error()
                copier.produce(target, message.value(), partition=message.partition())
            positions = consumer.position(consumer.assignment())
            copier.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_S)
            transactions += 1
            if abort and transactions == 2:
                copier.flush(PATIENCE_S)
                copier.abort_transaction(PATIENCE_S)
                return True
            copier.commit_transaction(PATIENCE_S)
        return False
    finally:
        consumer.close()


def test_a_transaction_outlives_the_leaders_of_its_partitions() -> None:
    with Cluster(nodes=3, properties=PROPERTIES) as cluster:
        servers = cluster.bootstrap_servers
        topic = make_topic(servers, "txn-moved")
        committed, aborted = producer(servers, "moved-1"), producer(servers, "moved-2")
        for sender, name in ((committed, "kept"), (aborted, "lost")):
            sender.begin_transaction()
            send(sender, topic, f"{name} a", f"{name} b", f"{name} c")
            sender.flush(PATIENCE_S)
        for node in (1, 2, 3):
            cluster.kill(node)
            send(committed, topic, f"kept without {node}")
            committed.flush(PATIENCE_S)
            cluster.restart(node)
        committed.commit_transaction(PATIENCE_S)
        aborted.abort_transaction(PATIENCE_S)
        found = values(servers, topic, "read_committed")
        assert found == ["kept a", "kept b", "kept c", *(f"kept without {node}" for node in (1, 2, 3))]
