"""The levels of features: every ``metadata.version`` from 3.3-IV3 to 4.4-IV2, the other features, and what each adds.

A *feature* is what all nodes of a cluster must agree on. Each has a *level*, which the metadata log holds as a
FeatureLevelRecord and an administrator changes (KIP-584, KIP-1022). ``metadata.version`` is the level of the metadata
themselves: it says which records the controller may write, and in which versions. A node that is older than the level
could not read them; so new software runs at the old level until every node has it, and then the level goes up.

`as_of_level` takes a record to the version that the cluster's level allows. The controller does that with every record
before it appends it, and a snapshot with every record that it writes. Fields that the level does not know are left out.

A level goes down again only if no level between the two has changed records (`is_lossless`): what the higher level has
written must be readable at the lower one. Kafka refuses every other downgrade of ``metadata.version``.

Some levels changed what brokers send each other (Fetch, ListOffsets). Nodes of pykraft ask each other which versions
they speak, and do not look at the level for that.

Follows org.apache.kafka.server.common.{MetadataVersion,Feature,FeatureVersion} of Kafka 4.4.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pykraft.protocol.messages.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
TRANSACTION_VERSION = "transaction.version"
"""1: the transaction log has tagged fields. 2: a producer's epoch rises with each transaction (KIP-890)."""
GROUP_VERSION = "group.version"
"""1: the coordinator assigns partitions to consumer groups that ask for it (KIP-848)."""
ELR_VERSION = "eligible.leader.replicas.version"
"""1: replicas that left the ISR of a partition below its min.insync.replicas may lead it (KIP-966)."""
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"


class MetadataVersion(NamedTuple):
    """One level of ``metadata.version``."""

    level: int
    name: str
    """The release, and which of its versions it is: ``3.7-IV2``."""
    changes_records: bool
    """Whether it added a record, or a field of one. Then no downgrade may pass it."""
    adds: str

    @property
    def release(self) -> str:
        return self.name.partition("-")[0]


METADATA_VERSIONS = (
    MetadataVersion(7, "3.3-IV3", True, "brokers in controlled shutdown (KIP-841)"),
    MetadataVersion(8, "3.4-IV0", True, "migration from ZooKeeper (KIP-866)"),
    MetadataVersion(9, "3.5-IV0", False, "tiered storage (KIP-405): Fetch 14, ListOffsets 8"),
    MetadataVersion(10, "3.5-IV1", False, "the broker epoch in Fetch (KIP-903): Fetch 15"),
    MetadataVersion(11, "3.5-IV2", True, "SCRAM credentials (KIP-900)"),
    MetadataVersion(12, "3.6-IV0", False, "the leader epoch stays when the ISR shrinks (KAFKA-15021)"),
    MetadataVersion(13, "3.6-IV1", True, "transactions of metadata records (KIP-868)"),
    MetadataVersion(14, "3.6-IV2", True, "delegation tokens"),
    MetadataVersion(15, "3.7-IV0", True, "registration of controllers (KIP-919)"),
    MetadataVersion(16, "3.7-IV1", False, "nothing (reserved)"),
    MetadataVersion(17, "3.7-IV2", True, "the directories of replicas (KIP-858)"),
    MetadataVersion(18, "3.7-IV3", False, "nothing (reserved)"),
    MetadataVersion(19, "3.7-IV4", False, "the new leader in the answer to Fetch (KIP-951): Fetch 16"),
    MetadataVersion(20, "3.8-IV0", False, "nothing (release 3.8)"),
    MetadataVersion(21, "3.9-IV0", False, "offsets of tiered storage (KIP-1005): Fetch 17, ListOffsets 9"),
    MetadataVersion(22, "4.0-IV0", False, "group.version 1 for new clusters (KIP-848)"),
    MetadataVersion(23, "4.0-IV1", True, "records for eligible leader replicas (KIP-966)"),
    MetadataVersion(24, "4.0-IV2", False, "transaction.version 2 for new clusters (KIP-890)"),
    MetadataVersion(25, "4.0-IV3", False, "remote ListOffsets that wait (KIP-1075): ListOffsets 10"),
    MetadataVersion(26, "4.1-IV0", False, "eligible.leader.replicas.version 1 for new clusters (KIP-966)"),
    MetadataVersion(27, "4.1-IV1", False, "the high watermark in Fetch (KIP-1166): Fetch 18"),
    MetadataVersion(28, "4.2-IV0", False, "share.version 1 for new clusters (KIP-932)"),
    MetadataVersion(29, "4.2-IV1", False, "streams.version 1 for new clusters (KIP-1071): ListOffsets 11"),
    MetadataVersion(30, "4.3-IV0", True, "cordoned log directories (KIP-1066)"),
    MetadataVersion(31, "4.4-IV0", False, "share.version 2 for new clusters (KIP-1191)"),
    MetadataVersion(32, "4.4-IV1", True, "ranges of addresses in access rules (KIP-1276)"),
    MetadataVersion(33, "4.4-IV2", True, "controllers that unregister (KIP-1312)"),
)
LOWEST = METADATA_VERSIONS[0]
LATEST = METADATA_VERSIONS[-1]
"""The newest one that this code can run at."""
BASE = next(version for version in METADATA_VERSIONS if version.name == "4.2-IV1")
"""That of a new cluster: Kafka 4.2's."""

IV_3_5_2_SCRAM = 11
IV_3_6_0_NO_EPOCH_BUMP = 12
IV_3_6_1_TRANSACTIONS = 13
IV_3_7_0_CONTROLLER_REGISTRATION = 15
IV_3_7_2_DIRECTORIES = 17
IV_4_0_1_ELR_RECORDS = 23
IV_4_3_0_CORDONED_DIRECTORIES = 30
IV_4_4_1_RANGES_OF_ADDRESSES = 32
IV_4_4_2_CONTROLLERS_UNREGISTER = 33

_BY_LEVEL = {version.level: version for version in METADATA_VERSIONS}
_BY_NAME = {version.name: version for version in METADATA_VERSIONS} | {
    version.release: version for version in METADATA_VERSIONS
}


def version_of_level(level: int) -> MetadataVersion | None:
    """The version with this level; None if there is none."""
    return _BY_LEVEL.get(level)


def version_named(text: str) -> MetadataVersion | None:
    """The version that a release's name means (``3.7-IV2``; ``3.7`` and ``3.7.1`` are the last one of 3.7); None if
    there is none."""
    return _BY_NAME.get(".".join(text.split(".")[:2]))


def is_lossless(current: int, lower: int) -> bool:
    """Whether ``metadata.version`` may go from the level `current` down to `lower`: no level in between has changed a
    record."""
    return not any(version.changes_records for version in METADATA_VERSIONS if lower < version.level <= current)


# --- the other features -----------------------------------------------------------------------------------------------


class FeatureLevel(NamedTuple):
    """One level of a feature."""

    level: int
    metadata_version: int
    """From this level of ``metadata.version`` on, new clusters have it."""
    requires: Mapping[str, int] = {}
    """The levels that other features must have for it."""


FEATURES: Mapping[str, tuple[FeatureLevel, ...]] = {
    KRAFT_VERSION: (FeatureLevel(0, 7), FeatureLevel(1, 21)),
    TRANSACTION_VERSION: (FeatureLevel(0, 7), FeatureLevel(1, 24), FeatureLevel(2, 24)),
    GROUP_VERSION: (FeatureLevel(0, 7), FeatureLevel(1, 22)),
    ELR_VERSION: (FeatureLevel(0, 7), FeatureLevel(1, 26, {METADATA_VERSION: IV_4_0_1_ELR_RECORDS})),
    SHARE_VERSION: (FeatureLevel(0, 7), FeatureLevel(1, 28), FeatureLevel(2, 31)),
    STREAMS_VERSION: (FeatureLevel(0, 7), FeatureLevel(1, 29)),
}
"""Every feature of Kafka 4.4 but ``metadata.version``, in the order in which Kafka lists them."""


def default_level(feature: str, metadata_version: int) -> int:
    """The level of this feature in a new cluster whose ``metadata.version`` is this."""
    return max(each.level for each in FEATURES[feature] if each.metadata_version <= metadata_version)


def feature_level(feature: str, level: int) -> FeatureLevel | None:
    """A level of a feature; None if one of the two does not exist."""
    return next((each for each in FEATURES.get(feature, ()) if each.level == level), None)


def why_not(feature: str, wanted: FeatureLevel, levels: Mapping[str, int]) -> str | None:
    """Which level another feature lacks for the wanted one, if `levels` are those of the cluster; None if none."""
    for name, level in wanted.requires.items():
        if levels.get(name, 0) < level:
            return f"{feature} {wanted.level} needs {name} {level}, and that is at {levels.get(name, 0)}"
    return None


# --- records ----------------------------------------------------------------------------------------------------------


def as_of_level(record: MetadataRecord, version: int, level: int) -> tuple[MetadataRecord, int]:
    """The record and its version as the cluster's ``metadata.version`` allows them; `version` is the newest one that
    the writer wants. The record that is handed in stays as it is."""
    allowed = newest_version(record, level)
    if allowed >= version:
        return record, version
    lost = {
        field.name: field.default
        for field in record.fields
        if field.present(version) and not field.present(allowed) and getattr(record, field.name) != field.default
    }
    return (record.replace(**lost) if lost else record), allowed


def newest_version(record: MetadataRecord, level: int) -> int:
    """The newest version of this kind of record at this level."""
    match record:
        case PartitionRecord() | PartitionChangeRecord():
            return 2 if level >= IV_4_0_1_ELR_RECORDS else 1 if level >= IV_3_7_2_DIRECTORIES else 0
        case RegisterBrokerRecord():
            if level >= IV_4_3_0_CORDONED_DIRECTORIES:
                return 4
            return 3 if level >= IV_3_7_2_DIRECTORIES else 2 if level > LOWEST.level else 1
        case BrokerRegistrationChangeRecord():
            return 3 if level >= IV_4_3_0_CORDONED_DIRECTORIES else 2 if level >= IV_3_7_2_DIRECTORIES else 1
        case _:
            return record.versions[1]
