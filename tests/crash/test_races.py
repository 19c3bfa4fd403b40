"""What a node's thread and its background do to the same logs at the same time: see `tests.harness.racing`.

No crash happens here. No job may stop the node, whatever becomes of its log meanwhile; what is flushed is on the disk;
and what is left of a log keeps all laws.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pykraft.common.core import finish
from pykraft.storage.file_records import FileRecords
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.log_manager import LogManager
from tests.crash.test_planted_bugs import counted_before_it_is_there
from tests.harness.compaction import compacting, records, shape_laws
from tests.harness.racing import Racing
from tests.harness.storage import NOW_MS, PARTITION, TOPIC_ID, disk, durable_end, started

STEPS = 150


def race(seed: int, monkeypatch: pytest.MonkeyPatch) -> Racing:
    """A broker's life with one compacted log, which is cut, emptied, deleted and made again while it is cleaned."""
    random = Random(seed)
    filesystem = disk()
    background = Racing(random, monkeypatch)
    config = compacting(retention_ms=-1, file_delete_delay_ms=0, flush_messages=random.choice((1, 5)))
    logs = started(filesystem, config, background=background)
    names, weights = zip(*STEPS_OF_A_BROKER.items(), strict=True)
    for _ in range(STEPS):
        log = logs.get_or_create(PARTITION, TOPIC_ID)
        random.choices(names, weights)[0](logs, log, random)
        background.deliver()
        log = logs.get_or_create(PARTITION, TOPIC_ID)
        log.update_high_watermark(log.log_end_offset)
    background.finish()
    flush(logs, log, random)
    shape_laws(log)
    logs.close(1)
    return background


def append(logs: LogManager, log: UnifiedLog, random: Random) -> None:
    for _ in range(random.randint(1, 6)):
        some = records((f"key {random.randint(1, 4)}", "x" * 30), timestamp=NOW_MS + log.log_end_offset)
        log.append_as_leader(some, 0)
        if log.recovery_point == log.log_end_offset:
            is_on_the_disk(logs, log)


def is_on_the_disk(logs: LogManager, log: UnifiedLog) -> None:
    found = durable_end(logs._filesystem)  # type: ignore[arg-type]
    assert found == log.log_end_offset or not log.active_segment.size, f"{found} of {log} are on the disk"


def roll(logs: LogManager, log: UnifiedLog, random: Random) -> None:
    log.roll(log.log_end_offset)


def compact(logs: LogManager, log: UnifiedLog, random: Random) -> None:
    finish(logs.compact())


def flush(logs: LogManager, log: UnifiedLog, random: Random) -> None:
    log.flush()
    is_on_the_disk(logs, log)


def truncate(logs: LogManager, log: UnifiedLog, random: Random) -> None:
    log.truncate_to(max(log.log_start_offset, log.log_end_offset - random.randint(1, 20)))


def begin_anew(logs: LogManager, log: UnifiedLog, random: Random) -> None:
    log.truncate_fully(log.log_end_offset + random.randint(0, 100))


def delete(logs: LogManager, log: UnifiedLog, random: Random) -> None:
    logs.delete(PARTITION)


def keep_house(logs: LogManager, log: UnifiedLog, random: Random) -> None:
    logs.write_checkpoints()
    logs.empty_trash()


Action = Callable[[LogManager, UnifiedLog, Random], None]
STEPS_OF_A_BROKER: dict[Action, int] = {
    append: 12,
    roll: 3,
    compact: 8,
    flush: 3,
    truncate: 2,
    begin_anew: 1,
    delete: 1,
    keep_house: 2,
}


@pytest.mark.parametrize("seed", range(12))
def test_a_background_beside_every_operation_stops_no_node_and_loses_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert race(seed, monkeypatch).switches > 100


# --- planted bugs -----------------------------------------------------------------------------------------------------


def counted_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a log was cut is counted when all is done."""
    for name in ("truncate_to", "truncate_fully"):
        original = getattr(UnifiedLog, name)

        def cut(log: UnifiedLog, offset: int, original: Any = original) -> None:
            before = log.truncations
            type(log).truncations = property(lambda _: before, lambda *_: None)  # type: ignore[assignment]
            try:
                original(log, offset)
            finally:
                del type(log).truncations
            log.truncations = before + 1

        monkeypatch.setattr(UnifiedLog, name, cut)


BUGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a write counts before its bytes are there": lambda monkeypatch: monkeypatch.setattr(
        FileRecords, "append", counted_before_it_is_there
    ),
    "a truncation counts when it is over": counted_at_the_end,
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_seen(name: str) -> None:
    seen = 0
    for seed in range(12):
        with pytest.MonkeyPatch.context() as monkeypatch:
            BUGS[name](monkeypatch)
            try:
                race(seed, monkeypatch)
            except (AssertionError, OSError):
                seen += 1
    assert seen
