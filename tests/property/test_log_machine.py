"""One log, anything done to it in any order, and a list of batches that says what it must hold.

Hypothesis draws the steps: appends by idempotent and transactional producers, repeated and out-of-order batches, chunks
as a follower gets them, truncations, rolls, flushes, orderly restarts, the end of the process, a loss of power. Reads
with random bounds are compared with the list; after every restart the log is held to all laws.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.records.batch import RecordBatch
from pykraft.records.markers import read_marker
from pykraft.storage.answers import Isolation
from tests.harness.log_laws import all_batches, check, every_timestamp_is_found
from tests.harness.storage import bytes_of, copied, tiny
from tests.harness.story import Journal, Player

PRODUCERS = st.integers(1, 3)
COUNTS = st.integers(1, 4)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[RecordBatch, tuple[int, int]]] = []
        """What idempotent producers sent since the last restart or truncation, and where it went."""
        self.remembers_undecided = True
        """Whether the log knows which ended transactions may come back: a snapshot does not tell."""

    @initialize(
        segment_bytes=st.integers(350, 900),
        interval=st.integers(0, 200),
        index_bytes=st.sampled_from([4, 24, 60, 10 << 20]),
        in_background=st.booleans(),
    )
    def begin(self, segment_bytes: int, interval: int, index_bytes: int, in_background: bool) -> None:
        config = tiny(segment_bytes, segment_index_bytes=index_bytes).with_values(index_interval_bytes=interval)
        self.player = Player(config, in_background)
        self.player.play([])

    @property
    def log(self) -> Any:
        return self.player.now

    @property
    def model(self) -> list[RecordBatch]:
        return [RecordBatch(memoryview(some)) for some in self.player.journal.batches]

    # --- appends ------------------------------------------------------------------------------------------------------

    @rule(count=COUNTS, size=st.integers(0, 60))
    def append(self, count: int, size: int) -> None:
        self.player.append(count, size=size)

    @rule(producer=PRODUCERS, count=COUNTS, transactional=st.booleans())
    def append_as_producer(self, producer: int, count: int, transactional: bool) -> None:
        self.player.append(count, producer, transactional)
        last = copied(self.model[-1])
        self.sent.append((last, (last.base_offset, last.last_offset)))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """A producer sends one of its last five batches again: the answer says where the batch is."""
        some, place = data.draw(st.sampled_from(self.sent))
        own = [each for each, _ in self.sent if each.producer_id == some.producer_id][-5:]
        if some in own:
            again = copied(some)
            again.assign(0, -1)
            info = self.log.append_as_leader(again, self.player.epoch)
            assert (info.first_offset, info.last_offset) == place

    @rule(producer=PRODUCERS, ahead=st.integers(1, 5))
    def send_out_of_order(self, producer: int, ahead: int) -> None:
        if producer in self.log.producer_state.producers:
            self.player.sequences[producer] = self.player.sequences.get(producer, 0) + ahead
            try:
                self.player.append(1, producer)
                raise AssertionError("a gap was accepted")
            except KafkaError as error:
                assert error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self.player.journal.coming = []
            self.player.sequences[producer] -= 1 + ahead

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end_transaction(self, producer: int, committed: bool) -> None:
        self.player.end(producer, committed)

    @rule(counts=st.lists(COUNTS, min_size=1, max_size=8))
    def follow(self, counts: list[int]) -> None:
        self.player.follow(*counts)

    # --- everything else ----------------------------------------------------------------------------------------------

    @rule(back=st.integers(0, 25))
    def truncate(self, back: int) -> None:
        self.player.truncate(back)
        self.sent = []
        self.remembers_undecided = False

    @rule(name=st.sampled_from(["flush", "sync_records", "roll", "work", "write_checkpoint", "new_epoch"]))
    def do(self, name: str) -> None:
        getattr(self.player, name)()

    @rule(back=st.integers(0, 10))
    def replicate(self, back: int) -> None:
        self.player.raise_high_watermark(back)

    @rule()
    def restart_in_order(self) -> None:
        self.player.reopen()
        self.after_restart()

    @rule(power=st.none() | st.integers(0, 1 << 30))
    def crash(self, power: int | None) -> None:
        self.player.log = self.player.recover(None if power is None else Random(power))
        journal = Journal()
        journal.batches = [bytes(some.buffer) for some in all_batches(self.log)]
        journal.at_least = len(journal.batches)
        journal.synced_offset = self.log.recovery_point
        self.player.journal = journal
        self.player.checkpoint = min(self.player.checkpoint, self.log.recovery_point)
        self.player.epoch += 1
        self.player._ask_for_producers()
        self.after_restart()

    def after_restart(self) -> None:
        self.sent = []
        self.remembers_undecided = False
        check(self.log)

    # --- reading ------------------------------------------------------------------------------------------------------

    @rule(
        data=st.data(),
        max_bytes=st.integers(0, 1000),
        isolation=st.sampled_from(Isolation),
        at_least_one=st.booleans(),
    )
    def read(self, data: st.DataObject, max_bytes: int, isolation: Isolation, at_least_one: bool) -> None:
        offset = data.draw(st.integers(self.log.log_start_offset, self.log.log_end_offset))
        found = self.log.read(offset, max_bytes, isolation, at_least_one)
        bound = self.log.upper_bound(isolation)
        visible = [some for some in self.model if some.last_offset >= offset and some.next_offset <= bound]
        expected = b"".join(bytes(some.buffer) for some in visible) if offset < bound else b""
        got = bytes_of(found.records)
        assert got == expected[: len(got)]
        if not expected:
            return
        limit = max(max_bytes, visible[0].size) if at_least_one else max_bytes
        assert len(got) <= limit and found.first_batch_is_cut == (limit < visible[0].size)
        if len(got) < min(limit, len(expected)):
            ends = {segment.base_offset for segment in self.log.segments}
            assert self.offset_after(visible, len(got)) in ends, "only the end of a segment may end a read early"
        if isolation is Isolation.COMMITTED:
            self.check_aborted(offset, self.offset_after(visible, len(got)), bound, found.aborted)

    @staticmethod
    def offset_after(visible: list[RecordBatch], size: int) -> int:
        """The offset after the last batch that begins in the first `size` bytes."""
        offset = visible[0].base_offset
        for some in visible:
            if size <= 0:
                break
            offset, size = some.next_offset, size - some.size
        return offset

    def check_aborted(self, offset: int, end: int, bound: int, found: list[Any]) -> None:
        """Every transaction whose aborted records were read is named; none is that lies elsewhere."""
        aborted = {
            (producer, first)
            for producer, first, last, committed in self.transactions()
            if committed is False and last >= offset and first < bound
        }
        needed = {(producer, first) for producer, first in aborted if first < end}
        named = {(each.producer_id, each.first_offset) for each in found}
        assert needed <= named <= aborted, (needed, named, aborted)

    def transactions(self) -> list[tuple[int, int, int, bool | None]]:
        """(producer, first offset, offset of the marker, committed) of each; open ones end nowhere, as None."""
        open_since: dict[int, int] = {}
        found: list[tuple[int, int, int, bool | None]] = []
        for some in self.model:
            if some.is_control:
                if some.producer_id in open_since:
                    committed = read_marker(some).committed
                    found.append((some.producer_id, open_since.pop(some.producer_id), some.base_offset, committed))
            elif some.is_transactional:
                open_since.setdefault(some.producer_id, some.base_offset)
        return found + [(producer, first, 1 << 62, None) for producer, first in open_since.items()]

    # --- always -------------------------------------------------------------------------------------------------------

    @invariant()
    def the_end_is_where_the_list_ends(self) -> None:
        if hasattr(self, "player"):
            model = self.player.journal.batches
            end = RecordBatch(memoryview(model[-1])).next_offset if model else 0
            assert self.log.log_end_offset == end

    @invariant()
    def committed_data_are_decided(self) -> None:
        if not hasattr(self, "player"):
            return
        mark = self.log.high_watermark
        undecided = [first for _, first, last, _ in self.transactions() if last >= mark]
        opened = [first for _, first, _, committed in self.transactions() if committed is None]
        assert min([mark, *undecided]) <= self.log.last_stable_offset <= min([mark, *opened])
        if self.remembers_undecided:
            assert self.log.last_stable_offset == min([mark, *undecided])

    def teardown(self) -> None:
        if hasattr(self, "player"):
            check(self.log, every_timestamp_is_found)


TestLog = pytest.mark.limit(900)(LogMachine.TestCase)  # a soak looks at thousands of runs
TestLog.settings = settings(stateful_step_count=40)
