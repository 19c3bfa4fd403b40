"""The laws of groups whose topics come and go, and get more partitions.

Such a group subscribes by name or by a pattern. What the laws of groups say of offsets and owners holds for it, too.
Besides:

* *Of deleted topics*: the group's offsets of a topic are deleted only after the topic. What is still on its way about
  that topic counts no more.
* *Of patterns*: the topics that a coordinator finds for a pattern match it as a whole.
* *Of owners*: soon after all is quiet, every partition of every topic that the group subscribes to has exactly one
  owner in the group. This takes in new topics, and new partitions of a topic that the group has been reading.
* *Of members that were fenced*: a member that joins again owns nothing, also as its user sees it.

A new topic counts for the coordinator's pattern when the pattern is resolved again, which is after ten seconds at most
where the histories run. So "soon" is more than that.
"""

import re
from collections.abc import Mapping, Sequence

from pykraft.common.types import TopicIdPartition, TopicPartition, Uuid
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.coordinators import CoordinatorRecord, OffsetCommitKey, RegularExpressionKey
from pykraft.protocol.messages.group_values import ConsumerGroupRegularExpressionValue
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest
from pykraft.sim.laws.classic_group_laws import ClassicGroupLaws
from pykraft.sim.laws.consumer_group_laws import ConsumerGroupLaws
from pykraft.sim.laws.group_laws import GroupLaws, names
from pykraft.sim.laws.invariants import PartitionHistory, require
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.world.hosts import SimulatedNode

OWNED_WITHIN_MS = 25_000
"""A partition without an owner for longer than this, while all is quiet, has been forgotten."""
_JOINS = 0


class TopicNames:
    """The names and ids of all topics that any node has known, also of those that are gone."""

    def __init__(self, watcher: Watcher, nodes: Mapping[int, SimulatedNode]) -> None:
        self._watcher = watcher
        self._nodes = nodes
        self._names: dict[Uuid, str] = {}
        self._ids: dict[str, Uuid] = {}
        self._read: dict[int, MetadataImage] = {}

    def look(self, machine: SimulatedNode) -> None:
        """A node may have read of topics that are new."""
        image = None if machine.node is None else machine.node.loader.image
        if image is not None and self._read.get(machine.node_id) is not image:
            self._read[machine.node_id] = image
            self._ids.update(image.topic_ids)
            self._names.update((topic_id, topic.name) for topic_id, topic in image.topics.items())

    def name_of(self, topic_id: Uuid) -> str:
        """The topic's name; its id as a text if no node has ever known it."""
        if topic_id not in self._names:
            for machine in self._nodes.values():
                self.look(machine)
        return self._names.setdefault(topic_id, str(topic_id))

    def was_deleted(self, name: str) -> bool:
        """The newest image has no topic of this name, and an older one has had it."""
        image = self._watcher.newest_image()
        return image is not None and name in self._ids and self._ids[name] not in image.topics

    def history(self, key: TopicPartition) -> PartitionHistory:
        """That of the topic that has this name, or has had it."""
        topic_id = self._ids.get(key.topic)
        return self._watcher.history(key) if topic_id is None else self._watcher.history_of(_with_id(topic_id, key))


def _with_id(topic_id: Uuid, key: TopicPartition) -> TopicIdPartition:
    return TopicIdPartition(topic_id, *key)


class _StormLaws(GroupLaws):
    """What is different for a group whose topics come and go."""

    topics: TopicNames

    def on_record(self, decoded: CoordinatorRecord) -> None:
        key = decoded.key
        if isinstance(key, RegularExpressionKey):
            self.check_pattern(key.regular_expression, decoded.value)
        elif isinstance(key, OffsetCommitKey) and decoded.value is None:
            self._forget(TopicPartition(key.topic, key.partition))
        else:
            super().on_record(decoded)

    def check_pattern(self, pattern: str, value: object) -> None:
        """A coordinator has resolved a pattern, or given it up."""
        topics = value.topics if isinstance(value, ConsumerGroupRegularExpressionValue) else ()
        others = [name for name in topics if re.fullmatch(pattern, name) is None]
        require(not others, f"{self.group_id}: the pattern {pattern!r} is resolved to {others}")

    def _forget(self, key: TopicPartition) -> None:
        require(self.is_gone(key), f"{key}: an offset of {self.group_id} was deleted, the topic not")
        place = self.place(key)
        place.commits.clear()
        place.acknowledged = 0

    def is_gone(self, key: TopicPartition) -> bool:
        return self.topics.was_deleted(key.topic)

    def check_owners(self, owned: Sequence[TopicPartition], wanted: Sequence[TopicPartition], waited_ms: int) -> None:
        """The members own these partitions, and have not owned the wanted ones for this long."""
        if waited_ms > OWNED_WITHIN_MS:
            twice = {key for key in owned if owned.count(key) > 1}
            lacking, more = set(wanted) - set(owned), set(owned) - set(wanted)
            require(
                not (twice or lacking or more),
                f"after {waited_ms} ms of quiet, {names(lacking)} have no owner in {self.group_id}, {names(twice)} "
                f"have several, and {names(more)} are not subscribed to",
            )


class StormClassicGroupLaws(_StormLaws, ClassicGroupLaws):
    """Those of a classic group."""


class StormConsumerGroupLaws(_StormLaws, ConsumerGroupLaws):
    """Those of a consumer group (KIP-848)."""

    @property
    def member_ids(self) -> list[str]:
        """The members by the log."""
        return sorted(self._members)

    def check_join(self, request: ConsumerGroupHeartbeatRequest, owned: Sequence[TopicPartition]) -> None:
        """A member sends a heartbeat, and its user reads these partitions."""
        if request.member_epoch == _JOINS:
            require(not owned, f"{request.member_id} joins {self.group_id}, and still reads {names(owned)}")
