"""A log after a crash at any moment: what must be there is there, and everything agrees with everything.

Each story is played again and again, with the disk stopped one operation later each time, until it plays to its end.
After each stop the process is ended or the power fails, and the log is opened and judged: see `story`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from pykraft.sim.world.disk import Crash
from tests.harness.log_laws import check
from tests.harness.storage import DIRECTORY, contents
from tests.harness.story import Player, Step, random_story

SCRIPTS: dict[str, list[Step]] = {
    "segments are rolled and synced behind": [
        *[("append", (2, 1))] * 8,
        ("work", ()),
        ("write_checkpoint", ()),
        *[("append", (1, 2))] * 8,
        ("flush", ()),
        ("write_checkpoint", ()),
        *[("append", (3,))] * 4,
    ],
    "a log is truncated across segments and goes on": [
        *[("append", (1, 1))] * 18,
        ("flush", ()),
        ("write_checkpoint", ()),
        ("truncate", (14,)),
        *[("append", (2, 1))] * 9,
        ("truncate", (3,)),
        ("append", (1, 2)),
    ],
    "batches come behind gaps that no index can express": [
        ("skip", ((1 << 31) - 1, 2)),
        ("append", (2, 1)),
        ("skip", ((1 << 31) - 2, 2)),
        ("skip", (1000, 1)),
        ("write_checkpoint", ()),
        ("append", (1, 2)),
        ("skip", (1 << 31, 1)),
        ("truncate", (10,)),
        ("skip", ((1 << 31) - 3, 3)),
        ("append", (3,)),
    ],
    "transactions span segments": [
        ("append", (1, 1, True)),
        *[("append", (2, 2, True))] * 4,
        ("end", (1, False)),
        *[("append", (2, 2, True))] * 4,
        ("end", (2, False)),
        ("append", (1, 1, True)),
        ("end", (1, True)),
        ("append", (1, 3, True)),
    ],
    "a follower takes many batches at once": [
        ("follow", (1, 2, 3, 1)),
        ("follow", (3, 3)),
        ("sync_records", ()),
        ("truncate", (4,)),
        ("follow", (1, 1, 1, 1, 1, 1)),
        ("flush", ()),
        ("follow", (2, 2, 2)),
    ],
    "a log is closed in order and opened again": [
        *[("append", (1, 1))] * 7,
        ("reopen", ()),
        *[("append", (1, 1))] * 7,
        ("raise_high_watermark", (2,)),
        ("reopen", ()),
        ("append", (1, 1)),
    ],
    "everything is dropped": [*[("append", (2, 1))] * 9, ("flush", ()), ("truncate", (1000,)), ("append", (1, 1))],
}


def stopped(story: Sequence[Step], in_background: bool = True, torn_bytes: int | None = None) -> Iterator[Player]:
    """The story's player, stopped before its first operation, its second, and so on to the end. So much of that
    operation is done, if it is a write; or each time another part."""
    for count in range(10_000):
        player = Player(in_background=in_background)
        player.filesystem.crash_after(count, 7 * count % 97 if torn_bytes is None else torn_bytes)
        finished = player.play(story)
        yield player
        if finished:
            return
    raise AssertionError("the story has no end")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_log_keeps_every_append_when_its_process_ends(name: str) -> None:
    for player in stopped(SCRIPTS[name]):
        player.recover(power=None)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_log_keeps_what_was_synced_when_the_power_fails(name: str) -> None:
    for player in stopped(SCRIPTS[name]):
        for seed in range(3):
            player.fork().recover(Random(seed))


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 12))])
def test_a_log_survives_random_stories(seed: int) -> None:
    """The first six find each planted bug that random stories find (test_planted_bugs)."""
    for number, player in enumerate(stopped(random_story(seed), in_background=bool(seed % 2))):
        player.fork().recover(power=None)
        player.fork().recover(Random(1000 * seed + number))


@pytest.mark.parametrize(
    "seed", [*range(5), 35, 41, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 9))]
)
def test_a_log_with_gaps_survives_random_stories(seed: int) -> None:
    for number, player in enumerate(stopped(random_story(seed, 16, gaps=3), in_background=bool(seed % 2))):
        player.fork().recover(power=None)
        player.fork().recover(Random(1000 * seed + number))


@pytest.mark.parametrize("power_fails", [False, True])
def test_the_last_write_may_be_torn_at_any_byte(power_fails: bool) -> None:
    story: list[Step] = [("append", (2, 1, True)), ("flush", ()), ("append", (2, 1, True))]
    whole = Player()
    assert whole.play(story)
    size = whole.now.segments[0].size
    for torn_bytes in range(size + 1):
        for player in stopped(story, torn_bytes=torn_bytes):
            player.recover(Random(torn_bytes) if power_fails else None)


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_while_recovering_changes_nothing(seed: int) -> None:
    """The power fails in a story, then the recovery is stopped at each of its operations and begun again."""
    random = Random(seed)
    for player in random.sample(list(stopped(random_story(100 + seed))), 8):
        player.filesystem.crash_power(random)
        for count in range(10_000):
            twin, untouched = player.fork(), player.fork()
            twin.filesystem.crash_after(count)
            try:
                twin.open()
            except Crash:
                again = twin.recover(random.choice((None, random)), power_failed=True)
                assert contents(again) == contents(untouched.open())
                continue
            break


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex"])
def test_an_index_that_is_rebuilt_is_the_old_file_or_the_new_one(suffix: str) -> None:
    """It may belong to a segment that is trusted: no start would check it again."""
    player = Player()
    player.play([*SCRIPTS["transactions span segments"], ("reopen", ())])
    path = f"{DIRECTORY}/{player.now.segments[1].base_offset:020d}.{suffix}"
    whole = player.filesystem.read(path)
    player.filesystem.write(path, b"old")
    player.filesystem.crash_process()
    for count in range(10_000):
        twin = player.fork()
        twin.filesystem.crash_after(count, torn_bytes=9)
        try:
            log = twin.open(clean=True)
        except Crash:
            twin.filesystem.crash_power(Random(count)) if count % 2 else twin.filesystem.crash_process()
            assert twin.filesystem.read(path) in (b"old", whole)
            check(twin.open(clean=True))
            continue
        assert twin.filesystem.read(path) == whole
        check(log)
        break


def test_a_story_reaches_what_the_laws_speak_of() -> None:
    """Many segments, epochs, truncated and aborted data: stories that touch nothing prove nothing."""
    segments = epochs = aborted = producers = 0
    for seed in range(12):
        player = Player()
        assert player.play(random_story(seed))
        segments += len(player.now.segments)
        epochs += len(player.now.epochs.entries)
        aborted += sum(len(segment.transaction_index.entries) for segment in player.now.segments)
        producers += len(player.now.producer_state.producers)
    assert segments > 40 and epochs > 40 and aborted > 5 and producers > 24, (segments, epochs, aborted, producers)
