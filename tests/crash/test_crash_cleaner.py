"""A compacted log after a crash at any moment: every reader still comes to know the last value of each key.

Each story is played again and again, with the disk stopped one operation later each time; then the process is ended or
the power fails, and the log is opened and held to the laws of `compaction`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from pykraft.sim.world.disk import Crash
from tests.harness.compaction import Compactor, Step, compacting, random_story
from tests.harness.log_laws import all_batches

DAY_MS = 86_400_000

CLEANED = [("work", ()), ("clean", ()), ("work", ())]
SCRIPTS: dict[str, list[Step]] = {
    "values are replaced, segments are put together": [
        *[("put", (1, 2, 3))] * 7,
        ("put", (4,)),
        *[("put", (1, 2))] * 4,
        *CLEANED,
        ("write_checkpoint", ()),
        *[("put", (3, 4, 5))] * 4,
        *CLEANED,
    ],
    "keys are deleted, and their tombstones in the end": [
        *[("put", (1, 2, 3))] * 3,
        ("put", (-1, -2)),
        *[("put", (3, 4, 5))] * 3,
        *CLEANED,
        ("wait", (2 * DAY_MS,)),
        *[("put", (3, 4, 5))] * 4,
        *CLEANED,
    ],
    "transactions are aborted and committed": [
        ("put_as", (1, True, 1, 2)),
        ("put_as", (2, True, 1, 3)),
        ("end", (1, False)),
        ("end", (2, True)),
        ("put_as", (1, True, 4, 5, 6)),
        ("end", (1, False)),
        *[("put", (6, 7, 8))] * 3,
        *CLEANED,
        *[("put", (6, 1, 7))] * 3,
        *CLEANED,
        ("wait", (2 * DAY_MS,)),
        *[("put", (6, 1, 7))] * 3,
        *CLEANED,
    ],
    "old segments are deleted as well": [
        *[("put", (1, 2, 3))] * 9,
        ("work", ()),
        ("shorten", (2,)),
        *CLEANED,
        ("wait", (100_000,)),
        ("empty_trash", ()),
        ("work", ()),
        *[("put", (3, 4, 5))] * 3,
        ("shorten", (1,)),
        ("write_checkpoint", ()),
    ],
}


def stopped(story: Sequence[Step], in_background: bool = True, every: int = 1) -> Iterator[Compactor]:
    """The story's player, stopped before its first operation, its second, and so on to the end."""
    for count in range(0, 100_000, every):
        player = Compactor(compacting(segment_bytes=500), in_background=in_background)
        player.filesystem.crash_after(count, torn_bytes=7 * count % 97)
        finished = player.play(story)
        yield player
        if finished:
            return


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_compacted_log_survives_a_crash_at_any_moment(name: str) -> None:
    for number, player in enumerate(stopped(SCRIPTS[name])):
        if number % 2:
            player.fork().recover(power=None)
        player.recover(Random(number))


@pytest.mark.parametrize("seed", range(10))
def test_a_compacted_log_survives_random_stories(seed: int) -> None:
    for number, player in enumerate(stopped(random_story(seed, length=30), in_background=bool(seed % 2), every=5)):
        player.fork().recover(power=None)
        player.recover(Random(1000 * seed + number))


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", list(SCRIPTS)[:3])
def test_a_crash_while_a_swap_is_being_finished_changes_nothing(name: str, every: int) -> None:
    """The process ends in a swap, in a short run at every fourth operation of the swap; then the next start is stopped
    at each of its operations, and begun again. The new segment takes the place of several."""
    swapping = [
        player
        for player in stopped(SCRIPTS[name])
        if player.started and any(".swap" in file for file in player.filesystem.list(player.log.directory))
    ]
    assert len(swapping) > 5
    assert any(len(player.cleaner.current.group) > 1 for player in swapping if player.cleaner.current is not None)
    random = Random(1)
    for player in swapping[::every]:
        player.filesystem.crash_process()
        for count in range(10_000):
            twin = player.fork()
            twin.filesystem.crash_after(count)
            try:
                twin.start()
            except Crash:
                twin.recover(random.choice((None, random)))
                continue
            break


def test_the_stories_clean_what_the_laws_speak_of() -> None:
    """Segments put together, tombstones, markers and aborted records dropped: else the laws would be idle."""
    for name in SCRIPTS:
        player = Compactor(compacting(segment_bytes=500), in_background=True)
        assert player.play(SCRIPTS[name])
        left = sum(each.count for each in all_batches(player.log))
        assert left < 0.7 * sum(each.count for each in player.model), name
