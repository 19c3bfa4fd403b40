"""Listeners get what the quorum commits: the metadata of a node, and through them its broker and its controller.

Follows org.apache.kafka.raft.RaftClient.Listener.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pykraft.common.core import Steps
from pykraft.common.types import LeaderAndEpoch, OffsetAndEpoch
from pykraft.protocol.messages.records import MetadataRecord


class CommittedBatch(NamedTuple):
    """Records that are committed. A batch of Raft's own control records comes with none: only its offsets count."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    records: Sequence[MetadataRecord]
    size: int = 0
    """In bytes, in the log."""


class Listener(Protocol):
    def handle_commit(self, batch: CommittedBatch) -> Steps[None] | None:
        """These records are committed: every listener gets every batch once, in order. What takes long is returned as
        steps; the next batch comes when they are done."""
        ...

    def handle_load_snapshot(self, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]) -> Steps[None] | None:
        """Take up this state: it replaces all records before the snapshot's offset, and what it does not mention is
        removed. The offsets of its batches are places in the file. A quorum's first snapshot is of an empty log."""
        ...

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Another leader or epoch. The new leader itself hears of it only when it has handled all commits before its
        epoch, so that it begins with the state that it has to lead."""
        ...
