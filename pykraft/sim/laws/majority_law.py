"""What the metadata quorum takes for committed is on the disks of a majority of the voters, synced.

A voter is an id and a disk. One whose disk was lost counts with what it had on that disk until then, under that disk's
directory id. What its node has on the next disk counts only when that is a voter of its own.

And a leader takes nothing for committed before a record of its own epoch is.
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Protocol

from pykraft.broker.node import Node
from pykraft.common.types import ReplicaKey
from pykraft.raft.quorum_state import Leader
from pykraft.sim.laws.invariants import CommittedLog, ReplicaLog, require
from pykraft.sim.world.hosts import SimulatedNode


class SeenLog(Protocol):
    """What is known of one life of one node."""

    metadata: ReplicaLog
    durable_end: int
    """When it is over: up to here the metadata log was on the disk, synced."""


class MajorityLaw:
    """The law for one run."""

    def __init__(
        self, nodes: Mapping[int, SimulatedNode], seen: Mapping[int, SeenLog], committed: CommittedLog
    ) -> None:
        self._nodes = nodes
        self._seen = seen
        self._committed = committed
        self.lost: dict[ReplicaKey, SeenLog] = {}
        """What was on each disk that is no more."""

    def check(self, node: Node) -> None:
        """This node has just been the first to know that something is committed."""
        history, high_watermark = node.raft.replica.control_records.history, self._committed.end
        sets = [history.latest.keys]
        if history.latest_offset >= high_watermark:  # perhaps appended after this was committed, in the same step
            sets.append(history.before(history.latest_offset).keys)
        holders = [voter for voter in sorted({*sets[0], *sets[-1]}) if self._holds_committed(voter)]
        voters = sets[0]
        require(
            any(2 * len([voter for voter in each if voter in holders]) > len(each) for each in sets),
            f"node {node.config.node_id} takes the metadata log up to {self._committed.end} for committed; of "
            f"{len(voters)} voters {[voter.id for voter in holders]} have it on their disks",
        )

    @staticmethod
    def check_leader(node: Node, log: ReplicaLog, high_watermark: int) -> None:
        """The high watermark has risen. A majority may have records of an earlier epoch, and the next leader may
        replace them all the same until one of the present epoch follows them (section 5.4.2 of Raft's paper)."""
        role = node.raft.replica.quorum.role
        if isinstance(role, Leader):
            epoch = log.epochs[bisect_left(log.ends, high_watermark)]
            require(
                epoch == role.epoch,
                f"node {node.config.node_id}, which leads in epoch {role.epoch}, takes the metadata log up to "
                f"{high_watermark} for committed, where its last record is of epoch {epoch}",
            )

    def _holds_committed(self, voter: ReplicaKey) -> bool:
        lost, machine = self.lost.get(voter), self._nodes[voter.id]
        seen = self._seen.get(voter.id) if lost is None else lost
        if seen is None or self._committed.shared(seen.metadata) < len(self._committed.ends):
            return False
        is_running = lost is None and machine.node is not None
        end = durable_end(machine) if is_running else seen.durable_end
        return end >= self._committed.end


def durable_end(machine: SimulatedNode) -> int:
    """Up to which offset the metadata log of a node that runs would outlast a loss of power for sure."""
    assert machine.node is not None
    log = machine.node.raft.replica.log.unified
    for segment in log.segments:
        durable = machine.filesystem.durable_size(segment.records.path)
        if durable < segment.size:
            whole = [at.header.next_offset for at in segment.records.headers() if at.end <= durable]
            return whole[-1] if whole else segment.base_offset
    return log.log_end_offset
