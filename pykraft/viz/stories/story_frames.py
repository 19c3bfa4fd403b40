"""Pictures of a story: one step on the board, and the lanes of marks under it.

The lanes show at a glance where something happened: one lane for each kind of mark, so the place and the name say the
kind, not a colour.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pykraft.story.marks import Mark
from pykraft.story.story import Story
from pykraft.viz.boards.cluster_board import board
from pykraft.viz.drawing import palette
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg

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
