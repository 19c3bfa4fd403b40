"""What a time was spent on: a bar for each row, in parts that follow one another.

Parts differ by colour and by pattern; the key names them. The text beside the picture has each part's length.
"""

from collections.abc import Mapping, Sequence

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, need, round_step
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import shortened, text_width
from pykraft.viz.groups.ownership_chart import Looks

_TOP, _ROW, _BAR, _RIGHT = 96.0, 56.0, 28.0, 84.0
_WIDEST_NAME = 200.0
_STEPS = 6


def phases(rows: Mapping[str, Sequence[tuple[str, float]]], *, unit: str, title: str, note: str = "") -> Figure:
    """Draw each row's parts, in order. ValueError if there is nothing to draw."""
    totals = {name: sum(length for _, length in parts) for name, parts in rows.items()}
    need(list(totals.values()), "phases", begin_at_zero=True)
    left = 16 + min(_WIDEST_NAME, max(text_width(name, 13, bold=True) for name in rows))
    scale = (WIDTH - left - _RIGHT) / (max(totals.values()) or 1.0)
    foot = _TOP + _ROW * len(rows)
    svg = headed(title, note, foot + 26)
    looks = Looks((part for parts in rows.values() for part, _ in parts), title)
    looks.define(svg)
    x = 0.0
    for part in looks:
        svg.rect(x, 64, 26, 13, fill=looks.pattern(part), stroke="currentColor", stroke_opacity="0.5")
        x = svg.text(x + 32, 75, shortened(part, 220, 12.5), 12.5).right + 18
    for number, (name, parts) in enumerate(rows.items()):
        y, x = _TOP + _ROW * number, left
        svg.text(0, y + 19, shortened(name, left - 10, 13, bold=True), 13, bold=True)
        for part, length in parts:
            if length > 0:
                svg.rect(x, y, max(1.5, length * scale), _BAR, fill=looks.pattern(part), stroke="currentColor",
                         stroke_opacity="0.5")  # fmt: skip
            x += length * scale
        svg.text(x + 8, y + 19, amount(totals[name], unit), 13)
    svg.line(left, foot - 12, WIDTH - _RIGHT, foot - 12, stroke="currentColor", stroke_opacity="0.6")
    step = round_step((max(totals.values()) or 1.0) / _STEPS)
    for number in range(int(max(totals.values()) / step + 1e-9) + 1):
        place = left + number * step * scale
        svg.text(place, foot + 4, amount(number * step, unit), 12, anchor="middle", opacity=palette.FAINT)
    words = [f"{name}: {', '.join(f'{part} {amount(of, unit)}' for part, of in parts)}" for name, parts in rows.items()]
    return finished(svg, title, note, words, {"data": [], "layout": {"title": {"text": title}}})
