"""Charts: one message each, and the title is the finding.

`bars` compares amounts, `heat_map` shows a value for each pair of two categories, `timeline` shows what happened when.
They take plain lists: what is drawn was computed before, where the reader can see it. What has no place in a picture
(nothing, NaN, less than zero where all begins at zero) is a ValueError, and never a picture that says something else.
Each chart has plotly's form as well, made of the same lists.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.alternative import sentences
from pykraft.viz.drawing.figure import Figure, Spec
from pykraft.viz.drawing.svg import Svg, shortened, text_width

WIDTH = 960
MOST_TIMES = 16
"""Below the axis of a timeline."""
_TOP = 62
_PLOTLY_LAYOUT: dict[str, Any] = {
    "template": "none",
    # A card of its own colour: plotly's text cannot follow the page's theme.
    "paper_bgcolor": palette.WHITE,
    "plot_bgcolor": palette.WHITE,
    "font": {"color": palette.TEXT_ON_LIGHT, "size": 13},
    "height": 420,
    "margin": {"l": 150, "r": 30, "t": 60, "b": 50},
}


def bars(
    values: Mapping[str, float], *, title: str, note: str = "", unit: str = "", marked: Sequence[str] = ()
) -> Figure:
    """Horizontal bars from zero, in the order given, labelled directly; those `marked` are dark."""
    need(values.values(), "bars", begin_at_zero=True)
    labels = {name: amount(value, unit) for name, value in values.items()}
    left = _label_width(values)
    right = min(WIDTH / 3, max(text_width(label, 13) for label in labels.values())) + 10
    svg = headed(title, note, _TOP + 28 * len(values) + 8)
    longest = max(values.values()) or 1.0
    for row, (name, value) in enumerate(values.items()):
        y = _TOP + 28 * row
        svg.text(left - 10, y + 16, shortened(name, left - 11, 13), 13, anchor="end")
        length = (WIDTH - left - right) * value / longest
        filling = palette.BLUE if name in marked or not marked else palette.SKY
        svg.rect(
            left, y, max(1.0, length), 21, rx=3, fill=filling, stroke="currentColor", stroke_opacity="0.4",
            stroke_width="0.6",
        )  # fmt: skip
        svg.text(left + length + 8, y + 16, shortened(labels[name], right - 8, 13), 13)
    spec = {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": list(values.values()),
                "y": list(values),
                "marker": {"color": palette.BLUE},
            }
        ],
        "layout": layout(title, yaxis={"autorange": "reversed"}, xaxis={"title": {"text": unit}}),
    }
    return finished(svg, title, note, [f"{name}: {label}" for name, label in labels.items()], spec)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    title: str,
    note: str = "",
    unit: str = "",
) -> Figure:
    """A table whose darker squares are the larger values. ``values[row][column]`` is None where there is none."""
    known = [value for line in values for value in line if value is not None]
    need(known, "heat_map")
    low, high = min(known), max(known)
    written = _digits(known)
    left = _label_width(rows)
    width = (WIDTH - left) / len(columns)
    svg = headed(title, note, _TOP + 22 + 26 * len(rows) + 34)
    for column, name in enumerate(columns):
        svg.text(left + width * (column + 0.5), _TOP + 10, shortened(name, width, 12.5), 12.5, anchor="middle")
    for row, name in enumerate(rows):
        y = _TOP + 20 + 26 * row
        svg.text(left - 10, y + 17, shortened(name, left - 11, 13), 13, anchor="end")
        for column, value in enumerate(values[row]):
            _square(svg, left + width * column, y, width, value, (low, high), written)
    _scale(svg, left, svg.height - 22, (low, high), unit, written)
    lines = [
        f"{name}: " + ", ".join(f"{c} {amount(v)}" for c, v in zip(columns, line, strict=True) if v is not None)
        for name, line in zip(rows, values, strict=True)
    ]
    spec = {
        "data": [
            {
                "type": "heatmap",
                "x": list(columns),
                "y": list(rows),
                "z": [list(line) for line in values],
                "colorscale": [[share, palette.shade(share)] for share in (0, 0.6, 1)],
                "colorbar": {"title": {"text": unit}},
                "hovertemplate": "%{y}, %{x}: %{z:.1f} " + unit + "<extra></extra>",
            }
        ],
        "layout": layout(title, yaxis={"autorange": "reversed"}, xaxis={"type": "category"}),
    }
    return finished(svg, title, note, [*lines, f"in {unit}" if unit else ""], spec)


def _label_width(names: Iterable[str]) -> float:
    """Room for the longest of the labels on the left, and for a gap."""
    return min(240.0, max(text_width(name, 13) for name in names)) + 12


def _digits(values: Sequence[float]) -> str:
    """How the numbers in the squares are written: none of them loses what tells it from its neighbours."""
    largest = max(map(abs, values))
    if largest >= 100 or all(float(value).is_integer() for value in values):
        return ",.0f"
    return ".1f" if largest >= 1 else ".2g"


def _square(
    svg: Svg, x: float, y: float, width: float, value: float | None, bounds: tuple[float, float], written: str
) -> None:
    if value is None:
        svg.text(x + width / 2, y + 17, "·", 12, anchor="middle")
        return
    low, high = bounds
    filling = palette.shade((value - low) / (high - low) if high > low else 0.0)
    svg.rect(x + 1, y + 1, width - 2, 24, rx=3, fill=filling)
    svg.text(
        x + width / 2,
        y + 17,
        shortened(format(value, written), width - 2, 12),
        12,
        anchor="middle",
        fill=palette.ink_on(filling),
    )


def _scale(svg: Svg, x: float, y: float, bounds: tuple[float, float], unit: str, written: str) -> None:
    """From the lightest to the darkest, in words at both ends."""
    start = svg.text(x, y + 11, format(bounds[0], written), 12).right + 8
    for step in range(24):
        svg.rect(start + 6 * step, y, 6.5, 14, fill=palette.shade(step / 23))
    end = start + 152
    svg.text(end, y + 11, shortened(f"{bounds[1]:{written}} {unit}".strip(), WIDTH - end, 12), 12)


def timeline(
    counts: Sequence[float],
    *,
    step_s: float,
    title: str,
    note: str = "",
    unit: str = "",
    start_s: float = 0.0,
    marks: Mapping[str, float] | None = None,
    gap: tuple[float, float] | None = None,
) -> Figure:
    """How much happened in each step of time, as columns from zero. `marks` are moments with a name; `gap` is a span to
    point at. Times are in seconds, `start_s` is where the first column begins."""
    need(counts, "timeline", begin_at_zero=True)
    marks = dict(marks or {})
    span = step_s * len(counts)
    svg = headed(title, note, 316)
    left, bottom, top = 84.0, 262.0, 108.0
    plot = WIDTH - left - 10

    def at(moment_s: float) -> float:
        return left + plot * min(1.0, max(0.0, (moment_s - start_s) / span))

    highest = max(counts) or 1.0
    _axes(svg, left, bottom, top, highest, unit)
    if gap is not None:
        begin, end = at(gap[0]), at(gap[1])
        svg.rect(begin, top, end - begin, bottom - top, fill=palette.ORANGE, fill_opacity="0.3")
        # The label goes where no line of a mark runs through it.
        lines = sorted(min(end, max(begin, at(moment))) for moment in marks.values())
        left_of, right_of = max(pairwise([begin, *lines, end]), key=lambda pair: pair[1] - pair[0])
        label = f"{gap[1] - gap[0]:.2f} s"
        svg.text((left_of + right_of) / 2, (top + bottom) / 2, label, 13, anchor="middle", bold=True)
    for index, count in enumerate(counts):
        height = (bottom - top) * count / highest
        x = at(start_s + index * step_s)
        svg.rect(x, bottom - height, max(0.8, plot / len(counts) - 0.8), height, fill=palette.BLUE)
    every = math.ceil(max(1.0, round_step(span / MOST_TIMES)))
    for second in range(math.ceil(start_s), math.floor(start_s + span) + 1):
        if second % every == 0:
            label = f"{second} s"
            x = min(at(second), WIDTH - text_width(label, 12) / 2)
            svg.text(x, bottom + 18, label, 12, anchor="middle", opacity=palette.FAINT)
    draw_marks(svg, {name: at(moment) for name, moment in marks.items()}, top, bottom)
    words = [f"{name}: at {moment:.2f} s" for name, moment in marks.items()]
    words += [f"nothing from {gap[0]:.2f} s to {gap[1]:.2f} s"] if gap else []
    words += [f"{unit}: {_course_of(counts, start_s, step_s)}"]
    spec = {
        "data": [
            {
                "type": "bar",
                "x": [round(start_s + (i + 0.5) * step_s, 3) for i in range(len(counts))],
                "y": list(counts),
                "marker": {"color": palette.BLUE},
            }
        ],
        "layout": layout(title, xaxis={"title": {"text": "seconds"}}, yaxis={"title": {"text": unit}}),
    }
    return finished(svg, title, note, words, spec)


def _course_of(counts: Sequence[float], start_s: float, step_s: float) -> str:
    """Many counts in one sentence."""
    most = max(range(len(counts)), key=counts.__getitem__)
    return (
        f"{len(counts)} steps of {step_s:g} s from {start_s:.2f} s on; in the mean {amount(sum(counts) / len(counts))},"
        f" at most {amount(counts[most])} at {start_s + most * step_s:.2f} s,"
        f" 0 in {sum(not count for count in counts)} of them"
    )


def draw_marks(svg: Svg, marks: Mapping[str, float], top: float, bottom: float) -> None:
    """A line for each moment; its name is in the lowest of three rows where there is room."""
    ends = [0.0, 0.0, 0.0]
    for name, x in sorted(marks.items(), key=lambda mark: mark[1]):
        svg.line(x, top - 8, x, bottom, stroke=palette.VERMILLION, stroke_width="2", stroke_dasharray="4 3")
        name = shortened(name, WIDTH / 3, 12.5, bold=True)
        width = text_width(name, 12.5, bold=True)
        begin = min(x, WIDTH - width)
        row = next((row for row, end in enumerate(ends) if end <= begin), 0)
        ends[row] = svg.text(begin, top - 12 - 16 * row, name, 12.5, bold=True).right + 6


def _axes(svg: Svg, left: float, bottom: float, top: float, highest: float, unit: str) -> None:
    svg.line(left, bottom, WIDTH - 10, bottom, stroke="currentColor", stroke_opacity="0.6")
    svg.text(left - 8, bottom + 4, "0", 12, anchor="end", opacity=palette.FAINT)
    svg.text(left - 8, top + 8, amount(highest), 12, anchor="end", opacity=palette.FAINT)
    svg.text(0, svg.height - 14, shortened(unit, WIDTH, 12.5), 12.5, opacity=palette.FAINT)


def headed(title: str, note: str, height: float) -> Svg:
    """A drawing with its title, and a note below it."""
    svg = Svg(WIDTH, height)
    svg.text(0, 20, shortened(title, WIDTH, 16, bold=True), 16, bold=True)
    if note:
        svg.text(0, 41, shortened(note, WIDTH, 13), 13, opacity=palette.FAINT)
    return svg


def finished(
    svg: Svg, title: str, note: str, lines: Sequence[str], spec: Spec, said: Sequence[str] | None = None
) -> Figure:
    """The figure of a drawing; `lines` tell its values. `said` does so for the ear, if the lines are for the eye."""
    text = "\n".join(line for line in [title, note, *lines] if line)
    description = sentences([note, *(lines if said is None else said)])
    return Figure(title, svg.render(title, description), text, tuple(svg.boxes), spec)


def layout(title: str, **more: object) -> dict[str, Any]:
    """Plotly's layout, the same for all charts."""
    return {**_PLOTLY_LAYOUT, "title": {"text": title, "x": 0.01, "xanchor": "left"}, **more}


def amount(value: float, unit: str = "") -> str:
    """A number as it is read best: a small one keeps two digits, whatever comes before them."""
    if abs(value) >= 1e15:
        return f"{value:.2e} {unit}".strip()
    is_whole = float(value).is_integer() or abs(value) >= 100
    number = f"{value:,.0f}" if is_whole else f"{value:,.1f}" if abs(value) >= 1 else f"{value:.2g}"
    return f"{number} {unit}".strip()


def round_step(step: float) -> float:
    """The next larger 1, 2 or 5, or one of these with zeros behind."""
    scale = 10.0 ** math.floor(math.log10(step))
    return next(scale * factor for factor in (1, 2, 5, 10) if scale * factor >= step * 0.999)


def need(values: Iterable[float], what: str, *, begin_at_zero: bool = False) -> None:
    """ValueError if there is nothing to draw, or something that cannot be drawn."""
    values = list(values)
    if not values:
        raise ValueError(f"{what} needs at least one value")
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"{what} has no place for {value}: leave it out")
        if begin_at_zero and value < 0:
            raise ValueError(f"{what} begins at zero, and has no place for {value}")
