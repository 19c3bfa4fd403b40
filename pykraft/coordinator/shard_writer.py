"""What the shards of a coordinator write: from a plan to the answer, through a batch that gathers a turn's decisions.

A write plans on the shard's state, which includes everything that was planned before it. What it decides is replayed at
once, and joins the shard's *open batch*. The batch is *closed*, that is appended to the partition, when the node's turn
comes to the coordinator's room. So all requests of a turn share one append, and their answers leave together::

    request 1   plan  encode  replay  join ─┐
    request 2   plan  encode  replay  join ─┤   close: one append  ...  committed: answer 1, 2, 3
    request 3   plan  (no records)    join ─┘

A response without records joins, too: its plan may have seen what is in the batch.

`linger_ms` says how long a batch stays open. ADAPTIVE (-1) is until the end of the turn. Whatever was there to be
handled is in, and nothing waits for what may come. If nothing else waits to be handled, there is nothing to gather: the
records are appended at once, and then replayed. With 0 every write is. A larger number makes larger batches and later
answers. A batch is closed before that

* when the next records may not fit: the partition takes at most ``max.message.bytes``;
* before records of a transaction, and before a marker: each is a batch of its own, in the order of the log.

Closing answers nothing by itself. It may happen between a plan and its append, and what an answer leads to may plan
again. The answers are given in the room's poll (`answer_committed`).

When the log does not take a batch
----------------------------------
The shard has replayed what will never be in the log, and a shard cannot go back. So it is dropped and loaded again from
the log. Every write of the batch gets the log's error, in the words of a coordinator's client. Kafka rolls its timeline
tables back to the batch's base offset instead. There, what was appended before goes on waiting; here it gets
NOT_COORDINATOR. Records that are too large by themselves are found before they are replayed, and only their own write
fails.

When a client has written to the partition
------------------------------------------
A client named ``__admin_client`` may. The shard's memory lacks what it wrote. The coordinator finds out at its next
append, which ends at a later offset than it should. Then the shard is loaded again, and the write gets NOT_COORDINATOR,
though its records are in the log. After a marker nothing is compared. Kafka does both, too.

Follows org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime (its CoordinatorContext).
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from pykraft.common.core import FOREVER, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.rooms import Room
from pykraft.common.timer import Timer
from pykraft.coordinator.ports import PartitionLog, Shard
from pykraft.coordinator.replay import NO_PRODUCER, Change
from pykraft.coordinator.result import (
    CoordinatorResult,
    TransactionalWriter,
    TransactionEnd,
    seen_by_client,
    split,
)
from pykraft.coordinator.shard_context import Context, EncodedRecord, OpenBatch, Operation, Waiting
from pykraft.protocol.messages.coordinators import encode_coordinator_record

ADAPTIVE = -1
"""A batch is open until the end of the turn."""


class _OutOfSyncError(KafkaError):
    """The log has records that the shard does not know."""

    def __init__(self, count: int) -> None:
        super().__init__(ErrorCode.NOT_COORDINATOR, f"a client has written {count} records to this partition")


_LATE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the records were not replicated in time")

S = TypeVar("S", bound=Shard)


class Owner(Protocol[S]):
    """The runtime, which has the shards."""

    def is_current(self, context: Context[S]) -> bool:
        """Whether this broker still has this shard."""
        ...

    def reload(self, context: Context[S], error: Exception, now: int) -> None:
        """The shard is not what the log says: begin again with the log."""
        ...


class ShardWriter(Generic[S]):
    """Writes of all shards of one coordinator."""

    def __init__(
        self,
        *,
        name: str,
        log: PartitionLog,
        timer: Timer,
        faults: FaultHandler,
        room: Room,
        owner: Owner[S],
        commit_timeout_ms: int,
        linger_ms: int,
    ) -> None:
        self._name = name
        self._log = log
        self._timer = timer
        self._faults = faults
        self._room = room
        self._owner = owner
        self._commit_timeout_ms = commit_timeout_ms
        self._linger_ms = linger_ms
        self.open_batches: dict[Context[S], None] = {}
        """The shards with open batches, in the order in which these were opened."""
        self.has_news: set[int] = set()
        """The partitions in which something may be committed that a response waits for."""

    # --- writes -------------------------------------------------------------------------------------------------------

    def write(
        self,
        context: Context[S],
        plan: Callable[[S], CoordinatorResult[Any]],
        now: int,
        writer: TransactionalWriter | None = None,
    ) -> Promise[Any]:
        """Plan, and have the records written and replayed; a promise of the response, or of the KafkaError that refused
        it. With a `writer` the records are part of its transaction."""
        context.timer.set_time(now)
        try:
            result = plan(context.shard)
        except KafkaError as error:
            return Promise.of(error)
        except Exception as error:
            return Promise.of(self.unexpected("coordinator-plan", error))
        try:
            if result.records:
                self._keep_records(context, result, now, writer)
            committed = 0 if context.batch is not None else self._log.high_watermark(context.partition)
            if result.after is not None:
                result.after(now)
        except KafkaError as error:
            return self._refuse(context, result, seen_by_client(error), now)
        except Exception as error:
            unexpected = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the records cannot be replayed")
            self._lose_batch(context, unexpected, error, now)
            return self._refuse(context, result, unexpected, now)
        return self._answer(context, result, committed, now)

    def end_transaction(self, context: Context[S], end: TransactionEnd, timeout_ms: int, now: int) -> Promise[Any]:
        """Append the marker and replay it; a promise of None once it is committed, or of the KafkaError that refused
        it. REQUEST_TIMED_OUT: it is written, and was not committed within `timeout_ms`."""
        context.timer.set_time(now)
        try:
            self.close(context, now)
            context.end_offset = self._log.append_marker(context.partition, end, now)
            marker = Change(None, end.producer_id, end.committed)
            if context.view is not None:
                context.view.note(context.end_offset, [marker])
            marker.apply(context.shard)
            committed = self._log.high_watermark(context.partition)
        except KafkaError as error:
            return Promise.of(error)
        except Exception as error:
            self._owner.reload(context, error, now)
            return Promise.of(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the marker cannot be replayed"))
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the marker was not replicated in time")
        return self._answer(context, CoordinatorResult(None), committed, now, timeout_ms, late)

    def _keep_records(
        self, context: Context[S], result: CoordinatorResult[Any], now: int, writer: TransactionalWriter | None
    ) -> None:
        """Have the records written, now or with the batch, and replay them."""
        try:
            encoded = [encode_coordinator_record(record) for record in result.records]
        except struct.error as error:  # a client's string is longer than a record's may be
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a record cannot be written: {error}") from error
        producer_id = NO_PRODUCER if writer is None else writer.producer_id
        is_gathered = writer is None and self._linger_ms != 0 and self._gathers(context)
        if not is_gathered and context.batch is not None:
            self.close(context, now)
        done = 0
        for records in [encoded] if result.is_atomic else split(encoded):
            changes = [Change(record, producer_id) for record in result.records[done : done + len(records)]]
            done += len(records)
            if not is_gathered or not self._join(context, records, changes, now):
                try:
                    self._append(context, records, changes, now, writer)
                except _OutOfSyncError as error:
                    self._owner.reload(context, error, now)
                    raise
            for change in changes if result.is_replayed else ():
                change.apply(context.shard)

    def _append(
        self,
        context: Context[S],
        records: Sequence[EncodedRecord],
        changes: Sequence[Change],
        now: int,
        writer: TransactionalWriter | None = None,
    ) -> None:
        """Append these records. `_OutOfSyncError`: they are in the log, and something before them is not known here."""
        expected = context.end_offset + len(records)
        context.end_offset = self._log.append(context.partition, records, now, writer)
        if context.end_offset != expected:
            raise _OutOfSyncError(context.end_offset - expected)
        if context.view is not None:
            context.view.note(context.end_offset, changes)

    def _gathers(self, context: Context[S]) -> bool:
        """Whether records go into an open batch. If nothing more waits to be handled, an adaptive one would be closed
        at once."""
        if self._linger_ms == ADAPTIVE:
            return context.batch is not None or self._room.may_gather
        return self._linger_ms > 0

    def _join(self, context: Context[S], records: Sequence[EncodedRecord], changes: Sequence[Change], now: int) -> bool:
        """Put the records into the open batch, or into a new one. False: they may be too large for any, and there is no
        open one before them."""
        if context.batch is not None and not context.batch.has_room_for(records):
            self.close(context, now)
        batch = context.batch
        if batch is None:
            due = now + max(0, self._linger_ms)
            batch = OpenBatch(self._log.max_batch_bytes(context.partition), due)
            if not batch.has_room_for(records):
                return False
            context.batch = batch
            self.open_batches[context] = None
            if self._linger_ms == ADAPTIVE:
                self._room.mark("batch")
            else:
                self._room.wake_by(due, "batch")
        batch.add(records, changes)
        return True

    def unexpected(self, kind: str, error: Exception) -> KafkaError:
        """What a client gets for an exception that nothing expected."""
        self._faults.handle_fault(kind, error, topic=self._name)
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the coordinator met an unexpected error")

    # --- batches ------------------------------------------------------------------------------------------------------

    def deadline(self) -> int:
        """When the next batch has to be closed."""
        return min((each.batch.due for each in self.open_batches if each.batch is not None), default=FOREVER)

    def close_due(self, now: int) -> None:
        """Close the batches that have been open for long enough."""
        for context in list(self.open_batches):
            if context.batch is not None and context.batch.due <= now:
                try:
                    self.close(context, now)
                except KafkaError:
                    """All its writes have got this error."""

    def close(self, context: Context[S], now: int) -> None:
        """Append the open batch, if there is one. KafkaError if the log does not take it: its writes have got that, and
        the shard is being loaded again."""
        batch = context.batch
        if batch is None:
            return
        try:
            self._append(context, batch.records, batch.changes, now)
        except KafkaError as error:
            self._lose_batch(context, seen_by_client(error), error, now)
            raise
        except Exception as error:
            unexpected = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the records cannot be written")
            self._lose_batch(context, unexpected, error, now)
            raise unexpected from error
        self.drop_batch(context)
        self._wait(context, batch.operations, now, self._commit_timeout_ms)
        self.has_news.add(context.partition)
        self._room.mark("news")

    def drop_batch(self, context: Context[S]) -> Sequence[Operation]:
        """There is no open batch any more; the operations that were in it."""
        batch, context.batch = context.batch, None
        self.open_batches.pop(context, None)
        return () if batch is None else batch.operations

    def _lose_batch(self, context: Context[S], answer: KafkaError, cause: Exception, now: int) -> None:
        """The shard has replayed what is not in the log, or a part of a record: load it again."""
        lost = self.drop_batch(context)
        self._owner.reload(context, cause, now)
        for operation in lost:
            self._finish(context, operation, answer, now)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _answer(
        self,
        context: Context[S],
        result: CoordinatorResult[Any],
        committed: int,
        now: int,
        timeout_ms: int | None = None,
        late: KafkaError = _LATE,
    ) -> Promise[Any]:
        """The response, once what the shard has seen is committed; `late` if that takes longer than `timeout_ms`."""
        response = result.response
        if context.batch is None and context.end_offset <= committed and not context.waiting:
            if result.on_end is not None:
                self._end(context, result, None, now)
            return response if isinstance(response, Promise) else Promise.of(response)
        operation = Operation(result, Promise())
        if context.batch is not None:
            context.batch.operations.append(operation)
        else:
            self._wait(context, [operation], now, self._commit_timeout_ms if timeout_ms is None else timeout_ms, late)
        return response if isinstance(response, Promise) else operation.promise

    def _refuse(self, context: Context[S], result: CoordinatorResult[Any], error: KafkaError, now: int) -> Promise[Any]:
        """The response to a write whose records are not in the log."""
        self._end(context, result, error, now)
        return result.response if isinstance(result.response, Promise) else Promise.of(error)

    def _wait(
        self,
        context: Context[S],
        operations: Sequence[Operation],
        now: int,
        timeout_ms: int,
        late: KafkaError = _LATE,
    ) -> None:
        waiting = Waiting(context.end_offset, operations, late)
        waiting.timeout = self._timer.at(now + timeout_ms, lambda then: self._time_out(context, waiting, then))
        context.waiting.append(waiting)

    def _time_out(self, context: Context[S], waiting: Waiting, now: int) -> None:
        context.timer.set_time(now)
        context.waiting.remove(waiting)
        for operation in waiting.operations:
            self._finish(context, operation, waiting.late, now)

    def answer_committed(self, context: Context[S], committed: int, now: int) -> None:
        """The log is committed up to this offset."""
        while context.waiting and context.waiting[0].offset <= committed:
            waiting = context.waiting.popleft()
            if waiting.timeout is not None:
                waiting.timeout.cancel()
            for operation in waiting.operations:
                self._finish(context, operation, None, now)

    def fail_all(self, context: Context[S], error: KafkaError, now: int) -> None:
        """The shard is gone: nothing of it is written or awaited any more."""
        if context.batch is not None:
            self._room.mark("batch")  # it was to be polled when the batch was due
        while context.waiting:
            waiting = context.waiting.popleft()
            if waiting.timeout is not None:
                waiting.timeout.cancel()
            for operation in waiting.operations:
                self._finish(context, operation, error, now)
        for operation in self.drop_batch(context):
            self._finish(context, operation, error, now)

    def _finish(self, context: Context[S], operation: Operation, error: KafkaError | None, now: int) -> None:
        if operation.result.on_end is not None:
            self._end(context, operation.result, error, now)
        self.keep(operation.promise, operation.result.response if error is None else error)

    def _end(self, context: Context[S], result: CoordinatorResult[Any], error: KafkaError | None, now: int) -> None:
        """The records are committed, or will not be. What `on_end` plans is written as any plan is."""
        if result.on_end is None:
            return
        try:
            more = result.on_end(error, now)
        except Exception as unexpected:
            self._faults.handle_fault("coordinator-end", unexpected, topic=self._name, partition=context.partition)
            return
        if more is not None and self._owner.is_current(context):
            self.write(context, lambda _: more, now)

    def keep(self, promise: Promise[Any], value: Any) -> None:
        """Keep a promise. What an answer leads to is not the shard's business, and must not hold up the others."""
        try:
            promise.keep(value)
        except Exception as error:
            self._faults.handle_fault("coordinator-answer", error, topic=self._name)
