"""Control records: what logs say to each other between the users' records.

A control batch holds records that no consumer is shown: in the users' partitions the markers that end a transaction,
in the metadata log what Raft itself has to remember, in a snapshot its first and its last record. The key says which::

    version   int16, 0
    type      int16, a `ControlRecordType`

The value, too, begins with a version, an int16. It is the first field of each message here, and each is read in the
version that it states.

Follows org.apache.kafka.common.record.{ControlRecordType,ControlRecordUtils,EndTransactionMarker}.
"""

import struct
from enum import IntEnum

from pykraft.common.errors import ProtocolError
from pykraft.common.types import ZERO_UUID
from pykraft.protocol.schema import Array, Message, Struct, field, int16, int32, int64, string, uint16, uuid

CONTROL_RECORD_KEY_VERSION = 0
_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")


class ControlRecordType(IntEnum):
    """Which control record it is."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_TYPES = frozenset(ControlRecordType)


class EndTxnMarker(Message):
    """A transaction ended here, by commit or abort: that is in the key. The epoch of the coordinator is there so that a
    marker from one that was replaced is refused (KIP-98)."""

    version: int16 = field(default=0)
    coordinator_epoch: int32


class LeaderChangeMessage(Message, versions=(0, 1), flexible=0):
    """A new leader of the quorum: the first record of each epoch. What came before it is committed with it (KIP-595).

    Kafka 4.2 still writes version 0, without the directory ids of version 1 (KIP-853).
    """

    class Voter(Struct):
        voter_id: int32
        voter_directory_id: uuid = field(default=ZERO_UUID, since=1)

    version: int16 = field(default=0)
    leader_id: int32
    voters: Array[Voter]
    granting_voters: Array[Voter]


class KRaftVersionRecord(Message, flexible=0):
    """The rules by which the quorum runs from here on: 0, voters from the configuration; 1, from the log (KIP-853)."""

    version: int16 = field(default=0)
    kraft_version: int16


class VotersRecord(Message, flexible=0):
    """The voter set. It holds from the moment when it is appended, committed or not (KIP-853)."""

    class Voter(Struct):
        class Endpoint(Struct):
            name: string
            host: string
            port: uint16

        class KRaftVersionFeature(Struct):
            min_supported_version: int16
            max_supported_version: int16

        voter_id: int32
        voter_directory_id: uuid
        endpoints: Array[Endpoint]
        kraft_version_feature: KRaftVersionFeature

    version: int16 = field(default=0)
    voters: Array[Voter]


class SnapshotHeaderRecord(Message, flexible=0):
    """The first record of a snapshot, with the timestamp of the last record that it covers (KIP-630)."""

    version: int16 = field(default=0)
    last_contained_log_timestamp: int64


class SnapshotFooterRecord(Message, flexible=0):
    """The last record of a snapshot: without it the snapshot is not complete (KIP-630)."""

    version: int16 = field(default=0)


CONTROL_RECORDS: dict[ControlRecordType, type[Message]] = {
    ControlRecordType.ABORT: EndTxnMarker,
    ControlRecordType.COMMIT: EndTxnMarker,
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}

ControlRecord = (
    EndTxnMarker | LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)


def encode_control_record(kind: ControlRecordType, record: ControlRecord) -> tuple[bytes, bytes]:
    """(key, value) of a control record, in the version that `record.version` states."""
    assert isinstance(record, CONTROL_RECORDS[kind]), f"{kind.name} is no {type(record).__name__}"
    return _KEY.pack(CONTROL_RECORD_KEY_VERSION, kind), record.to_bytes(record.version)


def decode_control_record(
    key: bytes | bytearray | memoryview, value: bytes | bytearray | memoryview
) -> tuple[ControlRecordType, ControlRecord]:
    """(type, record) of a control record. ProtocolError if the type or the version is not known, or bytes are missing.

    A later version of the key may only add fields, so any is read as version 0; bytes after the value are ignored.
    """
    kind = decode_control_record_key(key)
    if len(value) < _VERSION.size:
        raise ProtocolError(f"the value of a control record {kind.name} has {len(value)} bytes")
    (version,) = _VERSION.unpack_from(value)
    record: ControlRecord = CONTROL_RECORDS[kind].decode(value, version)  # type: ignore[assignment]
    return kind, record


def decode_control_record_key(key: bytes | bytearray | memoryview) -> ControlRecordType:
    """Which control record has this key."""
    number = control_record_number(key)
    if number not in _TYPES:
        raise ProtocolError(f"no control record has type {number}")
    return ControlRecordType(number)


def control_record_number(key: bytes | bytearray | memoryview) -> int:
    """The type in the key of a control record, as a number that a later release may have given a meaning. ProtocolError
    if there is none."""
    if len(key) < _KEY.size:
        raise ProtocolError(f"the key of a control record has {len(key)} bytes")
    version, number = _KEY.unpack_from(key)
    if version < CONTROL_RECORD_KEY_VERSION:
        raise ProtocolError(f"the key of a control record has version {version}")
    return int(number)
