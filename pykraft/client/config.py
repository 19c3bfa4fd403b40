"""The settings of clients, under Kafka's names and with Kafka's defaults.

Follows org.apache.kafka.clients.{producer.ProducerConfig,consumer.ConsumerConfig,admin.AdminClientConfig}.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pykraft.client.habits import without_habits
from pykraft.client.without_effect import WITHOUT_EFFECT, without_effect
from pykraft.common.duration import parse_duration_ms
from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import (
    LARGEST,
    SECRET,
    Config,
    ConfigDef,
    Key,
    boolean,
    integer,
    names,
    secret,
    string,
)
from pykraft.common.settings.tls_config import TLS_KEYS, TlsSettings, tls_settings
from pykraft.common.types import Endpoint
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.security.login import MECHANISMS, SaslLogin, check_mechanism, login_of_jaas

BOOTSTRAP_SERVERS = names("bootstrap.servers", [], "where to begin: host:port, ...", required=True)
CLIENT_ID = string("client.id", "", "what the brokers' journals call this client", most_bytes=LARGEST["short"])
REQUEST_TIMEOUT_MS = integer("request.timeout.ms", 30_000, "a request waits this long for its answer", at_least=1)
RETRY_BACKOFF_MS = integer("retry.backoff.ms", 100, "pause before a request is sent again", at_least=0, kind="long")
RETRY_BACKOFF_MAX_MS = integer("retry.backoff.max.ms", 1000, "the longest such pause", at_least=0, kind="long")
RECONNECT_BACKOFF_MS = integer(
    "reconnect.backoff.ms", 50, "pause before a connection that failed is tried again", at_least=0, kind="long"
)
RECONNECT_BACKOFF_MAX_MS = integer("reconnect.backoff.max.ms", 1000, "the longest such pause", at_least=0, kind="long")
METADATA_MAX_AGE_MS = integer(
    "metadata.max.age.ms", 300_000, "metadata are asked for again after this long", at_least=1, kind="long"
)
DEFAULT_API_TIMEOUT_MS = integer("default.api.timeout.ms", 60_000, "a call waits this long in all", at_least=1)
SECURITY_PROTOCOL = string(
    "security.protocol",
    "PLAINTEXT",
    "how bytes travel (SSL is TLS), and whether the client logs in (SASL)",
    [each.name for each in SecurityProtocol],
)
SASL_MECHANISM = string("sasl.mechanism", "GSSAPI", f"what the client logs in with: {', '.join(MECHANISMS)}")
SASL_JAAS_CONFIG = secret(
    "sasl.jaas.config", 'the client\'s name and password: MODULE required username="..." password="...";'
)
SASL_USERNAME = string("sasl.username", "", "the client's name, in place of sasl.jaas.config")
SASL_PASSWORD = secret("sasl.password", "the client's password, in place of sasl.jaas.config")

_COMMON: list[Key[Any]] = [
    BOOTSTRAP_SERVERS,
    SECURITY_PROTOCOL,
    SASL_MECHANISM,
    SASL_JAAS_CONFIG,
    SASL_USERNAME,
    SASL_PASSWORD,
    *TLS_KEYS,
    CLIENT_ID,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MS,
    RETRY_BACKOFF_MAX_MS,
    RECONNECT_BACKOFF_MS,
    RECONNECT_BACKOFF_MAX_MS,
    METADATA_MAX_AGE_MS,
    DEFAULT_API_TIMEOUT_MS,
]

# --- producer ---------------------------------------------------------------------------------------------------------

ACKS = string(
    "acks",
    "all",
    "which replicas must write a batch first: none, the leader, all in-sync replicas",
    ["0", "1", "-1", "all"],
)
BATCH_SIZE = integer("batch.size", 16_384, "a batch is sent when it has this many bytes", at_least=0)
LINGER_MS = integer(
    "linger.ms", 5, "a batch that is not full waits this long for more records", at_least=0, kind="long"
)
BUFFER_MEMORY = integer(
    "buffer.memory", 33_554_432, "bytes of records that may wait to be sent", at_least=0, kind="long"
)
MAX_REQUEST_SIZE = integer("max.request.size", 1_048_576, "no request has more bytes than this", at_least=0)
MAX_BLOCK_MS = integer("max.block.ms", 60_000, "send() waits this long for metadata or memory", at_least=0, kind="long")
DELIVERY_TIMEOUT_MS = integer(
    "delivery.timeout.ms", 120_000, "a record that is not acknowledged after this long has failed", at_least=0
)
MAX_IN_FLIGHT = integer(
    "max.in.flight.requests.per.connection", 5, "produce requests under way to one broker", at_least=1
)
ENABLE_IDEMPOTENCE = boolean("enable.idempotence", True, "number the batches, so that a retry is no duplicate")
COMPRESSION_TYPE = string(
    "compression.type", "none", "the codec of the batches", ["none", "gzip", "snappy", "lz4", "zstd"]
)
RETRIES = integer("retries", LARGEST["int"], "how often a batch is sent again, within delivery.timeout.ms", at_least=0)
TRANSACTIONAL_ID = string(
    "transactional.id",
    "",
    "makes this producer a transactional one; a newer producer with the same id fences it",
    most_bytes=LARGEST["short"],
)
TRANSACTION_TIMEOUT_MS = integer(
    "transaction.timeout.ms", 60_000, "the coordinator aborts a transaction that is open for longer", at_least=0
)

PRODUCER_CONFIG = ConfigDef(
    [
        *_COMMON,
        ACKS,
        BATCH_SIZE,
        LINGER_MS,
        BUFFER_MEMORY,
        MAX_REQUEST_SIZE,
        MAX_BLOCK_MS,
        DELIVERY_TIMEOUT_MS,
        MAX_IN_FLIGHT,
        ENABLE_IDEMPOTENCE,
        COMPRESSION_TYPE,
        RETRIES,
        TRANSACTIONAL_ID,
        TRANSACTION_TIMEOUT_MS,
    ]
)

# --- consumer ---------------------------------------------------------------------------------------------------------

FETCH_MIN_BYTES = integer("fetch.min.bytes", 1, "a fetch waits for this many bytes", at_least=0)
FETCH_MAX_WAIT_MS = integer("fetch.max.wait.ms", 500, "a fetch waits at most this long", at_least=0)
FETCH_MAX_BYTES = integer("fetch.max.bytes", 52_428_800, "how much a fetch brings", at_least=0)
MAX_PARTITION_FETCH_BYTES = integer(
    "max.partition.fetch.bytes", 1_048_576, "how much of one partition a fetch brings", at_least=0
)
MAX_POLL_RECORDS = integer("max.poll.records", 500, "how many records one poll() returns", at_least=1)


def _offset_reset(text: str) -> str:
    if text not in ("earliest", "latest", "none"):
        reset_duration_ms(text)
    return text


BY_DURATION = "by_duration:"


def reset_duration_ms(text: str) -> int:
    """The milliseconds of ``by_duration:P1DT2H``; ValueError if it is anything else, or less than 0 (KIP-1106)."""
    if not text.startswith(BY_DURATION):
        raise ValueError(text)
    duration_ms = parse_duration_ms(text.removeprefix(BY_DURATION))
    if duration_ms < 0:
        raise ValueError(text)
    return duration_ms


AUTO_OFFSET_RESET = Key(
    "auto.offset.reset",
    "latest",
    _offset_reset,
    "one of earliest, latest, none, by_duration:<ISO 8601 duration, such as PT1H>",
    "where to begin without a position",
    "string",
)
ISOLATION_LEVEL = string(
    "isolation.level",
    "read_uncommitted",
    "whether records of open and aborted transactions are read",
    ["read_uncommitted", "read_committed"],
)
CHECK_CRCS = boolean("check.crcs", True, "whether the checksum of every batch is looked at")
ALLOW_AUTO_CREATE_TOPICS = boolean("allow.auto.create.topics", True, "whether brokers may create a topic asked about")
EXCLUDE_INTERNAL_TOPICS = boolean("exclude.internal.topics", True, "whether a pattern skips Kafka's own topics")
CLIENT_RACK = string(
    "client.rack", "", "where this client is: brokers may send it to replicas there, and the group's leader learns it"
)

GROUP_ID = string(
    "group.id", "", "the group that this consumer joins and commits offsets for", most_bytes=LARGEST["short"]
)
GROUP_INSTANCE_ID = string(
    "group.instance.id", "", "makes this consumer a static member under this name", most_bytes=LARGEST["short"]
)
GROUP_PROTOCOL = string("group.protocol", "classic", "which protocol the group speaks", ["classic", "consumer"])
GROUP_REMOTE_ASSIGNOR = string(
    "group.remote.assignor",
    "",
    "which of the coordinator's assignors a consumer group uses; empty: the group's default",
)
SESSION_TIMEOUT_MS = integer(
    "session.timeout.ms", 45_000, "without a heartbeat for this long, a member is removed", at_least=0
)
HEARTBEAT_INTERVAL_MS = integer("heartbeat.interval.ms", 3000, "pause between two heartbeats", at_least=1)
MAX_POLL_INTERVAL_MS = integer(
    "max.poll.interval.ms", 300_000, "a member whose user does not call poll() for this long leaves", at_least=1
)
ENABLE_AUTO_COMMIT = boolean(
    "enable.auto.commit", True, "whether poll() and close() commit what earlier polls returned"
)
AUTO_COMMIT_INTERVAL_MS = integer("auto.commit.interval.ms", 5000, "pause between two such commits", at_least=0)


def _assignors(text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    found = tuple(_JAVA_ASSIGNORS.get(part.removeprefix(_JAVA_PACKAGE), part) for part in parts)
    if not found or len(set(found)) < len(found) or not set(found) <= set(_JAVA_ASSIGNORS.values()):
        raise ValueError(text)
    return found


_JAVA_PACKAGE = "org.apache.kafka.clients.consumer."
_JAVA_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
PARTITION_ASSIGNMENT_STRATEGY: Key[tuple[str, ...]] = Key(
    "partition.assignment.strategy",
    ("range", "cooperative-sticky"),
    _assignors,
    f"a comma-separated list of {', '.join(_JAVA_ASSIGNORS.values())}",
    "the assignors this member offers, the preferred one first",
    "list",
)

_NOT_WITH: dict[str, list[Key[Any]]] = {
    "classic": [GROUP_REMOTE_ASSIGNOR],
    "consumer": [PARTITION_ASSIGNMENT_STRATEGY, HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS],
}
"""By group protocol, the settings that only the other one has. With KIP-848 the broker chooses the times."""

CONSUMER_CONFIG = ConfigDef(
    [
        *_COMMON,
        FETCH_MIN_BYTES,
        FETCH_MAX_WAIT_MS,
        FETCH_MAX_BYTES,
        MAX_PARTITION_FETCH_BYTES,
        MAX_POLL_RECORDS,
        AUTO_OFFSET_RESET,
        ISOLATION_LEVEL,
        CHECK_CRCS,
        ALLOW_AUTO_CREATE_TOPICS,
        EXCLUDE_INTERNAL_TOPICS,
        CLIENT_RACK,
        GROUP_ID,
        GROUP_INSTANCE_ID,
        GROUP_PROTOCOL,
        GROUP_REMOTE_ASSIGNOR,
        SESSION_TIMEOUT_MS,
        HEARTBEAT_INTERVAL_MS,
        MAX_POLL_INTERVAL_MS,
        ENABLE_AUTO_COMMIT,
        AUTO_COMMIT_INTERVAL_MS,
        PARTITION_ASSIGNMENT_STRATEGY,
    ]
)

ADMIN_BOOTSTRAP_SERVERS = names("bootstrap.servers", [], BOOTSTRAP_SERVERS.meaning)
BOOTSTRAP_CONTROLLERS = names(
    "bootstrap.controllers", [], "controllers to ask instead of brokers: host:port, ... (KIP-919)"
)
COMMON_CONFIG = ConfigDef(_COMMON)
ADMIN_CONFIG = ConfigDef([ADMIN_BOOTSTRAP_SERVERS, BOOTSTRAP_CONTROLLERS, *_COMMON[1:]])
HIDDEN = "[hidden]"
_OF_ALL = {name for each in (PRODUCER_CONFIG, CONSUMER_CONFIG, ADMIN_CONFIG) for name in each.keys}


def client_config(definition: ConfigDef, settings: Mapping[str, object]) -> Config:
    """Read a client's settings: Kafka's names, or the same with underscores, as Python keywords have them; values as
    text or as Python has them. It warns, once, of what Kafka's clients have and this one does not use. ConfigError
    names what is wrong."""
    layer = without_habits(_named(settings))
    slips = without_effect(layer, definition.unknown(layer), _OF_ALL)
    if slips:
        raise ConfigError(_unknown(slips[0], sorted(definition.keys)))
    if SECURITY_PROTOCOL.name in layer:
        layer[SECURITY_PROTOCOL.name] = layer[SECURITY_PROTOCOL.name].upper()
    config = definition.resolve(layer)
    client_login(config)
    client_tls(config)
    return config


def public_settings(config: Config) -> dict[str, Any]:
    """All settings of a client, by their names with underscores; secrets are hidden."""
    kinds = {
        key.name: key.kind for each in (PRODUCER_CONFIG, CONSUMER_CONFIG, ADMIN_CONFIG) for key in each.keys.values()
    }
    return {
        name.replace(".", "_"): HIDDEN if kinds[name] == SECRET and value else value
        for name, value in config.as_dict().items()
    }


def client_tls(config: Config) -> TlsSettings | None:
    """What the client shows and trusts; None if its bytes travel as they are. ConfigError is one sentence."""
    return tls_settings(config) if SecurityProtocol[config[SECURITY_PROTOCOL]].has_tls else None


def client_login(config: Config) -> SaslLogin | None:
    """What the client logs in with; None if it need not. ConfigError, without the password, if it cannot be known."""
    if not SecurityProtocol[config[SECURITY_PROTOCOL]].has_sasl:
        return None
    mechanism = check_mechanism(config[SASL_MECHANISM], SASL_MECHANISM.name)
    if config[SASL_JAAS_CONFIG]:
        return login_of_jaas(mechanism, config[SASL_JAAS_CONFIG], SASL_JAAS_CONFIG.name)
    if not config[SASL_USERNAME] or not config[SASL_PASSWORD]:
        raise ConfigError(
            f"security.protocol is {config[SECURITY_PROTOCOL]}, but sasl.jaas.config is not set: it must have the"
            " client's username and password (or set sasl.username and sasl.password)"
        )
    return SaslLogin(mechanism, config[SASL_USERNAME], config[SASL_PASSWORD])


def _unknown(name: str, known: Sequence[str]) -> str:
    """What is wrong with a setting that no client of Kafka has."""
    nearest = get_close_matches(name, [*known, *WITHOUT_EFFECT], 1)
    meant = f". Did you mean {nearest[0]}?" if nearest else f"; it has: {', '.join(known)}"
    return f"{name} is no setting of this client{meant}"


def consumer_config(settings: Mapping[str, object]) -> Config:
    """Read a consumer's settings. Without `group.id` nothing is committed automatically; ConfigError if that was asked
    for, or if two settings contradict each other."""
    config = client_config(CONSUMER_CONFIG, settings)
    protocol = config[GROUP_PROTOCOL]
    for key in _NOT_WITH[protocol]:
        if _named(settings).get(key.name):
            raise ConfigError(f"{key.name} cannot be set when group.protocol={protocol.upper()}: leave it out")
    if config[GROUP_ID]:
        if config[HEARTBEAT_INTERVAL_MS] >= config[SESSION_TIMEOUT_MS]:
            raise ConfigError(
                f"heartbeat.interval.ms is {config[HEARTBEAT_INTERVAL_MS]}, but must be less than session.timeout.ms, "
                f"which is {config[SESSION_TIMEOUT_MS]}"
            )
        return config
    if ENABLE_AUTO_COMMIT.name in _named(settings) and config[ENABLE_AUTO_COMMIT]:
        raise ConfigError("enable.auto.commit is true, but must be false without group.id: no group keeps the offsets")
    return config.with_values(enable_auto_commit=False)


def admin_config(settings: Mapping[str, object]) -> Config:
    """Read an admin client's settings. ConfigError unless it is given brokers or controllers, one of the two."""
    config = client_config(ADMIN_CONFIG, settings)
    given = [key.name for key in (ADMIN_BOOTSTRAP_SERVERS, BOOTSTRAP_CONTROLLERS) if config[key]]
    if not given:
        raise ConfigError("bootstrap.servers must be set, or bootstrap.controllers: where should this client begin?")
    if len(given) > 1:
        raise ConfigError("bootstrap.servers and bootstrap.controllers are both set, but must not be: leave one out")
    return config


def producer_config(settings: Mapping[str, object]) -> Config:
    """Read a producer's settings. A default gives way to what you set: with ``acks=1`` you need not turn idempotence
    off as well, and with a longer request timeout you need not set a longer delivery timeout."""
    config = client_config(PRODUCER_CONFIG, settings)
    said = _named(settings).keys()
    if ENABLE_IDEMPOTENCE.name not in said and (config[ACKS] not in ("all", "-1") or not config[RETRIES]):
        config = config.with_values(enable_idempotence=False)
    if DELIVERY_TIMEOUT_MS.name not in said:
        enough = min(LARGEST["int"], config[LINGER_MS] + config[REQUEST_TIMEOUT_MS])
        config = config.with_values(delivery_timeout_ms=max(config[DELIVERY_TIMEOUT_MS], enough))
    return config


_LISTENER = re.compile(r"^[0-9A-Za-z\-%._]*://")


def bootstrap_endpoints(config: Config, key: Key[Any] = BOOTSTRAP_SERVERS) -> list[Endpoint]:
    """The addresses to begin with, which may be written as ``listeners`` has them; ConfigError if one is none."""
    try:
        return [Endpoint.parse(_LISTENER.sub("", server, count=1)) for server in config[key]]
    except ValueError as error:
        raise ConfigError(f"{key.name}: {error}") from None


def _named(settings: Mapping[str, object]) -> dict[str, str]:
    """The settings that were made, as texts under Kafka's names."""
    return {name.replace("_", "."): _as_text(value) for name, value in settings.items() if value is not None}


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
