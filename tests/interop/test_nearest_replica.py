"""Fetching from the nearest replica (KIP-392), by clients of four hands: they say their rack, the leader sends them to
the follower there, and they read from that follower what is committed. What each broker sent is seen in the frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from pykraft import Cluster, Consumer, NewTopic, Producer, TopicPartition
from pykraft.broker.settings.config import RACK_AWARE_SELECTOR
from pykraft.transport.frame_recorder import RecordedFrames
from tests.harness import apache_kafka
from tests.harness.others import module
from tests.interop.clients import PATIENCE_S
from tests.interop.test_java import tool

RACKS = ["a", "b", "c"]
COUNT = 200
LEADER, NEAREST = 1, 3
Read = Callable[[str, str, int], list[bytes]]
"""(servers, topic, count) -> the values of the first records of partition 0, read by a client in rack c whose client id
is its name."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, racks=RACKS, properties={"replica.selector.class": RACK_AWARE_SELECTOR}) as running:
        yield running


def polled(consumer: Consumer) -> list[bytes]:
    """The values of what has come."""
    return [record.value or b"" for records in consumer.poll(1000).values() for record in records]


def by_pykraft(servers: str, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    settings: dict[str, Any] = {"client_id": "by_pykraft", "client_rack": "c", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < count:
            found += polled(consumer)
    return found


def by_librdkafka(servers: str, topic: str, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "client.id": "by_librdkafka", "client.rack": "c"}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, PATIENCE_S)
        assert not any(message.error() for message in messages)
        return [message.value() for message in messages]
    finally:
        consumer.close()


def by_kafka_python(servers: str, topic: str, count: int) -> list[bytes]:
    kafka = module("kafka")
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers, client_id="by_kafka_python", client_rack="c", auto_offset_reset="earliest"
    )
    try:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        return [next(consumer).value for _ in range(count)]
    finally:
        consumer.close()


def by_java(servers: str, topic: str, count: int) -> list[bytes]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    settings = [f"--command-property={each}" for each in ("client.rack=c", "client.id=by_java")]
    where = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", str(count))
    return tool(servers, "consumer.ConsoleConsumer", *where, *settings).encode().split()


def value(number: int) -> bytes:
    return b"value-%d" % number


def write(cluster: Cluster, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for future in [producer.send(topic, value(number), partition=0) for number in range(count)]:
            future.result(PATIENCE_S)


def make(cluster: Cluster, topic: str) -> str:
    """Broker 1 leads it."""
    with cluster.admin() as admin:
        admin.create_topics([NewTopic(topic, replica_assignments={0: [LEADER, 2, NEAREST]})])
    cluster.wait_until_known(topic, 1)
    return topic


def sources(recorded: RecordedFrames, client_id: str) -> dict[int, int]:
    """By broker, how many bytes of responses to fetches it has sent to this client."""
    found: dict[int, int] = {}
    for exchange in recorded.of("Fetch", client_id):
        size = 0 if exchange.response is None else exchange.response.size_bytes
        found[exchange.node_id] = found.get(exchange.node_id, 0) + size
    return found


@pytest.mark.parametrize("read", [by_pykraft, by_librdkafka, by_kafka_python, by_java], ids=lambda read: read.__name__)
def test_a_client_reads_from_the_follower_in_its_rack(cluster: Cluster, read: Read) -> None:
    topic = make(cluster, f"near-{read.__name__}")
    write(cluster, topic, COUNT)
    with cluster.record_frames() as recorded:
        assert read(cluster.bootstrap_servers, topic, COUNT) == [value(number) for number in range(COUNT)]
    bytes_from = sources(recorded, read.__name__)
    assert set(bytes_from) == {LEADER, NEAREST}, "it asks the leader first"
    assert bytes_from[NEAREST] > COUNT * len(value(0)) > bytes_from[LEADER]


def test_when_the_follower_dies_the_consumer_goes_on_at_the_leader_and_misses_nothing(cluster: Cluster) -> None:
    topic = make(cluster, "near-killed")
    found: list[bytes] = []
    settings: dict[str, Any] = {"client_id": "near-killed", "client_rack": "c", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])

        def read(count: int) -> list[bytes]:
            while len(found) < count:
                found.extend(polled(consumer))
            return found

        write(cluster, topic, COUNT)
        with cluster.record_frames() as recorded:
            read(COUNT)
        assert NEAREST in sources(recorded, "near-killed")
        cluster.kill(NEAREST)
        try:
            write(cluster, topic, COUNT)
            assert read(2 * COUNT) == [value(number) for number in range(COUNT)] * 2
        finally:
            cluster.restart(NEAREST)
