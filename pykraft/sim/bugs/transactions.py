"""Bugs in transactions, which the histories with a bank must come upon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pykraft.broker.coordination.transaction_markers import TransactionMarkers
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.transaction.shard import Ending, TransactionShard
from pykraft.coordinator.transaction.state import TransactionMetadata, TransactionState
from pykraft.sim.bugs.planting import bug, put
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import ProducerStateManager
from pykraft.storage.transaction_index import AbortedTransaction
from pykraft.storage.verification_state import Verification


@bug
def a_marker_missing_on_one_partition() -> None:
    """A coordinator sends no marker to one partition of a transaction that has several."""
    send = TransactionMarkers.send

    def send_but_one(
        self: TransactionMarkers,
        state_partition: int,
        epoch: int,
        ending: Ending,
        on_marked: Callable[[Ending, int], None],
    ) -> None:
        places = sorted(ending.partitions)
        kept = frozenset(places[:-1] if len(places) > 1 else places)
        send(self, state_partition, epoch, ending._replace(partitions=kept), on_marked)

    put(TransactionMarkers, "send", send_but_one)


@bug
def a_commit_that_a_new_coordinator_aborts() -> None:
    """A coordinator that takes over aborts what the one before it had promised to commit."""
    on_loaded = TransactionShard.on_loaded

    def decide_again(self: TransactionShard, now: int) -> None:
        for name, each in self.transactions.items():
            if each.state is TransactionState.PREPARE_COMMIT:
                self.transactions[name] = replace(each, state=TransactionState.PREPARE_ABORT)
        on_loaded(self, now)

    put(TransactionShard, "on_loaded", decide_again)


@bug
def an_old_epoch_not_fenced() -> None:
    """A producer that takes the place of another one gets the epoch that the other one has."""

    def keep_epoch(
        self: TransactionMetadata, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> TransactionMetadata:
        return self._initialised(timeout_ms, now_ms, producer_epoch=max(0, self.producer_epoch))

    put(TransactionMetadata, "raise_epoch", keep_epoch)


@bug
def offsets_visible_before_the_marker() -> None:
    """The offsets that a transaction commits count before it is committed."""
    take_in = GroupShard.replay
    put(GroupShard, "replay", lambda self, record, producer_id: take_in(self, record, -1))


@bug
def a_last_stable_offset_one_transaction_too_far() -> None:
    """Readers of committed data read past the oldest open transaction."""

    def first_unstable_offset(self: ProducerStateManager) -> int | None:
        decided = [done.first_offset for done in self._unreplicated]
        return min(sorted([*self._open_transactions.values(), *decided])[1:], default=None)

    put(ProducerStateManager, "first_unstable_offset", property(first_unstable_offset))


@bug
def an_aborted_list_cut_short() -> None:
    """A reader is not told of the last aborted transaction."""
    found = UnifiedLog.aborted_transactions

    def all_but_one(self: UnifiedLog, offset: int, upper_bound: int) -> list[AbortedTransaction]:
        return found(self, offset, upper_bound)[:-1]

    put(UnifiedLog, "aborted_transactions", all_but_one)


@bug
def a_timeout_that_aborts_without_a_new_epoch() -> None:
    """The producer whose transaction has timed out may go on as if nothing had happened."""

    def abort(self: TransactionMetadata, transaction_version: int, now_ms: int) -> TransactionMetadata:
        return self._to(TransactionState.PREPARE_EPOCH_FENCE).prepare_end(False, 0, now_ms)

    put(TransactionMetadata, "fence_and_abort", abort)


@bug
def a_verification_skipped() -> None:
    """A leader that knows a producer appends to its transactions without asking, so a late batch opens one that no
    coordinator knows."""
    start = UnifiedLog.start_verification

    def start_for_strangers(self: UnifiedLog, producer_id: int, *arguments: Any) -> Verification | None:
        return None if producer_id in self.producer_state.producers else start(self, producer_id, *arguments)

    put(UnifiedLog, "start_verification", start_for_strangers)
    put(ProducerStateManager, "_check_verified", lambda self, batch, entry, verification: None)


@bug
def a_truncation_that_keeps_the_producers() -> None:
    """A log is truncated, and what it knows of its producers stays as it was."""

    def drop_snapshots(self: ProducerStateManager, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        self._remove_snapshots([offset for offset in self.snapshot_offsets() if offset > log_end_offset])

    put(ProducerStateManager, "truncate_and_reload", drop_snapshots)
