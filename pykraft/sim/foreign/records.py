"""Record batches of strangers: sound ones, ruined ones, and records in the coordinators' topics.

A coordinator that loads reads whatever is in its partition, also what a later release, another tool or a person has
written there. Valid is: any type that Kafka knows, also of groups that pykraft does not have; types that nothing knows,
which are skipped; old versions of values; deletions of what never was. All of it is about names of the strangers' own
(`OWN_LOGGED`), which no coordinator has in memory: it is not the coordinator that has written them. A record without a
key is refused by the log, since the topic is compacted.

Each kind of group has names of its own. A name of two kinds would be an order of records that no coordinator writes,
and then Kafka does not load the partition either.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)
from pykraft.protocol.messages.group_values import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    GroupTargetAssignmentMemberValue,
    GroupTargetAssignmentMetadataValue,
)
from pykraft.protocol.schema import Message
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.sim.laws.foreign_names import OWN
from pykraft.sim.world.encoders import encode

OWN_LOGGED = f"{OWN}-logged"
"""So the names begin that are only in records."""

_MAGIC_AT, _CRC_AT = 16, 17
_UNKNOWN_TYPES = (9, 18, 24, 100, 32_767, -1)
_OFFSET, _CLASSIC = 1, 2
_CONSUMER_VALUES: Sequence[tuple[int, type[Message]]] = (
    (3, ConsumerGroupMetadataValue),
    (5, ConsumerGroupMemberMetadataValue),
    (6, GroupTargetAssignmentMetadataValue),
    (7, GroupTargetAssignmentMemberValue),
    (8, ConsumerGroupCurrentMemberAssignmentValue),
)
_OTHER_GROUPS = (*range(10, 16), 17, *range(19, 24))
_AT_REST = (0, 4, 5)
"""States of a transaction in which the coordinator has nothing to do: Empty, CompleteCommit, CompleteAbort."""

Logged = tuple[bytes | None, bytes | None]
"""Key and value."""


# --- of any topic -----------------------------------------------------------------------------------------------------


def sound(random: Random, time_ms: int, producer_id: int, epoch: int) -> bytes | None:
    """A batch that a log may take; now and then nothing at all."""
    if random.random() < 0.05:
        return random.choice((b"", None))
    is_transactional = producer_id >= 0 and random.random() < 0.5
    return _batch(random, time_ms, producer_id, epoch, random.choice((0, 0, 1, 7)), is_transactional)


def ruined(random: Random, time_ms: int) -> bytes | None:
    """What no log may take: a wrong checksum, a batch of an old format, a part of one, control records, two batches."""
    batch = _batch(random, time_ms, -1, -1, -1, False)
    match random.randrange(5):
        case 0:
            return batch[:_CRC_AT] + bytes([batch[_CRC_AT] ^ 1]) + batch[_CRC_AT + 1 :]
        case 1:
            return batch[:_MAGIC_AT] + bytes([random.choice((0, 1, 3))]) + batch[_MAGIC_AT + 1 :]
        case 2:
            return batch[: random.randrange(1, len(batch))]
        case 3:
            builder = RecordBatchBuilder(producer_id=1, producer_epoch=0, transactional=True, control=True)
            builder.append(time_ms, b"\0\0\0\1", b"\0\0\0\0\0\0")
            return bytes(builder.build())
    return batch + batch


def _batch(random: Random, time_ms: int, producer_id: int, epoch: int, sequence: int, is_transactional: bool) -> bytes:
    has_producer = producer_id >= 0
    builder = RecordBatchBuilder(
        compression=random.choice((Compression.NONE, Compression.NONE, Compression.GZIP)),
        producer_id=producer_id if has_producer else -1,
        producer_epoch=epoch if has_producer else -1,
        base_sequence=sequence if has_producer else -1,
        transactional=is_transactional,
        encode=encode,
    )
    for _ in range(random.choice((1, 1, 2))):
        key, value = random.choice((None, b"", b"k")), random.choice((None, b"", b"v" * 40))
        builder.append(random.choice((time_ms, time_ms, 0, time_ms + 10_000_000)), key, value, [("h", b"v")])
    return bytes(builder.build())


# --- of the coordinators' topics --------------------------------------------------------------------------------------


def group_batch(random: Random, time_ms: int) -> bytes:
    """Records for ``__consumer_offsets``."""
    return _of(random, time_ms, [_group_record(random) for _ in range(random.choice((1, 1, 3)))])


def transaction_batch(random: Random, time_ms: int) -> bytes:
    """Records for ``__transaction_state``."""
    return _of(random, time_ms, [_transaction_record(random) for _ in range(random.choice((1, 1, 3)))])


def _of(random: Random, time_ms: int, records: Sequence[Logged]) -> bytes:
    builder = RecordBatchBuilder(
        compression=random.choice((Compression.NONE, Compression.NONE, Compression.GZIP)), encode=encode
    )
    for key, value in records:
        builder.append(time_ms, key, value)
    return bytes(builder.build())


def _number(value: int) -> bytes:
    return value.to_bytes(2, "big", signed=True)


def _logged(record_type: int, key: Message, version: int, value: Message | None) -> Logged:
    said = None if value is None else _number(version) + value.to_bytes(version)
    return _number(record_type) + key.to_bytes(0), said


def _name(kind: str, random: Random) -> str:
    return f"{OWN_LOGGED}-{kind}-{random.randrange(4)}"


def _group_record(random: Random) -> Logged:
    match random.randrange(8):
        case 0:
            return _unknown(random, _UNKNOWN_TYPES)
        case 1:
            return random.choice(((None, b"x"), (None, None)))
        case 2 | 3:
            version = random.randrange(OffsetCommitValue.versions[1] + 1)
            value = OffsetCommitValue(offset=random.choice((0, 7, -1)), metadata="m", commit_timestamp=0)
            key = OffsetCommitKey(group=_name("offsets", random), topic="t", partition=random.choice((0, -1, 9)))
            return _logged(_OFFSET, key, version, value)
        case 4:
            version = random.randrange(GroupMetadataValue.versions[1] + 1)
            return _logged(_CLASSIC, GroupMetadataKey(group=_name("classic", random)), version, _classic(random))
        case 5:
            record_type, made = random.choice(_CONSUMER_VALUES)
            return _logged(record_type, _key_of(record_type, _name("consumer", random)), 0, made())
        case 6:
            record_type = random.choice(_OTHER_GROUPS)
            return _logged(record_type, _key_of(record_type, _name("other", random)), 0, _empty(record_type))
    record_type = random.choice([each for each in GROUP_RECORDS if each])
    return _logged(record_type, _key_of(record_type, _name("never", random)), 0, None)


def _classic(random: Random) -> GroupMetadataValue:
    if random.random() < 0.5:
        return GroupMetadataValue(
            protocol_type="consumer", generation=random.choice((0, 3)), protocol=None, leader=None, members=[]
        )
    member = GroupMetadataValue.Member(
        member_id="m",
        client_id="c",
        client_host="/h",
        rebalance_timeout=300,
        session_timeout=300,
        subscription=b"",
        assignment=b"",
    )
    return GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader="m", members=[member])


def _key_of(record_type: int, name: str) -> Message:
    key: Any = GROUP_RECORDS[record_type].key()
    for field in key.fields:
        if field.name in ("group", "group_id"):
            setattr(key, field.name, name)
        elif field.name in ("member_id", "topic", "regular_expression"):
            setattr(key, field.name, "m")
    return key  # type: ignore[no-any-return]


def _empty(record_type: int) -> Message:
    return GROUP_RECORDS[record_type].value()


def _unknown(random: Random, types: Sequence[int]) -> Logged:
    key = _number(random.choice(types)) + random.choice((b"", b"\0\3abc"))
    return key, random.choice((None, b"", b"\0\0", b"\0\5xyz"))


def _transaction_record(random: Random) -> Logged:
    key = TransactionLogKey(transactional_id=_name("id", random))
    match random.randrange(4):
        case 0:
            return _unknown(random, (1, 2, 77, -1))
        case 1:
            return _logged(0, key, 0, None)
        case 2:
            return random.choice(((None, b"x"), (None, None)))
    value = TransactionLogValue(
        producer_id=1 << 41,
        producer_epoch=random.randrange(3),
        transaction_timeout_ms=1_000,
        transaction_status=random.choice(_AT_REST),
        transaction_partitions=random.choice((None, [])),
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=-1,
    )
    return _logged(0, key, random.randrange(2), value)
