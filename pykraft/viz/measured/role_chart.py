"""The leaders over time: a row for each node of a quorum, and in it a bar for each role that the node had in an epoch.

`roles_over_time` draws the epoch as a colour and as a number, and the role as a shape::

    a high bar with ◆        leader
    a low bar with ●         follower
    a frame with ▲           candidate; with dashes: prospective, which asks before it becomes one
    a thin line              unattached: it knows of no leader; or resigned
    nothing                  the node is down

So an election is where a colour begins: one high bar, and low bars of the same colour in the other rows. Frames that no
high bar of their epoch follows are a split vote. What was done from outside is a dashed line with its name.

With `timers` there is a slope below each row: how long the node still waits. It falls to zero where the timer runs out.

The text beside the picture has the same facts.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, draw_marks, finished, headed, round_step
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, text_width

MOST_BARS = 300
_COLOURS = (palette.BLUE, palette.ORANGE, palette.GREEN, palette.PURPLE, palette.SKY, palette.YELLOW)
_LEFT, _TOP, _MARK, _ROW, _HIGH, _LOW = 80.0, 74.0, 16.0, 46.0, 30.0, 14.0
_SLOPE = 38.0
_NARROWEST = 3.0
_SIGNS = {"leader": "◆", "follower": "●", "candidate": "▲", "prospective": "▲"}


Timers = Mapping[int, Sequence[tuple[float, float]]]
"""By node, at some milliseconds, how many milliseconds its timer has left. Straight lines lead from one to the next."""


class Bar(NamedTuple):
    """A node's role in an epoch, from when until when; milliseconds."""

    node: int
    role: str
    epoch: int
    start_ms: float
    end_ms: float


def roles_over_time(
    bars: Sequence[Bar],
    *,
    title: str,
    note: str = "",
    marks: Mapping[str, float] | None = None,
    timers: Timers | None = None,
) -> Figure:
    """Draw the bars, which begin at the first one's start. `marks` are moments with their names. ValueError if there is
    no bar, or more than 300."""
    if not 1 <= len(bars) <= MOST_BARS:
        raise ValueError(f"roles_over_time draws 1 to {MOST_BARS} bars, not {len(bars)}")
    nodes = sorted({bar.node for bar in bars})
    start, end = min(bar.start_ms for bar in bars), max(bar.end_ms for bar in bars)
    axis = _Axis(start, max(end, start + 1))
    seen = {name: time for name, time in (marks or {}).items() if start <= time <= end}
    top = _TOP + _MARK * min(3, len(seen))
    row_height = _ROW + (_SLOPE if timers else 0)
    foot = top + row_height * len(nodes)
    svg = headed(title, note, foot + 62)
    at_marks = {name: axis.at(time) for name, time in seen.items()}
    draw_marks(svg, at_marks, top - 4, foot)  # below the bars, and beside their numbers
    for row, node in enumerate(nodes):
        svg.text(0, top + row_height * row + 24, f"node {node}", 13, bold=True)
        # What is short is drawn last, or its neighbours would hide it.
        own = sorted((bar for bar in bars if bar.node == node), key=lambda bar: bar.start_ms - bar.end_ms)
        for bar in own:
            _draw_bar(svg, axis, bar, top + row_height * row + 4, list(at_marks.values()))
        if timers:
            _draw_timer(svg, axis, timers.get(node, ()), top + row_height * (row + 1) - 8, _most(timers))
    _draw_times(svg, axis, foot + 8)
    legend = (
        "colour and number: the epoch · ◆ leader · ● follower · ▲ candidate · ▲ dashed: prospective · line: neither"
    )
    svg.text(0, foot + 50, legend, 12.5, opacity=palette.FAINT)
    words = [*_in_words(bars, seen), *_timers_in_words(timers or {})]
    return finished(svg, title, note, words, {"data": [], "layout": {}})


class _Axis:
    """From milliseconds to places."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def at(self, time_ms: float) -> float:
        return _LEFT + (WIDTH - _LEFT - 4) * (time_ms - self.start) / (self.end - self.start)


def _draw_bar(svg: Svg, axis: _Axis, bar: Bar, y: float, marks: Sequence[float]) -> None:
    x, colour = axis.at(bar.start_ms), _COLOURS[bar.epoch % len(_COLOURS)]
    width = max(_NARROWEST, axis.at(bar.end_ms) - x)
    middle = y + _HIGH / 2
    ink: str | None = None
    match bar.role:
        case "leader":
            svg.rect(x, y, width, _HIGH, rx=3, fill=colour, stroke="currentColor", stroke_opacity="0.6")
            ink = palette.ink_on(colour)
        case "follower":
            svg.rect(x, middle - _LOW / 2, width, _LOW, rx=2, fill=colour, fill_opacity="0.35", stroke=colour)
        case "candidate" | "prospective":
            dash = "4 3" if bar.role == "prospective" else None
            svg.rect(x, y, width, _HIGH, rx=3, fill="none", stroke=colour, stroke_width="3", stroke_dasharray=dash)
        case _:
            svg.line(x, middle, x + width, middle, stroke="currentColor", stroke_opacity="0.5", stroke_width="1.5")
            return
    label = f"{_SIGNS[bar.role]} {bar.epoch}"
    size = 12 if bar.role == "follower" else 13
    if text_width(label, size, bold=True) + 6 <= width:
        place = _beside(marks, x, x + width, text_width(label, size, bold=True))
        svg.text(place, middle + 4.5, label, size, anchor="middle", bold=True, fill=ink)


def _most(timers: Timers) -> float:
    return max((left for some in timers.values() for _, left in some), default=1.0) or 1.0


def _draw_timer(svg: Svg, axis: _Axis, some: Sequence[tuple[float, float]], y: float, most: float) -> None:
    """The slope of one node. A gap between two of its lines is a time without a timer."""
    svg.text(0, y - 2, "timer", 12, opacity=palette.FAINT)
    svg.line(_LEFT, y, WIDTH - 4, y, stroke="currentColor", stroke_opacity="0.3")
    drawn, last = [], None
    for time, left in some:
        x, top = axis.at(min(max(time, axis.start), axis.end)), y - (_SLOPE - 4) * left / most
        drawn.append(f"{'M' if last is None or left > last else 'L'}{x:.1f} {top:.1f}")
        last = left
        if left <= 0:
            svg.element("circle", cx=x, cy=y, r=4, fill=palette.VERMILLION)
    if drawn:
        svg.path("".join(drawn), fill="none", stroke=palette.VERMILLION, stroke_width="2")


def _timers_in_words(timers: Timers) -> Iterator[str]:
    for node, some in timers.items():
        out = [amount(time) for time, left in some if left <= 0]
        yield f"node {node}: its timer runs out at {', '.join(out)} ms" if out else f"node {node}: no timer runs out"


def _beside(marks: Sequence[float], left: float, right: float, width: float) -> float:
    """Where the middle of a label goes: the bar's middle, or as near to it as no line of a mark strikes it."""
    half, middle = width / 2 + 4, (left + right) / 2
    places = [middle, *(mark + side * half for mark in marks for side in (-1, 1))]
    inside = [place for place in places if left + half - 1 <= place <= right - half + 1 or place == middle]
    clear = [place for place in inside if all(abs(place - mark) >= half - 1e-6 for mark in marks)]
    return min(clear or [middle], key=lambda place: abs(place - middle))


def _draw_times(svg: Svg, axis: _Axis, y: float) -> None:
    svg.line(_LEFT, y - 6, WIDTH - 4, y - 6, stroke="currentColor", stroke_opacity="0.6")
    step = round_step((axis.end - axis.start) / 8)
    for number in range(math.ceil(axis.start / step), math.floor(axis.end / step) + 1):
        label = f"{amount(number * step)} ms"
        x = min(axis.at(number * step), WIDTH - text_width(label, 12) / 2)
        svg.text(x, y + 12, label, 12, anchor="middle", opacity=palette.FAINT)


def _in_words(bars: Sequence[Bar], marks: Mapping[str, float]) -> Iterator[str]:
    for name, time in marks.items():
        yield f"{amount(time)} ms: {name}"
    for bar in bars:
        yield f"node {bar.node}: {bar.role} in epoch {bar.epoch}, {amount(bar.start_ms)} to {amount(bar.end_ms)} ms"
