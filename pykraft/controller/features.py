"""The levels at which this code runs, and the records of a new cluster.

A level is a promise to every node and client, so only what is built is supported: there is one metadata version, that
of Kafka 4.2, and no eligible leader replicas, share or streams groups. A new cluster gets the highest levels, in the
order of their names after ``metadata.version``, as Kafka writes them. An older directory keeps those that it has.

Follows org.apache.kafka.server.common.{MetadataVersion,Feature} and
org.apache.kafka.metadata.bootstrap.BootstrapMetadata.
"""

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


class UnsupportedFeatureError(Exception):
    """This node cannot be part of this cluster; the message names the feature and its level."""


def bootstrap_records() -> list[VersionedRecord]:
    """The first records of a cluster's metadata log, after Raft's own."""
    return [
        (BeginTransactionRecord(name="Bootstrap records"), 0),
        (FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_4_2_IV1), 0),
        (FeatureLevelRecord(name=GROUP_VERSION, feature_level=1), 0),
        (FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=2), 0),
        (EndTransactionRecord(), 0),
    ]


def check_supported(image: MetadataImage) -> None:
    """UnsupportedFeatureError if the cluster runs a feature at a level that this code cannot."""
    for name, level in sorted(image.features.items()):
        low, high = SUPPORTED_FEATURES.get(name, FeatureRange(0, 0))
        if not low <= level <= high:
            raise UnsupportedFeatureError(f"the cluster runs {name} at level {level}; supported is {low} to {high}")
