"""The state of the cluster at one offset of the metadata log.

An image is what all records up to that offset say together: brokers, topics and partitions, configurations, feature
levels, producer id blocks, and what security needs. It is never changed; a `MetadataDelta` makes the next one. So any
reader can keep an image and trust it, and two nodes that have read equally far have equal images.

``to_records`` gives the records from which the same image is built again. That is what a snapshot holds.

Follows org.apache.kafka.image.{MetadataImage,TopicsImage,ClusterImage,...} and
org.apache.kafka.metadata.{BrokerRegistration,PartitionRegistration}.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pykraft.common.types import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    Endpoint,
    OffsetAndEpoch,
    Uuid,
)
from pykraft.metadata.versions import BASE, ELR_VERSION, METADATA_VERSION, as_of_level
from pykraft.protocol.messages.records import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    SupportedFeature,
    TopicRecord,
    UserScramCredentialRecord,
)
from pykraft.protocol.messages.records import Endpoint as RecordEndpoint

BROKER_RESOURCE = 4
TOPIC_RESOURCE = 2
RECOVERED = 0
NOWHERE = OffsetAndEpoch(-1, -1)


class FeatureRange(NamedTuple):
    """The levels of a feature that a node or release supports."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker process, from its registration to the next one of the same id."""

    broker_id: int
    epoch: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint]
    """By listener name."""
    security_protocols: Mapping[str, int]
    features: Mapping[str, FeatureRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    cordoned_directories: tuple[Uuid, ...] = ()
    """Those that take no new replicas (KIP-1066)."""

    @property
    def is_active(self) -> bool:
        """Whether it may lead and may join an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def default_directory(self) -> Uuid:
        """Where a new replica goes: into its only log directory, or the broker will choose."""
        if not self.directories:
            return MIGRATING_DIRECTORY
        return self.directories[0] if len(self.directories) == 1 else UNASSIGNED_DIRECTORY

    @property
    def is_cordoned(self) -> bool:
        """Whether it takes no new replica, because all its log directories are cordoned."""
        return bool(self.directories) and set(self.directories) <= set(self.cordoned_directories)

    def has_online(self, directory: Uuid) -> bool:
        """Whether a replica in this log directory can be read. Of one without a directory yet, and of a broker that has
        not told its directories, nothing else is known."""
        if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
            return True
        return directory != LOST_DIRECTORY and (not self.directories or directory in self.directories)


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """A partition's replicas, in-sync replicas and leader.

    `leader_epoch` rises whenever the leader changes (or is elected again); it is what fences the old leader.
    `partition_epoch` rises with every change at all; a leader that proposes an ISR names the one that it knows.
    """

    replicas: tuple[int, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_leader: tuple[int, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    def directory_of(self, replica: int) -> Uuid:
        """The log directory of this replica, as far as it is known."""
        for each, directory in zip(self.replicas, self.directories, strict=True):
            if each == replica:
                return directory
        return UNASSIGNED_DIRECTORY

    @property
    def has_preferred_leader(self) -> bool:
        """Whether the first replica of the assignment leads."""
        return self.leader == self.replicas[0]

    def merge(self, change: PartitionChangeRecord) -> "PartitionRegistration":
        """The registration after a change. All at once: when a broker comes or goes, there are thousands of them."""
        has_leader = change.leader != NO_LEADER_CHANGE
        recovery_state = change.leader_recovery_state
        return PartitionRegistration(
            replicas=_changed(self.replicas, change.replicas),
            directories=self._directories_after(change),
            isr=_changed(self.isr, change.isr),
            leader=change.leader if has_leader else self.leader,
            leader_epoch=self.leader_epoch + 1 if has_leader else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            removing_replicas=_changed(self.removing_replicas, change.removing_replicas),
            adding_replicas=_changed(self.adding_replicas, change.adding_replicas),
            leader_recovery_state=recovery_state if recovery_state >= 0 else self.leader_recovery_state,
            eligible_leader_replicas=_changed(self.eligible_leader_replicas, change.eligible_leader_replicas),
            last_known_leader=_changed(self.last_known_leader, change.last_known_elr),
        )

    def _directories_after(self, change: PartitionChangeRecord) -> tuple[Uuid, ...]:
        """One directory for each replica, also where other replicas come without directories (metadata before 3.7)."""
        if change.directories is not None:
            return tuple(change.directories)
        return self.directories if change.replicas is None else (MIGRATING_DIRECTORY,) * len(change.replicas)

    @classmethod
    def from_record(cls, record: PartitionRecord) -> "PartitionRegistration":
        return cls(
            replicas=tuple(record.replicas),
            directories=tuple(record.directories) or (MIGRATING_DIRECTORY,) * len(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            leader_recovery_state=record.leader_recovery_state,
            eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
            last_known_leader=tuple(record.last_known_elr or ()),
        )

    def to_record(self, topic_id: Uuid, partition: int) -> PartitionRecord:
        return PartitionRecord(
            partition_id=partition,
            topic_id=topic_id,
            replicas=self.replicas,
            isr=self.isr,
            removing_replicas=self.removing_replicas,
            adding_replicas=self.adding_replicas,
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=self.directories,
            eligible_leader_replicas=self.eligible_leader_replicas or None,
            last_known_elr=self.last_known_leader or None,
        )


def _changed(before: tuple[int, ...], after: Sequence[int] | None) -> tuple[int, ...]:
    return before if after is None else tuple(after)


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionRegistration] = field(default_factory=dict)


class ConfigResource(NamedTuple):
    """Whose settings: `kind` is BROKER_RESOURCE (all brokers, if the name is empty) or TOPIC_RESOURCE."""

    kind: int
    name: str


@dataclass(frozen=True)
class MetadataImage:
    """Everything, as of `provenance`: the offset of the last record in it, and its epoch."""

    provenance: OffsetAndEpoch = NOWHERE
    features: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[int, RegisterControllerRecord] = field(default_factory=dict)
    topics: Mapping[Uuid, TopicImage] = field(default_factory=dict)
    topic_ids: Mapping[str, Uuid] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    scram_credentials: Mapping[tuple[str, int], UserScramCredentialRecord] = field(default_factory=dict)
    acls: Mapping[Uuid, AccessControlEntryRecord] = field(default_factory=dict)
    client_quotas: Mapping[tuple[tuple[tuple[str, bool, str], ...], str], ClientQuotaRecord] = field(
        default_factory=dict
    )
    """By entity and setting; an entity is the (type, whether it has a name, name) of its parts."""
    delegation_tokens: Mapping[str, DelegationTokenRecord] = field(default_factory=dict)

    def topic_named(self, name: str) -> TopicImage | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: Uuid, partition: int) -> PartitionRegistration | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def config_of(self, kind: int, name: str) -> Mapping[str, str]:
        return self.configs.get(ConfigResource(kind, name), {})

    @property
    def keeps_elr(self) -> bool:
        """Whether the controller keeps eligible leader replicas (KIP-966)."""
        return self.features.get(ELR_VERSION, 0) > 0

    @property
    def active_brokers(self) -> list[int]:
        """The brokers that may lead, ascending."""
        return [broker_id for broker_id in sorted(self.brokers) if self.brokers[broker_id].is_active]

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def is_online(self, broker_id: int, partition: PartitionRegistration) -> bool:
        """Whether the broker is registered, and has the directory in which its replica of the partition is."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.has_online(partition.directory_of(broker_id))

    def to_records(self) -> Iterator[tuple[MetadataRecord, int]]:
        """(record, version) from which this image is built again, in an order that can be replayed, and as the
        cluster's ``metadata.version`` allows them."""
        level = self.features.get(METADATA_VERSION, BASE.level)
        for record, version in self._newest_records():
            yield as_of_level(record, version, level)

    def _newest_records(self) -> Iterator[tuple[MetadataRecord, int]]:
        # The level of the metadata comes first: it says how the others are to be read.
        for name, level in sorted(self.features.items(), key=lambda item: (item[0] != METADATA_VERSION, item[0])):
            yield FeatureLevelRecord(name=name, feature_level=level), 0
        for controller_id in sorted(self.controllers):
            yield self.controllers[controller_id], 0
        for broker_id in sorted(self.brokers):
            yield broker_record(self.brokers[broker_id]), 4
        for name, topic_id in sorted(self.topic_ids.items()):
            yield TopicRecord(name=name, topic_id=topic_id), 0
            for number, partition in sorted(self.topics[topic_id].partitions.items()):
                yield partition.to_record(topic_id, number), 2
        for resource, settings in sorted(self.configs.items()):
            for name, value in sorted(settings.items()):
                record = ConfigRecord(resource_type=resource.kind, resource_name=resource.name, name=name, value=value)
                yield record, 0
        if self.next_producer_id:
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id), 0
        for records in (self.scram_credentials, self.acls, self.client_quotas, self.delegation_tokens):
            for _, kept in sorted(records.items()):
                yield kept, 0


def broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    """The record that registers this broker in this state."""
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            RecordEndpoint(
                name=name,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=broker.security_protocols[name],
            )
            for name, endpoint in sorted(broker.endpoints.items())
        ],
        features=[
            SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(broker.features.items())
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.directories,
        cordoned_log_dirs=broker.cordoned_directories or None,
    )


EMPTY_IMAGE = MetadataImage()
