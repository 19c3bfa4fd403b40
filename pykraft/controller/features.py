"""The levels at which this code runs, and the records of a new cluster.

A level is a promise to every node and client, so only what is built is supported: every ``metadata.version`` of Kafka
3.3 to 4.4, and neither share nor streams groups. `metadata.versions` has the levels themselves, and what each of them
adds.

But every directory that Apache Kafka 4.2 formats by default has the levels of share and streams groups. They promise
what clients may ask, and change no record that a node must understand. So these two are *known*: a node of ours runs in
such a cluster, keeps their levels, and says to no client and no controller that it has them. Share and streams groups
are then refused by the version of their requests. A controller of Apache Kafka wants each broker to name all features
of its cluster, so it refuses ours; a controller of ours takes it.

A new cluster gets the levels of Kafka 4.2, those of another release, or those that it is formatted with. They are
written in the order of their names after ``metadata.version``; level 0 is no record. So a new cluster keeps eligible
leader replicas, and its first controller writes the ``min.insync.replicas`` of all brokers after the levels (`elr`). An
older directory keeps the levels that it has, until an administrator changes them (`controller.feature_control`).

Follows org.apache.kafka.controller.QuorumFeatures, org.apache.kafka.metadata.storage.Formatter and
org.apache.kafka.metadata.bootstrap.BootstrapMetadata.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.controller.partitions.elr import first_min_isr
from pykraft.controller.result import VersionedRecord
from pykraft.metadata.image import FeatureRange, MetadataImage
from pykraft.metadata.versions import (
    BASE,
    ELR_VERSION,
    FEATURES,
    GROUP_VERSION,
    IV_3_6_1_TRANSACTIONS,
    KRAFT_VERSION,
    LATEST,
    LOWEST,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    default_level,
    feature_level,
    version_named,
    why_not,
)
from pykraft.protocol.messages.records import BeginTransactionRecord, EndTransactionRecord, FeatureLevelRecord
from pykraft.raft.log.voters import SUPPORTED_KRAFT_VERSIONS

__all__ = [
    "ELR_VERSION",
    "GROUP_VERSION",
    "KNOWN_FEATURES",
    "KRAFT_VERSION",
    "METADATA_VERSION",
    "METADATA_VERSION_4_2_IV1",
    "NEW_CLUSTER",
    "SUPPORTED_FEATURES",
    "TRANSACTION_VERSION",
    "UnsupportedFeatureError",
    "bootstrap_records",
    "check_broker_features",
    "check_supported",
    "level_records",
    "levels_in",
    "levels_of_release",
    "levels_to_run_at",
    "levels_with",
    "parse_levels",
]

METADATA_VERSION_4_2_IV1 = BASE.level

SUPPORTED_FEATURES: dict[str, FeatureRange] = {
    METADATA_VERSION: FeatureRange(LOWEST.level, LATEST.level),
    KRAFT_VERSION: FeatureRange(*SUPPORTED_KRAFT_VERSIONS),
    GROUP_VERSION: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, 2),
    ELR_VERSION: FeatureRange(0, 1),
}
KNOWN_FEATURES: dict[str, FeatureRange] = {SHARE_VERSION: FeatureRange(0, 2), STREAMS_VERSION: FeatureRange(0, 1)}
"""What a cluster may run without this code's serving it: no node of ours says that it has them."""
UNSUPPORTED = FeatureRange(0, 0)
"""The levels of a feature that a node has never heard of."""


class UnsupportedFeatureError(Exception):
    """This node cannot be part of this cluster; the message names the feature and its level."""


def levels_of_release(metadata_version: int) -> dict[str, int]:
    """The levels of a new cluster at this ``metadata.version``, as far as this code has them."""
    chosen = {
        name: min(default_level(name, metadata_version), SUPPORTED_FEATURES.get(name, UNSUPPORTED).maximum)
        for name in FEATURES
        if name != KRAFT_VERSION
    }
    return {METADATA_VERSION: metadata_version, **{name: level for name, level in chosen.items() if level > 0}}


NEW_CLUSTER: Mapping[str, int] = levels_of_release(BASE.level)
"""The levels of a cluster that is formatted without others."""


def level_records(levels: Mapping[str, int]) -> list[VersionedRecord]:
    """The records of these levels. Raft has its own way to say ``kraft.version``."""
    names = sorted(levels.keys() - {METADATA_VERSION, KRAFT_VERSION})
    wanted = [(name, levels[name]) for name in [METADATA_VERSION, *names]]
    return [(FeatureLevelRecord(name=name, feature_level=level), 0) for name, level in wanted if level > 0]


def levels_in(records: Iterable[VersionedRecord]) -> dict[str, int]:
    """The levels that these records set."""
    return {record.name: record.feature_level for record, _ in records if isinstance(record, FeatureLevelRecord)}


def bootstrap_records(
    first: Sequence[VersionedRecord], static: Mapping[str, str] = MappingProxyType({})
) -> list[VersionedRecord]:
    """The beginning of a cluster's metadata log, after Raft's own records: what it was formatted with, as a transaction
    if the level of the metadata knows that. `static` is the file of the node that writes it."""
    levels = levels_in(first)
    if levels.get(ELR_VERSION, 0) > 0:
        first = [*first, first_min_isr(static)]
    if levels[METADATA_VERSION] < IV_3_6_1_TRANSACTIONS:
        return list(first)
    return [(BeginTransactionRecord(name="Bootstrap records"), 0), *first, (EndTransactionRecord(), 0)]


def parse_levels(settings: Iterable[str], release: str | None = None) -> dict[str, int]:
    """The levels of a new cluster: those of a release, some of them given as ``feature=level``. A level 0 is left out,
    but not that of ``kraft.version``. ConfigError if this code has no such feature or level, or if a level lacks one
    that it depends on."""
    wanted = dict(_parse_level(setting) for setting in settings)
    version = BASE if release is None else version_named(release)
    if version is None:
        raise ConfigError(f"--release-version {release} must be a release from {LOWEST.name} to {LATEST.name}")
    if release is not None and METADATA_VERSION in wanted:
        raise ConfigError(f"--release-version names the level of {METADATA_VERSION}, so --feature must not")
    defaults = levels_of_release(wanted.get(METADATA_VERSION, version.level))
    levels = {name: level for name, level in (defaults | wanted).items() if level > 0 or name == KRAFT_VERSION}
    for name, level in levels.items():
        found = feature_level(name, level)
        if found is not None and (reason := why_not(name, found, levels)) is not None:
            raise ConfigError(f"--feature {name}={level}: {reason}")
    return levels


def _parse_level(setting: str) -> tuple[str, int]:
    name, equals, text = (part.strip() for part in setting.partition("="))
    if not equals or not text.isdecimal():
        raise ConfigError(f"--feature {setting} must be a feature and its level, like {TRANSACTION_VERSION}=2")
    supported = SUPPORTED_FEATURES.get(name)
    if supported is None:
        if name in FEATURES and int(text) == 0:
            return name, 0
        raise ConfigError(f"--feature {setting}: the features are {', '.join(sorted(SUPPORTED_FEATURES))}")
    low, high = supported
    if not low <= int(text) <= high:
        raise ConfigError(f"--feature {setting}: {name} must be {low}" + (f" to {high}" if high > low else ""))
    return name, int(text)


def levels_with(features: Mapping[str, int]) -> dict[str, int]:
    """The levels of a new cluster, these among them; ConfigError if this code has no such feature or level."""
    return parse_levels(f"{name}={level}" for name, level in features.items())


def check_supported(image: MetadataImage) -> None:
    """UnsupportedFeatureError if the cluster runs a feature at a level that this code cannot."""
    for name, level in sorted(image.features.items()):
        low, high = levels_to_run_at(name)
        if not low <= level <= high:
            raise UnsupportedFeatureError(f"the cluster runs {name} at level {level}; supported is {low} to {high}")


def levels_to_run_at(feature: str) -> FeatureRange:
    """The levels of this feature at which a cluster may be for a node of ours to run in it."""
    return SUPPORTED_FEATURES.get(feature) or KNOWN_FEATURES.get(feature, UNSUPPORTED)


class _Supported(Protocol):
    """The levels of a feature that a broker says it supports."""

    name: str
    min_supported_version: int
    max_supported_version: int


def check_broker_features(image: MetadataImage, features: Iterable[_Supported]) -> None:
    """KafkaError(UNSUPPORTED_VERSION) if the cluster runs a feature at a level that a broker cannot, or does not name,
    though it is none of those that need not be served;
    KafkaError(INVALID_REGISTRATION) if it does not name ``metadata.version``."""
    supported = {
        f.name: FeatureRange(f.min_supported_version, f.max_supported_version)
        for f in features
        if f.name != KRAFT_VERSION  # which Raft looks after
    }
    for name, (low, high) in supported.items():
        level = image.features.get(name, low if name == METADATA_VERSION else 0)
        if not low <= level <= high:
            raise _too_old(name, level, low, high)
    if METADATA_VERSION not in supported:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION, f"a broker says which levels of {METADATA_VERSION} it can run with"
        )
    for name, level in image.features.items():
        if name not in supported and not _is_known(name, level):
            raise _too_old(name, level, *UNSUPPORTED)


def _is_known(name: str, level: int) -> bool:
    low, high = KNOWN_FEATURES.get(name, UNSUPPORTED)
    return low <= level <= high


def _too_old(name: str, level: int, low: int, high: int) -> KafkaError:
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the cluster runs {name} {level}, the broker {low} to {high}")
