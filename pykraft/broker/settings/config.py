"""A node's properties, under Kafka's names, and what they must say together.

One value alone is checked by its key; what follows here needs several: roles and listeners, the own entry among the
voters, a broker's way to its peers. Each refusal is one sentence that names the key and what to write there.

Follows kafka.server.KafkaConfig and org.apache.kafka.server.config.*.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from pykraft.broker.settings.authorizer_config import AUTHORIZER_KEYS, late_listeners
from pykraft.broker.settings.listener_config import (
    CONTROLLER_LISTENER_NAMES,
    LISTENER_KEYS,
    SECURITY_INTER_BROKER_PROTOCOL,
    Listener,
    inter_broker_listener,
    no_host,
    protocol_of,
    read_endpoint,
    read_listeners,
    read_protocols,
)
from pykraft.broker.settings.quota_config import QUOTA_KEYS
from pykraft.broker.settings.sasl_config import (
    SASL_KEYS,
    SaslListener,
    read_logins,
    read_sasl_listeners,
    sasl_names,
)
from pykraft.broker.settings.socket_config import SOCKET_KEYS, check_listener_keys
from pykraft.broker.settings.tls_listeners import TLS_LISTENER_KEYS, ListenerTls, own_tls_names, tls_of_listeners
from pykraft.common.errors import ConfigError
from pykraft.common.settings.broker_config import (
    CORDONED_LOG_DIRS,
    LIVE_BROKER_CONFIG,
    check_connection_limits,
    check_cordoned,
)
from pykraft.common.settings.config import Config, ConfigDef, Key, Synonym, boolean, integer, names, string
from pykraft.common.settings.topic_config import BROKER_DEFAULTS, FOREVER_MS, check_topic_settings
from pykraft.common.settings.unserved_config import UNSERVED, check_refused, has_no_effect, listeners_setting
from pykraft.common.types import Endpoint, Node
from pykraft.controller.config import CONTROLLER_KEYS
from pykraft.coordinator.group.config import GROUP_KEYS, check_consumer_group_keys
from pykraft.coordinator.transaction.config import TRANSACTION_KEYS
from pykraft.metadata.image import EMPTY_IMAGE
from pykraft.metadata.settings import node_layers, topic_config
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.raft.config import AUTO_JOIN, RAFT_KEYS
from pykraft.security.login import SaslLogin

PROCESS_ROLES = names(
    "process.roles",
    [],
    "what the node is: broker, controller or both",
    one_of=["broker", "controller"],
    required=True,
)
NODE_ID = integer(
    "node.id", -1, "the number of this node in its cluster", at_least=0, required=True, synonyms=[Synonym("broker.id")]
)
BROKER_ID = integer("broker.id", -1, "the older name of node.id", at_least=-1)
CONTROLLER_QUORUM_VOTERS = names(
    "controller.quorum.voters", [], "the voters of a quorum that does not have them in its log: id@host:port, ..."
)
CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = names(
    "controller.quorum.bootstrap.servers", [], "where to find the quorum: host:port, ..."
)
LOG_DIRS = names("log.dirs", ["/tmp/kafka-logs"], "where partitions are stored", synonyms=[Synonym("log.dir")])
METADATA_LOG_DIR = string("metadata.log.dir", "", "where the metadata log is stored; by default with the partitions")
METADATA_LOG_SEGMENT_BYTES = integer(
    "metadata.log.segment.bytes", 1 << 30, "a segment of the metadata log is rolled at this size", at_least=8 << 20
)
METADATA_LOG_SEGMENT_MS = integer(
    "metadata.log.segment.ms",
    7 * 24 * 3_600_000,
    "a segment of the metadata log is rolled at this age",
    at_least=1,
    kind="long",
)
INTERNAL_METADATA_LOG_SEGMENT_BYTES = integer(
    "internal.metadata.log.segment.bytes", 0, "metadata.log.segment.bytes below its limit, for tests; 0 for none", 0
)
BROKER_RACK = string("broker.rack", "", "replicas of a partition are spread over racks")
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
REPLICA_SELECTOR_CLASS = string(
    "replica.selector.class",
    "",
    "which replica consumers are sent to; by default the leader",
    one_of=["", RACK_AWARE_SELECTOR],
)
BROKER_HEARTBEAT_INTERVAL_MS = integer(
    "broker.heartbeat.interval.ms", 2000, "a broker tells the controller so often that it lives", at_least=1
)
AUTO_CREATE_TOPICS_ENABLE = boolean(
    "auto.create.topics.enable", True, "whether a topic is made when a client asks about it"
)
REPLICA_LAG_TIME_MAX_MS = integer(
    "replica.lag.time.max.ms",
    30_000,
    "a follower that has not caught up for this long leaves the ISR",
    at_least=1,
    kind="long",
)
REPLICA_FETCH_WAIT_MAX_MS = integer(
    "replica.fetch.wait.max.ms", 500, "a follower's fetch waits this long for news", at_least=0
)
REPLICA_FETCH_MIN_BYTES = integer(
    "replica.fetch.min.bytes", 1, "a follower's fetch waits for this many bytes", at_least=0
)
REPLICA_FETCH_MAX_BYTES = integer(
    "replica.fetch.max.bytes", 1 << 20, "how much of one partition a follower's fetch brings", at_least=0
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = integer(
    "replica.fetch.response.max.bytes", 10 << 20, "how much a follower's fetch brings in all", at_least=0
)
REPLICA_FETCH_BACKOFF_MS = integer(
    "replica.fetch.backoff.ms", 1000, "pause after a failed fetch of a follower", at_least=0
)
REPLICA_SOCKET_TIMEOUT_MS = integer(
    "replica.socket.timeout.ms", 30_000, "a follower waits this long for an answer", at_least=1
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = integer(
    "replica.high.watermark.checkpoint.interval.ms",
    5000,
    "high watermarks are written down this often",
    at_least=1,
    kind="long",
)
CONTROLLER_SOCKET_TIMEOUT_MS = integer(
    "controller.socket.timeout.ms", 30_000, "a broker waits this long for the controller's answer", at_least=1
)
FETCH_MAX_BYTES = integer("fetch.max.bytes", 57_671_680, "how much any fetch may bring", at_least=1024)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = integer(
    "max.incremental.fetch.session.cache.slots", 1000, "fetch sessions at most", at_least=0
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = integer(
    "max.request.partition.size.limit", 2000, "partitions at most in one answer of DescribeTopicPartitions", at_least=1
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = integer(
    "producer.id.expiration.check.interval.ms", 600_000, "how often logs forget silent producers", at_least=1
)
LOG_INITIAL_TASK_DELAY_MS = integer(
    "log.initial.task.delay.ms",
    30_000,
    "old segments, and logs to flush, are first looked for this long after the start",
    at_least=0,
    kind="long",
)
LOG_RETENTION_CHECK_INTERVAL_MS = integer(
    "log.retention.check.interval.ms", 300_000, "old segments are looked for this often", at_least=1, kind="long"
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = integer(
    "log.flush.scheduler.interval.ms",
    FOREVER_MS,
    "logs that are to be flushed are looked for this often",
    at_least=0,
    kind="long",
)
LOG_CLEANER_ENABLE = boolean("log.cleaner.enable", True, "whether logs are compacted")
ADD_PARTITIONS_RETRY_BACKOFF_MS = integer(
    "add.partitions.to.txn.retry.backoff.ms",
    20,
    "how long a leader waits before it asks again to add a partition to a transaction",
    at_least=1,
)
ADD_PARTITIONS_RETRY_BACKOFF_MAX_MS = integer(
    "add.partitions.to.txn.retry.backoff.max.ms",
    100,
    "how long a leader goes on asking to add a partition to a transaction",
    at_least=0,
)
REQUEST_TIMEOUT_MS = integer(
    "request.timeout.ms", 30_000, "how long this broker waits for another broker's answer", at_least=1
)

METRICS_LISTENER = string(
    "pykraft.metrics.listener",
    "",
    "where GET /metrics answers with Prometheus' text: [HOST:]PORT, by default on 127.0.0.1; empty: nowhere",
)

# What the broker's own file says of every topic: the keys of a topic under the broker's names.
_TOPIC_DEFAULTS: list[Key[Any]] = [
    key for name, key in BROKER_DEFAULTS.items() if name != LOG_FLUSH_SCHEDULER_INTERVAL_MS.name
]

_NODE_KEYS: list[Key[Any]] = [
    PROCESS_ROLES,
    NODE_ID,
    BROKER_ID,
    *LISTENER_KEYS,
    *SASL_KEYS,
    CONTROLLER_QUORUM_VOTERS,
    CONTROLLER_QUORUM_BOOTSTRAP_SERVERS,
    LOG_DIRS,
    names("log.dir", ["/tmp/kafka-logs"], "the older name of log.dirs"),
    METADATA_LOG_DIR,
    METADATA_LOG_SEGMENT_BYTES,
    METADATA_LOG_SEGMENT_MS,
    INTERNAL_METADATA_LOG_SEGMENT_BYTES,
    BROKER_RACK,
    REPLICA_SELECTOR_CLASS,
    BROKER_HEARTBEAT_INTERVAL_MS,
    AUTO_CREATE_TOPICS_ENABLE,
    REPLICA_LAG_TIME_MAX_MS,
    REPLICA_FETCH_WAIT_MAX_MS,
    REPLICA_FETCH_MIN_BYTES,
    REPLICA_FETCH_MAX_BYTES,
    REPLICA_FETCH_RESPONSE_MAX_BYTES,
    REPLICA_FETCH_BACKOFF_MS,
    REPLICA_SOCKET_TIMEOUT_MS,
    REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS,
    CONTROLLER_SOCKET_TIMEOUT_MS,
    FETCH_MAX_BYTES,
    MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS,
    MAX_REQUEST_PARTITION_SIZE_LIMIT,
    PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS,
    LOG_INITIAL_TASK_DELAY_MS,
    LOG_RETENTION_CHECK_INTERVAL_MS,
    LOG_FLUSH_SCHEDULER_INTERVAL_MS,
    LOG_CLEANER_ENABLE,
    ADD_PARTITIONS_RETRY_BACKOFF_MS,
    ADD_PARTITIONS_RETRY_BACKOFF_MAX_MS,
    REQUEST_TIMEOUT_MS,
    METRICS_LISTENER,
    *AUTHORIZER_KEYS,
    *QUOTA_KEYS,
    *LIVE_BROKER_CONFIG.keys.values(),
    *SOCKET_KEYS,
    *TLS_LISTENER_KEYS,
    *RAFT_KEYS,
    *CONTROLLER_KEYS,
    *GROUP_KEYS,
    *TRANSACTION_KEYS,
    *_TOPIC_DEFAULTS,
    *(row.key for name, row in UNSERVED.items() if name not in LIVE_BROKER_CONFIG.keys),
]
NODE_CONFIG = ConfigDef(_NODE_KEYS)


@dataclass(frozen=True)
class NodeConfig:
    """A node's properties, read and found to fit together."""

    node_id: int
    roles: frozenset[str]
    listeners: tuple[Listener, ...]
    inter_broker_listener: str
    controller_listener: str
    protocols: Mapping[str, SecurityProtocol]
    """Of the listeners, by name; the controllers' is here also if this node does not have it."""
    tls: Mapping[str, ListenerTls]
    """The TLS of those that have it."""
    voters: tuple[Node, ...]
    """The static voters, as ``controller.quorum.voters`` names them: those of kraft.version 0."""
    bootstrap: tuple[Endpoint, ...]
    """Where the quorum may be found."""
    log_dirs: tuple[str, ...]
    """Where partitions are stored, in the order of the file."""
    metadata_dir: str
    properties: Mapping[str, str] = field(repr=False)
    """They may have passwords in them."""
    values: Config = field(repr=False)
    unknown: tuple[str, ...]
    """Keys in the file that no setting has: worth a warning."""
    without_effect: tuple[str, ...] = ()
    """Keys in the file that Kafka would heed and pykraft does not: worth a warning, too."""
    metrics_listener: Endpoint | None = None
    late_listeners: frozenset[str] = frozenset()
    """Those that wait for the rules of access."""
    sasl_listeners: Mapping[str, SaslListener] = field(default_factory=dict)
    """How the clients of a listener prove who they are, where they must."""
    logins: Mapping[bool, SaslLogin] = field(default_factory=dict)
    """What the node logs in to others with, by whether it is to a controller."""

    @property
    def log_dir(self) -> str:
        """The first of its log directories."""
        return self.log_dirs[0]

    @property
    def directories(self) -> list[str]:
        """All that it keeps files in, sorted."""
        return sorted({*self.log_dirs, self.metadata_dir})

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    def outgoing_listener(self, is_to_controller: bool) -> str:
        """Which listener of the others this node connects to: what holds for it holds for the connection."""
        return self.controller_listener if is_to_controller else self.inter_broker_listener

    def topic_config(self, overrides: Mapping[str, str]) -> Config:
        """The settings of a topic while nothing is changed dynamically: its own, else those of this node's file."""
        return topic_config(overrides, node_layers(EMPTY_IMAGE, self.node_id, self.properties))


_ZOOKEEPER = "zookeeper."


def read_node_config(properties: Mapping[str, str], own_host: Callable[[], str] = no_host) -> NodeConfig:
    """Check a node's properties; ConfigError says what is wrong. `own_host` says what others call this machine."""
    of_zookeeper = sorted(name for name in properties if name.startswith(_ZOOKEEPER))
    if of_zookeeper and "process.roles" not in properties:
        raise ConfigError(
            f"{of_zookeeper[0]} is set and process.roles is not: since Kafka 4 there is no ZooKeeper. Say"
            " process.roles, node.id and controller.quorum.voters instead"
        )
    values = NODE_CONFIG.resolve(properties)
    _check_values(values, properties)
    role_names, directories = values[PROCESS_ROLES], _log_dirs(values)
    roles = frozenset(role_names)
    protocols = read_protocols(values)
    listeners = read_listeners(values, protocols, own_host)
    by_name = {listener.name: listener for listener in listeners}
    controller_names = [name.upper() for name in values[CONTROLLER_LISTENER_NAMES]]
    for name in controller_names:  # a broker alone has no such listener, and connects to it
        protocol_of(name, protocols)
    named = {*by_name, *controller_names}
    of_listeners = check_listener_keys(by_name, properties) | sasl_names(named) | own_tls_names(named)
    others = [name for name in NODE_CONFIG.unknown(properties) if name not in of_listeners]
    controller_listener = controller_names[0]
    said_of_voters = values[CONTROLLER_QUORUM_VOTERS]
    voters = tuple(_voter(text) for text in said_of_voters)
    servers = values[CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]
    bootstrap = [read_endpoint(CONTROLLER_QUORUM_BOOTSTRAP_SERVERS, text) for text in servers]
    if not voters and not bootstrap:
        raise ConfigError("controller.quorum.voters is not set, but must be: id@host:port of each controller")
    if "controller" in roles:
        _check_controller(values, by_name, controller_listener, voters)
    else:
        _check_broker_alone(values, by_name, controller_listener, voters)
    is_protocol_set = SECURITY_INTER_BROKER_PROTOCOL.name in properties
    inter_broker = inter_broker_listener(values, listeners, is_protocol_set) if "broker" in roles else ""
    cordoned = values[CORDONED_LOG_DIRS]
    check_cordoned(map(_folder, cordoned), directories)
    return NodeConfig(
        node_id=values[NODE_ID],
        roles=roles,
        listeners=tuple(listeners),
        inter_broker_listener=inter_broker,
        controller_listener=controller_listener,
        protocols=protocols,
        tls=tls_of_listeners(sorted(named), protocols, properties),
        voters=voters,
        bootstrap=tuple(bootstrap) or tuple(voter.endpoint for voter in voters),
        log_dirs=directories,
        metadata_dir=_folder(values[METADATA_LOG_DIR] or directories[0]),
        properties=dict(properties),
        values=values,
        unknown=tuple(name for name in others if listeners_setting(name) not in NODE_CONFIG.keys),
        without_effect=tuple(name for name in others if listeners_setting(name) in NODE_CONFIG.keys)
        + tuple(name for name in sorted(properties) if has_no_effect(name, properties[name])),
        metrics_listener=_metrics_listener(values[METRICS_LISTENER]),
        late_listeners=late_listeners(values, properties, by_name, controller_names),
        sasl_listeners=read_sasl_listeners(listeners, properties),
        logins=read_logins({False: inter_broker, True: controller_listener}, protocols, properties, values),
    )


def _check_values(values: Config, properties: Mapping[str, str]) -> None:
    """ConfigError if one of these may not be ignored, or does not fit another."""
    if BROKER_ID.name in properties and values[BROKER_ID] != values[NODE_ID]:
        raise ConfigError(
            f"node.id is {values[NODE_ID]} and broker.id is {values[BROKER_ID]}, but both are the number of the node:"
            " leave broker.id out"
        )
    check_refused(properties)
    check_topic_settings({}, {name: value for name, value in properties.items() if name in BROKER_DEFAULTS})
    _check_waits(values)
    check_connection_limits(values)
    check_consumer_group_keys(values)


def advice(name: str) -> str:
    """What to say of a setting that a node does not have."""
    if name.startswith(_ZOOKEEPER):
        return "there is no ZooKeeper since Kafka 4: leave it out; controller.quorum.voters names the controllers"
    near = get_close_matches(name, NODE_CONFIG.keys, n=1, cutoff=0.8)
    return f"did you mean {near[0]}?" if near else "leave it out"


def _log_dirs(values: Config) -> tuple[str, ...]:
    named = values[LOG_DIRS]
    directories = tuple(map(_folder, named))
    if not directories:
        raise ConfigError("log.dirs is empty, but must name at least one directory")
    for number, directory in enumerate(directories):
        if directory in directories[:number]:
            raise ConfigError(f"log.dirs names {directory} twice, but each directory must be there once")
    return directories


def _folder(path: str) -> str:
    return path.rstrip("/") or "/"


def _check_waits(values: Config) -> None:
    """A follower's fetch that finds nothing is held back on purpose: that must not look like a dead leader, or like a
    follower that lags."""
    wait_ms = values[REPLICA_FETCH_WAIT_MAX_MS]
    for key in (REPLICA_SOCKET_TIMEOUT_MS, REPLICA_LAG_TIME_MAX_MS):
        if wait_ms > values[key]:
            raise ConfigError(
                f"{key.name} is {values[key]}, but must be at least replica.fetch.wait.max.ms, which is {wait_ms}"
            )


def _check_controller(
    values: Config, by_name: Mapping[str, Listener], controller_listener: str, voters: tuple[Node, ...]
) -> None:
    if controller_listener not in by_name:
        raise ConfigError(
            f"controller.listener.names is {controller_listener!r}, but must be one of the node's listeners: "
            + ", ".join(sorted(by_name))
        )
    if voters and values[NODE_ID] not in {voter.id for voter in voters}:
        known = ", ".join(str(voter.id) for voter in voters)
        raise ConfigError(f"node.id is {values[NODE_ID]}, but must be one of controller.quorum.voters: {known}")


def _check_broker_alone(
    values: Config, by_name: Mapping[str, Listener], controller_listener: str, voters: tuple[Node, ...]
) -> None:
    if values[AUTO_JOIN]:
        raise ConfigError(
            f"{AUTO_JOIN.name} is true, but only a controller joins the voters: leave it out, or give "
            "process.roles the role 'controller'"
        )
    node_id = values[NODE_ID]
    if node_id in {voter.id for voter in voters}:
        raise ConfigError(f"node.id is {node_id}, as of a voter, but a node that is no controller cannot vote")
    if controller_listener in by_name:
        raise ConfigError(f"listeners has {controller_listener}, but a node that is no controller has no such listener")


def _metrics_listener(text: str) -> Endpoint | None:
    if not text:
        return None
    return read_endpoint(METRICS_LISTENER, f"127.0.0.1:{text}" if text.isdecimal() else text)


def _voter(text: str) -> Node:
    number, at, address = text.partition("@")
    if not at:
        raise ConfigError(f"controller.quorum.voters has {text!r}, but must have id@host:port, ...")
    endpoint = read_endpoint(CONTROLLER_QUORUM_VOTERS, address)
    return Node(NODE_ID.read(number, "the id of one of controller.quorum.voters"), endpoint.host, endpoint.port)
