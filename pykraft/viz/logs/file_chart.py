"""Files as strips: their pieces end to end, all to one scale.

Each row is a file, each piece of it a rectangle as wide as its bytes. A piece has one of four looks, and the caller
says in `key` what a look means::

    plain    light
    strong   dark           what the picture is about
    bad      red, crossed   damaged bytes
    gone     dashed, empty  what was there and is not any more

So one drawing shows the pages that a write touches, a log before and after a crash, or the segments of a partition.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed, need
from pykraft.viz.drawing.figure import Figure, Spec
from pykraft.viz.drawing.svg import Svg, shortened, text_width

_FILLINGS = {"plain": palette.SKY, "strong": palette.BLUE, "bad": palette.VERMILLION, "gone": "none"}
_TOP, _ROW, _BOX = 84.0, 46.0, 28.0
_LABEL, _GAP = 12.0, 12.0


class Piece(NamedTuple):
    """A run of bytes: how many, how they look, and the label in the rectangle if there is room."""

    size: int
    look: str = "plain"
    label: str = ""


def file_strips(
    rows: Mapping[str, Sequence[Piece]],
    *,
    title: str,
    key: Mapping[str, str],
    note: str = "",
    ends: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a strip for each file. `ends` says what to write after a strip, by its row. ValueError without a byte to
    draw, or for a look that is none."""
    ends = dict(ends or {})
    need([piece.size for some in rows.values() for piece in some], "file_strips", begin_at_zero=True)
    _check({piece.look for some in rows.values() for piece in some}, key)
    left = min(250.0, max(text_width(name, 13) for name in rows)) + _GAP
    room = min(WIDTH / 3, max([0.0, *(text_width(end, 13) for end in ends.values())])) + _GAP
    longest = max(sum(piece.size for piece in some) for some in rows.values()) or 1
    scale = (WIDTH - left - room) / longest
    svg = headed(title, note, _TOP + _ROW * len(rows) + 6)
    _draw_key(svg, left, key)
    for row, (name, some) in enumerate(rows.items()):
        y = _TOP + _ROW * row
        svg.text(left - _GAP, y + 19, shortened(name, left - _GAP + 0.5, 13), 13, anchor="end")
        x = left
        for piece in some:
            _draw_piece(svg, x, y, piece.size * scale, piece)
            x += piece.size * scale
        if name in ends:
            svg.text(x + 8, y + 19, shortened(ends[name], WIDTH - x - 9, 13), 13)
    words = [
        f"{name}: {_in_words(some, key)}{'; ' + ends[name] if name in ends else ''}" for name, some in rows.items()
    ]
    return finished(svg, title, note, words, _spec(rows, title))


def _check(looks: set[str], key: Mapping[str, str]) -> None:
    if unknown := (looks | set(key)) - set(_FILLINGS):
        raise ValueError(f"a piece cannot look {sorted(unknown)[0]!r}: it is one of {', '.join(_FILLINGS)}")
    if missing := looks - set(key):
        raise ValueError(f"the key does not say what {sorted(missing)[0]!r} means")


def _draw_key(svg: Svg, x: float, key: Mapping[str, str]) -> None:
    for look, meaning in key.items():
        _draw_box(svg, x, _TOP - 27, 18, 14, look)
        x = svg.text(x + 24, _TOP - 15, shortened(meaning, max(20.0, WIDTH - x - 25), 12.5), 12.5).right + 18


def _draw_piece(svg: Svg, x: float, y: float, width: float, piece: Piece) -> None:
    _draw_box(svg, x, y, max(1.0, width - (1.0 if width > 3 else 0.0)), _BOX, piece.look)
    needed = text_width(piece.label, _LABEL)
    if piece.label and needed <= width - 5:
        filling = _FILLINGS[piece.look]
        if piece.look == "bad":  # no line goes through the label
            svg.rect(x + (width - needed) / 2 - 1, y + 6, needed + 2, _BOX - 12, fill=filling)
        ink = None if filling == "none" else palette.ink_on(filling)
        svg.text(x + width / 2, y + 18, piece.label, _LABEL, anchor="middle", fill=ink)


def _draw_box(svg: Svg, x: float, y: float, width: float, height: float, look: str) -> None:
    svg.rect(
        x, y, width, height, fill=_FILLINGS[look], stroke="currentColor", stroke_width="0.8",
        stroke_dasharray="4 3" if look == "gone" else None,
    )  # fmt: skip
    if look == "bad":
        for begin, end in ((y, y + height), (y + height, y)):
            svg.line(x, begin, x + width, end, stroke="currentColor", stroke_width="1.2")


def _in_words(some: Sequence[Piece], key: Mapping[str, str]) -> str:
    """How many pieces look alike, in the order in which they come."""
    parts: list[tuple[str, int, int]] = []
    for piece in some:
        if parts and parts[-1][0] == piece.look:
            parts[-1] = (piece.look, parts[-1][1] + 1, parts[-1][2] + piece.size)
        else:
            parts.append((piece.look, 1, piece.size))
    if len(parts) > 8:  # a chequered file: only the sums
        looks = {look: [part for part in parts if part[0] == look] for look, *_ in parts}
        parts = [(look, sum(p[1] for p in same), sum(p[2] for p in same)) for look, same in looks.items()]
    return ", ".join(f"{count} x {key[look]} ({size:,} bytes)" for look, count, size in parts) or "empty"


def _spec(rows: Mapping[str, Sequence[Piece]], title: str) -> Spec:
    data = [
        {"type": "bar", "orientation": "h", "name": look, "y": list(rows), "x": sums}
        for look in _FILLINGS
        if any(sums := [sum(piece.size for piece in some if piece.look == look) for some in rows.values()])
    ]
    return {"data": data, "layout": {"title": {"text": title}, "barmode": "stack"}}
