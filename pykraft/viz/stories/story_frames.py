"""Pictures of a story: one step on the board, the lanes of marks under it, and a film strip of several steps.

The lanes show at a glance where something happened: one lane for each kind of mark, so the place and the name say the
kind, not a colour. A film strip is what a notebook without a kernel shows in place of the player.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pykraft.story.marks import Mark
from pykraft.story.story import Story
from pykraft.viz.boards.cluster_board import board
from pykraft.viz.drawing import palette
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, TextBox, shortened

WIDTH = 960
LABELS = 90
"""How wide the lanes' names are: a slider under the lanes begins there."""
_LANE = 15
_GAP = 26
_CAPTION = 30
_TICK = 3.0
_LANES = {
    "you": ("you", palette.PURPLE),
    "law": ("broken law", palette.VERMILLION),
    "fault": ("fault", palette.VERMILLION),
    "crash": ("crash", palette.VERMILLION),
    "restart": ("restart", palette.GREEN),
    "client": ("client", palette.GREEN),
    "election": ("election", palette.BLUE),
    "rebalance": ("rebalance", palette.ORANGE),
    "truncation": ("truncation", palette.ORANGE),
    "isr": ("ISR change", palette.SKY),
    "commit": ("commit", palette.SKY),
}
_NAMES = {"you": "intervention", "client": "change of a client"}
_PLURALS = {"crash": "crashes", "client": "changes of clients"}


def picture(story: Story, step: int | None = None, **options: Any) -> Figure:
    """The board at a step of a story; `options` are those of `board`."""
    step = story.step if step is None else step
    what = story.what_at(step)
    of = f"{story.last_step:,}{'' if story.is_over else ' so far'}"
    when = f"seed {story.seed}, {story.name} · step {step:,} of {of} · {story.view_at(step).time_ms:,} ms"
    facts = [f"A law is broken: {story.failure}"] if story.failure and step == story.last_step else []
    given = {"title": f"{what[:1].upper()}{what[1:]}", "when": when, "facts": facts, **options}
    return board(story.view_at(step), **given)


def lanes(marks: Sequence[Mark], last_step: int, step: int | None = None) -> Svg:
    """The marks of a history over its steps; a line marks `step`."""
    kinds = [kind for kind in _LANES if any(mark.kind == kind for mark in marks)]
    svg = Svg(WIDTH, max(1, len(kinds)) * _LANE + 8)
    for row, kind in enumerate(kinds):
        name, colour = _LANES[kind]
        y = 4 + row * _LANE
        svg.text(LABELS - 10, y + 11, name, 11.5, anchor="end")
        svg.line(LABELS, y + 7.5, WIDTH, y + 7.5, stroke="currentColor", stroke_opacity="0.2")
        for place in _apart(_place(mark.step, last_step) for mark in marks if mark.kind == kind):
            svg.rect(place - 1, y + 2, 2.5, 11, fill=colour, stroke="currentColor", stroke_width="0.3")
    if step is not None:
        x = _place(step, last_step)
        svg.line(x, 0, x, svg.height, stroke="currentColor", stroke_width="1.5")
    return svg


def _place(step: int, last_step: int) -> float:
    return round(LABELS + (WIDTH - LABELS) * step / max(1, last_step), 1)


def _apart(places: Iterable[float]) -> Iterator[float]:
    """Those of the places that do not hide each other."""
    last = -_TICK
    for place in sorted(places):
        if place - last >= _TICK:
            last = place
            yield place


def count_marks(marks: Sequence[Mark]) -> str:
    """The marks in words: "2 elections, 1 truncation"."""
    counts = Counter(mark.kind for mark in marks)
    said = [f"{counts[kind]} {_plural(kind, counts[kind])}" for kind in _LANES if counts[kind]]
    return ", ".join(said) or "no marks"


def _plural(kind: str, count: int) -> str:
    name = _NAMES.get(kind, _LANES[kind][0])
    return name if count == 1 else _PLURALS.get(kind, f"{name}s")


# --- a film strip -----------------------------------------------------------------------------------------------------


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
    description = " ".join(f"Picture {number}: {frame.caption}." for number, frame in enumerate(frames, 1))
    return Figure(title, svg.render(title, description), f"{title}\n\n{text}", (*svg.boxes, *boxes))


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
