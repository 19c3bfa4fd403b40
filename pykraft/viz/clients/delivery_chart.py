"""Requests and answers, and how often each record was processed: two drawings about deliveries.

`exchange` draws what a client and a node said to each other, from top to bottom. An answer that was lost ends halfway,
in a cross. `tally` draws a row of cells for each way of doing something, one cell a record, with the number of times
that the record was processed::

    0    dashed, empty    the record was missed
    1    filled           processed once
    2    dark, framed     processed twice, or more often

The text beside each picture has the same facts.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed, need
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened, text_width

_CLIENT, _NODE = 190.0, 640.0
"""Where the two life lines are."""
_TOP, _STEP = 96.0, 92.0
_CELL, _TALLY_TOP, _TALLY_ROW = 46.0, 66.0, 58.0
MOST_CELLS = 14


class Step(NamedTuple):
    """One request: what it asked, what the node did with it, and its answer. A request that does nothing was lost; None
    is an answer that was lost, and an empty one was never sent."""

    asked: str
    did: str
    answer: str | None


def exchange(
    steps: Sequence[Step], *, title: str, note: str = "", client: str = "producer", node: str = "leader"
) -> Figure:
    """Draw what `client` asked `node`, in order. ValueError if there is nothing to draw."""
    if not steps:
        raise ValueError("exchange needs at least one step")
    height = _TOP + _STEP * len(steps)
    svg = headed(title, note, height + 8)
    for x, name in ((_CLIENT, client), (_NODE, node)):
        svg.text(x, _TOP - 22, shortened(name, 180, 14, bold=True), 14, anchor="middle", bold=True)
        svg.line(x, _TOP - 12, x, height - 4, stroke="currentColor", stroke_opacity="0.5", stroke_width="1.5")
    for number, step in enumerate(steps):
        _draw_step(svg, step, _TOP + _STEP * number)
    words = [f"{step.asked}: {_said(step)}" for step in steps]
    return finished(svg, title, note, words, {"data": [], "layout": {}})


def _said(step: Step) -> str:
    if not step.did:
        return "the request is lost"
    return f"{step.did}; {'the answer is lost' if step.answer is None else step.answer or 'no answer is asked for'}"


def _draw_step(svg: Svg, step: Step, y: float) -> None:
    middle, width = (_CLIENT + _NODE) / 2, _NODE - _CLIENT - 24
    if not step.did:
        svg.text(_CLIENT + 12, y + 13, shortened(step.asked, middle - _CLIENT - 24, 13), 13)
        _draw_loss(svg, _CLIENT, middle, y + 20)
        svg.text(middle + 16, y + 24, "the request is lost", 13, bold=True)
        return
    svg.text(middle, y + 13, shortened(step.asked, width, 13), 13, anchor="middle")
    _draw_arrow(svg, _CLIENT, _NODE, y + 20)
    svg.rect(_NODE - 6, y + 24, 12, 30, fill=palette.BLUE)
    svg.text(_NODE + 16, y + 43, shortened(step.did, WIDTH - _NODE - 17, 13), 13)
    if step.answer is None:
        _draw_loss(svg, _NODE, middle, y + 62)
        svg.text(middle - 16, y + 66, "the answer is lost", 13, anchor="end", bold=True)
    elif step.answer:
        _draw_arrow(svg, _NODE, _CLIENT, y + 62)
        svg.text(middle, y + 55, shortened(step.answer, width, 13), 13, anchor="middle")


def _draw_loss(svg: Svg, x: float, to: float, y: float) -> None:
    """A message that does not arrive."""
    svg.line(x, y, to, y, stroke=palette.VERMILLION, stroke_width="2", stroke_dasharray="5 4")
    for rise in (-7, 7):
        svg.line(to - 7, y - rise, to + 7, y + rise, stroke=palette.VERMILLION, stroke_width="3")


def _draw_arrow(svg: Svg, x: float, to: float, y: float) -> None:
    back = 9 if to < x else -9
    svg.line(x, y, to + back / 2, y, stroke="currentColor", stroke_width="1.6")
    svg.element("polygon", points=f"{to:g},{y:g} {to + back:g},{y - 5:g} {to + back:g},{y + 5:g}", fill="currentColor")


def tally(rows: Mapping[str, Sequence[int]], *, title: str, note: str = "", what: str = "record") -> Figure:
    """Draw how often each record was processed, a row for each way. ValueError if there is nothing to draw, or more
    than `MOST_CELLS` in a row."""
    need([float(times) for counted in rows.values() for times in counted], "tally", begin_at_zero=True)
    longest = max(map(len, rows.values()))
    if longest > MOST_CELLS:
        raise ValueError(f"tally draws at most {MOST_CELLS} cells in a row, not {longest}")
    left = min(WIDTH - longest * _CELL, 16 + max(text_width(name, 13, bold=True) for name in rows))
    svg = headed(title, note, _TALLY_TOP + _TALLY_ROW * len(rows) + 24)
    for row, (name, counted) in enumerate(rows.items()):
        y = _TALLY_TOP + _TALLY_ROW * row
        svg.text(0, y + 27, shortened(name, left - 12, 13, bold=True), 13, bold=True)
        for column, times in enumerate(counted):
            _draw_cell(svg, left + column * _CELL, y, times)
    foot = _TALLY_TOP + _TALLY_ROW * len(rows)
    for column in range(longest):
        x = left + column * _CELL + (_CELL - 6) / 2
        svg.text(x, foot + 6, str(column), 12, anchor="middle", opacity=palette.FAINT)
    svg.text(left - 12, foot + 6, what, 12, anchor="end", opacity=palette.FAINT)
    return finished(
        svg, title, note, [f"{name}: {_in_words(counted)}" for name, counted in rows.items()], _spec(rows, title)
    )


def _draw_cell(svg: Svg, x: float, y: float, times: int) -> None:
    filling = "none" if times == 0 else palette.SKY if times == 1 else palette.VERMILLION
    svg.rect(
        x, y, _CELL - 6, _CELL - 6, rx=4, fill=filling, stroke="currentColor",
        stroke_width="2.5" if times > 1 else "1", stroke_dasharray=None if times else "4 3",
    )  # fmt: skip
    ink = palette.ink_on(filling) if times else None
    svg.text(x + (_CELL - 6) / 2, y + 26, str(times), 16, anchor="middle", bold=times != 1, fill=ink)


def _in_words(counted: Sequence[int]) -> str:
    missed = [str(n) for n, times in enumerate(counted) if times == 0]
    repeated = [f"{n} ({times} times)" for n, times in enumerate(counted) if times > 1]
    once = sum(times == 1 for times in counted)
    return f"{once} once; never: {', '.join(missed) or 'none'}; more than once: {', '.join(repeated) or 'none'}"


def _spec(rows: Mapping[str, Sequence[int]], title: str) -> dict[str, object]:
    return {
        "data": [{"type": "heatmap", "y": list(rows), "z": [list(counted) for counted in rows.values()]}],
        "layout": {"title": {"text": title}},
    }
