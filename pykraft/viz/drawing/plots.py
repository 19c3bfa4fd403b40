"""Curves: how one number depends on another.

`lines` draws one curve for each name, `points` draws dots. Either axis may be logarithmic, which is said at the axis.
Curves differ by colour, by dash and by the shape of their dots, and each is labelled where it ends, so no legend has to
be looked up. The name of dots is beside the last of them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, layout, need, round_step
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, TextBox, shortened, text_width

Series = Mapping[str, Sequence[tuple[float, float]]]
"""By name, the points (x, y) of a curve."""

_COLOURS = (palette.BLUE, palette.VERMILLION, palette.GREEN, palette.PURPLE, palette.ORANGE, palette.SKY)
_DASHES = ("none", "8 4", "2 4", "10 3 2 3", "5 5", "1 6")
_TOP, _HEIGHT, _LEFT = 66.0, 300.0, 86.0
_LABEL = 13
_LABEL_ROOM = 16.0
"""Between the base lines of two labels."""
_DOT_ROOM = 9.0
"""Between an axis that begins with the smallest value and that value's dot."""
_MOST_DOTS = 60
"""Of a curve: with more of them they would be a band that hides the curves below."""
_FEW_MARKS = 3
_MOST_LISTED = 100
"""The text lists at most this many points; of more it gives the number and the range."""


def lines(series: Series, **said: Any) -> Figure:
    """A curve for each name through its points, in the order of x. Keywords: `title`, `note`, `x_unit`, `y_unit`,
    `log_x`, `log_y`. ValueError without points, or for a number that has no logarithm."""
    return _plot({name: sorted(points) for name, points in series.items()}, is_line=True, **said)


def points(series: Series, **said: Any) -> Figure:
    """A dot for each point. Keywords as those of `lines`."""
    return _plot({name: list(some) for name, some in series.items()}, is_line=False, **said)


class _Axis:
    """The place of a value between two pixels."""

    def __init__(self, values: Sequence[float], start: float, end: float, is_log: bool, has_zero: bool = True) -> None:
        """Linear, it begins at 0. Without `has_zero` it does not, if that would leave half of it empty."""
        if is_log and min(values) <= 0:
            raise ValueError(f"{min(values)} has no logarithm: leave it out, or let the axis be linear")
        self.high = max(values)
        is_far = not has_zero and self.high > min(values) > self.high / 2
        self.low = min(values) if is_log or is_far else min(0.0, *values)
        self._is_log = is_log
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(v) if self._is_log else float(v) for v in (self.low, self.high, value))
        return self._start + (self._end - self._start) * ((value - low) / (high - low) if high > low else 0.5)

    def marks(self) -> list[float]:
        """Some round numbers on the axis."""
        if self._is_log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            found = [10.0**power for power in range(first, last + 1, max(1, (last - first) // 5))]
            found = self._within(found)
            for steps in ((1, 2, 5), range(1, 10)):  # for a short axis
                if len(found) < _FEW_MARKS:
                    found = self._within(10.0**power * step for power in range(first - 1, last + 1) for step in steps)
            return found if len(found) > 1 else [self.low, self.high]
        step = round_step((self.high - self.low) / 5 or 1)
        begin = math.ceil(self.low / step - 1e-9) * step if self.low > 0 else self.low
        count = int((self.high - begin) / step + 1e-9)
        return [begin + step * index for index in range(count + 1)]

    def _within(self, marks: Iterable[float]) -> list[float]:
        return [mark for mark in marks if self.low * 0.999 <= mark <= self.high * 1.001]


def _plot(
    series: Series,
    *,
    is_line: bool,
    title: str,
    note: str = "",
    x_unit: str = "",
    y_unit: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    need([number for some in series.values() for point in some for number in point], "a plot")
    xs = [x for some in series.values() for x, _ in some]
    ys = [y for some in series.values() for _, y in some]
    right = WIDTH - 14 - max(min(210.0, text_width(name, _LABEL)) for name in series)
    bottom = _TOP + _HEIGHT
    room = 0.0 if is_line else _DOT_ROOM
    up = _Axis(ys, bottom - room * log_y, _TOP, log_y)
    left = max(_LEFT, 10 + max(text_width(amount(mark), 12) for mark in up.marks()))
    across = _Axis(xs, left + room * log_x, right, log_x, has_zero=False)
    svg = headed(title, note, bottom + 48)
    _draw_axes(svg, across, up, (left, right), (x_unit + ", logarithmic" * log_x, y_unit + ", logarithmic" * log_y))
    for number, some in enumerate(series.values()):
        placed = [(across(x), up(y)) for x, y in some]
        colour = _COLOURS[number % len(_COLOURS)]
        if is_line and len(placed) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
            dash = _DASHES[number % len(_DASHES)]
            svg.element("polyline", points=path, fill="none", stroke=colour, stroke_width="2.4", stroke_dasharray=dash)
        for x, y in placed if not is_line or len(placed) <= _MOST_DOTS else ():
            _dot(svg, x, y, number, colour)
    if is_line:
        places = _label_places([up(some[-1][1]) if some else _TOP for some in series.values()])
        for name, y in zip(series, places, strict=True):
            svg.text(right + 12, y + 4, shortened(name, WIDTH - right - 12, _LABEL), _LABEL)
    else:
        dots = {name: [(across(x), up(y)) for x, y in some] for name, some in series.items() if some}
        _label_dots(svg, dots, [bottom, *map(up, up.marks())])
    spec = _spec(series, is_line, title, (log_x, log_y))
    return finished(svg, title, note, _in_words(series, x_unit, y_unit), spec, _said(series, x_unit, y_unit))


def _draw_axes(svg: Svg, across: _Axis, up: _Axis, ends: tuple[float, float], units: tuple[str, str]) -> None:
    (left, right), bottom = ends, _TOP + _HEIGHT
    for mark in up.marks():
        y = up(mark)
        svg.line(left, y, right, y, stroke="currentColor", stroke_opacity="0.18")
        svg.text(left - 8, y + 4, amount(mark), 12, anchor="end", opacity=palette.FAINT)
    svg.line(left, bottom, right, bottom, stroke="currentColor", stroke_opacity="0.6")
    for mark in across.marks():
        svg.text(across(mark), bottom + 18, amount(mark), 12, anchor="middle", opacity=palette.FAINT)
    svg.text(right, bottom + 38, shortened(units[0], right, 12.5), 12.5, anchor="end", opacity=palette.FAINT)
    svg.text(0, _TOP - 10, shortened(units[1], WIDTH, 12.5), 12.5, opacity=palette.FAINT)


def _dot(svg: Svg, x: float, y: float, number: int, colour: str) -> None:
    if number % 3 == 0:
        svg.element("circle", cx=x, cy=y, r=3.6, fill=colour)
    elif number % 3 == 1:
        svg.rect(x - 3.4, y - 3.4, 6.8, 6.8, fill=colour)
    else:
        svg.element("path", d=f"M{x:.1f} {y - 4.6:.1f}l4.4 8h-8.8z", fill=colour)


def _label_places(ends: Sequence[float]) -> list[float]:
    """The places of labels, beside the ends of their curves or as near as there is room, in the same order: a label
    above another one's belongs to the higher curve."""
    order = sorted(range(len(ends)), key=ends.__getitem__)
    places = list(ends)
    for above, here in pairwise(order):
        places[here] = max(places[here], places[above] + _LABEL_ROOM)
    lowest = _TOP + _HEIGHT
    for here in reversed(order):
        places[here] = min(places[here], lowest)
        lowest = places[here] - _LABEL_ROOM
    return places


def _label_dots(svg: Svg, dots: Mapping[str, Sequence[tuple[float, float]]], grid: Sequence[float]) -> None:
    """Each name beside the last of its dots: on the right, on the left, above or below, where no other name or dot is,
    and no line of the grid if there is such a place."""
    taken = [TextBox("", x - 5, y - 5, x + 5, y + 5) for some in dots.values() for x, y in some]
    lines = [TextBox("", 0, y - 1, WIDTH, y + 1) for y in grid]
    for name, some in dots.items():
        x, y = some[-1]
        label = shortened(name, WIDTH - x - 12, _LABEL)
        width = text_width(label, _LABEL)
        places = [(x + 10, y + 4), (x + 10, y - 5), (x + 10, y + 15), (x - 10 - width, y + 4)]
        places += [(x - width / 2, y - 10), (x - width / 2, y + 20)]
        places += [(x + 10, y + 4 + 16 * step) for step in range(1, len(dots) + 1)]
        free = [place for place in places if not any(_box(label, *place).overlaps(box) for box in taken)]
        clear = [place for place in free if not any(_box(label, *place).overlaps(line) for line in lines)]
        left, base = (clear or free or places)[0]
        taken.append(svg.text(left, base, label, _LABEL))


def _box(label: str, left: float, base: float) -> TextBox:
    width = text_width(label, _LABEL)
    return TextBox(label, left, base - 0.76 * _LABEL, left + width, base + 0.24 * _LABEL)


def _in_words(series: Series, x_unit: str, y_unit: str) -> list[str]:
    units = f" ({x_unit}: {y_unit})" if x_unit or y_unit else ""
    return [f"{name}{units}: {_points_in_words(some)}" for name, some in series.items()]


def _said(series: Series, x_unit: str, y_unit: str) -> list[str]:
    """The same for the ear: the units are said once, and each value before its place."""
    units = "; ".join(f"{way}: {unit}" for way, unit in (("Up", y_unit), ("across", x_unit)) if unit)
    said = [
        f"{name}: " + ", ".join(f"{amount(y)} at {amount(x)}" for x, y in some)
        if len(some) <= _MOST_LISTED
        else f"{name}: {_points_in_words(some)}"
        for name, some in series.items()
    ]
    return [units, *said]


def _points_in_words(some: Sequence[tuple[float, float]]) -> str:
    """The points in words: each of them, or their number and range if a list would be too long."""
    if len(some) <= _MOST_LISTED:
        return ", ".join(f"{amount(x)}: {amount(y)}" for x, y in some)
    xs, ys = zip(*some, strict=True)
    return f"{len(some)} points, {amount(min(xs))} to {amount(max(xs))}: {amount(min(ys))} to {amount(max(ys))}"


def _spec(series: Series, is_line: bool, title: str, is_log: tuple[bool, bool]) -> dict[str, Any]:
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers" if is_line else "markers",
            "name": name,
            "x": [x for x, _ in some],
            "y": [y for _, y in some],
            "marker": {"color": _COLOURS[number % len(_COLOURS)]},
        }
        for number, (name, some) in enumerate(series.items())
    ]
    kinds = ["log" if logarithmic else "linear" for logarithmic in is_log]
    return {"data": data, "layout": layout(title, xaxis={"type": kinds[0]}, yaxis={"type": kinds[1]})}
