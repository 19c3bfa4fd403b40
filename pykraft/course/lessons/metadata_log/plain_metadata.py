"""Metadata records and images in plain words, as lab 14 has them, and the way back to pykraft's own.

A plain record is a kind and a dictionary, such as ``("PartitionChange", {"topic_id": "x", "partition": 0, ...})``. A
plain image is five dictionaries: levels, brokers, topics, partitions and configs. Both leave out what a reader of the
lab does not need: endpoints, directories, and the kinds of records that `KINDS` does not name.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pykraft.common.types import Uuid
from pykraft.metadata.image import MetadataImage, broker_record
from pykraft.protocol.messages.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

Plain = tuple[str, dict[str, Any]]
RESOURCES = {2: "topic", 4: "broker"}
_NUMBERS = {name: number for number, name in RESOURCES.items()}
_CHANGED = ("replicas", "isr")
_FRAMES: dict[type[MetadataRecord], str] = {
    BeginTransactionRecord: "BeginTransaction",
    EndTransactionRecord: "EndTransaction",
    AbortTransactionRecord: "AbortTransaction",
}
KINDS: tuple[type[MetadataRecord], ...] = (
    RegisterBrokerRecord,
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
    TopicRecord,
    RemoveTopicRecord,
    PartitionRecord,
    PartitionChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    *_FRAMES,
)


def plain_record(record: Any) -> Plain:
    """A record in plain words; one of another kind is a NoOp."""
    found: dict[str, Any]
    match record:
        case RegisterBrokerRecord():
            found = {"id": record.broker_id, "epoch": record.broker_epoch, "fenced": record.fenced}
        case BrokerRegistrationChangeRecord():
            found = {"id": record.broker_id, "epoch": record.broker_epoch, "fenced": record.fenced}
        case UnregisterBrokerRecord():
            found = {"id": record.broker_id, "epoch": record.broker_epoch}
        case TopicRecord():
            found = {"topic_id": str(record.topic_id), "name": record.name}
        case RemoveTopicRecord():
            found = {"topic_id": str(record.topic_id)}
        case PartitionRecord():
            found = {"topic_id": str(record.topic_id), "partition": record.partition_id, **_partition(record)}
        case PartitionChangeRecord():
            lists = {name: _listed(getattr(record, name)) for name in _CHANGED}
            found = {"topic_id": str(record.topic_id), "partition": record.partition_id}
            found |= {**lists, "leader": record.leader}
        case ConfigRecord():
            resource = (RESOURCES.get(record.resource_type, str(record.resource_type)), record.resource_name)
            found = {"resource": resource, "name": record.name, "value": record.value}
        case FeatureLevelRecord():
            found = {"name": record.name, "level": record.feature_level}
        case _:
            return _FRAMES.get(type(record), "NoOp"), {}
    return type(record).__name__.removesuffix("Record"), found


def _listed(values: Iterable[int] | None) -> list[int] | None:
    return None if values is None else list(values)


def _partition(partition: Any) -> dict[str, Any]:
    """Of a record or of a registration."""
    return {
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
    }


def plain_image(image: MetadataImage) -> dict[str, Any]:
    """An image in plain words."""
    return {
        "levels": dict(image.features),
        "brokers": {number: {"epoch": b.epoch, "fenced": b.fenced} for number, b in image.brokers.items()},
        "topics": {str(topic_id): topic.name for topic_id, topic in image.topics.items()},
        "partitions": {
            (str(topic_id), number): _partition(partition)
            for topic_id, topic in image.topics.items()
            for number, partition in topic.partitions.items()
        },
        "configs": {
            (RESOURCES.get(resource.kind, str(resource.kind)), resource.name): dict(settings)
            for resource, settings in image.configs.items()
        },
    }


def real_record(kind: str, fields: Mapping[str, Any]) -> MetadataRecord:
    """A record of pykraft's own that says the same, with nothing in its other fields."""
    match kind:
        case "RegisterBroker":
            return RegisterBrokerRecord(
                broker_id=fields["id"],
                incarnation_id=Uuid(bytes(16)),
                broker_epoch=fields["epoch"],
                end_points=[],
                features=[],
                rack=None,
                fenced=fields["fenced"],
            )
        case "BrokerRegistrationChange":
            return BrokerRegistrationChangeRecord(
                broker_id=fields["id"], broker_epoch=fields["epoch"], fenced=fields["fenced"]
            )
        case "UnregisterBroker":
            return UnregisterBrokerRecord(broker_id=fields["id"], broker_epoch=fields["epoch"])
        case "Topic":
            return TopicRecord(name=fields["name"], topic_id=Uuid.parse(fields["topic_id"]))
        case "RemoveTopic":
            return RemoveTopicRecord(topic_id=Uuid.parse(fields["topic_id"]))
        case "Partition":
            wanted = {name: value for name, value in fields.items() if name not in ("topic_id", "partition")}
            return PartitionRecord(
                partition_id=fields["partition"],
                topic_id=Uuid.parse(fields["topic_id"]),
                removing_replicas=[],
                adding_replicas=[],
                **wanted,
            )
        case "PartitionChange":
            wanted = {name: fields[name] for name in (*_CHANGED, "leader")}
            return PartitionChangeRecord(
                partition_id=fields["partition"], topic_id=Uuid.parse(fields["topic_id"]), **wanted
            )
        case "Config":
            kind, name = fields["resource"]
            return ConfigRecord(
                resource_type=_NUMBERS[kind], resource_name=name, name=fields["name"], value=fields["value"]
            )
        case "FeatureLevel":
            return FeatureLevelRecord(name=fields["name"], feature_level=fields["level"])
    raise ValueError(f"{kind!r} is no kind of record that changes the image")


def full_records(plain: Iterable[Plain], image: MetadataImage) -> Iterator[tuple[MetadataRecord, int]]:
    """Plain records of a snapshot as those that a node writes: what is not in them comes from the image. KeyError for
    something that the image does not have."""
    for kind, fields in plain:
        match kind:
            case "RegisterBroker":
                broker = image.brokers[fields["id"]]
                yield broker_record(replace(broker, epoch=fields["epoch"], fenced=fields["fenced"])), 3
            case "Partition":
                topic_id, number = Uuid.parse(fields["topic_id"]), fields["partition"]
                own = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
                changes: dict[str, Any] = {
                    name: value for name, value in own.items() if name not in ("topic_id", "partition")
                }
                yield replace(image.topics[topic_id].partitions[number], **changes).to_record(topic_id, number), 2
            case _:
                yield real_record(kind, fields), 0


def rows(image: Mapping[str, Mapping[Any, Any]]) -> int:
    """How many rows a plain image has: each setting is one."""
    return sum(len(value) if name == "configs" else 1 for name, part in image.items() for value in part.values())


def differences(one: Mapping[str, Mapping[Any, Any]], other: Mapping[str, Mapping[Any, Any]]) -> list[str]:
    """The rows in which two plain images differ, in words."""
    found = []
    for name in one.keys() | other.keys():
        mine, theirs = one.get(name, {}), other.get(name, {})
        found += [f"{name} {key}" for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)]
    return sorted(found)
