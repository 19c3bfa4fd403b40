"""The topics of the cluster as the group coordinator asks for them: its port `Topics` over the metadata image.

The coordinator imports no metadata. The broker hands it this view, gives the view each new image, and names the topics
that the change created or altered, so that the groups which subscribe to them check their metadata hash.

Follows org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage and KRaftCoordinatorMetadataDelta.
"""

from collections.abc import Collection
from typing import NamedTuple

from pykraft.common.types import Uuid
from pykraft.coordinator.group.topics import TopicInfo
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import MetadataImage, TopicImage


class ImageTopics:
    """The topics of the image that it was given last. It looks at each topic once an image: while 50 members join, the
    coordinator asks for their topic 1,700 times, and the racks of 500 partitions take a millisecond to collect."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._seen: dict[Uuid, TopicInfo] = {}

    @property
    def image(self) -> MetadataImage:
        return self._image

    @image.setter
    def image(self, image: MetadataImage) -> None:
        self._image = image
        self._seen = {}

    @property
    def version(self) -> int:
        return self.image.provenance.offset

    def named(self, name: str) -> TopicInfo | None:
        return self._info(self.image.topic_named(name))

    def by_id(self, topic_id: Uuid) -> TopicInfo | None:
        return self._info(self.image.topics.get(topic_id))

    def names(self) -> Collection[str]:
        return self.image.topic_ids.keys()

    def _info(self, topic: TopicImage | None) -> TopicInfo | None:
        if topic is None:
            return None
        seen = self._seen.get(topic.topic_id)
        if seen is None:
            seen = self._seen[topic.topic_id] = self._look_at(topic)
        return seen

    def _look_at(self, topic: TopicImage) -> TopicInfo:
        racks = tuple(self._racks(topic.partitions[number].replicas) for number in sorted(topic.partitions))
        return TopicInfo(topic.topic_id, topic.name, len(topic.partitions), racks if any(racks) else ())

    def _racks(self, replicas: Collection[int]) -> tuple[str, ...]:
        brokers = (self.image.brokers.get(broker_id) for broker_id in replicas)
        return tuple(broker.rack for broker in brokers if broker is not None and broker.rack is not None)


class TopicChanges(NamedTuple):
    """Names of topics, as `ConsumerGroupManager.on_metadata_changed` takes them."""

    created: Collection[str]
    changed: Collection[str]
    """With other partitions or replicas than before, or deleted."""


def topic_changes(delta: MetadataDelta, image: MetadataImage) -> TopicChanges:
    """What this change did to topics. A topic that was deleted and created again counts as both."""
    touched = [image.topics[topic_id] for topic_id in sorted(delta.touched_topics) if topic_id in image.topics]
    created = {topic.name for topic in touched if topic.topic_id not in delta.image.topics}
    changed = {topic.name for topic in touched} - created
    changed |= {topic.name for topic in delta.removed_topics.values()}
    return TopicChanges(sorted(created), sorted(changed))
