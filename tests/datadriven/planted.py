"""Bugs put into the nodes on purpose: for each script the rule that it is about, broken.

A script that passes with its rule broken is no test. So each bug here names the script that must notice it, and a line
that the dialogue then has once more than the script: the harm, in the words of the dialogue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pykraft.broker.replication import fetching
from pykraft.broker.replication.alter_partition import AlterPartitionManager
from pykraft.broker.replication.partition import IsrProposal, IsrState, Partition
from pykraft.broker.replication.replica_fetcher import ReplicaFetcher
from pykraft.common.core import Promise
from pykraft.common.types import OffsetAndEpoch
from pykraft.controller.controller import Outcome, QuorumController
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.raft import service, voter_updates
from pykraft.raft.leader_state import LeaderState
from pykraft.raft.log.replicated_log import ReplicatedLog, Validation, Verdict
from pykraft.raft.log.state_machine import ControlRecords
from pykraft.raft.log.voters import KRaftVersionHistory
from pykraft.raft.quorum_state import Prospective, grants_vote

Patch = pytest.MonkeyPatch


class Bug(NamedTuple):
    """A broken rule. `plant` breaks it until the patch is undone."""

    name: str
    script: str
    harm: str
    plant: Callable[[Patch], None]


BUGS: list[Bug] = []


def bug(script: str, harm: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """The script that must notice it, and the line by which it does."""

    def add(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS.append(Bug(plant.__name__, script, harm, plant))
        return plant

    return add


# --- replication ------------------------------------------------------------------------------------------------------


@bug("retried_isr_proposal", "0-8 acknowledged; leader 2 LACKS 0-8")
def a_retry_that_reads_the_broker_epochs_again(patch: Patch) -> None:
    """What the leader sends again names the process that fetches by now."""
    make_request = AlterPartitionManager._request

    def request(self: AlterPartitionManager, proposals: Any) -> Any:
        fresh = [
            proposal._replace(
                isr=tuple(
                    (n, followers[n].broker_epoch if n in (followers := proposal.partition.followers) else -1)
                    for n, _ in proposal.isr
                )
            )
            for proposal in proposals
        ]
        return make_request(self, fresh)

    patch.setattr(AlterPartitionManager, "_request", request)


@bug("joining_below_the_leader_epoch", "0-4 acknowledged; leader 3 LACKS 4")
def a_follower_that_joins_at_the_high_watermark(patch: Patch) -> None:
    """What KAFKA-7128 was: a new leader's high watermark is all that a follower has to reach."""
    propose_expansion = Partition.propose_expansion

    def propose(self: Partition, replica: int) -> IsrProposal | None:
        start, self.leader_epoch_start = self.leader_epoch_start, 0
        proposal = propose_expansion(self, replica)
        self.leader_epoch_start = start
        return proposal

    patch.setattr(Partition, "propose_expansion", propose)


@bug("fast_failovers", "   log 0-1@0 2-3@1 4@5 5@3 6@7, high watermark 7")
def a_leader_that_compares_offsets_alone(patch: Patch) -> None:
    """What KIP-279 was: an epoch that the leader does not have counts as the largest smaller one."""

    def diverging_end(partition: Partition, place: fetching.FetchPlace) -> OffsetAndEpoch | None:
        end = partition.log.end_offset_for(place.last_fetched_epoch)
        return end if end is not None and end.offset < place.offset else None

    patch.setattr(fetching, "diverging_end", diverging_end)


@bug("truncation_by_epoch", "0-2 acknowledged; leader 3 LACKS 0-2")
def a_follower_that_truncates_to_its_high_watermark(patch: Patch) -> None:
    """What KIP-101 was: a follower of a new leader keeps only what it knows to be committed."""
    add = ReplicaFetcher.add

    def truncate_and_add(self: ReplicaFetcher, partition: Partition) -> None:
        partition.log.truncate_to(partition.log.high_watermark)
        add(self, partition)

    patch.setattr(ReplicaFetcher, "add", truncate_and_add)


@bug("fenced_fetches", "1  leads in leader epoch 2, ISR 1, 2")
def a_leader_that_does_not_compare_leader_epochs(patch: Patch) -> None:
    """A fetch of any leadership is answered."""
    check_leader = Partition.check_leader
    patch.setattr(Partition, "check_leader", lambda self, current_leader_epoch=-1: check_leader(self))


@bug("fenced_fetches", "   log 0-4@0 5@3, high watermark 6, followers 1 at 6")
def a_leader_that_does_not_compare_broker_epochs(patch: Patch) -> None:
    """A fetch of any process of that broker counts."""
    record_fetch = Partition.record_fetch

    def record(self: Partition, replica: int, offset: int, broker_epoch: int, now: int, log_start: int = -1) -> bool:
        return record_fetch(self, replica, offset, -1, now, log_start)

    patch.setattr(Partition, "record_fetch", record)


@bug("isr_shrinks_and_grows", "   log 0-3@0, high watermark 4, followers 2 at 4, 3 at 3")
def a_shrink_that_counts_before_the_controller_agrees(patch: Patch) -> None:
    """Members that the leader has proposed to leave out are not waited for any more."""

    def maximal(self: IsrState) -> frozenset[int]:
        return self.wanted if self.is_in_flight else self.isr

    patch.setattr(IsrState, "maximal", property(maximal))


@bug("isr_shrinks_and_grows", "   log 0-4@0, high watermark 5, followers 2 at 5, 3 at 4")
def a_growth_that_counts_only_when_the_controller_has_agreed(patch: Patch) -> None:
    """A follower that the leader has proposed to take in is not waited for yet."""
    patch.setattr(IsrState, "maximal", property(lambda self: self.isr))
    patch.setattr(Partition, "_may_join", lambda self, follower: not self.isr_state.is_in_flight)


@bug("recreated_topic", "0 acknowledged; leader 2 LACKS 0")
def an_answer_that_is_matched_by_name_and_leader_epoch(patch: Patch) -> None:
    """A follower does not compare whose log it has asked for, nor from which offset."""

    def is_current(self: ReplicaFetcher, followed: Any, asked: Any) -> bool:
        return asked is not None and asked.leader_epoch == followed.partition.leader_epoch

    patch.setattr(ReplicaFetcher, "_is_current", is_current)


# --- the quorum -------------------------------------------------------------------------------------------------------


@bug("figure_8", "   log 0-3@1 4@3, high watermark 4, applied values 7")
def a_leader_that_counts_replicas_of_older_epochs(patch: Patch) -> None:
    """What figure 8 of the Raft paper warns of: a record of any epoch that a majority has is committed."""

    def update(self: LeaderState) -> bool:
        ends = sorted((-1 if p.end_offset is None else p.end_offset for p in self.voters.values()), reverse=True)
        reached = ends[len(ends) // 2]
        if reached <= (self.high_watermark or 0):
            return False
        self.high_watermark = reached
        return True

    patch.setattr(LeaderState, "_update_high_watermark", update)


@bug("prospective_votes_once", "3  is leader in epoch 1")
def a_prospective_that_forgets_its_vote(patch: Patch) -> None:
    """A prospective votes for every candidate with a log as good as its own."""

    def grants(role: Any, candidate: Any, log_is_up_to_date: bool, pre_vote: bool) -> bool:
        if isinstance(role, Prospective):
            return log_is_up_to_date
        return grants_vote(role, candidate, log_is_up_to_date, pre_vote)

    patch.setattr(service, "grants_vote", grants)


@bug("uncommitted_tail", "101 -> client  CreateTopics: a is made")
def a_controller_that_answers_before_the_commit(patch: Patch) -> None:
    """A change is promised as soon as its records are in the controller's own log."""
    write = QuorumController._write

    def write_and_answer(self: QuorumController, plan: Any, now: int) -> Promise[Outcome]:
        promise = write(self, plan, now)
        return promise if promise.kept else Promise.of(self._waiting.pop().outcome)

    patch.setattr(QuorumController, "_write", write_and_answer)


@bug("uncommitted_tail", "   log 0-14@1, high watermark 13")
def a_leader_that_takes_every_shorter_log_for_a_prefix_of_its_own(patch: Patch) -> None:
    """A voter's tail of another epoch is not noticed, and never truncated, if the leader's log is as long."""
    judge = ReplicatedLog.validate

    def validate(self: ReplicatedLog, offset: int, epoch: int) -> Validation:
        if offset <= self.end_offset:
            return Validation(Verdict.VALID, OffsetAndEpoch(offset, epoch))
        return judge(self, offset, epoch)

    patch.setattr(ReplicatedLog, "validate", validate)


# --- kraft.version ----------------------------------------------------------------------------------------------------


@bug("upgrade_of_kraft_version", "   kraft.version 1, voters with directory ids 1")
def a_leader_that_does_not_wait_for_its_voters(patch: Patch) -> None:
    """The level is raised by whatever the leader knows of the voters."""
    patch.setattr(voter_updates, "_supports", lambda voter, level: True)


@bug("lost_upgrade_of_kraft_version", "   kraft.version 1, voters with directory ids none")
def a_level_that_outlives_its_record(patch: Patch) -> None:
    """A truncated log keeps the level that its last record had set."""
    patch.setattr(KRaftVersionHistory, "truncate_to", lambda self, end_offset: None)


@bug("kept_upgrade_of_kraft_version", "   kraft.version 0, voters with directory ids 1, 2, 3")
def a_level_that_waits_for_its_commit(patch: Patch) -> None:
    """A replica that has the batch is at the new level only when it knows that it is committed."""

    def kraft_version(self: ControlRecords) -> int:
        return self._versions.before(self._log.high_watermark)

    patch.setattr(ControlRecords, "kraft_version", property(kraft_version))


# --- elections --------------------------------------------------------------------------------------------------------


@bug("unclean_loss", "0-4 acknowledged; leader 2 LACKS 3-4")
def an_unclean_election_that_no_setting_allows(patch: Patch) -> None:
    """A partition without a live member of its ISR gets another leader at once."""
    patch.setattr(ReplicationControl, "allows_unclean_election", lambda self, image, topic: True)


@bug("eligible_leader_replicas", "0-4 acknowledged; leader 2 LACKS 3-4")
def an_eligible_replica_that_need_not_prove_anything(patch: Patch) -> None:
    """A broker that comes back stays in the ELR, whatever has become of its disk."""

    def plan_broker_replaced(self: ReplicationControl, image: Any, broker_id: int, is_clean: bool) -> Any:
        return self.plan_broker_gone(image, broker_id)

    patch.setattr(ReplicationControl, "plan_broker_replaced", plan_broker_replaced)
