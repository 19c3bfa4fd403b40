"""What the bytes of a record mean: text, or a record of one of Kafka's own logs.

A decoder returns the texts to print for key and value, None for what is not printed. In place of a record that cannot
be read the dump prints the error, and goes on: the tool is there for broken logs.

Follows kafka.tools.DumpLogSegments and its MessageParsers.
"""

import re
import struct
from collections.abc import Callable
from typing import Any

from pykraft.common.errors import CorruptRecordError, ProtocolError
from pykraft.protocol.as_json import as_json, json_text
from pykraft.protocol.messages.control import ControlRecordType, EndTxnMarker, decode_control_record
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    CoordinatorRecord,
    GroupMetadataValue,
    RecordTypes,
    UnknownRecordTypeError,
    decode_coordinator_record,
)
from pykraft.protocol.messages.records import decode_metadata_record
from pykraft.protocol.schema import Message
from pykraft.records.record import Record

Decoder = Callable[[Record], tuple[str | None, str | None]]

_CONSUMER_PROTOCOL = "consumer"
_CONTROL_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")
_CONTROL_NAMES = {
    ControlRecordType.LEADER_CHANGE: "LeaderChange:",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlRecordType.KRAFT_VERSION: "KRaftVersion",
    ControlRecordType.KRAFT_VOTERS: "KRaftVoters",
}


def decode_text(record: Record) -> tuple[str | None, str | None]:
    """Key and value as UTF-8."""
    return _text(record.key), _text(record.value)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def control_record_text(record: Record) -> str:
    """What a control record says."""
    key = record.key or b""
    number = _CONTROL_KEY.unpack_from(key)[1] if len(key) >= _CONTROL_KEY.size else -1
    if number not in set(ControlRecordType):
        return f"controlType: UNKNOWN({number})"
    try:
        kind, content = decode_control_record(key, record.value or b"")
    except ProtocolError as error:
        raise CorruptRecordError(f"the control record at offset {record.offset} cannot be read: {error}") from None
    if isinstance(content, EndTxnMarker):
        return f"endTxnMarker: {kind.name} coordinatorEpoch: {content.coordinator_epoch}"
    return f"{_CONTROL_NAMES[kind]} {json_text(as_json(content, content.version))}"


# --- the metadata log -------------------------------------------------------------------------------------------------


def decode_cluster_metadata(record: Record) -> tuple[str | None, str | None]:
    """A record of the metadata log; it has no key."""
    try:
        content, version = decode_metadata_record(record.value or b"")
    except ProtocolError as error:
        return None, f"Error at {record.offset}, skipping. {error}"
    kind = re.sub("(?<!^)([A-Z])", r"_\1", type(content).__name__).upper()
    return None, json_text({"type": kind, "version": version, "data": as_json(content, version)})


# --- the coordinators' logs -------------------------------------------------------------------------------------------


def decode_group_record(record: Record) -> tuple[str | None, str | None]:
    """A record of ``__consumer_offsets``."""
    return _coordinator_record(GROUP_RECORDS, record)


def decode_transaction_record(record: Record) -> tuple[str | None, str | None]:
    """A record of ``__transaction_state``."""
    return _coordinator_record(TRANSACTION_RECORDS, record)


def _coordinator_record(types: RecordTypes, record: Record) -> tuple[str | None, str | None]:
    if record.key is None:
        raise CorruptRecordError(
            f"the record at offset {record.offset} has no key, so it is none of the log that this decoder is for"
        )
    try:
        found = decode_coordinator_record(types, record.key, record.value)
    except UnknownRecordTypeError as error:
        return f"Unknown record type {error.record_type} at offset {record.offset}, skipping.", None
    except ProtocolError as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    key = json_text({"type": str(found.record_type), "data": as_json(found.key, 0)})
    return key, "<DELETE>" if found.value is None else _coordinator_value(found)


def _coordinator_value(record: CoordinatorRecord) -> str:
    assert record.value is not None
    assert record.version is not None
    data = as_json(record.value, record.version)
    if isinstance(record.value, GroupMetadataValue) and record.value.protocol_type == _CONSUMER_PROTOCOL:
        for member, shown in zip(record.value.members, data["members"], strict=True):
            _open_up(shown, "subscription", member.subscription, ConsumerProtocolSubscription)
            _open_up(shown, "assignment", member.assignment, ConsumerProtocolAssignment)
    return json_text({"version": str(record.version), "data": data})


def _open_up(shown: dict[str, Any], name: str, data: bytes, message: type[Message]) -> None:
    """Show bytes as the message that consumers put there; or as the bytes that they are, if it is something else."""
    if len(data) < _VERSION.size:
        return
    version = min(_VERSION.unpack_from(data)[0], message.versions[1])  # later ones only add fields at the end
    try:
        shown[name] = as_json(message.decode(data, version, _VERSION.size), version)
    except ProtocolError:
        return
