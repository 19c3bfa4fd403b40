"""The laws of strangers: the node lives, and what it promised holds, whatever well-formed request comes.

* *Every request is answered.* The answer has the correlation id of the request, and is an answer of the request's own
  version: it is read to its last byte, and written again it has the same bytes. A connection is closed instead only if
  the request wants no answer (acks=0), if it is about rules of access and has a code that means nothing (Kafka cannot
  read it), if the stranger hangs up, or if the node ends. Once the trouble has ended, an answer comes within
  `LONGEST_MS` of virtual time. It says UNKNOWN_SERVER_ERROR only where Kafka's does: to a stranger without rights
  while a node does not know the rules of access yet, and to a marker of a producer that cannot be.
* *No right, no deed.* A stranger without rights is granted nothing: each part of an answer has an error, or says what
  Kafka says to anyone. In the end nothing in the cluster has a name that such a stranger gave.

All other laws hold besides. What the strangers with rights may say so that they do is in `foreign.requests`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from pykraft.broker.broker import Broker
from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.common.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from pykraft.common.errors import ErrorCode, ProtocolError
from pykraft.common.types import TopicIdPartition, TopicPartition
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.header import ResponseHeader, response_header_version
from pykraft.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from pykraft.protocol.messages.coordinators import GROUP_RECORDS, record_type_of
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.schema import Request, Response, Struct
from pykraft.records.batch import RecordBatch
from pykraft.records.record import Record
from pykraft.sim.laws.foreign_names import OWN_WITHOUT_RIGHTS, is_foreign
from pykraft.sim.laws.group_laws import InternalHistory
from pykraft.sim.laws.invariants import PartitionHistory, Violation, require

LONGEST_MS = 10_000
"""No stranger asks a node to wait for longer than a second."""
_UNEXPLAINED = {"WriteTxnMarkers"}
"""Kafka, too, answers UNKNOWN_SERVER_ERROR to a marker of a producer that cannot be."""
_OF_LOGS = {
    *("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DeleteRecords"),
    *("DescribeProducers", "WriteTxnMarkers", "ElectLeaders"),
}
"""What is about a log that must be there. Offsets may be committed for any partition."""
_TOLD_TO_ALL = {"ApiVersions", "DescribeCluster"}
"""What Kafka tells a client without any rights."""
_EMPTY_FOR_ALL = {"Metadata", "ListGroups", "ListTransactions"}
"""Lists of what a client may see: for one that may see nothing they are empty, which is no error."""


_OF_RULES = DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest
_CODES: Sequence[tuple[str, type[IntEnum]]] = (
    ("resource_type", AclResourceType),
    ("pattern_type", PatternType),
    ("operation", AclOperation),
    ("permission_type", AclPermissionType),
)


@dataclass
class Question:
    """A request under way."""

    request: Request
    version: int
    correlation_id: int
    listener: str
    """Of which node, and of which kind."""
    sent_ms: int
    node_life: int
    """That of the node when the request was sent."""
    has_rights: bool

    @property
    def name(self) -> str:
        return type(self.request).__name__.removesuffix("Request")

    @property
    def wants_no_answer(self) -> bool:
        return isinstance(self.request, ProduceRequest) and self.request.acks == 0

    @property
    def may_be_closed(self) -> bool:
        """Whether the connection may be closed instead of an answer."""
        has_no_meaning = isinstance(self.request, _OF_RULES) and _has_unknown_code(self.request)
        return self.wants_no_answer or has_no_meaning

    def __str__(self) -> str:
        rights = "" if self.has_rights else ", from a client without rights,"
        return f"{self.name} {self.version} to {self.listener}{rights} ({str(self.request)[:600]})"


def _has_unknown_code(part: Struct) -> bool:
    codes = [kind(getattr(part, field.name)) for field in part.fields for name, kind in _CODES if name in field.name]
    return 0 in codes or any(map(_has_unknown_code, _parts_of(part)))


def check_answer(question: Question, frame: bytes) -> Response:
    """The answer is one of this request in this version, whole."""
    made, version = type(question.request).response, question.version
    try:
        header, position = ResponseHeader.decode_from(frame, response_header_version(made, version))
        answer, end = made.decode_from(frame, version, position)
    except ProtocolError as error:
        raise Violation(f"{question} is answered with {frame[:80]!r}: {error}") from error
    require(
        header.correlation_id == question.correlation_id,
        f"{question} has correlation id {question.correlation_id}, its answer {header.correlation_id}",
    )
    require(end == len(frame), f"{question}: {len(frame) - end} bytes come after its answer")
    again = answer.to_bytes(version)
    require(again == frame[position:], f"{question}: its answer is {frame[position:]!r}; written again it is {again!r}")
    if not question.has_rights:
        _check_refused(question, answer)
    elif question.name not in _UNEXPLAINED:
        parts = [answer, *_all_parts(answer)]
        failed = [part for part in parts if getattr(part, "error_code", 0) == ErrorCode.UNKNOWN_SERVER_ERROR]
        require(not failed, f"{question} is answered with an error that nothing expected: {failed}")
    if question.name in _OF_LOGS:
        found = [part for part in _all_parts(answer) if _is_in_no_log(part)]
        require(not found, f"{question}: there is no such partition, and its answer has {found}")
    return answer


def _is_in_no_log(part: Struct) -> bool:
    """Whether this is about a partition with a negative number, and has no error."""
    numbers = [getattr(part, name) for name in ("partition", "partition_index", "index") if name in part._names]
    return any(number < 0 for number in numbers) and getattr(part, "error_code", None) == 0


def check_closed(question: Question, last: Iterable[Question], has_lived_on: bool) -> None:
    """The node has closed the connection on which this request was not answered yet. `last` are those from the last
    answer to this one, for one that wants no answer may have failed."""
    may_be_closed = any(each.may_be_closed for each in last)
    require(not has_lived_on or may_be_closed, f"{question}: the connection is closed instead of an answer")


def check_in_time(question: Question, waited_ms: int) -> None:
    """The trouble has ended for so long, and the request was sent so long ago."""
    require(waited_ms <= LONGEST_MS, f"{question} is not answered after {waited_ms} ms")


# --- no right, no deed ------------------------------------------------------------------------------------------------


def _check_refused(question: Question, answer: Response) -> None:
    if question.name in _TOLD_TO_ALL:
        return
    for granted in _granted(answer, question.version):
        is_empty = granted is answer and (question.name in _EMPTY_FOR_ALL or not _asks(question.request))
        require(is_empty, f"{question} is granted: {granted}")
    if question.name in _EMPTY_FOR_ALL:
        listed = [name for name in _LISTS if getattr(answer, name, ())]
        require(not listed, f"{question} is answered with {listed}: {answer}")


_FORGOTTEN = ("forgotten_topics_data",)
"""What a fetch names there it does not ask for."""
_LISTS = ("groups", "transaction_states")


def _granted(part: Struct, version: int) -> Iterator[Struct]:
    """The parts of an answer that say that all is well, and have no parts that say more."""
    for each in _parts_of(part):
        yield from _granted(each, version)
    says_more = any(_error_fields(each, version) for each in _all_parts(part))
    fields = _error_fields(part, version)
    if fields and not says_more and not any(getattr(part, name) for name in fields):
        yield part


def _error_fields(part: Struct, version: int) -> list[str]:
    return [field.name for field in part.fields if field.name.endswith("error_code") and field.present(version)]


def _parts_of(part: Struct) -> Iterator[Struct]:
    for field in part.fields:
        value = getattr(part, field.name)
        if isinstance(value, Struct):
            yield value
        elif isinstance(value, list | tuple):
            yield from (each for each in value if isinstance(each, Struct))


def _all_parts(part: Struct) -> Iterator[Struct]:
    for each in _parts_of(part):
        yield each
        yield from _all_parts(each)


def _asks(part: Struct) -> bool:
    """Whether there is anything in a request that may be refused: an empty list has no parts."""
    lists = [
        (field, getattr(part, field.name)) for field in part.fields if field.wire.array and field.name not in _FORGOTTEN
    ]
    inner = [entry for _, entries in lists for entry in entries or () if isinstance(entry, Struct)]
    is_all = any(entries is None or (entries and not isinstance(entries[0], Struct)) for _, entries in lists)
    return not lists or is_all or any(map(_asks, inner))


def check_nothing_done(image: MetadataImage, brokers: Iterable[Broker]) -> None:
    """In the end nothing has a name that a stranger without rights gave."""
    quotas = [str(entity) for entity in image.client_quotas]
    names = [*image.topic_ids, *quotas, *map(str, image.acls.values())]
    for broker in brokers:
        for number in broker.groups.runtime.active_partitions():
            shard = broker.groups.runtime.active(number)
            names += [*shard.groups, *shard.offsets.groups()]
        for number in broker.transactions.runtime.active_partitions():
            names += broker.transactions.runtime.active(number).transactions
    made = [name for name in names if OWN_WITHOUT_RIGHTS in name]
    require(not made, f"a client without rights has made {made}")


# --- what strangers write ---------------------------------------------------------------------------------------------


class ForeignHistory(PartitionHistory):
    """That of a partition in which strangers write. Nothing is known of what they send, or how often."""

    def observe(self, batch: RecordBatch) -> None:
        """Any producer may begin anywhere."""

    def take(self, record: Record) -> None:
        self.values.append(record.value)


class ForeignInternalHistory(InternalHistory):
    """That of a partition of ``__consumer_offsets`` in which strangers write, too."""

    _is_control = False

    def observe(self, batch: RecordBatch) -> None:
        self._is_control = batch.is_control

    def take(self, record: Record) -> None:
        if not self._is_control and record_type_of(record.key or b"") in GROUP_RECORDS:
            super().take(record)
        else:
            self.values.append(record.value)


def foreign_history(key: TopicIdPartition, groups: Any, has_bank: bool) -> PartitionHistory | None:
    """The history of a partition where there are strangers; None if they do not write there, or not in this way."""
    place: TopicPartition = key.topic_partition
    if is_foreign(key.topic):
        return ForeignHistory(place)
    if key.topic == GROUP_TOPIC and not has_bank:
        return ForeignInternalHistory(place, groups)
    return ForeignHistory(place) if key.topic == TRANSACTION_TOPIC and not has_bank else None
