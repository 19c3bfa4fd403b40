"""The records of the coordinators' logs: what groups and transactional producers are remembered by.

A coordinator is a state machine whose log is a compacted topic: ``__consumer_offsets`` for groups and their offsets,
``__transaction_state`` for transactions. The last record of each key is the state; a record without a value forgets
the key. Key and value both begin with a number, an int16, and go on as a message::

    key     which kind of record it is, then the key's message in version 0, never flexible
    value   the version of the value's message, then that message

The kinds are numbered for each topic on its own. Those of groups: 0 and 1 committed offsets, 2 a classic group as a
whole, 3 to 8 and 16 consumer groups (KIP-848), 10 to 15 share groups (KIP-932), 17 to 23 streams groups (KIP-1071).

The metadata and the assignment of a classic group's member are bytes for the coordinator. Consumers fill them with
messages of their own, the embedded consumer protocol; these are here, too.

Follows org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde, the message files of group-coordinator and
transaction-coordinator, and org.apache.kafka.clients.consumer.internals.ConsumerProtocol.
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from pykraft.common.errors import ProtocolError
from pykraft.common.types import ZERO_UUID
from pykraft.protocol.messages.group_values import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    GroupTargetAssignmentMemberValue,
    GroupTargetAssignmentMetadataValue,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTopologyValue,
)
from pykraft.protocol.schema import Array, Message, Struct, field, int8, int16, int32, int64, octets, string, uuid

_NUMBER = struct.Struct(">h")
_KEY_VERSION = 0
_COMMIT_VERSION = 4
_COMMIT = struct.Struct(">hqibq")
"""Of a committed offset: the version, the offset, its leader epoch, the length of its text, the time."""
_EMPTY, _NO_TAGS, _TOPIC_ID_TAG = 1, b"\0", b"\1\0\x10"


# --- keys -------------------------------------------------------------------------------------------------------------


class OffsetCommitKey(Message):
    """Whose offset in which partition."""

    group: string
    topic: string
    partition: int32


class GroupMetadataKey(Message):
    """A classic group."""

    group: string


class GroupKey(Message):
    """A group of one of the newer kinds."""

    group_id: string


class GroupMemberKey(Message):
    """A member of such a group."""

    group_id: string
    member_id: string


class RegularExpressionKey(Message):
    """A pattern of topic names that members of a consumer group subscribe to."""

    group_id: string
    regular_expression: string


class TransactionLogKey(Message):
    """A transactional producer."""

    transactional_id: string


# --- values: committed offsets and classic groups ---------------------------------------------------------------------


class LegacyOffsetCommitValue(Message):
    """A committed offset as Kafka before 0.9 wrote it."""

    offset: int64
    metadata: string
    commit_timestamp: int64


class OffsetCommitValue(Message, versions=(0, 4), flexible=4):
    """A committed offset: the next one that the group will read."""

    offset: int64
    leader_epoch: int32 = field(default=-1, since=3)
    metadata: string
    commit_timestamp: int64
    expire_timestamp: int64 = field(default=-1, since=1, until=1)
    topic_id: uuid = field(default=ZERO_UUID, since=4, tag=0)


class GroupMetadataValue(Message, versions=(0, 4), flexible=4):
    """A classic group in one generation, with all its members."""

    class Member(Struct):
        member_id: string
        group_instance_id: string | None = field(default=None, since=3)
        client_id: string
        client_host: string
        rebalance_timeout: int32 = field(default=-1, since=1)
        session_timeout: int32
        subscription: octets
        assignment: octets

    protocol_type: string
    generation: int32
    protocol: string | None
    leader: string | None
    current_state_timestamp: int64 = field(default=-1, since=2)
    members: Array[Member]


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    """What a classic consumer tells the leader of its group: what it wants, and what it has."""

    class TopicPartition(Struct):
        topic: string
        partitions: Array[int32]

    topics: Array[string]
    user_data: octets | None = field(default=None)
    owned_partitions: Array[TopicPartition] = field(default=(), since=1)
    generation_id: int32 = field(default=-1, since=2)
    rack_id: string | None = field(default=None, since=3)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    """What the leader of its group answers a classic consumer."""

    class TopicPartition(Struct):
        topic: string
        partitions: Array[int32]

    assigned_partitions: Array[TopicPartition]
    user_data: octets | None = field(default=None)


# --- values: transactions ---------------------------------------------------------------------------------------------


class TransactionLogValue(Message, versions=(0, 1), flexible=1):
    """How far the present transaction of a transactional producer has come, and in which partitions it wrote."""

    class Partitions(Struct):
        topic: string
        partition_ids: Array[int32]

    producer_id: int64
    previous_producer_id: int64 = field(default=-1, since=1, tag=0)
    next_producer_id: int64 = field(default=-1, since=1, tag=1)
    producer_epoch: int16
    next_producer_epoch: int16 = field(default=-1, since=1, tag=3)
    transaction_timeout_ms: int32
    # 0 empty, 1 ongoing, 2 and 3 preparing to commit or abort, 4 and 5 committed or aborted.
    transaction_status: int8
    transaction_partitions: Array[Partitions] | None
    transaction_last_update_timestamp_ms: int64
    transaction_start_timestamp_ms: int64
    client_transaction_version: int16 = field(default=0, since=1, tag=2)


# --- the two logs -----------------------------------------------------------------------------------------------------


class CoordinatorRecordType(NamedTuple):
    """The messages of one kind of record."""

    key: type[Message]
    value: type[Message]


RecordTypes = Mapping[int, CoordinatorRecordType]

GROUP_RECORDS: RecordTypes = {
    0: CoordinatorRecordType(OffsetCommitKey, LegacyOffsetCommitValue),
    1: CoordinatorRecordType(OffsetCommitKey, OffsetCommitValue),
    2: CoordinatorRecordType(GroupMetadataKey, GroupMetadataValue),
    3: CoordinatorRecordType(GroupKey, ConsumerGroupMetadataValue),
    4: CoordinatorRecordType(GroupKey, ConsumerGroupPartitionMetadataValue),
    5: CoordinatorRecordType(GroupMemberKey, ConsumerGroupMemberMetadataValue),
    6: CoordinatorRecordType(GroupKey, GroupTargetAssignmentMetadataValue),
    7: CoordinatorRecordType(GroupMemberKey, GroupTargetAssignmentMemberValue),
    8: CoordinatorRecordType(GroupMemberKey, ConsumerGroupCurrentMemberAssignmentValue),
    10: CoordinatorRecordType(GroupMemberKey, ShareGroupMemberMetadataValue),
    11: CoordinatorRecordType(GroupKey, ShareGroupMetadataValue),
    12: CoordinatorRecordType(GroupKey, GroupTargetAssignmentMetadataValue),
    13: CoordinatorRecordType(GroupMemberKey, GroupTargetAssignmentMemberValue),
    14: CoordinatorRecordType(GroupMemberKey, ShareGroupCurrentMemberAssignmentValue),
    15: CoordinatorRecordType(GroupKey, ShareGroupStatePartitionMetadataValue),
    16: CoordinatorRecordType(RegularExpressionKey, ConsumerGroupRegularExpressionValue),
    17: CoordinatorRecordType(GroupKey, StreamsGroupMetadataValue),
    19: CoordinatorRecordType(GroupMemberKey, StreamsGroupMemberMetadataValue),
    20: CoordinatorRecordType(GroupKey, GroupTargetAssignmentMetadataValue),
    21: CoordinatorRecordType(GroupMemberKey, StreamsGroupTargetAssignmentMemberValue),
    22: CoordinatorRecordType(GroupMemberKey, StreamsGroupCurrentMemberAssignmentValue),
    23: CoordinatorRecordType(GroupKey, StreamsGroupTopologyValue),
}
"""What ``__consumer_offsets`` holds."""

TRANSACTION_RECORDS: RecordTypes = {0: CoordinatorRecordType(TransactionLogKey, TransactionLogValue)}
"""What ``__transaction_state`` holds."""


class CoordinatorRecord(NamedTuple):
    """A record of a coordinator's log, read. Without a value (and version) it forgets what was said of its key."""

    record_type: int
    key: Message
    version: int | None
    value: Message | None


class UnknownRecordTypeError(ProtocolError):
    """A kind of record that this coordinator does not know."""

    def __init__(self, record_type: int) -> None:
        super().__init__(f"no record of this coordinator has type {record_type}")
        self.record_type = record_type


def encode_coordinator_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """(key, value) of this record in its log. Committed offsets are most of what is written, and a group commits for
    the same partitions again and again: their keys are kept, and their values have a way of their own."""
    record_type, key, version, value = record
    if type(key) is OffsetCommitKey:
        encoded = _commit_key(record_type, key.group, key.topic, key.partition)
    else:
        encoded = _NUMBER.pack(record_type) + key.to_bytes(_KEY_VERSION)
    if value is None or version is None:
        return encoded, None
    if version == _COMMIT_VERSION and type(value) is OffsetCommitValue and not value.metadata:
        return encoded, _commit_value(value)
    return encoded, _NUMBER.pack(version) + value.to_bytes(version)


@lru_cache(1 << 12)
def _commit_key(record_type: int, group: str, topic: str, partition: int) -> bytes:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    return _NUMBER.pack(record_type) + key.to_bytes(_KEY_VERSION)


def _commit_value(value: OffsetCommitValue) -> bytes:
    """An offset with an empty text, in version 4."""
    fields = _COMMIT.pack(_COMMIT_VERSION, value.offset, value.leader_epoch, _EMPTY, value.commit_timestamp)
    return fields + (_NO_TAGS if value.topic_id == ZERO_UUID else _TOPIC_ID_TAG + value.topic_id)


def decode_coordinator_record(types: RecordTypes, key: bytes, value: bytes | None) -> CoordinatorRecord:
    """The record with this key and value. UnknownRecordTypeError, or ProtocolError if it cannot be read."""
    record_type = _number("key", key)
    if record_type not in types:
        raise UnknownRecordTypeError(record_type)
    messages = types[record_type]
    decoded_key = messages.key.decode(key, _KEY_VERSION, _NUMBER.size)
    if value is None:
        return CoordinatorRecord(record_type, decoded_key, None, None)
    version = _number("value", value)
    return CoordinatorRecord(record_type, decoded_key, version, messages.value.decode(value, version, _NUMBER.size))


def record_type_of(key: bytes) -> int:
    """The type of the record with this key; -1 if the key is too short to have one."""
    return -1 if len(key) < _NUMBER.size else _number("key", key)


def _number(what: str, data: bytes) -> int:
    if len(data) < _NUMBER.size:
        raise ProtocolError(f"the {what} of a coordinator's record has {len(data)} bytes")
    number: int = _NUMBER.unpack_from(data)[0]
    return number
