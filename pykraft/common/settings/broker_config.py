"""The settings of a broker that may be changed while it runs.

Most of them are the defaults of its topics (`common.settings.topic_config`). The others are here. An administrator sets
them for all brokers or for one of them; the strongest place that has a value holds::

    the broker's own dynamic setting     ConfigRecord of broker 1
    the dynamic setting of all brokers   ConfigRecord of broker ""
    the broker's properties file

The limits of replication (KIP-73) have no place in the file: there they mean nothing.

Follows org.apache.kafka.server.config.{DynamicProducerStateManagerConfig,QuotaConfig}, and the list of names in
kafka.server.DynamicBrokerConfig.
"""

from collections.abc import Iterable, Sequence

from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import LARGEST, ConfigDef, Key, boolean, integer, names
from pykraft.common.settings.tls_config import store_key
from pykraft.common.settings.topic_config import DYNAMIC_TOPIC_DEFAULTS

PRODUCER_ID_EXPIRATION_MS = integer(
    "producer.id.expiration.ms", 86_400_000, "a log forgets a producer that is silent this long", at_least=1
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = boolean(
    "transaction.partition.verification.enable",
    True,
    "whether a leader asks the transaction coordinator before it appends to a transaction for the first time",
)
ALL_DIRECTORIES = "*"
CORDONED_LOG_DIRS = names(
    "cordoned.log.dirs", [], "those of log.dirs that take no new replicas (KIP-1066), or * for all of them"
)
OF_ONE_BROKER = frozenset({CORDONED_LOG_DIRS.name})
"""Those that are set for one broker, and never for all."""
LIVE_BROKER_CONFIG = ConfigDef(
    [PRODUCER_ID_EXPIRATION_MS, TRANSACTION_PARTITION_VERIFICATION_ENABLE, CORDONED_LOG_DIRS]
)


def check_cordoned(cordoned: Iterable[str], directories: Sequence[str]) -> None:
    """ConfigError unless a broker with these log directories can cordon those."""
    named = set(cordoned)
    if ALL_DIRECTORIES in named and len(named) > 1:
        raise ConfigError(f"{CORDONED_LOG_DIRS.name} names {ALL_DIRECTORIES}, all log directories, and others besides")
    strange = sorted(named - {ALL_DIRECTORIES, *directories})
    if strange:
        known = f"{', '.join(directories)} {'is' if len(directories) == 1 else 'are'}"
        raise ConfigError(f"{CORDONED_LOG_DIRS.name} names {strange[0]}, which is not in log.dirs: {known}")


def is_cordoned(cordoned: Iterable[str], directory: str) -> bool:
    """Whether this log directory takes no new replicas."""
    return not {ALL_DIRECTORIES, directory}.isdisjoint(cordoned)


def _rate(name: str, meaning: str) -> Key[int]:
    return integer(name, LARGEST["long"], f"bytes per second: {meaning}", at_least=0, kind="long")


LEADER_REPLICATION_THROTTLED_RATE = _rate(
    "leader.replication.throttled.rate", "what throttled followers may fetch here together"
)
FOLLOWER_REPLICATION_THROTTLED_RATE = _rate(
    "follower.replication.throttled.rate", "what this broker's throttled replicas may fetch together"
)
DIRECTORY_MOVES_RATE = _rate(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "what replicas that move between this broker's log directories may copy together",
)
REPLICATION_QUOTA_CONFIG = ConfigDef(
    [
        LEADER_REPLICATION_THROTTLED_RATE,
        FOLLOWER_REPLICATION_THROTTLED_RATE,
        DIRECTORY_MOVES_RATE,
    ]
)
"""What is set while brokers run, or not at all."""
DYNAMIC_BROKER_CONFIGS = DYNAMIC_TOPIC_DEFAULTS | LIVE_BROKER_CONFIG.keys.keys() | REPLICATION_QUOTA_CONFIG.keys.keys()
"""The names of all of them."""


def is_dynamic(name: str) -> bool:
    """Whether a broker's setting may be changed while it runs; besides those, the stores of a listener with TLS."""
    return name in DYNAMIC_BROKER_CONFIGS or store_key(name) is not None
