"""What can be read in bytes that passed by: a place for each byte, and a frame around what was looked for.

Forty-eight bytes are in a row. A byte that is a letter of ASCII is drawn as the letter, any other one as two digits in
hexadecimal. What was looked for and is there has a filling and bold letters, and its name is below it. Of a message we
show the first row and the rows with something found; the others are counted. Boxes at the top say of each thing whether
it was read: filled if so, dashed if not, so nothing hangs on colour.

The text beside the picture has the same facts.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened, text_width

ROW_BYTES = 48
_LEFT, _CELL, _LETTER = 2.0, (WIDTH - 4) / ROW_BYTES, 22.0
_TOP, _BOXES, _CAPTION, _ROW, _NAMES, _SKIPPED = 54.0, 48.0, 26.0, 25.0, 15.0, 19.0
_COLOURS = (palette.VERMILLION, palette.ORANGE, palette.SKY, palette.GREEN, palette.PURPLE)
_FILLINGS = tuple(palette.mix(colour, palette.WHITE, 0.45) for colour in _COLOURS)


class Heard(NamedTuple):
    """A message, and from where to where in it each thing was found."""

    what: str
    data: bytes
    found: Sequence[tuple[str, int, int]]


def readable(messages: Sequence[Heard], was_read: Mapping[str, bool], *, title: str, note: str = "") -> Figure:
    """Draw the messages. `was_read` has each thing that was looked for, at most five of them. ValueError if there is no
    message, or something was found that was not looked for."""
    if not messages or len(was_read) > len(_FILLINGS):
        raise ValueError(f"readable draws messages, and what was looked for in them: at most {len(_FILLINGS)} things")
    fillings = dict(zip(was_read, _FILLINGS, strict=False))
    for name in (name for message in messages for name, _, _ in message.found):
        if name not in fillings:
            raise ValueError(f"{name!r} was found, and not looked for")
    heights = [_CAPTION + 4 + sum(_height(each, row) for row in _rows(each)) for each in messages]
    svg = headed(title, note, _TOP + _BOXES + sum(heights) + 8)
    _draw_boxes(svg, was_read, fillings)
    y = _TOP + _BOXES
    for message, height in zip(messages, heights, strict=True):
        _draw_message(svg, message, y, fillings)
        y += height
    return finished(svg, title, note, list(_in_words(messages, was_read)), {"data": [], "layout": {}})


def _rows(message: Heard) -> Iterator[int | None]:
    """The rows to be drawn, and None for some that are left out."""
    wanted = {0} | {at // ROW_BYTES for _, start, end in message.found for at in range(start, end)}
    numbers = range(-(-len(message.data) // ROW_BYTES))
    for is_drawn, some in groupby(numbers, lambda row: row in wanted):
        yield from some if is_drawn else (None,)


def _height(message: Heard, row: int | None) -> float:
    if row is None:
        return _SKIPPED
    start, end = row * ROW_BYTES, (row + 1) * ROW_BYTES
    return _ROW + (_NAMES if any(first < end and last > start for _, first, last in message.found) else 0)


def _draw_boxes(svg: Svg, was_read: Mapping[str, bool], fillings: Mapping[str, str]) -> None:
    width = (WIDTH - 8 * (len(was_read) - 1)) / len(was_read)
    for number, (name, is_read) in enumerate(was_read.items()):
        x, filling = number * (width + 8), fillings[name] if is_read else "none"
        svg.rect(
            x + 1, _TOP, width - 2, 28, rx=4, fill=filling, stroke="currentColor",
            stroke_width="1.8" if is_read else "1", stroke_dasharray=None if is_read else "4 3",
        )  # fmt: skip
        words = shortened(f"{name}: {_said(is_read)}", width - 10, 12, bold=is_read)
        ink = palette.ink_on(filling) if is_read else None
        svg.text(x + width / 2, _TOP + 18, words, 12, anchor="middle", bold=is_read, fill=ink)


def _draw_message(svg: Svg, message: Heard, y: float, fillings: Mapping[str, str]) -> None:
    svg.text(0, y + 13, shortened(message.what, WIDTH, 13, bold=True), 13, bold=True)
    y += _CAPTION
    rows = list(_rows(message))
    drawn = [row for row in rows if row is not None]
    for place, row in enumerate(rows):
        if row is not None:
            _draw_row(svg, message, row, y, fillings)
            y += _height(message, row)
            continue
        after = next((each for each in rows[place + 1 :] if each is not None), None)
        before = max(each for each in drawn if after is None or each < after)
        end = len(message.data) if after is None else after * ROW_BYTES
        left_out = end - (before + 1) * ROW_BYTES
        svg.text(0, y + 8, f"… {left_out} more bytes", 12, opacity=palette.FAINT)
        y += _SKIPPED


def _draw_row(svg: Svg, message: Heard, row: int, y: float, fillings: Mapping[str, str]) -> None:
    start, end = row * ROW_BYTES, min((row + 1) * ROW_BYTES, len(message.data))
    inside = set[int]()
    for name, begin, stop in message.found:
        begin, stop = max(begin, start), min(stop, end)
        if begin >= stop:
            continue
        inside |= {*range(begin, stop)}
        x, width = _LEFT + (begin - start) * _CELL, (stop - begin) * _CELL
        svg.rect(
            x, y - 1, width, _LETTER, rx=3, fill=fillings[name], stroke="currentColor", stroke_width="1.6"
        )  # fmt: skip
        if text_width(name, 11) <= width + _CELL:
            svg.text(x + 1, y + _LETTER + 11, name, 11)
    ink = {at: palette.ink_on(fillings[name]) for name, begin, stop in message.found for at in range(begin, stop)}
    for at in range(start, end):
        byte, x = message.data[at], _LEFT + (at - start + 0.5) * _CELL
        is_letter = 32 <= byte < 127
        svg.text(
            x, y + 14, chr(byte) if is_letter else f"{byte:02x}", 13 if is_letter else 11, anchor="middle", mono=True,
            bold=at in inside, opacity=1.0 if is_letter else palette.FAINT, fill=ink.get(at),
        )  # fmt: skip


def _said(is_read: bool) -> str:
    return "read" if is_read else "not read"


def _in_words(messages: Sequence[Heard], was_read: Mapping[str, bool]) -> Iterator[str]:
    yield ", ".join(f"{name}: {_said(is_read)}" for name, is_read in was_read.items())
    for message in messages:
        found = [
            f"{name} (bytes {start} to {end - 1}): {message.data[start:end].decode('ascii', 'replace')}"
            for name, start, end in message.found
        ]
        yield f"{message.what}: {', '.join(found) or 'nothing'}"
