"""Bytes with the names of their fields: what a file or a frame says, byte by byte.

Sixteen bytes stand in a row. Bytes of one field have one filling, and neighbours never have the same; the number on a
field's first byte leads to its line in the list below. So nothing hangs on colour alone.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from pykraft.viz import palette
from pykraft.viz.figure import Figure
from pykraft.viz.svg import Svg, shortened

WIDTH = 960
_ROW_BYTES = 16
_CELL, _LINE = 27.0, 38.0
_LEFT, _TOP = 58.0, 62.0
_TEXT_LEFT = _LEFT + _ROW_BYTES * _CELL + 18
_LIST_LINE = 21.0
_FILLINGS = tuple(palette.mix(colour, palette.WHITE, 0.55) for colour in (palette.SKY, palette.ORANGE, palette.GREEN))
_MARKED = palette.VERMILLION


class Field(NamedTuple):
    """A field: its name, its bytes from `start` to before `end`, and what they mean."""

    name: str
    start: int
    end: int
    meaning: str = ""


def hexdump(
    data: bytes,
    fields: Sequence[Field | tuple[str, int, int, str]],
    *,
    title: str,
    note: str = "",
    first: int = 0,
    marked: Collection[int] = (),
) -> Figure:
    """Draw bytes and what they mean. `first` is the position of the first byte in its file; positions in `marked`
    (counted within `data`) are emphasised. ValueError if fields overlap, or lie outside of the data."""
    named = sorted((Field(*field) for field in fields), key=lambda field: field.start)
    _check(data, named)
    rows = -(-len(data) // _ROW_BYTES)
    list_top = _TOP + rows * _LINE + 16
    svg = Svg(WIDTH, list_top + _LIST_LINE * len(named) + 8)
    svg.text(0, 20, shortened(title, WIDTH, 16, bold=True), 16, bold=True)
    if note:
        svg.text(0, 41, shortened(note, WIDTH, 13), 13, opacity=palette.FAINT)
    owner = {at: number for number, field in enumerate(named) for at in range(field.start, field.end)}
    for row in range(rows):
        _draw_row(svg, data, row, first, owner, marked)
    for number, field in enumerate(named):
        _draw_line(svg, list_top + _LIST_LINE * number, number, field, data)
    lines = [_described(field, data) for field in named]
    text = "\n".join(line for line in [title, note, *lines] if line)
    description = f"{note} The fields and their values are in the text beside the picture.".strip()
    return Figure(title, svg.render(title, description), text, tuple(svg.boxes))


def letters(data: bytes) -> str:
    """Bytes as the text beside a dump: those that are letters of ASCII, and dots."""
    return "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in data)


def _check(data: bytes, fields: Sequence[Field]) -> None:
    if not data:
        raise ValueError("hexdump needs at least one byte")
    end = 0
    for field in fields:
        if not end <= field.start < field.end <= len(data):
            raise ValueError(f"field {field.name!r} overlaps another one, is empty, or lies outside of the data")
        end = field.end


def _draw_row(svg: Svg, data: bytes, row: int, first: int, owner: dict[int, int], marked: Collection[int]) -> None:
    y = _TOP + row * _LINE
    start = row * _ROW_BYTES
    svg.text(_LEFT - 10, y + 18, f"{first + start}", 12, anchor="end", mono=True, opacity=palette.FAINT)
    for at in range(start, min(start + _ROW_BYTES, len(data))):
        x = _LEFT + (at - start) * _CELL
        number = owner.get(at)
        filling = palette.WHITE if number is None else _FILLINGS[number % len(_FILLINGS)]
        is_marked = at in marked
        svg.rect(
            x, y, _CELL - (number is None or owner.get(at + 1) != number), 26,
            fill=filling, stroke=_MARKED if is_marked else "none", stroke_width="2.5" if is_marked else None,
        )  # fmt: skip
        svg.text(x + _CELL / 2, y + 18, f"{data[at]:02x}", 13, anchor="middle", mono=True, fill=palette.ink_on(filling))
        if number is not None and owner.get(at - 1) != number:
            svg.text(x + 2, y - 1, f"{number + 1}", 9.5, opacity=palette.FAINT)
    svg.text(_TEXT_LEFT, y + 18, letters(data[start : start + _ROW_BYTES]), 13, mono=True)


def _draw_line(svg: Svg, y: float, number: int, field: Field, data: bytes) -> None:
    svg.rect(_LEFT, y, 14, 14, fill=_FILLINGS[number % len(_FILLINGS)], stroke="currentColor", stroke_opacity="0.4")
    svg.text(_LEFT - 10, y + 12, f"{number + 1}", 12, anchor="end")
    svg.text(_LEFT + 24, y + 12, shortened(field.name, 215, 13, bold=True), 13, bold=True)
    svg.text(_LEFT + 250, y + 12, _bytes(field, data, 8), 12, mono=True, opacity=palette.FAINT)
    svg.text(_LEFT + 470, y + 12, shortened(field.meaning, WIDTH - _LEFT - 472, 13), 13)


def _bytes(field: Field, data: bytes, most: int) -> str:
    shown = data[field.start : field.end]
    return shown[:most].hex(" ") + (" …" if len(shown) > most else "")


def _described(field: Field, data: bytes) -> str:
    place = f"{field.start}" if field.end - field.start == 1 else f"{field.start} to {field.end - 1}"
    meaning = f": {field.meaning}" if field.meaning else ""
    return f"byte {place}, {field.name}, {_bytes(field, data, 16)}{meaning}"
