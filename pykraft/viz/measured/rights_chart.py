"""Who may do what: a row for each thing to do, a column for each one who may want to.

A cell says ``yes``, ``no``, or ``denied`` where something would allow it and something else takes it back. The words
are in the cells, so nothing hangs on colour: a yes is filled, a no is dashed and empty, a denied one is dark and
framed. A cell whose answer has just changed has a second frame.

The text beside the picture has the same facts.
"""

from collections.abc import Collection, Mapping, Sequence

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened, text_width

YES, NO, DENIED = "yes", "no", "denied"
_FILLINGS = {YES: palette.SKY, NO: "none", DENIED: palette.VERMILLION}
_TOP, _ROW, _GAP = 92.0, 38.0, 8.0
_WIDEST = 190.0
Cells = Mapping[tuple[str, str], str]
"""By row and column: `YES`, `NO` or `DENIED`."""


def rights_table(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Cells,
    *,
    title: str,
    note: str = "",
    changed: Collection[tuple[str, str]] = (),
) -> Figure:
    """Draw the answers. ValueError if there is no row or no column, or a cell is not there or says something else."""
    if not rows or not columns:
        raise ValueError("rights_table needs a row and a column")
    for key in ((row, column) for row in rows for column in columns):
        if cells.get(key) not in _FILLINGS:
            raise ValueError(f"the cell {key} says {cells.get(key)!r}: it must say {', '.join(_FILLINGS)}")
    left = min(WIDTH / 2, 16 + max(text_width(row, 13, bold=True) for row in rows))
    width = min(_WIDEST, (WIDTH - left) / len(columns))
    svg = headed(title, note, _TOP + _ROW * len(rows) + 4)
    for number, column in enumerate(columns):
        name = shortened(column, width - _GAP, 13, bold=True)
        svg.text(left + width * number + (width - _GAP) / 2, _TOP - 14, name, 13, anchor="middle", bold=True)
    for line, row in enumerate(rows):
        y = _TOP + _ROW * line
        svg.text(0, y + 20, shortened(row, left - 12, 13, bold=True), 13, bold=True)
        for number, column in enumerate(columns):
            key = row, column
            _draw_cell(svg, left + width * number, y, width - _GAP, cells[key], key in changed)
    lines = [f"{row}: " + ", ".join(f"{column} {cells[row, column]}" for column in columns) for row in rows]
    if changed:
        lines.append("changed: " + ", ".join(f"{row} by {column}" for row, column in sorted(changed)))
    return finished(svg, title, note, lines, {"data": [], "layout": {}})


def _draw_cell(svg: Svg, x: float, y: float, width: float, says: str, has_changed: bool) -> None:
    filling = _FILLINGS[says]
    svg.rect(
        x, y, width, 30, rx=4, fill=filling, stroke="currentColor",
        stroke_width="2.5" if says == DENIED else "1", stroke_dasharray="4 3" if says == NO else None,
    )  # fmt: skip
    ink = None if filling == "none" else palette.ink_on(filling)
    svg.text(x + width / 2, y + 20, says, 13, anchor="middle", bold=says != NO, fill=ink)
    if has_changed:
        svg.rect(
            x - 3, y - 3, width + 6, 36, rx=6, fill="none", stroke="currentColor", stroke_width="1.5"
        )  # fmt: skip
