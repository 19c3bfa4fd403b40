"""Charts show the numbers they are given: lengths in proportion, the same values as text, nothing on top of another."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pykraft.viz import Figure, bars, heat_map, timeline
from pykraft.viz.drawing import palette
from pykraft.viz.drawing.alternative import HTML, SVG, as_image
from pykraft.viz.drawing.charts import amount
from pykraft.viz.drawing.figure import PLOTLY, TEXT
from tests.viz.reading import complaints, elements, texts


def a_bar_chart(**more: Any) -> Figure:
    return bars({"JFK-LAX": 100, "EWR-ORD": 50, "LGA-ATL": 0}, title="One leads", unit="flights", **more)


def a_heat_map() -> Figure:
    values = [[1.0, -2.0, None], [30.0, 4.0, 5.0]]
    return heat_map(["United", "A & B"], ["Jan", "Feb", "Mar"], values, title="January is late", unit="minutes")


def a_timeline(**more: Any) -> Figure:
    return timeline([5, 0, 0, 10], step_s=0.5, start_s=-1, title="A silence", unit="records", **more)


MARKS = {"cut off": 0.0, "killed": 0.02, "new controller": 0.05, "dead node fenced": 0.9}
LONG = "a name that is <b>not</b> short & goes on " * 100
FIGURES = {
    "bars": a_bar_chart,
    "bars, one marked": lambda: a_bar_chart(marked=["JFK-LAX"]),
    "bars, a single zero": lambda: bars({"nothing": 0}, title="Nothing"),
    "heat map": a_heat_map,
    "heat map of one value": lambda: heat_map(["a"], ["b"], [[3]], title="One"),
    "timeline": lambda: a_timeline(gap=(-0.5, 0.5)),
    "timeline with marks that are near each other": lambda: a_timeline(marks=MARKS),
    "timeline of nothing": lambda: timeline([0, 0], step_s=1, title="Nothing"),
    "timeline of an hour": lambda: timeline([1] * 3600, step_s=1, start_s=-0.5, title="An hour"),
    "timeline of half a minute": lambda: timeline([1] * 300, step_s=0.1, title="Half a minute"),
    "bars, all of it long": lambda: bars({LONG: 1e300, LONG[1:]: 0.1}, title=LONG, note=LONG, unit=LONG),
    "heat map, all of it long": lambda: heat_map([LONG], [LONG] * 3, [[1, 2, None]], title=LONG, note=LONG, unit=LONG),
    "timeline, all of it long": lambda: timeline(
        [1, 2], step_s=1, title=LONG, note=LONG, unit=LONG, marks={LONG: 0.0, LONG[1:]: 1.5}
    ),
    "bars with characters that no XML may hold": lambda: bars(
        {"\x00\x1b[31m": 1, "\udc80": 2}, title="\x07", note="\x00"
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_chart_is_a_sound_figure(name: str) -> None:
    assert list(complaints(FIGURES[name]())) == []


def test_bars_begin_at_zero_and_are_as_long_as_their_values() -> None:
    lengths = [float(rect.get("width", "0")) for rect in elements(a_bar_chart(), "rect")]
    assert lengths[1] == pytest.approx(lengths[0] / 2, abs=0.2)
    assert lengths[2] <= 1


def test_names_that_fit_are_not_shortened() -> None:
    assert {"JFK-LAX", "EWR-ORD", "LGA-ATL"} <= set(texts(a_bar_chart()))


def test_bars_that_are_not_marked_are_light() -> None:
    fills = [rect.get("fill") for rect in elements(a_bar_chart(marked=["JFK-LAX"]), "rect")]
    assert fills == [palette.BLUE, palette.SKY, palette.SKY]


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([0.75, 0.8], {"0.75", "0.8"}),
        ([0.024, 0.5], {"0.024", "0.5"}),
        ([1.04, 11.3], {"1.0", "11.3"}),
        ([3, 20], {"3", "20"}),
        ([0.4, 1234.5], {"0", "1,234"}),
    ],
)
def test_the_squares_of_a_heat_map_keep_what_tells_small_numbers_apart(values: list[float], written: set[str]) -> None:
    assert written <= set(texts(heat_map(["row"], ["a", "b"], [values], title="Small")))


def test_small_amounts_keep_their_digits() -> None:
    assert [amount(value) for value in (0.04, 0.75, 0, -0.3, 1.25, 250.4)] == [
        "0.04",
        "0.75",
        "0",
        "-0.3",
        "1.2",
        "250",
    ]


def test_a_heat_map_has_every_value_as_text_and_a_dot_where_there_is_none() -> None:
    shown = texts(a_heat_map())
    assert {"1", "-2", "30", "4", "5", "·"} <= set(shown)
    assert "United: Jan 1, Feb -2" in a_heat_map().text


def test_the_largest_value_is_the_darkest() -> None:
    fills = [r.get("fill", "") for r in elements(a_heat_map(), "rect")[:5]]
    assert min(fills, key=palette.luminance) == fills[2]
    assert max(fills, key=palette.luminance) == fills[1]


def test_a_timeline_tells_its_marks_and_its_gap() -> None:
    figure = a_timeline(marks={"killed": 0.25}, gap=(-0.5, 0.75))
    assert {"killed", "1.25 s"} <= set(texts(figure))
    assert "killed: at 0.25 s" in figure.text
    assert "nothing from -0.50 s to 0.75 s" in figure.text
    assert "4 steps of 0.5 s from -1.00 s on; in the mean 3.8, at most 10 at 0.50 s, 0 in 2 of them" in figure.text


@pytest.mark.parametrize(
    "draw",
    [lambda: bars({}, title="x"), lambda: heat_map([], [], [], title="x"), lambda: timeline([], step_s=1, title="")],
)
def test_nothing_cannot_be_drawn(draw: Any) -> None:
    with pytest.raises(ValueError, match="needs at least one value"):
        draw()


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: bars({"a": 1, "b": NAN}, title="x"), "bars has no place for nan: leave it out"),
        (lambda: bars({"a": INF}, title="x"), "bars has no place for inf: leave it out"),
        (lambda: bars({"a": 1, "b": -5}, title="x"), "bars begins at zero, and has no place for -5"),
        (lambda: heat_map(["a"], ["b", "c"], [[1, NAN]], title="x"), "heat_map has no place for nan"),
        (lambda: timeline([1, NAN], step_s=1, title="x"), "timeline has no place for nan"),
        (lambda: timeline([1, -1], step_s=1, title="x"), "timeline begins at zero, and has no place for -1"),
        (lambda: bars({f"row {n}": n for n in range(10_000)}, title="x"), "more than 300,000 bytes: draw fewer values"),
        (lambda: timeline(range(1_000_000), step_s=1, title="x"), "more than 300,000 bytes: draw fewer values"),
    ],
)
def test_what_has_no_place_in_a_picture_is_refused_in_one_sentence(draw: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        draw()


def test_seconds_below_a_timeline_are_as_many_as_can_be_read() -> None:
    def seconds(steps: int) -> list[str]:
        figure = timeline([1] * steps, step_s=1, start_s=-2, title="x")
        return [text for text in texts(figure) if re.fullmatch(r"-?\d+ s", text)]

    assert seconds(8) == ["-2 s", "-1 s", "0 s", "1 s", "2 s", "3 s", "4 s", "5 s", "6 s"]
    assert seconds(100) == [f"{second} s" for second in range(0, 99, 10)]
    assert 4 <= len(seconds(1000)) <= 17


def test_a_page_gets_the_picture_and_a_terminal_the_same_facts() -> None:
    figure = a_bar_chart()
    bundle = figure._repr_mimebundle_()
    assert bundle == {HTML: as_image(figure.svg), SVG: figure.svg, TEXT: figure.text}
    assert figure._repr_mimebundle_(include={TEXT}) == {TEXT: figure.text}
    assert figure._repr_mimebundle_(exclude={TEXT, HTML}) == {SVG: figure.svg}
    assert repr(figure) == str(figure) == figure.text


@pytest.mark.parametrize("draw", [a_bar_chart, a_heat_map, a_timeline])
def test_an_interactive_chart_still_brings_its_picture_and_its_text(draw: Any) -> None:
    bundle = draw().interactive()._repr_mimebundle_()
    assert set(bundle) == {HTML, SVG, TEXT, PLOTLY}
    data = bundle[PLOTLY]["data"][0]
    assert len(data["x"]) > 0
    assert len(str(bundle[PLOTLY])) < 4000  # without plotly's template, which is 7 kB in each figure


def test_a_figure_without_an_interactive_form_says_so() -> None:
    with pytest.raises(ValueError, match="has no interactive form"):
        Figure("a", "<svg/>", "a").interactive()
