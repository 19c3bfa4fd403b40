"""Bugs in transition tables: a state that follows another one too early, or counts for what it is not yet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pykraft.broker.replication.follower_state import FollowerState
from pykraft.broker.replication.partition import Partition
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.classic_groups.classic_group import ClassicGroup, ClassicState
from pykraft.coordinator.result import CoordinatorResult
from pykraft.coordinator.transaction.shard import Expected, TransactionShard
from pykraft.coordinator.transaction.state import TransactionState
from pykraft.raft.quorum_state import Candidate, QuorumState
from pykraft.sim.bugs.planting import bug, put


@bug
def a_candidate_that_does_not_raise_the_epoch() -> None:
    """A prospective becomes a candidate in the epoch that there is, in which it may have voted for another node."""

    def become_candidate(self: QuorumState, now: int) -> None:
        deadline, granted = self._election_deadline(now), frozenset([self.local.id])
        self._become(
            Candidate(epoch=max(1, self.role.epoch), voted=self.local, election_deadline=deadline, granted=granted)
        )

    put(QuorumState, "become_candidate", become_candidate)


@bug
def an_isr_that_counts_only_once_it_is_committed() -> None:
    """A leader that has proposed a larger ISR does not wait for the replica in it, though the controller may agree."""

    def must_wait_for(self: Partition, follower: FollowerState, end_offset: int, now: int) -> bool:
        return follower.broker_id in self.isr_state.isr

    put(Partition, "_must_wait_for", must_wait_for)


@bug
def a_group_that_is_stable_before_it_is_assigned() -> None:
    """A rebalance goes from its last JoinGroup to Stable, so each member syncs to what it had before."""
    begin_generation = ClassicGroup.begin_generation

    def begin(self: ClassicGroup, time_ms: int) -> None:
        begin_generation(self, time_ms)
        if self.state is ClassicState.COMPLETING_REBALANCE:
            self.state = ClassicState.STABLE

    put(ClassicGroup, "begin_generation", begin)


@bug
def a_transaction_that_begins_before_the_last_one_is_complete() -> None:
    """A coordinator adds partitions while the markers of the transaction before are still on their way."""
    add_partitions = TransactionShard.add_partitions
    complete = {
        TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
        TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
    }

    def add(
        self: TransactionShard,
        transactional_id: str,
        producer: Expected,
        partitions: Collection[TopicPartition],
        client_transaction_version: int,
    ) -> CoordinatorResult[None]:
        found = self.transactions.get(transactional_id)
        if found is not None and found.state in complete:
            self.transactions[transactional_id] = replace(found, state=complete[found.state])
        return add_partitions(self, transactional_id, producer, partitions, client_transaction_version)

    put(TransactionShard, "add_partitions", add)
