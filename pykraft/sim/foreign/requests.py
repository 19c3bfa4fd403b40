"""Requests of strangers, drawn from the declarations: every API in every version, with `foreign.words` in the fields.

What a stranger may say
-----------------------
A stranger **without rights** says anything, also what would destroy a topic, a group or the quorum: nothing of it may
be done. A stranger **with all rights** is obeyed, so what it says must not break the promises that other clients rely
on. Kafka keeps none of them against a client that has the right to delete a topic, or to speak as a broker. So:

* what deletes, makes, alters, moves, or writes records is about names of the strangers' own, or names that cannot be;
* in a real group a stranger is a member that the group does not know, in a generation that it may have;
* with a real transactional id it has a producer id that the coordinator never gave to anyone;
* to a real topic it sends batches that no log may take;
* to controllers it speaks as a node of another cluster, as a broker whose epoch is over, or as an observer that is not
  there. A vote for the right cluster in a higher epoch would depose the leader, as it does in Kafka;
* its topics keep their log starts and their replicas, for these laws are those of seeds of their own.

`_OWN` has the roles that are about the strangers' own names alone, `_SAID` the fields of which only some values do no
harm.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from pykraft.common.types import Uuid
from pykraft.protocol.api import Api, apis
from pykraft.protocol.header import request_frame
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages.brokers import DefaultPrincipalData, EnvelopeRequest
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.groups import JoinGroupRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from pykraft.protocol.schema import Request, Struct
from pykraft.protocol.wire import Field, Variable
from pykraft.sim.foreign.records import ruined, sound
from pykraft.sim.foreign.words import UNKNOWN_BROKER, UNKNOWN_PRODUCER, Words
from pykraft.sim.laws.foreign_names import OWN, OWN_WITHOUT_RIGHTS

_NO_RIGHTS = (OWN_WITHOUT_RIGHTS, "ANONYMOUS")
_MOST = 3
"""So many entries an array has, at most."""

_OWN: Mapping[str, frozenset[str]] = {
    api: frozenset(roles.split(", "))
    for api, roles in {
        "Produce": "topic, topic id, transactional id",
        "CreateTopics": "topic",
        "DeleteTopics": "topic, topic id",
        "DeleteRecords": "topic",
        "CreatePartitions": "topic",
        "AlterPartitionReassignments": "topic",
        "WriteTxnMarkers": "topic, producer",
        "ElectLeaders": "topic",
        "AlterReplicaLogDirs": "topic",
        "AlterConfigs": "resource",
        "IncrementalAlterConfigs": "resource",
        "JoinGroup": "group, member",
        "SyncGroup": "member",
        "Heartbeat": "member",
        "LeaveGroup": "member",
        "OffsetCommit": "member",
        "OffsetDelete": "group",
        "DeleteGroups": "group",
        "ConsumerGroupHeartbeat": "group, member",
        "InitProducerId": "transactional id, producer",
        "AddPartitionsToTxn": "topic, producer",
        "AddOffsetsToTxn": "group, producer",
        "EndTxn": "producer",
        "TxnOffsetCommit": "group, transactional id, member, producer",
    }.items()
}
"""By API, what is about the strangers' own names alone if a stranger with rights asks."""
_OF_MEMBERS = {
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat"),
    *("OffsetCommit", "OffsetFetch", "TxnOffsetCommit"),
}
"""What a member of a group asks for as such."""
_SELDOM = {"assignments", "configs", "log_dirs", "deletions"}
"""Arrays that a sensible request leaves empty: they exclude what it says elsewhere."""
_ELSEWHERE = ("another cluster",)
_NO_EPOCH = (-1, -2, 1 << 50)
_NOT_HERE = (UNKNOWN_BROKER, -1, (1 << 31) - 1)
_SAID: Mapping[tuple[str, str], Sequence[Any]] = {
    ("Vote", "cluster_id"): _ELSEWHERE,
    ("BeginQuorumEpoch", "cluster_id"): _ELSEWHERE,
    ("EndQuorumEpoch", "cluster_id"): _ELSEWHERE,
    ("AddRaftVoter", "cluster_id"): _ELSEWHERE,
    ("RemoveRaftVoter", "cluster_id"): _ELSEWHERE,
    ("UpdateRaftVoter", "cluster_id"): _ELSEWHERE,
    ("BrokerRegistration", "cluster_id"): _ELSEWHERE,
    ("BrokerHeartbeat", "broker_epoch"): _NO_EPOCH,
    ("AlterPartition", "broker_epoch"): _NO_EPOCH,
    ("AllocateProducerIds", "broker_epoch"): _NO_EPOCH,
    ("AssignReplicasToDirs", "broker_epoch"): _NO_EPOCH,
    ("UnregisterBroker", "broker_id"): _NOT_HERE,
    ("UnregisterController", "controller_id"): _NOT_HERE,
    ("ControllerRegistration", "controller_id"): _NOT_HERE[:2],
    ("UpdateFeatures", "feature"): ("no.such.feature", ""),
    ("AlterClientQuotas", "entity_name"): (f"{OWN}-0", f"{OWN}-1", ""),
    ("DeleteRecords", "offset"): (0, -2, 1 << 62, -(1 << 63)),
    ("AlterPartitionReassignments", "replicas"): _NOT_HERE,
}
"""By API and field, the only values that a stranger with rights gives."""


class Drawn(NamedTuple):
    """What a stranger sends."""

    request: Request
    version: int
    client_id: str | None


class RequestDrawer:
    """Draws the requests of one stranger."""

    def __init__(self, words: Words, has_rights: bool, random: Random, time_ms: Callable[[], int]) -> None:
        self._words = words
        self._has_rights = has_rights
        self._random = random
        self._time_ms = time_ms
        self._prefix = OWN if has_rights else OWN_WITHOUT_RIGHTS
        self._is_ruined = False
        """The records of the request that is being drawn are such that no log may take them."""

    def draw(self, listener: ListenerKind) -> Drawn:
        """A request that a listener of this kind serves."""
        return self.draw_from([api for api in apis.values() if listener in api.listeners])

    def draw_from(self, among: Sequence[Api]) -> Drawn:
        random = self._random
        api = random.choice(among)
        version = random.randint(*api.request.versions)
        self._is_ruined = not self._words.is_sensible and random.random() < 0.5
        request: Any = self._structure(api.request, api.name, version, ())
        if self._has_rights and isinstance(request, OffsetCommitRequest) and not request.group_id.startswith(OWN):
            # Without a generation, anybody may commit for a group that is empty.
            request.generation_id_or_member_epoch = abs(request.generation_id_or_member_epoch)
            request.member_id = self._words.own("member")
        if isinstance(request, JoinGroupRequest):
            request.rebalance_timeout_ms = min(1_000, request.rebalance_timeout_ms)
        if isinstance(request, EnvelopeRequest):
            self._fill(request)
        return Drawn(request, version, random.choice((self._prefix, self._prefix, "", None)))

    def _fill(self, envelope: EnvelopeRequest) -> None:
        """Another request, or something that is none, comes in the envelope."""
        random = self._random
        if random.random() < 0.3:
            return
        within = [api for api in apis.values() if api.request.forwardable and ListenerKind.CONTROLLER in api.listeners]
        request, version, client_id = self.draw_from(within)
        parts = request_frame(type(request), version, random.randrange(9), client_id, request.encode(version))
        envelope.request_data = b"".join(parts)[4:]
        principal = DefaultPrincipalData(type="User", name=random.choice(_NO_RIGHTS))
        envelope.request_principal = b"\0\0" + principal.to_bytes(0)

    def _structure(self, structure: type[Struct], api: str, version: int, path: tuple[str, ...]) -> Struct:
        return structure(
            **{
                field.name: self._field(field, api, version, (*path, field.name))
                for field in structure.fields
                if field.present(version)
            }
        )

    def _field(self, field: Field, api: str, version: int, path: tuple[str, ...]) -> Any:
        random = self._random
        is_limited = self._has_rights and (api, field.name) in _SAID
        if not (is_limited and not field.wire.array) and field.nullable(version) and random.random() < 0.2:
            return None
        if field.wire.array:
            entries = random.choice((0, 1, 1, 1, 2, _MOST))
            if self._words.is_sensible:
                entries = 0 if field.name in _SELDOM else 1
            return [self._entry(field, api, version, path) for _ in range(entries)]
        is_structure = isinstance(field.wire.element, type)
        if is_structure and field.wire.nullable and random.random() < 0.5:
            return None
        return self._entry(field, api, version, path)

    def _entry(self, field: Field, api: str, version: int, path: tuple[str, ...]) -> Any:
        element = field.wire.element
        if isinstance(element, type):
            return self._structure(element, api, version, path)
        if isinstance(element, Variable) and element.kind == "records":
            return self._records(version)
        words, random = self._words, self._random
        if self._has_rights and (api, field.name) in _SAID:
            return random.choice(_SAID[api, field.name])
        role = words.role_of(field, path)
        if role is None:
            return words.plain(field)
        if words.is_sensible and (known := self._known(field.name, role, api)) is not None:
            return known
        value = self._own(role, api) if self._is_own(role, api) else words.named(role, self._prefix)
        return value if words.fits(field, value) else words.plain(field)

    def _known(self, name: str, role: str, api: str) -> Any:
        """What the stranger says as the producer or the member that it is; None if that does not say."""
        words = self._words
        if not self._has_rights or api == "InitProducerId":
            return None
        is_member = api in _OF_MEMBERS and words.member.id
        if name in ("transactional_id", "v3_and_below_transactional_id"):
            return words.producer.name
        if name in ("producer_id", "v3_and_below_producer_id"):
            return words.producer.id
        if name in ("producer_epoch", "v3_and_below_producer_epoch"):
            return words.producer.epoch
        if is_member and role == "group":
            return words.member.name
        if is_member and role == "member":
            return words.member.id
        if is_member and name in ("generation_id", "generation_id_or_member_epoch", "member_epoch"):
            return words.member.epoch
        return None

    def _is_own(self, role: str, api: str) -> bool:
        if not self._has_rights or role not in _OWN.get(api, ()):
            return False
        return not (api == "Produce" and self._is_ruined)

    def _own(self, role: str, api: str) -> Any:
        words, random = self._words, self._random
        match role:
            case "topic id":
                return words.topic_id(True)
            case "producer":
                return random.choice((*(each.id for each in words.producers), UNKNOWN_PRODUCER, -1))
            case "member":
                return random.choice((*(each.id for each in words.members), words.own(role), ""))
            case "topic" if not words.is_sensible and random.random() < 0.1:
                return random.choice(("", "no/such", "x" * 250, "."))
        return words.own(role)

    def _records(self, version: int) -> Any:
        """What is sent to a topic: a batch, or what is none. Of a stranger without rights that is of no matter."""
        if self._is_ruined and self._has_rights:
            return ruined(self._random, self._time_ms())
        known = self._words.producer
        producer_id, epoch = self._random.choice(((known.id, known.epoch), (-1, -1)))
        return sound(self._random, self._time_ms(), producer_id, epoch)


def internal_write(topic: str, topic_id: Uuid, partitions: int, batch: bytes, random: Random) -> Drawn:
    """A batch for a coordinator's topic, from a client that has the name of Kafka's own tools."""
    version = random.randint(*ProduceRequest.versions)
    partition = ProduceRequest.Topic.Partition(index=random.randrange(partitions), records=batch)
    named = ProduceRequest.Topic(name=topic, topic_id=topic_id, partition_data=[partition])
    return Drawn(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[named]), version, "__admin_client")
