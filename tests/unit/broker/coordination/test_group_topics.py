"""What the group coordinator sees of topics, from metadata records to its view."""

from __future__ import annotations

from pykraft.broker.coordination.group_topics import ImageTopics, TopicChanges, topic_changes
from pykraft.common.types import OffsetAndEpoch, Uuid
from pykraft.coordinator.group.topics import TopicInfo
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage
from pykraft.protocol.messages.records import (
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)

ORDERS, PEOPLE, AGAIN = (Uuid(bytes(15) + bytes([number])) for number in (1, 2, 3))


def broker(number: int, rack: str | None) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=number, incarnation_id=ORDERS, broker_epoch=number, rack=rack)


def partition(topic: Uuid, number: int, replicas: list[int]) -> PartitionRecord:
    return PartitionRecord(partition_id=number, topic_id=topic, replicas=replicas, isr=replicas, leader=replicas[0])


def change(base: MetadataImage, *records: MetadataRecord) -> tuple[TopicChanges, MetadataImage]:
    delta = MetadataDelta(base)
    for record in records:
        delta.replay(record)
    image = delta.apply(OffsetAndEpoch(base.provenance.offset + len(records), 1))
    return topic_changes(delta, image), image


BASE = change(
    EMPTY_IMAGE,
    broker(1, "cellar"),
    broker(2, None),
    TopicRecord(name="orders", topic_id=ORDERS),
    partition(ORDERS, 0, [1, 2]),
    partition(ORDERS, 1, [2]),
    TopicRecord(name="people", topic_id=PEOPLE),
    partition(PEOPLE, 0, [2, 9]),
)[1]


def test_a_topic_is_seen_with_the_racks_of_its_replicas() -> None:
    topics = ImageTopics(BASE)
    assert topics.named("orders") == TopicInfo(ORDERS, "orders", 2, (("cellar",), ()))
    assert topics.by_id(PEOPLE) == TopicInfo(PEOPLE, "people", 1)
    assert topics.named("nothing") is None and topics.by_id(AGAIN) is None
    assert sorted(topics.names()) == ["orders", "people"]
    assert topics.version == BASE.provenance.offset


def test_the_view_follows_the_image() -> None:
    topics = ImageTopics(BASE)
    assert topics.named("people") == TopicInfo(PEOPLE, "people", 1)
    _, topics.image = change(BASE, partition(PEOPLE, 1, [2]))
    assert topics.named("people") == TopicInfo(PEOPLE, "people", 2)
    _, topics.image = change(topics.image, broker(2, "attic"))
    assert topics.named("people") == TopicInfo(PEOPLE, "people", 2, (("attic",), ("attic",)))


def test_a_topic_is_looked_at_once_an_image() -> None:
    topics = ImageTopics(BASE)
    assert topics.named("orders") is topics.by_id(ORDERS) is not None


def test_a_change_names_what_it_created_and_what_it_altered() -> None:
    created, image = change(BASE, TopicRecord(name="new", topic_id=AGAIN), partition(AGAIN, 0, [1]))
    assert created == (["new"], [])
    assert change(image, partition(ORDERS, 2, [1]), broker(3, None))[0] == ([], ["orders"])
    assert change(image, RemoveTopicRecord(topic_id=ORDERS))[0] == ([], ["orders"])
    recreated = [RemoveTopicRecord(topic_id=ORDERS), TopicRecord(name="orders", topic_id=Uuid(b"\1" * 16))]
    assert change(image, *recreated)[0] == (["orders"], ["orders"])
