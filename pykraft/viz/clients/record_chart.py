"""One record's way: a column for each client and node, a row for each step, and in the columns the copies there are.

Time goes down, one row a step, so that what takes a millisecond is as easy to read as what takes a second; the time is
written beside the row. A bar is a copy of the record in a node's log, with its offset::

    hatched           the node has it, and it is not committed
    filled            committed
    torn, dashed      not in the leader's log: it will be truncated
    faint frame       the node is down; the copy is in its files
    ✕                 truncated

A node that is cut off has a broken red line beside it. The text beside the picture has the same facts.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import SMALLEST, Svg, shortened, text_width, wrapped

UNCOMMITTED, COMMITTED, TORN = "not committed", "committed", "not in the leader's log"
UP, CUT_OFF, DOWN = "up", "cut off", "down"

_TIME, _LANE, _BAR, _ROW, _LINE = 62.0, 88.0, 30.0, 34.0, 16.0
_TOP = 112.0
_SIZE = 13.0


class Copy(NamedTuple):
    """A copy of the record in a node's log."""

    offset: int
    state: str


class Way(NamedTuple):
    """A step, and how things are after it: in which column it happened, from where something arrived (a column, or ""),
    each node's copy, and the nodes that are down or cut off."""

    at_ms: float
    lane: str
    said: str
    source: str = ""
    copies: Mapping[str, Copy] = {}
    states: Mapping[str, str] = {}


def record_way(lanes: Sequence[str], steps: Sequence[Way], *, title: str, note: str = "") -> Figure:
    """Draw the steps, in columns of these names. ValueError if there is nothing to draw, or a step is in no column."""
    if not steps:
        raise ValueError("record_way needs at least one step")
    for step in steps:
        if step.lane not in lanes or (step.source and step.source not in lanes):
            raise ValueError(f"a step is in {step.source or step.lane!r}; the columns are {', '.join(lanes)}")
    chart = _Chart(lanes, steps)
    svg = headed(title, note, chart.bottom + 34)
    chart.draw(svg)
    return finished(svg, title, note, [_in_words(step) for step in steps], {"data": [], "layout": {}})


def _in_words(step: Way) -> str:
    copies = ", ".join(f"{lane} has it at {copy.offset:,} ({copy.state})" for lane, copy in step.copies.items())
    return f"{step.at_ms:,.0f} ms  {step.lane}: {step.said}" + (f". Now {copies}" if copies else "")


class _Chart:
    """Where everything is."""

    def __init__(self, lanes: Sequence[str], steps: Sequence[Way]) -> None:
        self._lanes, self._steps = lanes, steps
        self._text_left = _TIME + _LANE * len(lanes) + 14
        self._texts = [wrapped(f"{step.lane}: {step.said}", WIDTH - self._text_left, _SIZE) for step in steps]
        self._tops = [_TOP]
        for text in self._texts:
            self._tops.append(self._tops[-1] + _ROW + _LINE * (len(text) - 1))
        self.bottom = self._tops[-1]

    def _x(self, lane: str) -> float:
        return _TIME + _LANE * (self._lanes.index(lane) + 0.5)

    def _y(self, number: int) -> float:
        """The line of a step, on which its arrow is drawn."""
        return self._tops[number] + 14

    def draw(self, svg: Svg) -> None:
        for lane in self._lanes:
            svg.text(
                self._x(lane), _TOP - 16, shortened(lane, _LANE - 4, 13, bold=True), 13, anchor="middle", bold=True
            )
            self._life_line(svg, lane)
            offset: int | None = None
            for top, bottom, copy, state in self._bars(lane):
                _draw_bar(svg, self._x(lane), top, bottom, copy, state)
                if copy.offset != offset:  # once for each copy
                    offset = copy.offset
                    svg.text(self._x(lane) + _BAR / 2 + 4, top + 16, shortened(f"{offset:,}", _LANE - _BAR - 8, 11), 11)
        for number in range(len(self._steps)):
            self._draw_step(svg, number)
        _draw_key(svg, self.bottom + 12)

    def _ends(self) -> Iterator[tuple[Way, float, float]]:
        """Each step with the stretch down to the next one."""
        ys = [*(self._y(number) for number in range(len(self._steps))), self.bottom]
        for step, (top, bottom) in zip(self._steps, pairwise(ys), strict=True):
            yield step, top, bottom

    def _bars(self, lane: str) -> Iterator[tuple[float, float, Copy, str]]:
        """The copies in a column, each as long as it stays as it is."""
        last: tuple[float, float, Copy, str] | None = None
        for step, top, bottom in self._ends():
            copy, state = step.copies.get(lane), step.states.get(lane, UP)
            if last is not None and copy == last[2] and (state == DOWN) == (last[3] == DOWN):
                last = (last[0], bottom, copy, state)
                continue
            if last is not None:
                yield last
            last = None if copy is None else (top, bottom, copy, state)
        if last is not None:
            yield last

    def _life_line(self, svg: Svg, lane: str) -> None:
        """A column's grey line, where there is no copy and the node is up; and the red one, where it is cut off."""
        x = self._x(lane)
        grey: dict[str, object] = {"stroke": "currentColor", "stroke_width": "1.2", "stroke_opacity": "0.4"}
        red: dict[str, object] = {"stroke": palette.VERMILLION, "stroke_width": "2", "stroke_dasharray": "5 4"}
        svg.line(x, _TOP - 8, x, self._y(0), **grey)
        for step, top, bottom in self._ends():
            state = step.states.get(lane, UP)
            if lane not in step.copies and state != DOWN:
                svg.line(x, top, x, bottom, **grey)
            if state == CUT_OFF:
                svg.line(x - _BAR / 2 - 7, top, x - _BAR / 2 - 7, bottom, **red)

    def _draw_step(self, svg: Svg, number: int) -> None:
        step, y = self._steps[number], self._y(number)
        svg.text(_TIME - 12, y + 4, _moment(step.at_ms), 12, anchor="end", opacity=palette.FAINT)
        if step.source:
            _draw_arrow(svg, self._x(step.source), self._x(step.lane), y)
        before = self._steps[number - 1].copies.get(step.lane) if number else None
        if before is not None and step.lane not in step.copies:
            x = self._x(step.lane)
            _strokes(svg, f"M{x - 8:.1f} {y - 8:.1f}l16 16m0 -16l-16 16", palette.VERMILLION, "3")
        elif not step.source:
            svg.element("circle", cx=self._x(step.lane), cy=y, r=4.5, fill="currentColor")
        for row, line in enumerate(self._texts[number]):
            svg.text(self._text_left, y + 4 + _LINE * row, line, _SIZE)


def _moment(at_ms: float) -> str:
    return f"{at_ms:,.0f} ms" if at_ms < 1000 else f"{at_ms / 1000:.2f} s"


def _draw_arrow(svg: Svg, start: float, end: float, y: float) -> None:
    side = 1 if end > start else -1
    tip = end - side * (_BAR / 2 + 1)
    svg.line(start, y, tip - side * 6, y, stroke="currentColor", stroke_width="1.8")
    svg.path(f"M{tip:.1f} {y:g}l{-side * 9} -5v10z", fill="currentColor")


def _draw_bar(svg: Svg, x: float, top: float, bottom: float, copy: Copy, state: str) -> None:
    left, height = x - _BAR / 2, bottom - top
    if state == DOWN:
        svg.rect(left, top, _BAR, height, fill="currentColor", fill_opacity="0.06", stroke="currentColor",
                 stroke_opacity="0.5", stroke_dasharray="3 3")  # fmt: skip
        if height > 24:
            svg.text(x, top + height / 2 + 4, "down", SMALLEST, anchor="middle")
        return
    if copy.state == COMMITTED:
        svg.rect(left, top, _BAR, height, fill=palette.BLUE)
    else:
        is_torn = copy.state == TORN
        colour = palette.VERMILLION if is_torn else palette.BLUE
        svg.rect(left, top, _BAR, height, fill=colour, fill_opacity="0.1", stroke=colour, stroke_width="1.4",
                 stroke_dasharray="4 3" if is_torn else None)  # fmt: skip
        _strokes(svg, _hatching(left, top, height, rising=not is_torn), colour, "1.4")


def _hatching(x: float, y: float, height: float, *, rising: bool) -> str:
    """Slanted lines in a box of a bar's width."""
    lines = []
    start = 7 - _BAR
    while start < height:
        low, high = max(0.0, start), min(height, start + _BAR)
        one, other = low - start, high - start
        if rising:
            one, other = _BAR - one, _BAR - other
        lines.append(f"M{x + one:.1f} {y + low:.1f}L{x + other:.1f} {y + high:.1f}")
        start += 7
    return "".join(lines)


def _strokes(svg: Svg, d: str, colour: str, width: str) -> None:
    svg.path(d, fill="none", stroke=colour, stroke_width=width)


def _draw_key(svg: Svg, y: float) -> None:
    x = 0.0
    for state, label in ((UNCOMMITTED, UNCOMMITTED), (COMMITTED, COMMITTED), (TORN, f"{TORN}: will be truncated")):
        if state == COMMITTED:
            svg.rect(x, y, _BAR, 14, fill=palette.BLUE)
        else:
            colour = palette.VERMILLION if state == TORN else palette.BLUE
            svg.rect(x, y, _BAR, 14, fill=colour, fill_opacity="0.1", stroke=colour, stroke_width="1.4",
                     stroke_dasharray="4 3" if state == TORN else None)  # fmt: skip
            _strokes(svg, _hatching(x, y, 14, rising=state != TORN), colour, "1.4")
        x = svg.text(x + _BAR + 8, y + 12, label, 12.5).right + 22
    svg.line(x, y + 7, x + _BAR, y + 7, stroke=palette.VERMILLION, stroke_width="2", stroke_dasharray="5 4")
    svg.text(x + _BAR + 8, y + 12, "cut off", 12.5)
    assert x + _BAR + 8 + text_width("cut off", 12.5) <= WIDTH
