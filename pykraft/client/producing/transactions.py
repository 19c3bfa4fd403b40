"""The transactions of one producer: what its user may call when, and what the coordinators must hear (KIP-98).

A transactional id has a coordinator: a broker that keeps its producer id, its epoch, and the partitions of its open
transaction. A producer that begins with InitProducerId gets a higher epoch, which fences the one before; a transaction
that was open is aborted first. Then::

    begin ---> records, and offsets of a consumer group ---> commit or abort
               AddPartitionsToTxn, AddOffsetsToTxn           EndTxn
               TxnOffsetCommit

There are two protocols. With ``transaction.version`` 2 in the cluster's features (KIP-890), the partitions' leaders and
the group's coordinator add themselves to the transaction when they are written to, and EndTxn 5 answers with the next
epoch, so that nothing of this transaction gets into the next one. In older clusters the producer adds partitions and
groups before it writes, and keeps its epoch; newer versions of Produce, EndTxn and TxnOffsetCommit must not be sent.
The features are asked for at the beginning, and after each transaction that failed.

One request at a time goes to the transaction coordinator. A commit first sends what waits, and EndTxn follows when all
is acknowledged. An abort drops what waits, and EndTxn follows when all that is under way is answered. If a number of a
partition is in doubt then (see `numbering`), the old protocol needs a new epoch: InitProducerId with the present id and
epoch (KIP-360); with the new protocol it comes by itself.

An error that may pass is waited for, without end: the user's call gives up after ``max.block.ms`` and may be repeated.
Of the others there are two kinds. After an *abortable* one the transaction can only be aborted; what waits fails. After
a *fatal* one the producer is of no use any more.

Follows org.apache.kafka.clients.producer.internals.TransactionManager. Two differences: records that wait fail at the
first error, not when the user aborts; and init_transactions() can be called again after each error that is not fatal.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeVar

from pykraft.client import config as keys
from pykraft.client.api_driver import ApiDriver
from pykraft.client.consuming.commits import ConsumerGroupMetadata, Offsets
from pykraft.client.errors import (
    ProducerFencedError,
    TransactionAbortableError,
    TransactionError,
    TransactionFatalError,
)
from pykraft.client.producing.accumulator import RecordAccumulator
from pykraft.client.producing.numbering import Numbering, ProducerIdAndEpoch
from pykraft.client.producing.transaction_calls import TransactionCalls
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition

LAST_V1_PRODUCE = 11
"""From version 12 on, Produce adds the partition to the transaction."""

T = TypeVar("T")


class TransactionManagerState(Enum):
    """Where a transactional producer is, and in words what its user must do, or wait for, next."""

    UNINITIALIZED = "call init_transactions() first"
    INITIALIZING = "init_transactions() is not done yet"
    READY = "no transaction is open: call begin_transaction() first"
    IN_TRANSACTION = "a transaction is open: commit or abort it first"
    COMMITTING = "the transaction is being committed"
    ABORTING = "the transaction is being aborted"
    ABORTABLE_ERROR = "the transaction has failed: call abort_transaction()"
    FATAL_ERROR = "the producer has failed: close it"


_S = TransactionManagerState
SOURCES: Mapping[TransactionManagerState, frozenset[TransactionManagerState]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING}),
    _S.INITIALIZING: frozenset({_S.UNINITIALIZED}),
    _S.READY: frozenset({_S.INITIALIZING, _S.COMMITTING, _S.ABORTING}),
    _S.IN_TRANSACTION: frozenset({_S.READY}),
    _S.COMMITTING: frozenset({_S.IN_TRANSACTION}),
    _S.ABORTING: frozenset({_S.IN_TRANSACTION, _S.ABORTABLE_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.IN_TRANSACTION, _S.COMMITTING}),
    _S.FATAL_ERROR: frozenset(_S) - {_S.FATAL_ERROR},
}
"""For each state those that may come before it."""

_MAY_SEND = (_S.IN_TRANSACTION, _S.COMMITTING)
_HAS_FAILED = (_S.ABORTABLE_ERROR, _S.FATAL_ERROR)

_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_ABORTABLE = (
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
)
"""Errors of a coordinator after which the transaction can be aborted. All others that do not pass are fatal."""
_FATAL_FOR_PARTITIONS = (
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNSUPPORTED_VERSION,
)
"""AddPartitionsToTxn is the exception: after all errors but these the transaction can be aborted."""
_NOT_ALLOWED = (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_FATAL_FOR_A_BATCH = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNSUPPORTED_VERSION,
)
"""Errors of a partition's leader after which an abort would fail, too. After all others it is tried."""


class TransactionManager:
    """The transactions of one producer. `poll` before the sender: it says what may be sent."""

    def __init__(self, config: Config, driver: ApiDriver, accumulator: RecordAccumulator, numbering: Numbering) -> None:
        self.id: str = config[keys.TRANSACTIONAL_ID]
        self._timeout_ms: int = config[keys.TRANSACTION_TIMEOUT_MS]
        self._calls = TransactionCalls(driver, self.id)
        self._accumulator = accumulator
        self._numbering = numbering
        self.state = TransactionManagerState.UNINITIALIZED
        self.is_v2 = False
        """Whether the cluster has ``transaction.version`` 2."""
        self._error: TransactionError | None = None
        self._end: Promise[KafkaError | None] | None = None
        """Kept when what the user asked for (to initialize, commit or abort) is done."""
        self._is_started = False
        """Whether the coordinator may know of this transaction."""
        self._is_ending = False
        """EndTxn, or what follows it, is under way."""
        self._has_failed = False
        self._was_upgraded = False
        self._under_way = 0
        """How many calls are under way that belong before EndTxn."""
        self._new: dict[TopicPartition, None] = {}
        self._added: set[TopicPartition] = set()

    # --- what the user calls ------------------------------------------------------------------------------------------

    def initialize(self) -> "Promise[KafkaError | None]":
        """Get the producer id, and fence older producers. Kept with the error, or None."""
        self._enter(TransactionManagerState.INITIALIZING, "init_transactions()")
        self._end = Promise()
        end = self._end
        self._ask_for_version(lambda: self._ask_for_identity(ProducerIdAndEpoch()))
        return end

    def begin(self) -> None:
        """Begin a transaction. The coordinator hears of it with the first partition."""
        self._enter(TransactionManagerState.IN_TRANSACTION, "begin_transaction()")

    def check_open(self, what: str) -> None:
        """Raise an error if `what` needs an open transaction and there is none."""
        if self.state is not TransactionManagerState.IN_TRANSACTION:
            raise self._refusal(what)

    def add(self, topic_partition: TopicPartition) -> None:
        """A record was queued for this partition."""
        if topic_partition in self._added:
            return
        if self.is_v2:
            self._added.add(topic_partition)
            self._is_started = True
        else:
            self._new[topic_partition] = None

    def send_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata) -> "Promise[KafkaError | None]":
        """Commit these offsets of a group when the transaction commits. Kept with the error, or None."""
        self.check_open("send_offsets_to_transaction()")
        sent: Promise[KafkaError | None] = Promise()
        if not offsets:
            return Promise.of(None)
        calls, identity = self._calls, self._numbering.identity

        def commit() -> None:
            self._is_started = True
            answer = calls.commit_offsets(identity, group, offsets, self.is_v2)
            self._before_the_end(answer, "the offsets were not sent", lambda: sent.keep(None), sent)

        if self.is_v2:
            commit()
        else:
            answer = calls.add_offsets(identity, group.group_id)
            self._before_the_end(answer, "the group was not added", commit, sent)
        return sent

    def commit(self) -> "Promise[KafkaError | None]":
        """Make the transaction visible as a whole. Kept with the error, or None."""
        self._enter(TransactionManagerState.COMMITTING, "commit_transaction()")
        self._accumulator.flushes += 1
        self._end = Promise()
        return self._end

    def abort(self) -> "Promise[KafkaError | None]":
        """Undo the transaction. Kept with the error, or None."""
        self._enter(TransactionManagerState.ABORTING, "abort_transaction()")
        self._new.clear()
        self._end = Promise()
        return self._end

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """The newest producer id and epoch that the coordinator has given."""
        return self._numbering.identity

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that only the user can end."""
        return self.state in (TransactionManagerState.IN_TRANSACTION, TransactionManagerState.ABORTABLE_ERROR)

    def _refusal(self, what: str) -> Exception:
        if self._error is not None and self.state in _HAS_FAILED:
            return self._error
        return RuntimeError(f"{what} of {self.id} is not possible now: {self.state.value}")

    def _enter(self, state: TransactionManagerState, what: str) -> None:
        """Go on to this state. If the table does not allow it: the TransactionError of the present state, or
        RuntimeError."""
        if self.state not in SOURCES[state]:
            raise self._refusal(what)
        self.state = state

    # --- what the sender asks and says --------------------------------------------------------------------------------

    def allows(self, topic_partition: TopicPartition) -> bool:
        """Whether batches may be sent to this partition now."""
        return self.state in _MAY_SEND and topic_partition in self._added

    def batch_failed(self, error: KafkaError) -> KafkaError:
        """The error for the records of a batch that will never be acknowledged."""
        text = str(error)
        if error.code is ErrorCode.PRODUCER_FENCED:
            self._fail(ProducerFencedError(self.id))
        elif error.code in _FATAL_FOR_A_BATCH:
            self._fail(TransactionFatalError(error.code, f"{self.id}: {text}"))
        elif self.state in _MAY_SEND:
            self._fail(TransactionAbortableError(error.code, f"{self.id}: {text}"))
        return self._error or error

    # --- steps --------------------------------------------------------------------------------------------------------

    def poll(self, has_under_way: bool) -> None:
        """Take the next steps; `has_under_way` says whether batches were sent and not answered yet."""
        if self.state not in _MAY_SEND and self._accumulator.has_unsent:
            self._drop()
        if self._new and not self._under_way and self.state in _MAY_SEND:
            self._add_partitions()
        is_completing = self.state in (TransactionManagerState.COMMITTING, TransactionManagerState.ABORTING)
        if is_completing and not (self._is_ending or self._under_way or has_under_way or self._accumulator.has_unsent):
            self._is_ending = True
            self._end_transaction()

    def _drop(self) -> None:
        """Fail what waits: it must not be sent any more."""
        error = self._error or TransactionError(
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            f"{self.id}: the transaction was aborted before the record was acknowledged",
        )
        for batch in self._accumulator.take_all():
            self._accumulator.release(batch)
            if batch.may_be_written:
                self._numbering.given_up(batch.topic_partition)
            batch.fail(error)

    def _add_partitions(self) -> None:
        """Until transaction.version 2: the coordinator must know of a partition before it is written to."""
        added = list(self._new)
        self._new.clear()

        def then() -> None:
            self._added.update(added)
            self._is_started = True

        answer = self._calls.add_partitions(self._numbering.identity, added)

        def can_abort(code: ErrorCode) -> bool:
            return code not in _FATAL_FOR_PARTITIONS

        self._before_the_end(answer, "the partitions were not added", then, can_abort=can_abort)

    def _before_the_end(
        self,
        answer: "Promise[KafkaError | None]",
        what: str,
        then: Callable[[], None],
        outcome: "Promise[KafkaError | None] | None" = None,
        can_abort: Callable[[ErrorCode], bool] = _ABORTABLE.__contains__,
    ) -> None:
        """Go on with `then` when a call is answered, and end no transaction before; `outcome` is kept with its error.
        `can_abort` says after which errors the transaction can be aborted."""
        self._under_way += 1

        def on_answer(found: KafkaError | None) -> None:
            self._under_way -= 1
            if found is None:
                then()
                return
            error = self._refused(what, found, can_abort(found.code))
            if outcome is not None:
                outcome.keep(error)

        answer.then(on_answer)

    def _end_transaction(self) -> None:
        """EndTxn, unless the coordinator knows nothing of this transaction."""
        is_commit = self.state is TransactionManagerState.COMMITTING

        def then(identity: ProducerIdAndEpoch) -> None:
            if identity != self._numbering.identity:
                self._numbering.renumber(identity)
            self._ended()

        if self._is_started:
            answer = self._calls.end(self._numbering.identity, is_commit, self.is_v2)
            self._then(answer, f"the transaction was not {'committed' if is_commit else 'aborted'}", then)
        else:
            self._ended()

    def _ended(self) -> None:
        """The coordinator has taken the decision, or has nothing to decide."""
        if self._has_failed or self._numbering.is_doubtful:
            self._ask_for_version(self._renew_epoch)
        else:
            self._become_ready()

    def _renew_epoch(self) -> None:
        """What was sent under the present epoch may still be under way, unless EndTxn has ended it."""
        if self._numbering.is_doubtful or self._was_upgraded:
            self._ask_for_identity(self._numbering.identity)
        else:
            self._become_ready()

    def _ask_for_version(self, then: Callable[[], None]) -> None:
        def on_version(version: int) -> None:
            self._was_upgraded = version >= 2 and not self.is_v2
            self.is_v2 = version >= 2
            then()

        self._then(self._calls.transaction_version(), "the cluster's features are not known", on_version)

    def _ask_for_identity(self, present: ProducerIdAndEpoch) -> None:
        def on_identity(identity: ProducerIdAndEpoch) -> None:
            self._numbering.renumber(identity)
            self._become_ready()

        answer = self._calls.identity(self._timeout_ms, present)
        self._then(answer, "no producer id was given", on_identity)

    def _become_ready(self) -> None:
        self._end_flush()
        self.state = TransactionManagerState.READY
        self._error = None
        self._is_started = self._has_failed = self._was_upgraded = False
        self._new.clear()
        self._added.clear()
        self._settle(None)

    def _then(self, answer: "Promise[T | KafkaError]", what: str, then: Callable[[T], None]) -> None:
        """Go on with the value of an answer, or fail; unless the producer has failed meanwhile."""

        def on_answer(found: "T | KafkaError") -> None:
            if isinstance(found, KafkaError):
                is_aborting = self.state is TransactionManagerState.ABORTING
                self._refused(what, found, found.code in _ABORTABLE and not is_aborting)
            elif self.state is not TransactionManagerState.FATAL_ERROR:
                then(found)

        answer.then(on_answer)

    # --- errors -------------------------------------------------------------------------------------------------------

    def _refused(self, what: str, error: KafkaError, can_abort: bool) -> KafkaError:
        """A coordinator has refused a step for good; the error for the application. `can_abort` says whether an abort
        undoes it. (It does not undo an abort that was refused.)"""
        sentence = f"{self.id}: {what}: {error.detail or error.code.text}"
        if error.code in _FENCED:
            self._fail(ProducerFencedError(self.id))
        elif self.state is TransactionManagerState.INITIALIZING and error.code in (*_ABORTABLE, *_NOT_ALLOWED):
            self.state = TransactionManagerState.UNINITIALIZED
            again = TransactionError(error.code, f"{sentence}. Call init_transactions() again")
            self._settle(again)
            return again
        elif can_abort:
            self._fail(TransactionAbortableError(error.code, sentence))
        else:
            self._fail(TransactionFatalError(error.code, sentence))
        return self._error or error

    def _fail(self, error: TransactionError) -> None:
        """The transaction, or the producer, is of no use any more."""
        is_fatal = isinstance(error, TransactionFatalError)
        state = TransactionManagerState.FATAL_ERROR if is_fatal else TransactionManagerState.ABORTABLE_ERROR
        if self.state not in SOURCES[state]:
            return  # it has failed before, or is being aborted
        self._end_flush()
        self.state = state
        self._error = error
        self._has_failed = True
        self._settle(error)

    def _settle(self, outcome: KafkaError | None) -> None:
        self._is_ending = False
        end, self._end = self._end, None
        if end is not None:
            end.keep(outcome)

    def _end_flush(self) -> None:
        if self.state is TransactionManagerState.COMMITTING:
            self._accumulator.flushes -= 1
