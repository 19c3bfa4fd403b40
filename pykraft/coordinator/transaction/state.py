"""One transactional id: its producer, how far its transaction has come, and the record that keeps this.

::

                       InitProducerId              InitProducerId
                          ┌────┐        ┌─────────────────────────────────────┐
                          v    │        v                                     │
    (unknown) ─────────> EMPTY ┴> ONGOING ──> PREPARE_COMMIT ──> COMPLETE_COMMIT
                           │      │  ^ │                                      │
                           │      └──┘ ├────> PREPARE_ABORT ───> COMPLETE_ABORT
                           │       add │            ^                         │
                           │           v            │                         │
                           │  PREPARE_EPOCH_FENCE ──┤                         │
                           └────────────────────────┴─────────────────────────┘

ONGOING begins with the first partition (from the COMPLETE states as from EMPTY). PREPARE_* is the decision: once its
record is committed the transaction will end that way, whatever crashes. COMPLETE_* says that every partition has its
marker. PREPARE_EPOCH_FENCE raises the epoch of a producer that is timed out or replaced; it is a step on the way to
PREPARE_ABORT, and never in a record. A DEAD id has expired: what is written is a record without a value.

With transaction.version 2 (KIP-890) a producer does not always know whether it has a transaction, so an abort is also
allowed where there is none, and each end raises the epoch: nothing late gets into the next transaction. An epoch has 16
bits. The largest one is kept for fencing, so a producer at 32,766 gets a new producer id (`next_producer_id`).

The record is keyed by the transactional id. Its value has version 0 at transaction.version 0, and version 1 above.
Kafka 4.2 reads `previous_producer_id` and `next_producer_id` from it and writes neither, so there a coordinator that
moves at the exhaustion of epochs forgets the id that the producer was given. Kafka 4.4 writes both. The records are its
own, byte by byte. `last_producer_epoch` is in no record, as in Kafka: a producer that repeats an InitProducerId after
the coordinator has moved is fenced.

Follows org.apache.kafka.coordinator.transaction.{TransactionMetadata,TransactionState} and
kafka.coordinator.transaction.TransactionLog.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.types import TopicPartition, by_topic
from pykraft.protocol.messages.coordinators import CoordinatorRecord, TransactionLogKey, TransactionLogValue
from pykraft.protocol.messages.transactions import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

TRANSACTION_LOG = 0
"""The type of the records."""
LARGEST_EPOCH = (1 << 15) - 1
FIRST_WITH_EPOCH_BUMP = 2
"""The transaction.version from which on each transaction has an epoch of its own."""
_FIRST_WITH_TAGS = 1
_NO_TIME = -1


class TransactionState(Enum):
    """Where a transactional id is. The number is that of the record, the name that of DescribeTransactions."""

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    def __init__(self, number: int, title: str) -> None:
        self.number = number
        self.title = title

    @property
    def is_prepared(self) -> bool:
        """Whether the end is decided, and markers are still to be written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


_S = TransactionState
AT_REST = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""There is no transaction; an id that stays here for long expires."""
VALID_PREVIOUS_STATES: Mapping[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: AT_REST,
    _S.ONGOING: AT_REST | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: AT_REST | {_S.ONGOING, _S.PREPARE_EPOCH_FENCE},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: AT_REST,
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}
_WRITTEN = {state.number: state for state in TransactionState if state not in (_S.DEAD, _S.PREPARE_EPOCH_FENCE)}
BY_TITLE = {state.title: state for state in TransactionState}


class InvalidTransitionError(Exception):
    """The coordinator is about to do what the table does not allow: a bug."""


def is_exhausted(epoch: int) -> bool:
    """Whether a producer with this epoch needs a new producer id for the next one."""
    return epoch >= LARGEST_EPOCH - 1


@dataclass(frozen=True)
class TransactionMetadata:
    """What the coordinator knows of a transactional id. Times are of the day, in milliseconds."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    last_update_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """What the producer gets in place of its id when this transaction is complete; -1 if it keeps its own."""
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = _NO_TIME
    client_transaction_version: int = 0
    """The transaction.version by whose rules the last partition was added or the last end decided."""

    def _to(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise InvalidTransitionError(f"{self.transactional_id} is {self.state.title}, not to become {state.title}")
        return replace(self, state=state, previous_producer_id=self.producer_id, **changes)

    # --- InitProducerId -----------------------------------------------------------------------------------------------

    def raise_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> TransactionMetadata:
        """For a producer that begins (no expected epoch), or that goes on after an error with the epoch it had. One
        that repeats its request gets the same epoch again (KIP-360); KafkaError fences an older one."""
        if is_exhausted(self.producer_epoch):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"producer {self.producer_id} has no more epochs")
        epoch, last_epoch = self.producer_epoch + 1, self.producer_epoch
        if expected_epoch is None:
            last_epoch = NO_PRODUCER_EPOCH
        elif self.producer_epoch not in (NO_PRODUCER_EPOCH, expected_epoch):
            if expected_epoch != self.last_producer_epoch:
                raise KafkaError(ErrorCode.PRODUCER_FENCED, f"the epoch is {self.producer_epoch}, not {expected_epoch}")
            epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        return self._initialised(timeout_ms, now_ms, producer_epoch=epoch, last_producer_epoch=last_epoch)

    def rotate_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, keep_last_epoch: bool
    ) -> TransactionMetadata:
        """A new producer id, because the epochs of the old one are exhausted."""
        last_epoch = self.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH
        changes = {"producer_id": producer_id, "producer_epoch": 0, "last_producer_epoch": last_epoch}
        return self._initialised(timeout_ms, now_ms, **changes)

    def _initialised(self, timeout_ms: int, now_ms: int, **changes: int) -> TransactionMetadata:
        return self._to(
            TransactionState.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=_NO_TIME,
            last_update_ms=now_ms,
            **changes,
        )

    # --- a transaction ------------------------------------------------------------------------------------------------

    def add_partitions(
        self, partitions: Collection[TopicPartition], now_ms: int, client_transaction_version: int
    ) -> TransactionMetadata:
        return self._to(
            TransactionState.ONGOING,
            partitions=self.partitions.union(partitions),
            start_ms=now_ms if self.state in AT_REST else self.start_ms,
            last_update_ms=now_ms,
            client_transaction_version=client_transaction_version,
        )

    def prepare_end(
        self,
        is_commit: bool,
        client_transaction_version: int,
        now_ms: int,
        next_producer_id: int = NO_PRODUCER_ID,
    ) -> TransactionMetadata:
        """Take the decision. From transaction.version 2 on the epoch rises with it."""
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_transaction_version >= FIRST_WITH_EPOCH_BUMP:
            epoch, last_epoch = epoch + 1, epoch
        return self._to(
            TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            # An abort without a transaction needs a time at which it began all the same.
            start_ms=now_ms if self.state in AT_REST else self.start_ms,
            last_update_ms=now_ms,
            client_transaction_version=client_transaction_version,
        )

    def fence_and_abort(self, transaction_version: int, now_ms: int) -> TransactionMetadata:
        """Abort with an epoch that no producer has: the one that began the transaction can do nothing more. (Kafka's
        coordinator may let one begin in the largest epoch, and cannot end it. It keeps its epoch.)"""
        fenced = self._to(TransactionState.PREPARE_EPOCH_FENCE)
        if (
            transaction_version < FIRST_WITH_EPOCH_BUMP or self.producer_epoch == LARGEST_EPOCH
        ):  # else the end raises it
            epoch = min(self.producer_epoch + 1, LARGEST_EPOCH)
            fenced = replace(fenced, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)
            transaction_version = 0
        return fenced.prepare_end(False, transaction_version, now_ms)

    def complete(self, now_ms: int) -> TransactionMetadata:
        """Every partition has its marker."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        producer_id, epoch = self.producer_after
        return self._to(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )

    @property
    def producer_after(self) -> tuple[int, int]:
        """Of a prepared transaction: the producer id and epoch for the one after it."""
        is_bumped = self.client_transaction_version >= FIRST_WITH_EPOCH_BUMP
        if is_bumped and self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    @property
    def has_no_timeout(self) -> bool:
        """Whether an outside coordinator ends its transactions (KIP-939), in a log that Kafka wrote."""
        return self.timeout_ms == (1 << 31) - 1


# --- records ----------------------------------------------------------------------------------------------------------


def record_of(metadata: TransactionMetadata, transaction_version: int) -> CoordinatorRecord:
    """The record that keeps this, in a cluster at this transaction.version."""
    topics = by_topic(sorted(metadata.partitions))
    partitions = [TransactionLogValue.Partitions(topic=topic, partition_ids=ids) for topic, ids in topics.items()]
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.number,
        transaction_partitions=None if metadata.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_transaction_version,
    )
    version = 1 if transaction_version >= _FIRST_WITH_TAGS else 0
    return CoordinatorRecord(
        TRANSACTION_LOG, TransactionLogKey(transactional_id=metadata.transactional_id), version, value
    )


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that forgets a transactional id."""
    return CoordinatorRecord(TRANSACTION_LOG, TransactionLogKey(transactional_id=transactional_id), None, None)


def metadata_of(key: TransactionLogKey, value: TransactionLogValue) -> TransactionMetadata:
    """What a record keeps; ProtocolError if its state is none that is written."""
    state = _WRITTEN.get(value.transaction_status)
    if state is None:
        raise ProtocolError(f"{key.transactional_id} is in state {value.transaction_status}, but a record has 0 to 5")
    topics = () if state is TransactionState.EMPTY else value.transaction_partitions or ()
    return TransactionMetadata(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(TopicPartition(topic.topic, number) for topic in topics for number in topic.partition_ids),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
    )
