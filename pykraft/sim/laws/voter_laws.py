"""The laws of a quorum whose voters come and go (KIP-853).

They are checked on the files: which voters a node must go by is what its own log says, not what it has taken from it.

* **A voter set holds from when it is appended, and until it is truncated.** Every node goes by the last VotersRecord in
  its log, committed or not.
* **Two majorities of successive voter sets always meet.** Of two sets that follow each other in a log, the second has
  one voter more, or one less.
* **One change at a time.** A leader has at most one change in its log that is not committed; and makes none before a
  record of its own epoch is committed, for until then another leader's change may still be.
* **What is no voter wins nothing.** A node that stands for election, or wins it, is one of the voters in its log.
* **A removed voter's vote does not count.** Of the voters in the log of a new leader a majority has voted for it.
* **A voter is an id and a disk.** When a disk is lost, its voter votes no more: no leader of an epoch after that has
  its vote. The node comes again under another directory id, and is no voter until that one is added.
* **A snapshot has the voters that hold at its offset**, for it takes the place of the records that say so.
* **What is committed is on the disks of a majority of the voters**, those in the log of the leader that committed it
  (`majority_law`). A leader that has removed itself is none of them.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise

from pykraft.broker.node import Node
from pykraft.common.types import OffsetAndEpoch, ReplicaKey
from pykraft.protocol.messages.control import VotersRecord
from pykraft.raft.log.history import control_records, read_snapshot
from pykraft.raft.log.snapshot import BOOTSTRAP_SNAPSHOT
from pykraft.raft.log.voters import STATIC_VOTERS, VoterSet
from pykraft.raft.quorum_state import Candidate, Leader, Prospective
from pykraft.records.batch import RecordBatch
from pykraft.sim.laws.invariants import CommittedLog, ReplicaLog, require
from pykraft.sim.laws.progress import Progress

Change = tuple[int, frozenset[ReplicaKey]]
"""(offset, the voters from there on)."""


@dataclass
class _Read:
    """One node's log, as far as it was read."""

    log: ReplicaLog
    truncations: int
    changes: list[Change]
    count: int = 0
    """So many batches."""


class VoterLaws:
    """What one run's nodes know of their voters."""

    def __init__(self) -> None:
        self._read: dict[int, _Read] = {}
        """By node."""
        self._first: dict[int, frozenset[ReplicaKey]] = {}
        """By node, what its directory was formatted with."""
        self._committed = -1
        """The offset of the last change that was seen to be committed."""
        self.wiped: dict[ReplicaKey, int] = {}
        """The disks that were lost, and the last epoch that each of them knew."""
        self.added = self.removed = self.resigned = 0
        self._wiped_removed = self._back = 0

    def check(self, node: Node, log: ReplicaLog) -> None:
        """After each event on a node, when its `log` is read."""
        raft = node.raft.replica
        if raft.control_records.kraft_version == STATIC_VOTERS:
            return
        node_id = node.config.node_id
        changes = self._changes_of(node, log)
        voters = changes[-1][1]
        held = frozenset(raft.control_records.voters.keys)
        require(
            held == voters,
            f"node {node_id} goes by the voters {_ids(held)}; the last ones in its log, at offset {changes[-1][0]}, "
            f"are {_ids(voters)}",
        )
        self._check_one_at_a_time(node, changes)
        role = raft.quorum.role
        if isinstance(role, Prospective | Candidate):
            require(raft.local in voters, f"node {node_id} is {role.name.value}, and no voter of {_ids(voters)}")

    def check_elected(self, node: Node, log: ReplicaLog) -> None:
        """A node has just become the leader."""
        raft = node.raft.replica
        role = raft.quorum.role
        if raft.control_records.kraft_version == STATIC_VOTERS or not isinstance(role, Leader):
            return
        voters = self._changes_of(node, log)[-1][1]
        ids = {key.id for key in voters}
        require(raft.local in voters, f"node {raft.local.id} leads epoch {role.epoch}, and is none of {_ids(voters)}")
        require(
            2 * len(role.granted & ids) > len(ids),
            f"node {raft.local.id} leads epoch {role.epoch} with the votes of {sorted(role.granted)}, which are no "
            f"majority of {_ids(voters)}",
        )
        gone = [
            key.id for key in sorted(voters) if key.id in role.granted and self.wiped.get(key, role.epoch) < role.epoch
        ]
        require(
            not gone,
            f"node {raft.local.id} leads epoch {role.epoch} with the votes of {gone}, whose disks were lost "
            "before that epoch began",
        )

    def disks_of(self, node: Node, voter_ids: Iterable[int]) -> list[ReplicaKey]:
        """These voters of a node, each with the directory id that the node knows it by."""
        voters = node.raft.replica.control_records.voters.voters
        return [voters[each].key if each in voters else ReplicaKey(each) for each in voter_ids]

    def check_snapshot(self, node: Node, snapshot: OffsetAndEpoch, committed: CommittedLog) -> None:
        """A node has written this one, or copied it. What is before it is committed, so other logs have it, too."""
        folder = node.raft.replica.log.snapshots
        found = read_snapshot(folder.filesystem, folder.path(snapshot))
        assert found is not None
        voters: frozenset[ReplicaKey] = frozenset()
        for batch in committed.all_batches():
            for offset, message in control_records(batch) if batch.is_control else ():
                if isinstance(message, VotersRecord) and offset < snapshot.offset:
                    voters = frozenset(VoterSet.from_record(message).keys)
        held = frozenset(found.voters.keys)
        require(
            held == voters,
            f"snapshot {snapshot} of node {node.config.node_id} has the voters {_ids(held)}; those that hold at its "
            f"offset are {_ids(voters)}",
        )

    # --- disks that are lost ------------------------------------------------------------------------------------------

    def forget_disk(self, key: ReplicaKey, epoch: int) -> None:
        """A controller's disk is lost. It knew this epoch last."""
        self.wiped[key] = epoch
        self._first.pop(key.id, None)
        self._read.pop(key.id, None)

    def can_do_without(self, disks: Collection[ReplicaKey]) -> bool:
        """Whether the quorum goes on if these disks are lost besides those that are, or these voters are removed. The
        voters are those of any log that may still hold; and an addition of a lost disk may still be under way."""
        lost, sets = self.wiped.keys() | set(disks), self._sets_that_may_hold()
        return bool(sets) and all(2 * len(voters - lost) > len(voters | self.wiped.keys()) for voters in sets)

    def _sets_that_may_hold(self) -> set[frozenset[ReplicaKey]]:
        """The last one that is committed, and all after it."""
        changes = [change for read in self._read.values() for change in read.changes]
        return {voters for offset, voters in changes if offset >= self._committed}

    def _check_one_at_a_time(self, node: Node, changes: list[Change]) -> None:
        raft = node.raft.replica
        for (_, before), (offset, after) in pairwise(changes):
            require(
                len(before ^ after) == 1 or not before,
                f"node {raft.local.id}: from {_ids(before)} to {_ids(after)} at offset {offset} more than one voter "
                "comes or goes",
            )
        leader = raft.leader
        if leader is None:
            return
        high_watermark = raft.log.high_watermark
        pending = [offset for offset, _ in changes[1:] if offset >= high_watermark]
        own = [offset for offset in pending if offset > leader.epoch_start_offset]
        require(
            len(pending) <= 1 or not own,
            f"node {raft.local.id} leads epoch {leader.epoch}, and changes the voters at offsets {pending}, of which "
            f"none is committed: the high watermark is {high_watermark}",
        )
        require(
            leader.high_watermark is not None or not own,
            f"node {raft.local.id} changes the voters at offset {own}, though nothing of its epoch {leader.epoch} is "
            "committed",
        )

    def note_committed(self, node: Node, log: ReplicaLog) -> None:
        """Count the changes that are committed now."""
        changes = self._changes_of(node, log)
        for (_, before), (offset, after) in pairwise(changes):
            if self._committed < offset < node.raft.replica.log.high_watermark:
                self._committed = offset
                self.added += len(after) > len(before)
                self.removed += len(after) < len(before)
                self.resigned += node.raft.replica.local in before - after
                self._wiped_removed += bool((before - after) & self.wiped.keys())
                self._back += bool({key.id for key in after - before} & {key.id for key in self.wiped})

    def count_into(self, progress: Progress) -> None:
        """Say what has come of all this."""
        progress.voters_added, progress.voters_removed = self.added, self.removed
        progress.leaders_removed = self.resigned
        progress.wiped_voters_removed, progress.wiped_voters_back = self._wiped_removed, self._back

    def _changes_of(self, node: Node, log: ReplicaLog) -> list[Change]:
        """The voter sets in a node's log, first what its directory was formatted with."""
        node_id = node.config.node_id
        read = self._read.get(node_id)
        if read is None or read.log is not log or read.truncations != log.truncations:
            if node_id not in self._first:
                self._first[node_id] = _formatted(node)
            read = self._read[node_id] = _Read(log, log.truncations, [(-1, self._first[node_id])])
        for data in log.data[read.count :]:
            batch = RecordBatch(memoryview(data))
            for offset, message in control_records(batch) if batch.is_control else ():
                if isinstance(message, VotersRecord):
                    voters = frozenset(VoterSet.from_record(message).keys)
                    if voters != read.changes[-1][1]:
                        read.changes.append((offset, voters))
        read.count = len(log.data)
        return read.changes


def _formatted(node: Node) -> frozenset[ReplicaKey]:
    """The voters in the snapshot of an empty log; none in a directory without it."""
    folder = node.raft.replica.log.snapshots
    found = read_snapshot(folder.filesystem, folder.path(BOOTSTRAP_SNAPSHOT))
    return frozenset() if found is None else frozenset(found.voters.keys)


def _ids(voters: frozenset[ReplicaKey]) -> list[int]:
    return sorted(key.id for key in voters)
