"""The metadata log, read plainly: what each record says, one after the other, into dictionaries.

Every node replays the log with the same code (`metadata.delta`). If that code is wrong, all nodes have the same wrong
image, and to compare them proves nothing. So there is a second reading, without deltas, images and snapshots, as short
as possible. At the end of a history the newest image must be what it comes to, and would have to be so if one of the
topics were deleted now: few histories delete a topic that has settings of its own.
"""

from collections.abc import Iterable
from copy import copy
from typing import Any

from pykraft.common.types import Uuid
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import TOPIC_RESOURCE, MetadataImage, PartitionRegistration
from pykraft.protocol.messages.records import (
    NO_LEADER_CHANGE,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from pykraft.raft.log.history import committed
from pykraft.records.batch import RecordBatch
from pykraft.sim.laws.invariants import require

_MOST = 4
"""So many topics are tried."""
_LISTS = (
    *("replicas", "isr", "removing_replicas", "adding_replicas"),
    *("eligible_leader_replicas", "last_known_elr"),
)
"""What a change of a partition replaces if it has it."""


def check_plainly(image: MetadataImage, batches: Iterable[RecordBatch]) -> None:
    """The image has what these batches of the metadata log say, which are all that is committed."""
    plain = _Plain()
    for batch in batches:
        if batch.base_offset <= image.provenance.offset:
            for record in committed(batch).records:
                plain.read(record)
    _compare("", plain, image)
    for topic_id in sorted(image.topics)[:_MOST]:
        after, record = MetadataDelta(image), RemoveTopicRecord(topic_id=topic_id)
        after.replay(record)
        plain_after = plain.copy()
        plain_after.read(record)
        _compare(f"once topic {plain.topics[topic_id]} is deleted, ", plain_after, after.apply(image.provenance))


def _compare(when: str, plain: "_Plain", image: MetadataImage) -> None:
    known = _known(image)
    for what, said in plain.said().items():
        wrong = {key: (said.get(key), known[what].get(key)) for key in (*said, *known[what])}
        wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
        require(
            not wrong,
            f"{when}at offset {image.provenance.offset} the {what} of the image are not those of the log: "
            f"by key, first what the log says, then what the image has: {wrong}",
        )


class _Plain:
    """What the records say so far."""

    def __init__(self) -> None:
        self.topics: dict[Uuid, str] = {}
        self.partitions: dict[tuple[Uuid, int], dict[str, Any]] = {}
        self.settings: dict[tuple[int, str], dict[str, str]] = {}
        self.brokers: dict[int, tuple[int, bool, bool]] = {}
        """The epoch, whether it is fenced, whether it is about to stop."""
        self.others: dict[Any, Any] = {}
        """Levels, rules, quotas, credentials, and from where on producer ids are free."""
        self._open: list[MetadataRecord] | None = None
        """The records of a metadata transaction that has not ended."""

    def copy(self) -> "_Plain":
        """Another reading that has come as far, for a record that deletes a topic."""
        other = copy(self)
        other.topics, other.settings = dict(self.topics), dict(self.settings)
        return other

    def said(self) -> dict[str, dict[Any, Any]]:
        settings = {key: found for key, found in self.settings.items() if found}
        return {
            "topics": self.topics,
            "partitions": self.partitions,
            "settings": settings,
            "brokers": self.brokers,
            "levels, rules, quotas and credentials": self.others,
        }

    def read(self, record: MetadataRecord) -> None:
        match record:
            case BeginTransactionRecord():
                self._open = []
            case AbortTransactionRecord():
                self._open = None
            case EndTransactionRecord():
                held, self._open = self._open or [], None
                for each in held:
                    self._apply(each)
            case _ if self._open is not None:
                self._open.append(record)
            case _:
                self._apply(record)

    def _apply(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                self.topics[record.topic_id] = record.name
            case RemoveTopicRecord():
                self.settings.pop((TOPIC_RESOURCE, self.topics.pop(record.topic_id)), None)
                self.partitions = {key: each for key, each in self.partitions.items() if key[0] != record.topic_id}
            case PartitionRecord():
                self.partitions[record.topic_id, record.partition_id] = _partition(record)
            case PartitionChangeRecord():
                _change(self.partitions[record.topic_id, record.partition_id], record)
            case ClearElrRecord():
                self._clear_elr(record.topic_name)
            case ConfigRecord():
                found = self.settings.setdefault((record.resource_type, record.resource_name), {})
                found.pop(record.name, None)
                if record.value is not None:
                    found[record.name] = record.value
            case _:
                self._apply_to_brokers(record)

    def _clear_elr(self, topic: str) -> None:
        for (topic_id, _), each in self.partitions.items():
            if topic in ("", self.topics[topic_id]) and (each["eligible_leader_replicas"] or each["last_known_elr"]):
                each.update(eligible_leader_replicas=(), last_known_elr=())
                each["partition_epoch"] += 1

    def _apply_to_brokers(self, record: MetadataRecord) -> None:
        match record:
            case RegisterBrokerRecord():
                self.brokers[record.broker_id] = record.broker_epoch, record.fenced, record.in_controlled_shutdown
            case UnregisterBrokerRecord():
                del self.brokers[record.broker_id]
            case FenceBrokerRecord():
                self.brokers[record.id] = record.epoch, True, self.brokers[record.id][2]
            case UnfenceBrokerRecord():
                self.brokers[record.id] = record.epoch, False, self.brokers[record.id][2]
            case BrokerRegistrationChangeRecord():
                epoch, fenced, stops = self.brokers[record.broker_id]
                fenced = record.fenced > 0 if record.fenced else fenced
                self.brokers[record.broker_id] = epoch, fenced, stops or record.in_controlled_shutdown != 0
            case _:
                self._apply_to_others(record)

    def _apply_to_others(self, record: MetadataRecord) -> None:
        match record:
            case ProducerIdsRecord():
                self.others["producer ids"] = record.next_producer_id
            case FeatureLevelRecord():
                self._put(("level", record.name), record.feature_level or None)
            case AccessControlEntryRecord():
                self._put(("rule", record.id), record)
            case RemoveAccessControlEntryRecord():
                self._put(("rule", record.id), None)
            case ClientQuotaRecord():
                entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
                self._put(("quota", entity, record.key), None if record.remove else record.value)
            case UserScramCredentialRecord():
                self._put(("credential", record.name, record.mechanism), record)
            case RemoveUserScramCredentialRecord():
                self._put(("credential", record.name, record.mechanism), None)

    def _put(self, key: Any, value: Any) -> None:
        self.others.pop(key, None)
        if value is not None:
            self.others[key] = value


def _partition(record: PartitionRecord) -> dict[str, Any]:
    lists = {name: tuple(getattr(record, name) or ()) for name in _LISTS}
    return {
        **lists,
        "leader": record.leader,
        "leader_epoch": record.leader_epoch,
        "partition_epoch": record.partition_epoch,
        "leader_recovery_state": record.leader_recovery_state,
    }


def _change(partition: dict[str, Any], record: PartitionChangeRecord) -> None:
    given = {name: getattr(record, name) for name in _LISTS}
    partition.update({name: tuple(found) for name, found in given.items() if found is not None})
    if record.leader != NO_LEADER_CHANGE:
        partition["leader"] = record.leader
        partition["leader_epoch"] += 1
    if record.leader_recovery_state >= 0:
        partition["leader_recovery_state"] = record.leader_recovery_state
    partition["partition_epoch"] += 1


def _known(image: MetadataImage) -> dict[str, dict[Any, Any]]:
    """What the image has, in the words of `_Plain.said`."""
    others: dict[Any, Any] = {("level", name): level for name, level in image.features.items()}
    others |= {("rule", key): record for key, record in image.acls.items()}
    others |= {("credential", *key): record for key, record in image.scram_credentials.items()}
    for (entity, name), record in image.client_quotas.items():
        parts = frozenset((kind, part if is_named else None) for kind, is_named, part in entity)
        others["quota", parts, name] = record.value
    if image.next_producer_id:
        others["producer ids"] = image.next_producer_id
    return {
        "topics": {topic_id: topic.name for topic_id, topic in image.topics.items()},
        "partitions": {
            (topic_id, number): _of_registration(each)
            for topic_id, topic in image.topics.items()
            for number, each in topic.partitions.items()
        },
        "settings": {(key.kind, key.name): dict(found) for key, found in image.configs.items()},
        "brokers": {key: (each.epoch, each.fenced, each.in_controlled_shutdown) for key, each in image.brokers.items()},
        "levels, rules, quotas and credentials": others,
    }


def _of_registration(partition: PartitionRegistration) -> dict[str, Any]:
    return {
        "replicas": partition.replicas,
        "isr": partition.isr,
        "removing_replicas": partition.removing_replicas,
        "adding_replicas": partition.adding_replicas,
        "eligible_leader_replicas": partition.eligible_leader_replicas,
        "last_known_elr": partition.last_known_leader,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "leader_recovery_state": partition.leader_recovery_state,
    }
