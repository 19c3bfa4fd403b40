"""The runtime of coordinators: it runs one shard for each partition of the internal topic that this broker leads.

A **shard** is a state machine whose log is that partition. The runtime gives it what it needs and nothing else knows:

::

    leader elected   LOADING   the partition is read from its start, each record is replayed
                     ACTIVE    requests are planned, appended, replayed, and answered once they are committed
                         FAILED    a record cannot be replayed: requests get NOT_COORDINATOR until the next leader tries
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

Faults
------
A client may write to an internal topic, and code has bugs. Neither may stop the node. A record that cannot be replayed
fails the load of its partition; the journal says which record it was, and why. When a record cannot be replayed that
was appended a moment ago, the shard may have taken in a part of it. So it is dropped, and loaded again from the log.
(Kafka replays before it appends, and rolls its timeline tables back.) A plan, a look or a callback that raises changes
nothing in the log: its request gets UNKNOWN_SERVER_ERROR, and the shard goes on.

Loading takes as long as the partition is large. It is a generator that pauses (see `Steps`), so the node's heartbeats
go out meanwhile. It reads to the log's end: a new leader's whole log will be committed.

An id (a group's, a transactional producer's) belongs to the partition that Java's ``String.hashCode`` names, so every
broker, Kafka's or this one, looks in the same place.

Follows org.apache.kafka.coordinator.common.runtime.{CoordinatorRuntime,CoordinatorLoaderImpl,
CoordinatorOperationExceptionHelper}.
"""

import struct
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from operator import mul
from typing import Any, Generic, NamedTuple, TypeVar

from pykraft.common.core import Promise, Steps
from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.rooms import Room
from pykraft.common.timer import Timer, TimerTask
from pykraft.common.trace import Tracer
from pykraft.coordinator.committed_view import CommittedView
from pykraft.coordinator.ports import PartitionLog, Shard
from pykraft.coordinator.replay import NO_PRODUCER, Change, UnreplayableRecordError, changes
from pykraft.coordinator.replay_turn import ReplayTurn
from pykraft.coordinator.result import (
    CoordinatorResult,
    CoordinatorTimer,
    TransactionalWriter,
    TransactionEnd,
    seen_by_client,
    split,
)
from pykraft.coordinator.shard_timer import NoTimer, ShardTimer
from pykraft.protocol.messages.coordinators import RecordTypes, encode_coordinator_record

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
    skipped: set[int] = field(default_factory=set)
    """The types of records that were skipped."""


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
        faults: FaultHandler | None = None,
        room: Room | None = None,
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
        self._faults = faults or FaultHandler(trace)
        self._contexts: dict[int, _Context[S]] = {}
        self._has_news: set[int] = set()
        self._room = room or Room(name)
        self._turn = ReplayTurn()

    # --- leadership ---------------------------------------------------------------------------------------------------

    def lead(self, partition: int, epoch: int, now: int) -> None:
        """This broker leads the partition, from this leader epoch on: load it."""
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
            context.view = CommittedView(view, self._types, self._log, partition, self._turn)
        context.loading = self._load(context)
        self._contexts[partition] = context
        self._room.mark("load")
        self._trace("coordinator", topic=self._name, partition=partition, state="loading", epoch=epoch)

    def resign(self, partition: int) -> None:
        """This broker does not lead the partition any more."""
        context = self._contexts.pop(partition, None)
        if context is None:
            return
        self._unload(context)
        self._trace("coordinator", topic=self._name, partition=partition, state="resigned", epoch=context.epoch)

    def _unload(self, context: _Context[S]) -> None:
        """The shard is asked no more: all that wait hear of it."""
        context.loading = context.catching_up = None
        context.timer.close()
        try:
            context.shard.on_unloaded()
        except Exception as error:
            self._faults.handle_fault("coordinator-unload", error, topic=self._name, partition=context.partition)
        self._fail_waiting(context, KafkaError(ErrorCode.NOT_COORDINATOR, "the coordinator has moved"))

    def _fail(self, context: _Context[S], kind: str, error: Exception, offset: int) -> None:
        """The shard cannot be loaded, or its committed view cannot follow. The next leader tries again."""
        context.state = State.FAILED
        why = {"offset": offset}
        cause = error
        if isinstance(error, UnreplayableRecordError):
            why, cause = {"offset": error.offset, "record_type": error.record_type}, error.cause
        place = {"topic": self._name, "partition": context.partition}
        self._unload(context)
        self._trace("coordinator", **place, state=f"failed: {error}", epoch=context.epoch, **why)
        if not isinstance(cause, KafkaError | ProtocolError):  # these are about the bytes; another is our own bug
            self._faults.handle_fault(kind, cause, **place, **why)

    def _reload(self, context: _Context[S], error: Exception, now: int) -> None:
        """The shard may have taken in a part of what was appended: begin again with what is in the log."""
        partition, epoch, cause = context.partition, context.epoch, error
        record_type = -1
        if isinstance(error, UnreplayableRecordError):
            record_type, cause = error.record_type, error.cause
        if self._contexts.get(partition) is context:
            self.resign(partition)
            self.lead(partition, epoch, now)
        place = {"topic": self._name, "partition": partition, "record_type": record_type}
        self._faults.handle_fault("coordinator-replay", cause, **place)

    @property
    def is_loading(self) -> bool:
        """Whether some shard cannot be asked yet."""
        return any(context.state is State.LOADING for context in self._contexts.values())

    @property
    def states(self) -> Mapping[State, int]:
        """How many shards are in each state."""
        return Counter(context.state for context in self._contexts.values())

    @property
    def has_work(self) -> bool:
        """Whether `poll` is to be called again at once."""
        return bool(self._has_news) or any(
            context.state is State.LOADING or context.catching_up is not None for context in self._contexts.values()
        )

    def poll(self, now: int) -> None:
        """Answer what is committed by now, and load on."""
        if self._has_news:
            self._answer_committed(now)
        behind = [each for each in self._contexts.values() if each.catching_up is not None]
        loading = [each for each in self._contexts.values() if each.loading is not None]
        if behind or loading:
            self._turn.begin()
        for context in behind:
            if not self._turn.is_over:
                self._catch_up(context, now)
        for context in loading:
            if not self._turn.is_over:
                self._load_on(context, now)

    def _load_on(self, context: _Context[S], now: int) -> None:
        """One step of the load."""
        if context.loading is None:  # another shard's failure has ended it a moment ago
            return
        context.timer.set_time(now)
        try:
            next(context.loading)
        except StopIteration:
            context.loading = None
            context.state = State.ACTIVE
            context.loaded_end = context.end_offset
            context.reads_wait_until = now + self._commit_timeout_ms
            try:
                context.shard.on_loaded(now)
            except Exception as error:
                self._fail(context, "coordinator-loaded", error, context.end_offset)
                return
            self._trace("coordinator", topic=self._name, partition=context.partition, state="active")
        except Exception as error:
            self._fail(context, "coordinator-load", error, context.end_offset)

    def _load(self, context: _Context[S]) -> Steps[None]:
        """Replay the partition from its start to its end. Meanwhile `end_offset` is where the batch begins."""
        for batch in self._log.batches(context.partition):
            context.end_offset = batch.base_offset
            found: list[Change] = []
            for change in changes(self._types, batch, partial(self._skip, context)):
                change.apply(context.shard)
                found.append(change)
                self._turn.replayed(1)
                if self._turn.is_over:
                    yield
            if context.view is not None:
                context.view.note(batch.next_offset, found)
        context.end_offset = self._log.end_offset(context.partition)

    def _skip(self, context: _Context[S], offset: int, record_type: int) -> None:
        """A later release may have written this record, before an upgrade was taken back. The first of its type is
        told."""
        if record_type not in context.skipped:
            context.skipped.add(record_type)
            place = {"topic": self._name, "partition": context.partition, "offset": offset}
            self._trace("unknown_record_type", **place, record_type=record_type)

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
        try:
            context = self._active(partition)
            context.timer.set_time(now)
            result = plan(context.shard)
        except KafkaError as error:
            return Promise.of(error)
        except Exception as error:
            return Promise.of(self._unexpected("coordinator-plan", error))
        try:
            self._append(context, result, now, writer)
            committed = self._log.high_watermark(partition)
            if result.after is not None:
                result.after(now)
        except KafkaError as error:
            seen = seen_by_client(error)
            self._end(context, result, seen, now)
            return result.response if isinstance(result.response, Promise) else Promise.of(seen)
        except Exception as error:
            unexpected = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the records cannot be replayed")
            self._end(context, result, unexpected, now)
            self._reload(context, error, now)
            return result.response if isinstance(result.response, Promise) else Promise.of(unexpected)
        late = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the records were not replicated in time")
        return self._answer(context, result, committed, now, self._commit_timeout_ms, late)

    def end_transaction(self, partition: int, end: TransactionEnd, timeout_ms: int, now: int) -> Promise[Any]:
        """Append the marker and replay it; a promise of None once it is committed, or of the KafkaError that refused
        it. REQUEST_TIMED_OUT: it is written, and was not committed within `timeout_ms`."""
        try:
            context = self._active(partition)
            context.timer.set_time(now)
            context.end_offset = self._log.append_marker(partition, end, now)
            marker = Change(None, end.producer_id, end.committed)
            self._note(context, [marker])
            marker.apply(context.shard)
            committed = self._log.high_watermark(partition)
        except KafkaError as error:
            return Promise.of(error)
        except Exception as error:
            self._reload(context, error, now)
            return Promise.of(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the marker cannot be replayed"))
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
        try:
            is_caught_up = view.catch_up(committed)
        except UnreplayableRecordError as error:
            self._fail(context, "coordinator-view", error, view.offset)
            return
        if not is_caught_up:
            context.catching_up = context.catching_up or view.read_log()
            self._room.mark("catch up")
            return
        if committed < context.loaded_end and now < context.reads_wait_until:
            return
        reads, context.reads = context.reads, []
        for read in reads:
            try:
                found = read.look(view.shard, context.shard)
            except KafkaError as error:
                found = error
            except Exception as error:
                found = self._unexpected("coordinator-read", error)
            self._keep(read.promise, found)

    def _unexpected(self, kind: str, error: Exception) -> KafkaError:
        """What a client gets for an exception that nothing expected."""
        self._faults.handle_fault(kind, error, topic=self._name)
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the coordinator met an unexpected error")

    def _keep(self, promise: Promise[Any], value: Any) -> None:
        """Keep a promise. What an answer leads to is not the shard's business, and must not hold up the others."""
        try:
            promise.keep(value)
        except Exception as error:
            self._faults.handle_fault("coordinator-answer", error, topic=self._name)

    def _catch_up(self, context: _Context[S], now: int) -> None:
        if context.catching_up is None:
            return
        try:
            next(context.catching_up)
        except StopIteration:
            context.catching_up = None
            self._answer_reads(context, now)
        except KafkaError as error:
            context.catching_up = None
            self._fail_reads(context, seen_by_client(error))
        except Exception as error:
            self._fail(context, "coordinator-view", error, context.end_offset)

    def _fail_reads(self, context: _Context[S], error: KafkaError) -> None:
        reads, context.reads = context.reads, []
        for read in reads:
            self._keep(read.promise, error)

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
        for batch in [encoded] if result.is_atomic else split(encoded):
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
            self._keep(promise, result.response)
        else:
            timeout = self._timer.at(now + timeout_ms, lambda then: self._time_out(context, promise, late, then))
            context.waiting.append(_Waiting(context.end_offset, promise, result, timeout))
        return result.response if isinstance(result.response, Promise) else promise

    def _time_out(self, context: _Context[S], promise: Promise[Any], error: KafkaError, now: int) -> None:
        context.timer.set_time(now)
        waiting = next(each for each in context.waiting if each.promise is promise)
        context.waiting.remove(waiting)
        self._end(context, waiting.result, error, now)
        self._keep(promise, error)

    def note_high_watermark(self, partition: int) -> None:
        """The partition's high watermark may have moved: the next `poll` answers what waited for it. Not here, because
        the news may come in the middle of an append, whose records must be replayed before anything else is planned."""
        context = self._contexts.get(partition)
        if context is None:
            return
        is_behind = context.view is not None and context.view.is_behind
        if context.waiting or context.reads or is_behind:
            self._has_news.add(partition)
            self._room.mark("news")

    def _answer_committed(self, now: int) -> None:
        while self._has_news:
            partition = min(self._has_news)
            self._has_news.discard(partition)  # what is answered now may append, and so bring news again
            context = self._contexts.get(partition)
            if context is None:
                continue
            context.timer.set_time(now)
            try:
                committed = self._log.high_watermark(partition)
            except KafkaError:  # the partition is gone, and the metadata have not said so yet
                continue
            while context.waiting and context.waiting[0].offset <= committed:
                waiting = context.waiting.popleft()
                waiting.timeout.cancel()
                self._end(context, waiting.result, None, now)
                self._keep(waiting.promise, waiting.result.response)
            self._answer_reads(context, now)

    def _end(self, context: _Context[S], result: CoordinatorResult[Any], error: KafkaError | None, now: int) -> None:
        """The records are committed, or will not be. What `on_end` plans is written as any plan is."""
        if result.on_end is None:
            return
        try:
            more = result.on_end(error, now)
        except Exception as unexpected:
            self._faults.handle_fault("coordinator-end", unexpected, topic=self._name, partition=context.partition)
            return
        if more is not None and self._contexts.get(context.partition) is context:
            self.write(context.partition, lambda _: more, now)

    def _fail_waiting(self, context: _Context[S], error: KafkaError) -> None:
        while context.waiting:
            waiting = context.waiting.popleft()
            waiting.timeout.cancel()
            self._end(context, waiting.result, error, self._trace.now)
            self._keep(waiting.promise, error)
        self._fail_reads(context, error)


_POWERS = [1]
"""Of 31, modulo 2^32: as many as the longest name so far has units."""


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: s[0]*31^(n-1) + ... over UTF-16 code units, in 32 bits."""
    octets = text.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(octets) // 2}H", octets)
    while len(_POWERS) < len(units):
        _POWERS.append(31 * _POWERS[-1] & 0xFFFFFFFF)
    # The last unit has the smallest power. One sum in C is several times as fast as a loop, and a name may be long.
    value: int = sum(map(mul, reversed(units), _POWERS)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(coordinator_id: str, partitions: int) -> int:
    """The partition of the internal topic that holds this id. Kafka's `Utils.abs` makes the one value without a
    positive counterpart 0."""
    value = java_hash(coordinator_id)
    return (0 if value == -(1 << 31) else abs(value)) % partitions
