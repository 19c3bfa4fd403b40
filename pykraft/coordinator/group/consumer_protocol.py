"""What classic consumers put into the opaque bytes of JoinGroup and SyncGroup: a subscription, an assignment.

Both are an int16 version followed by the message in that version; a newer version reads as the newest one known. The
coordinator reads them only when a group changes its protocol, and to know which topics a classic group reads.

Follows org.apache.kafka.clients.consumer.internals.ConsumerProtocol and org.apache.kafka.coordinator.group.Utils.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from pykraft.common.errors import ProtocolError
from pykraft.common.types import Uuid
from pykraft.coordinator.group.topics import Assignment, Topics
from pykraft.protocol.messages.coordinators import ConsumerProtocolAssignment, ConsumerProtocolSubscription

M = TypeVar("M", ConsumerProtocolSubscription, ConsumerProtocolAssignment)
_VERSION_BYTES = 2
NEWEST_VERSION = ConsumerProtocolSubscription.versions[1]


def version_of(data: bytes) -> int:
    """The version that the bytes begin with; ProtocolError if there is none."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if len(data) < _VERSION_BYTES or version < 0:
        raise ProtocolError("the consumer protocol's version is missing or negative")
    return version


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """A member's subscription; ProtocolError if it cannot be read."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """A member's assignment; ProtocolError if it cannot be read."""
    return _read(ConsumerProtocolAssignment, data)


def _read(kind: type[M], data: bytes) -> M:
    return kind.decode(data, min(version_of(data), NEWEST_VERSION), _VERSION_BYTES)


def assignment_bytes(assignment: Assignment, topics: Topics, version: int) -> bytes:
    """An assignment as a classic member of this version reads it. Topics that are gone are left out."""
    version = min(version, NEWEST_VERSION)
    partition_type = ConsumerProtocolAssignment.TopicPartition
    found = ((topics.by_id(topic_id), partitions) for topic_id, partitions in sorted(assignment.items()))
    assigned = [
        partition_type(topic=topic.name, partitions=sorted(partitions))
        for topic, partitions in found
        if topic is not None
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return version.to_bytes(_VERSION_BYTES, "big") + message.to_bytes(version)


class PartitionsOfName(Protocol):
    """What both messages list partitions by."""

    @property
    def topic(self) -> str: ...

    @property
    def partitions(self) -> Iterable[int]: ...


def partitions_by_id(listed: Iterable[PartitionsOfName], topics: Topics) -> Assignment:
    """Partitions listed by topic name, by topic id. Topics that do not exist are left out; of a topic that is listed
    twice the first entry counts."""
    found: dict[Uuid, frozenset[int]] = {}
    for each in listed:
        topic = topics.named(each.topic)
        if topic is not None and each.partitions:
            found.setdefault(topic.topic_id, frozenset(each.partitions))
    return found
