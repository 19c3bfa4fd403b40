"""How long each record waits for its acknowledgement, and whether it is still there afterwards: a bar for each record.

A bar begins when the program sends the record, and ends with a dot at its acknowledgement. Blue is a record that the
cluster has in the end; orange with a ✕ one that was acknowledged and is gone. A bar without a dot goes on to the right.
"""

from collections.abc import Collection, Iterator, Sequence

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg

Wait = tuple[float, float | None]
"""When a record was sent, and when it was acknowledged, if it was; milliseconds."""
_LEFT, _TOP, _ROW = 20.0, 84.0, 8.0
_STEP_MS = 20


def ack_chart(
    waits: Sequence[Wait], lost: Collection[int], *, crash_ms: float, until_ms: float, title: str, note: str = ""
) -> Figure:
    """Draw the bars; `lost` are numbers of records. ValueError if there is none."""
    if not waits:
        raise ValueError("ack_chart needs a record")
    foot = _TOP + _ROW * len(waits)
    svg = headed(title, note, foot + 62)
    scale = (WIDTH - _LEFT - 4) / until_ms
    x = _LEFT + crash_ms * scale
    svg.text(x, _TOP - 12, "the leader crashes", 12.5, anchor="middle", bold=True)
    svg.line(x, _TOP - 6, x, foot, stroke="currentColor", stroke_width="2", stroke_dasharray="4 3")
    for number, wait in enumerate(waits):
        _draw_wait(svg, wait, _TOP + _ROW * (number + 0.5), scale, until_ms, number in lost)
    svg.line(_LEFT, foot + 4, WIDTH - 4, foot + 4, stroke="currentColor", stroke_opacity="0.6")
    for ms in range(0, round(until_ms), _STEP_MS):
        anchor = "middle" if ms else "start"
        svg.text(_LEFT + ms * scale, foot + 20, f"{ms} ms", 12, anchor=anchor, opacity=palette.FAINT)
    key = "blue: the record is kept · dot: acknowledged · orange, ✕: acknowledged, and gone"
    svg.text(_LEFT, foot + 46, key, 12.5, opacity=palette.FAINT)
    return finished(svg, title, note, list(_in_words(waits, lost)), {"data": [], "layout": {}})


def _draw_wait(svg: Svg, wait: Wait, y: float, scale: float, until_ms: float, is_lost: bool) -> None:
    start, end = wait
    colour = palette.ORANGE if is_lost else palette.BLUE
    left, right = _LEFT + start * scale, _LEFT + min(until_ms, until_ms if end is None else end) * scale
    svg.line(left, y, right, y, stroke=colour, stroke_width="3")
    if is_lost:
        cross = f"M{right - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
        svg.path(cross, stroke=palette.VERMILLION, stroke_width="2.4", fill="none")
    elif end is not None and end <= until_ms:
        svg.element("circle", cx=right, cy=y, r=3, fill=colour)


def _in_words(waits: Sequence[Wait], lost: Collection[int]) -> Iterator[str]:
    known = [end - start for start, end in waits if end is not None]
    least, most = amount(min(known, default=0)), amount(max(known, default=0))
    yield f"{len(waits)} records, {len(known)} acknowledged, after {least} to {most} ms"
    yield f"acknowledged and gone: {', '.join(map(str, sorted(lost))) or 'none'}"
