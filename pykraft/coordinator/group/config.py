"""The settings of the group coordinator, under Kafka's names: a broker's, and what holds for one consumer group.

Those of the internal topic count when it is created: how many partitions it has says where each group lives, so Kafka
does not change that later either. The others count for each request.

A consumer group's session timeout and heartbeat interval are the broker's to choose, not the client's: the heartbeat's
response tells each member how often to send one. An administrator may set both for one group
(`common.settings.group_config`).

Follows org.apache.kafka.coordinator.group.GroupCoordinatorConfig.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import Config, Key, integer, names
from pykraft.common.settings.group_config import (
    BROKER_GROUP_KEYS,
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_SESSION_TIMEOUT_MS,
    check_broker_group_keys,
    group_timeouts,
)
from pykraft.coordinator.group.assignors import ASSIGNORS

# --- the internal topic -----------------------------------------------------------------------------------------------

OFFSETS_TOPIC_NUM_PARTITIONS = integer(
    "offsets.topic.num.partitions", 50, "partitions of __consumer_offsets when it is created", at_least=1
)
OFFSETS_TOPIC_REPLICATION_FACTOR = integer(
    "offsets.topic.replication.factor", 3, "replicas of the topic of committed offsets", at_least=1, kind="short"
)
OFFSETS_TOPIC_SEGMENT_BYTES = integer(
    "offsets.topic.segment.bytes", 100 << 20, "segment.bytes of __consumer_offsets when it is created", at_least=1
)
OFFSETS_COMMIT_TIMEOUT_MS = integer(
    "offsets.commit.timeout.ms", 5000, "a commit that is not replicated after this long fails", at_least=1
)
GROUP_COORDINATOR_APPEND_LINGER_MS = integer(
    "group.coordinator.append.linger.ms",
    -1,
    "the coordinator gathers writes this long before it appends them; -1: those that are there to be handled",
    at_least=-1,
)

# --- committed offsets ------------------------------------------------------------------------------------------------

OFFSET_METADATA_MAX_BYTES = integer(
    "offset.metadata.max.bytes", 4096, "the longest text that a client may commit with an offset"
)
OFFSETS_RETENTION_MINUTES = integer(
    "offsets.retention.minutes", 10_080, "offsets of a group without members are kept this long", at_least=1
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = integer(
    "offsets.retention.check.interval.ms", 600_000, "how often old offsets are looked for", at_least=1, kind="long"
)

# --- classic groups ---------------------------------------------------------------------------------------------------

GROUP_MIN_SESSION_TIMEOUT_MS = integer(
    "group.min.session.timeout.ms", 6000, "the shortest session that a classic member may ask for"
)
GROUP_MAX_SESSION_TIMEOUT_MS = integer(
    "group.max.session.timeout.ms", 1_800_000, "the longest session that a classic member may ask for"
)
GROUP_INITIAL_REBALANCE_DELAY_MS = integer(
    "group.initial.rebalance.delay.ms", 3000, "an empty classic group waits this long for more members to join"
)
GROUP_MAX_SIZE = integer("group.max.size", (1 << 31) - 1, "the most members of a classic group", at_least=1)

# --- consumer groups (KIP-848): the broker's settings -----------------------------------------------------------------

GROUP_CONSUMER_MAX_SIZE = integer(
    "group.consumer.max.size", (1 << 31) - 1, "how many members a consumer group may have", at_least=1
)
GROUP_CONSUMER_ASSIGNORS = names(
    "group.consumer.assignors",
    ["uniform", "range"],
    "the assignors that members may ask for; the first is the default",
    one_of=sorted(ASSIGNORS),
)


class MigrationPolicy(StrEnum):
    """Which groups with members may change their protocol. A group without members always may."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


def _policy(text: str) -> str:
    MigrationPolicy(text.lower())  # ValueError if it is none
    return text


GROUP_CONSUMER_MIGRATION_POLICY = Key(
    "group.consumer.migration.policy",
    MigrationPolicy.BIDIRECTIONAL.value,
    _policy,
    f"one of {', '.join(MigrationPolicy)}, in small or capital letters",
    "which protocol changes are allowed to a group with members: classic to consumer (upgrade), and back (downgrade)",
    "string",
)
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS = integer(
    "group.consumer.regex.refresh.interval.ms",
    600_000,
    "patterns of topics are resolved again after this long",
    at_least=10_000,
)

GROUP_KEYS: list[Key[Any]] = [
    OFFSETS_TOPIC_NUM_PARTITIONS,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    OFFSETS_TOPIC_SEGMENT_BYTES,
    OFFSETS_COMMIT_TIMEOUT_MS,
    GROUP_COORDINATOR_APPEND_LINGER_MS,
    OFFSET_METADATA_MAX_BYTES,
    OFFSETS_RETENTION_MINUTES,
    OFFSETS_RETENTION_CHECK_INTERVAL_MS,
    GROUP_MIN_SESSION_TIMEOUT_MS,
    GROUP_MAX_SESSION_TIMEOUT_MS,
    GROUP_INITIAL_REBALANCE_DELAY_MS,
    GROUP_MAX_SIZE,
    *BROKER_GROUP_KEYS,
    GROUP_CONSUMER_MAX_SIZE,
    GROUP_CONSUMER_ASSIGNORS,
    GROUP_CONSUMER_MIGRATION_POLICY,
    GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS,
]

# --- consumer groups: what holds for one ------------------------------------------------------------------------------


class ConsumerGroupConfig(NamedTuple):
    """The settings in force for one consumer group."""

    session_timeout_ms: int = GROUP_CONSUMER_SESSION_TIMEOUT_MS.default
    heartbeat_interval_ms: int = GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS.default
    max_size: int = GROUP_CONSUMER_MAX_SIZE.default
    assignors: tuple[str, ...] = GROUP_CONSUMER_ASSIGNORS.default
    regex_refresh_interval_ms: int = GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS.default
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


def consumer_group_config(broker: Config, group: Mapping[str, str]) -> ConsumerGroupConfig:
    """What holds for a group that has these settings of its own, on this broker."""
    session_timeout_ms, heartbeat_interval_ms = group_timeouts(broker, group)
    return ConsumerGroupConfig(
        session_timeout_ms,
        heartbeat_interval_ms,
        broker[GROUP_CONSUMER_MAX_SIZE],
        broker[GROUP_CONSUMER_ASSIGNORS],
        broker[GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS],
        MigrationPolicy(broker[GROUP_CONSUMER_MIGRATION_POLICY].lower()),
    )


def check_consumer_group_keys(broker: Config) -> None:
    """ConfigError if the broker's settings of consumer groups contradict each other."""
    if not broker[GROUP_CONSUMER_ASSIGNORS]:
        raise ConfigError(f"{GROUP_CONSUMER_ASSIGNORS.name} is empty, but must be {GROUP_CONSUMER_ASSIGNORS.allowed}")
    check_broker_group_keys(broker)
