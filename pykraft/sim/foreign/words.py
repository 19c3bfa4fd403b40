"""What a stranger's request says, field by field: real names, names of its own, and values at the edges of a type.

Kafka's messages call the same thing by few names: a group is ``group_id`` or one of ``groups``, a partition is
``partition_index`` or ``partition``. So a table from field names to *roles* is enough to fill a request with what there
is in the cluster at that moment: topics and their ids, log ends and leader epochs, groups, producers.
A field without a role gets a value of its type: its default, a small number, the largest and the smallest one.

Requests that are drawn field by field are refused, nearly all of them, by the first check. So half of the requests are
*sensible*: they go to where the coordinator or the leader is, with the ids and epochs that the stranger was given, and
what they say might be done.

A name of the strangers' own begins as `laws.foreign_names` says. What a request must say so that no promise
to another client is broken is in `foreign.requests`.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from pykraft.broker.broker import Broker
from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID, TopicPartition, Uuid
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.wire import Field, Fixed, Variable
from pykraft.sim.laws.foreign_names import OWN

_OWN_NAMES = 4
UNKNOWN_BROKER = 99
UNKNOWN_PRODUCER = 1 << 40

ROLES = {
    "topic": "topic",
    "topics_names": "topic",
    "topic_names": "topic",
    "topic_name": "topic",
    "subscribed_topic_names": "topic",
    "topic_id": "topic id",
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
    "coordinator_keys": "coordinator key",
    "key": "coordinator key",
    "producer_id": "producer",
    "producer_id_filters": "producer",
    "v3_and_below_producer_id": "producer",
    "producer_epoch": "small",
    "v3_and_below_producer_epoch": "small",
    "broker_id": "broker",
    "broker_ids": "broker",
    "replicas": "broker",
    "new_isr": "broker",
    "voter_id": "broker",
    "leader_id": "broker",
    "candidate_id": "broker",
    "preferred_successors": "broker",
    "controller_id": "broker",
    "node_id": "broker",
    "replica_id": "replica",
    "member_id": "member",
    "group_instance_id": "instance",
    "instance_id": "instance",
    "resource_name": "resource",
    "resource_name_filter": "resource",
    "feature": "feature",
    "configuration_keys": "config",
    "protocol_type": "protocol type",
    "protocol_name": "protocol",
    "server_assignor": "protocol",
    "mechanism": "mechanism",
    "entity_type": "entity type",
    "principal": "principal",
    "principal_filter": "principal",
    "cluster_id": "cluster id",
    "leader_epoch": "epoch",
    "current_leader_epoch": "epoch",
    "last_fetched_epoch": "epoch",
    "committed_leader_epoch": "epoch",
    "epoch": "epoch",
    "offset": "offset",
    "fetch_offset": "offset",
    "committed_offset": "offset",
    "log_start_offset": "offset",
    "end_offset": "offset",
    "position": "offset",
    "high_watermark": "offset",
    "timestamp": "timestamp",
    "generation_id": "small",
    "generation_id_or_member_epoch": "small",
    "member_epoch": "small",
    "session_id": "session",
    "session_epoch": "small",
    "num_partitions": "few",
    "replication_factor": "few",
    "count": "few",
    "acks": "acks",
    "value": "setting",
    "subscribed_topic_regex": "pattern",
    "transactional_id_pattern": "pattern",
    "client_host_address": "address",
}
"""What the fields name, by their names, wherever they are."""
ROLES_OF_NAME = {
    "topics": "topic",
    "configs": "config",
    "listeners": "listener",
    "features": "feature",
    "protocols": "protocol",
    "users": "user",
    "deletions": "user",
    "upsertions": "user",
}
"""What ``name`` is, by the array that it is in."""

_WAITS_MS = (-1, 0, 0, 1, 100, 1_000, -(1 << 31))
_SESSIONS_MS = (-1, 0, 100, 600, 1_000, (1 << 31) - 1)
_CONFIGS = (
    "max.message.bytes",
    "min.insync.replicas",
    "compression.type",
    "message.timestamp.type",
    "segment.bytes",
    "no.such.setting",
    "",
)
_SETTINGS = ("1", "-1", "0", "", "producer", "LogAppendTime", "9223372036854775808", "1e3", "true", " ")
_TEXTS = ("", "word", "word", "x" * 300, "a b\0c", "\u00fcber", "*", "..")
_OCTETS = (b"", b"\0", b"\0\1\0\0\0\1", bytes(range(64)))
_FIXED: Mapping[str, Sequence[Any]] = {
    "acks": (-1, -1, 0, 1, 2, -2),
    "few": (-1, 0, 1, 1, 2, 3, -2, (1 << 15) - 1),
    "small": (-1, 0, 0, 1, 2, 5, -2, (1 << 15) - 1, -(1 << 15)),
    "session": (0, 0, 1, -1, (1 << 31) - 1),
    "replica": (-1, -1, -1, UNKNOWN_BROKER, -2),
    "timestamp": (-1, -2, -3, -4, -5, -6, 0, 1, (1 << 63) - 1, -(1 << 63)),
    "config": _CONFIGS,
    "setting": _SETTINGS,
    "quota": ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "no_such_rate", ""),
    "protocol type": ("consumer", "consumer", "connect", ""),
    "protocol": ("range", "uniform", "cooperative-sticky", ""),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "", "x"),
    "entity type": ("user", "client-id", "ip", "", "group"),
    "listener": ("PLAINTEXT", "CONTROLLER", ""),
    "feature": ("metadata.version", "transaction.version", "kraft.version", "group.version", "no.such", ""),
    "pattern": ("", "t.*", "(", "*", "foreign.*", "a{1,2}"),
    "address": (b"\x7f\0\0\1", b"", b"\1\2\3", b"\0" * 16),
}
_SENSIBLE: Mapping[str, Sequence[Any]] = {
    "acks": (-1, -1, 1),
    "few": (1, 1, 2, 3),
    "small": (-1, 0),
    "session": (0,),
    "replica": (-1,),
    "timestamp": (-1, -2, -3, 0),
    "config": ("max.message.bytes",),
    "setting": ("1048588", "2097152"),
    "quota": ("producer_byte_rate",),
    "protocol type": ("consumer",),
    "protocol": ("range",),
    "mechanism": ("SCRAM-SHA-256",),
    "entity type": ("client-id",),
    "partition": (0, 0, 0, 1),
    "offset": (0, 0, 1),
    "epoch": (-1, 0),
    "broker": (1, 2, 3),
    "pattern": ("t.*",),
    "address": (b"\x7f\0\0\1",),
}
_SENSIBLE_NUMBERS = {
    "session_timeout_ms": 600,
    "rebalance_timeout_ms": 300,
    "transaction_timeout_ms": 500,
    "timeout_ms": 300,
    "max_wait_ms": 100,
    "min_bytes": 1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "iterations": 4096,
    "mechanism": 1,
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 1,
    "operation": 3,
    "permission_type": 3,
    "response_partition_limit": 2,
    "election_type": 0,
    "max_version_level": 1,
    "duration_filter": 0,
    "retention_time_ms": -1,
}


class Identity(NamedTuple):
    """What a coordinator has given a stranger: as a producer, or as a member of a group."""

    name: str
    """The transactional id, or the group."""
    id: Any
    """The producer id, or the member id."""
    epoch: int


NO_PRODUCER, NO_MEMBER = Identity(f"{OWN}-transactional-id-0", UNKNOWN_PRODUCER, 0), Identity(f"{OWN}-group-0", "", 0)


class Words:
    """Draws values from what there is in the cluster now."""

    def __init__(
        self,
        image: Callable[[], MetadataImage | None],
        brokers: Callable[[], Sequence[Broker]],
        groups: Sequence[str],
        cluster_id: str,
        edges: float,
        random: Random,
    ) -> None:
        self._image = image
        self._brokers = brokers
        self._groups = groups
        self._cluster_id = cluster_id
        self._edges = edges
        self._random = random
        self.producers = [NO_PRODUCER]
        self.members = [NO_MEMBER]
        """What strangers were given."""
        self.is_sensible = False
        """The request that is being drawn is."""
        self.here: Broker | None = None
        """The broker that it will be sent to."""
        self.producer = NO_PRODUCER
        self.member = NO_MEMBER
        """As whom it is sent, if it is sensible."""

    # --- roles --------------------------------------------------------------------------------------------------------

    def begin(self, here: Broker | None) -> None:
        """The next request goes to this broker, or to a controller."""
        self.here = here
        self.is_sensible = self._random.random() < 0.5
        self.producer, self.member = self._random.choice(self.producers), self._random.choice(self.members)

    def own(self, role: str, prefix: str = OWN) -> Any:
        """A name that only strangers use; of a sensible request one that this broker coordinates, if there is any."""
        names = [f"{prefix}-{role.replace(' ', '-')}-{number}" for number in range(_OWN_NAMES)]
        if self.is_sensible and self.here is not None and role in ("group", "transactional id"):
            found = self.here.groups if role == "group" else self.here.transactions
            active = set(found.runtime.active_partitions())
            names = [name for name in names if active and found.partition_of(name) in active] or names
        if self.is_sensible and self.here is not None and role == "topic":
            led = [place.topic for place, each in self.here.replicas.partitions.items() if each.is_leader]
            names = [name for name in names if name in led] * 2 + names[:1]
        return self._random.choice(names)

    def topics(self) -> list[str]:
        """Those that there are, but for the strangers'."""
        image = self._image()
        return [] if image is None else [name for name in sorted(image.topic_ids) if not name.startswith(OWN)]

    def topic_id(self, is_own: bool) -> Uuid:
        """Of a topic of the strangers' own, or of another one; perhaps of none."""
        image = self._image()
        found = {} if image is None else image.topic_ids
        ids = [found[name] for name in sorted(found) if name.startswith(OWN) == is_own]
        strange = Uuid((1 << 100 | self._random.randrange(3)).to_bytes(16, "big"))
        return self._random.choice((*ids, *ids, ZERO_UUID, strange, *([] if is_own else [METADATA_TOPIC_ID])))

    def named(self, role: str, prefix: str) -> Any:
        """A value for this role. Names are real ones, or begin with this prefix."""
        random = self._random
        if role in _SENSIBLE and self.is_sensible:
            return random.choice(_SENSIBLE[role])
        if role in _FIXED:
            return random.choice(_FIXED[role])
        match role:
            case "topic":
                real = [*self.topics(), METADATA_TOPIC, "never", "", "no/such", "x" * 250]
                return random.choice((self.own(role, prefix), *real))
            case "topic id":
                return self.topic_id(False)
            case "partition":
                return random.choice((0, 0, 0, 0, 1, 2, -1, -2, 7, (1 << 31) - 1, -(1 << 31)))
            case "group":
                return random.choice((self.own(role, prefix), *self._groups, *self._groups, "never", ""))
            case "transactional id":
                return random.choice((self.own(role, prefix), *self._transactional_ids(), "never", ""))
            case "coordinator key":
                return random.choice((*self._groups, *self._transactional_ids(), self.own("group", prefix), ""))
            case "producer":
                return random.choice((*self._producer_ids(), UNKNOWN_PRODUCER, -1, 0))
            case "broker":
                return random.choice((1, 2, 3, 101, UNKNOWN_BROKER, -1, (1 << 31) - 1))
            case "member":
                return random.choice((*self._member_ids(), self.own(role, prefix), ""))
            case "instance" | "user":
                return self.own(role, prefix)
            case "resource":
                return random.choice((self.own("topic", prefix), *self.topics(), *self._groups, "1", "99", ""))
            case "principal":
                return random.choice((f"User:{self.own('user', prefix)}", "User", "", "User:"))
            case "cluster id":
                return random.choice((self._cluster_id, "another cluster", ""))
            case "epoch":
                return random.choice((-1, -1, 0, 1, *self._epochs(), (1 << 31) - 1, -2))
            case "offset":
                return random.choice(self._offsets())
        raise AssertionError(f"no value for {role}")

    def _each_group(self) -> list[Any]:
        found = []
        for broker in self._brokers():
            for number in sorted(broker.groups.runtime.active_partitions()):
                found += [group for _, group in sorted(broker.groups.runtime.active(number).groups.items())]
        return found

    def _member_ids(self) -> list[str]:
        return [member for group in self._each_group() for member in sorted(group.members)][:4]

    def _transactional_ids(self) -> list[str]:
        found = []
        for broker in self._brokers():
            for number in sorted(broker.transactions.runtime.active_partitions()):
                found += sorted(broker.transactions.runtime.active(number).transactions)
        return [each for each in found if not each.startswith(OWN)][:4]

    def _partitions(self) -> list[tuple[TopicPartition, Any]]:
        return [each for broker in self._brokers() for each in sorted(broker.replicas.partitions.items())]

    def _producer_ids(self) -> list[int]:
        found = {each for _, partition in self._partitions() for each in partition.log.producer_state.producers}
        return sorted(found)[:4]

    def _epochs(self) -> list[int]:
        return [partition.leader_epoch for _, partition in self._partitions()][:4]

    def _offsets(self) -> list[int]:
        found = [-1, -2, 0, 0, 1, (1 << 63) - 1, -(1 << 63)]
        partitions = self._partitions()
        if partitions:
            end: int = self._random.choice(partitions)[1].log.log_end_offset
            found += [end, end, end // 2, end + 1, max(0, end - 1)]
        return found

    # --- types --------------------------------------------------------------------------------------------------------

    def role_of(self, field: Field, path: Sequence[str]) -> str | None:
        """What a field names; None if it names nothing."""
        within = path[-2] if len(path) > 1 else ""
        if field.name == "name":
            return ROLES_OF_NAME.get(within)
        if within == "ops" and field.name == "key":
            return "quota"
        if field.name == "mechanism" and isinstance(field.wire.element, Fixed):
            return None
        return ROLES.get(field.name)

    def plain(self, field: Field) -> Any:
        """A value of the field's type."""
        element, random = field.wire.element, self._random
        if self.is_sensible and isinstance(element, Fixed):
            default = element.default if field.wire.array else field.default
            return _SENSIBLE_NUMBERS.get(field.name, default)
        if field.name == "session_timeout_ms":
            return random.choice(_SESSIONS_MS)
        if field.name.endswith("_ms"):
            return random.choice(_WAITS_MS)
        if element is None:
            return random.choice((ZERO_UUID, Uuid((random.randrange(3)).to_bytes(16, "big"))))
        if isinstance(element, Variable):
            return random.choice(_TEXTS if element.kind == "string" else _OCTETS)
        assert isinstance(element, Fixed)
        if element.letter == "?":
            return random.random() < 0.5
        if element.letter == "d":
            return random.choice((0.0, 1.0, -1.0, 1e300, float("inf"), 1_000_000.0))
        bits = 8 * element.size
        low, high = (0, (1 << bits) - 1) if element.letter.isupper() else (-(1 << bits - 1), (1 << bits - 1) - 1)
        if random.random() < self._edges:
            return random.choice((low, high, -1 if low else 0, high - 1))
        known = field.default if isinstance(field.default, int) else 0
        return random.choice((known, known, 0, 1, 2, 3))

    def fits(self, field: Field, value: Any) -> bool:
        """Whether the field's type can hold this."""
        element = field.wire.element
        if element is None:
            return isinstance(value, Uuid)
        if isinstance(element, Variable):
            return isinstance(value, str) if element.kind == "string" else isinstance(value, bytes)
        if not isinstance(element, Fixed) or not isinstance(value, int):
            return False
        bits = 8 * element.size
        return (0 <= value < 1 << bits) if element.letter.isupper() else (-(1 << bits - 1) <= value < 1 << bits - 1)
