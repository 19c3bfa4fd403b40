"""What a user of kafka-python brings along, and what becomes of it here.

The calls of these clients are those of kafka-python where both have them, so much of a program written for it runs. A
habit that remains is of one of four kinds:

* It means the same under another name: it is *served*. ``create_topics(new_topics=[...])``, ``sasl_plain_username=``.
* It changes nothing here: it is *accepted*, with one warning. ``api_version=``.
* It would mean something else, or nothing that pykraft has: one sentence says what to write *instead*. ``metrics()``.
* An answer has another shape: the answer says so when it is read in the old way. ``describe_topics(["a"])[0]``.

The tables have kafka-python's names, of its releases 2 and 3. They stand here, and not at each method, so that a reader
of the clients meets only pykraft's own.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pykraft.common.errors import ConfigError

C = TypeVar("C")
K = TypeVar("K")
V = TypeVar("V")

# --- settings ---------------------------------------------------------------------------------------------------------

WITHOUT_EFFECT_HERE: dict[str, tuple[str, ...]] = {
    "each broker says which versions it speaks": ("api.version", "api.version.auto.timeout.ms"),
    "clients have no metrics": ("metrics.enabled", "metric.group.prefix"),
    "the operating system's choices stay": (
        "selector",
        "sock.chunk.buffer.count",
        "sock.chunk.bytes",
        "socket.options",
    ),
    "a fetch session is always asked for": ("enable.incremental.fetch.sessions",),
    "an answer may have any size": ("receive.message.max.bytes",),
    "bootstrap servers are tried until a call's own timeout": ("bootstrap.timeout.ms",),
    "clients log in with PLAIN and SCRAM": ("sasl.kerberos.domain.name", "sasl.kerberos.name"),
}
"""kafka-python's settings that Kafka's own clients do not have, and that change nothing here."""

_SETTINGS = {
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "ssl.cafile": "ssl.truststore.location",
    "ssl.password": "ssl.key.password",
}
"""Settings that mean the same under another name."""
_PEM = {"ssl.cafile": ("ssl.truststore.type", "PEM")}
_ONE_PEM = "put key and certificates into one PEM file, and set ssl_keystore_location=FILE and ssl_keystore_type='PEM'"
_INSTEAD_OF_SETTINGS = {
    "ssl.certfile": _ONE_PEM,
    "ssl.keyfile": _ONE_PEM,
    "ssl.crlfile": "leave it out: revoked certificates are not looked up",
    "ssl.ciphers": "set ssl_cipher_suites to the suites' names as Java has them, such as TLS_AES_256_GCM_SHA384",
    "ssl.context": "set ssl_truststore_location=FILE and ssl_truststore_type='PEM', and the other ssl settings",
    "sasl.oauth.token.provider": "set sasl_mechanism to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512: OAuth is not built",
    "proxy.url": "leave it out: clients connect to the brokers themselves",
    "socks5.proxy": "leave it out: clients connect to the brokers themselves",
    "default.offset.commit.callback": "give the callback to commit_async(callback=...)",
    "kafka.client": "leave it out: each client has its own connections",
    "partitioner": "only Producer has it: Producer(partitioner=...)",
}


def without_habits(layer: dict[str, str]) -> dict[str, str]:
    """The same settings under Kafka's names. ConfigError, in one sentence, for a setting of kafka-python that is
    neither served nor without effect."""
    found = dict(layer)
    for theirs, instead in _INSTEAD_OF_SETTINGS.items():
        if theirs in found:
            raise ConfigError(f"{theirs} is kafka-python's, and no setting of this client: {instead}")
    for theirs, ours in _SETTINGS.items():
        if theirs in found:
            value = found.pop(theirs)
            if theirs in _PEM:
                found.setdefault(*_PEM[theirs])
            if found.setdefault(ours, value) != value:
                raise ConfigError(f"{theirs} and {ours} are both set, to different values: set only {ours}")
    if found.get("retries") == "inf":
        found.pop("retries")  # and that is how often a batch is sent again here, unless it is set
    checks_hostname = found.pop("ssl.check.hostname", "true")
    if checks_hostname.lower() == "false":
        found.setdefault("ssl.endpoint.identification.algorithm", "")
    return found


# --- calls ------------------------------------------------------------------------------------------------------------


class Habits(NamedTuple):
    """Of one client: what to write instead of a call that it does not have; and by method, for arguments of other
    names, either our name or, if it has a blank, what to write instead."""

    calls: Mapping[str, str]
    arguments: Mapping[str, Mapping[str, str]]


_NO_METRICS = "clients keep no metrics; a broker serves its own where pykraft.metrics.listener says"

OF_PRODUCER = Habits({"metrics": _NO_METRICS}, {"close": {"null_logger": "leave null_logger out"}})
OF_CONSUMER = Habits(
    {
        "metrics": _NO_METRICS,
        "bootstrap": "call topics(): it waits until a broker has answered",
    },
    {
        "committed": {"partition": "partitions"},
        "poll": {"update_offsets": "leave update_offsets out, and seek() back to read records again"},
    },
)

_WHERE = {
    "group_coordinator_id": "leave group_coordinator_id out: the coordinator is looked up",
    "include_authorized_operations": "leave include_authorized_operations out: they are not asked for",
}
_ERRORS = {"raise_errors": "leave raise_errors out: the first error is raised, and the rest is done"}
OF_ADMIN = Habits(
    {
        "metrics": _NO_METRICS,
        "alter_group_offsets": "call alter_consumer_group_offsets(group_id, offsets)",
        "api_versions": "call describe_api_versions(brokers)",
        "delete_group_offsets": "call delete_consumer_group_offsets(group_id, partitions)",
        "delete_groups": "call delete_consumer_groups(group_ids)",
        "describe_groups": "call describe_consumer_groups(group_ids)",
        "describe_metadata_quorum": "call describe_quorum()",
        "describe_topic_partitions": "call describe_topics(names)",
        "find_hanging_transactions": "run `pykraft transactions --bootstrap-server SERVER find-hanging`",
        "get_broker_version_data": "call describe_api_versions([broker_id])",
        "list_group_offsets": "call list_consumer_groups_offsets({group_id: partitions or None})",
        "list_partition_offsets": "call list_offsets({TopicPartition(topic, number): -1}); -2 is the start",
        "perform_leader_election": "call elect_leaders(kind, partitions)",
        "remove_group_members": "call remove_members_from_consumer_group(group_id, group_instance_ids)",
        "reset_configs": "call incremental_alter_configs({resource: {name: None}})",
        "reset_group_offsets": "ask list_offsets() for the new offsets, and call alter_consumer_group_offsets()",
        "wait_for_topics": "leave it out: create_topics() returns when the topics are made; clients wait for metadata",
    },
    {
        "alter_configs": {
            "config_resources": "resources",
            "raise_on_unknown": "leave raise_on_unknown out: a broker refuses what it does not know",
            "incremental": "leave incremental out: other settings always stay as they are",
        },
        "alter_partition_reassignments": {"reassignments": "targets"},
        "create_acls": {"acls": "rules"},
        "create_partitions": {"topic_partitions": "topics", **_ERRORS},
        "create_topics": {
            "new_topics": "topics",
            "wait_for_metadata": "leave wait_for_metadata out: clients wait for the metadata of a new topic",
            **_ERRORS,
        },
        "delete_acls": {"acl_filters": "filters"},
        "delete_consumer_groups": _WHERE,
        "delete_records": {
            "records_to_delete": "offsets",
            "partition_leader_id": "leave partition_leader_id out: the leader is looked up",
        },
        "delete_topics": {"topics": "names", **_ERRORS},
        "describe_acls": {"acl_filter": "wanted"},
        "describe_configs": {
            "config_resources": "resources",
            "config_filter": "leave config_filter out, and keep the entries whose is_default is False",
        },
        "describe_consumer_groups": _WHERE,
        "describe_features": {"send_request_to_controller": "use Admin(bootstrap_controllers=...) to ask a controller"},
        "describe_log_dirs": {"topic_partitions": "leave topic_partitions out, and look them up in the answer"},
        "describe_topics": {"topics": "names"},
        "elect_leaders": {"election_type": "kind", "topic_partitions": "partitions", **_ERRORS},
        "list_config_resources": {"resource_types": "types"},
        "list_consumer_group_offsets": _WHERE,
        "list_groups": {
            "states_filter": "states",
            "types_filter": "types",
            "broker_ids": "leave broker_ids out: all brokers are asked",
        },
        "list_partition_reassignments": {"topic_partitions": "partitions"},
        "list_transactions": {
            "state_filters": "states",
            "producer_id_filters": "producer_ids",
            "duration_filter_ms": "duration_ms",
            "broker_ids": "leave broker_ids out: all coordinators are asked",
        },
        "update_features": {"feature_updates": "updates"},
    },
)


def with_habits(habits: Habits) -> Callable[[type[C]], type[C]]:
    """A class decorator: the methods take kafka-python's names of arguments as well, and a call that the class does
    not have raises AttributeError with what to call instead."""

    def decorate(client: type[C]) -> type[C]:
        for name, arguments in habits.arguments.items():
            setattr(client, name, _with_arguments(f"{client.__name__}.{name}()", getattr(client, name), arguments))

        def missing(self: C, name: str) -> Any:
            instead = habits.calls.get(name)
            said = f"{client.__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{said}: {instead}" if instead else said, name=name, obj=self)

        client.__getattr__ = missing  # type: ignore[attr-defined]
        return client

    return decorate


def _with_arguments(called: str, method: Callable[..., Any], arguments: Mapping[str, str]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        for theirs in [name for name in kwargs if name in arguments]:
            ours = arguments[theirs]
            if " " in ours:
                raise TypeError(f"{called} has no argument {theirs}: {ours}")
            if ours in kwargs:
                raise TypeError(f"{called}: {theirs} and {ours} are the same argument: give one of them")
            kwargs[ours] = kwargs.pop(theirs)
        return method(*args, **kwargs)

    return call


class ByName(dict[K, V]):
    """Answers by name. In kafka-python they are a list: to take one by its number raises TypeError with the way to
    take it here."""

    if not TYPE_CHECKING:

        def __missing__(self, key: object) -> V:
            if not isinstance(key, int | slice):
                raise KeyError(key)
            some = next(iter(self), "name")
            shown = repr(some) if isinstance(some, str) else f"{type(some).__name__}(...)"
            raise TypeError(f"this answer is a dict, not a list: take [{shown}], or list(answer.values())")


# --- names that are imported ------------------------------------------------------------------------------------------

CLASSES = {
    "KafkaAdminClient": "Admin",
    "KafkaConsumer": "Consumer",
    "KafkaProducer": "Producer",
    "AdminClient": "Admin",
}
"""The clients of kafka-python (and of confluent-kafka), and ours."""
