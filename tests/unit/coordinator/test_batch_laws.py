"""Laws of a coordinator's batches, over random histories: transactions, refusals, replication, lost leaderships.

* A write is answered once its record is in the log and committed.
* A plan sees what was decided before it: the sums in the log grow.
* Records of a transaction are in batches of their own, and its marker comes after what was decided before it.
* A shard is what a replay of its log gives, and then of what it has decided and not written yet. So a shard that is
  loaded from the log is the one that was there before.
* In the end every write is answered.

Each planted bug breaks one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.coordinator.replay import NO_PRODUCER, Change, changes
from pykraft.coordinator.result import CoordinatorResult
from pykraft.coordinator.shard_context import Context, OpenBatch
from pykraft.coordinator.shard_writer import ShardWriter
from pykraft.protocol.messages.coordinators import GROUP_RECORDS, OffsetCommitValue
from tests.unit.coordinator.sums import ABORT, COMMIT, COMMIT_TIMEOUT_MS, PRODUCER, Coordinator, P, Sum, look, record

SEEDS = range(16)
STEPS = 60
TRANSACTIONAL = 1 << 40
"""Numbers of transactions begin here."""
REFUSALS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)


class BrokenLawError(AssertionError):
    """A law of this module does not hold."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenLawError(what)


class History:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sums = Coordinator(self.random.choice((-1, -1, 0, 5)))
        self.sums.log.most = self.random.choice((300, 1_000, 1 << 20))
        self.sums.rooms.more_waits = lambda: self.random.random() < 0.8
        self.sums.log.committed = 0
        self.transactions = TRANSACTIONAL
        self.asked = self.answered = 0
        self.epoch = 1

    def run(self) -> None:
        steps = (
            [self.write] * 6
            + [self.look] * 2
            + [self.write_in_transaction, self.end_transaction, self.replicate, self.replicate, self.turn, self.turn]
            + [self.refuse, self.lose_leadership]
        )
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.check()
        self.sums.log.refuses = None
        self.sums.turn(100)
        self.sums.committed(None)
        self.sums.turn(COMMIT_TIMEOUT_MS)
        self.check()
        require(self.asked == self.answered, f"{self.asked} asked, {self.answered} were answered")

    # --- what happens -------------------------------------------------------------------------------------------------

    def write(self) -> None:
        found: list[int] = []
        count = self.random.randint(1, 3)

        def plan(shard: Sum) -> CoordinatorResult[None]:
            found.extend(shard.value + 1 + number for number in range(count))
            return CoordinatorResult(None, [record(number) for number in found])

        self._ask(self.sums.write(plan), lambda: [(number, NO_PRODUCER) for number in found])

    def look(self) -> None:
        """A request without records rests on what it has seen."""
        seen: list[tuple[int, int]] = []

        def plan(shard: Sum) -> CoordinatorResult[None]:
            seen.extend([(shard.value, NO_PRODUCER)] if shard.value else [])
            return CoordinatorResult(None)

        self._ask(self.sums.write(plan), lambda: seen)

    def write_in_transaction(self) -> None:
        self.transactions += 1
        number = self.transactions
        done = self.sums.write(lambda shard: CoordinatorResult(None, [record(number)]), PRODUCER)
        self._ask(done, lambda: [(number, PRODUCER.producer_id)])

    def end_transaction(self) -> None:
        before = self._last_decided()
        end = self.random.choice((COMMIT, ABORT))
        count = len(self.sums.log.data)
        self._ask(self.sums.runtime.end_transaction(P, end, 1_000, self.sums.now), list)
        if len(self.sums.log.data) > count:
            require(self.sums.runtime.unwritten(P) == (), "a marker was written before what was decided before it")
            require(before in [None, *self._sums_written()], f"the marker comes before {before}")

    def replicate(self) -> None:
        end = self.sums.log.end_offset(P)
        low = min(self.sums.log.committed or 0, end)
        self.sums.committed(self.random.randint(low, end))

    def turn(self) -> None:
        self.sums.turn(self.random.choice((0, 0, 3, 20)))

    def refuse(self) -> None:
        """The log refuses what comes in this turn."""
        self.sums.log.refuses = KafkaError(self.random.choice(REFUSALS), "no")
        for _ in range(self.random.randint(0, 2)):
            self.write()
        self.sums.turn(self.random.choice((0, 20)))
        self.sums.log.refuses = None
        self.sums.turn()

    def lose_leadership(self) -> None:
        """And get it back: what the log has is kept."""
        self.epoch += 1
        self.sums.runtime.resign(P)
        self.sums.runtime.lead(P, self.epoch, self.sums.now)
        self.sums.turn()

    def _ask(self, answer: Any, wrote: Callable[[], list[tuple[int, int]]]) -> None:
        self.asked += 1

        def on_answer(value: Any) -> None:
            self.answered += 1
            if not isinstance(value, KafkaError):
                committed = self.sums.log.high_watermark(P)
                has = {(number, producer) for number, producer, end in self.sums.log.numbers if end <= committed}
                require(has.issuperset(wrote()), f"{wrote()} was answered; committed is {sorted(has)}")

        answer.then(on_answer)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def _sums_written(self) -> list[int]:
        return [number for number, producer, _ in self.sums.log.numbers if producer == NO_PRODUCER]

    def _last_decided(self) -> int | None:
        unwritten = [_number(change) for change in self.sums.runtime.unwritten(P)]
        return unwritten[-1] if unwritten else None

    def check(self) -> None:
        written = self._sums_written()
        require(written == sorted(set(written)), f"the sums in the log do not grow: {written}")
        for number, producer, _ in self.sums.log.numbers:
            require(
                (number >= TRANSACTIONAL) == (producer == PRODUCER.producer_id),
                f"{number} is in a batch of producer {producer}",
            )
        if self.sums.runtime.active_partitions() != [P]:
            return
        fresh = Sum()
        for batch in self.sums.log.batches(P):
            for change in changes(GROUP_RECORDS, batch):
                change.apply(fresh)
        for change in self.sums.runtime.unwritten(P):
            change.apply(fresh)
        require(vars(fresh) == vars(self.sums.shard), f"the shard is {vars(self.sums.shard)}; its log {vars(fresh)}")


def _number(change: Change) -> int:
    assert change.record is not None and isinstance(change.record.value, OffsetCommitValue)
    return change.record.value.offset


@pytest.mark.costly
@pytest.mark.parametrize("seed", SEEDS)
def test_the_laws_hold_in_every_history(seed: int) -> None:
    history = History(seed)
    history.run()
    assert history.asked > 20 and not history.sums.faults


# --- planted bugs -----------------------------------------------------------------------------------------------------


def answered_before_the_append(patch: pytest.MonkeyPatch) -> None:
    answer = ShardWriter._answer

    def at_once(self: Any, context: Any, result: Any, committed: int, *rest: Any) -> Any:
        batch, context.batch = context.batch, None
        try:
            return answer(self, context, result, 1 << 60, *rest)
        finally:
            context.batch = batch

    patch.setattr(ShardWriter, "_answer", at_once)


def answered_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    def at_once(self: Any, context: Any, operations: Any, now: int, *_: Any) -> None:
        for operation in operations:
            self._finish(context, operation, None, now)

    patch.setattr(ShardWriter, "_wait", at_once)


def a_failed_append_that_keeps_the_replayed_state(patch: pytest.MonkeyPatch) -> None:
    def keep(self: Any, context: Any, answer: KafkaError, cause: Exception, now: int) -> None:
        for operation in self.drop_batch(context):
            self._finish(context, operation, answer, now)

    patch.setattr(ShardWriter, "_lose_batch", keep)


def a_failed_append_that_forgets_the_writes(patch: pytest.MonkeyPatch) -> None:
    def forget(self: Any, context: Any, answer: KafkaError, cause: Exception, now: int) -> None:
        self.drop_batch(context)
        self._owner.reload(context, cause, now)

    patch.setattr(ShardWriter, "_lose_batch", forget)


def a_batch_that_mixes_a_transactional_write(patch: pytest.MonkeyPatch) -> None:
    keep_records = ShardWriter._keep_records

    def mixed(self: Any, context: Any, result: Any, now: int, writer: Any) -> None:
        keep_records(self, context, result, now, None if context.batch is not None else writer)

    patch.setattr(ShardWriter, "_keep_records", mixed)


def a_marker_that_overtakes_the_batch(patch: pytest.MonkeyPatch) -> None:
    end_transaction = ShardWriter.end_transaction

    def overtaking(self: Any, context: Context[Any], *rest: Any) -> Any:
        batch, context.batch = context.batch, None
        try:
            return end_transaction(self, context, *rest)
        finally:
            context.batch = batch

    patch.setattr(ShardWriter, "end_transaction", overtaking)


def a_plan_on_the_state_that_is_written(patch: pytest.MonkeyPatch) -> None:
    """Records are replayed when they are in the log, as without batches."""
    write, close = ShardWriter.write, ShardWriter.close

    def unreplayed(self: Any, context: Any, plan: Any, now: int, writer: Any = None) -> Any:
        is_late = context.batch is not None
        return write(self, context, lambda shard: plan(shard)._replace(is_replayed=not is_late), now, writer)

    def replay(self: Any, context: Any, now: int) -> None:
        late = [] if context.batch is None else context.batch.changes
        close(self, context, now)
        for change in late:
            change.apply(context.shard)

    patch.setattr(ShardWriter, "write", unreplayed)
    patch.setattr(ShardWriter, "close", replay)


def a_response_without_records_that_waits_for_no_batch(patch: pytest.MonkeyPatch) -> None:
    write = ShardWriter.write

    def careless(self: Any, context: Context[Any], plan: Any, now: int, writer: Any = None) -> Any:
        before = context.batch
        result = plan(context.shard)
        if result.records:
            return write(self, context, lambda _: result, now, writer)
        context.batch = None
        try:
            return write(self, context, lambda _: result, now, writer)
        finally:
            context.batch = before

    patch.setattr(ShardWriter, "write", careless)


def an_open_batch_that_outlives_the_leadership(patch: pytest.MonkeyPatch) -> None:
    fail_all = ShardWriter.fail_all

    def spared(self: Any, context: Any, error: KafkaError, now: int) -> None:
        batch, context.batch = context.batch, None
        fail_all(self, context, error, now)
        if batch is not None:
            self.open_batches[context], context.batch = None, batch

    patch.setattr(ShardWriter, "fail_all", spared)


def a_batch_that_is_too_large(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OpenBatch, "has_room_for", lambda self, records: True)


@pytest.mark.parametrize(
    ("plant", "law"),
    [
        (answered_before_the_append, "was answered; committed is"),
        (answered_before_it_is_committed, "was answered; committed is"),
        (a_failed_append_that_keeps_the_replayed_state, "the shard is"),
        (a_failed_append_that_forgets_the_writes, "were answered"),
        (a_batch_that_mixes_a_transactional_write, "is in a batch of producer"),
        (a_marker_that_overtakes_the_batch, "a marker was written before"),
        (a_plan_on_the_state_that_is_written, "do not grow|the shard is"),
        (a_response_without_records_that_waits_for_no_batch, "was answered; committed is"),
        (an_open_batch_that_outlives_the_leadership, "do not grow|the shard is"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_planted_bug_breaks_its_law(
    plant: Callable[[pytest.MonkeyPatch], None], law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(BrokenLawError, match=law):
        for seed in SEEDS:
            history = History(seed)
            history.run()
            for fault in history.sums.errors:
                raise fault


def test_a_batch_that_is_too_large_would_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    a_batch_that_is_too_large(monkeypatch)
    sums = Coordinator()
    sums.log.most = 300
    answers = [sums.write(look), *(sums.write(lambda shard: CoordinatorResult(None, [record(1)])) for _ in range(9))]
    sums.turn()
    assert any(isinstance(answer.value, KafkaError) for answer in answers)
