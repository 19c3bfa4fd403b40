"""The runtime of coordinators: it runs one shard for each partition of the internal topic that this broker leads.

A **shard** is a state machine whose log is that partition. The runtime gives it what it needs and nothing else knows:

::

    leader elected   LOADING   the partition is read from its start, each record is replayed
                     ACTIVE    requests are planned, appended, replayed, and answered once they are committed
    leader lost      (gone)    requests that wait get NOT_COORDINATOR; the next leader has the log

A *write* calls ``plan(shard)``. It returns a `CoordinatorResult`, which changes nothing yet. The records go into the
partition as one batch, so after a crash all of them are there or none. Then they are replayed, and the response waits
until the high watermark has passed them. The state therefore runs ahead of what is committed, exactly as the active
controller's image does; and a response without records waits, too, until what its plan has seen is committed.

A *read* calls ``look(committed, live)`` and waits for nothing. It answers from what is committed: each shard has a
second copy that follows the high watermark (`committed_view`). There is one exception. A new leader does not know how
far the leader before it had committed, and its own high watermark may be older. So reads wait until everything that was
loaded is committed, at most `commit_timeout_ms` after the load. Kafka answers from the older high watermark at once,
and may tell an offset from before the last one that it acknowledged.

Records may be part of a transaction (TxnOffsetCommit). Then their batch carries the producer's id, the shard replays
them with it, and the marker that ends the transaction is written through the runtime as well (`end_transaction`), so
that the shard replays it in its place among the records, as it does when it is loaded.

Loading takes as long as the partition is large. It is a generator that pauses (see `Steps`), so the node's heartbeats
go out meanwhile. It reads to the log's end: a new leader's whole log will be committed.

An id (a group's, a transactional producer's) belongs to the partition that Java's ``String.hashCode`` names, so every
broker, Kafka's or this one, looks in the same place.

Follows org.apache.kafka.coordinator.common.runtime.{CoordinatorRuntime,CoordinatorLoaderImpl,
CoordinatorOperationExceptionHelper}.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from pykraft.common.core import Promise, Steps
from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.timer import Timer, TimerTask
from pykraft.common.trace import Tracer
from pykraft.coordinator.committed_view import CommittedView
from pykraft.coordinator.ports import PartitionLog, Shard
from pykraft.coordinator.replay import NO_PRODUCER, Change, changes
from pykraft.coordinator.result import CoordinatorResult, CoordinatorTimer, TransactionalWriter, TransactionEnd
from pykraft.protocol.messages.coordinators import RecordTypes, encode_coordinator_record

RETRY_TIMER_MS = 500
"""A timer whose write failed is tried again after this."""
_RECORDS_PER_TURN = 2000
"""Of a partition that is loaded, this many records are replayed in one turn of the node's loop."""
_SPLIT_BYTES = 1 << 16
"""Records that need not be written together are written in batches of about this size."""
_RECORD_OVERHEAD = 20
"""At most this many bytes of a record are neither its key nor its value."""

_SEEN_AS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a failed append is for a client, which knows of no partition; and a failed question to a transaction's
coordinator, which old clients do not expect."""


S = TypeVar("S", bound=Shard)


class State(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class _Waiting(NamedTuple):
    """A response that waits until the log is committed up to `offset`, or until it times out."""

    offset: int
    promise: Promise[Any]
    result: CoordinatorResult[Any]
    timeout: TimerTask


class _Read(NamedTuple):
    """A read that waits until what is committed is known."""

    look: Callable[[Any, Any], Any]
    promise: Promise[Any]


class NoTimer(CoordinatorTimer):
    """The timer of a shard that only follows: nothing becomes due."""

    def schedule(self, key: str, delay_ms: int, plan: Callable[[int], CoordinatorResult[None]]) -> None:
        pass

    def cancel(self, key: str) -> None:
        pass

    def is_scheduled(self, key: str) -> bool:
        return False


class ShardTimer(CoordinatorTimer):
    """The timers of one shard, on the node's `Timer`."""

    def __init__(self, timer: Timer, write: Callable[[Callable[[int], CoordinatorResult[None]], int], Any]) -> None:
        self._timer = timer
        self._write = write
        self._tasks: dict[str, TimerTask] = {}
        self._now = 0
        self._is_closed = False

    def set_time(self, now: int) -> None:
        """The time from which delays count until the next call."""
        self._now = now

    def schedule(self, key: str, delay_ms: int, plan: Callable[[int], CoordinatorResult[None]]) -> None:
        self.cancel(key)
        if not self._is_closed:
            self._tasks[key] = self._timer.at(self._now + delay_ms, lambda now: self._expire(key, plan, now))

    def _expire(self, key: str, plan: Callable[[int], CoordinatorResult[None]], now: int) -> None:
        self._now = now
        mine = self._tasks.pop(key)

        def retry(outcome: Any) -> None:
            is_free = key not in self._tasks and mine is not None
            if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.NOT_COORDINATOR and is_free:
                self.schedule(key, RETRY_TIMER_MS, plan)

        self._write(plan, now).then(retry)

    def cancel(self, key: str) -> None:
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    def is_scheduled(self, key: str) -> bool:
        return key in self._tasks

    def close(self) -> None:
        """The shard is gone: nothing that it still wants may reach the one that comes after it."""
        self._is_closed = True
        for key in list(self._tasks):
            self.cancel(key)


@dataclass(eq=False)
class _Context(Generic[S]):
    """A shard, and what the runtime knows of it."""

    partition: int
    epoch: int
    shard: S
    timer: ShardTimer
    loading: Steps[None] | None
    state: State = State.LOADING
    end_offset: int = 0
    """After the last record that the shard has seen."""
    waiting: deque[_Waiting] = field(default_factory=deque)
    view: CommittedView[S] | None = None
    """What readers see, if there are readers."""
    catching_up: Steps[None] | None = None
    """The view reads the log."""
    reads: list[_Read] = field(default_factory=list)
    loaded_end: int = 0
    """The log's end when it was loaded: the leader before may have acknowledged everything up to it."""
    reads_wait_until: int = 0
    """How long reads wait for `loaded_end` to be committed."""


class CoordinatorRuntime(Generic[S]):
    """The shards of this broker."""

    def __init__(
        self,
        *,
        name: str,
        types: RecordTypes,
        log: PartitionLog,
        make_shard: Callable[[int, CoordinatorTimer], S],
        timer: Timer,
        trace: Tracer,
        commit_timeout_ms: int,
        has_readers: bool = False,
    ) -> None:
        """`make_shard(partition, timer)` makes an empty one; a response whose records are not committed after
        `commit_timeout_ms` becomes COORDINATOR_NOT_AVAILABLE. With `has_readers` there is a committed view of each
        shard, for `read`."""
        self._name = name
        self._types = types
        self._log = log
        self._make_shard = make_shard
        self._timer = timer
        self._trace = trace
        self._commit_timeout_ms = commit_timeout_ms
        self._has_readers = has_readers
        self._contexts: dict[int, _Context[S]] = {}
        self._has_news: set[int] = set()
        self._now = 0

    # --- leadership ---------------------------------------------------------------------------------------------------

    def lead(self, partition: int, epoch: int, now: int) -> None:
        """This broker leads the partition, from this leader epoch on: load it."""
        self._now = max(self._now, now)
        context = self._contexts.get(partition)
        if context is not None and context.epoch >= epoch:
            return
        if context is not None:
            self.resign(partition)

        def write(plan: Callable[[int], CoordinatorResult[None]], then: int) -> Promise[Any]:
            return self.write(partition, lambda _: plan(then), then)

        timer = ShardTimer(self._timer, write)
        timer.set_time(now)
        context = _Context(partition, epoch, self._make_shard(partition, timer), timer, None)
        if self._has_readers:
            view = self._make_shard(partition, NoTimer())
            context.view = CommittedView(view, self._types, self._log, partition)
        context.loading = self._load(context)
        self._contexts[partition] = context
        self._trace("coordinator", topic=self._name, partition=partition, state="loading", epoch=epoch)

    def resign(self, partition: int) -> None:
        """This broker does not lead the partition any more."""
        context = self._contexts.pop(partition, None)
        if context is None:
            return
        context.timer.close()
        context.shard.on_unloaded()
        self._fail_waiting(context, KafkaError(ErrorCode.NOT_COORDINATOR, "the coordinator has moved"))
        self._trace("coordinator", topic=self._name, partition=partition, state="resigned", epoch=context.epoch)

    @property
    def is_loading(self) -> bool:
        """Whether some shard cannot be asked yet."""
        return any(context.state is State.LOADING for context in self._contexts.values())

    @property
    def has_work(self) -> bool:
        """Whether `poll` is to be called again at once."""
        return any(
            context.state is State.LOADING or context.catching_up is not None for context in self._contexts.values()
        )

    def poll(self, now: int) -> None:
        """Answer what is committed by now, and load on."""
        self._now = now
        if self._has_news:
            self._answer_committed(now)
        for context in [each for each in self._contexts.values() if each.catching_up is not None]:
            self._catch_up(context, now)
        for context in [each for each in self._contexts.values() if each.loading is not None]:
            assert context.loading is not None
            context.timer.set_time(now)
            try:
                next(context.loading)
            except StopIteration:
                context.loading = None
                context.state = State.ACTIVE
                context.loaded_end = context.end_offset
                context.reads_wait_until = now + self._commit_timeout_ms
                context.shard.on_loaded(now)
                self._trace("coordinator", topic=self._name, partition=context.partition, state="active")
            except (KafkaError, ProtocolError) as error:
                context.loading = None
                context.state = State.FAILED
                self._trace("coordinator", topic=self._name, partition=context.partition, state=f"failed: {error}")

    def _load(self, context: _Context[S]) -> Steps[None]:
        """Replay the partition from its start to its end."""
        count = 0
        for batch in self._log.batches(context.partition):
            found: list[Change] = []
            for change in changes(self._types, batch):
                change.apply(context.shard)
                found.append(change)
                count += 1
                if count % _RECORDS_PER_TURN == 0:
                    yield
            if context.view is not None:
                context.view.note(batch.next_offset, found)
        context.end_offset = self._log.end_offset(context.partition)

    # --- requests -----------------------------------------------------------------------------------------------------

    def active(self, partition: int) -> S:
        """The shard of this partition; KafkaError if it is not here, or not loaded yet."""
        return self._active(partition).shard

    def _active(self, partition: int) -> _Context[S]:
        context = self._contexts.get(partition)
        if context is None or context.state is State.FAILED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"this broker does not coordinate partition {partition}")
        if context.state is State.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partition {partition} is being loaded")
        return context

    def epoch(self, partition: int) -> int:
        """The leader epoch in which this broker coordinates the partition; KafkaError as for `active`."""
        return self._active(partition).epoch

    def active_partitions(self) -> list[int]:
        """The partitions whose shards can be asked."""
        return sorted(number for number, each in self._contexts.items() if each.state is State.ACTIVE)

    @property
    def partitions(self) -> list[int]:
        """The partitions that this broker leads, loaded or not."""
        return sorted(self._contexts)

    def has_waiting(self, partition: int) -> bool:
        """Whether a response waits until its records are committed."""
        return partition in self._contexts and bool(self._contexts[partition].waiting)

    def write(
        self,
        partition: int,
        plan: Callable[[S], CoordinatorResult[Any]],
        now: int,
        writer: TransactionalWriter | None = None,
    ) -> Promise[Any]:
        """Plan, append, replay; a promise of the response, or of the KafkaError that refused it. With a `writer` the
        records are part of its transaction, and the shard learns from its marker whether they count."""
        self._now = now
        try:
            context = self._active(partition)
            context.timer.set_time(now)
            result = plan(context.shard)
        except KafkaError as error:
            return Promise.of(error)
        try:
            self._append(context, result, now, writer)
            committed = self._log.high_watermark(partition)
        except KafkaError as error:
            seen = seen_by_client(error)
            self._end(context, result, seen, now)
            return result.response if isinstance(result.response, Promise) else Promise.of(seen)
        if result.after is not None:
            result.after(now)
        late = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the records were not replicated in time")
        return self._answer(context, result, committed, now, self._commit_timeout_ms, late)

    def end_transaction(self, partition: int, end: TransactionEnd, timeout_ms: int, now: int) -> Promise[Any]:
        """Append the marker and replay it; a promise of None once it is committed, or of the KafkaError that refused
        it. REQUEST_TIMED_OUT: it is written, and was not committed within `timeout_ms`."""
        self._now = now
        try:
            context = self._active(partition)
            context.timer.set_time(now)
            context.end_offset = self._log.append_marker(partition, end, now)
            self._note(context, [Change(None, end.producer_id, end.committed)])
            context.shard.replay_marker(end.producer_id, end.committed)
            committed = self._log.high_watermark(partition)
        except KafkaError as error:
            return Promise.of(error)
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the marker was not replicated in time")
        return self._answer(context, CoordinatorResult(None), committed, now, timeout_ms, late)

    # --- reads --------------------------------------------------------------------------------------------------------

    def view(self, partition: int) -> CommittedView[S]:
        """What readers of this partition see; KafkaError as for `active`."""
        view = self._active(partition).view
        assert view is not None, f"{self._name} has no readers"
        return view

    def read(self, partition: int, look: Callable[[S, S], Any], now: int) -> Promise[Any]:
        """A promise of ``look(committed, live)``, or of its KafkaError: what is committed by now, and the shard itself
        for what no record holds."""
        promise: Promise[Any] = Promise()
        try:
            context = self._active(partition)
        except KafkaError as error:
            return Promise.of(error)
        context.reads.append(_Read(look, promise))
        self._answer_reads(context, now)
        if not promise.kept:
            wait_until = max(now, context.reads_wait_until)
            timeout = self._timer.at(wait_until, partial(self._answer_reads, context))
            promise.then(lambda _: timeout.cancel())
        return promise

    def _answer_reads(self, context: _Context[S], now: int) -> None:
        """Answer the reads of this partition, unless they have to wait."""
        view = context.view
        if view is None or not (context.reads or view.is_behind):
            return
        try:
            committed = self._log.high_watermark(context.partition)
        except KafkaError as error:
            self._fail_reads(context, seen_by_client(error))
            return
        if not view.catch_up(committed):
            context.catching_up = context.catching_up or view.read_log()
            return
        if committed < context.loaded_end and now < context.reads_wait_until:
            return
        reads, context.reads = context.reads, []
        for read in reads:
            try:
                read.promise.keep(read.look(view.shard, context.shard))
            except KafkaError as error:
                read.promise.keep(error)

    def _catch_up(self, context: _Context[S], now: int) -> None:
        assert context.catching_up is not None
        try:
            next(context.catching_up)
        except StopIteration:
            context.catching_up = None
            self._answer_reads(context, now)
        except (KafkaError, ProtocolError) as error:
            context.catching_up = None
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            self._fail_reads(context, seen_by_client(KafkaError(code, str(error))))

    def _fail_reads(self, context: _Context[S], error: KafkaError) -> None:
        reads, context.reads = context.reads, []
        for read in reads:
            read.promise.keep(error)

    # --- what the log takes -------------------------------------------------------------------------------------------

    def _append(
        self, context: _Context[S], result: CoordinatorResult[Any], now: int, writer: TransactionalWriter | None
    ) -> None:
        if not result.records:
            return
        try:
            encoded = [encode_coordinator_record(record) for record in result.records]
        except struct.error as error:  # a client's string is longer than a record's may be
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a record cannot be written: {error}") from error
        done = 0
        producer_id = NO_PRODUCER if writer is None else writer.producer_id
        for batch in [encoded] if result.is_atomic else _split(encoded):
            context.end_offset = self._log.append(context.partition, batch, now, writer)
            appended = [Change(record, producer_id) for record in result.records[done : done + len(batch)]]
            self._note(context, appended)
            for change in appended if result.is_replayed else ():
                change.apply(context.shard)
            done += len(batch)

    @staticmethod
    def _note(context: _Context[S], appended: Sequence[Change]) -> None:
        if context.view is not None:
            context.view.note(context.end_offset, appended)

    def _answer(
        self,
        context: _Context[S],
        result: CoordinatorResult[Any],
        committed: int,
        now: int,
        timeout_ms: int,
        late: KafkaError,
    ) -> Promise[Any]:
        """The response, once what the shard has seen is committed; `late` if that takes longer than `timeout_ms`."""
        promise: Promise[Any] = Promise()
        if context.end_offset <= committed and not context.waiting:
            self._end(context, result, None, now)
            promise.keep(result.response)
        else:
            timeout = self._timer.at(now + timeout_ms, lambda then: self._time_out(context, promise, late, then))
            context.waiting.append(_Waiting(context.end_offset, promise, result, timeout))
        return result.response if isinstance(result.response, Promise) else promise

    def _time_out(self, context: _Context[S], promise: Promise[Any], error: KafkaError, now: int) -> None:
        context.timer.set_time(now)
        waiting = next(each for each in context.waiting if each.promise is promise)
        context.waiting.remove(waiting)
        self._end(context, waiting.result, error, now)
        promise.keep(error)

    def note_high_watermark(self, partition: int) -> None:
        """The partition's high watermark may have moved: the next `poll` answers what waited for it. Not here, because
        the news may come in the middle of an append, whose records must be replayed before anything else is planned."""
        context = self._contexts.get(partition)
        if context is None:
            return
        is_behind = context.view is not None and context.view.is_behind
        if context.waiting or context.reads or is_behind:
            self._has_news.add(partition)

    def _answer_committed(self, now: int) -> None:
        while self._has_news:
            partition = min(self._has_news)
            self._has_news.discard(partition)  # what is answered now may append, and so bring news again
            context = self._contexts.get(partition)
            if context is None:
                continue
            context.timer.set_time(now)
            committed = self._log.high_watermark(partition)
            while context.waiting and context.waiting[0].offset <= committed:
                waiting = context.waiting.popleft()
                waiting.timeout.cancel()
                self._end(context, waiting.result, None, now)
                waiting.promise.keep(waiting.result.response)
            self._answer_reads(context, now)

    def _end(self, context: _Context[S], result: CoordinatorResult[Any], error: KafkaError | None, now: int) -> None:
        """The records are committed, or will not be. What `on_end` plans is written as any plan is."""
        if result.on_end is None:
            return
        more = result.on_end(error, now)
        if more is not None and self._contexts.get(context.partition) is context:
            self.write(context.partition, lambda _: more, now)

    def _fail_waiting(self, context: _Context[S], error: KafkaError) -> None:
        while context.waiting:
            waiting = context.waiting.popleft()
            waiting.timeout.cancel()
            self._end(context, waiting.result, error, self._now)
            waiting.promise.keep(error)
        self._fail_reads(context, error)


def seen_by_client(error: KafkaError) -> KafkaError:
    """The error of a partition in the words of a coordinator's client."""
    return KafkaError(_SEEN_AS.get(error.code, error.code), error.detail)


def _split(records: Sequence[tuple[bytes, bytes | None]]) -> Iterator[Sequence[tuple[bytes, bytes | None]]]:
    """The same records in batches of a moderate size."""
    batch: list[tuple[bytes, bytes | None]] = []
    size = 0
    for key, value in records:
        batch.append((key, value))
        size += len(key) + len(value or b"") + _RECORD_OVERHEAD
        if size >= _SPLIT_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: s[0]*31^(n-1) + ... over UTF-16 code units, in 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8) + units[position + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(coordinator_id: str, partitions: int) -> int:
    """The partition of the internal topic that holds this id. Kafka's `Utils.abs` makes the one value without a
    positive counterpart 0."""
    value = java_hash(coordinator_id)
    return (0 if value == -(1 << 31) else abs(value)) % partitions
