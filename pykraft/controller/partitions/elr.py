"""What eligible leader replicas ask of ``min.insync.replicas`` (KIP-966).

A new cluster keeps ELRs, unless it is formatted with level 0 of ``eligible.leader.replicas.version``. A replica may
stay in the ELR as long as the high watermark does not advance without it. That holds only if the controller and the
leader know the same ``min.insync.replicas``, so in a cluster that keeps ELRs:

* All brokers share one value, which the active controller writes into the metadata log when the feature begins: that
  of its own node's file, or the default. From then on the value in a node's file has no effect. An administrator can
  change the shared value, but not take it away; one broker cannot have another.
* Whenever the setting changes, for a topic or for all, the ELRs that rest on it are void, in the same batch of records:
  with a smaller value the high watermark may rise above the end of a member's log.

Follows org.apache.kafka.controller.ConfigurationControlManager and ActivationRecordsGenerator.
"""

from collections.abc import Iterable, Mapping

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.topic_config import MIN_INSYNC_REPLICAS
from pykraft.controller.result import VersionedRecord
from pykraft.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from pykraft.metadata.settings import ALL_BROKERS, NodeLayers, topic_setting
from pykraft.protocol.messages.records import ClearElrRecord, ConfigRecord

NAME = MIN_INSYNC_REPLICAS.name


def check_min_isr_change(kind: int, name: str, changes: Mapping[str, str | None]) -> None:
    """KafkaError(INVALID_CONFIG) if a cluster that keeps ELRs cannot have this change of settings."""
    if kind != BROKER_RESOURCE or NAME not in changes:
        return
    if name != ALL_BROKERS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"with eligible leader replicas one broker has no {NAME} of its own")
    if changes[NAME] is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"with eligible leader replicas {NAME} of all brokers must stay")


def clearing_records(records: Iterable[VersionedRecord]) -> list[VersionedRecord]:
    """The records that void the ELRs after these changes of settings."""
    changed = [record for record, _ in records if isinstance(record, ConfigRecord) and record.name == NAME]
    topics = [record.resource_name if record.resource_type == TOPIC_RESOURCE else "" for record in changed]
    return [(ClearElrRecord(topic_name=topic), 0) for topic in topics]


def first_min_isr(static: Mapping[str, str]) -> VersionedRecord:
    """The setting of all brokers when a cluster begins to keep ELRs: what this node's file or the default says."""
    value = topic_setting(MIN_INSYNC_REPLICAS, {}, NodeLayers({}, {}, static))
    return _setting(ALL_BROKERS, str(value))


def safety_records(image: MetadataImage, static: Mapping[str, str]) -> list[VersionedRecord]:
    """What must be so before a cluster that exists may keep ELRs: one setting for all brokers, and no others."""
    has_shared = NAME in image.config_of(BROKER_RESOURCE, ALL_BROKERS)
    own = [
        resource.name
        for resource in sorted(image.configs)
        if resource.kind == BROKER_RESOURCE and resource.name != ALL_BROKERS and NAME in image.configs[resource]
    ]
    return [*([] if has_shared else [first_min_isr(static)]), *(_setting(name, None) for name in own)]


def _setting(broker: str, value: str | None) -> VersionedRecord:
    return ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=broker, name=NAME, value=value), 0
