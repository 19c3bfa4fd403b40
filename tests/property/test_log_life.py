"""One log through everything that a log goes through, in any order: it is appended to, rolled, truncated, compacted,
shortened by retention and by DeleteRecords, closed and opened, and its process ends or the power fails.

Hypothesis draws the steps; a list of all batches that were ever appended says what must be found. A reader from
the start of the log to its end knows the last value of each key that is not deleted; what was not compacted yet is
there batch by batch; what lies before the start is out of range. Truncated is only what was never replicated, as by a
leader that was deposed: what is replicated stays.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.records.batch import RecordBatch
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.log_cleaner import LogCleaner
from pykraft.storage.upkeep.log_loader import LogLoader
from tests.harness.compaction import Compactor, compacting, compaction_law, shape_laws
from tests.harness.log_laws import all_batches

KEYS = st.lists(st.integers(-4, 4).filter(bool), min_size=1, max_size=3)
PRODUCERS = st.integers(1, 2)


class LogLife(RuleBasedStateMachine):
    @initialize(segment_bytes=st.integers(350, 900), in_background=st.booleans())
    def begin(self, segment_bytes: int, in_background: bool) -> None:
        config = compacting(
            segment_bytes=segment_bytes,
            cleanup_policy=["compact", "delete"],
            delete_retention_ms=1 << 50,
            retention_ms=-1,
            retention_bytes=6 * segment_bytes,
        )
        self.player = Compactor(config, in_background)
        self.player.play([])

    # --- appending ----------------------------------------------------------------------------------------------------

    @rule(rounds=st.lists(KEYS, min_size=1, max_size=8))
    def append(self, rounds: list[list[int]]) -> None:
        for keys in rounds:
            self.player.put(*keys)

    @rule(producer=PRODUCERS, transactional=st.booleans(), keys=KEYS)
    def append_as(self, producer: int, transactional: bool, keys: list[int]) -> None:
        self.player.put_as(producer, transactional, *keys)

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end(self, producer: int, committed: bool) -> None:
        self.player.end(producer, committed)

    @rule(keys=st.lists(KEYS, min_size=1, max_size=8), back=st.integers(1, 12))
    def truncate(self, keys: list[list[int]], back: int) -> None:
        """A leader appends what no follower replicates, and a part of it is truncated."""
        log, player = self.player.log, self.player
        replicated = log.high_watermark
        for some in keys:
            player.put(*some)
            log.high_watermark = replicated
        log.truncate_to(max(replicated, log.log_end_offset - back))
        self.forget_what_is_gone()
        log.update_high_watermark(log.log_end_offset)

    def forget_what_is_gone(self) -> None:
        """The producers go on from what the log knows of them."""
        player = self.player
        player.appended = [some for some in player.appended if next_offset(some) <= player.log.log_end_offset]
        player.synced_offset = min(player.synced_offset, player.log.log_end_offset)
        known = player.log.producer_state.producers
        player.sequences = {producer: entry.last_sequence + 1 for producer, entry in known.items()}
        player.open_transactions = {p for p, entry in known.items() if entry.transaction_first_offset is not None}

    # --- shortening ---------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(["roll", "flush", "work", "write_checkpoint", "clean", "retain", "empty_trash"]))
    def do(self, name: str) -> None:
        getattr(self.player, name)()

    @rule(passes=st.integers(1, 2))
    def compact(self, passes: int) -> None:
        for _ in range(passes):
            self.player.roll()
            self.player.clean()
            self.player.work()
            self.player.put(1)
        self.judge()

    @rule(back=st.integers(0, 20))
    def delete_records(self, back: int) -> None:
        # Not into an open transaction: a log that is started again without any record of it has forgotten it, as in
        # Kafka (a snapshot at the log's start is dropped), and shows what it held back until then.
        log = self.player.log
        log.increase_log_start(max(log.log_start_offset, min(log.high_watermark - back, log.last_stable_offset)))
        self.player.log_start_offset = log.log_start_offset
        log.forget_epochs()

    # --- stopping -----------------------------------------------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        player = self.player
        player.log.close()
        player.trash.close()
        player.checkpoint = player.synced_offset = player.log.recovery_point
        ended_at = player.log.log_end_offset
        player.start(clean=True)
        assert player.log.log_end_offset == ended_at
        self.forget_what_is_gone()
        self.judge()

    @rule(power=st.none() | st.integers(0, 1 << 30))
    def crash(self, power: int | None) -> None:
        player = self.player
        player.synced_offset = max(player.synced_offset, player.log.recovery_point)
        if power is None:
            player.filesystem.crash_process()
        else:
            player.filesystem.crash_power(Random(power))
        player.checkpoint = min(player.checkpoint, player.log.recovery_point)
        needed = player.synced_offset if power is not None else player.log.log_end_offset
        player.background = type(player.background)()
        player.start()
        assert player.log.log_end_offset >= needed
        player.checkpoint = min(player.checkpoint, player.log.recovery_point)
        self.forget_what_is_gone()
        self.judge()

    # --- laws ---------------------------------------------------------------------------------------------------------

    @rule()
    def judge(self) -> None:
        log = self.player.log
        assert log.log_start_offset >= self.player.log_start_offset, "what was deleted is back"
        shape_laws(log)
        compaction_law(log, self.player.model)

    @invariant()
    def what_is_dirty_is_there_batch_by_batch(self) -> None:
        if not hasattr(self, "player"):
            return
        log = self.player.log
        dirty = max(self.player.cleaner.first_dirty.get(log.topic_partition, 0), log.log_start_offset)
        current = self.player.cleaner.current
        if current is not None:
            dirty = max(dirty, current.first_uncleanable_offset)
        there = [bytes(each.buffer) for each in all_batches(log) if each.base_offset >= dirty]
        assert there == [some for some in self.player.appended if base_offset(some) >= dirty]

    @invariant()
    def what_lies_before_the_start_is_out_of_range(self) -> None:
        if not hasattr(self, "player"):
            return
        log = self.player.log
        assert log.segments[0].base_offset <= log.log_start_offset
        if log.log_start_offset:
            with pytest.raises(KafkaError) as refused:
                log.read(log.log_start_offset - 1, 100, Isolation.LOG_END, at_least_one=True)
            assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def base_offset(some: bytes) -> int:
    return RecordBatch(memoryview(some)).base_offset


def next_offset(some: bytes) -> int:
    return RecordBatch(memoryview(some)).next_offset


# --- the machine must be able to fail ---------------------------------------------------------------------------------


def all_but_the_active_segment(cleaner: LogCleaner, log: UnifiedLog, first_dirty: int, now_ms: int) -> int:
    return log.active_segment.base_offset


def written_start_is_ignored(loader: LogLoader) -> UnifiedLog:
    loader.log_start_offset = 0
    return _load(loader)


_load = LogLoader.load
BUGS: dict[str, tuple[type, str, Callable[..., object]]] = {
    "a pass goes beyond the first unstable offset": (LogCleaner, "_first_uncleanable", all_but_the_active_segment),
    "a start ignores what was deleted": (LogLoader, "load", written_start_is_ignored),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[name])
    drawn_alike = settings(
        max_examples=60, stateful_step_count=40, deadline=None, database=None, derandomize=True, phases=[Phase.generate]
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(LogLife, settings=drawn_alike)  # type: ignore[no-untyped-call]


TestLogLife = pytest.mark.limit(900)(LogLife.TestCase)
TestLogLife.settings = settings(stateful_step_count=40)
