"""When a broker reads from a connection, and when not: a row for each connection.

::

    triangle    the client sends a request
    circle      the broker reads it
    bar         the connection is muted: the client is throttled, and the broker reads nothing

A request that was sent below a bar waits in the sockets until the bar ends. The text beside the picture has the same
facts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, need
from pykraft.viz.drawing.figure import Figure, Spec
from pykraft.viz.drawing.svg import Svg, shortened, text_width

_TOP, _ROW, _BAR = 66.0, 78.0, 22.0
_RIGHT = 24.0
_WIDEST = 200.0
"""Of the names."""


class Connection(NamedTuple):
    """What became of one connection; milliseconds since the first request."""

    sent_ms: Sequence[float]
    """When the client sent each request."""
    read_ms: Sequence[float]
    """When the broker read each."""
    muted_ms: Sequence[tuple[float, float]]
    """From when until when the connection was muted, after each request."""

    @property
    def waited_ms(self) -> list[float]:
        """How long each request waited to be read."""
        return [read - sent for sent, read in zip(self.sent_ms, self.read_ms, strict=True)]


def mutes_over_time(rows: Mapping[str, Connection], *, title: str, note: str = "") -> Figure:
    """Draw the connections. ValueError if there is nothing to draw."""
    moments = [moment for row in rows.values() for moment in (*row.sent_ms, *row.read_ms, *_ends(row))]
    need(moments, "mutes_over_time")
    left = 20 + min(_WIDEST, max(text_width(name, 13, bold=True) for name in rows))
    scale = (WIDTH - left - _RIGHT) / (max(moments) or 1.0)
    foot = _TOP + _ROW * len(rows)
    svg = headed(title, note, foot + 58)
    for number, (name, row) in enumerate(rows.items()):
        y = _TOP + _ROW * number + 24
        svg.text(0, y + 16, shortened(name, left - 14, 13, bold=True), 13, bold=True)
        svg.line(left, y + _BAR / 2, WIDTH - _RIGHT, y + _BAR / 2, stroke="currentColor", stroke_opacity="0.3")
        _draw_row(svg, row, left, scale, y)
    svg.line(left, foot + 4, WIDTH - _RIGHT, foot + 4, stroke="currentColor", stroke_opacity="0.6")
    svg.text(left, foot + 22, "0", 12, anchor="middle", opacity=palette.FAINT)
    end = amount(max(moments) / 1000, "s")
    svg.text(WIDTH - _RIGHT, foot + 22, end, 12, anchor="end", opacity=palette.FAINT)
    legend = "▼ a request is sent · ● the broker reads it · bar: muted, the broker reads nothing"
    svg.text(0, foot + 46, legend, 12.5, opacity=palette.FAINT)
    return finished(svg, title, note, [line for item in rows.items() for line in _in_words(*item)], _spec(rows, title))


def _ends(row: Connection) -> Iterator[float]:
    return (end for _, end in row.muted_ms)


def _draw_row(svg: Svg, row: Connection, left: float, scale: float, y: float) -> None:
    for start, end in row.muted_ms:
        if end <= start:
            continue
        x, width = left + start * scale, (end - start) * scale
        svg.rect(x, y, width, _BAR, fill=palette.ORANGE, stroke="currentColor", stroke_opacity="0.4")
        label = amount(end - start, "ms")
        if text_width(label, 12.5) + 26 <= width:
            ink = palette.ink_on(palette.ORANGE)
            svg.text(x + width / 2, y + 15.5, label, 12.5, anchor="middle", fill=ink)
    for moment, count in Counter(row.sent_ms).items():
        x = left + moment * scale
        svg.element("path", d=f"M{x:.1f} {y - 3:.1f}l-5 -10h10z", fill=palette.VERMILLION)
        if count > 1:
            svg.text(x + 9, y - 4, f"{count} at once", 12)
    for moment in row.read_ms:
        svg.element("circle", cx=left + moment * scale, cy=y + _BAR + 9, r=5, fill=palette.BLUE)


def _in_words(name: str, row: Connection) -> Iterator[str]:
    muted = ", ".join(f"{amount(start)} to {amount(end)}" for start, end in row.muted_ms if end > start)
    yield f"{name}: requests sent at {_listed(row.sent_ms)} ms, read at {_listed(row.read_ms)} ms"
    yield f"{name}: muted {muted} ms" if muted else f"{name}: never muted"


def _listed(moments: Sequence[float]) -> str:
    return ", ".join(amount(round(moment)) for moment in moments) or "no"


def _spec(rows: Mapping[str, Connection], title: str) -> Spec:
    data = [{"type": "scatter", "name": name, "x": list(row.read_ms)} for name, row in rows.items()]
    return {"data": data, "layout": {"title": {"text": title}}}
