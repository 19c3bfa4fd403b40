"""Bytes with the names of their fields: what a file or a frame says, byte by byte.

Sixteen bytes are in a row. The number on a field's first byte leads to its line in the list below, so nothing hangs on
colour alone. A field may say what kind of thing it is, such as a length or a time: then its colour means that, as a key
says. Fields without a kind have fillings that differ from their neighbours'.

A `Bracket` marks a run of bytes, such as those that a checksum covers: a line under each of them, and a bracket beside
the rows with what it means.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.alternative import sentences
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import SMALLEST, Svg, shortened, text_width, wrapped

WIDTH = 960
_ROW_BYTES = 16
_CELL, _LINE = 27.0, 38.0
_LEFT, _TOP = 58.0, 62.0
_TEXT_LEFT = _LEFT + _ROW_BYTES * _CELL + 18
_LIST_LINE = 21.0
_MEANING_LINES = 4
_FILLINGS = tuple(palette.mix(colour, palette.WHITE, 0.55) for colour in (palette.SKY, palette.ORANGE, palette.GREEN))
_MARKED = palette.VERMILLION
_SHARES = {
    "offset": (palette.BLUE, 0.45),
    "position": (palette.YELLOW, 0.45),
    "length": (palette.ORANGE, 0.3),
    "time": (palette.GREEN, 0.45),
    "id": (palette.PURPLE, 0.35),
    "checksum": (palette.VERMILLION, 0.3),
    "payload": (palette.SKY, 0.65),
    "flags": (palette.DARK_INK, 0.75),
    "number": (palette.DARK_INK, 0.9),
    "text": (palette.SKY, 0.35),
    "unreadable": (palette.VERMILLION, 0.05),
}
KINDS = {kind: palette.mix(colour, palette.WHITE, share) for kind, (colour, share) in _SHARES.items()}
"""What a field may be, and its colour."""


class Field(NamedTuple):
    """A field: its name, its bytes from `start` to before `end`, and what they mean."""

    name: str
    start: int
    end: int
    meaning: str = ""
    kind: str = ""
    """One of `KINDS`, or nothing."""


class Bracket(NamedTuple):
    """A run of bytes from `start` to before `end`, and what it is."""

    start: int
    end: int
    meaning: str


def hexdump(
    data: bytes,
    fields: Sequence[Field | tuple[str, int, int, str] | tuple[str, int, int, str, str]],
    *,
    title: str,
    note: str = "",
    first: int = 0,
    marked: Collection[int] = (),
    bracket: Bracket | tuple[int, int, str] | None = None,
) -> Figure:
    """Draw bytes and what they mean. `first` is the position of the first byte in its file; positions in `marked`
    (counted within `data`) are emphasised. ValueError if fields overlap, or are outside of the data, or are of a kind
    that there is not."""
    named = sorted((Field(*field) for field in fields), key=lambda field: field.start)
    covered = None if bracket is None else Bracket(*bracket)
    _check(data, named, covered)
    fillings = [KINDS.get(field.kind, _FILLINGS[number % len(_FILLINGS)]) for number, field in enumerate(named)]
    kinds = list(dict.fromkeys(field.kind for field in named if field.kind))
    top = _TOP + (24 if kinds else 0)
    rows = -(-len(data) // _ROW_BYTES)
    list_top = top + rows * _LINE + 16
    svg = Svg(WIDTH, list_top + _LIST_LINE * len(named) + 8)
    svg.text(0, 20, shortened(title, WIDTH, 16, bold=True), 16, bold=True)
    if note:
        svg.text(0, 41, shortened(note, WIDTH, 13), 13, opacity=palette.FAINT)
    _draw_key(svg, kinds)
    owner = {at: number for number, field in enumerate(named) for at in range(field.start, field.end)}
    for row in range(rows):
        _draw_row(svg, data, row, (top, first), owner, fillings, marked)
    if covered is not None:
        _draw_bracket(svg, covered, top)
    for number, field in enumerate(named):
        _draw_line(svg, list_top + _LIST_LINE * number, number, field, data, fillings[number])
    lines = [_described(field, data) for field in named]
    lines += [f"bytes {covered.start} to {covered.end - 1}: {covered.meaning}"] if covered else []
    text = "\n".join(line for line in [title, note, *lines] if line)
    said = [_said(field, data) for field in named] or [_said(Field("bytes", 0, len(data), ""), data)]
    said = [note, *said, *lines[len(named) :]]
    return Figure(title, svg.render(title, sentences(said)), text, tuple(svg.boxes))


def letters(data: bytes) -> str:
    """Bytes as the text beside a dump: those that are letters of ASCII, and dots."""
    return "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in data)


def _check(data: bytes, fields: Sequence[Field], bracket: Bracket | None) -> None:
    if not data:
        raise ValueError("hexdump needs at least one byte")
    end = 0
    for field in fields:
        if not end <= field.start < field.end <= len(data):
            raise ValueError(f"field {field.name!r} overlaps another one, is empty, or is outside of the data")
        if field.kind and field.kind not in KINDS:
            raise ValueError(f"field {field.name!r} cannot be a {field.kind!r}: it is one of {', '.join(KINDS)}")
        end = field.end
    if bracket is not None and not 0 <= bracket.start < bracket.end <= len(data):
        raise ValueError(f"the bracket from {bracket.start} to {bracket.end} is empty, or outside of the data")


def _draw_key(svg: Svg, kinds: Sequence[str]) -> None:
    x = _LEFT
    for kind in kinds:
        svg.rect(x, _TOP - 10, 14, 14, fill=KINDS[kind], stroke="currentColor", stroke_opacity="0.4")
        x = svg.text(x + 20, _TOP + 2, kind, 12.5).right + 18


def _draw_bracket(svg: Svg, bracket: Bracket, top: float) -> None:
    """A line under the bytes, and a bracket at the right edge with its meaning below the last row."""
    first, last = bracket.start // _ROW_BYTES, (bracket.end - 1) // _ROW_BYTES
    for row in range(first, last + 1):
        begin = max(bracket.start - row * _ROW_BYTES, 0)
        end = min(bracket.end - row * _ROW_BYTES, _ROW_BYTES)
        y = top + row * _LINE + 28
        svg.line(_LEFT + begin * _CELL, y, _LEFT + end * _CELL - 2, y, stroke=_MARKED, stroke_width="2.5")
    right = _TEXT_LEFT + text_width("0" * _ROW_BYTES, 13, mono=True) + 10
    above, below = top + first * _LINE + 2, top + last * _LINE + 30
    svg.path(
        f"M{right:g} {above:g}h10v{below - above:g}h-10", fill="none", stroke=_MARKED, stroke_width="3",
    )  # fmt: skip
    for number, line in enumerate(wrapped(bracket.meaning, WIDTH - right - 22, 13)[:_MEANING_LINES]):
        svg.text(right + 20, (above + below) / 2 + 16 * number, line, 13)


def _draw_row(
    svg: Svg,
    data: bytes,
    row: int,
    places: tuple[float, int],
    owner: Mapping[int, int],
    fillings: Sequence[str],
    marked: Collection[int],
) -> None:
    """One row; `places` are the top of the first row, and the position of its first byte in the file."""
    top, first = places
    y = top + row * _LINE
    start = row * _ROW_BYTES
    svg.text(_LEFT - 10, y + 18, f"{first + start}", 12, anchor="end", mono=True, opacity=palette.FAINT)
    for at in range(start, min(start + _ROW_BYTES, len(data))):
        x = _LEFT + (at - start) * _CELL
        number = owner.get(at)
        filling = palette.WHITE if number is None else fillings[number]
        is_marked = at in marked
        svg.rect(
            x, y, _CELL - (number is None or owner.get(at + 1) != number), 26,
            fill=filling, stroke=_MARKED if is_marked else "none", stroke_width="2.5" if is_marked else None,
        )  # fmt: skip
        svg.text(x + _CELL / 2, y + 18, f"{data[at]:02x}", 13, anchor="middle", mono=True, fill=palette.ink_on(filling))
        if number is not None and owner.get(at - 1) != number:
            svg.text(x + 2, y - 1, f"{number + 1}", SMALLEST, opacity=palette.FAINT)
    svg.text(_TEXT_LEFT, y + 18, letters(data[start : start + _ROW_BYTES]), 13, mono=True)


def _draw_line(svg: Svg, y: float, number: int, field: Field, data: bytes, filling: str) -> None:
    svg.rect(_LEFT, y, 14, 14, fill=filling, stroke="currentColor", stroke_opacity="0.4")
    svg.text(_LEFT - 10, y + 12, f"{number + 1}", 12, anchor="end")
    svg.text(_LEFT + 24, y + 12, shortened(field.name, 215, 13, bold=True), 13, bold=True)
    svg.text(_LEFT + 250, y + 12, _bytes(field, data, 8), 12, mono=True, opacity=palette.FAINT)
    svg.text(_LEFT + 470, y + 12, shortened(field.meaning, WIDTH - _LEFT - 472, 13), 13)


def _bytes(field: Field, data: bytes, most: int) -> str:
    shown = data[field.start : field.end]
    return shown[:most].hex(" ") + (" …" if len(shown) > most else "")


def _said(field: Field, data: bytes) -> str:
    """A field for the ear: its bytes only where they have no other meaning."""
    return f"{field.name}: {field.meaning or _bytes(field, data, 16)}"


def _described(field: Field, data: bytes) -> str:
    place = f"{field.start}" if field.end - field.start == 1 else f"{field.start} to {field.end - 1}"
    meaning = f": {field.meaning}" if field.meaning else ""
    kind = f" ({field.kind})" if field.kind else ""
    return f"byte {place}, {field.name}{kind}, {_bytes(field, data, 16)}{meaning}"
