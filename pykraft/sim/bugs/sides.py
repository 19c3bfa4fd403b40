"""Bugs that show where transactions are those of group members, where clients see one side of a cut only, and where
leaders fall one after the other."""

from __future__ import annotations

import heapq
from dataclasses import replace

from pykraft.broker.replication.follower_state import UNKNOWN, FollowerState
from pykraft.broker.replication.partition import IsrProposal, Partition
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.records.batch import RecordBatch
from pykraft.records.visibility import Visibility
from pykraft.sim.bugs.planting import bug, put


@bug
def a_members_epoch_that_no_transaction_proves() -> None:
    """A coordinator takes the offsets of a transaction from any member of a consumer group, in whatever epoch."""
    validate = ConsumerGroup.validate_offset_commit

    def validate_plain(
        self: ConsumerGroup, member_id: str, instance_id: str | None, epoch: int, is_transactional: bool, version: int
    ) -> None:
        if not is_transactional:
            validate(self, member_id, instance_id, epoch, is_transactional, version)

    put(ConsumerGroup, "validate_offset_commit", validate_plain)


@bug
def an_abort_that_hides_what_its_producer_commits_next() -> None:
    """A reader that has passed over an aborted transaction passes over the next one of the same producer, too."""

    def shows(self: Visibility, batch: RecordBatch) -> bool:
        if not self._read_committed or not batch.has_producer_id:
            return not batch.is_control
        while self._aborted and self._aborted[0][0] <= batch.last_offset:
            self._aborting.add(heapq.heappop(self._aborted)[1])
        return not (batch.is_control or (batch.is_transactional and batch.producer_id in self._aborting))

    put(Visibility, "shows", shows)


@bug
def an_isr_that_shrinks_before_the_controller_agrees() -> None:
    """A leader waits no longer for a follower that it has asked the controller to leave out of the ISR."""
    propose = Partition.propose_shrinking

    def shrink(self: Partition, now: int) -> IsrProposal | None:
        proposal = propose(self, now)
        if proposal is not None:
            self.isr_state = replace(self.isr_state, isr=self.isr_state.wanted)
            self.advance_high_watermark(now)
        return proposal

    put(Partition, "propose_shrinking", shrink)


@bug
def a_follower_not_heard_yet_that_is_not_waited_for() -> None:
    """A fresh leader commits what the followers have that it has heard, though others are in sync as well."""
    must_wait_for = Partition._must_wait_for

    def must_wait(self: Partition, follower: FollowerState, end_offset: int, now: int) -> bool:
        return follower.end_offset != UNKNOWN and must_wait_for(self, follower, end_offset, now)

    put(Partition, "_must_wait_for", must_wait)
