"""Replicas Follow the Image: a broker holds the replicas that the metadata give it, and no others.

A broker hears of changes: this topic is new, that partition has another leader. What a change does not mention, it does
not look at. So a change that leaves something out leaves a replica behind: one of a deleted topic, one that follows a
leader that leads no more, one whose settings are those of yesterday. This is looked at whenever a broker has taken up
another image: each of its replicas is in the image, in the state that the image has or in a newer one that the
controller has told it, and goes by the settings that its topic was given.
"""

from pykraft.broker.broker import Broker
from pykraft.broker.replication.partition import Partition
from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.metadata.image import TOPIC_RESOURCE, MetadataImage
from pykraft.sim.laws.change_laws import ChangeLaws
from pykraft.sim.laws.invariants import Violation, require
from pykraft.sim.world.hosts import SimulatedNode


class HeldLaws:
    """The law, for all nodes of one run."""

    def __init__(self) -> None:
        self._lives: dict[int, int] = {}
        self._looked_at: dict[int, MetadataImage] = {}
        """By node: the image for which its replicas were found right, in this life."""
        self._changes = ChangeLaws()

    def look(self, machine: SimulatedNode) -> None:
        """Something has happened on this node."""
        node = machine.node
        if node is None or node.broker is None or not node.broker.is_open:
            return
        self._changes.look(machine)
        image = node.loader.image
        if self._lives.get(machine.node_id) != machine.life:
            self._lives[machine.node_id] = machine.life
            self._looked_at.pop(machine.node_id, None)
        before = self._looked_at.get(machine.node_id)
        if before is image or node.broker.replicas.image is not image:
            return
        if node.loader.published_offset == image.provenance.offset:
            self._looked_at[machine.node_id] = image
            _check_replicas(machine.node_id, node.broker, image)
            if before is None or before.configs is not image.configs:
                _check_given_settings(machine.node_id, node.broker, image)


def _check_replicas(node_id: int, broker: Broker, image: MetadataImage) -> None:
    for place, partition in broker.replicas.partitions.items():
        registration = image.partition(partition.key.topic_id, place.partition)
        if registration is None or node_id not in registration.replicas:
            raise Violation(
                f"node {node_id} at offset {image.provenance.offset} holds {partition} of the topic with id "
                f"{partition.key.topic_id}; the metadata give it no such replica: {registration}"
            )
        ours = partition.partition_epoch, partition.leader_epoch, partition.leader_id
        theirs = registration.partition_epoch, registration.leader_epoch, registration.leader
        if ours[0] <= theirs[0] and ours != theirs:
            raise Violation(
                f"node {node_id} at offset {image.provenance.offset} has {place} with partition epoch, leader epoch "
                f"and leader {ours}; the metadata have {theirs}"
            )


def _check_given_settings(node_id: int, broker: Broker, image: MetadataImage) -> None:
    for partition in broker.replicas.partitions.values():
        _check_given(node_id, partition, image)


def _check_given(node_id: int, partition: Partition, image: MetadataImage) -> None:
    config = partition.log.config
    for name, text in image.config_of(TOPIC_RESOURCE, partition.key.topic).items():
        key = LOG_CONFIG.keys.get(name)
        if key is not None:
            wanted = key.read(text)
            require(
                config[key] == wanted,
                f"{partition.name} of node {node_id} at offset {image.provenance.offset} goes by {name}={config[key]}; "
                f"the topic was given {wanted}",
            )
