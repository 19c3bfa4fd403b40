"""Bugs in Raft: votes, and what the quorum takes for committed.

Each takes one of the promises away on which Election Safety and Leader Completeness rest.
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.common.types import ReplicaKey
from pykraft.raft import election
from pykraft.raft.leader_state import LeaderState
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.raft.quorum_state import QuorumState, Unattached
from pykraft.raft.replica import RaftReplica
from pykraft.sim.bugs.planting import bug, put
from pykraft.storage.disk.filesystem import FileSystem


@bug
def a_vote_for_a_stale_log() -> None:
    """A voter does not look at the candidate's log."""
    put(ReplicatedLog, "is_up_to_date", lambda self, candidate: True)


@bug
def a_vote_forgotten_after_granting() -> None:
    """A voter says yes, and does not remember to whom."""

    def give_vote(self: QuorumState, candidate: ReplicaKey, now: int) -> None:
        if isinstance(self.role, Unattached):
            self._become(replace(self.role, election_deadline=self._election_deadline(now)))

    put(QuorumState, "give_vote", give_vote)


@bug
def a_vote_answered_before_its_flush() -> None:
    """A voter's election state is written, and not synced."""

    def replace_file(filesystem: FileSystem, path: str, data: bytes) -> None:
        if filesystem.exists(path):
            filesystem.remove(path)
        file = filesystem.open(path)
        file.append(data)
        file.close()

    put(election, "replace_file", replace_file)


@bug
def a_fetch_answered_before_its_flush() -> None:
    """A voter's next fetch says that it has records which are not on its disk."""

    def append_fetched(self: RaftReplica, data: memoryview) -> None:
        if self.log.append_as_follower(data):
            self.control_records.update()
            self.trace("metadata_append", end=self.log.end_offset, epoch=self.log.last_epoch)

    put(RaftReplica, "append_fetched", append_fetched)


@bug
def a_majority_that_is_one_voter_short() -> None:
    """The metadata log's high watermark is what all but a majority have."""

    def update(self: LeaderState) -> bool:
        ends = sorted((-1 if p.end_offset is None else p.end_offset for p in self.voters.values()), reverse=True)
        reached = ends[max(0, len(ends) // 2 - 1)]
        if reached <= max(self.epoch_start_offset, self.high_watermark or 0):
            return False
        self.high_watermark = reached
        return True

    put(LeaderState, "_update_high_watermark", update)
