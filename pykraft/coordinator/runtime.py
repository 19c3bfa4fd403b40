"""The runtime of coordinators: it runs one shard for each partition of the internal topic that this broker leads.

A **shard** is a state machine whose log is that partition. The runtime gives it what it needs and nothing else knows:

::

    leader elected   LOADING   the partition is read from its start, each record is replayed
                     ACTIVE    requests are planned, replayed, appended, and answered once they are committed
                         FAILED    a record cannot be replayed: requests get NOT_COORDINATOR until the next leader tries
    leader lost      (gone)    requests that wait get NOT_COORDINATOR; the next leader has the log

A *write* calls ``plan(shard)``. It returns a `CoordinatorResult`, which changes nothing yet. The records are replayed,
and go into the partition together, so after a crash all of them are there or none. Writes of one turn share a batch
(`shard_writer`). The response waits until the high watermark has passed the records. The state therefore runs ahead of
what is committed, exactly as the active controller's image does; and a response without records waits, too, until what
its plan has seen is committed.

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
was planned a moment ago, the shard may have taken in a part of it. So it is dropped, and loaded again from the log.
(Kafka rolls its timeline tables back.) A plan, a look or a callback that raises changes
nothing in the log: its request gets UNKNOWN_SERVER_ERROR, and the shard goes on.

Loading takes as long as the partition is large. It is a generator that pauses (see `Steps`), so the node's heartbeats
go out meanwhile; so does a view that has much to replay (`replay_turn`). It reads to the log's end: a new leader's
whole log will be committed.

An id (a group's, a transactional producer's) belongs to the partition that Java's ``String.hashCode`` names, so every
broker, Kafka's or this one, looks in the same place.

Follows org.apache.kafka.coordinator.common.runtime.{CoordinatorRuntime,CoordinatorLoaderImpl,
CoordinatorOperationExceptionHelper}.
"""

import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import mul
from typing import Any, Generic, TypeVar

from pykraft.common.core import FOREVER, Promise, Steps
from pykraft.common.errors import ErrorCode, KafkaError, ProtocolError
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.rooms import Room
from pykraft.common.timer import Timer
from pykraft.common.trace import Tracer
from pykraft.coordinator.committed_view import CommittedView
from pykraft.coordinator.ports import PartitionLog, Shard
from pykraft.coordinator.replay import Change, UnreplayableRecordError, changes
from pykraft.coordinator.replay_turn import ReplayTurn
from pykraft.coordinator.result import (
    CoordinatorResult,
    CoordinatorTimer,
    TransactionalWriter,
    TransactionEnd,
    seen_by_client,
)
from pykraft.coordinator.shard_context import Context, Read, State
from pykraft.coordinator.shard_timer import NoTimer, ShardTimer
from pykraft.coordinator.shard_writer import ShardWriter
from pykraft.protocol.messages.coordinators import RecordTypes

S = TypeVar("S", bound=Shard)


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
        append_linger_ms: int = 0,
        has_readers: bool = False,
        faults: FaultHandler | None = None,
        room: Room | None = None,
    ) -> None:
        """`make_shard(partition, timer)` makes an empty one; a response whose records are not committed after
        `commit_timeout_ms` becomes COORDINATOR_NOT_AVAILABLE. `append_linger_ms` is how long writes are gathered (see
        `shard_writer`). With `has_readers` there is a committed view of each shard, for `read`."""
        self._name = name
        self._types = types
        self._log = log
        self._make_shard = make_shard
        self._timer = timer
        self._trace = trace
        self._commit_timeout_ms = commit_timeout_ms
        self._has_readers = has_readers
        self._faults = faults or FaultHandler(trace)
        self._contexts: dict[int, Context[S]] = {}
        self._room = room or Room(name)
        self._writer: ShardWriter[S] = ShardWriter(
            name=name,
            log=log,
            timer=timer,
            faults=self._faults,
            room=self._room,
            owner=self,
            commit_timeout_ms=commit_timeout_ms,
            linger_ms=append_linger_ms,
        )
        self._turn = ReplayTurn()
        self._reading: dict[Context[S], None] = {}
        """Shards that are loaded, or whose views have more to replay than fits in a turn."""

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
        context = Context(partition, epoch, self._make_shard(partition, timer), timer)
        if self._has_readers:
            view = self._make_shard(partition, NoTimer())
            context.view = CommittedView(view, self._types, self._log, partition, self._turn)
        context.loading = self._load(context)
        self._contexts[partition] = context
        self._reading[context] = None
        self._room.mark("load")
        self._trace("coordinator", topic=self._name, partition=partition, state="loading", epoch=epoch)

    def resign(self, partition: int) -> None:
        """This broker does not lead the partition any more."""
        context = self._contexts.pop(partition, None)
        if context is None:
            return
        self._unload(context)
        self._trace("coordinator", topic=self._name, partition=partition, state="resigned", epoch=context.epoch)

    def _unload(self, context: Context[S]) -> None:
        """The shard is asked no more: all that wait hear of it."""
        context.loading = context.catching_up = None
        context.timer.close()
        try:
            context.shard.on_unloaded()
        except Exception as error:
            self._faults.handle_fault("coordinator-unload", error, topic=self._name, partition=context.partition)
        moved = KafkaError(ErrorCode.NOT_COORDINATOR, "the coordinator has moved")
        self._writer.fail_all(context, moved, self._trace.now)
        self._fail_reads(context, moved)

    def _fail(self, context: Context[S], kind: str, error: Exception, offset: int) -> None:
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

    def reload(self, context: Context[S], error: Exception, now: int) -> None:
        """The shard may have taken in a part of what was appended, or what the log has refused: begin again with what
        is in the log."""
        partition, epoch, cause = context.partition, context.epoch, error
        record_type = -1
        if isinstance(error, UnreplayableRecordError):
            record_type, cause = error.record_type, error.cause
        if self._contexts.get(partition) is context:
            self.resign(partition)
            self.lead(partition, epoch, now)
        place = {"topic": self._name, "partition": partition}
        if isinstance(error, KafkaError):
            self._trace("coordinator", **place, state=f"append refused: {error}", epoch=epoch)
        else:
            self._faults.handle_fault("coordinator-replay", cause, **place, record_type=record_type)

    def is_current(self, context: Context[S]) -> bool:
        """Whether this broker has this shard, and may write to it."""
        return self._contexts.get(context.partition) is context and context.state is State.ACTIVE

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
        return bool(self._writer.has_news or self._reading)

    def deadline(self, now: int) -> int:
        """When `poll` is to be called again, if nothing marks the room."""
        if self.has_work:
            return now
        return self._writer.deadline() if self._writer.open_batches else FOREVER

    def poll(self, now: int) -> None:
        """Write what has been gathered, answer what is committed by now, and load on."""
        if self._writer.open_batches:
            self._writer.close_due(now)
        if self._writer.has_news:
            self._answer_committed(now)
        if self._reading:
            self._read_on(now)
        self._turn.begin()  # the next one: what requests ask of views is a part of it

    def _read_on(self, now: int) -> None:
        """Go on with shards that have more to replay; views first, because a client waits for them."""
        for context in [each for each in self._reading if each.catching_up is not None]:
            if not self._turn.is_over:
                self._catch_up(context, now)
        for context in [each for each in self._reading if each.loading is not None]:
            if not self._turn.is_over:
                self._load_on(context, now)
        self._reading = {each: None for each in self._reading if each.is_reading}

    def _load_on(self, context: Context[S], now: int) -> None:
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

    def _load(self, context: Context[S]) -> Steps[None]:
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
                yield from context.view.note_in_steps(batch.next_offset, found)
        context.end_offset = self._log.end_offset(context.partition)

    def _skip(self, context: Context[S], offset: int, record_type: int) -> None:
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

    def _active(self, partition: int) -> Context[S]:
        context = self._contexts.get(partition)
        if context is None or context.state is State.FAILED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"this broker does not coordinate partition {partition}")
        if context.state is State.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partition {partition} is being loaded")
        return context

    def epoch(self, partition: int) -> int:
        """The leader epoch in which this broker coordinates the partition; KafkaError as for `active`."""
        return self._active(partition).epoch

    def timer(self, partition: int) -> ShardTimer:
        """The timers of this partition's shard; KafkaError as for `active`."""
        return self._active(partition).timer

    def active_partitions(self) -> list[int]:
        """The partitions whose shards can be asked."""
        return sorted(number for number, each in self._contexts.items() if each.state is State.ACTIVE)

    @property
    def partitions(self) -> list[int]:
        """The partitions that this broker leads, loaded or not."""
        return sorted(self._contexts)

    def has_waiting(self, partition: int) -> bool:
        """Whether a response waits until its records are committed."""
        context = self._contexts.get(partition)
        return context is not None and (context.batch is not None or bool(context.waiting))

    def unwritten(self, partition: int) -> Sequence[Change]:
        """What the shard has replayed, and its log does not have yet."""
        batch = self._active(partition).batch
        return () if batch is None else batch.changes

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
        except KafkaError as error:
            return Promise.of(error)
        return self._writer.write(context, plan, now, writer)

    def end_transaction(self, partition: int, end: TransactionEnd, timeout_ms: int, now: int) -> Promise[Any]:
        """Append the marker and replay it; a promise of None once it is committed, or of the KafkaError that refused
        it. REQUEST_TIMED_OUT: it is written, and was not committed within `timeout_ms`."""
        try:
            context = self._active(partition)
        except KafkaError as error:
            return Promise.of(error)
        return self._writer.end_transaction(context, end, timeout_ms, now)

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
        context.reads.append(Read(look, promise))
        self._answer_reads(context, now)
        if not promise.kept:
            wait_until = max(now, context.reads_wait_until)
            timeout = self._timer.at(wait_until, partial(self._answer_reads, context))
            promise.then(lambda _: timeout.cancel())
        return promise

    def _answer_reads(self, context: Context[S], now: int) -> None:
        """Answer the reads of this partition, unless they have to wait."""
        view = context.view
        if view is None or not (context.reads or view.is_behind or view.has_many):
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
            context.catching_up = context.catching_up or view.follow()
            self._reading[context] = None
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
                found = self._writer.unexpected("coordinator-read", error)
            self._writer.keep(read.promise, found)

    def _catch_up(self, context: Context[S], now: int) -> None:
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

    def _fail_reads(self, context: Context[S], error: KafkaError) -> None:
        reads, context.reads = context.reads, []
        for read in reads:
            self._writer.keep(read.promise, error)

    # --- what is committed --------------------------------------------------------------------------------------------

    def note_high_watermark(self, partition: int) -> None:
        """The partition's high watermark may have moved: the next `poll` answers what waited for it. Not here, because
        the news may come in the middle of an append, whose records must be replayed before anything else is planned."""
        context = self._contexts.get(partition)
        if context is None:
            return
        has_to_follow = context.view is not None and (context.view.is_behind or context.view.has_many)
        if context.waiting or context.reads or has_to_follow:
            self._writer.has_news.add(partition)
            self._room.mark("news")

    def _answer_committed(self, now: int) -> None:
        while self._writer.has_news:
            partition = min(self._writer.has_news)
            self._writer.has_news.discard(partition)  # what is answered now may append, and so bring news again
            context = self._contexts.get(partition)
            if context is None:
                continue
            context.timer.set_time(now)
            try:
                committed = self._log.high_watermark(partition)
            except KafkaError:  # the partition is gone, and the metadata have not said so yet
                continue
            self._writer.answer_committed(context, committed, now)
            self._answer_reads(context, now)


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
