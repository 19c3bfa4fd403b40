"""The settings of a group (resource type GROUP), and those of the broker that bound them.

A consumer group's session timeout and heartbeat interval are the broker's to choose (KIP-848). An administrator may set
both for one group, within the broker's limits. The strongest place that has a value holds::

    the group's own setting   consumer.session.timeout.ms         ConfigSource.GROUP, a ConfigRecord in the metadata log
    the broker's setting      group.consumer.session.timeout.ms   DEFAULT: Kafka's description does not tell the file
                                                                  from the default

The controller checks a change against its own file, and each broker reads the result with its file. If the limits of a
broker are narrower than the controller's, the group's own value holds there all the same, as in Kafka.

Follows org.apache.kafka.coordinator.group.{GroupConfig,GroupConfigManager} and the limits in GroupCoordinatorConfig.
"""

from collections.abc import Mapping
from typing import Any

from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import Config, ConfigDef, Key, integer

# --- the broker's settings --------------------------------------------------------------------------------------------

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
BROKER_GROUP_KEYS: list[Key[Any]] = [
    GROUP_CONSUMER_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
]
BROKER_GROUP_CONFIG = ConfigDef(BROKER_GROUP_KEYS)

# --- one group's own settings -----------------------------------------------------------------------------------------

CONSUMER_SESSION_TIMEOUT_MS = integer(
    "consumer.session.timeout.ms", 45_000, "group.consumer.session.timeout.ms for this group", at_least=1
)
CONSUMER_HEARTBEAT_INTERVAL_MS = integer(
    "consumer.heartbeat.interval.ms", 5_000, "group.consumer.heartbeat.interval.ms for this group", at_least=1
)
GROUP_CONFIG = ConfigDef([CONSUMER_SESSION_TIMEOUT_MS, CONSUMER_HEARTBEAT_INTERVAL_MS])
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


def group_timeouts(broker: Config, own: Mapping[str, str]) -> tuple[int, int]:
    """(session timeout, heartbeat interval) of a group that has these settings of its own. A value that this node
    cannot read is left out."""
    session_timeout_ms, heartbeat_interval_ms = (
        _readable(of_group, own, broker[of_broker]) for of_broker, of_group, _, _ in _LIMITS
    )
    return session_timeout_ms, heartbeat_interval_ms


def _readable(key: Key[int], own: Mapping[str, str], default: int) -> int:
    try:
        return key.read(own[key.name]) if key.name in own else default
    except ConfigError:
        return default


def group_values(broker: Config, own: Mapping[str, str]) -> dict[str, int]:
    """Each setting of a group that has these of its own, by name."""
    keys = (of_group.name for _, of_group, _, _ in _LIMITS)
    return dict(zip(keys, group_timeouts(broker, own), strict=True))


def check_broker_group_keys(broker: Config) -> None:
    """ConfigError if the broker's settings of consumer groups contradict each other."""
    for key, _, lowest, highest in _LIMITS:
        if broker[highest] < broker[lowest]:
            raise ConfigError(f"{highest.name} is {broker[highest]}, but must be at least {lowest.name}")
        _check_limits(key, broker[key], lowest, highest, broker)
    session, heartbeat = GROUP_CONSUMER_SESSION_TIMEOUT_MS, GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS
    if broker[session] <= broker[heartbeat]:
        raise ConfigError(f"{session.name} is {broker[session]}, but must be greater than {heartbeat.name}")


def check_group_settings(own: Mapping[str, str], broker: Config) -> None:
    """ConfigError if this broker does not accept these settings of one group."""
    unknown = GROUP_CONFIG.unknown(own)
    if unknown:
        raise ConfigError(f"{', '.join(unknown)}: a group has no such setting, only {', '.join(GROUP_CONFIG.keys)}")
    values = GROUP_CONFIG.resolve(own)
    for _, key, lowest, highest in _LIMITS:
        if key.name in own:
            _check_limits(key, values[key], lowest, highest, broker)
    session_timeout_ms, heartbeat_interval_ms = group_timeouts(broker, own)
    if session_timeout_ms <= heartbeat_interval_ms:
        session, heartbeat = CONSUMER_SESSION_TIMEOUT_MS, CONSUMER_HEARTBEAT_INTERVAL_MS
        raise ConfigError(f"{session.name} is {session_timeout_ms}, but must be greater than {heartbeat.name}")


def _check_limits(key: Key[int], value: int, lowest: Key[int], highest: Key[int], broker: Config) -> None:
    if not broker[lowest] <= value <= broker[highest]:
        allowed = f"from {broker[lowest]} ({lowest.name}) to {broker[highest]} ({highest.name})"
        raise ConfigError(f"{key.name} is {value}, but must be {allowed}")
