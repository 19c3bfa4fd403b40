"""A consumer's fetches over time: a row for each consumer, one bar for each fetch that waits at the broker.

::

    bar             a fetch, from its arrival at the broker to its answer
    triangle        a record arrives at the broker

A fetch that a record ends is short; one that nothing ends is as long as the consumer allows. The number of fetches is
written at the end of each row, and the text beside the picture has the same facts.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, need
from pykraft.viz.drawing.figure import Figure, Spec
from pykraft.viz.drawing.svg import Svg, shortened, text_width

_TOP, _ROW, _BAR = 66.0, 64.0, 22.0
_RIGHT = 104.0
_GAP = 1.4


class Fetches(NamedTuple):
    """What a broker saw of one consumer in `span_ms`: when fetches and records arrived, counted from the start."""

    arrived_ms: Sequence[float]
    records_ms: Sequence[float]
    span_ms: float

    @property
    def waits_ms(self) -> list[float]:
        """How long each fetch waited that both arrived and was answered meanwhile."""
        return [end - start for start, end in pairwise(self.arrived_ms)]


def fetches_over_time(rows: Mapping[str, Fetches], *, title: str, note: str = "") -> Figure:
    """Draw the fetches of each consumer. ValueError if there is nothing to draw."""
    need([row.span_ms for row in rows.values()], "fetches_over_time", begin_at_zero=True)
    left = 14 + max(text_width(name, 13, bold=True) for name in rows)
    span = max(row.span_ms for row in rows.values()) or 1.0
    scale = (WIDTH - left - _RIGHT) / span
    foot = _TOP + _ROW * len(rows)
    svg = headed(title, note, foot + 30)
    for number, (name, row) in enumerate(rows.items()):
        y = _TOP + _ROW * number + 18
        svg.text(0, y + 16, shortened(name, left - 10, 13, bold=True), 13, bold=True)
        _draw_row(svg, row, left, scale, y)
        svg.text(WIDTH - _RIGHT + 10, y + 16, amount(len(row.arrived_ms), "fetches"), 13)
    svg.line(left, foot + 4, WIDTH - _RIGHT, foot + 4, stroke="currentColor", stroke_opacity="0.6")
    svg.text(left, foot + 22, "0", 12, anchor="middle", opacity=palette.FAINT)
    svg.text(WIDTH - _RIGHT, foot + 22, amount(span / 1000, "s"), 12, anchor="middle", opacity=palette.FAINT)
    return finished(svg, title, note, [_in_words(name, row) for name, row in rows.items()], _spec(rows, title))


def _draw_row(svg: Svg, row: Fetches, left: float, scale: float, y: float) -> None:
    edges = [0.0, *row.arrived_ms, row.span_ms]
    for number, (start, end) in enumerate(pairwise(edges)):
        width = max(0.6, (end - start) * scale - _GAP)
        svg.rect(left + start * scale, y, width, _BAR, fill=palette.BLUE if number % 2 else palette.SKY)
    for moment in row.records_ms:
        x = left + moment * scale
        svg.line(x, y - 6, x, y + _BAR + 4, stroke=palette.VERMILLION, stroke_width="1.6")
        svg.element("path", d=f"M{x:.1f} {y - 3:.1f}l-5 -9h10z", fill=palette.VERMILLION)


def _in_words(name: str, row: Fetches) -> str:
    waits = row.waits_ms
    longest = f", the longest waited {amount(max(waits), 'ms')}" if waits else ""
    counted = f"fetches {len(row.arrived_ms)}, records {len(row.records_ms)}"
    return f"{name}: {counted}, in {row.span_ms:.0f} ms{longest}"


def _spec(rows: Mapping[str, Fetches], title: str) -> Spec:
    data = [{"type": "scatter", "name": name, "x": list(row.arrived_ms)} for name, row in rows.items()]
    return {"data": data, "layout": {"title": {"text": title}}}
