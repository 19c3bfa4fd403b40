"""The board of an incident: a card for each broker or program, with a bar for each thing that fills, grows or lags.

What colour says, a sign or a word says too: a card with a dashed frame and ✕ is down, a bar with ▲ is a warning.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.svg import Svg, shortened, wrapped

WIDTH = 960
_GAP, _PAD, _HEAD, _ROW = 12, 12, 34, 42
_MANY, _SMALL_GAP = 6, 8
"""This many cards stand closer together, so that each has room for its state."""
_STROKE = {"stroke": "currentColor", "stroke_opacity": "0.55"}


class Row(NamedTuple):
    """A bar."""

    label: str
    share: float
    """How much of it is full, 0 to 1."""
    text: str
    warns: bool = False


class Card(NamedTuple):
    """A broker, or a program."""

    title: str
    state: str
    rows: Sequence[Row]
    is_up: bool = True


def rows_of(cards: Sequence[Card]) -> int:
    """The rows of the card that has most."""
    return max((len(card.rows) for card in cards), default=0)


def height_of(cards: Sequence[Card], least_rows: int = 0) -> float:
    return _HEAD + _ROW * max(rows_of(cards), least_rows) + 10


def draw_cards(svg: Svg, cards: Sequence[Card], y: float, least_rows: int = 0) -> None:
    """The cards side by side, each with room for so many rows."""
    gap = _SMALL_GAP if len(cards) >= _MANY else _GAP
    width = (svg.width - gap * (len(cards) - 1)) / len(cards)
    height = height_of(cards, least_rows)
    for number, card in enumerate(cards):
        x = number * (width + gap)
        dash = {} if card.is_up else {"stroke_dasharray": "5 4"}
        svg.rect(x + 1, y + 1, width - 2, height - 2, rx=8, fill="none", stroke_width="1.4", **_STROKE, **dash)
        title = f"{'' if card.is_up else '✕ '}{card.title}"
        place = svg.text(x + _PAD, y + 23, title, 14, bold=True)
        room = width - 2 * _PAD - (place.right - place.left) - 8
        svg.text(x + width - _PAD, y + 23, shortened(card.state, room, 12), 12, anchor="end", opacity=palette.FAINT)
        for place_of_row, row in enumerate(card.rows):
            _draw_row(svg, row, x + _PAD, y + _HEAD + _ROW * place_of_row, width - 2 * _PAD)


def _draw_row(svg: Svg, row: Row, x: float, y: float, width: float) -> None:
    label = f"{'▲ ' if row.warns else ''}{row.label}"
    place = svg.text(x + width, y + 13, shortened(row.text, width * 0.7, 12), 12, anchor="end")
    svg.text(x, y + 13, shortened(label, place.left - x - 6, 12, bold=row.warns), 12, bold=row.warns)
    svg.rect(x, y + 19, width, 9, rx=4.5, fill="currentColor", fill_opacity="0.12")
    full = max(0.0, min(1.0, row.share)) * width
    if full > 0:
        svg.rect(x, y + 19, max(4.0, full), 9, rx=4.5, fill=palette.VERMILLION if row.warns else palette.BLUE)


def in_words(cards: Sequence[Card]) -> list[str]:
    """What the cards show."""
    found = []
    for card in cards:
        rows = "; ".join(f"{row.label}{' (warning)' if row.warns else ''}: {row.text}" for row in card.rows)
        found.append(f"{card.title}, {card.state}: {rows or 'nothing'}")
    return found


def board_svg(cards: Sequence[Card], title: str, least_rows: int = 0) -> str:
    """The cards alone, for the console."""
    svg = Svg(WIDTH, height_of(cards, least_rows) + 2)
    draw_cards(svg, cards, 0, least_rows)
    return svg.render(title, ". ".join(in_words(cards)))


def draw_pager(svg: Svg, title: str, text: str, y: float) -> float:
    """The pager's text in a frame; returns where it ends."""
    lines = wrapped(text, svg.width - 190, 14)
    height = 46 + 20 * len(lines)
    svg.rect(1, y + 1, svg.width - 2, height - 2, rx=8, fill=palette.VERMILLION, fill_opacity="0.13", **_STROKE)
    svg.rect(1, y + 1, 10, height - 2, rx=4, fill=palette.VERMILLION)
    svg.text(26, y + 26, title, 17, bold=True)
    for number, line in enumerate(lines):
        svg.text(26, y + 48 + 20 * number, line, 14)
    return y + height


def draw_counters(svg: Svg, values: Sequence[tuple[str, str, bool]], y: float) -> float:
    """The counters side by side: label, value, whether it warns; returns where they end."""
    width = (svg.width - _GAP * (len(values) - 1)) / len(values)
    for number, (label, value, warns) in enumerate(values):
        x = number * (width + _GAP)
        svg.rect(x + 1, y + 1, width - 2, 62, rx=8, fill="none", stroke_width="1.4", **_STROKE)
        svg.text(x + _PAD, y + 22, f"{'▲ ' if warns else ''}{label}", 12, bold=warns)
        svg.text(x + _PAD, y + 51, value, 24, bold=True)
    return y + 64
