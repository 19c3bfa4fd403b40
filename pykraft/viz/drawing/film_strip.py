"""A film strip: pictures one after the other, each under what was done. It is what a notebook without a kernel shows in
place of something that a reader could click.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pykraft.viz.drawing.alternative import alternative_of, sentences
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, TextBox, shortened

WIDTH = 960
_GAP = 26
_CAPTION = 30


@dataclass(frozen=True)
class Frame:
    """One picture of a strip."""

    caption: str
    figure: Figure


_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)


def strip(title: str, frames: Sequence[Frame], columns: int = 1) -> Figure:
    """Pictures one after the other, each under what was done. `columns` of them side by side, smaller."""
    scale = 1 / columns
    rows = [list(range(start, min(start + columns, len(frames)))) for start in range(0, len(frames), columns)]
    heights = [max(frames[number].figure.height for number in row) * scale + _CAPTION for row in rows]
    svg = Svg(WIDTH, sum(heights) + _GAP * max(0, len(rows) - 1) + 4)
    boxes: list[TextBox] = []
    y = 0.0
    for row, height in zip(rows, heights, strict=True):
        for column, number in enumerate(row):
            x = column * WIDTH * scale
            caption = shortened(f"{number + 1}  {frames[number].caption}", WIDTH * scale - 10, 14, bold=True)
            svg.text(x, y + 18, caption, 14, bold=True)
            _embed(svg, frames[number].figure, x, y + _CAPTION, WIDTH * scale - (8 if columns > 1 else 0))
            boxes += [_moved(box, x, y + _CAPTION, scale) for box in frames[number].figure.boxes]
        y += height + _GAP
    text = "\n\n".join(f"{number}  {frame.caption}\n{frame.figure.text}" for number, frame in enumerate(frames, 1))
    return Figure(title, svg.render(title, sentences(_said(frames))), f"{title}\n\n{text}", (*svg.boxes, *boxes))


def _said(frames: Sequence[Frame]) -> Iterator[str]:
    """For the ear: what was done before each picture, and what it shows; of the last one all that it says."""
    for number, frame in enumerate(frames, 1):
        is_last = number == len(frames)
        shown = alternative_of(frame.figure.svg) if is_last else frame.figure.title
        yield f"Picture {number}: {frame.caption}: {shown}"


def _embed(svg: Svg, figure: Figure, x: float, y: float, width: float) -> None:
    """The drawing in a drawing; its title and its description stay, its style is that of the outer one."""
    head, _, rest = figure.svg.partition(">")
    assert head.startswith("<svg")
    box = f'viewBox="0 0 {figure.width:g} {figure.height:g}" role="img"'
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{figure.height * width / figure.width:g}"'
    svg.insert(f"<svg {place} {box}>{_STYLE.sub('', rest)}")


def _moved(box: TextBox, x: float, y: float, scale: float) -> TextBox:
    left, right = x + box.left * scale, x + box.right * scale
    return TextBox(box.text, left, y + box.top * scale, right, y + box.bottom * scale)
