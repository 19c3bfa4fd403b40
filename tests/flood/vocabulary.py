"""What the fields of a request say, by their names: names that exist on the prepared node, and names that do not.

Kafka's messages call the same thing by few names: a group is ``group_id`` or one of ``groups``, a partition is
``partition_index`` or ``partition``. So a table from field names to *roles* is enough to fill requests meaningfully. It
names a single API only where that uses a name differently. Ordinary values (`PLAIN`) are what a client would send:
acks, timeouts, sizes.

`VARIANTS` are the fields that change what the node has to do: each of their values is tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID, Uuid
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.wire import Field, Fixed, Variable

Kind = Literal["repeated", "distinct", "strangers", "long"]
KINDS: tuple[Kind, ...] = ("repeated", "distinct", "strangers")
LONG: Kind = "long"

_LONG_BYTES = 32_767
STRANGE_PARTITION = 1_000_000


@dataclass
class State:
    """What there is on the prepared node, by role. The first name of a role is the one with most behind it."""

    names: dict[str, Sequence[Any]] = field(
        default_factory=lambda: {"metadata topic": [METADATA_TOPIC], "metadata topic id": [METADATA_TOPIC_ID]}
    )
    salt: int = 0
    """It makes strangers of one request others than those of the request before."""
    broker_epoch: int = -1
    producer_epoch: int = 0
    """Of each transactional id."""
    cluster_id: str = ""
    batch: bytes = b""
    """A small record batch."""
    time_ms: int = 0
    """A timestamp in the middle of the large batches."""
    generation: int = 1
    """Of the classic group."""

    def existing(self, role: str, number: int) -> Any:
        names = self.names[role]
        return names[number % len(names)]


class Draw(NamedTuple):
    """Which field is to say something, where, and in which kind of request."""

    state: State
    api: str
    listener: ListenerKind
    path: tuple[str, ...]
    owner: str
    field: Field
    kind: Kind
    number: int | None
    """Of the entry that the field is in; None outside of the array."""
    variant: Mapping[str, Any]
    filled: tuple[str, ...]
    """The array that is filled."""


ROLES = {
    "topic": "topic",
    "topics_names": "topic",
    "topic_names": "topic",
    "subscribed_topic_names": "topic",
    "topic_id": "topic_id",
    "topic_name": "metadata topic",
    "partition": "partition",
    "partition_index": "partition",
    "index": "partition",
    "partitions": "partition",
    "partition_indexes": "partition",
    "group_id": "group",
    "groups": "group",
    "group_ids": "group",
    "groups_names": "group",
    "transactional_id": "transactional id",
    "transactional_ids": "transactional id",
    "v3_and_below_transactional_id": "transactional id",
    "producer_id": "producer id",
    "producer_id_filters": "producer id",
    "v3_and_below_producer_id": "producer id",
    "broker_id": "broker",
    "broker_ids": "broker",
    "replicas": "broker",
    "new_isr": "broker",
    "member_id": "member",
    "feature": "feature",
    "configuration_keys": "config",
    "states_filter": "group state",
    "state_filters": "transaction state",
    "types_filter": "group type",
    "resource_types": "resource type",
}
"""What the fields name, by their names, wherever they are."""
ROLES_OF_NAME = {"Topic": "topic", "Config": "config", "SupportedFeature": "feature", "Update": "feature"}
"""What ``name`` is, by the structure that it is in."""
ROLES_OF_PATH = {
    "CreateTopics.topics.name": "new topic",
    "FetchSnapshot.topics.name": "metadata topic",
    "AlterReplicaLogDirs.dirs.path": "log directory",
    "AssignReplicasToDirs.directories.id": "directory id",
    "BrokerRegistration.broker_id": "new broker",
    "BrokerRegistration.log_dirs": "directory id",
    "BrokerHeartbeat.offline_log_dirs": "strange directory id",
    "BrokerHeartbeat.cordoned_log_dirs": "strange directory id",
    "JoinGroup.group_id": "classic group",
    "SyncGroup.group_id": "classic group",
    "LeaveGroup.group_id": "classic group",
    "ConsumerGroupHeartbeat.group_id": "consumer group",
    "ConsumerGroupHeartbeat.member_id": "consumer member",
    "ConsumerGroupDescribe.group_ids": "consumer group",
    "OffsetCommit.member_id": "",
    "OffsetFetch.groups.member_id": "",
    "TxnOffsetCommit.member_id": "",
}
"""Exceptions: the same field name, another thing."""

PLAIN: dict[str, Any] = {
    "acks": -1,
    "timeout_ms": 30_000,
    "max_wait_ms": 0,
    "min_bytes": 0,
    "max_bytes": 50 << 20,
    "partition_max_bytes": 1 << 20,
    "committed_offset": 1,
    "committed_metadata": "",
    "session_timeout_ms": 60_000,
    "rebalance_timeout_ms": 60_000,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 3,
    "leader_id": 99,
    "voter_id": 99,
    "candidate_id": 99,
    "controller_id": 99,
    "max_version_level": 1,
    "host": "127.0.0.1",
    "port": 9,
    "allow_auto_topic_creation": False,
    "transaction_timeout_ms": 60_000,
    "member_epoch": 0,
    "leader_epoch": 0,
    "generation_id": -1,
    "value": "604800000",
}
"""What a client would send."""
PLAIN_OF_PATH: dict[str, Any] = {
    "OffsetFetch.groups.member_epoch": -1,
    "Vote.topics.partitions.replica_epoch": 0,
    "Fetch.topics.partitions.current_leader_epoch": -1,
    "DeleteRecords.topics.partitions.offset": 0,
    "AlterClientQuotas.entries.entity.entity_type": "client-id",
    "AlterClientQuotas.entries.ops.key": "producer_byte_rate",
    "AlterClientQuotas.entries.ops.value": 1_000_000.0,
    "DescribeClientQuotas.components.entity_type": "client-id",
    "CreateTopics.topics.assignments": ...,
    "CreateTopics.topics.configs": ...,
}

VARIANTS: dict[str, tuple[Any, ...]] = {
    "timestamp": ("time", -1, -2, -3),
    "resource_type": (2, 4, 32),
    "key_type": (0, 1),
    "topic_id or name": ("name", "id"),
    "session_epoch": (-1, 0),
}
_RESOURCES = {2: "topic", 4: "broker name", 32: "group"}
_BY_ID = {"Metadata", "DeleteTopics"}
"""Their topics have a name or an id."""


def variants_of(api: str, names: Sequence[str], path: tuple[str, ...]) -> list[tuple[tuple[str, Any], ...]]:
    """The ways of asking, where the request has fields that change what is asked."""
    found: list[tuple[tuple[str, Any], ...]] = [()]
    for name, values in VARIANTS.items():
        if name in names or (name == "topic_id or name" and api in _BY_ID and "topic_id" in names):
            found = [(*each, (name, value)) for each in found for value in values]
    return found


# --- drawing ----------------------------------------------------------------------------------------------------------


def role_of(drawn: Draw) -> str | None:
    """What the field names; None if it names nothing."""
    name = drawn.field.name
    where = f"{drawn.api}.{'.'.join(drawn.path)}"
    if where in ROLES_OF_PATH:
        return ROLES_OF_PATH[where] or None
    if drawn.listener is ListenerKind.CONTROLLER and drawn.api == "Fetch" and name in ("topic", "topic_id"):
        return "metadata topic" if name == "topic" else "metadata topic id"
    if name in ("coordinator_keys", "key"):
        return "transactional id" if drawn.variant.get("key_type") == 1 else "group"
    if name == "resource_name":
        return _RESOURCES.get(drawn.variant.get("resource_type", 2), "topic")
    if name == "name":
        return ROLES_OF_NAME.get(drawn.owner, "word")
    return ROLES.get(name)


def how_many(drawn: Draw) -> int:
    """How many names there are of what the field names; of what names nothing, any number."""
    names = drawn.state.names.get(role_of(drawn) or "")
    return len(names) if names else 1 << 30


def is_left_out(drawn: Draw) -> bool:
    """Whether an array in an entry is left empty."""
    return PLAIN_OF_PATH.get(f"{drawn.api}.{'.'.join(drawn.path)}") is ...


def draw(drawn: Draw) -> Any:
    """What the field says; `...` is its default."""
    name, state = drawn.field.name, drawn.state
    where = f"{drawn.api}.{'.'.join(drawn.path)}"
    if where in PLAIN_OF_PATH:
        return PLAIN_OF_PATH[where]
    if name in drawn.variant:
        value = drawn.variant[name]
        return state.time_ms if value == "time" else value
    by = drawn.variant.get("topic_id or name")
    if by and name in ("name", "topic_id") and drawn.owner == "Topic" and (name == "name") != (by == "name"):
        return None if name == "name" else ZERO_UUID
    if name == "records":
        return state.batch
    if name in ("broker_epoch", "new_isr_with_epochs"):
        return state.broker_epoch if name == "broker_epoch" else ...
    if name in ("producer_epoch", "v3_and_below_producer_epoch"):
        return state.producer_epoch
    if name == "cluster_id":
        return state.cluster_id
    if name in ("num_partitions", "replication_factor") and "assignments" in drawn.filled:
        return -1
    role = role_of(drawn)
    if role is not None and (drawn.number is not None or not drawn.field.wire.nullable):
        return _named(drawn, role)
    if name in PLAIN:
        return PLAIN[name]
    return _unknown(drawn)


def _named(drawn: Draw, role: str) -> Any:
    state, number = drawn.state, drawn.number
    if role in state.names and (number is None or drawn.kind == "repeated"):
        return state.existing(role, 0)
    if role in state.names and drawn.kind == "distinct":
        return state.existing(role, number or 0)
    return _strange(drawn, role, 0 if drawn.kind == "repeated" else number or 0)


def _strange(drawn: Draw, role: str, number: int) -> Any:
    """A name of this role that does not exist."""
    state, element = drawn.state, drawn.field.wire.element
    if element is None:  # an id
        return Uuid((1 << 100 | state.salt << 32 | number).to_bytes(16, "big"))
    if isinstance(element, Variable):
        text = f"{role.replace(' ', '-')}-{state.salt}-{number}"
        return text.ljust(_LONG_BYTES, "x") if drawn.kind == "long" else text
    if role == "partition":
        return STRANGE_PARTITION + number
    return (10_000 + number) % (1 << (8 * element.size - 1))  # type: ignore[union-attr]


def _unknown(drawn: Draw) -> Any:
    """A field that the vocabulary does not know: its default, or in an entry something that tells entries apart."""
    known, element = drawn.field, drawn.field.wire.element
    if drawn.number is None or known.wire.nullable or not isinstance(element, Fixed | Variable):
        return ...
    if isinstance(element, Fixed):
        is_entry = known.wire.array and drawn.kind != "repeated"
        return drawn.number % (1 << 8 * element.size - 1) if is_entry else ...
    number = 0 if drawn.kind == "repeated" else drawn.number
    if element.kind == "string":
        text = f"word-{number}"
        return text.ljust(_LONG_BYTES, "x") if drawn.kind == "long" else text
    octets = b"%d" % number
    return octets.ljust(_LONG_BYTES, b"x") if drawn.kind == "long" else octets
