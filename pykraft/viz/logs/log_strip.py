"""A log as a strip of cells, before and after something removed records from its middle.

`log_strips` draws a row for each state of one log. All rows have one axis of offsets, so a record that stays is in the
same column in each row, and one that is gone leaves a dot::

    filled       the last record of its key
    outlined     a later record has its key
    framed, ✕    a tombstone: its key is deleted
    a dot        no record has this offset any more

A box is a segment. Below each row are the parts of the log as the cleaner sees them: *clean*, *dirty*, and *active*,
the segment that is written. A reader is a triangle over its position, with an arrow to the record that it gets next.

The text beside the picture has the same facts.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened, text_width

MOST_CELLS = 24
_COLOURS = (palette.BLUE, palette.ORANGE, palette.GREEN, palette.PURPLE, palette.SKY, palette.YELLOW)
_LEFT, _TOP, _ROW = 150.0, 84.0, 104.0
_HEIGHT = 34.0


class Cell(NamedTuple):
    """A record: its offset, its key, and what is written into its cell."""

    offset: int
    key: str
    label: str
    is_tombstone: bool = False


class LogStrip(NamedTuple):
    """One state of a log. `segments` are the base offsets, the last one is the active segment's."""

    cells: Sequence[Cell]
    segments: Sequence[int]
    first_dirty: int
    end: int

    def next_after(self, position: int) -> int:
        """The offset of the record that a reader at this position gets next; the end if there is none."""
        return next((cell.offset for cell in self.cells if cell.offset >= position), self.end)

    @property
    def last_offsets(self) -> dict[str, int]:
        return {cell.key: cell.offset for cell in self.cells}

    @property
    def parts(self) -> dict[str, tuple[int, int]]:
        """The first offset and the end of each part that is not empty."""
        active = self.segments[-1]
        found = {
            "clean": (self.segments[0], min(self.first_dirty, active)),
            "dirty": (min(self.first_dirty, active), active),
            "active": (active, self.end),
        }
        return {name: span for name, span in found.items() if span[0] < span[1]}


def log_strips(
    rows: Mapping[str, LogStrip], *, title: str, note: str = "", readers: Mapping[str, int] | None = None
) -> Figure:
    """Draw the rows; `readers` has the position of a reader in some of them. ValueError if there is nothing to draw,
    or more than 24 offsets."""
    start = min((strip.segments[0] for strip in rows.values()), default=0)
    end = max((strip.end for strip in rows.values()), default=0)
    if not 1 <= end - start <= MOST_CELLS:
        raise ValueError(f"log_strips draws 1 to {MOST_CELLS} offsets, not {end - start}")
    width = min(48.0, (WIDTH - _LEFT - 8) / (end - start))
    keys = sorted({cell.key for strip in rows.values() for cell in strip.cells})
    colours = {key: _COLOURS[number % len(_COLOURS)] for number, key in enumerate(keys)}
    foot = _TOP + _ROW * len(rows)
    svg = headed(title, note, foot + 44)
    for row, (name, strip) in enumerate(rows.items()):
        axis = _Axis(svg, start, width, _TOP + _ROW * row)
        svg.text(0, axis.y + 22, shortened(name, _LEFT - 10, 13, bold=True), 13, bold=True)
        _draw_strip(axis, strip, colours)
        if readers and name in readers:
            _draw_reader(axis, readers[name], strip.next_after(readers[name]))
    axis = _Axis(svg, start, width, foot)
    for offset in range(start, end):
        svg.text(axis.middle(offset), foot + 8, str(offset), 12, anchor="middle", opacity=palette.FAINT)
    svg.text(_LEFT - 10, foot + 8, "offset", 12, anchor="end", opacity=palette.FAINT)
    legend = "filled: the last record of its key · outlined: a later one follows · ✕: tombstone · dot: gone"
    svg.text(_LEFT, foot + 32, legend, 12.5, opacity=palette.FAINT)
    return finished(svg, title, note, list(_in_words(rows, readers or {})), {"data": [], "layout": {}})


class _Axis:
    """The columns of a row."""

    def __init__(self, svg: Svg, start: int, width: float, y: float) -> None:
        self.svg, self.y, self.width = svg, y, width
        self._start = start

    def at(self, offset: int) -> float:
        return _LEFT + (offset - self._start) * self.width

    def middle(self, offset: int) -> float:
        return self.at(offset) + self.width / 2


def _draw_strip(axis: _Axis, strip: LogStrip, colours: Mapping[str, str]) -> None:
    svg, y = axis.svg, axis.y
    for base, end in pairwise([*strip.segments, strip.end]):
        dash = "5 4" if base == strip.segments[-1] else None
        svg.rect(
            axis.at(base) + 1, y - 6, axis.at(end) - axis.at(base) - 3, _HEIGHT + 12, rx=6, fill="none",
            stroke="currentColor", stroke_opacity="0.45", stroke_dasharray=dash,
        )  # fmt: skip
    there = {cell.offset for cell in strip.cells}
    for offset in range(strip.segments[0], strip.end):
        if offset not in there:
            svg.element("circle", cx=axis.middle(offset), cy=y + _HEIGHT / 2, r=2.5, fill="currentColor", opacity="0.7")
    last = strip.last_offsets
    for cell in strip.cells:
        _draw_cell(axis, cell, colours[cell.key], last[cell.key] == cell.offset)
    free = 0.0
    for name, (first, end) in strip.parts.items():
        left, right = axis.at(first) + 3, axis.at(end) - 5
        svg.line(left, y + 48, right, y + 48, stroke="currentColor", stroke_opacity="0.7", stroke_width="1.5")
        width = text_width(name, 12)
        middle = min((left + right) / 2, right + 4 - width / 2)  # a name wider than its part begins before it
        if middle - width / 2 >= free:
            free = svg.text(middle, y + 62, name, 12, anchor="middle").right + 4


def _draw_cell(axis: _Axis, cell: Cell, colour: str, is_last: bool) -> None:
    is_filled = is_last and not cell.is_tombstone
    axis.svg.rect(
        axis.at(cell.offset) + 4, axis.y, axis.width - 9, _HEIGHT, rx=4, fill=colour if is_filled else "none",
        stroke=palette.VERMILLION if cell.is_tombstone else colour, stroke_width="3" if cell.is_tombstone else "2",
    )  # fmt: skip
    label = f"{cell.label}✕" if cell.is_tombstone else cell.label
    ink = palette.ink_on(colour) if is_filled else None
    axis.svg.text(
        axis.middle(cell.offset) - 0.5, axis.y + 22, shortened(label, axis.width - 11, 13, bold=is_filled), 13,
        anchor="middle", bold=is_filled, fill=ink,
    )  # fmt: skip


def _draw_reader(axis: _Axis, position: int, goal: int) -> None:
    """A triangle above the strip, and an arrow along it where the next record is further on."""
    x, to, y = axis.middle(position), axis.middle(goal), axis.y - 14
    axis.svg.element("polygon", points=f"{x - 7:g},{y - 6:g} {x + 7:g},{y - 6:g} {x:g},{y + 5:g}", fill="currentColor")
    if to > x:
        axis.svg.line(x + 9, y - 3, to - 8, y - 3, stroke="currentColor", stroke_width="1.6")
        head = f"{to:g},{y - 3:g} {to - 9:g},{y - 8:g} {to - 9:g},{y + 2:g}"
        axis.svg.element("polygon", points=head, fill="currentColor")
    axis.svg.text(x - 12, y + 1, f"a reader at {position}", 12.5, anchor="end")


def _in_words(rows: Mapping[str, LogStrip], readers: Mapping[str, int]) -> Iterator[str]:
    for name, strip in rows.items():
        cells = ", ".join(f"{cell.offset} {cell.label}{' (tombstone)' * cell.is_tombstone}" for cell in strip.cells)
        parts = "; ".join(f"{part} {first} to {end - 1}" for part, (first, end) in strip.parts.items())
        yield f"{name}: {cells or 'no record'}; {parts}; segments from {', '.join(map(str, strip.segments))}"
        if name in readers:
            yield f"  a reader at {readers[name]} gets offset {strip.next_after(readers[name])} next"
