"""Bugs in the replication of partitions, in fetch sessions, and in what clients are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pykraft.broker.replication import delayed, fetching, replica_manager
from pykraft.broker.replication.fetching import FetchParams, FetchPlace
from pykraft.broker.replication.partition import IsrChange, IsrProposal, Partition
from pykraft.broker.replication.replica_fetcher import ReplicaFetcher
from pykraft.broker.requests.data.fetch_sessions import FetchSession, FetchSessionCache
from pykraft.common.core import Failure
from pykraft.common.errors import ErrorCode
from pykraft.sim.bugs.planting import bug, put
from pykraft.storage.answers import Isolation
from pykraft.transport.peers import Peer

# --- replication ------------------------------------------------------------------------------------------------------


@bug
def a_high_watermark_one_replica_short() -> None:
    """The leader does not wait for one of its in-sync followers."""
    must_wait_for = Partition._must_wait_for

    def waits(self: Partition, follower: Any, end_offset: int, now: int) -> bool:
        return follower.broker_id != max(self.followers) and must_wait_for(self, follower, end_offset, now)

    put(Partition, "_must_wait_for", waits)


@bug
def an_isr_grown_before_the_follower_caught_up() -> None:
    """A leader takes any follower that fetches into the ISR."""

    def propose(self: Partition, replica: int) -> IsrProposal | None:
        follower = self.followers.get(replica)
        if follower is None or self.isr_state.is_in_flight or replica in self.isr_state.isr:
            return None
        if not self._may_join(follower):
            return None
        return self._propose(replace(self.isr_state, change=IsrChange.EXPANDING, wanted=self.isr_state.isr | {replica}))

    put(Partition, "propose_expansion", propose)


@bug
def acks_all_answered_at_the_log_end() -> None:
    """A produce with acks=all is answered as soon as the leader has appended it."""

    def replicated(self: Partition, offset: int) -> ErrorCode | None:
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    put(Partition, "replicated_up_to", replicated)


@bug
def no_truncation_on_divergence() -> None:
    """A leader does not notice that a follower's log is no prefix of its own."""
    put(fetching, "diverging_end", lambda partition, place: None)


@bug
def a_sequence_check_skipped_after_a_leader_change() -> None:
    """A new leader does not know the producers that its predecessor knew, and takes any number from them."""
    update = Partition.update

    def update_and_forget(self: Partition, *arguments: Any) -> bool:
        is_new = update(self, *arguments)
        if is_new and self.is_leader:
            self.log.producer_state.producers = {}
        return is_new

    put(Partition, "update", update_and_forget)


@bug
def a_high_watermark_that_runs_back() -> None:
    """A leader's high watermark is what its followers report, also if that is less than it was."""

    def advance(self: Partition, now: int) -> bool:
        end = self.log.log_end_offset
        waited_for = [f.end_offset for f in self.followers.values() if self._must_wait_for(f, end, now)]
        return not self.is_under_min_isr and self.log.update_high_watermark(max(0, min([end, *waited_for])))

    put(Partition, "advance_high_watermark", advance)


@bug
def a_follower_cut_to_its_high_watermark() -> None:
    """A new follower truncates its log to its high watermark, as Kafka did before KIP-101."""
    add = ReplicaFetcher.add

    def cut_and_add(self: ReplicaFetcher, partition: Partition) -> None:
        partition.log.truncate_to(partition.log.high_watermark)
        add(self, partition)

    put(ReplicaFetcher, "add", cut_and_add)


@bug
def an_answer_matched_by_name_and_leader_epoch() -> None:
    """A follower does not compare whose log it has asked for, nor from which offset."""

    def is_current(self: ReplicaFetcher, followed: Any, asked: Any) -> bool:
        return asked is not None and asked.leader_epoch == followed.partition.leader_epoch

    put(ReplicaFetcher, "_is_current", is_current)


# --- clients ----------------------------------------------------------------------------------------------------------


@bug
def a_late_answer_taken_for_the_next_one() -> None:
    """A client that has given up a request takes its late answer for that of the next request of that kind."""
    give_up = Peer._give_up

    def keep_the_connection(self: Peer, waiting: Any, now: int) -> None:
        if waiting not in self._unanswered or self._peers._is_of_node:
            give_up(self, waiting, now)
            return
        given_up = waiting.outbound

        def on_late(response: Any, then: int) -> None:
            for other in self._unanswered:
                if type(other.outbound.request) is type(given_up.request):
                    deceived = other.outbound
                    other.outbound = deceived._replace(on_response=lambda response, then: None)
                    deceived.on_response(response, then)
                    return

        waiting.outbound = given_up._replace(on_response=on_late)
        given_up.on_response(Failure.TIMED_OUT, now)

    put(Peer, "_give_up", keep_the_connection)


# --- fetch sessions ---------------------------------------------------------------------------------------------------


@bug
def a_session_that_forgets_a_changed_partition() -> None:
    """A partition that a reader names again, with another offset, falls out of its session."""
    update = FetchSession.update

    def update_and_forget(self: FetchSession, wanted: Mapping[Any, Any], forgotten: Iterable[Any]) -> None:
        changed = [asked for asked in wanted if asked in self.partitions]
        update(self, wanted, [*forgotten, *changed])

    put(FetchSession, "update", update_and_forget)


@bug
def a_session_evicted_while_in_use() -> None:
    """The partitions of a session make room for another one's, and its reader does not hear of it."""

    def make_room(self: FetchSessionCache, is_follower: bool, size: int, now: int) -> bool:
        if not self._has_room(size) and self._sessions:
            evicted = next(iter(self._sessions.values()))
            evicted.update({}, list(evicted.partitions))
            return True
        return self._has_room(size)

    put(FetchSessionCache, "_make_room", make_room)


# --- the nearest replica ----------------------------------------------------------------------------------------------


@bug
def a_follower_that_serves_what_is_not_committed() -> None:
    """A follower gives consumers all that it has; only its leader knows how much of it is committed."""

    def serve(give: Callable[..., Any]) -> Callable[..., Any]:
        def given(partition: Partition, place: FetchPlace, params: FetchParams, *rest: Any, **named: Any) -> Any:
            all_there_is = params._replace(isolation=Isolation.LOG_END)
            return give(partition, place, params if partition.is_leader else all_there_is, *rest, **named)

        return given

    put(replica_manager, "read_partition", serve(fetching.read_partition))
    put(delayed, "available_bytes", serve(fetching.available_bytes))
