"""A stream over time: a panel for each figure of its progress, one below the other, with one axis of seconds.

Panels have their own heights, from zero to their largest value, which is written beside them, as is the last one. A dot
is a batch.
"""

from collections.abc import Mapping, Sequence

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, layout, need
from pykraft.viz.drawing.figure import Figure, Spec
from pykraft.viz.drawing.svg import Svg, shortened

Points = Sequence[tuple[float, float]]
"""The second, and the value: one point for each batch."""

_TOP, _PANEL, _HEIGHT, _LEFT, _RIGHT = 62.0, 92.0, 62.0, 190.0, 120.0
_COLOURS = (palette.BLUE, palette.VERMILLION, palette.GREEN, palette.PURPLE)


def stream_over_time(series: Mapping[str, Points], *, title: str, note: str = "") -> Figure:
    """A panel for each name. ValueError without a point."""
    need([number for some in series.values() for point in some for number in point], "stream_over_time")
    seconds = [second for some in series.values() for second, _ in some]
    start, end = min(seconds), max(seconds)
    scale = (WIDTH - _LEFT - _RIGHT) / ((end - start) or 1.0)
    bottom = _TOP + _PANEL * len(series)
    svg = headed(title, note, bottom + 18)
    for row, (name, some) in enumerate(series.items()):
        placed = [(_LEFT + (second - start) * scale, value) for second, value in some]
        _draw_panel(svg, name, placed, _TOP + _PANEL * row, _COLOURS[row % len(_COLOURS)])
    svg.text(_LEFT, bottom + 2, amount(start, "s"), 12, anchor="middle", opacity=palette.FAINT)
    if end > start:
        svg.text(WIDTH - _RIGHT, bottom + 2, amount(end, "s"), 12, anchor="middle", opacity=palette.FAINT)
    return finished(svg, title, note, [_in_words(name, some) for name, some in series.items()], _spec(series, title))


def _draw_panel(svg: Svg, name: str, points: Sequence[tuple[float, float]], top: float, colour: str) -> None:
    highest = max((value for _, value in points), default=0.0)
    foot = top + _HEIGHT

    def up(value: float) -> float:
        return foot - _HEIGHT * value / (highest or 1.0)

    svg.text(0, top + 26, shortened(name, _LEFT - 20, 13, bold=True), 13, bold=True)
    svg.text(0, top + 44, shortened(f"up to {amount(highest)}", _LEFT - 20, 12), 12, opacity=palette.FAINT)
    svg.line(_LEFT, foot, WIDTH - _RIGHT, foot, stroke="currentColor", stroke_opacity="0.5")
    if len(points) > 1:
        path = " ".join(f"{x:.1f},{up(value):.1f}" for x, value in points)
        svg.element("polyline", points=path, fill="none", stroke=colour, stroke_width="2.2")
    for x, value in points:
        svg.element("circle", cx=x, cy=up(value), r=3.2, fill=colour)
    if points:
        x, value = points[-1]
        svg.text(x + 10, up(value) + 4, shortened(amount(value), _RIGHT - 14, 12.5, bold=True), 12.5, bold=True)


def _in_words(name: str, points: Points) -> str:
    if not points:
        return f"{name}: nothing"
    second, highest = max(points, key=lambda point: point[1])
    last = points[-1]
    return f"{name}: up to {amount(highest)}, at {second:.1f} s; {amount(last[1])} at the end, at {last[0]:.1f} s"


def _spec(series: Mapping[str, Points], title: str) -> Spec:
    data = [
        {"type": "scatter", "mode": "lines+markers", "name": name, "x": [s for s, _ in some], "y": [v for _, v in some]}
        for name, some in series.items()
    ]
    return {"data": data, "layout": layout(title, xaxis={"title": {"text": "seconds"}})}
