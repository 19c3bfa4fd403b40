"""Records of the internal topics that no coordinator writes. A client named ``__admin_client`` may write them, as in
Kafka. The load of that partition may fail, but the node starts, and its other partitions go on."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition, Uuid
from pykraft.coordinator.runtime import partition_for
from pykraft.coordinator.shard_context import State
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    GroupKey,
    GroupMemberKey,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    RegularExpressionKey,
    TransactionLogKey,
    TransactionLogValue,
    encode_coordinator_record,
)
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.group_values import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    GroupTargetAssignmentMemberValue,
    GroupTargetAssignmentMetadataValue,
    TopicPartitions,
)
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from pykraft.protocol.messages.transactions import InitProducerIdRequest
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.producer_state import AppendOrigin
from tests.harness.controllers import new_topic
from tests.harness.lone_node import LoneNode

PARTITIONS = 2
IDS = {partition_for(name, PARTITIONS): name for name in ("a", "b", "c", "d")}
"""A group, and a transactional id, of each partition."""
Raw = tuple[bytes, bytes | None]


def node_with_internal_topics(filesystem: MemoryFileSystem | None = None, partitions: int = PARTITIONS) -> LoneNode:
    """A node that fails the test if anything but the bytes of a record is at fault."""
    lone = LoneNode(filesystem)
    if filesystem is None:
        topics = [
            new_topic(name, assignment={number: [1] for number in range(partitions)}, configs=configs)
            for name, configs in (
                (GROUP_TOPIC, {"cleanup.policy": "compact,delete", "retention.ms": "-1"}),
                (TRANSACTION_TOPIC, {}),
                ("t", {}),
            )
        ]
        response = lone.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), ListenerKind.CONTROLLER)
        assert not any(topic.error_code for topic in response.topics)
    for _ in range(100):  # the session of the life before must end first
        lone.run(200)
        if lone.broker.is_open and not lone.broker.groups.runtime.has_work:
            break
    assert lone.broker.is_open
    return lone


def write(lone: LoneNode, place: TopicPartition, records: Sequence[Raw]) -> None:
    """What ``__admin_client`` produces."""
    builder = RecordBatchBuilder()
    for key, value in records:
        builder.append(0, key, value)
    topic = ProduceRequest.Topic
    part = topic.Partition(index=place.partition, records=memoryview(bytearray(builder.build())))
    topic_id = lone.node.loader.image.topic_ids[place.topic]
    request = ProduceRequest(acks=-1, timeout_ms=500, topic_data=[topic(topic_id=topic_id, partition_data=[part])])
    answer = lone.ask(request, client_id="__admin_client")
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer


def restarted(lone: LoneNode) -> LoneNode:
    """The next life of the node, on the same disk."""
    lone.filesystem.crash_process()
    return node_with_internal_topics(lone.filesystem)


def commit(lone: LoneNode, group: str, offset: int) -> ErrorCode:
    topic = OffsetCommitRequest.Topic
    part = topic.Partition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=-1, topics=[topic(name="t", partitions=[part])]
    )
    code: ErrorCode = lone.ask(request, version=8).topics[0].partitions[0].error_code
    return code


def committed(lone: LoneNode, group: str) -> int | ErrorCode:
    """The offset that the group has committed for t-0, or the error."""
    asked = OffsetFetchRequest.Group(
        group_id=group, topics=[OffsetFetchRequest.Group.Topic(name="t", partition_indexes=[0])]
    )
    found = lone.ask(OffsetFetchRequest(groups=[asked]), version=9).groups[0]
    if found.error_code:
        return ErrorCode(found.error_code)
    offset: int = found.topics[0].partitions[0].committed_offset
    return offset


def producer_error(lone: LoneNode, transactional_id: str) -> ErrorCode:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000)
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    while code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # so until the first producer ids have come
        code = lone.ask(request).error_code
    return code


def failures(lone: LoneNode) -> list[Any]:
    """What the journal says of shards that failed."""
    return [
        event.fields
        for event in lone.journal.events
        if event.name == "coordinator" and event.fields["state"].startswith("failed")
    ]


def shards(lone: LoneNode, state: str) -> float:
    """What the metric says."""
    found = next(family for family in lone.node.metrics.families() if family.name == "num-partitions")
    value = found.metrics[(("state", state),)]
    assert isinstance(value, float)
    return value


def raw(record_type: int, key: Any, version: int = 0, value: Any = None) -> Raw:
    return encode_coordinator_record(CoordinatorRecord(record_type, key, version, value))


A = IDS[0]
OFFSET_KEY = OffsetCommitKey(group=A, topic="t", partition=0)
CLASSIC_GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=1,
    protocol="range",
    leader="m",
    members=[
        GroupMetadataValue.Member(
            member_id="m", client_id="c", client_host="h", session_timeout=1000, subscription=b"", assignment=b""
        )
    ],
)
MEMBER = ConsumerGroupMemberMetadataValue(
    client_id="c", client_host="h", subscribed_topic_names=["t"], rebalance_timeout_ms=1000
)
OF_CLASSIC_GROUP = raw(2, GroupMetadataKey(group=A), 3, CLASSIC_GROUP)
OF_MEMBER = raw(5, GroupMemberKey(group_id=A, member_id="m"), 0, MEMBER)
OF_EPOCH = raw(3, GroupKey(group_id=A), 0, ConsumerGroupMetadataValue(epoch=3))
SOME_PARTITIONS = [TopicPartitions(topic_id=Uuid(bytes(15) + b"\1"), partitions=[0, 1])]
OF_TARGET = raw(
    7, GroupMemberKey(group_id=A, member_id="m"), 0, GroupTargetAssignmentMemberValue(topic_partitions=SOME_PARTITIONS)
)
OF_TARGET_EPOCH = raw(6, GroupKey(group_id=A), 0, GroupTargetAssignmentMetadataValue(assignment_epoch=3))
OF_ASSIGNMENT = raw(
    8,
    GroupMemberKey(group_id=A, member_id="m"),
    0,
    ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=3,
        previous_member_epoch=2,
        state=1,
        assigned_partitions=[
            ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions(
                topic_id=each.topic_id, partitions=each.partitions
            )
            for each in SOME_PARTITIONS
        ],
    ),
)
OF_PATTERN = raw(
    16,
    RegularExpressionKey(group_id=A, regular_expression="t.*"),
    0,
    ConsumerGroupRegularExpressionValue(topics=["t"], version=1, timestamp=1),
)
UNREADABLE: dict[str, tuple[list[Raw], int]] = {
    "no key": ([(b"", b"x")], -1),
    "a key of one byte": ([(b"\0", None)], -1),
    "a key that ends within its group": ([(b"\0\1\0\5ab", None)], 1),
    "a value of one byte": ([(raw(1, OFFSET_KEY)[0], b"\0")], 1),
    "a value in a version that does not exist": ([(raw(1, OFFSET_KEY)[0], b"\x00\x63abc")], 1),
    "a value that ends too early": ([(raw(1, OFFSET_KEY)[0], b"\0\1\0\0")], 1),
    "a value that counts more members than it has": (
        [(raw(2, GroupMetadataKey(group=A))[0], b"\0\3\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\x7f\xff\xff\xff")],
        2,
    ),
    "a member of a consumer group in a classic group": ([OF_CLASSIC_GROUP, OF_MEMBER], 5),
    "the epoch of a consumer group in a classic group": ([OF_CLASSIC_GROUP, OF_EPOCH], 3),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", UNREADABLE)
def test_a_record_that_cannot_be_replayed_fails_its_partition_and_nothing_else(name: str) -> None:
    records, record_type = UNREADABLE[name]
    lone = node_with_internal_topics()
    assert commit(lone, IDS[0], 3) == commit(lone, IDS[1], 4) == ErrorCode.NONE
    write(lone, TopicPartition(GROUP_TOPIC, 0), records)
    again = restarted(lone)
    assert committed(again, IDS[0]) == commit(again, IDS[0], 5) == ErrorCode.NOT_COORDINATOR
    assert committed(again, IDS[1]) == 4
    assert commit(again, IDS[1], 6) == ErrorCode.NONE
    [failure] = failures(again)
    assert (failure["topic"], failure["partition"], failure["record_type"]) == (GROUP_TOPIC, 0, record_type)
    assert failure["offset"] == len(records) and "cannot be replayed" in failure["state"]
    assert (shards(again, "failed"), shards(again, "active")) == (1, 1)


def test_the_next_leader_tries_again() -> None:
    lone = node_with_internal_topics()
    write(lone, TopicPartition(GROUP_TOPIC, 0), [OF_CLASSIC_GROUP, OF_EPOCH])
    again = restarted(lone)
    runtime = again.broker.groups.runtime
    assert runtime.states[State.FAILED] == 1
    runtime.lead(0, runtime._contexts[0].epoch + 1, again.now)
    again.run(10)
    assert len(failures(again)) == 2
    again.broker.replicas.delete_records(TopicPartition(GROUP_TOPIC, 0), 2)
    runtime.lead(0, runtime._contexts[0].epoch + 1, again.now)
    again.run(10)
    assert runtime.states[State.ACTIVE] == 2


ODD: dict[str, list[Raw]] = {
    "an offset of type 0": [raw(0, OFFSET_KEY, 0, LegacyOffsetCommitValue(offset=7, metadata="", commit_timestamp=0))],
    "an offset of type 0 and its tombstone": [
        raw(0, OFFSET_KEY, 0, LegacyOffsetCommitValue(offset=7, metadata="", commit_timestamp=0)),
        raw(0, OFFSET_KEY),
        raw(1, OFFSET_KEY, 1, OffsetCommitValue(offset=7, metadata="", commit_timestamp=0, expire_timestamp=1 << 62)),
    ],
    "a text that is no UTF-8": [
        (b"\0\2\0\2\xff\xfe", None),
        raw(1, OFFSET_KEY, 3, OffsetCommitValue(offset=7, metadata="", commit_timestamp=0)),
    ],
    "types that are not known": [
        (b"\x7f\xff" + b"?" * 20, b"?"),
        (b"\x7f\xff", None),
        (b"\x80\x00", None),
        raw(1, OFFSET_KEY, 3, OffsetCommitValue(offset=7, metadata="", commit_timestamp=0)),
    ],
    "a member's records without its group, in the wrong order": [
        (OF_MEMBER[0], None),
        OF_MEMBER,
        (OF_EPOCH[0], None),
        (OF_MEMBER[0], None),
        raw(1, OFFSET_KEY, 4, OffsetCommitValue(offset=7, metadata="", commit_timestamp=0)),
    ],
}


@pytest.mark.costly
@pytest.mark.parametrize("name", ODD)
def test_records_of_other_releases_are_read_or_skipped(name: str) -> None:
    lone = node_with_internal_topics()
    write(lone, TopicPartition(GROUP_TOPIC, 0), ODD[name])
    again = restarted(lone)
    assert committed(again, A) == 7
    assert not failures(again)
    skipped = [event.fields for event in again.journal.events if event.name == "unknown_record_type"]
    types = [(each["offset"], each["record_type"]) for each in skipped if each["topic"] == GROUP_TOPIC]
    assert types == ([(0, 32767), (2, -32768)] if "not known" in name else [])


TRANSACTION = TransactionLogValue(
    producer_id=5,
    producer_epoch=0,
    transaction_timeout_ms=1000,
    transaction_status=9,
    transaction_partitions=[],
    transaction_last_update_timestamp_ms=0,
    transaction_start_timestamp_ms=0,
)


@pytest.mark.parametrize(
    "record", [(b"\0", None), raw(0, TransactionLogKey(transactional_id=A), 0, TRANSACTION), (b"\0\0\0\1\xff", b"")]
)
def test_a_transaction_that_cannot_be_replayed_fails_its_partition_and_nothing_else(record: Raw) -> None:
    lone = node_with_internal_topics()
    write(lone, TopicPartition(TRANSACTION_TOPIC, 0), [record])
    again = restarted(lone)
    assert producer_error(again, IDS[0]) == ErrorCode.NOT_COORDINATOR
    assert producer_error(again, IDS[1]) == ErrorCode.NONE
    assert [failure["topic"] for failure in failures(again)] == [TRANSACTION_TOPIC]


def append_control(lone: LoneNode, place: TopicPartition, key: bytes) -> None:
    """What only a later release of Kafka writes: a control batch with this key, and a value that says nothing."""
    builder = RecordBatchBuilder(control=True)
    builder.append(0, key, b"?")
    partition = lone.broker.replicas.partitions[place]
    partition.log.append_as_leader(RecordBatch(builder.build()), partition.leader_epoch, AppendOrigin.COORDINATOR)


@pytest.mark.parametrize("topic", [GROUP_TOPIC, TRANSACTION_TOPIC])
def test_control_records_of_types_that_are_not_known_are_skipped(topic: str) -> None:
    lone = node_with_internal_topics()
    assert commit(lone, A, 7) == producer_error(lone, A) == ErrorCode.NONE
    for kind in (7, 32767, -1):
        append_control(lone, TopicPartition(topic, 0), struct.pack(">hh", 3, kind))
    append_control(lone, TopicPartition(topic, 0), struct.pack(">hh", 0, 2))  # known, and nothing to a coordinator
    again = restarted(lone)
    assert committed(again, A) == 7 and producer_error(again, A) == ErrorCode.NONE
    assert not failures(again)
    skipped = [event.fields for event in again.journal.events if event.name == "unknown_record_type"]
    assert [(each["topic"], each["record_type"]) for each in skipped] == [(topic, 7), (topic, 32767), (topic, -1)]


@pytest.mark.parametrize("key", [b"", b"\0\0\0", b"\xff\xff\0\1"])
def test_a_control_record_without_a_type_fails_its_partition(key: bytes) -> None:
    lone = node_with_internal_topics()
    append_control(lone, TopicPartition(GROUP_TOPIC, 0), key)
    again = restarted(lone)
    assert committed(again, IDS[0]) == ErrorCode.NOT_COORDINATOR and committed(again, IDS[1]) == -1
    assert [failure["record_type"] for failure in failures(again)] == [-1]


# --- an attack --------------------------------------------------------------------------------------------------------


def random_record(random: Random, types: Sequence[int], valid: Sequence[Raw]) -> Raw:
    """A record of a coordinator, or its tombstone, or one with a few bytes changed, or any bytes."""
    key, value = random.choice(valid)
    dice = random.random()
    if dice < 0.5:
        return key, value if dice < 0.35 else None
    if dice < 0.75:
        return damaged(random, key), None if value is None else damaged(random, value)
    made = bytearray(random.choice(types).to_bytes(2, "big"))
    for _ in range(random.randrange(4)):
        made += random.choice([b"\0", b"\0\1a", b"\0\2ab", b"\xff\xff", random.randbytes(random.randrange(9))])
    version = random.choice([0, 1, 2, 3, 4, 5, -1]).to_bytes(2, "big", signed=True)
    return bytes(made), version + random.randbytes(random.choice([0, 1, 4, 8, 30, 60]))


def damaged(random: Random, data: bytes) -> bytes:
    """The same with a byte that is changed, left out or doubled, mostly after the type."""
    place = random.randrange(random.choice([0, 2, 2]), len(data))
    middle = random.choice([b"", data[place : place + 1] * 2, random.randbytes(1), b"\0", b"\x7f", b"\xff"])
    return data[:place] + middle + data[place + 1 :]


def attack(seed: int, logs: int) -> None:
    """A random log in each partition of both topics but the last. The node starts, and its last partitions work."""
    random = Random(f"internal records {seed}")
    lone = node_with_internal_topics(partitions=logs + 1)
    transactions = [
        raw(0, TransactionLogKey(transactional_id=A), 0, TRANSACTION.replace(transaction_status=state))
        for state in range(6)
    ]
    offset = raw(1, OFFSET_KEY, 3, OffsetCommitValue(offset=7, metadata="", commit_timestamp=0))
    groups = [OF_CLASSIC_GROUP, OF_MEMBER, OF_EPOCH, OF_TARGET, OF_TARGET_EPOCH, OF_ASSIGNMENT, OF_PATTERN, offset]
    for topic, known, valid in (
        (GROUP_TOPIC, [*GROUP_RECORDS, 9, 99], groups),
        (TRANSACTION_TOPIC, [*TRANSACTION_RECORDS, 9, 99], transactions),
    ):
        for number in range(logs):
            for _ in range(random.choice([1, 1, 2])):
                records = [random_record(random, known, valid) for _ in range(random.choice([1, 2, 4]))]
                write(lone, TopicPartition(topic, number), records)
    again = restarted(lone)
    good = next(name for name in map(str, range(10_000)) if partition_for(name, logs + 1) == logs)
    assert commit(again, good, 5) == producer_error(again, good) == ErrorCode.NONE
    assert committed(again, good) == 5
    for number in range(50):
        assert commit(again, str(number), 5) in ErrorCode
    again.run(2000)
    assert committed(again, good) == 5
    for runtime in (again.broker.groups.runtime, again.broker.transactions.runtime):
        assert runtime.states[State.FAILED] > logs // 20 and runtime.states[State.ACTIVE] > logs // 20


@pytest.mark.costly
def test_random_records_of_the_internal_topics_do_not_keep_a_node_from_its_start() -> None:
    attack(0, 100)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 20))
def test_many_random_records_of_the_internal_topics_do_not_keep_a_node_from_its_start(seed: int) -> None:
    attack(seed, 100)


def test_a_coordinator_loads_its_log_again_when_it_finds_that_a_client_has_written_there() -> None:
    """Its memory lacks what the client wrote. It finds out at its next append, as in Kafka."""
    lone = node_with_internal_topics()
    other = next(name for name in map(str, range(100)) if partition_for(name, PARTITIONS) == 0)
    assert commit(lone, A, 1) is ErrorCode.NONE
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=0)
    key = OffsetCommitKey(group=other, topic="t", partition=0)
    write(lone, TopicPartition(GROUP_TOPIC, 0), [raw(1, key, 4, value)])
    assert committed(lone, other) == -1
    assert commit(lone, A, 2) is ErrorCode.NOT_COORDINATOR
    lone.run(100)
    assert [committed(lone, other), committed(lone, A)] == [7, 2]
    assert commit(lone, A, 3) is ErrorCode.NONE
