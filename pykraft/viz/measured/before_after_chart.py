"""What a setting changes: a panel for each figure, and in it the time without the setting, then the time with it.

A bar is a short while, such as a tenth of a second. Both times of a panel have the same height for the same value, and
one line above the bars sums each of them up. So a panel is read from left to right: before, and after.

The text beside the picture has the same facts.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, need
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened

_TOP, _PANEL, _HEIGHT, _LEFT, _GAP = 76.0, 66.0, 36.0, 190.0, 26.0
_COLOURS = (palette.ORANGE, palette.VERMILLION, palette.SKY, palette.BLUE)


class Panel(NamedTuple):
    """A figure: its name, the values of each while before and after, and both in words."""

    name: str
    before: Sequence[float]
    after: Sequence[float]
    said: tuple[str, str]


def before_and_after(panels: Sequence[Panel], names: tuple[str, str], *, title: str, note: str = "") -> Figure:
    """Draw the panels; `names` are those of the two times. ValueError if there is no panel, or one without a value."""
    if not panels:
        raise ValueError("before_and_after needs a panel")
    for panel in panels:
        need(panel.before, "before_and_after", begin_at_zero=True)
        need(panel.after, "before_and_after", begin_at_zero=True)
    svg = headed(title, note, _TOP + _PANEL * len(panels) + 4)
    before, after = len(panels[0].before), len(panels[0].after)
    width = (WIDTH - _LEFT - _GAP) / (before + after)
    lefts = (_LEFT, _LEFT + before * width + _GAP)
    for name, left, count in zip(names, lefts, (before, after), strict=True):
        svg.text(left, 66, shortened(name, count * width, 13, bold=True), 13, bold=True)
    middle = lefts[1] - _GAP / 2
    svg.line(
        middle, 54, middle, _TOP + _PANEL * len(panels) - 8, stroke=palette.VERMILLION, stroke_width="2",
        stroke_dasharray="4 3",
    )  # fmt: skip
    for row, panel in enumerate(panels):
        _draw_panel(svg, panel, _TOP + _PANEL * row, lefts, width, _COLOURS[row % len(_COLOURS)])
    return finished(svg, title, note, list(_in_words(panels, names)), {"data": [], "layout": {}})


def _draw_panel(svg: Svg, panel: Panel, top: float, lefts: tuple[float, float], width: float, colour: str) -> None:
    highest = max(*panel.before, *panel.after, 1e-9)
    foot = top + 18 + _HEIGHT
    svg.text(0, top + 30, shortened(panel.name, _LEFT - 12, 13, bold=True), 13, bold=True)
    svg.text(0, top + 48, shortened(f"highest bar: {amount(highest)}", _LEFT - 12, 12), 12, opacity=palette.FAINT)
    for left, values, said in zip(lefts, (panel.before, panel.after), panel.said, strict=True):
        svg.text(left, top + 10, shortened(said, width * len(values), 13), 13)
        svg.line(left, foot, left + width * len(values), foot, stroke="currentColor", stroke_opacity="0.5")
        for place, value in enumerate(values):
            height = _HEIGHT * value / highest
            if value > 0:
                svg.rect(
                    left + place * width + 1, foot - max(1.0, height), width - 2, max(1.0, height), fill=colour,
                    stroke="currentColor", stroke_opacity="0.4", stroke_width="0.6",
                )  # fmt: skip


def _in_words(panels: Sequence[Panel], names: tuple[str, str]) -> Iterator[str]:
    for panel in panels:
        before, after = panel.said
        yield f"{panel.name}: {before} ({names[0]}), {after} ({names[1]})"
