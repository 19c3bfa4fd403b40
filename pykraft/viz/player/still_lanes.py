"""The lanes of a film at some of its moments, as one picture: where no page plays, and the files of a log are what a
reader shall see.

A frame is a segment, with its bytes below; the active one is dashed, a compacted one has a tick. A dotted frame was
deleted. A filled cell is a record, a dot an offset whose record was compacted away.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened, text_width
from pykraft.viz.player.lanes import COMPACTED
from pykraft.viz.player.segments import ACTIVE, CLEAN, DELETED

WIDTH = 960
_TOP, _LEFT, _RIGHT = 62, 150, 40
_CAPTION, _ROW, _BAR = 26, 50, 20
_LEGEND = "frame: a segment, and its bytes · dashed: active · ✓ compacted · dotted: deleted · dot: no record"


def lanes_at_moments(title: str, film: dict[str, Any], moments: Sequence[tuple[float, str]]) -> Figure:
    """Draw all lanes at each moment, which is (ms, what happened then)."""
    panel = _CAPTION + _ROW * len(film["lanes"])
    note = f"{film['partition']} · {_LEGEND}"
    svg = headed(title, note, _TOP + panel * len(moments) + 10)
    words = []
    for number, (ms, said) in enumerate(moments):
        top = _TOP + panel * number
        caption = f"{number + 1}  {ms:,.0f} ms: {said}"
        svg.text(0, top + 14, shortened(caption, WIDTH, 13, bold=True), 13, bold=True)
        words.append(caption)
        for row, (lane, label) in enumerate(film["lanes"]):
            y = top + _CAPTION + _ROW * row + 6
            svg.text(0, y + 14, shortened(f"{label} {_said(film, lane, ms)}", _LEFT - 8, 12), 12)
            _draw_lane(svg, film, lane, ms, y)
            words.append(f"  {label}: {'; '.join(_in_words(film, lane, ms))}")
    return finished(svg, title, note, words, {"data": [], "layout": {}})


def _now(film: dict[str, Any], name: str, lane: object, ms: float) -> Any:
    """The row of a lane that holds at a time."""
    return next((row for row in reversed(film[name]) if row[0] == lane and row[1] <= ms), None)


def _said(film: dict[str, Any], lane: object, ms: float) -> str:
    log = _now(film, "logs", lane, ms)
    return "" if log is None else str(log[6]).partition(",")[0]


def _spans(film: dict[str, Any], lane: object, ms: float) -> Iterator[tuple[int, int, int, str]]:
    """(first offset, end offset, bytes, state) of each segment."""
    row, log = _now(film, "segments", lane, ms), _now(film, "logs", lane, ms)
    segments = [] if row is None or log is None else row[2]
    ends = [base for base, _, _ in segments[1:]]
    for (base, size, state), end in zip(segments, [*ends, log[3] if log else 0], strict=False):
        yield base, end, size, state


def _gaps(film: dict[str, Any], lane: object, ms: float) -> set[int]:
    return {row[1] for row in film["cells"] if row[0] == lane and row[3] == COMPACTED and row[4] <= ms}


def _draw_lane(svg: Svg, film: dict[str, Any], lane: object, ms: float, y: float) -> None:
    first: int = film["first"]
    longest: int = max(row[3] for row in film["logs"])
    cell: float = (WIDTH - _LEFT - _RIGHT) / max(12, longest - first)

    def at(offset: int) -> float:
        return _LEFT + (offset - first) * cell

    gaps = _gaps(film, lane, ms)
    for row in film["gone"]:
        if row[0] == lane and row[3] <= ms and row[4] == DELETED:
            _frame(svg, at(row[1]), at(row[2]), y, "1 3", "0.6")
    for base, end, size, state in _spans(film, lane, ms):
        for offset in range(base, end):
            middle = at(offset) + cell / 2
            if offset in gaps:
                svg.element("circle", cx=middle, cy=y + _BAR / 2, r=2, fill="currentColor", opacity="0.7")
            else:
                svg.rect(at(offset) + 2.5, y + 1, max(1.0, cell - 4), _BAR - 2, fill=palette.SKY)
        _frame(svg, at(base), at(end), y, "5 3" if state == ACTIVE else None, "1")
        label = f"{'✓ ' * (state == CLEAN)}{size:,}"
        if text_width(label, 11) < at(end) - at(base):
            svg.text((at(base) + at(end)) / 2, y + _BAR + 14, label, 11, anchor="middle", opacity=palette.FAINT)


def _frame(svg: Svg, left: float, right: float, y: float, dash: str | None, opacity: str) -> None:
    svg.rect(
        left + 1, y - 2, max(2.0, right - left - 2), _BAR + 4, rx=3, fill="none", stroke="currentColor",
        stroke_opacity=opacity, stroke_dasharray=dash,
    )  # fmt: skip


def _in_words(film: dict[str, Any], lane: object, ms: float) -> Iterator[str]:
    gaps = _gaps(film, lane, ms)
    for base, end, size, state in _spans(film, lane, ms):
        gone = len(gaps & set(range(base, end)))
        left = f", {end - base - gone} of {end - base} records left" if gone else ""
        yield f"{state} segment from offset {base} to before {end}, {size:,} bytes{left}"
