"""The chart of what a setting changes: both times in one panel, at one scale."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure
from pykraft.viz.measured.before_after_chart import Panel, before_and_after
from tests.viz.reading import complaints, elements

NAMES = ("no quota", "a quota of 8 MB/s")
GREEDY = Panel("greedy: MB/s", [400, 200], [10, 0, 10, 10], ("300 MB/s", "7.5 MB/s"))
LONG = "a name that is <b>not</b> short & goes on " * 20


@pytest.mark.parametrize(
    "figure",
    [
        before_and_after([GREEDY], NAMES, title="The quota holds it back", note="A bar is a tenth of a second."),
        before_and_after([Panel("nothing", [0], [0], ("none", "none"))] * 4, NAMES, title="Nothing came"),
        before_and_after([Panel(LONG, [1e12], [1e-9], (LONG, LONG))] * 2, (LONG, LONG), title=LONG, note=LONG),
    ],
    ids=["one panel", "no bar", "all of it long"],
)
def test_every_chart_of_a_change_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_a_bar_after_the_change_has_the_height_that_the_same_value_has_before_it() -> None:
    figure = before_and_after([Panel("x", [40, 20], [20, 0, 10], ("a", "b"))], NAMES, title="It halves")
    heights = [float(bar.get("height", "0")) for bar in elements(figure, "rect")]
    assert heights == [2 * heights[1], heights[1], heights[1], heights[1] / 2]
    assert "x: a (no quota), b (a quota of 8 MB/s)" in figure.text


@pytest.mark.parametrize("panels", [[], [Panel("x", [], [1], ("", ""))], [Panel("x", [1], [-1], ("", ""))]])
def test_without_a_panel_or_with_an_amount_below_zero_there_is_no_chart(panels: list[Panel]) -> None:
    with pytest.raises(ValueError, match="before_and_after "):
        before_and_after(panels, NAMES, title="Nothing")
