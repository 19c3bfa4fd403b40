"""The chart of a quorum's voters: what each controller is, and whether a majority of the newest set runs."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure
from pykraft.viz.measured.voter_chart import DEAD, FOLLOWS, LEADS, STANDS, WATCHES, Moment, voters_by_step
from tests.viz.reading import complaints, elements, texts

FIRST = Moment("at first", "", {101: LEADS, 102: FOLLOWS, 103: FOLLOWS}, [101, 102, 103], 5)
STUCK = Moment("102 is removed", "REQUEST_TIMED_OUT", {101: STANDS, 102: WATCHES, 103: DEAD}, [101, 103], 0)
MANY = Moment("a step " * 20, "AN_ERROR_" * 9, dict.fromkeys(range(101, 108), LEADS), range(101, 108), 12_345)


@pytest.mark.parametrize(
    "figure",
    [
        voters_by_step([FIRST, STUCK], title="Nothing is committed any more", note="The newest set counts."),
        voters_by_step([MANY] * 5, title="Seven controllers " * 20, note="A note " * 90),
    ],
    ids=["stuck", "all of it long"],
)
def test_every_chart_of_voters_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_a_majority_is_that_of_the_newest_voter_set_and_the_dead_do_not_count() -> None:
    assert (FIRST.running, FIRST.majority, STUCK.running, STUCK.majority) == (3, 2, 1, 2)
    figure = voters_by_step([FIRST, STUCK], title="Stuck", seconds=0.5)
    assert {"commits 5 records in 0.5 s", "commits nothing", "▲ 101", "○ 102", "✕ 103"} <= set(texts(figure))
    assert (
        "102 is removed (REQUEST_TIMED_OUT): 101 wants to lead, 102 runs without a vote, 103 dead; 1 of" in figure.text
    )


def test_a_controller_without_a_vote_has_a_dashed_border() -> None:
    boxes = elements(voters_by_step([STUCK], title="Stuck"), "rect")
    assert [box.get("stroke-dasharray") is not None for box in boxes] == [False, True, False]


def test_without_a_moment_there_is_no_chart() -> None:
    with pytest.raises(ValueError, match="voters_by_step needs a moment"):
        voters_by_step([], title="Nothing")
