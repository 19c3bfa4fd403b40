"""Compaction changes nothing that a reader comes to know, wherever he stands: any steps, any segments, any memory.

Hypothesis draws what is appended, by whom, and when the log is cleaned, shortened, closed and opened. After each pass
the whole log is held to the law of `compaction`: readers at every position end with the last value of each key, records
keep their offsets, timestamps and headers, and producers their sequence numbers.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.compaction import Compactor, Step, compacting

KEYS = st.lists(st.integers(-5, 5).filter(bool), min_size=1, max_size=4).map(tuple)
PRODUCERS = st.integers(1, 3)

STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("put"), KEYS),
    st.tuples(st.just("put_as"), st.tuples(PRODUCERS, st.booleans(), KEYS).map(lambda drawn: (*drawn[:2], *drawn[2]))),
    st.tuples(st.just("end"), st.tuples(PRODUCERS, st.booleans())),
    st.tuples(st.sampled_from(["roll", "clean", "flush", "work"]), st.just(())),
    st.tuples(st.just("shorten"), st.tuples(st.just(1))),
)


def play(steps: list[Step], in_background: bool, **fields: Any) -> Compactor:
    """Play the steps, and hold the log to its laws after each of the cleaner's."""
    player = Compactor(in_background=in_background, **fields)
    player.play([])
    for name, arguments in [*steps, ("roll", ()), ("work", ()), ("clean", ()), ("work", ())]:
        player.play([(name, arguments)])
        if name in ("clean", "work"):
            player.judge()
    return player


@settings(deadline=None)
@given(
    steps=st.lists(STEPS, max_size=40),
    segment_bytes=st.integers(350, 900),
    buffer_bytes=st.sampled_from([1, 600, 1 << 20]),
    in_background=st.booleans(),
)
def test_a_reader_at_any_position_learns_the_last_values(
    steps: list[Step], segment_bytes: int, buffer_bytes: int, in_background: bool
) -> None:
    config = compacting(segment_bytes=segment_bytes, delete_retention_ms=1 << 50)
    play(steps, in_background, config=config, buffer_bytes=buffer_bytes)


@settings(deadline=None)
@given(steps=st.lists(STEPS | st.just(("wait", (2000,))), max_size=40))
def test_who_reads_from_the_start_never_misses_a_deleted_key(steps: list[Step]) -> None:
    """Tombstones do go here, and only they and markers: their older values have gone before."""
    player = Compactor(config=compacting(delete_retention_ms=1000))
    player.play([])
    for step in [*steps, ("roll", ()), ("clean", ())]:
        player.play([step])
        if step[0] == "clean":
            player.judge(also_in_between=False)
