"""Groups of other hands' consumers on pykraft: shared by three libraries, killed, joined, and read by one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from pykraft import Cluster, Producer
from tests.harness.others import module
from tests.harness.waiting import quickest, seconds, wait_until
from tests.interop.members import Member, are_shared
from tests.interop.test_others import make_topic

PATIENCE_S = 40.0
PARTITIONS = 6
LIBRARIES = ("kafka-python", "confluent-kafka", "aiokafka")
PROPERTIES = {
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 100,
    "offsets.topic.num.partitions": 3,
    "group.consumer.session.timeout.ms": 2000,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 200,
}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Cluster(nodes=3, properties=PROPERTIES) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def start(servers: str) -> Iterator[Callable[[str, str, str], Member]]:
    members: list[Member] = []

    def start_one(library: str, group: str, topic: str) -> Member:
        members.append(Member(library, servers, group, topic))
        return members[-1]

    yield start_one
    for member in members:
        member.kill()


def places(topic: str) -> list[str]:
    return [f"{topic}-{number}" for number in range(PARTITIONS)]


def write(servers: str, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode(), partition=number % PARTITIONS)


def committed(servers: str, group: str, topic: str) -> dict[int, int]:
    """What librdkafka reads of the group's offsets."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
    places = [confluent_kafka.TopicPartition(topic, number) for number in range(PARTITIONS)]
    try:
        return {place.partition: place.offset for place in consumer.committed(places, 10)}
    finally:
        consumer.close()


@pytest.mark.limit(180)
def test_three_libraries_share_a_group_and_each_partition_has_an_owner_when_one_is_killed(
    servers: str, start: Callable[[str, str, str], Member]
) -> None:
    make_topic(servers, "shared", PARTITIONS)
    members = [start(library, "g", "shared") for library in LIBRARIES]
    wait_until(lambda: are_shared(members, places("shared")), "three share the topic", PATIENCE_S)
    write(servers, "shared", 60)
    members.pop(0).kill()
    write(servers, "shared", 60)
    wait_until(lambda: are_shared(members, places("shared")), "two are left", PATIENCE_S)
    joined = start("kafka-python", "g", "shared")
    members.append(joined)
    wait_until(lambda: are_shared(members, places("shared")), "one has joined", PATIENCE_S)
    write(servers, "shared", 60)
    wait_until(lambda: set(committed(servers, "g", "shared").values()) == {30}, "all is committed", PATIENCE_S)
    theirs = module("kafka").KafkaAdminClient(bootstrap_servers=servers)
    offsets = theirs.list_group_offsets("g") if hasattr(theirs, "list_group_offsets") else None
    if offsets is None:
        offsets = theirs.list_consumer_group_offsets("g")
    theirs.close()
    found = offsets.get("g", offsets)
    assert {place.partition: offset.offset for place, offset in found.items()} == dict.fromkeys(range(PARTITIONS), 30)


@pytest.mark.long
@pytest.mark.limit(180)
def test_classic_members_of_three_libraries_stay_when_one_of_the_newer_protocol_comes_and_dies(
    servers: str, start: Callable[[str, str, str], Member]
) -> None:
    make_topic(servers, "moved", PARTITIONS)
    members = [start(library, "m", "moved") for library in LIBRARIES]
    wait_until(lambda: are_shared(members, "moved"), f"{[m.assigned for m in members]}")
    write(servers, "moved", 60)
    members.append(start("confluent-kafka-848", "m", "moved"))
    wait_until(lambda: are_shared(members, "moved"), f"four share: {[m.assigned for m in members]}")
    write(servers, "moved", 60)
    wait_until(lambda: set(committed(servers, "m", "moved").values()) == {20}, "all is committed")
    members.pop().kill()
    wait_until(lambda: are_shared(members, "moved"), f"three are left: {[m.assigned for m in members]}")
    write(servers, "moved", 60)
    wait_until(lambda: set(committed(servers, "m", "moved").values()) == {30}, "all is committed again")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_pattern_finds_topics_that_come_later(
    library: str, servers: str, start: Callable[[str, str, str], Member]
) -> None:
    make_topic(servers, f"{library}.one", 1)
    member = start(library, f"pattern-{library}", f"^{library}[.].*")
    wait_until(lambda: member.assigned == [f"{library}.one-0"], "it owns what there is", PATIENCE_S)
    make_topic(servers, f"{library}.two", 1)
    wait_until(lambda: len(member.assigned) == 2, "it owns the new topic", PATIENCE_S)


def test_the_other_consumers_close_at_once(servers: str) -> None:
    """After a plain assign, without a group that anybody would have to leave."""
    make_topic(servers, "closing", 1)

    def kafka_python() -> float:
        consumer = module("kafka").KafkaConsumer(bootstrap_servers=servers, group_id="closing")
        consumer.assign([module("kafka").TopicPartition("closing", 0)])
        consumer.poll(200)
        return seconds(consumer.close)

    def librdkafka() -> float:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "closing"})
        consumer.assign([confluent_kafka.TopicPartition("closing", 0)])
        consumer.poll(0.2)
        return seconds(consumer.close)

    assert quickest(kafka_python, 1) < 1
    assert quickest(librdkafka, 1) < 1
