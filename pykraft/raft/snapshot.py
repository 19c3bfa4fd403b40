"""Snapshots, and files like them: the metadata at one offset, as records between a header and a footer.

::

    00000000000000000000-0000000000.checkpoint   in the metadata log's folder: who votes when the log is still empty
    bootstrap.checkpoint                         in the log directory: the first records of the cluster's metadata
    00000000000000000047-0000000003.checkpoint   a snapshot: everything before offset 47, whose last epoch is 3

The first record batch holds the header (and, for the first kind and for snapshots, Raft's own state: the kraft.version
and the voters), then batches of metadata records, and at last the footer. A file without the footer is not complete,
and is not used. The name's offset is exclusive.

Written when a node's directory is formatted. Snapshots of a running node, which let the log's beginning go, are not
built yet; reading them is.

Follows org.apache.kafka.snapshot.{Snapshots,RecordsSnapshotWriter,RecordsSnapshotReader} (KIP-630) and
org.apache.kafka.metadata.bootstrap.BootstrapDirectory.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pykraft.common.errors import KafkaError, ProtocolError
from pykraft.common.types import OffsetAndEpoch
from pykraft.protocol.messages.control import (
    ControlRecord,
    ControlRecordType,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    decode_control_record,
    encode_control_record,
)
from pykraft.raft.listener import CommittedBatch
from pykraft.raft.state_machine import committed
from pykraft.raft.voters import KRAFT_VERSION, NO_VOTERS, VoterSet
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.storage.checkpoint import DamagedFileError
from pykraft.storage.filesystem import FileSystem, parent

BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)
SNAPSHOT_SUFFIX = ".checkpoint"
_READ_ONLY = 0o400


class Snapshot(NamedTuple):
    """What such a file says."""

    voters: VoterSet
    batches: list[CommittedBatch]


def snapshot_name(snapshot: OffsetAndEpoch) -> str:
    return f"{snapshot.offset:020d}-{snapshot.epoch:010d}{SNAPSHOT_SUFFIX}"


def encode_snapshot(
    voters: VoterSet | None, values: Sequence[bytes], *, epoch: int, timestamp: int, last_timestamp: int
) -> bytes:
    """The bytes of a file with these voters (None: without Raft's own state) and these metadata records."""
    header: list[tuple[ControlRecordType, ControlRecord]] = [
        (ControlRecordType.SNAPSHOT_HEADER, SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp))
    ]
    if voters is not None:
        header.append((ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=KRAFT_VERSION)))
        header.append((ControlRecordType.KRAFT_VOTERS, voters.to_record()))
    data = _control_batch(0, epoch, timestamp, header)
    offset = len(header)
    if values:
        builder = RecordBatchBuilder(offset, leader_epoch=epoch)
        for value in values:
            builder.append(timestamp, None, value)
        data += builder.build()
        offset += len(values)
    return bytes(
        data + _control_batch(offset, epoch, timestamp, [(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord())])
    )


def _control_batch(
    offset: int, epoch: int, timestamp: int, records: Sequence[tuple[ControlRecordType, ControlRecord]]
) -> bytearray:
    builder = RecordBatchBuilder(offset, leader_epoch=epoch, control=True)
    for kind, record in records:
        builder.append(timestamp, *encode_control_record(kind, record))
    return builder.build()


def write_snapshot(filesystem: FileSystem, path: str, data: bytes) -> None:
    """Put a complete file in its place: under another name first, so that nobody takes a half one for it."""
    filesystem.write(path + ".part", data, mode=_READ_ONLY)
    filesystem.rename(path + ".part", path)
    filesystem.sync_directory(parent(path))


def read_snapshot(filesystem: FileSystem, path: str) -> Snapshot | None:
    """What the file says; None if there is none; DamagedFileError if it is not complete."""
    if not filesystem.exists(path):
        return None
    try:
        return _read(path, filesystem.read(path))
    except (KafkaError, ProtocolError, StopIteration) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error


def _read(path: str, data: bytes) -> Snapshot:
    found = list(batches(memoryview(data)))
    if len(found) < 2 or not all(batch.is_valid for batch in found) or not _ends(found[-1]):
        raise DamagedFileError(f"{path} is damaged: it has no footer, or a batch fails its checksum")
    voters = NO_VOTERS
    for record in found[0].records():
        _, message = decode_control_record(record.key or b"", record.value or b"")
        if isinstance(message, VotersRecord):
            voters = VoterSet.from_record(message)
    return Snapshot(voters, [committed(batch) for batch in found if not batch.is_control])


def _ends(batch: RecordBatch) -> bool:
    if not batch.is_control:
        return False
    record = next(batch.records())
    kind, _ = decode_control_record(record.key or b"", record.value or b"")
    return kind is ControlRecordType.SNAPSHOT_FOOTER
