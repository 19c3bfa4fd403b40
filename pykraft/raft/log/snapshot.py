"""Snapshots, and files like them: the metadata at one offset, as records between a header and a footer.

::

    00000000000000000000-0000000000.checkpoint   in the metadata log's folder: who votes when the log is still empty
    bootstrap.checkpoint                         in the log directory: the first records of the cluster's metadata
    00000000000000000047-0000000003.checkpoint   a snapshot: everything before offset 47, whose last epoch is 3

The first record batch holds the header. At kraft.version 1 the first kind and snapshots have Raft's own state there,
too: the kraft.version and the voters; at kraft.version 0 the first kind does not exist. Then come batches of metadata
records, and at last the footer. A file without the footer is not complete, and is not used. The name's offset is
exclusive.

The first two kinds are written when a node's directory is formatted. A running node writes snapshots of its image
(`metadata.snapshot_generator`), so that the log's beginning can go, or copies one from its leader (`snapshot_fetch`).
Under its own name a file is whole and on the disk: it was written, synced and renamed. What a crash leaves of one that
was not finished ends in ``.part``, and the next start removes it.

Follows org.apache.kafka.snapshot.{Snapshots,RecordsSnapshotWriter} (KIP-630) and
org.apache.kafka.metadata.bootstrap.BootstrapDirectory.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from pykraft.common.types import OffsetAndEpoch
from pykraft.protocol.messages.control import (
    ControlRecord,
    ControlRecordType,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    encode_control_record,
)
from pykraft.raft.log.voters import VOTERS_IN_LOG, VoterSet
from pykraft.records.builder import RecordBatchBuilder
from pykraft.storage.disk.filesystem import FileSystem, parent

BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)
SNAPSHOT_SUFFIX = ".checkpoint"
PART_SUFFIX = ".part"
LEFTOVER_SUFFIXES = (f"{SNAPSHOT_SUFFIX}{PART_SUFFIX}", f"{SNAPSHOT_SUFFIX}.deleted")
"""How names end of files that were not finished, and of those that Apache Kafka was about to delete."""
BATCH_RECORDS = 1024
"""How many records of the metadata go into one batch."""
_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_READ_ONLY = 0o400


def snapshot_name(snapshot: OffsetAndEpoch) -> str:
    return f"{snapshot.offset:020d}-{snapshot.epoch:010d}{SNAPSHOT_SUFFIX}"


def snapshot_of(name: str) -> OffsetAndEpoch | None:
    """What a file of this name is a snapshot of; None if it is called otherwise."""
    found = _NAME.fullmatch(name)
    return None if found is None else OffsetAndEpoch(int(found[1]), int(found[2]))


def encode_snapshot(
    voters: VoterSet | None, values: Iterable[bytes], *, epoch: int, timestamp: int, last_timestamp: int
) -> bytes:
    """The bytes of a file with these metadata records and these voters. `voters` is None in the bootstrap.checkpoint,
    and at kraft.version 0, where voters are in no file: then nothing is in it of Raft's own state."""
    header: list[tuple[ControlRecordType, ControlRecord]] = [
        (ControlRecordType.SNAPSHOT_HEADER, SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp))
    ]
    if voters is not None:
        header.append((ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=VOTERS_IN_LOG)))
        header.append((ControlRecordType.KRAFT_VOTERS, voters.to_record()))
    data = _control_batch(0, epoch, timestamp, header)
    offset = len(header)
    left = iter(values)
    while some := list(islice(left, BATCH_RECORDS)):
        builder = RecordBatchBuilder(offset, leader_epoch=epoch)
        for value in some:
            builder.append(timestamp, None, value)
        data += builder.build()
        offset += len(some)
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
    """Put a complete file in its place: under another name first, so that no reader takes a half one for it."""
    filesystem.write(path + PART_SUFFIX, data, mode=_READ_ONLY)
    filesystem.rename(path + PART_SUFFIX, path)
    filesystem.sync_directory(parent(path))
