"""The chart of a group's lag: heights in proportion, the consumers in their bars, and the same facts as text."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pykraft.viz import Figure, lag_over_time
from pykraft.viz.drawing import palette
from tests.viz.reading import complaints, elements, texts

DIED = [(0.0, 0, 0, "ann"), (1.0, 10, 12, "ann"), (2.0, 10, 30, ""), (3.0, 10, 50, "ben"), (4.0, 60, 60, "ben")]
LIVED = [(0.0, 0, 0, "ben"), (1.0, 10, 10, "ben"), (2.0, 10, 20, "ben"), (3.0, 30, 30, "ben"), (4.0, 30, 30, "ben")]
MARKS = {"killed": 1.2, "taken over": 2.8}
LONG = "a name that is <b>not</b> short & goes on " * 100


def a_chart() -> Figure:
    return lag_over_time({"t-0": DIED, "t-1": LIVED}, title="Ben takes over", note="Ann dies.", marks=MARKS)


@pytest.mark.parametrize(
    "figure",
    [
        a_chart(),
        lag_over_time({"t-0": DIED}, title="No marks"),
        lag_over_time({"t-0": [(5.0, 7, 7, ""), (5.0, 7, 7, "")]}, title="One moment, twice, without a record"),
        lag_over_time({"t-0": [(0.0, 9, 5, ""), (1.0, 9, 9, "")]}, title="Committed beyond the log end"),
        lag_over_time({LONG: [(0.0, 0, 9**15, LONG), (1.0, 0, 9**15, "")]}, title=LONG, note=LONG, marks={LONG: 1}),
    ],
    ids=["two partitions", "no marks", "one moment", "beyond the end", "all of it long"],
)
def test_every_chart_of_lag_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_the_text_tells_which_consumer_owned_each_partition_and_how_the_lag_grew_and_fell() -> None:
    text = a_chart().text
    assert "killed: at 1.20 s" in text
    assert "t-0: ann from 0.00 s to 2.00 s, no owner from 2.00 s to 3.00 s, ben from 3.00 s to 4.00 s" in text
    assert "the lag is 40 at most, at 3.00 s, and 0 at the end" in text
    assert "t-1: ben from 0.00 s to 4.00 s; the lag is 10 at most, at 2.00 s, and 0 at the end" in text


def test_each_consumer_has_a_colour_and_its_name_and_a_partition_without_owner_has_an_empty_bar() -> None:
    bars = [rect for rect in elements(a_chart(), "rect") if rect.get("rx")]
    assert [bar.get("fill") for bar in bars] == [palette.BLUE, "none", palette.GREEN, palette.GREEN]
    widths = [float(bar.get("width", "0")) for bar in bars]
    assert widths[3] == pytest.approx(4 * widths[1], abs=0.5) == pytest.approx(2 * widths[0], abs=0.5)
    assert [text for text in texts(a_chart()) if text in ("ann", "no owner", "ben")] == [
        "ann",
        "no owner",
        "ben",
        "ben",
    ]


def test_equal_lags_have_equal_heights_in_all_partitions() -> None:
    """The log end of the first rises by 60 records, that of the second by 30."""
    ends = [line for line in elements(a_chart(), "polyline") if line.get("stroke-dasharray")]
    rises = []
    for line in ends:
        heights = [float(point.split(",")[1]) for point in line.get("points", "").split()]
        rises.append(heights[0] - heights[-1])
    assert rises[0] == pytest.approx(2 * rises[1], abs=0.2)


def test_the_committed_offset_is_drawn_in_steps_and_the_area_closes_over_both_lines() -> None:
    committed = next(line for line in elements(a_chart(), "polyline") if not line.get("stroke-dasharray"))
    points = [tuple(map(float, point.split(","))) for point in committed.get("points", "").split()]
    assert all(x == before_x or y == before_y for (before_x, before_y), (x, y) in pairwise(points))
    area = elements(a_chart(), "polygon")[0].get("points", "").split()
    assert set(committed.get("points", "").split()) < set(area)


@pytest.mark.parametrize(
    ("partitions", "words"),
    [({}, "lag_over_time needs at least one value"), ({"t-0": [(1.0, 0, 0, "")]}, "at least two moments of each")],
)
def test_what_was_not_watched_cannot_be_drawn(
    partitions: dict[str, list[tuple[float, int, int, str]]], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        lag_over_time(partitions, title="x")


def test_its_interactive_form_has_both_lines_of_each_partition() -> None:
    traces = {trace.name: list(trace.y) for trace in a_chart().to_plotly().data}
    assert traces["t-0, log end"] == [0, 12, 30, 50, 60]
    assert sorted(traces) == ["t-0, committed", "t-0, log end", "t-1, committed", "t-1, log end"]
