"""The levels at which this code runs, and the records of a new cluster.

A level is a promise to every node and client, so only what is built is supported: there is one metadata version, that
of Kafka 4.2, and no eligible leader replicas, share or streams groups. A new cluster gets the highest levels, or those
that it is formatted with. They are written in the order of their names after ``metadata.version``; level 0 is no
record. An older directory keeps the levels that it has.

Follows org.apache.kafka.server.common.{MetadataVersion,Feature} and
org.apache.kafka.metadata.bootstrap.BootstrapMetadata.
"""

from collections.abc import Iterable, Mapping

from pykraft.common.errors import ConfigError
from pykraft.controller.result import VersionedRecord
from pykraft.metadata.image import FeatureRange, MetadataImage
from pykraft.protocol.messages.records import BeginTransactionRecord, EndTransactionRecord, FeatureLevelRecord
from pykraft.raft.voters import SUPPORTED_KRAFT_VERSIONS

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
GROUP_VERSION = "group.version"
"""1: the coordinator assigns partitions to consumer groups that ask for it (KIP-848)."""
TRANSACTION_VERSION = "transaction.version"
"""1: the transaction log has tagged fields. 2: a producer's epoch rises with each transaction (KIP-890)."""
METADATA_VERSION_4_2_IV1 = 29

SUPPORTED_FEATURES: dict[str, FeatureRange] = {
    METADATA_VERSION: FeatureRange(METADATA_VERSION_4_2_IV1, METADATA_VERSION_4_2_IV1),
    KRAFT_VERSION: FeatureRange(*SUPPORTED_KRAFT_VERSIONS),
    GROUP_VERSION: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, 2),
}

NEW_CLUSTER: Mapping[str, int] = {METADATA_VERSION: METADATA_VERSION_4_2_IV1, GROUP_VERSION: 1, TRANSACTION_VERSION: 2}
"""The levels of a cluster that is formatted without others."""


class UnsupportedFeatureError(Exception):
    """This node cannot be part of this cluster; the message names the feature and its level."""


def level_records(levels: Mapping[str, int]) -> list[VersionedRecord]:
    """The records of these levels. Raft has its own way to say ``kraft.version``."""
    names = sorted(levels.keys() - {METADATA_VERSION, KRAFT_VERSION})
    wanted = [(name, levels[name]) for name in [METADATA_VERSION, *names]]
    return [(FeatureLevelRecord(name=name, feature_level=level), 0) for name, level in wanted if level > 0]


def bootstrap_records(levels: Mapping[str, int] = NEW_CLUSTER) -> list[VersionedRecord]:
    """The first records of a cluster's metadata log, after Raft's own."""
    return [(BeginTransactionRecord(name="Bootstrap records"), 0), *level_records(levels), (EndTransactionRecord(), 0)]


def parse_levels(settings: Iterable[str]) -> dict[str, int]:
    """The levels of a new cluster, some of them given as ``feature=level``; ConfigError if this code has no such
    feature or level."""
    levels = dict(NEW_CLUSTER)
    for setting in settings:
        name, equals, text = (part.strip() for part in setting.partition("="))
        if not equals or not text.isdecimal():
            raise ConfigError(f"--feature {setting} must be a feature and its level, like {TRANSACTION_VERSION}=2")
        supported = SUPPORTED_FEATURES.get(name)
        if supported is None:
            raise ConfigError(f"--feature {setting}: the features are {', '.join(sorted(SUPPORTED_FEATURES))}")
        low, high = supported
        if not low <= int(text) <= high:
            raise ConfigError(f"--feature {setting}: {name} must be {low}" + (f" to {high}" if high > low else ""))
        levels[name] = int(text)
    return levels


def check_supported(image: MetadataImage) -> None:
    """UnsupportedFeatureError if the cluster runs a feature at a level that this code cannot."""
    for name, level in sorted(image.features.items()):
        low, high = SUPPORTED_FEATURES.get(name, FeatureRange(0, 0))
        if not low <= level <= high:
            raise UnsupportedFeatureError(f"the cluster runs {name} at level {level}; supported is {low} to {high}")
