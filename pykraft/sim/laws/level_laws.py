"""No record of the metadata log is newer than the cluster's level was when it was written.

A node that is as old as the level must be able to read everything. So each committed record is at most in the version
that the ``metadata.version`` before it allows (`metadata.versions`). A record that changes the level counts from the
next one on.
"""

from collections.abc import Iterable

from pykraft.metadata.versions import METADATA_VERSION, newest_version
from pykraft.protocol.messages.records import FeatureLevelRecord, decode_metadata_record
from pykraft.records.batch import RecordBatch
from pykraft.sim.laws.invariants import require


def check_record_versions(committed: Iterable[RecordBatch]) -> None:
    """`committed` is the log from its first record on."""
    level = None
    for batch in committed:
        if batch.is_control:
            continue
        for number, found in enumerate(batch.records()):
            record, version = decode_metadata_record(found.value or b"")
            require(
                level is None or version <= newest_version(record, level),
                f"record {number} of the batch at offset {batch.base_offset} is a {type(record).__name__} of version "
                f"{version}, which {METADATA_VERSION} {level} does not know",
            )
            if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
                level = record.feature_level
