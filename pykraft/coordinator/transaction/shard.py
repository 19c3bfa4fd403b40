"""One shard of the transaction coordinator: the transactional ids whose records are in one partition of
``__transaction_state``.

A transaction's life, as this shard sees it::

    InitProducerId     EMPTY      the producer gets its id and an epoch, which fences the producer before it
    AddPartitionsToTxn ONGOING    the partitions and, as partitions of __consumer_offsets, the groups that it writes to
    EndTxn             PREPARE_*  the decision. Once this record is committed, the producer has its answer and the
                                  markers are sent to the leaders of all these partitions
    (all written)      COMPLETE_* the next transaction may begin

Every handler plans from the state as it was appended (see `coordinator.result`), and is answered once that is
committed. Kafka plans from the committed state, and answers CONCURRENT_TRANSACTIONS while an append is under way; here
the second request simply waits for the first. What must wait is the sending of markers: a decision that is not
committed yet could be lost, and the next coordinator would decide again.

After a load, prepared transactions go on sending their markers. Ongoing ones need nothing: how long they may last is
counted from a time that is in their record.

A transaction that lasts longer than its producer allowed is aborted with a new epoch, which fences that producer. So is
the transaction of a producer that another one replaces by InitProducerId; the other one is answered
CONCURRENT_TRANSACTIONS and asks again until that abort is complete.

Follows kafka.coordinator.transaction.{TransactionCoordinator,TransactionStateManager} (KIP-98, KIP-360, KIP-664,
KIP-890, KIP-994, KIP-1152).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition, by_topic
from pykraft.coordinator.result import CoordinatorResult, CoordinatorTimer
from pykraft.coordinator.transaction import config as keys
from pykraft.coordinator.transaction.ending import Decision, decide
from pykraft.coordinator.transaction.state import (
    AT_REST,
    LARGEST_EPOCH,
    TransactionMetadata,
    TransactionState,
    is_exhausted,
    metadata_of,
    record_of,
    tombstone,
)
from pykraft.protocol.messages.coordinators import CoordinatorRecord, TransactionLogKey, TransactionLogValue
from pykraft.protocol.messages.transactions import (
    DescribeTransactionsResponse,
    EndTxnResponse,
    InitProducerIdResponse,
)

_ABORT_TIMED_OUT = "abort-timed-out"
_ABORT_MORE = "abort-more"
_ABORTS_PER_TURN = 100
"""This many transactions that are timed out are aborted in one turn of the node's loop: 20 ms together."""
_REMOVE_EXPIRED = "remove-expired"


class Ending(NamedTuple):
    """A decision that is committed: what its markers say, and where they belong."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]
    decided_ms: int
    """The time of day at which it was committed."""
    decision: TransactionMetadata | None = None
    """The state that this decision is. Up to transaction.version 1 the next one may have the same id and epoch."""


class Markers(Protocol):
    """The port through which the markers of this shard's transactions are sent."""

    def send(self, ending: Ending) -> None:
        """Have the markers written, and then call the shard's `complete`."""
        ...

    def unmarked(self, transactional_id: str) -> Collection[TopicPartition] | None:
        """The partitions of a transaction whose markers are not acknowledged; None if no markers are sent for it."""
        ...

    def stop(self) -> None:
        """This broker coordinates these transactions no more."""
        ...


class Expected(NamedTuple):
    """The producer id and epoch that a producer says it has."""

    producer_id: int
    epoch: int


class TransactionShard:
    """The state machine of one partition."""

    def __init__(
        self,
        *,
        timer: CoordinatorTimer,
        config: Config,
        markers: Markers,
        transaction_version: Callable[[], int],
        take_producer_id: Callable[[int], int],
        time_ms: Callable[[], int],
    ) -> None:
        """`transaction_version` is the cluster's; `take_producer_id(now)` gives a fresh id, or raises KafkaError."""
        self._timer = timer
        self._config = config
        self._markers = markers
        self._transaction_version = transaction_version
        self._take_producer_id = take_producer_id
        self._time_ms = time_ms
        self.transactions: dict[str, TransactionMetadata] = {}

    # --- what the runtime calls ---------------------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord, producer_id: int) -> None:
        key, value = record.key, record.value
        if not isinstance(key, TransactionLogKey):
            raise ProtocolError(f"a {type(key).__name__} is no key of a transaction")
        if isinstance(value, TransactionLogValue):
            self.transactions[key.transactional_id] = metadata_of(key, value)
        else:
            self.transactions.pop(key.transactional_id, None)

    def replay_marker(self, producer_id: int, is_commit: bool) -> None:
        """There is no transaction over this topic."""

    def on_loaded(self, now: int) -> None:
        for transactional_id, metadata in sorted(self.transactions.items()):
            if metadata.state.is_prepared:
                self._send_soon(transactional_id)
        self._schedule_aborts()
        self._schedule_expiry()

    def on_unloaded(self) -> None:
        self._markers.stop()

    def _write(self, metadata: TransactionMetadata, response: Any, **fields: Any) -> CoordinatorResult[Any]:
        """Keep this. The epoch before the present one is in no record, so the state is set once more afterwards."""

        def after(now: int) -> None:
            self.transactions[metadata.transactional_id] = metadata

        record = record_of(metadata, self._transaction_version())
        return CoordinatorResult(response, [record], after, **fields)

    # --- InitProducerId -----------------------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Expected | None, now: int
    ) -> CoordinatorResult[InitProducerIdResponse]:
        """The producer id and epoch of this transactional id. KafkaError if it is not this producer's to have, or not
        yet."""
        if not 0 < timeout_ms <= self._config[keys.TRANSACTION_MAX_TIMEOUT_MS]:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"transaction.timeout.ms is {timeout_ms}")
        found = self.transactions.get(transactional_id)
        if found is None:
            found = TransactionMetadata(transactional_id, self._take_producer_id(now), timeout_ms, self._time_ms())
        if found.state.is_prepared:  # the producer may have the id already that it gets when its markers are written
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not _may_go_on(found, expected):
            raise KafkaError(ErrorCode.PRODUCER_FENCED, f"producer {expected.producer_id} was replaced")
        if found.state is TransactionState.ONGOING:
            refusal = InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
            return self._prepare(found.fence_and_abort(self._transaction_version(), self._time_ms()), refusal)
        if is_exhausted(found.producer_epoch) and (expected is None or expected.epoch == found.producer_epoch):
            made = found.rotate_producer_id(
                self._take_producer_id(now), timeout_ms, self._time_ms(), keep_last_epoch=expected is not None
            )
        else:
            made = found.raise_epoch(timeout_ms, None if expected is None else expected.epoch, self._time_ms())
        response = InitProducerIdResponse(producer_id=made.producer_id, producer_epoch=made.producer_epoch)
        return self._write(made, response)

    # --- partitions ---------------------------------------------------------------------------------------------------

    def add_partitions(
        self,
        transactional_id: str,
        producer: Expected,
        partitions: Collection[TopicPartition],
        client_transaction_version: int,
    ) -> CoordinatorResult[None]:
        """These partitions are part of the transaction; the first ones begin it. KafkaError if they cannot be."""
        present = self.transactions.get(transactional_id)
        if present is not None and present.state.is_prepared:  # this may be the producer id of the next transaction
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        found = self._of_producer(transactional_id, producer)
        if found.state is TransactionState.ONGOING and found.partitions.issuperset(partitions):
            return CoordinatorResult(None)
        return self._write(found.add_partitions(partitions, self._time_ms(), client_transaction_version), None)

    def verify_partitions(
        self, transactional_id: str, producer: Expected, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is part of the producer's transaction (KIP-890)."""
        found = self._of_producer(transactional_id, producer)
        return {
            each: ErrorCode.NONE if each in found.partitions else ErrorCode.TRANSACTION_ABORTABLE for each in partitions
        }

    def _of_producer(self, transactional_id: str, producer: Expected) -> TransactionMetadata:
        """KafkaError unless this producer may write in a transaction now."""
        found = self.transactions.get(transactional_id)
        if found is None or found.producer_id != producer.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if found.producer_epoch != producer.epoch or producer.epoch == LARGEST_EPOCH:
            raise KafkaError(ErrorCode.PRODUCER_FENCED, f"the epoch is {found.producer_epoch}, not {producer.epoch}")
        if found.state.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return found

    # --- the end ------------------------------------------------------------------------------------------------------

    def end(
        self, transactional_id: str, producer: Expected, is_commit: bool, client_transaction_version: int, now: int
    ) -> CoordinatorResult[EndTxnResponse]:
        """Decide how the transaction ends. KafkaError if that is not for this producer to say, or not now."""
        found = self.transactions.get(transactional_id)
        if found is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        decision = decide(found, producer.producer_id, producer.epoch, is_commit, client_transaction_version)
        if decision is Decision.IS_DECIDED:
            if client_transaction_version < 2:
                return CoordinatorResult(EndTxnResponse())
            return CoordinatorResult(EndTxnResponse(producer_id=found.producer_id, producer_epoch=found.producer_epoch))
        is_bumped = client_transaction_version >= 2
        fresh_id = self._take_producer_id(now) if is_bumped and is_exhausted(found.producer_epoch) else -1
        prepared = found.prepare_end(is_commit, client_transaction_version, self._time_ms(), fresh_id)
        producer_id, epoch = prepared.producer_after if is_bumped else (-1, -1)
        return self._prepare(prepared, EndTxnResponse(producer_id=producer_id, producer_epoch=epoch))

    def _prepare(self, prepared: TransactionMetadata, response: Any) -> CoordinatorResult[Any]:
        """Keep the decision, and send its markers once it is committed."""

        def on_end(error: KafkaError | None, now: int) -> None:
            if error is None:
                self._send_markers(prepared.transactional_id)
            elif self.transactions.get(prepared.transactional_id) is prepared:
                self._send_soon(prepared.transactional_id)  # it is in the log, and will be committed later

        return self._write(prepared, response, on_end=on_end)

    def _send_soon(self, transactional_id: str) -> None:
        """Send the markers once all that is in the log by now is committed."""

        def on_end(error: KafkaError | None, now: int) -> None:
            if error is None:
                self._send_markers(transactional_id)

        def plan(now: int) -> CoordinatorResult[None]:
            return CoordinatorResult(None, on_end=on_end)

        self._timer.schedule(f"markers of {transactional_id}", 0, plan)

    def _send_markers(self, transactional_id: str) -> None:
        found = self.transactions.get(transactional_id)
        if found is None or not found.state.is_prepared:
            return
        self._markers.send(
            Ending(
                transactional_id=transactional_id,
                producer_id=found.producer_id,
                producer_epoch=found.producer_epoch,
                is_commit=found.state is TransactionState.PREPARE_COMMIT,
                transaction_version=found.client_transaction_version,
                partitions=found.partitions,
                decided_ms=self._time_ms(),
                decision=found,
            )
        )

    def complete(self, ending: Ending) -> CoordinatorResult[None]:
        """Every partition has its marker."""
        found = self.transactions.get(ending.transactional_id)
        if found is None or found is not ending.decision:
            return CoordinatorResult(None)
        return self._write(found.complete(ending.decided_ms), None)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _schedule_aborts(self) -> None:
        def look(now: int) -> CoordinatorResult[None]:
            now_ms = self._time_ms()
            late = [name for name, metadata in sorted(self.transactions.items()) if _is_timed_out(metadata, now_ms)]
            self._schedule_aborts()
            return self._abort_in_turns(late)

        self._timer.schedule(_ABORT_TIMED_OUT, self._config[keys.ABORT_TIMED_OUT_INTERVAL_MS], look)

    def _abort_in_turns(self, late: Sequence[str]) -> CoordinatorResult[None]:
        """Each abort is a write of its own, so heartbeats go out between some of them and the next."""
        for name in late[:_ABORTS_PER_TURN]:
            self._timer.schedule(f"abort of {name}", 0, self._abort_timed_out(name))
        rest = late[_ABORTS_PER_TURN:]
        if rest:
            self._timer.schedule(_ABORT_MORE, 1, lambda now: self._abort_in_turns(rest))
        return CoordinatorResult(None)

    def _abort_timed_out(self, transactional_id: str) -> Callable[[int], CoordinatorResult[None]]:
        def plan(now: int) -> CoordinatorResult[None]:
            found = self.transactions.get(transactional_id)
            if found is None or not _is_timed_out(found, self._time_ms()):
                return CoordinatorResult(None)
            return self._prepare(found.fence_and_abort(self._transaction_version(), self._time_ms()), None)

        return plan

    def _schedule_expiry(self) -> None:
        def expire(now: int) -> CoordinatorResult[None]:
            result = self.expire()
            self._schedule_expiry()
            return result

        self._timer.schedule(_REMOVE_EXPIRED, self._config[keys.REMOVE_EXPIRED_INTERVAL_MS], expire)

    def expire(self) -> CoordinatorResult[None]:
        """Forget the transactional ids that were not used for long. (Kafka calls them Dead.)"""
        oldest_ms = self._time_ms() - self._config[keys.TRANSACTIONAL_ID_EXPIRATION_MS]
        old = [
            name
            for name, each in sorted(self.transactions.items())
            if each.state in AT_REST and each.last_update_ms <= oldest_ms
        ]
        return CoordinatorResult(None, [tombstone(name) for name in old], is_atomic=False)

    # --- seen from outside --------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> DescribeTransactionsResponse.TransactionState:
        """How far the transaction has come; of one that ends, the partitions that have no marker yet."""
        state_type = DescribeTransactionsResponse.TransactionState
        found = self.transactions.get(transactional_id)
        if found is None:
            return state_type(transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        unmarked = self._markers.unmarked(transactional_id)
        topics = by_topic(sorted(found.partitions if unmarked is None else unmarked))
        return state_type(
            transactional_id=transactional_id,
            transaction_state=found.state.title,
            transaction_timeout_ms=found.timeout_ms,
            transaction_start_time_ms=found.start_ms,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            topics=[state_type.Topic(topic=topic, partitions=numbers) for topic, numbers in topics.items()],
        )

    def listed(
        self,
        states: Collection[TransactionState] | None,
        producer_ids: Collection[int],
        longer_than_ms: int,
        is_wanted: Callable[[str], object],
    ) -> list[TransactionMetadata]:
        """The transactional ids that pass: None, no producer id and a negative time let all pass."""
        now_ms = self._time_ms()
        return [
            metadata
            for name, metadata in sorted(self.transactions.items())
            if (states is None or metadata.state in states)
            and (not producer_ids or metadata.producer_id in producer_ids)
            and (longer_than_ms < 0 or now_ms - metadata.start_ms > longer_than_ms)
            and is_wanted(name)
        ]


def _may_go_on(found: TransactionMetadata, expected: Expected) -> bool:
    """Whether a producer that names its producer id may have a new epoch: it is new here, or has this id, or had its
    epochs exhausted and repeats the request that got it another id. The epoch is compared later."""
    return (
        found.producer_epoch < 0
        or expected.producer_id == found.producer_id
        or (expected.producer_id == found.previous_producer_id and is_exhausted(expected.epoch))
    )


def _is_timed_out(metadata: TransactionMetadata, now_ms: int) -> bool:
    is_open = metadata.state is TransactionState.ONGOING and not metadata.has_no_timeout
    return is_open and metadata.start_ms + metadata.timeout_ms < now_ms
