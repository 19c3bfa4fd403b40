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

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import LARGEST, Config, ConfigDef, Key, boolean, decimal, integer, names, string
from pykraft.common.settings.tls_config import STORE_KEYS, store_key
from pykraft.common.settings.topic_config import DYNAMIC_TOPIC_DEFAULTS
from pykraft.common.settings.unserved_config import LIVE, LIVE_OF_ONE_BROKER, UNSERVED, WITHOUT_EFFECT, has_no_effect

PRODUCER_ID_EXPIRATION_MS = integer(
    "producer.id.expiration.ms", 86_400_000, "a log forgets a producer that is silent this long", at_least=1
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = boolean(
    "transaction.partition.verification.enable",
    True,
    "whether a leader asks the transaction coordinator before it appends to a transaction for the first time",
)
# --- the cleaner

LOG_CLEANER_BACKOFF_MS = integer(
    "log.cleaner.backoff.ms", 15_000, "the cleaner looks for work this often", at_least=0, kind="long"
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = integer(
    "log.cleaner.dedupe.buffer.size",
    128 << 20,
    "memory for the keys of a pass of the cleaner",
    at_least=1 << 20,
    kind="long",
)
LARGEST_DOUBLE = 1.7976931348623157e308
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = decimal(
    "log.cleaner.io.buffer.load.factor",
    0.9,
    "how much of log.cleaner.dedupe.buffer.size a pass of the cleaner fills with keys",
    at_least=0,
    at_most=1,
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = decimal(
    "log.cleaner.io.max.bytes.per.second",
    LARGEST_DOUBLE,
    "the cleaner reads and writes no more than this many bytes in a second",
    at_least=0,
    at_most=LARGEST_DOUBLE,
)

# --- connections and threads

MAX_CONNECTIONS = integer(
    "max.connections", LARGEST["int"], "connections at most; one more waits until another is closed", at_least=0
)
MAX_CONNECTIONS_PER_IP = integer(
    "max.connections.per.ip", LARGEST["int"], "connections of one address at most; one more is closed", at_least=0
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = string(
    "max.connections.per.ip.overrides", "", "other limits for some addresses: host:limit, ..."
)
MAX_CONNECTION_CREATION_RATE = integer(
    "max.connection.creation.rate", LARGEST["int"], "new connections a second; what is beyond waits", at_least=0
)
NUM_NETWORK_THREADS = integer(
    "num.network.threads", 3, "network threads of each listener, on a node with Kafka's threads", at_least=1
)
NUM_IO_THREADS = integer(
    "num.io.threads", 8, "request handler threads of each role, on a node with Kafka's threads", at_least=1
)


def check_connection_limits(values: Config) -> None:
    """What several of the keys must say together; ConfigError is one sentence."""
    limits = limits_of_hosts(values)
    if values[MAX_CONNECTIONS_PER_IP] == 0 and not limits:
        raise ConfigError(
            f"{MAX_CONNECTIONS_PER_IP.name} is 0, so every connection would be closed: name the hosts that may connect"
            f" in {MAX_CONNECTIONS_PER_IP_OVERRIDES.name}"
        )


def limits_of_hosts(values: Config) -> dict[str, int]:
    """The limit of each host in ``max.connections.per.ip.overrides``; ConfigError if it is not written so."""
    text = values[MAX_CONNECTIONS_PER_IP_OVERRIDES]
    limits = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, limit = entry.rpartition(":")
        if not host or not limit.isascii() or not limit.isdigit():
            raise ConfigError(
                f"{MAX_CONNECTIONS_PER_IP_OVERRIDES.name} has {entry!r}, but must be a list of host:limit, such as"
                " 127.0.0.1:10"
            )
        limits[host.strip().strip("[]")] = int(limit)
    return limits


# --- log directories

ALL_DIRECTORIES = "*"
CORDONED_LOG_DIRS = names(
    "cordoned.log.dirs", [], "those of log.dirs that take no new replicas (KIP-1066), or * for all of them"
)
OF_ONE_BROKER = frozenset({CORDONED_LOG_DIRS.name}) | LIVE_OF_ONE_BROKER
"""Those that are set for one broker, and never for all."""
_SERVED: list[Key[Any]] = [
    PRODUCER_ID_EXPIRATION_MS,
    TRANSACTION_PARTITION_VERIFICATION_ENABLE,
    CORDONED_LOG_DIRS,
    LOG_CLEANER_BACKOFF_MS,
    LOG_CLEANER_DEDUPE_BUFFER_SIZE,
    LOG_CLEANER_IO_BUFFER_LOAD_FACTOR,
    LOG_CLEANER_IO_MAX_BYTES_PER_SECOND,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    MAX_CONNECTIONS_PER_IP_OVERRIDES,
    MAX_CONNECTION_CREATION_RATE,
    NUM_NETWORK_THREADS,
    NUM_IO_THREADS,
]
LIVE_BROKER_CONFIG = ConfigDef([*_SERVED, *(UNSERVED[name].key for name in sorted(LIVE))])
"""Those without effect are here as well: they are kept, and described."""
READ_AT_START = frozenset({NUM_NETWORK_THREADS.name, NUM_IO_THREADS.name, LOG_CLEANER_BACKOFF_MS.name})
"""What Kafka changes at once, and a node here reads from its file when it starts."""


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


READ_FROM_THE_FILE = frozenset(
    {
        "listeners",
        "listener.security.protocol.map",
        "sasl.enabled.mechanisms",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.protocol",
    }
)
"""What Kafka changes while a broker runs, and pykraft does not: ignoring it would let clients in, or keep them out."""


def check_dynamic(names_: Collection[str], is_for_all: bool) -> None:
    """ConfigError unless these may be set while brokers run, for one of them or for all."""
    fixed = sorted(name for name in names_ if not is_dynamic(name))
    stores = [name for name in fixed if name in STORE_KEYS]
    if stores:
        raise ConfigError(
            "These security configs can be dynamically updated only per-listener using the listener prefix:"
            f" [{', '.join(stores)}]"
        )
    here = [name for name in fixed if name in READ_FROM_THE_FILE]
    if here:
        raise ConfigError(f"{', '.join(here)} cannot be changed while a broker runs: change its file, and restart it")
    if fixed:
        near = [each for name in fixed for each in get_close_matches(name, DYNAMIC_BROKER_CONFIGS, n=1, cutoff=0.9)]
        advice = f": did you mean {', '.join(near)}?" if near else ""
        raise ConfigError(f"Cannot update these configs dynamically: [{', '.join(fixed)}]{advice}")
    of_one = sorted(name for name in names_ if name in OF_ONE_BROKER or store_key(name) is not None)
    if is_for_all and of_one:
        raise ConfigError(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(of_one)}]"
        )


def consequence_here(name: str, value: str | None) -> str | None:
    """Why nothing follows from a change of this broker's setting at once; None: something does, or it goes back to what
    it was."""
    if value is None:
        return None
    if name in READ_AT_START:
        return "a node reads it from its file when it starts"
    return WITHOUT_EFFECT[name].reason if name in WITHOUT_EFFECT and has_no_effect(name, value) else None


def is_dynamic(name: str) -> bool:
    """Whether a broker's setting may be changed while it runs; besides those, the stores of a listener with TLS."""
    return name in DYNAMIC_BROKER_CONFIGS or store_key(name) is not None
