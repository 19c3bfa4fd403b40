"""Bugs put into retention and compaction on purpose: each must be seen by the suite, on stories that it plays anyway.

Without a bug every check passes: each is a call of another test, or has a test of its own here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pykraft.common.errors import KafkaError
from pykraft.records.filtering import Outline
from pykraft.storage import log as logs
from pykraft.storage import segment_files
from pykraft.storage.disk.filesystem import FileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.log_segment import LogSegment
from pykraft.storage.segment_files import (
    LOG_SUFFIX,
    SWAP_SUFFIX,
    base_offset_of,
    begin_swap,
    finish_swap,
    segment_paths,
)
from pykraft.storage.upkeep import cleaner, retention
from pykraft.storage.upkeep.cleaner import CleanedTransactions, Cleaning, OffsetMap
from pykraft.storage.upkeep.log_cleaner import LogCleaner
from tests.crash import test_crash_cleaner as crashes
from tests.harness.compaction import Compactor, compacting, random_story
from tests.unit.storage.upkeep import test_log_cleaner as cleaning
from tests.unit.storage.upkeep import test_retention as retaining

# --- checks -----------------------------------------------------------------------------------------------------------


def values_are_replaced() -> None:
    crashes.test_a_compacted_log_survives_a_crash_at_any_moment("values are replaced, segments are put together")


def swaps_are_interrupted_twice() -> None:
    crashes.test_a_crash_while_a_swap_is_being_finished_changes_nothing(
        "values are replaced, segments are put together", every=4
    )


def random_stories_crash() -> None:
    for seed in range(10):
        crashes.test_a_compacted_log_survives_random_stories(seed)


def random_stories_are_played() -> None:
    for seed in range(30):
        player = Compactor(compacting(segment_bytes=500))
        for step in random_story(200 + seed):
            if step[0] != "wait":
                player.play([step])
        player.clean()
        player.judge()


def test_without_a_bug_random_stories_keep_the_law() -> None:
    """For a reader at every position: no horizon passes, so no reader is too slow."""
    random_stories_are_played()


# --- bugs -------------------------------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def instead(owner: Any, name: str, function: Any) -> Plant:
    return lambda monkeypatch: monkeypatch.setattr(owner, name, function)


def old_segments_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are renamed while the new one is only ``.cleaned``, which a start removes."""

    def finish(filesystem: FileSystem, directory: str, base_offset: int) -> None:
        begin_swap(filesystem, directory, base_offset)
        finish_swap(filesystem, directory, base_offset)

    monkeypatch.setattr(logs, "begin_swap", lambda *_: None)
    monkeypatch.setattr(logs, "finish_swap", finish)


def swaps_are_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(filesystem: FileSystem, directory: str, base_offset: int) -> None:
        for path in segment_paths(filesystem, directory, base_offset, SWAP_SUFFIX):
            filesystem.remove(path)

    monkeypatch.setattr(segment_files, "_remove_replaced", lambda *_: None)
    monkeypatch.setattr(segment_files, "finish_swap", drop)


def cleaned_is_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    original = LogSegment.sync
    monkeypatch.setattr(
        LogSegment, "sync", lambda segment: None if "cleaned" in segment.records.path else original(segment)
    )


def without_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OffsetMap.pick

    def pick(offsets: OffsetMap, records: Iterable[Outline], tombstones_stay: bool) -> list[Outline]:
        return [record for record in original(offsets, records, tombstones_stay) if not record.is_tombstone]

    monkeypatch.setattr(OffsetMap, "pick", pick)


def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Cleaning.of.__func__  # type: ignore[attr-defined]

    def of(*arguments: Any, **fields: Any) -> Cleaning:
        found: Cleaning = original(Cleaning, *arguments, **fields)
        found.unsynced = []
        return found

    monkeypatch.setattr(Cleaning, "of", of)


def everything_but_the_active_segment(_: LogCleaner, log: UnifiedLog, first_dirty: int, now_ms: int) -> int:
    return log.active_segment.base_offset


def to_the_end(log: UnifiedLog, now_ms: int) -> int:
    return len(log.segments)


def first_offset_of_a_key(offsets: OffsetMap, records: Iterable[Outline], first_offset: int) -> bool:
    for record in records:
        if record.key is not None and record.offset >= first_offset:
            offsets._offsets.setdefault(record.key, record.offset)
    return True


def named_before_the_old_ones_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start gives the new segment its name first. If it is stopped then, the next one finds no ``.swap`` that would
    tell which of the others have to go."""

    def finish(filesystem: FileSystem, directory: str) -> None:
        segment_files._take_back_cleaning(filesystem, directory)
        names = filesystem.list(directory)
        swaps = {base for name in names if name.endswith(SWAP_SUFFIX) and (base := base_offset_of(name)) is not None}
        for base_offset in sorted(swaps):
            path = f"{directory}/{base_offset:020d}{LOG_SUFFIX}{SWAP_SUFFIX}"
            end = segment_files._end_offset(filesystem, path, base_offset) if filesystem.exists(path) else base_offset
            finish_swap(filesystem, directory, base_offset)
            for name in filesystem.list(directory):
                if base_offset < (base_offset_of(name) or 0) < end:
                    filesystem.remove(f"{directory}/{name}")

    monkeypatch.setattr(segment_files, "_finish_cleaning", finish)


def old_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start gives the new segment its name, and removes none of those that it was made of."""
    monkeypatch.setattr(segment_files, "_remove_replaced", lambda *_: None)


BUGS: dict[str, tuple[Plant, Callable[[], None]]] = {
    "a swap is finished in the wrong order": (named_before_the_old_ones_go, swaps_are_interrupted_twice),
    "a swap is finished by half": (old_ones_stay, values_are_replaced),
    "a swap begins with the old segments": (old_segments_go_first, values_are_replaced),
    "a swap that a crash interrupted is thrown away": (swaps_are_thrown_away, values_are_replaced),
    "a cleaned segment is not synced": (cleaned_is_not_synced, values_are_replaced),
    "a segment does not end where the next one begins": (
        instead(cleaner, "emptied", lambda *_: None),
        cleaning.test_a_segment_ends_where_the_next_one_begins,
    ),
    "a pass builds on what a loss of power may take": (unsynced, random_stories_crash),
    "a tombstone goes before its horizon": (without_tombstones, random_stories_are_played),
    "the first record of a key stays": (
        instead(OffsetMap, "note", first_offset_of_a_key),
        cleaning.test_the_last_record_of_each_key_stays_where_it_was,
    ),
    "a pass goes beyond the first unstable offset": (
        instead(LogCleaner, "_first_uncleanable", everything_but_the_active_segment),
        random_stories_are_played,
    ),
    "aborted records are taken for the last ones": (
        instead(CleanedTransactions, "pass_batch", lambda passed, batch: False),
        random_stories_are_played,
    ),
    "the aborted transactions of a cleaned segment are forgotten": (
        instead(CleanedTransactions, "pass_marker", lambda passed, batch: (False, None)),
        lambda: cleaning.test_a_marker_goes_after_its_transaction_and_its_horizon(committed=False),
    ),
    "a producer's last batch goes": (
        instead(Cleaning, "_is_last_of_producer", lambda passed, batch: False),
        cleaning.test_a_producers_last_batch_keeps_its_sequence_number,
    ),
    "retention goes beyond the high watermark": (
        instead(retention, "count_deletable", to_the_end),
        retaining.test_no_segment_that_may_be_lost_is_deleted,
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check_of_the_suite = BUGS[name]
    plant(monkeypatch)
    with pytest.raises((AssertionError, KafkaError, pytest.fail.Exception)):
        check_of_the_suite()
