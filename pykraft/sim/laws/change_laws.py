"""Changes Are Told: what the parts of a node hear of a new image is all that differs from the image before.

A broker does not compare images. It gets each new image with a delta, which names the brokers, topics, partitions and
settings that may be others now, and the topics that are gone. A part of it looks at nothing else: so what a delta
leaves out, the broker goes on with as it was, however right its image is. A delta comes from records, or from a
snapshot that takes the place of many records, among them some that deleted a topic or a setting.

Each delta that a broker publishes is compared with its two images. Few brokers are so far behind that they have to load
a snapshot while they run, and fewer miss the deletion of a topic by that. So at the end of a history it is supposed
that a broker knew a topic, settings and a broker that the newest image does not have, and loads a snapshot of that
image; and the reverse.

Follows org.apache.kafka.image.MetadataDelta, whose ``finishSnapshot`` removes what a snapshot does not mention.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import TOPIC_RESOURCE, ConfigResource, MetadataImage
from pykraft.sim.laws.invariants import require
from pykraft.sim.world.hosts import SimulatedNode

_MOST = 4
"""This many topics are supposed to be missing in turn."""


class ChangeLaws:
    """The law, for all nodes of one run."""

    def __init__(self) -> None:
        self._lives: dict[int, int] = {}
        self._missing: list[str] = []
        """What was not told, and is still to be reported: an error that a publisher raises ends nothing."""

    def look(self, machine: SimulatedNode) -> None:
        """Something has happened on this node, whose broker is open: from now on hear what it publishes."""
        require(not self._missing, "; ".join(self._missing))
        if self._lives.get(machine.node_id) != machine.life and machine.node is not None:
            self._lives[machine.node_id] = machine.life
            machine.node.loader.publish_to(partial(self._hear, f"node {machine.node_id}"))

    def _hear(self, name: str, delta: MetadataDelta, image: MetadataImage) -> None:
        self._missing += _untold(name, delta, image)


def check_supposed_changes(image: MetadataImage) -> None:
    """What a broker would hear that loads a snapshot of this image, and had one with less or with more before."""
    for topic_id in sorted(image.topics)[:_MOST]:
        topic = image.topics[topic_id]
        resource = ConfigResource(TOPIC_RESOURCE, topic.name)
        given = {"retention.ms": "1", **image.configs.get(resource, {})}
        whole = replace(image, configs={**image.configs, resource: given})
        without = replace(
            image,
            topics=_but(image.topics, topic_id),
            topic_ids=_but(image.topic_ids, topic.name),
            configs=_but(image.configs, resource),
        )
        fewer = replace(image, topics={**image.topics, topic_id: replace(topic, partitions={})})
        for what, other in (
            (f"topic {topic.name}", without),
            (f"the partitions of {topic.name}", fewer),
            (f"a setting of {topic.name}", replace(image, configs=_but(image.configs, resource))),
        ):
            _check_both(what, whole, other)
    for broker_id in sorted(image.brokers):
        _check_both(f"broker {broker_id}", image, replace(image, brokers=_but(image.brokers, broker_id)))


def _check_both(what: str, more: MetadataImage, fewer: MetadataImage) -> None:
    for before, after in ((more, fewer), (fewer, more)):
        name = f"a node that loads a snapshot {'with' if after is more else 'without'} {what}"
        found = list(_untold(name, MetadataDelta.between(before, after), after))
        require(not found, "; ".join(found))


def _but(mapping: Mapping[Any, Any], key: Any) -> dict[Any, Any]:
    return {each: value for each, value in mapping.items() if each != key}


def _untold(name: str, delta: MetadataDelta, after: MetadataImage) -> Iterator[str]:
    """What differs between the delta's image and this one, and the delta does not say."""
    before = delta.image
    gone = before.topics.keys() - after.topics.keys()
    if gone != delta.removed_topics.keys():
        yield f"{name} hears that the topics {sorted(delta.removed_topics)} are gone; those that are are {sorted(gone)}"
    for topic_id in _differing(before.topics, after.topics, after.topics):
        topic, known = after.topics[topic_id], before.topics.get(topic_id)
        if topic_id not in delta.touched_topics:
            yield f"{name} does not hear that topic {topic.name} has changed"
            continue
        had = {} if known is None else known.partitions
        untold = {*_differing(had, topic.partitions, topic.partitions)} - {*delta.touched_partitions(topic)}
        if untold:
            yield f"{name} does not hear that the partitions {sorted(untold)} of {topic.name} have changed"
    if before.brokers is not after.brokers:
        every = {**before.brokers, **after.brokers}
        if untold := {*_differing(before.brokers, after.brokers, every)} - delta.touched_brokers:
            yield f"{name} does not hear that the brokers {sorted(untold)} have changed"
    if before.configs is not after.configs:
        names = {before.topics[topic_id].name for topic_id in gone}
        some = [each for each in {**before.configs, **after.configs} if not _is_of(each, names)]
        if left := {*_differing(before.configs, after.configs, some)} - delta.touched_configs:
            yield f"{name} does not hear that the settings of {sorted(left)} have changed"


def _is_of(resource: ConfigResource, topics: set[str]) -> bool:
    """Whether these are the settings of one of the topics, which go with it."""
    return resource.kind == TOPIC_RESOURCE and resource.name in topics


def _differing(before: Mapping[Any, Any], after: Mapping[Any, Any], keys: Any) -> Iterator[Any]:
    get: Callable[[Any], Any] = before.get
    return (each for each in keys if get(each) is not after.get(each) and get(each) != after.get(each))
