"""The laws of settings that change: what holds is what the metadata say, on each node, from the moment it knows.

* **Settings in Force.** What a broker goes by for a topic is what its image says: the topic's own value, else that of
  this broker, else that of all brokers, else its file, else the default. By that ``min.insync.replicas`` (but no more
  than the topic has replicas) a leader judges whether enough of them are in sync. A heartbeat of a consumer group is
  answered with an interval that held while it was here.
* **Enough Replicas.** An append with ``acks=all`` is acknowledged when as many logs have it as are demanded then. One
  that is refused with NOT_ENOUGH_REPLICAS is not in the log: its producer may give up. One that is refused with
  NOT_ENOUGH_REPLICAS_AFTER_APPEND is. And either is only refused while too few are in sync.
* **Unclean Elections Are Allowed.** The committed metadata make a replica the leader that is neither in the ISR nor
  eligible only where ``unclean.leader.election.enable`` holds for that topic on the controller that wrote it, by the
  records before it. The last known leader is the exception of KIP-966.
* **Levels Are Supported.** No feature has a level that a registered broker does not support, be it dead or alive.

The values are looked up here in records and images alone, not by the nodes' own code.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykraft.broker.replication.partition import Partition
from pykraft.common.settings.config import Config
from pykraft.common.settings.group_config import GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS
from pykraft.common.settings.topic_config import (
    LOG_CONFIG,
    MIN_INSYNC_REPLICAS,
    RETENTION_MS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)
from pykraft.common.types import TopicIdPartition, TopicPartition, Uuid
from pykraft.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigResource, MetadataImage, PartitionRegistration
from pykraft.metadata.settings import ALL_BROKERS
from pykraft.protocol.messages.configs import ResourceType
from pykraft.protocol.messages.records import ConfigRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from pykraft.raft.log.history import committed as decoded
from pykraft.records.batch import RecordBatch
from pykraft.sim.laws.invariants import require
from pykraft.sim.world.hosts import SimulatedNode

CHANGING = "changing"
"""The topic whose settings change."""
MIN_ISR, UNCLEAN, RETENTION = MIN_INSYNC_REPLICAS.name, UNCLEAN_LEADER_ELECTION_ENABLE.name, RETENTION_MS.name
BROKERS_NAMES = {RETENTION: "log.retention.ms"}
"""Where brokers have another name for the default of a topic's setting."""
SHAPES: Mapping[str, tuple[str | None, ...]] = {
    "compression.type": ("producer", "uncompressed", "gzip", "lz4"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "internal.segment.bytes": ("1000", "5000", "100000", None),
    "index.interval.bytes": ("0", "100", "4096"),
    "flush.messages": ("1", "10", None),
}
"""How a log is written: settings that change, with what they may be."""
WATCHED = (MIN_ISR, UNCLEAN, RETENTION, *SHAPES)
HEARTBEAT, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
GROUP_RESOURCE = int(ResourceType.GROUP)

Configs = Mapping[ConfigResource, Mapping[str, str]]
"""What the metadata say."""


def in_force(name: str, topic: str, node_id: int, configs: Configs, static: Mapping[str, str]) -> Any:
    """The value of a topic's setting on this node, whose file says `static`."""
    key, of_brokers = LOG_CONFIG.keys[name], BROKERS_NAMES.get(name, name)
    layers = (
        configs.get(ConfigResource(TOPIC_RESOURCE, topic), {}).get(name),
        configs.get(ConfigResource(BROKER_RESOURCE, str(node_id)), {}).get(of_brokers),
        configs.get(ConfigResource(BROKER_RESOURCE, ALL_BROKERS), {}).get(of_brokers),
        static.get(of_brokers),
    )
    text = next((each for each in layers if each is not None), None)
    return key.default if text is None else key.read(text)


def demanded(machine: SimulatedNode, key: TopicIdPartition, image: MetadataImage) -> int:
    """How many replicas of a partition must be in sync, by this image, on this node."""
    registration = image.partition(key.topic_id, key.partition)
    replicas = 1 if registration is None else max(1, len(registration.replicas))
    wanted: int = in_force(MIN_ISR, key.topic, machine.node_id, image.configs, machine.config.properties)
    return min(wanted, replicas)


def heartbeat_interval(machine: SimulatedNode, group_id: str, image: MetadataImage) -> int:
    """How often the members of a consumer group are to send heartbeats to this node."""
    key = GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS
    default = machine.config.properties.get(key.name, str(key.default))
    return int(image.configs.get(ConfigResource(GROUP_RESOURCE, group_id), {}).get(HEARTBEAT, default))


class SettingLaws:
    """What nodes go by, and what controllers decide. (What brokers answer is in `answer_laws`.)"""

    def __init__(self, nodes: Mapping[int, SimulatedNode], leaders: Mapping[int, int]) -> None:
        """`leaders` is the active controller of each epoch."""
        self._nodes = nodes
        self._leaders = leaders
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        """What the committed records say."""
        self._names: dict[Uuid, str] = {}
        self._partitions: dict[tuple[Uuid, int], PartitionRegistration] = {}
        self._agreed: dict[tuple[int, TopicPartition], tuple[object, ...]] = {}
        self._newest = -1

    # --- what a broker goes by ----------------------------------------------------------------------------------------

    def look(self, machine: SimulatedNode) -> None:
        """Something has happened on this node."""
        node = machine.node
        if node is None:
            return
        image, broker = node.loader.image, node.broker
        if image.provenance.offset > self._newest:
            self._newest = image.provenance.offset
            check_levels(image)
        if broker is not None and broker.is_open:
            for partition in broker.replicas.partitions.values():
                self._check_partition(machine, partition, image)

    def _check_partition(self, machine: SimulatedNode, partition: Partition, image: MetadataImage) -> None:
        key, config = partition.key, partition.log.config
        if image.partition(key.topic_id, key.partition) is None:
            return
        place = machine.node_id, partition.topic_partition
        state = (partition, config, image.configs, partition.isr_state, partition.is_under_min_isr)
        agreed = self._agreed.get(place)
        if agreed is not None and all(ours is theirs for ours, theirs in zip(agreed, state, strict=True)):
            return
        where = f"{partition.topic_partition} of node {machine.node_id} at offset {image.provenance.offset}"
        self._check_config(where, machine, key.topic, config, image.configs)
        in_sync, wanted = len(partition.isr_state.isr), demanded(machine, key, image)
        require(
            partition.is_under_min_isr == (in_sync < wanted),
            f"{where}: {in_sync} replicas are in sync, {wanted} are demanded, and the broker takes them for "
            f"{'too few' if partition.is_under_min_isr else 'enough'}",
        )
        self._agreed[place] = state

    @staticmethod
    def _check_config(where: str, machine: SimulatedNode, topic: str, config: Config, configs: Configs) -> None:
        values = config.as_dict()
        for name in WATCHED:
            wanted = in_force(name, topic, machine.node_id, configs, machine.config.properties)
            require(values[name] == wanted, f"{where} goes by {name}={values[name]}; the metadata say {wanted}")

    # --- what a controller decides ------------------------------------------------------------------------------------

    def commit(self, committed: Iterable[bytes]) -> None:
        """The next batches of the metadata log are committed."""
        for data in committed:
            batch = RecordBatch(memoryview(data))
            for record in decoded(batch).records:
                match record:
                    case ConfigRecord():
                        self._set(record)
                    case TopicRecord():
                        self._names[record.topic_id] = record.name
                    case PartitionRecord():
                        key = record.topic_id, record.partition_id
                        self._partitions[key] = PartitionRegistration.from_record(record)
                    case PartitionChangeRecord():
                        self._change(record, batch)

    def _set(self, record: ConfigRecord) -> None:
        settings = self.configs.setdefault(ConfigResource(record.resource_type, record.resource_name), {})
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value

    def _change(self, record: PartitionChangeRecord, batch: RecordBatch) -> None:
        key = record.topic_id, record.partition_id
        before = self._partitions[key]
        self._partitions[key] = after = before.merge(record)
        eligible = {*before.isr, *before.eligible_leader_replicas, *before.last_known_leader}
        if not after.has_leader or after.leader == before.leader or after.leader in eligible:
            return
        controller = self._nodes[self._leaders[batch.partition_leader_epoch]]
        topic, static = self._names[record.topic_id], controller.config.properties
        require(
            in_force(UNCLEAN, topic, controller.node_id, self.configs, static),
            f"offset {batch.base_offset}: broker {after.leader} leads {topic}-{record.partition_id}, and is neither in "
            f"the ISR {before.isr} nor eligible {before.eligible_leader_replicas}; {UNCLEAN} does not hold for it",
        )


def check_levels(image: MetadataImage) -> None:
    """Each registered broker supports the levels of all features."""
    for broker_id, broker in image.brokers.items():
        for name, level in image.features.items():
            supported = broker.features.get(name)
            require(
                not level or (supported is not None and supported.minimum <= level <= supported.maximum),
                f"at offset {image.provenance.offset} {name} is {level}, and broker {broker_id} supports {supported}",
            )
