"""Which settings topics have, as far as this node's own copy of the metadata log tells.

A broker opens its logs before it hears of any controller: it registers when they are open. But to open a log it takes
settings: how dense its indexes are and how large, whether a gap in it may come from compaction. The node's own copy of
the metadata log tells them, as they were when the node was last there. That copy may be old, and its end may not be
decided, so they serve for this alone. What may be deleted or compacted is judged by settings that are decided, and not
before those are known (`broker.Broker`).

Apache Kafka registers first, and opens its logs when it has caught up with the metadata.
"""

from pykraft.metadata.image import MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.protocol.messages.records import (
    FRAME_VERSION,
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_metadata_record,
)
from pykraft.raft.log.listener import CommittedBatch
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.raft.log.state_machine import CommitReader
from pykraft.records.batch import RecordBatch

_KINDS = (
    *(ConfigRecord, TopicRecord, RemoveTopicRecord),
    *(BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord),
)
_FRAMES = tuple(bytes([FRAME_VERSION, kind.record_key]) for kind in _KINDS)
"""How the values of these records begin."""


def stored_settings(log: ReplicatedLog) -> MetadataImage:
    """An image of topics' names and of all settings, and of nothing else."""
    loader = MetadataLoader()
    CommitReader(log, loader, _settings_in).deliver(log.end_offset)
    return loader.image


def _settings_in(batch: RecordBatch) -> CommittedBatch:
    """The batch with no other records than these."""
    values = [] if batch.is_control else [record.value or b"" for record in batch.records()]
    records = [decode_metadata_record(value)[0] for value in values if value.startswith(_FRAMES)]
    return CommittedBatch(batch.base_offset, batch.last_offset, batch.partition_leader_epoch, 0, records)
