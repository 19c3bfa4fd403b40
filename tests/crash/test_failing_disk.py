"""A disk on which one operation fails, whichever it is: the program sees an error, and stops.

Each story is played again and again, with the disk failing one operation later each time: once with an I/O error, and
once because it is full. A write that fails may have written a part, which stays. Nothing goes on after that: a node
whose only log directory has failed stops, and closes its files without writing. Then it is started again, or the power
fails first, and what was acknowledged before the failure must be there, and nothing that never was.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tests.crash import test_crash_cleaner as cleaner_crashes
from tests.crash import test_crash_log as log_crashes
from tests.crash import test_crash_manager as manager_crashes
from tests.harness.compaction import Compactor, compacting
from tests.harness.storage import ByHand
from tests.harness.story import Player

ERRORS = {
    "an I/O error": OSError(errno.EIO, "the disk fails"),
    "a full disk": OSError(errno.ENOSPC, "no space is left"),
}


def failed(make: Callable[[], Any], play: Callable[[Any], bool], error: OSError, for_good: bool) -> Iterator[Any]:
    """What was made, stopped by a failure of its first operation, its second, and so on to the end."""
    for count in range(100_000):
        made = make()
        made.filesystem.fail_after(count, error, torn_bytes=count % 40, for_good=for_good)
        try:
            finished = play(made)
        except OSError as failure:
            assert failure is error
            finished = False
        yield made
        if finished:
            return


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("name", log_crashes.SCRIPTS)
def test_a_log_keeps_what_was_acknowledged(name: str, kind: str) -> None:
    story = log_crashes.SCRIPTS[name]
    is_full = kind == "a full disk"
    for number, player in enumerate(
        failed(lambda: Player(in_background=True), lambda made: made.play(story), ERRORS[kind], for_good=is_full)
    ):
        if player.log is not None:
            player.log.abandon()
        player.fork().recover(power=None)
        player.recover(Random(number))


@pytest.mark.parametrize("name", manager_crashes.STORIES)
def test_a_directory_keeps_what_was_acknowledged(name: str) -> None:
    story = manager_crashes.STORIES[name]
    for kind, error in ERRORS.items():
        is_full = kind == "a full disk"
        for number, broker in enumerate(
            failed(manager_crashes.Broker, lambda made: made.play(story), error, for_good=is_full)
        ):
            broker.recover(Random(number) if number % 2 else None)


@pytest.mark.parametrize(
    ("kind", "for_good"),
    [("an I/O error", False), pytest.param("an I/O error", True, marks=pytest.mark.long), ("a full disk", True)],
)
@pytest.mark.parametrize("name", cleaner_crashes.SCRIPTS)
def test_a_compacted_log_keeps_its_values(name: str, kind: str, for_good: bool) -> None:
    """The storage does not look at the kind: a disk that fails for good is a full disk to it."""
    story = cleaner_crashes.SCRIPTS[name]

    def make() -> Compactor:
        return Compactor(compacting(segment_bytes=500), in_background=True)

    for number, player in enumerate(failed(make, lambda made: made.play(story), ERRORS[kind], for_good)):
        player.recover(Random(number) if number % 2 else None)


def test_a_finished_segment_that_cannot_be_synced_stops_its_log() -> None:
    """The error of a job in the background is not lost: else the recovery point would pass what is not on the disk."""
    for count in range(100):
        player = Player(in_background=True)
        assert player.play([("append", (2, 1))] * 9)
        assert isinstance(player.background, ByHand) and player.background.jobs
        operations = player.filesystem.operations
        player.filesystem.fail_after(count, ERRORS["an I/O error"])
        try:
            player.work()
        except OSError:
            continue
        assert player.filesystem.operations == operations + count, "an error was lost"
        break
