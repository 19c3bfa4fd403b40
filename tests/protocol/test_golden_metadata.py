"""Metadata logs and snapshots that Apache Kafka wrote: each record as Kafka's own dump tool reads it, and written again
byte for byte.

The reader of record batches in this test is its own, made of a few lines: it knows uncompressed batches only, and
checks nothing.
"""

import base64
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pykraft.common.errors import ProtocolError
from pykraft.common.types import Uuid
from pykraft.protocol.messages.control import (
    ControlRecordType,
    EndTxnMarker,
    decode_control_record,
    decode_control_record_key,
    encode_control_record,
)
from pykraft.protocol.messages.records import (
    METADATA_RECORDS,
    AbortTransactionRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    FenceBrokerRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    ZkMigrationStateRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from pykraft.protocol.schema import Struct

GOLDEN = Path(__file__).parent.parent / "golden"
ONE_NODE = GOLDEN / "kafka-4.2.0-rc1-data"
THREE_NODES = GOLDEN / "kraft3/node1__cluster_metadata-0"

FILES = [
    ONE_NODE / "bootstrap.checkpoint",
    *sorted((ONE_NODE / "__cluster_metadata-0").glob("*.checkpoint")),
    *sorted((ONE_NODE / "__cluster_metadata-0").glob("*.log")),
    *sorted(THREE_NODES.glob("*.checkpoint")),
    *sorted(THREE_NODES.glob("*.log")),
]
NOT_DUMPED = THREE_NODES / "00000000000000000000-0000000000.checkpoint"


# --- the files --------------------------------------------------------------------------------------------------------


class Raw(NamedTuple):
    """A record as it lies in a batch."""

    offset: int
    control: bool
    key: bytes | None
    value: bytes


def raw_records(path: Path) -> Iterator[Raw]:
    data = path.read_bytes()
    position = 0
    while position < len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        (attributes,) = struct.unpack_from(">h", data, position + 21)
        (count,) = struct.unpack_from(">i", data, position + 57)
        assert attributes & 7 == 0, "the batch is compressed"
        at = position + 61
        for _ in range(count):
            size, at = varint(data, at)
            yield one_record(data, at, base_offset, bool(attributes & 0x20))
            at += size
        position += 12 + length
        assert at == position


def one_record(data: bytes, at: int, base_offset: int, control: bool) -> Raw:
    _, at = varint(data, at + 1)
    offset_delta, at = varint(data, at)
    key_size, at = varint(data, at)
    key = None if key_size < 0 else data[at : at + key_size]
    value_size, at = varint(data, at + max(key_size, 0))
    return Raw(base_offset + offset_delta, control, key, data[at : at + value_size])


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at


# --- the dumps --------------------------------------------------------------------------------------------------------

RECORD = re.compile(r"\| offset: (\d+) .*?headerKeys: \[\] (.*)")


def dumped(path: Path) -> dict[int, str]:
    """What the dump tool says of each record of a file, by offset."""
    readings: dict[int, str] = {}
    for dump in [*GOLDEN.glob("dump-*.txt"), GOLDEN / "kraft3/dump.txt"]:
        if (dump.parent == GOLDEN / "kraft3") == path.is_relative_to(GOLDEN / "kraft3"):
            wanted = False
            for line in dump.read_text().splitlines():
                if line.startswith("Dumping "):
                    wanted = f"/{path.relative_to(GOLDEN)}".endswith("/" + line.removeprefix("Dumping ").strip())
                elif wanted and (match := RECORD.match(line)):
                    readings[int(match[1])] = match[2]
    return readings


def assert_reads_as(message: Struct, version: int, reading: dict[str, Any]) -> None:
    """Each of the message's fields is in the dump, with this value, or is tagged and left out."""
    values = {name.lower(): value for name, value in reading.items()}
    for f in message.fields:
        if f.present(version):
            ours = getattr(message, f.name)
            name = f.name.replace("_", "")
            if f.tag is not None and name not in values:
                assert ours == f.default
                continue
            theirs = values.pop(name)
            for one, other in zip(ours, theirs, strict=True) if f.wire.array and ours is not None else [(ours, theirs)]:
                if isinstance(one, Struct):
                    assert_reads_as(one, version, other)
                else:
                    assert as_json(one) == other, f"{type(message).__name__}.{f.name}"
    assert not values, f"the dump has more: {values}"


def as_json(value: Any) -> Any:
    if isinstance(value, Uuid):
        return str(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def kind_of_record(kind: type) -> str:
    """RegisterBrokerRecord as the dump has it: REGISTER_BROKER_RECORD."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).upper()


CONTROL_NAMES = {
    "LeaderChange:": ControlRecordType.LEADER_CHANGE,
    "KRaftVersion": ControlRecordType.KRAFT_VERSION,
    "KRaftVoters": ControlRecordType.KRAFT_VOTERS,
    "SnapshotHeader": ControlRecordType.SNAPSHOT_HEADER,
    "SnapshotFooter": ControlRecordType.SNAPSHOT_FOOTER,
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_each_record_is_what_kafka_reads_and_is_written_again_byte_for_byte(path: Path) -> None:
    readings = dumped(path)
    records = list(raw_records(path))
    if path != NOT_DUMPED:
        assert [raw.offset for raw in records] == sorted(readings)
    for raw in records:
        reading = readings.get(raw.offset)
        if raw.control:
            assert_control_record(raw, reading)
        else:
            assert_metadata_record(raw, reading)


def assert_metadata_record(raw: Raw, reading: str | None) -> None:
    message, version = decode_metadata_record(raw.value)
    assert encode_metadata_record(message, version) == raw.value
    if reading is not None:
        row = json.loads(reading.removeprefix("payload: "))
        assert (kind_of_record(type(message)), version) == (row["type"], row["version"])
        assert_reads_as(message, version, row["data"])


def assert_control_record(raw: Raw, reading: str | None) -> None:
    assert raw.key is not None
    kind, message = decode_control_record(raw.key, raw.value)
    assert encode_control_record(kind, message) == (raw.key, raw.value)
    if reading is not None:
        name, _, row = reading.partition(" ")
        assert kind == CONTROL_NAMES[name]
        assert_reads_as(message, message.version, json.loads(row))


def test_the_files_hold_each_kind_of_control_record() -> None:
    records = [raw for path in FILES for raw in raw_records(path) if raw.control]
    assert {decode_control_record_key(raw.key or b"") for raw in records} == {*CONTROL_NAMES.values()}


def test_transactions_end_with_markers() -> None:
    path = ONE_NODE / "golden-txn-0/00000000000000000000.log"
    readings = dumped(path)
    markers = [raw for raw in raw_records(path) if raw.control]
    for raw in markers:
        assert raw.key is not None
        kind, message = decode_control_record(raw.key, raw.value)
        assert isinstance(message, EndTxnMarker)
        assert f"endTxnMarker: {kind.name} coordinatorEpoch: {message.coordinator_epoch}" == readings[raw.offset]
        assert encode_control_record(kind, message) == (raw.key, raw.value)
    assert [decode_control_record_key(raw.key or b"").name for raw in markers] == ["COMMIT", "ABORT"] * 2


# --- the kinds of which the files have none ---------------------------------------------------------------------------

ID = Uuid(bytes(range(16)))
ID_HEX = ID.hex()

SPELLED_OUT = [
    (UnregisterBrokerRecord(broker_id=1, broker_epoch=2), "01 01 00 00000001 0000000000000002 00"),
    (UnregisterControllerRecord(controller_id=1), "01 1d 00 00000001 00"),
    (FenceBrokerRecord(id=1, epoch=2), "01 07 00 00000001 0000000000000002 00"),
    (UnfenceBrokerRecord(id=1, epoch=2), "01 08 00 00000001 0000000000000002 00"),
    (RemoveTopicRecord(topic_id=ID), f"01 09 00 {ID_HEX} 00"),
    (
        DelegationTokenRecord(
            owner="o",
            requester="r",
            renewers=["n"],
            issue_timestamp=1,
            max_timestamp=2,
            expiration_timestamp=3,
            token_id="t",
        ),
        "01 0a 00 02 6f 02 72 02 02 6e 0000000000000001 0000000000000002 0000000000000003 02 74 00",
    ),
    (
        ClientQuotaRecord(
            entity=[ClientQuotaRecord.Entity(entity_type="user", entity_name=None)], key="k", value=1.5, remove=True
        ),
        "01 0e 00 02 05 75736572 00 00 02 6b 3ff8000000000000 01 00",
    ),
    (RemoveAccessControlEntryRecord(id=ID), f"01 13 00 {ID_HEX} 00"),
    (ZkMigrationStateRecord(zk_migration_state=3), "01 15 00 03 00"),
    (RemoveUserScramCredentialRecord(name="u", mechanism=2), "01 16 00 02 75 02 00"),
    (AbortTransactionRecord(reason="why"), "01 19 00 01 00 04 04 776879"),
    (AbortTransactionRecord(), "01 19 00 00"),
    (RemoveDelegationTokenRecord(token_id="t"), "01 1a 00 02 74 00"),
]


@pytest.mark.parametrize(
    ("record", "value"), SPELLED_OUT, ids=lambda x: type(x).__name__ if isinstance(x, Struct) else ""
)
def test_records_of_the_other_kinds_have_these_bytes(record: MetadataRecord, value: str) -> None:
    assert encode_metadata_record(record, 0) == bytes.fromhex(value)
    assert decode_metadata_record(bytes.fromhex(value)) == (record, 0)


def test_every_kind_of_record_is_in_a_file_or_spelled_out() -> None:
    records = [raw for path in FILES for raw in raw_records(path) if not raw.control]
    in_files = {type(decode_metadata_record(raw.value)[0]) for raw in records}
    assert in_files | {type(record) for record, _ in SPELLED_OUT} == {*METADATA_RECORDS.values()}


# --- what is not understood is not accepted ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "has no frame"),
        ("01", "has no frame"),
        ("0114", "has no frame"),
        ("00140000", "frames of version 0 are not known"),
        ("02140000", "frames of version 2 are not known"),
        ("01060000", "key 6 are not known"),
        ("01ff7f0000", "key 16383 are not known"),
        ("01140100", "NoOpRecord has no version 1"),
        ("011400", "ends too soon"),
        ("0114000000", "1 bytes are left after a NoOpRecord"),
        ("ffffffffffff", "more than five bytes"),
    ],
)
def test_a_metadata_record_that_is_not_understood_in_full_is_refused(value: str, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        decode_metadata_record(bytes.fromhex(value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("", "0000"),
        ("000000", "000000000000"),
        ("00000007", "0000"),
        ("ffff0000", "000000000000"),
        ("0000ffff", "000000000000"),
        ("00000000", ""),
        ("00000000", "00"),
        ("00000000", "0000000000"),
        ("00000000", "000100000000"),
        ("00000004", "ffff00"),
    ],
)
def test_a_control_record_that_is_not_understood_is_refused(key: str, value: str) -> None:
    with pytest.raises(ProtocolError):
        decode_control_record(bytes.fromhex(key), bytes.fromhex(value))


def test_a_later_version_of_a_control_records_key_is_read_as_version_0() -> None:
    assert decode_control_record_key(bytes.fromhex("00090001ffff")) == ControlRecordType.COMMIT


def test_the_keys_of_metadata_records_are_kafkas() -> None:
    assert sorted(METADATA_RECORDS) == [*range(6), *range(7, 13), 14, 15, *range(17, 30)]
