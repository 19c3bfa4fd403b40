"""EndTxn: what a producer's wish to commit or abort means in each state.

Up to transaction.version 1 the epoch stays the same, so a repeated EndTxn looks like the first one; it is answered by
the state that it finds::

    state            commit           abort
    EMPTY            invalid          invalid
    ONGOING          decide           decide
    COMPLETE_COMMIT  is decided       invalid
    COMPLETE_ABORT   invalid          is decided

With transaction.version 2 (KIP-890) each end raises the epoch. A producer that has no answer repeats its EndTxn with
the epoch that it had: one less than ours (*again*), or 32,766 of its previous producer id while ours is 0. With the
present epoch it means the next transaction, and may abort it even if it has no partition (*now*)::

    state            commit again   commit now     abort again   abort now
    EMPTY            fenced         invalid        fenced        decide
    ONGOING          fenced         decide         fenced        decide
    COMPLETE_COMMIT  is decided     invalid        invalid       decide
    COMPLETE_ABORT   invalid        invalid        is decided    decide

*invalid* is INVALID_TXN_STATE, *fenced* PRODUCER_FENCED. The largest epoch is for fencing: no producer is given it, or
may end anything with it. (Kafka gives it to a producer that repeats an abort. No record can then end its next
transaction, which would need an epoch above.)

While the markers of an end are being written (PREPARE_COMMIT, PREPARE_ABORT), every EndTxn is answered with
CONCURRENT_TRANSACTIONS, whatever id and epoch it names: the producer of the next transaction has them already. (Kafka
looks at the pending transition before it looks at anything else.)

Follows kafka.coordinator.transaction.TransactionCoordinator.endTransaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.coordinator.transaction.state import (
    FIRST_WITH_EPOCH_BUMP,
    LARGEST_EPOCH,
    TransactionMetadata,
    TransactionState,
)

_S = TransactionState


class Decision(Enum):
    """What there is to do for an EndTxn that is not refused."""

    DECIDE = "write the decision"
    IS_DECIDED = "this very decision is complete: answer as it was answered"


_DECIDE, _IS_DECIDED = Decision.DECIDE, Decision.IS_DECIDED
_INVALID, _FENCED = ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED
Outcome = Decision | ErrorCode

WITHOUT_EPOCH_BUMP: Mapping[TransactionState, tuple[Outcome, Outcome]] = {
    # state: (commit, abort)
    _S.EMPTY: (_INVALID, _INVALID),
    _S.ONGOING: (_DECIDE, _DECIDE),
    _S.COMPLETE_COMMIT: (_IS_DECIDED, _INVALID),
    _S.COMPLETE_ABORT: (_INVALID, _IS_DECIDED),
}
WITH_EPOCH_BUMP: Mapping[TransactionState, tuple[Outcome, Outcome, Outcome, Outcome]] = {
    # state: (commit again, commit now, abort again, abort now)
    _S.EMPTY: (_FENCED, _INVALID, _FENCED, _DECIDE),
    _S.ONGOING: (_FENCED, _DECIDE, _FENCED, _DECIDE),
    _S.COMPLETE_COMMIT: (_IS_DECIDED, _INVALID, _INVALID, _DECIDE),
    _S.COMPLETE_ABORT: (_INVALID, _INVALID, _IS_DECIDED, _DECIDE),
}


def decide(
    found: TransactionMetadata, producer_id: int, epoch: int, is_commit: bool, client_transaction_version: int
) -> Decision:
    """What to do about this EndTxn; KafkaError says why it is refused."""
    if found.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_bumped = client_transaction_version >= FIRST_WITH_EPOCH_BUMP
    outcome = (_with_bump if is_bumped else _without_bump)(found, producer_id, epoch, is_commit)
    if isinstance(outcome, ErrorCode):
        wish = "commit" if is_commit else "abort"
        state, has_epoch = found.state.title, found.producer_epoch
        raise KafkaError(outcome, f"to {wish} with epoch {epoch} while the transaction is {state} in epoch {has_epoch}")
    return outcome


def _without_bump(found: TransactionMetadata, producer_id: int, epoch: int, is_commit: bool) -> Outcome:
    if found.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if found.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    on_commit, on_abort = WITHOUT_EPOCH_BUMP[found.state]
    return on_commit if is_commit else on_abort


def _with_bump(found: TransactionMetadata, producer_id: int, epoch: int, is_commit: bool) -> Outcome:
    is_after_rotation = (
        found.previous_producer_id == producer_id and epoch == LARGEST_EPOCH - 1 and found.producer_epoch == 0
    )
    if found.producer_id != producer_id and not is_after_rotation:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_again = is_after_rotation or found.producer_epoch == epoch + 1
    if found.producer_epoch == LARGEST_EPOCH and not is_after_rotation:  # the coordinator has fenced the last epoch
        return ErrorCode.PRODUCER_FENCED
    if not is_again and found.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    commit_again, commit_now, abort_again, abort_now = WITH_EPOCH_BUMP[found.state]
    if is_commit:
        return commit_again if is_again else commit_now
    return abort_again if is_again else abort_now
