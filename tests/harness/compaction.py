"""A compacted log, a model of it, and the law that compaction keeps.

The model is the list of all batches that were ever appended. From it the simplest loop tells what a reader of committed
data must come to know: of each key the last value. A reader may have stood anywhere in the log when it was cleaned;
whatever it had read before, and then reads from what is left, must add up to the same.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from pykraft.common.settings.config import Config
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.records.markers import read_marker
from pykraft.records.record import Record
from pykraft.sim.world.disk import Crash, MemoryFileSystem
from pykraft.storage.answers import Isolation
from pykraft.storage.disk.trash import Trash
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin
from pykraft.storage.upkeep.log_cleaner import CleanerLimits, LogCleaner
from pykraft.storage.upkeep.retention import delete_old_segments
from tests.harness.log_laws import all_batches, batches_are_whole_and_in_order, marks_are_in_order
from tests.harness.log_laws import every_offset_is_found as offsets_are_found
from tests.harness.log_laws import offset_index_entries_are_batches as index_entries_are_batches
from tests.harness.log_laws import time_index_entries_are_maxima as time_entries_are_maxima
from tests.harness.storage import (
    LOGS,
    NEVER_MS,
    NOW_MS,
    PARTITION,
    ByHand,
    Inline,
    ManualClock,
    at,
    bytes_of,
    copied,
    disk,
    durable_end,
    loader,
    marker,
    tiny,
)

Values = dict[bytes, bytes]
Pair = tuple[str | None, str | None]


def compacting(**values: Any) -> Config:
    """Settings under which a log is cleaned whenever there is something to clean."""
    return tiny(**{"cleanup_policy": ["compact"], "min_cleanable_dirty_ratio": 0.0, **values})


def records(*pairs: Pair, timestamp: int = NOW_MS, **fields: Any) -> RecordBatch:
    """A batch of these keys and values; None is null."""
    builder = RecordBatchBuilder(**fields)
    for number, (key, value) in enumerate(pairs):
        builder.append(timestamp + number, _encoded(key), _encoded(value), [("h", b"1")] if number % 2 else ())
    return RecordBatch(memoryview(builder.build()))


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def cleaner_of(
    log: UnifiedLog,
    filesystem: Any,
    clock: Any,
    background: Any = None,
    checkpoint_directory: str = LOGS,
    **fields: Any,
) -> LogCleaner:
    """A cleaner for this one log."""
    return LogCleaner(
        filesystem=filesystem,
        directory=checkpoint_directory,
        logs={PARTITION: log},
        clock=clock,
        background=background or Inline(),
        **fields,
    )


# --- the model --------------------------------------------------------------------------------------------------------


def decided(some: Sequence[RecordBatch]) -> list[Record]:
    """The records of these batches that a reader of committed data sees, if all of them are replicated."""
    open_since: dict[int, int] = {}
    aborted: set[int] = set()
    owners: dict[int, list[int]] = {}
    for each in some:
        if each.is_control:
            mine = owners.pop(each.producer_id, [])
            open_since.pop(each.producer_id, None)
            if each.count and not read_marker(each).committed:
                aborted.update(mine)
        elif each.is_transactional:
            open_since.setdefault(each.producer_id, each.base_offset)
            owners.setdefault(each.producer_id, []).append(each.base_offset)
    stable = min(open_since.values(), default=1 << 62)
    return [
        record
        for each in some
        if not each.is_control and each.base_offset not in aborted and each.base_offset < stable
        for record in each.records()
    ]


def fold(some: Iterable[Record], known: Values | None = None) -> Values:
    """What a reader knows after these records."""
    values = dict(known or {})
    for record in some:
        if record.key is not None and record.value is None:
            values.pop(record.key, None)
        elif record.key is not None and record.value is not None:
            values[record.key] = record.value
    return values


def read_committed(log: UnifiedLog, offset: int) -> list[Record]:
    """What a consumer of committed data gets from `offset` on: it drops aborted records itself."""
    found: list[Record] = []
    while offset < log.last_stable_offset:
        data = log.read(offset, 300, Isolation.COMMITTED, at_least_one=True)
        some = list(batches(memoryview(bytes_of(data.records))))
        if not some:
            break
        coming = sorted(data.aborted or [], key=lambda each: each.first_offset)
        active: set[int] = set()
        for each in some:
            while coming and coming[0].first_offset <= each.last_offset:
                active.add(coming.pop(0).producer_id)
            if each.is_control:
                active -= {each.producer_id} if each.count and not read_marker(each).committed else set()
            elif not (each.is_transactional and each.producer_id in active):
                found += [record for record in each.records() if record.offset >= offset]
        offset = some[-1].next_offset
    return found


# --- the law ----------------------------------------------------------------------------------------------------------


def compaction_law(log: UnifiedLog, appended: Sequence[RecordBatch], also_in_between: bool = True) -> None:
    """The whole log is replicated. A reader from the start sees the last value of each key; `also_in_between`: one who
    had read the original log up to any offset, too. (Not if tombstones were dropped: then he was too slow.)"""
    originals = [each for each in appended if each.next_offset <= log.log_end_offset]
    all_records = [record for record in decided(originals) if record.offset >= log.log_start_offset]
    by_offset = {record.offset: record for each in originals if not each.is_control for record in each.records()}
    for each in all_batches(log):
        if not each.is_control:
            for record in each.records():
                assert record == by_offset[record.offset], f"{record} was {by_offset[record.offset]}"
    final = fold(all_records)
    positions = sorted({each.base_offset for each in originals if each.base_offset >= log.log_start_offset})
    for position in [log.log_start_offset, *(positions if also_in_between else [])]:
        known = fold(record for record in all_records if record.offset < position)
        now = fold(read_committed(log, position), known)
        assert now == final, f"a reader who stood at {position} knows {now}, not {final}"


def shape_laws(log: UnifiedLog) -> None:
    """What holds of every log, compacted or not."""
    batches_are_whole_and_in_order(log)
    marks_are_in_order(log)
    index_entries_are_batches(log)
    time_entries_are_maxima(log)
    offsets_are_found(log)


def producers_law(log: UnifiedLog, appended: Sequence[RecordBatch]) -> None:
    """The log knows the last sequence number of every producer."""
    last: dict[int, tuple[int, int]] = {}
    for each in appended:
        if each.has_producer_id and not each.is_control and each.next_offset <= log.log_end_offset:
            last[each.producer_id] = (each.producer_epoch, each.last_sequence)
    known = {key: (entry.epoch, entry.last_sequence) for key, entry in log.producer_state.producers.items()}
    assert known == last, f"{known}, but {last} was appended"


# --- stories ----------------------------------------------------------------------------------------------------------

Step = tuple[str, tuple[Any, ...]]


class Compactor:
    """Plays steps on a compacted log, and opens it again after a crash."""

    def __init__(self, config: Config | None = None, in_background: bool = False, buffer_bytes: int = 1 << 20) -> None:
        self.config = config or compacting()
        self.filesystem: MemoryFileSystem = disk()
        self.background: Any = ByHand() if in_background else Inline()
        self.clock = ManualClock()
        self.buffer_bytes = buffer_bytes
        self.appended: list[bytes] = []
        self.coming: list[bytes] = []
        self.checkpoint = 0
        self.log_start_offset = 0
        """What is written down of where the log begins."""
        self.synced_offset = 0
        self.written = 0
        self.sequences: dict[int, int] = {}
        self.open_transactions: set[int] = set()
        self.started = False

    def start(self, clean: bool = False) -> None:
        self.trash = Trash(self.filesystem, self.clock, self.background)
        self.log = loader(
            self.filesystem,
            self.config,
            clock=self.clock,
            background=self.background,
            clean=clean,
            log_start_offset=self.log_start_offset,
            recovery_point=self.checkpoint,
            on_truncated=self._on_truncated,
            producer_id_expiration_ms=NEVER_MS,
            trash=self.trash,
        ).load()
        self.log.update_high_watermark(self.log.log_end_offset)
        self.cleaner = cleaner_of(
            self.log,
            self.filesystem,
            self.clock,
            self.background,
            limits=CleanerLimits(buffer_bytes=self.buffer_bytes),
        )
        self.cleaner.start()
        self.started = True

    def _on_truncated(self, log: UnifiedLog) -> None:
        self.cleaner.on_truncated(log)
        self.checkpoint = min(self.checkpoint, log.recovery_point)

    @property
    def model(self) -> list[RecordBatch]:
        return [RecordBatch(memoryview(some)) for some in self.appended]

    # --- steps --------------------------------------------------------------------------------------------------------

    def put(self, *keys: int, producer: int | None = None, transactional: bool = False, codec: int = 0) -> None:
        """Append a batch with these keys; a negative one is a tombstone's."""
        pairs: list[Pair] = []
        for key in keys:
            self.written += 1
            name = f"key-{abs(key)}" + "-which-is-long" * (key % 2)
            pairs.append((name, None if key < 0 else f"value {self.written}"))
        self.clock.now_ms += 3
        fields: dict[str, Any] = {"timestamp": self.clock.now_ms, "compression": Compression(codec)}
        if producer is not None:
            transactional = transactional or producer in self.open_transactions
            sequence = self.sequences.get(producer, 0)
            fields |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            fields |= {"transactional": transactional}
            self.sequences[producer] = sequence + len(keys)
            if transactional:
                self.open_transactions.add(producer)
        self._append(records(*pairs, **fields), AppendOrigin.CLIENT)

    def put_as(self, producer: int, transactional: bool, *keys: int) -> None:
        self.put(*keys, producer=producer, transactional=transactional)

    def end(self, producer: int, committed: bool) -> None:
        if producer in self.open_transactions:
            self.open_transactions.discard(producer)
            self._append(marker(producer, committed, timestamp=self.clock.now_ms), AppendOrigin.COORDINATOR)

    def _append(self, some: RecordBatch, origin: AppendOrigin) -> None:
        self.coming = [bytes(at(self.log.log_end_offset, copied(some)).buffer)]
        self.log.append_as_leader(some, 0, origin)
        self.appended += self.coming
        self.coming = []
        self.log.update_high_watermark(self.log.log_end_offset)

    def flush(self) -> None:
        self.log.flush()
        self.synced_offset = self.log.log_end_offset

    def roll(self) -> None:
        self.log.roll(self.log.log_end_offset)

    def write_checkpoint(self) -> None:
        self.checkpoint = self.log.recovery_point

    def clean(self) -> None:
        self.cleaner.clean()

    def shorten(self, count: int) -> None:
        """Retention deletes so many segments, but not the active one."""
        count = min(count, len(self.log.segments) - 1)
        if count and not self.cleaner.is_busy_with(self.log):
            self.log.delete_segments(count)

    def retain(self) -> None:
        if not self.cleaner.is_busy_with(self.log):
            delete_old_segments(self.log, self.clock.now_ms)

    def wait(self, time_ms: int) -> None:
        self.clock.now_ms += time_ms

    def empty_trash(self) -> None:
        self.trash.empty()

    def work(self) -> None:
        if isinstance(self.background, ByHand):
            self.background.run()

    # --- playing ------------------------------------------------------------------------------------------------------

    def play(self, story: Sequence[Step]) -> bool:
        """Play the story up to its end (True), or to the crash that the disk is set to have."""
        try:
            if not self.started:
                self.start()
            for name, arguments in story:
                getattr(self, name)(*arguments)
        except Crash:
            return False
        return True

    def recover(self, power: Random | None) -> None:
        """Crash the disk, with the dice for a loss of power, open the log and judge what is left."""
        if self.started:
            self.synced_offset = max(self.synced_offset, self.log.recovery_point)
        self.synced_offset = max(self.synced_offset, durable_end(self.filesystem))
        if power is None:
            self.filesystem.crash_process()
        else:
            self.filesystem.crash_power(power)
        self.background = Inline()
        self.start()
        ends = [each.next_offset for each in self.model]
        needed = self.synced_offset if power is not None else max(ends, default=0)
        assert self.log.log_end_offset >= needed, f"the log ends at {self.log.log_end_offset}, not {needed}"
        self.appended += self.coming
        self.coming = []
        self.judge(also_in_between=False)

    def judge(self, also_in_between: bool = True) -> None:
        shape_laws(self.log)
        compaction_law(self.log, self.model, also_in_between)
        producers_law(self.log, self.model)
        names = self.filesystem.list(self.log.directory)
        assert not [name for name in names if name.endswith((".swap", ".cleaned")) and self.cleaner.current is None]

    def fork(self) -> Compactor:
        """The same, with a disk of its own, after a crash."""
        twin = copy.copy(self)
        twin.filesystem = copy.deepcopy(self.filesystem)
        twin.appended, twin.coming = list(self.appended), list(self.coming)
        return twin


def random_story(seed: int, length: int = 45) -> list[Step]:
    """Steps drawn by a seed."""
    random = Random(seed)
    story: list[Step] = []
    for _ in range(length):
        keys = tuple(random.choice((1, 1, 1, -1)) * random.randint(1, 6) for _ in range(random.randint(1, 4)))
        story.append(
            random.choices(
                [
                    ("put", keys),
                    ("put_as", (random.randint(1, 3), random.random() < 0.6, *keys)),
                    ("end", (random.randint(1, 3), random.random() < 0.5)),
                    ("clean", ()),
                    ("work", ()),
                    ("roll", ()),
                    ("flush", ()),
                    ("write_checkpoint", ()),
                    ("wait", (random.choice((10, 1000, 200_000_000)),)),
                    ("empty_trash", ()),
                ],
                weights=(8, 8, 6, 4, 3, 2, 1, 1, 1, 1),
            )[0]
        )
    return story
