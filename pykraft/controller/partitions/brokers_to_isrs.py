"""Which partitions each broker leads, or is in sync of: an index of the newest image.

A broker that goes, comes back or sends a heartbeat concerns its own partitions, and a cluster has thousands of others.
The index belongs to one image and follows it to the next by the delta between them. Asked about any other image it
counts again, so what it says depends on the image alone. A new active controller has no index: it counts in `Steps`,
before it makes its first change, for a million partitions take seconds.

Partitions are kept by topic. To find a broker's partitions in order, only its topics are sorted at first, and the
partitions of a topic when they are reached.

Follows org.apache.kafka.controller.{BrokersToIsrs,BrokersToElrs}, and the ``imbalancedPartitions`` of
ReplicationControlManager.
"""

from collections.abc import Iterator

from pykraft.common.core import Steps, finish
from pykraft.common.types import Uuid
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionRegistration
from pykraft.protocol.messages.records import NO_LEADER

Found = tuple[Uuid, int, PartitionRegistration]
Change = tuple[Uuid, int, PartitionRegistration | None, PartitionRegistration | None]
"""A partition before and after."""
_PARTITIONS_AT_ONCE = 100
"""A partition takes two or three microseconds."""


class _Partitions:
    """A set of partitions."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: dict[Uuid, set[int]] = {}
        """By topic; no topic without a partition."""

    def add(self, topic_id: Uuid, number: int) -> None:
        numbers = self._numbers.get(topic_id)
        if numbers is None:
            self._numbers[topic_id] = {number}
        else:
            numbers.add(number)

    def discard(self, topic_id: Uuid, number: int) -> None:
        numbers = self._numbers.get(topic_id)
        if numbers is not None:
            numbers.discard(number)
            if not numbers:
                del self._numbers[topic_id]

    def in_order(self, image: MetadataImage) -> Iterator[Found]:
        """As they are in this image. It must not change before the last is found."""
        for topic_id in sorted(self._numbers):
            partitions = image.topics[topic_id].partitions
            for number in sorted(self._numbers[topic_id]):
                yield topic_id, number, partitions[number]


class BrokersToIsrs:
    """The index. What it finds is in an order that is the same on every controller."""

    def __init__(self) -> None:
        self._image = EMPTY_IMAGE
        self._concerned: dict[int, _Partitions] = {}
        """By broker: what it leads, is in the ISR of, or in the ELR; under `NO_LEADER` what has no leader."""
        self._led: dict[int, int] = {}
        """How many partitions each broker leads."""
        self._imbalanced = _Partitions()
        """Partitions that another replica leads than their first one, or none."""

    # --- which image --------------------------------------------------------------------------------------------------

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> Steps[None]:
        """`delta` leads to this image. Pauses after some partitions. If it is asked about an image meanwhile, it counts
        again, and follows no further."""
        if delta.image is not self._image:
            return  # it was not asked about that one; it counts again when it is asked
        before, between = self._image, MetadataImage()
        self._image = between
        for count, (topic_id, number, known, partition) in enumerate(_changes(delta, before, image), 1):
            if known is not None:
                self._remove(topic_id, number, known)
            if partition is not None:
                self._add(topic_id, number, partition)
            if not count % _PARTITIONS_AT_ONCE:
                yield
                if self._image is not between:
                    return
        self._image = image

    def turn_to(self, image: MetadataImage) -> Steps[None]:
        """Count the partitions of this image, unless it is this one's index. Pauses after some partitions. If it is
        asked about an image meanwhile, it counts at once, and this ends."""
        if image is self._image:
            return
        self._image = between = MetadataImage()
        self._concerned, self._led, self._imbalanced = {}, {}, _Partitions()
        count = 0
        for topic_id, topic in image.topics.items():
            for number, partition in topic.partitions.items():
                self._add(topic_id, number, partition)
                count += 1
                if not count % _PARTITIONS_AT_ONCE:
                    yield
                    if self._image is not between:
                        return
        self._image = image

    def _turn_to(self, image: MetadataImage) -> None:
        finish(self.turn_to(image))

    def _add(self, topic_id: Uuid, number: int, partition: PartitionRegistration) -> None:
        for broker_id in {*partition.isr, *partition.eligible_leader_replicas, partition.leader}:  # any order
            if broker_id not in self._concerned:
                self._concerned[broker_id] = _Partitions()
            self._concerned[broker_id].add(topic_id, number)
        self._led[partition.leader] = self._led.get(partition.leader, 0) + 1
        if not partition.has_preferred_leader:
            self._imbalanced.add(topic_id, number)

    def _remove(self, topic_id: Uuid, number: int, partition: PartitionRegistration) -> None:
        for broker_id in {*partition.isr, *partition.eligible_leader_replicas, partition.leader}:  # any order
            self._concerned[broker_id].discard(topic_id, number)
        self._led[partition.leader] -= 1
        self._imbalanced.discard(topic_id, number)

    # --- what it finds ------------------------------------------------------------------------------------------------

    def concerned(self, image: MetadataImage, broker_id: int) -> Iterator[Found]:
        """What the broker leads, or is in the ISR or the ELR of."""
        self._turn_to(image)
        found = self._concerned.get(broker_id)
        return iter(()) if found is None else found.in_order(image)

    def without_leader(self, image: MetadataImage) -> Iterator[Found]:
        return self.concerned(image, NO_LEADER)

    def imbalanced(self, image: MetadataImage) -> Iterator[Found]:
        """Partitions that are not led by the first replica of their assignment."""
        self._turn_to(image)
        return self._imbalanced.in_order(image)

    def leads_any(self, image: MetadataImage, broker_id: int) -> bool:
        self._turn_to(image)
        return self._led.get(broker_id, 0) > 0


def _changes(delta: MetadataDelta, before: MetadataImage, after: MetadataImage) -> Iterator[Change]:
    """Which partitions the delta is about: as they were, and as they are."""
    for topic_id, topic in delta.removed_topics.items():
        for number, partition in topic.partitions.items():
            yield topic_id, number, partition, None
    for topic_id in delta.touched_topics:  # in any order: what it counts is asked for in order
        topic = after.topics[topic_id]
        known = before.topics.get(topic_id)
        for number in delta.touched_partitions(topic):
            yield topic_id, number, None if known is None else known.partitions.get(number), topic.partitions[number]
