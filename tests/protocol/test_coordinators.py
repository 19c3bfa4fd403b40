"""The coordinators' records: Kafka's own are read and written again, and every kind comes back as it went out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykraft.common.errors import ProtocolError
from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.protocol.as_json import as_json
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    CoordinatorRecord,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordTypes,
    UnknownRecordTypeError,
    decode_coordinator_record,
    encode_coordinator_record,
)
from pykraft.protocol.messages.group_values import (
    NO_CLASSIC_METADATA,
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from pykraft.records.batch import batches
from tests.golden.dumps import DATA
from tests.protocol.values import example, versions

LOGS = {"__consumer_offsets-0": GROUP_RECORDS, "__transaction_state-0": TRANSACTION_RECORDS}
KINDS = [
    pytest.param(types, number, version, id=f"{messages.value.__name__}-{number}-v{version}")
    for types in (GROUP_RECORDS, TRANSACTION_RECORDS)
    for number, messages in types.items()
    for version in versions(messages.value)
]


def kafkas_records(folder: str) -> Iterator[tuple[bytes, bytes | None]]:
    for path in (DATA / folder).glob("*.log"):
        for batch in batches(memoryview(path.read_bytes())):
            for record in batch.records():
                assert record.key is not None
                yield record.key, record.value


@pytest.mark.parametrize("folder", LOGS)
def test_kafkas_own_records_are_written_again_to_the_same_bytes(folder: str) -> None:
    records = list(kafkas_records(folder))
    assert len(records) > 10
    for key, value in records:
        assert encode_coordinator_record(decode_coordinator_record(LOGS[folder], key, value)) == (key, value)


def test_what_consumers_put_into_a_classic_group_is_read_and_written_again() -> None:
    members = [
        member
        for key, value in kafkas_records("__consumer_offsets-0")
        if isinstance(group := decode_coordinator_record(GROUP_RECORDS, key, value).value, GroupMetadataValue)
        for member in group.members
    ]
    assert members
    for member in members:
        subscription = ConsumerProtocolSubscription.decode(member.subscription, member.subscription[1], 2)
        assert subscription.topics == ["golden-txn"]
        assert subscription.to_bytes(member.subscription[1]) == member.subscription[2:]
        assignment = ConsumerProtocolAssignment.decode(member.assignment, member.assignment[1], 2)
        assert assignment.to_bytes(member.assignment[1]) == member.assignment[2:]


@pytest.mark.parametrize(("types", "number", "version"), KINDS)
def test_every_kind_comes_back_as_it_went_out(types: RecordTypes, number: int, version: int) -> None:
    key = example(types[number].key, 0)
    for value in (example(types[number].value, version), types[number].value()):
        record = CoordinatorRecord(number, key, version, value)
        assert decode_coordinator_record(types, *encode_coordinator_record(record)) == record
    forgotten = CoordinatorRecord(number, key, None, None)
    assert decode_coordinator_record(types, *encode_coordinator_record(forgotten)) == forgotten


def test_a_tagged_structure_with_a_default_of_its_own_may_be_null() -> None:
    """The one message in which Kafka does so; the bytes are those of offset 4 of the golden log."""
    fields = {
        "instance_id": None,
        "rack_id": None,
        "client_id": "c",
        "client_host": "h",
        "subscribed_topic_names": (),
        "subscribed_topic_regex": None,
        "rebalance_timeout_ms": 0,
        "server_assignor": None,
    }
    head = bytes.fromhex("00 00 0263 0268 01 00 00000000 00")
    metadata = ClassicMemberMetadata(session_timeout_ms=7, supported_protocols=())
    for said, tagged in (
        (None, "01 00 01 00"),
        (NO_CLASSIC_METADATA, "00"),
        (metadata, "01 00 07 01 00000007 01 00"),
    ):
        message = ConsumerGroupMemberMetadataValue(**fields, classic_member_metadata=said)
        assert message.to_bytes(0) == head + bytes.fromhex(tagged)
        assert ConsumerGroupMemberMetadataValue.decode(message.to_bytes(0), 0) == message
        assert ("classicMemberMetadata" in as_json(message, 0)) == (said is not NO_CLASSIC_METADATA)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("", None, "key of a coordinator's record has 0 bytes"),
        ("0002", None, "ends too soon"),
        ("0002 0001 67", "", "value of a coordinator's record has 0 bytes"),
        ("0002 0001 67", "0005", "GroupMetadataValue has no version 5"),
        ("0002 0001 67", "0003", "ends too soon"),
    ],
)
def test_what_cannot_be_read_is_refused(key: str, value: str | None, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        decode_coordinator_record(GROUP_RECORDS, bytes.fromhex(key), None if value is None else bytes.fromhex(value))


@pytest.mark.parametrize("number", [9, 18, 24, 0x7FFF, -1])
def test_a_kind_that_is_not_known_says_its_number(number: int) -> None:
    with pytest.raises(UnknownRecordTypeError) as refused:
        decode_coordinator_record(GROUP_RECORDS, number.to_bytes(2, "big", signed=True), None)
    assert refused.value.record_type == number


@pytest.mark.parametrize("topic_id", [ZERO_UUID, Uuid(bytes(range(16)))], ids=["without an id", "with an id"])
@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("metadata", ["", "é", "x" * 200])
@pytest.mark.parametrize("offset", [0, (1 << 63) - 1])
def test_a_committed_offset_is_written_as_its_messages_say(
    topic_id: Uuid, version: int, metadata: str, offset: int
) -> None:
    key = OffsetCommitKey(group="gé", topic="t", partition=7)
    value = OffsetCommitValue(
        offset=offset, leader_epoch=-1, metadata=metadata, commit_timestamp=1 << 41, topic_id=topic_id
    )
    for _ in range(2):  # its key is kept
        encoded = encode_coordinator_record(CoordinatorRecord(1, key, version, value))
        assert encoded == (b"\0\1" + key.to_bytes(0), bytes([0, version]) + value.to_bytes(version))
    assert encode_coordinator_record(CoordinatorRecord(1, key, None, None)) == (encoded[0], None)
