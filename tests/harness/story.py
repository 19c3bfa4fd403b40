"""A story: things done to one log, a crash in the middle of one of them, and what must be left of the log then.

A story is a list of steps. Playing it, a `Player` keeps a journal: the batches that the log holds, those that a step is
about to add, and up to where everything is synced. When the disk stops (`Crash`), the journal tells what a recovered
log may hold: a prefix of these batches and of those under way; and what it must hold: after the end of the process
everything that was done, after a loss of power everything that was synced. No truncation that was done is undone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition
from pykraft.records.batch import RecordBatch
from pykraft.sim.world.disk import Crash, MemoryFileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin
from tests.harness.log_laws import all_batches, check, no_epoch_is_ahead, recovered_indexes_are_rebuilt_ones
from tests.harness.storage import (
    NEVER_MS,
    NOW_MS,
    ByHand,
    Inline,
    at,
    batch,
    copied,
    disk,
    durable_end,
    loader,
    marker,
    produced,
    tiny,
)


class Journal:
    """What a log holds, and what may be lost of it."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.coming: list[bytes] = []
        """The batches that a step under way appends."""
        self.at_least = 0
        """How many batches stay whatever a step under way does, if the power does not fail."""
        self.synced_offset = 0
        self.start_offset = 0
        """Where the log begins: what lies before it may be gone, if its segment is."""
        self.coming_start = 0
        """Where a step under way lets it begin."""

    def begin_deletion(self, offset: int) -> None:
        self.coming_start = max(self.start_offset, offset)

    def end_deletion(self) -> None:
        self.start_offset = self.coming_start

    def begin_append(self, some: Sequence[RecordBatch]) -> None:
        self.coming = [bytes(each.buffer) for each in some]

    def end_append(self) -> None:
        self.batches += self.coming
        self.coming = []
        self.at_least = len(self.batches)

    def begin_truncation(self, offset: int) -> None:
        self.at_least = sum(next_offset(each) <= offset for each in self.batches)

    def end_truncation(self) -> None:
        del self.batches[self.at_least :]
        end = next_offset(self.batches[-1]) if self.batches else 0
        self.synced_offset = min(self.synced_offset, end)
        self.start_offset = self.coming_start = min(self.start_offset, end)

    def judge(self, found: Sequence[bytes], power_failed: bool) -> None:
        """AssertionError unless a crash may leave these batches."""
        first = RecordBatch(memoryview(found[0])).base_offset if found else 0
        gone = sum(next_offset(each) <= first for each in self.batches)
        assert not gone or first <= self.coming_start, (
            f"the log begins at {first}, but {self.coming_start} was asked for"
        )
        allowed = [*self.batches[gone:], *self.coming]
        assert list(found) == allowed[: len(found)], "what is left is no prefix of what was appended"
        synced = sum(next_offset(each) <= self.synced_offset for each in self.batches[: self.at_least])
        needed = (synced if power_failed else self.at_least) - gone
        kept = [each for each in self.batches[gone : gone + max(0, needed)] if next_offset(each) > self.coming_start]
        assert len(found) >= needed or not kept, f"{len(found)} batches are left of {needed} that must be"


def next_offset(some: bytes) -> int:
    return RecordBatch(memoryview(some)).next_offset


class Player:
    """Plays steps on a log, and opens it again after a crash."""

    def __init__(self, config: Config | None = None, in_background: bool = False) -> None:
        self.config = config or tiny()
        self.filesystem: MemoryFileSystem = disk()
        self.background: Any = ByHand() if in_background else Inline()
        self.journal = Journal()
        self.checkpoint = 0
        """The recovery point in the checkpoint."""
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.open_transactions: set[int] = set()
        self.clock = 0
        self.log: UnifiedLog | None = None

    def open(self, clean: bool = False) -> UnifiedLog:
        return loader(
            self.filesystem,
            self.config,
            background=self.background,
            clean=clean,
            recovery_point=self.checkpoint,
            on_truncated=self._lower_checkpoint,
            on_recovery_point=self._raise_checkpoint,
            producer_id_expiration_ms=NEVER_MS,
        ).load()

    def _lower_checkpoint(self, log: UnifiedLog) -> None:
        self.checkpoint = min(self.checkpoint, log.recovery_point)

    def _raise_checkpoint(self, _: TopicPartition, recovery_point: int) -> None:
        self.checkpoint = recovery_point

    @property
    def now(self) -> UnifiedLog:
        assert self.log is not None
        return self.log

    # --- steps --------------------------------------------------------------------------------------------------------

    def append(self, count: int = 1, producer: int | None = None, transactional: bool = False, size: int = 10) -> None:
        """Append a batch as the leader, perhaps as an idempotent producer's next one."""
        self.clock += 7
        timestamp = NOW_MS + self.clock * (-1 if self.clock % 5 == 0 else 1)
        if producer is None:
            some = batch(count, timestamp=timestamp, size=size)
        else:
            sequence = self.sequences.get(producer, 0)
            transactional = transactional or producer in self.open_transactions
            some = produced(producer, sequence, count, transactional=transactional, timestamp=timestamp, size=size)
            self.sequences[producer] = sequence + count
            if transactional:
                self.open_transactions.add(producer)
        self._append(some, AppendOrigin.CLIENT)

    def end(self, producer: int, committed: bool) -> None:
        self.clock += 7
        self.open_transactions.discard(producer)
        self._append(marker(producer, committed, timestamp=NOW_MS + self.clock), AppendOrigin.COORDINATOR)

    def end_any(self, committed: bool) -> None:
        """End a transaction, if one is open."""
        if self.open_transactions:
            self.end(min(self.open_transactions), committed)

    def _append(self, some: RecordBatch, origin: AppendOrigin) -> None:
        self.journal.begin_append([at(self.now.log_end_offset, copied(some), self.epoch)])
        self.now.append_as_leader(some, self.epoch, origin)
        self.journal.end_append()

    def follow(self, *counts: int) -> None:
        """Append several batches at once, as a follower gets them; each second one begins a new epoch."""
        offset = self.now.log_end_offset
        some = []
        for number, count in enumerate(counts):
            self.clock += 7
            self.epoch += number % 2
            some.append(at(offset, batch(count, timestamp=NOW_MS + self.clock), self.epoch))
            offset += count
        self.journal.begin_append(some)
        self.now.append_as_follower(memoryview(b"".join(each.buffer for each in some)))
        self.journal.end_append()

    def skip(self, gap: int, count: int) -> None:
        """Append a batch of a new leader whose log was compacted, so many offsets behind the end. A follower forgets
        first what that leader does not know."""
        self.clock += 7
        self.epoch += 1
        self.now.truncate_to(self.now.log_end_offset)
        some = at(self.now.log_end_offset + gap, batch(count, timestamp=NOW_MS + self.clock), self.epoch)
        self.journal.begin_append([some])
        self.now.append_as_follower(memoryview(some.buffer))
        self.journal.end_append()

    def truncate(self, back: int) -> None:
        """Cut off the last `back` offsets; another leader goes on from there."""
        offset = max(0, self.now.log_end_offset - back)
        self.journal.begin_truncation(offset)
        self.now.truncate_to(offset)
        self.journal.end_truncation()
        self.epoch += 1
        self._ask_for_producers()

    def _ask_for_producers(self) -> None:
        """The producers go on from what the log knows of them, as clients do that were told of an error."""
        known = self.now.producer_state.producers
        self.sequences = {producer_id: entry.last_sequence + 1 for producer_id, entry in known.items()}
        self.open_transactions = {
            producer_id for producer_id, entry in known.items() if entry.transaction_first_offset is not None
        }

    def new_epoch(self) -> None:
        self.epoch += 1
        self.now.epochs.assign(self.epoch, self.now.log_end_offset)

    def flush(self) -> None:
        self.now.flush()
        self.journal.synced_offset = self.now.log_end_offset

    def sync_records(self) -> None:
        self.now.sync_records()
        self.journal.synced_offset = self.now.log_end_offset

    def roll(self) -> None:
        self.now.roll(self.now.log_end_offset)

    def write_checkpoint(self) -> None:
        self.checkpoint = self.now.recovery_point

    def work(self) -> None:
        """The background does what was submitted."""
        if isinstance(self.background, ByHand):
            self.background.run()

    def raise_high_watermark(self, back: int) -> None:
        self.now.update_high_watermark(max(self.now.high_watermark, self.now.log_end_offset - back))

    def reopen(self) -> None:
        """An orderly stop and start; the recovery point is written down in between."""
        self.now.close()
        self.journal.synced_offset = self.now.log_end_offset
        self.checkpoint = self.now.recovery_point
        self.log = self.open(clean=True)

    # --- playing ------------------------------------------------------------------------------------------------------

    def play(self, story: Sequence[Step], after_each: Callable[[], None] = lambda: None) -> bool:
        """Play the story up to its end (True), or to the crash that the disk is set to have."""
        try:
            if self.log is None:
                self.log = self.open()
            for name, arguments in story:
                getattr(self, name)(*arguments)
                after_each()
        except Crash:
            return False
        return True

    def recover(self, power: Random | None, power_failed: bool = False) -> UnifiedLog:
        """Crash the disk, with the dice for a loss of power, open the log and judge what is left. `power_failed` says
        that it had failed before."""
        # What the log said was synced, is, also what the background did; and so is what the disk has.
        if self.log is not None:
            self.journal.synced_offset = max(self.journal.synced_offset, self.log.recovery_point)
        self.journal.synced_offset = max(self.journal.synced_offset, durable_end(self.filesystem))
        if power is None:
            self.filesystem.crash_process()
        else:
            self.filesystem.crash_power(power)
        self.background = Inline()
        log = self.open()
        self.judge(log, power_failed or power is not None)
        return log

    def judge(self, log: UnifiedLog, power_failed: bool) -> None:
        found = all_batches(log)
        self.journal.judge([bytes(each.buffer) for each in found], power_failed)
        check(log, partial(recovered_indexes_are_rebuilt_ones, trusted_below=self.checkpoint), no_epoch_is_ahead)

    def fork(self) -> Player:
        """The same player with a disk of its own, after a crash: to see several ends of one story."""
        twin = copy.copy(self)
        twin.filesystem = copy.deepcopy(self.filesystem)
        twin.journal = copy.deepcopy(self.journal)
        return twin


Step = tuple[str, tuple[Any, ...]]


def random_story(seed: int, length: int = 28, gaps: int = 0) -> list[Step]:
    """Steps drawn by a seed. So many batches come to a follower behind gaps, some of them too wide for an index."""
    random = Random(seed)
    story: list[Step] = []
    while len(story) < length:
        kind = random.choices(
            ("append", "transaction", "follow", "truncate", "flush", "other"), weights=(6, 10, 3, 2, 2, 4)
        )[0]
        if kind == "append":
            story.append(("append", (random.randint(1, 3), random.choice((None, 1, 2)))))
        elif kind == "transaction":
            producer = random.choice((1, 2, 3))
            committed = random.random() < 0.5
            story.append(random.choice((("append", (1, producer, True)), ("end_any", (committed,)))))
        elif kind == "follow":
            story.append(("follow", tuple(random.randint(1, 3) for _ in range(random.randint(1, 6)))))
        elif kind == "truncate":
            story.append(("truncate", (random.randint(1, 12),)))
        elif kind == "flush":
            story.append((random.choice(("flush", "sync_records")), ()))
        elif kind == "other":
            name = random.choice(("roll", "write_checkpoint", "work", "new_epoch", "reopen", "raise_high_watermark"))
            story.append((name, (random.randint(0, 9),) if name == "raise_high_watermark" else ()))
    for _ in range(gaps):
        gap = random.choice((1, 1000, (1 << 31) - random.randint(1, 5), (1 << 31) + random.randint(0, 2)))
        story.insert(random.randrange(len(story)), ("skip", (gap, random.randint(1, 3))))
    return story
