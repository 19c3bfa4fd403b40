"""From one image to the next: records are replayed into a delta, and the delta makes an image.

There is one `replay` for each kind of record, and it is the same on the controller that has just proposed the record,
on the controllers that stand by, on every broker, and at a restart. That is why they agree.

A delta copies only what changes. It also remembers which brokers, topics and configurations were touched, so that a
broker need not compare two images to see what it has to do.

Follows org.apache.kafka.image.MetadataDelta.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pykraft.common.core import Steps, finish
from pykraft.common.errors import ProtocolError
from pykraft.common.types import Endpoint, OffsetAndEpoch, Uuid
from pykraft.metadata.image import (
    EMPTY_IMAGE,
    TOPIC_RESOURCE,
    BrokerRegistration,
    ConfigResource,
    FeatureRange,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from pykraft.protocol.messages.records import (
    NO_CHANGE,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)

_TOPICS_AT_ONCE = 100
"""A topic takes two microseconds."""


class MetadataDelta:
    """Changes to an image. `touched_...` name what was replayed about."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._changed: dict[str, Any] = {}
        self._open_topics: dict[Uuid, dict[int, PartitionRegistration]] = {}
        self.touched_brokers: set[int] = set()
        self.touched_topics: set[Uuid] = set()
        self._touched_partitions: dict[Uuid, set[int]] = {}
        self.touched_configs: set[ConfigResource] = set()
        self.removed_topics: dict[Uuid, TopicImage] = {}

    @classmethod
    def of_everything(cls, image: MetadataImage) -> "MetadataDelta":
        """The change from nothing to this image."""
        return cls.between(EMPTY_IMAGE, image)

    @classmethod
    def between(cls, before: MetadataImage, after: MetadataImage) -> "MetadataDelta":
        """The change from one image to another, at once."""
        return finish(cls.between_in_steps(before, after))

    @classmethod
    def between_in_steps(cls, before: MetadataImage, after: MetadataImage) -> "Steps[MetadataDelta]":
        """The same, with a pause after some topics. What only `before` has is removed, and what is equal in both is not
        touched. Apache Kafka replays a snapshot onto the image that is there, and removes what it has not mentioned
        (``finishSnapshot``); this comes to the same image, and to fewer touched things."""
        delta = cls(before)
        delta._changed = {name: value for name, value in vars(after).items() if name != "provenance"}
        delta.touched_brokers = _different(before.brokers, after.brokers)
        delta.touched_configs = _different(before.configs, after.configs)
        for count, (topic_id, topic) in enumerate(after.topics.items(), 1):
            known = before.topics.get(topic_id)
            if topic != known:
                delta.touched_topics.add(topic_id)
                partitions = {} if known is None else known.partitions
                delta._touched_partitions[topic_id] = _different(partitions, topic.partitions)
            if not count % _TOPICS_AT_ONCE:
                yield
        delta.removed_topics = {key: topic for key, topic in before.topics.items() if key not in after.topics}
        return delta

    def replay(self, record: MetadataRecord) -> None:
        """Let a record be true; ProtocolError if it is about something that is not there, or is another's."""
        try:
            _REPLAY[type(record)](self, record)
        except KeyError as error:
            raise ProtocolError(f"a {type(record).__name__} is about {error}, which is not there") from error

    def settle(self) -> Steps[None]:
        """Make the topics of the next image from what was replayed, with pauses: `apply` has little left to do then."""
        topics = self._mapping("topics") if self._open_topics else {}
        for count, (topic_id, partitions) in enumerate(self._open_topics.items(), 1):
            if topic_id in topics and topics[topic_id].partitions is not partitions:
                topics[topic_id] = replace(topics[topic_id], partitions=partitions)
            if not count % _TOPICS_AT_ONCE:
                yield

    def apply(self, provenance: OffsetAndEpoch) -> MetadataImage:
        """The image after the changes, as of this offset."""
        finish(self.settle())
        return replace(self.image, provenance=provenance, **self._changed)

    def _mapping(self, name: str) -> dict[Any, Any]:
        """A copy of one of the image's mappings, made at the first change."""
        if name not in self._changed:
            self._changed[name] = dict(getattr(self.image, name))
        mapping: dict[Any, Any] = self._changed[name]
        return mapping

    # --- brokers and controllers --------------------------------------------------------------------------------------

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._put_broker(
            BrokerRegistration(
                broker_id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints={e.name: Endpoint(e.host, e.port) for e in record.end_points},
                security_protocols={e.name: e.security_protocol for e in record.end_points},
                features={
                    f.name: FeatureRange(f.min_supported_version, f.max_supported_version) for f in record.features
                },
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                directories=tuple(record.log_dirs),
                cordoned_directories=tuple(record.cordoned_log_dirs or ()),
            )
        )

    def _put_broker(self, broker: BrokerRegistration) -> None:
        self._mapping("brokers")[broker.broker_id] = broker
        self.touched_brokers.add(broker.broker_id)

    def _broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker: BrokerRegistration = self._mapping("brokers")[broker_id]
        if broker.epoch != epoch:
            raise ProtocolError(f"a change of broker {broker_id}, epoch {epoch}, which has epoch {broker.epoch}")
        return broker

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        del self._mapping("brokers")[record.broker_id]
        self.touched_brokers.add(record.broker_id)

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        if record.fenced != NO_CHANGE:
            broker = replace(broker, fenced=record.fenced > 0)
        if record.in_controlled_shutdown != NO_CHANGE:
            broker = replace(broker, in_controlled_shutdown=True)
        if record.log_dirs:
            broker = replace(broker, directories=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = replace(broker, cordoned_directories=tuple(record.cordoned_log_dirs))
        self._put_broker(broker)

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        self._put_broker(replace(self._broker(record.id, record.epoch), fenced=True))

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self._put_broker(replace(self._broker(record.id, record.epoch), fenced=False))

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self._mapping("controllers")[record.controller_id] = record

    def _unregister_controller(self, record: UnregisterControllerRecord) -> None:
        self._mapping("controllers").pop(record.controller_id, None)

    # --- topics -------------------------------------------------------------------------------------------------------

    def _topic(self, record: TopicRecord) -> None:
        self._mapping("topics")[record.topic_id] = TopicImage(record.name, record.topic_id)
        self._mapping("topic_ids")[record.name] = record.topic_id
        self.touched_topics.add(record.topic_id)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic: TopicImage = self._mapping("topics").pop(record.topic_id)
        self._open_topics.pop(record.topic_id, None)
        del self._mapping("topic_ids")[topic.name]
        self._mapping("configs").pop(ConfigResource(TOPIC_RESOURCE, topic.name), None)
        self.touched_topics.discard(record.topic_id)
        if record.topic_id in self.image.topics:
            self.removed_topics[record.topic_id] = self.image.topics[record.topic_id]

    def _partitions(self, topic_id: Uuid) -> dict[int, PartitionRegistration]:
        if topic_id not in self._open_topics:
            topics: Mapping[Uuid, TopicImage] = self._changed.get("topics", self.image.topics)
            self._open_topics[topic_id] = dict(topics[topic_id].partitions)
            self.touched_topics.add(topic_id)
            self._touched_partitions[topic_id] = set()
        return self._open_topics[topic_id]

    def touched_partitions(self, topic: TopicImage) -> list[int]:
        """Which partitions of a touched topic were replayed about, ascending: one change of a topic with thousands of
        partitions is not to be searched for."""
        return sorted(self._touched_partitions.get(topic.topic_id, topic.partitions))

    def _partition(self, record: PartitionRecord) -> None:
        self._partitions(record.topic_id)[record.partition_id] = PartitionRegistration.from_record(record)
        self._touched_partitions[record.topic_id].add(record.partition_id)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions(record.topic_id)
        partitions[record.partition_id] = partitions[record.partition_id].merge(record)
        self._touched_partitions[record.topic_id].add(record.partition_id)

    def _clear_elr(self, record: ClearElrRecord) -> None:
        topics: Mapping[Uuid, TopicImage] = self._changed.get("topics", self.image.topics)
        for topic_id in sorted(topics):
            if record.topic_name in ("", topics[topic_id].name):
                known = self._open_topics.get(topic_id, topics[topic_id].partitions)
                for number, partition in sorted(known.items()):
                    if partition.eligible_leader_replicas or partition.last_known_leader:
                        # A change like any other, to the partition epoch as well.
                        self._change_partition(
                            PartitionChangeRecord(
                                topic_id=topic_id, partition_id=number, eligible_leader_replicas=[], last_known_elr=[]
                            )
                        )

    # --- everything else ----------------------------------------------------------------------------------------------

    def _config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        settings = dict(self._mapping("configs").get(resource, {}))
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
        if settings:
            self._mapping("configs")[resource] = settings
        else:
            self._mapping("configs").pop(resource, None)
        self.touched_configs.add(resource)

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        if record.feature_level:
            self._mapping("features")[record.name] = record.feature_level
        else:
            self._mapping("features").pop(record.name, None)

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self._changed["next_producer_id"] = record.next_producer_id

    def _scram(self, record: UserScramCredentialRecord) -> None:
        self._mapping("scram_credentials")[record.name, record.mechanism] = record

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self._mapping("scram_credentials").pop((record.name, record.mechanism), None)

    def _acl(self, record: AccessControlEntryRecord) -> None:
        self._mapping("acls")[record.id] = record

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self._mapping("acls").pop(record.id, None)

    def _client_quota(self, record: ClientQuotaRecord) -> None:
        # The parts of an entity have no order. The default entity of a type has no name.
        named = ((e.entity_type, e.entity_name is not None, e.entity_name or "") for e in record.entity)
        key = tuple(sorted(named)), record.key
        if record.remove:
            self._mapping("client_quotas").pop(key, None)
        else:
            self._mapping("client_quotas")[key] = record

    def _delegation_token(self, record: DelegationTokenRecord) -> None:
        self._mapping("delegation_tokens")[record.token_id] = record

    def _remove_delegation_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._mapping("delegation_tokens").pop(record.token_id, None)

    def _nothing(self, record: MetadataRecord) -> None:
        """Records that only move the offset on, or that frame others (see `loader`)."""


def _different(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> set[Any]:
    """The keys that only one of them has, or with another value."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


_REPLAY: dict[type[MetadataRecord], Callable[[MetadataDelta, Any], None]] = {
    RegisterBrokerRecord: MetadataDelta._register_broker,
    UnregisterBrokerRecord: MetadataDelta._unregister_broker,
    BrokerRegistrationChangeRecord: MetadataDelta._change_broker,
    FenceBrokerRecord: MetadataDelta._fence_broker,
    UnfenceBrokerRecord: MetadataDelta._unfence_broker,
    RegisterControllerRecord: MetadataDelta._register_controller,
    UnregisterControllerRecord: MetadataDelta._unregister_controller,
    TopicRecord: MetadataDelta._topic,
    RemoveTopicRecord: MetadataDelta._remove_topic,
    PartitionRecord: MetadataDelta._partition,
    PartitionChangeRecord: MetadataDelta._change_partition,
    ClearElrRecord: MetadataDelta._clear_elr,
    ConfigRecord: MetadataDelta._config,
    FeatureLevelRecord: MetadataDelta._feature_level,
    ProducerIdsRecord: MetadataDelta._producer_ids,
    UserScramCredentialRecord: MetadataDelta._scram,
    RemoveUserScramCredentialRecord: MetadataDelta._remove_scram,
    AccessControlEntryRecord: MetadataDelta._acl,
    RemoveAccessControlEntryRecord: MetadataDelta._remove_acl,
    ClientQuotaRecord: MetadataDelta._client_quota,
    DelegationTokenRecord: MetadataDelta._delegation_token,
    RemoveDelegationTokenRecord: MetadataDelta._remove_delegation_token,
    NoOpRecord: MetadataDelta._nothing,
    ZkMigrationStateRecord: MetadataDelta._nothing,
    BeginTransactionRecord: MetadataDelta._nothing,
    EndTransactionRecord: MetadataDelta._nothing,
    AbortTransactionRecord: MetadataDelta._nothing,
}
