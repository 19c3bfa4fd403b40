"""The settings of the group coordinator, under Kafka's names: a broker's, and those that one group may have for itself.

Those of the internal topic count when it is created: how many partitions it has says where each group lives, so Kafka
does not change that later either. The others count for each request.

A consumer group's session timeout and heartbeat interval are the broker's to choose, not the client's: the heartbeat's
response tells each member how often to send one. An administrator may set both for one group (resource type GROUP),
within the broker's limits.

Follows org.apache.kafka.coordinator.group.{GroupCoordinatorConfig,GroupConfig}.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pykraft.common.config import Config, ConfigDef, Key, integer, names
from pykraft.common.errors import ConfigError
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

GROUP_CONSUMER_SESSION_TIMEOUT_MS = integer(
    "group.consumer.session.timeout.ms",
    45_000,
    "a consumer group's member that sends no heartbeat for this long is removed",
    at_least=1,
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = integer(
    "group.consumer.min.session.timeout.ms", 45_000, "the shortest session timeout of a consumer group", at_least=1
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = integer(
    "group.consumer.max.session.timeout.ms", 60_000, "the longest session timeout of a consumer group", at_least=1
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = integer(
    "group.consumer.heartbeat.interval.ms", 5_000, "how often a consumer group's member sends a heartbeat", at_least=1
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = integer(
    "group.consumer.min.heartbeat.interval.ms", 5_000, "the shortest heartbeat interval of a consumer group", at_least=1
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = integer(
    "group.consumer.max.heartbeat.interval.ms", 15_000, "the longest heartbeat interval of a consumer group", at_least=1
)
GROUP_CONSUMER_MAX_SIZE = integer(
    "group.consumer.max.size", (1 << 31) - 1, "how many members a consumer group may have", at_least=1
)
GROUP_CONSUMER_ASSIGNORS = names(
    "group.consumer.assignors",
    ["uniform", "range"],
    "the assignors that members may ask for; the first is the default",
    one_of=sorted(ASSIGNORS),
)
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS = integer(
    "group.consumer.regex.refresh.interval.ms",
    600_000,
    "patterns of topics are resolved again after this long",
    at_least=10_000,
)

CONSUMER_GROUP_KEYS: list[Key[Any]] = [
    GROUP_CONSUMER_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_SIZE,
    GROUP_CONSUMER_ASSIGNORS,
    GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS,
]

GROUP_KEYS: list[Key[Any]] = [
    OFFSETS_TOPIC_NUM_PARTITIONS,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    OFFSETS_TOPIC_SEGMENT_BYTES,
    OFFSETS_COMMIT_TIMEOUT_MS,
    OFFSET_METADATA_MAX_BYTES,
    OFFSETS_RETENTION_MINUTES,
    OFFSETS_RETENTION_CHECK_INTERVAL_MS,
    GROUP_MIN_SESSION_TIMEOUT_MS,
    GROUP_MAX_SESSION_TIMEOUT_MS,
    GROUP_INITIAL_REBALANCE_DELAY_MS,
    GROUP_MAX_SIZE,
    *CONSUMER_GROUP_KEYS,
]

# --- consumer groups: one group's own settings ------------------------------------------------------------------------

CONSUMER_SESSION_TIMEOUT_MS = integer(
    "consumer.session.timeout.ms", 45_000, "group.consumer.session.timeout.ms for this group", at_least=1
)
CONSUMER_HEARTBEAT_INTERVAL_MS = integer(
    "consumer.heartbeat.interval.ms", 5_000, "group.consumer.heartbeat.interval.ms for this group", at_least=1
)

DYNAMIC_CONSUMER_GROUP_KEYS: list[Key[Any]] = [CONSUMER_SESSION_TIMEOUT_MS, CONSUMER_HEARTBEAT_INTERVAL_MS]
_DYNAMIC = ConfigDef(DYNAMIC_CONSUMER_GROUP_KEYS)
_LIMITS = (
    (
        GROUP_CONSUMER_SESSION_TIMEOUT_MS,
        CONSUMER_SESSION_TIMEOUT_MS,
        GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    ),
    (
        GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
        CONSUMER_HEARTBEAT_INTERVAL_MS,
        GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    ),
)


class ConsumerGroupConfig(NamedTuple):
    """The settings in force for one consumer group."""

    session_timeout_ms: int = GROUP_CONSUMER_SESSION_TIMEOUT_MS.default
    heartbeat_interval_ms: int = GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS.default
    max_size: int = GROUP_CONSUMER_MAX_SIZE.default
    assignors: tuple[str, ...] = GROUP_CONSUMER_ASSIGNORS.default
    regex_refresh_interval_ms: int = GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS.default


def consumer_group_config(broker: Config, group: Mapping[str, str]) -> ConsumerGroupConfig:
    """What holds for a group that has these settings of its own, on this broker."""
    own = _DYNAMIC.resolve(group)
    session_timeout_ms, heartbeat_interval_ms = (
        own[of_group] if of_group.name in group else broker[of_broker] for of_broker, of_group, _, _ in _LIMITS
    )
    return ConsumerGroupConfig(
        session_timeout_ms,
        heartbeat_interval_ms,
        broker[GROUP_CONSUMER_MAX_SIZE],
        broker[GROUP_CONSUMER_ASSIGNORS],
        broker[GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS],
    )


def check_consumer_group_keys(broker: Config) -> None:
    """ConfigError if the broker's settings of consumer groups contradict each other."""
    if not broker[GROUP_CONSUMER_ASSIGNORS]:
        raise ConfigError(f"{GROUP_CONSUMER_ASSIGNORS.name} is empty, but must be {GROUP_CONSUMER_ASSIGNORS.allowed}")
    for key, _, lowest, highest in _LIMITS:
        if broker[highest] < broker[lowest]:
            raise ConfigError(f"{highest.name} is {broker[highest]}, but must be at least {lowest.name}")
        _check_limits(key, broker[key], lowest, highest, broker)
    session, heartbeat = GROUP_CONSUMER_SESSION_TIMEOUT_MS, GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS
    if broker[session] <= broker[heartbeat]:
        raise ConfigError(f"{session.name} is {broker[session]}, but must be greater than {heartbeat.name}")


def check_consumer_group_settings(group: Mapping[str, str], broker: Config) -> None:
    """ConfigError if this broker does not accept these settings of one group."""
    own = _DYNAMIC.resolve(group)
    effective = consumer_group_config(broker, group)
    for _, key, lowest, highest in _LIMITS:
        if key.name in group:
            _check_limits(key, own[key], lowest, highest, broker)
    if effective.session_timeout_ms <= effective.heartbeat_interval_ms:
        session, heartbeat = CONSUMER_SESSION_TIMEOUT_MS, CONSUMER_HEARTBEAT_INTERVAL_MS
        raise ConfigError(
            f"{session.name} is {effective.session_timeout_ms}, but must be greater than {heartbeat.name}"
        )


def _check_limits(key: Key[int], value: int, lowest: Key[int], highest: Key[int], broker: Config) -> None:
    if not broker[lowest] <= value <= broker[highest]:
        allowed = f"from {broker[lowest]} ({lowest.name}) to {broker[highest]} ({highest.name})"
        raise ConfigError(f"{key.name} is {value}, but must be {allowed}")
