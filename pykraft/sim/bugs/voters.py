"""Bugs in voters that come and go: when a change may begin, from when on it counts, and what a voter is.

Two voter sets that differ by one voter have no two majorities without a common voter. Some of these change more than
that. Others take a node for the voter that it was before its disk was lost, or do not find the voters in a snapshot.
"""

from __future__ import annotations

from pykraft.common.errors import ErrorCode
from pykraft.common.types import Node, ReplicaKey
from pykraft.raft import voter_changes
from pykraft.raft.client import RaftClient
from pykraft.raft.leader_state import LeaderState, Outcome, ReplicaProgress
from pykraft.raft.log.history import Snapshot
from pykraft.raft.log.snapshot import BOOTSTRAP_SNAPSHOT
from pykraft.raft.log.state_machine import ControlRecords
from pykraft.raft.log.voters import STATIC_VOTERS, VoterSet, VoterSetHistory
from pykraft.raft.quorum_state import Nominee, QuorumState
from pykraft.raft.replica import RaftReplica
from pykraft.raft.service import RaftService
from pykraft.sim.bugs.planting import bug, put

_FIRST_CONTROLLER = 101


@bug
def a_second_change_before_the_first_is_committed() -> None:
    """The leader waits neither for the change under way nor for the commit of the last one."""

    def obstacle(replica: RaftReplica) -> Outcome | None:
        leader = replica.leader
        assert leader is not None
        leader.change = None
        if leader.high_watermark is None or replica.control_records.kraft_version == STATIC_VOTERS:
            return Outcome(ErrorCode.REQUEST_TIMED_OUT)
        return None

    put(voter_changes, "_obstacle", obstacle)


@bug
def a_change_before_anything_of_the_epoch_is_committed() -> None:
    """A new leader changes the voters at once, as in the first Raft that was published."""

    obstacle_of = voter_changes._obstacle

    def obstacle(replica: RaftReplica) -> Outcome | None:
        leader = replica.leader
        assert leader is not None
        is_free = leader.change is None and replica.control_records.kraft_version != STATIC_VOTERS
        return None if is_free and leader.high_watermark is None else obstacle_of(replica)

    put(voter_changes, "_obstacle", obstacle)


@bug
def voters_that_hold_only_when_they_are_committed() -> None:
    """A replica goes by the last voter set that it knows to be committed."""

    def voters(self: ControlRecords) -> VoterSet:
        return self.history.before(max(self._log.high_watermark, 3))

    put(ControlRecords, "voters", property(voters))


@bug
def a_truncation_that_keeps_the_voters() -> None:
    """A replica cuts its log, and goes by the voter set that it has cut away."""

    def truncate_to(self: ControlRecords, end_offset: int) -> None:
        kept = self.history.latest
        self.history.truncate_to(end_offset)
        self._versions.truncate_to(end_offset)
        self._reader.truncate_to(end_offset)
        if self.history.latest != kept:
            self.history.add(end_offset - 1, kept)

    put(ControlRecords, "truncate_to", truncate_to)


@bug
def a_leader_that_counts_itself_after_its_removal() -> None:
    """A leader that is no voter any more counts its own log for the majority."""
    update_local = LeaderState.update_local

    def update(self: LeaderState, end_offset: int) -> bool:
        self.own_end = end_offset  # type: ignore[attr-defined]
        return update_local(self, end_offset)

    def update_high_watermark(self: LeaderState) -> bool:
        ends = [-1 if p.end_offset is None else p.end_offset for p in self.voters.values()]
        if not self.is_voter:
            ends.append(self.own_end)  # type: ignore[attr-defined]
        reached = sorted(ends, reverse=True)[len(ends) // 2]
        if reached <= max(self.epoch_start_offset, self.high_watermark or 0):
            return False
        self.high_watermark = reached
        return True

    put(LeaderState, "update_local", update)
    put(LeaderState, "_update_high_watermark", update_high_watermark)


@bug
def an_observer_that_votes_for_itself() -> None:
    """A controller stands although it is no voter, and its own vote counts."""
    is_granted = QuorumState.vote_is_granted

    def granted(self: QuorumState, nominee: Nominee) -> bool:
        return is_granted(self, nominee) or len(nominee.granted) >= self._voters().majority

    def stands(self: QuorumState) -> bool:
        return self.local.id >= _FIRST_CONTROLLER and bool(self._voters().voters)

    put(QuorumState, "is_voter", property(stands))
    put(QuorumState, "vote_is_granted", granted)


@bug
def a_removed_voter_whose_vote_counts() -> None:
    """A nominee also asks the voters that have been removed, and takes their votes."""

    def others(self: RaftClient) -> list[tuple[ReplicaKey, Node]]:
        sets = [voters for _, voters in self._replica.control_records.history._history]
        known = {key.id: (key, each) for each in sets for key in each.keys}
        found = [(key, each.node(key.id, self._replica.listener_name)) for key, each in known.values()]
        return [(key, node) for key, node in found if node is not None and key.id != self._replica.local.id]

    put(RaftClient, "_other_voters", others)
    put(QuorumState, "vote_is_granted", lambda self, nominee: len(nominee.granted) >= self._voters().majority)


@bug
def a_new_voter_whose_records_are_not_on_its_disk() -> None:
    """An observer does not sync, and what it has fetched counts as soon as it is a voter."""

    def append_fetched(self: RaftReplica, data: memoryview) -> None:
        if self.log.append_as_follower(data):
            if self.quorum.is_voter:
                self.log.sync()
            self.control_records.update()
            self.trace("metadata_append", end=self.log.end_offset, epoch=self.log.last_epoch)

    put(RaftReplica, "append_fetched", append_fetched)


@bug
def a_vote_that_another_disk_gives() -> None:
    """A node that is asked for its vote does not see whether its disk is the one that is meant."""
    put(RaftService, "_is_meant", lambda self, voter_id, directory_id: voter_id in (-1, self._replica.local.id))


@bug
def a_fetch_that_counts_for_the_disk_before() -> None:
    """A leader takes a fetch for a voter's by its node id alone, so an empty disk takes the place of the one before."""

    def progress(self: LeaderState, key: ReplicaKey, now: int) -> ReplicaProgress:
        voter = self.voters.get(key.id)
        return voter if voter is not None else self.observers.setdefault(key, ReplicaProgress(key))

    put(LeaderState, "_progress", progress)


@bug
def a_voter_on_any_disk() -> None:
    """A node takes itself for a voter by its id alone, and stands with an empty disk."""

    def is_voter(self: VoterSet, key: ReplicaKey) -> bool:
        return key.id in self.voters

    put(VoterSet, "is_voter", is_voter)


@bug
def a_snapshot_whose_voters_are_not_read() -> None:
    """A node that begins with a snapshot goes by the voters that it knew before."""

    def begin_with(self: ControlRecords, snapshot: Snapshot) -> None:
        known = self.history.latest
        begin(self, snapshot)
        if snapshot.id != BOOTSTRAP_SNAPSHOT:
            self.history = VoterSetHistory(known, self.history.latest_offset)

    begin = ControlRecords._begin_with
    put(ControlRecords, "_begin_with", begin_with)


@bug
def uncommitted_voters_that_outlast_a_copied_snapshot() -> None:
    """A replica copies a snapshot, and reads on where it was: its log had reached further than what was committed."""
    put(ControlRecords, "begin_again", ControlRecords.update)


@bug
def a_snapshot_with_the_voters_of_its_last_moment() -> None:
    """A snapshot gets the voters that hold when it is written, not those at its offset."""
    put(
        ControlRecords,
        "voters_in_log",
        lambda self, end_offset: None if self.kraft_version == STATIC_VOTERS else self.history.latest,
    )
