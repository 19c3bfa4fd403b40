"""Who is told of what the quorum decides: the controller, and the metadata of the broker.

Follows org.apache.kafka.raft.RaftClient.Listener.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pykraft.common.types import LeaderAndEpoch, OffsetAndEpoch
from pykraft.protocol.messages.records import MetadataRecord


class CommittedBatch(NamedTuple):
    """Records that are decided. A batch of Raft's own control records comes with none: only its offsets count."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    records: Sequence[MetadataRecord]


class Listener(Protocol):
    def handle_commit(self, batch: CommittedBatch) -> None:
        """These records are decided: every listener gets every batch once, in order."""
        ...

    def handle_load_snapshot(self, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]) -> None:
        """Forget everything and begin from this state, which holds all records before the snapshot's offset. Nobody
        calls it yet: a quorum of pykraft writes no snapshots and fetches none."""
        ...

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Another leader or epoch. The new leader itself is told only when it has handled all commits before its epoch,
        so that it begins with the state that it has to lead."""
        ...
