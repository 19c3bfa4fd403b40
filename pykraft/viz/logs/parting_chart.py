"""Two logs, record by record: the colour and the number of a cell are the epoch in which its record was written.

Below each offset are the leader's record and the follower's. A record that the follower has truncated is a dashed cell
with a cross. Between the rows, ≠ says that the records of this offset differ. Under the logs stands what was said.
"""

from collections.abc import Iterator, Sequence

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, wrapped

_COLOURS = (palette.BLUE, palette.ORANGE, palette.GREEN, palette.PURPLE, palette.SKY, palette.YELLOW)
_LEFT, _TOP, _CELL, _HIGH, _ROW, _LINE = 92.0, 92.0, 62.0, 34.0, 62.0, 20.0


def parting_chart(
    leader: Sequence[int],
    before: Sequence[int],
    follower: Sequence[int],
    *,
    title: str,
    note: str = "",
    said: Sequence[str] = (),
    high_watermark: int | None = None,
) -> Figure:
    """Draw the epochs of both logs; `before` is the follower's as it was. ValueError without a record."""
    count = max(len(leader), len(before), len(follower))
    if not count:
        raise ValueError("parting_chart needs a record")
    cell = min(_CELL, (WIDTH - _LEFT) / count)
    lines = [line for number, each in enumerate(said, 1) for line in wrapped(f"{number}. {each}", WIDTH - _LEFT, 13)]
    foot = _TOP + _ROW + _HIGH
    svg = headed(title, note, foot + 44 + _LINE * len(lines))
    for offset in range(count):
        x = _LEFT + (offset + 0.5) * cell
        svg.text(x, _TOP - 10, f"{offset}", 12, anchor="middle", opacity=palette.FAINT)
    svg.text(0, _TOP - 10, "offset", 12, opacity=palette.FAINT)
    for row, (name, epochs) in enumerate((("leader", leader), ("follower", follower))):
        svg.text(0, _TOP + _ROW * row + 22, name, 13, bold=True)
        for offset, epoch in enumerate(epochs):
            _draw_record(svg, _LEFT + offset * cell, _TOP + _ROW * row, cell, epoch)
    for offset in range(len(follower), len(before)):
        _draw_gone(svg, _LEFT + offset * cell, _TOP + _ROW, cell, before[offset])
    for offset, (one, other) in enumerate(zip(leader, follower, strict=False)):
        if one != other:
            svg.text(_LEFT + (offset + 0.5) * cell, _TOP + _HIGH + 20, "≠", 15, anchor="middle", bold=True)
    if high_watermark is not None:
        _draw_mark(svg, _LEFT + min(high_watermark, count) * cell, foot)
    for number, line in enumerate(lines):
        svg.text(_LEFT, foot + 42 + _LINE * number, line, 13)
    words = list(_in_words(leader, before, follower, said))
    return finished(svg, title, note, words, {"data": [], "layout": {}})


def _draw_record(svg: Svg, x: float, y: float, width: float, epoch: int) -> None:
    colour = _COLOURS[epoch % len(_COLOURS)]
    svg.rect(x + 1, y, width - 4, _HIGH, rx=4, fill=colour, stroke="currentColor", stroke_opacity="0.6")
    svg.text(x + width / 2 - 1, y + 23, f"{epoch}", 15, anchor="middle", bold=True, fill=palette.ink_on(colour))


def _draw_gone(svg: Svg, x: float, y: float, width: float, epoch: int) -> None:
    svg.rect(x + 1, y, width - 4, _HIGH, rx=4, fill="none", stroke=palette.VERMILLION, stroke_width="1.6",
             stroke_dasharray="4 3")  # fmt: skip
    svg.text(x + 12, y + 22, f"{epoch}", 13, anchor="middle", opacity=palette.FAINT)
    middle = x + width / 2 + 6
    svg.path(
        f"M{middle - 8:.1f} {y + 9:.1f}l16 16m0 -16l-16 16", stroke=palette.VERMILLION, stroke_width="3", fill="none"
    )


def _draw_mark(svg: Svg, x: float, foot: float) -> None:
    svg.line(x - 1, foot - _HIGH - 8, x - 1, foot + 6, stroke="currentColor", stroke_width="2.5")
    svg.text(x - 1, foot + 20, "high watermark", 12, anchor="start" if x < _LEFT + 60 else "middle")


def _in_words(
    leader: Sequence[int], before: Sequence[int], follower: Sequence[int], said: Sequence[str]
) -> Iterator[str]:
    yield f"leader: epochs {' '.join(map(str, leader))}"
    gone = before[len(follower) :]
    yield f"follower: epochs {' '.join(map(str, follower)) or 'none'}" + (
        f"; truncated: {' '.join(map(str, gone))}" if gone else ""
    )
    for number, each in enumerate(said, 1):
        yield f"{number}. {each}"
