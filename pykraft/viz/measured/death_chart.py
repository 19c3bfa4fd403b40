"""A stream whose driver or broker dies: each driver's steps, the checkpoint at that moment, and what is in the topic.

Each batch has a column, and in it a place for each step. So the steps that a second driver repeats are below those of
the first one. A file of the checkpoint is filled if it was there at the death. A record is a square: blue if it is in
the topic once, orange with its number of copies if more often, hollow with a 0 if it is missing.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg

Ran = list[tuple[int, str]]
"""The steps that a driver has done: the batch, and the name of the step."""
_LEFT, _TOP, _ROW, _BOX, _GAP = 132.0, 92.0, 40.0, 28.0, 14.0


def death_chart(
    ran: Sequence[Ran],
    files: Collection[str],
    times: Mapping[int, int],
    *,
    steps: Sequence[str],
    records: int,
    title: str,
    note: str = "",
) -> Figure:
    """Draw it. `ran` has the steps of one driver, or of two; `files` are those of the checkpoint ("offsets/1");
    `times` says how often each record is there, `records` of them for each batch. ValueError if no driver ran."""
    if not ran or not ran[0]:
        raise ValueError("death_chart needs the steps of a driver")
    batches = 1 + max(batch for some in ran for batch, _ in some)
    width = (WIDTH - _LEFT) / batches
    foot = _TOP + _ROW * (len(ran) + 2)
    svg = headed(title, note, foot + 26)
    slot = (width - _GAP) / len(steps)
    for batch in range(batches):
        svg.text(_LEFT + batch * width, _TOP - 12, f"batch {batch}", 12.5, opacity=palette.FAINT)
    for row, some in enumerate(ran):
        y = _TOP + _ROW * row
        name = "the driver" if len(ran) == 1 else ("first driver", "second driver")[row]
        svg.text(0, y + 19, name, 13, bold=True)
        for batch, step in some:
            _draw_step(svg, _LEFT + batch * width + steps.index(step) * slot, y, slot, step)
        if row < len(ran) - 1:
            batch, step = some[-1]
            _draw_kill(svg, _LEFT + batch * width + (steps.index(step) + 1) * slot, y)
    _draw_checkpoint(svg, _TOP + _ROW * len(ran), files, batches, width)
    _draw_topic(svg, _TOP + _ROW * (len(ran) + 1), times, records, batches, width)
    key = "filled file: there at the death · blue: once in the topic · orange: twice · hollow: missing"
    svg.text(_LEFT, foot + 14, key, 12.5, opacity=palette.FAINT)
    return finished(svg, title, note, list(_in_words(ran, files, times, batches * records)), {"data": [], "layout": {}})


def _draw_step(svg: Svg, x: float, y: float, width: float, step: str) -> None:
    svg.rect(x, y, width - 3, _BOX, rx=3, fill=palette.SKY, stroke="currentColor", stroke_opacity="0.6")
    svg.text(x + (width - 3) / 2, y + 18, step, 11.5, anchor="middle", fill=palette.ink_on(palette.SKY))


def _draw_kill(svg: Svg, x: float, y: float) -> None:
    svg.path(f"M{x - 2:.1f} {y + 4:.1f}l18 18m0 -18l-18 18", stroke=palette.VERMILLION, stroke_width="4", fill="none")


def _draw_checkpoint(svg: Svg, y: float, files: Collection[str], batches: int, width: float) -> None:
    svg.text(0, y + 19, "checkpoint", 13, bold=True)
    half = (width - _GAP) / 2
    for batch in range(batches):
        for place, kind in enumerate(("offsets", "commits")):
            name, x = f"{kind}/{batch}", _LEFT + batch * width + place * half
            is_there = name in files
            fill = palette.GREEN if is_there else "none"
            dash = None if is_there else "4 3"
            svg.rect(
                x,
                y,
                half - 4,
                _BOX,
                rx=3,
                fill=fill,
                stroke="currentColor",
                stroke_opacity="0.6",
                stroke_dasharray=dash,
            )
            ink = palette.ink_on(fill) if is_there else None
            svg.text(x + half / 2 - 2, y + 18, name, 12, anchor="middle", fill=ink, mono=True)


def _draw_topic(svg: Svg, y: float, times: Mapping[int, int], records: int, batches: int, width: float) -> None:
    svg.text(0, y + 19, "in the topic", 13, bold=True)
    side = (width - _GAP) / records
    for number in range(batches * records):
        batch, place = divmod(number, records)
        x, count = _LEFT + batch * width + place * side, times.get(number, 0)
        fill = "none" if not count else palette.BLUE if count == 1 else palette.ORANGE
        svg.rect(x, y, side - 3, _BOX, rx=2, fill=fill, stroke="currentColor", stroke_opacity="0.6")
        if count != 1:
            ink = palette.ink_on(fill) if count else None
            svg.text(x + side / 2 - 1.5, y + 18, f"{count}", 12, anchor="middle", fill=ink, bold=True)


def _in_words(ran: Sequence[Ran], files: Collection[str], times: Mapping[int, int], records: int) -> Iterator[str]:
    for number, some in enumerate(ran, 1):
        yield f"driver {number}: " + ", ".join(f"{step} {batch}" for batch, step in some)
    yield f"the checkpoint at the death: {', '.join(sorted(files, key=lambda name: (name[-1], name[0] == 'c')))}"
    twice = ", ".join(str(number) for number in range(records) if times.get(number, 0) > 1)
    missing = ", ".join(str(number) for number in range(records) if not times.get(number, 0))
    yield f"records that are there more than once: {twice or 'none'}; missing: {missing or 'none'}"
