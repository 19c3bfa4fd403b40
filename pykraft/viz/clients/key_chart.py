"""Keys and partitions: which way a key takes, and in which order its records are handled.

`key_paths` draws a key, its hash, the remainder, and the partition, from left to right. A solid line leads to a
partition that the remainder names. A dashed one leads to a partition that holds records of the key all the same::

    JFK-LAX   0xbf7ff406   mod 6 = 2  ───────  partition 2   38 records
                                      - - - -  partition 5   41 records

`key_order` draws partitions as strips of records, with the records of one key numbered and those of other keys empty.
Below them is the order in which workers handle the numbered ones; a record that comes after a later one is framed.

The text beside each picture has the same facts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, need
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened, text_width

MOST_KEYS, MOST_PARTITIONS, MOST_CELLS = 12, 16, 40
_COLOURS = (palette.BLUE, palette.ORANGE, palette.GREEN, palette.PURPLE, palette.SKY, palette.VERMILLION)
_TOP, _ROW = 92.0, 34.0
_HASH, _REMAINDER, _FAN, _BOX = 130.0, 310.0, 440.0, 660.0
"""Where the hashes, the remainders, the lines and the partitions begin."""
_BOX_HEIGHT = 26.0
_STRIP_LEFT, _CELL = 112.0, 28.0


class KeyPath(NamedTuple):
    """One key: its hash without the sign bit, the partitions of its topic, and those that hold records of it."""

    key: str
    hash: int
    partitions: int
    found: tuple[int, ...]

    @property
    def remainder(self) -> int:
        return self.hash % self.partitions


def key_paths(paths: Sequence[KeyPath], counts: Sequence[int], *, title: str, note: str = "") -> Figure:
    """Draw the way of some keys; `counts` are the records of each partition. ValueError if there is nothing to draw,
    or too much: at most 12 keys, and 16 partitions."""
    need([float(count) for count in counts], "key_paths", begin_at_zero=True)
    if not 1 <= len(paths) <= MOST_KEYS or len(counts) > MOST_PARTITIONS:
        raise ValueError(f"key_paths draws 1 to {MOST_KEYS} keys, and at most {MOST_PARTITIONS} partitions")
    rows = max(len(paths), len(counts))
    svg = headed(title, note, _TOP + _ROW * rows + 6)
    step = _ROW * rows / len(counts)
    heads = ((0, "key"), (_HASH, "hash, without the sign bit"), (_REMAINDER, "remainder"), (_BOX, "partition"))
    for x, head in heads:
        svg.text(x, _TOP - 14, head, 12.5, opacity=palette.FAINT)
    boxes = [_TOP + step * number + (step - _BOX_HEIGHT) / 2 for number in range(len(counts))]
    for row, path in enumerate(paths):
        y = _TOP + _ROW * rows / len(paths) * (row + 0.5)
        for number in sorted(path.found, key=lambda number: number == path.remainder):
            draw_way(svg, y, boxes[number] + _BOX_HEIGHT / 2, colour_of(number), number == path.remainder)
        svg.text(0, y + 5, shortened(path.key, _HASH - 8, 14, bold=True), 14, bold=True)
        svg.text(_HASH, y + 5, f"0x{path.hash:08x}", 14, mono=True)
        svg.text(_REMAINDER, y + 5, f"mod {path.partitions} = {path.remainder}", 14, mono=True)
    for number, (y, count) in enumerate(zip(boxes, counts, strict=True)):
        colour = colour_of(number)
        svg.rect(_BOX, y, 132, _BOX_HEIGHT, rx=5, fill=colour, stroke="currentColor", stroke_opacity="0.6")
        label = f"partition {number}"
        svg.text(_BOX + 66, y + 18, label, 13, anchor="middle", bold=True, fill=palette.ink_on(colour))
        svg.text(_BOX + 144, y + 18, amount(count, "record" if count == 1 else "records"), 13)
    return finished(svg, title, note, [*_paths_in_words(paths), *_counts_in_words(counts)], {"data": [], "layout": {}})


def colour_of(number: int) -> str:
    """The colour of a partition, or of something else that is counted."""
    return _COLOURS[number % len(_COLOURS)]


def draw_way(svg: Svg, y: float, to: float, colour: str, is_expected: bool = True) -> None:
    """A line from the remainder at one height to the partition at another; dashed if it was not expected."""
    middle = (_FAN + _BOX) / 2
    svg.path(
        f"M{_FAN:g} {y:.1f}C{middle:g} {y:.1f} {middle:g} {to:.1f} {_BOX - 4:g} {to:.1f}",
        fill="none", stroke=colour, stroke_width="2.5", stroke_dasharray=None if is_expected else "3 5",
    )  # fmt: skip


def _paths_in_words(paths: Sequence[KeyPath]) -> Iterator[str]:
    for path in paths:
        places = ", ".join(map(str, sorted(path.found))) or "none"
        remainder = f"mod {path.partitions} = {path.remainder}"
        yield f"{path.key}: hash 0x{path.hash:08x}, {remainder}; found in partition {places}"


def _counts_in_words(counts: Sequence[int]) -> Iterator[str]:
    yield "records: " + ", ".join(f"partition {number} {count:,}" for number, count in enumerate(counts))


# --- the order of one key ---------------------------------------------------------------------------------------------

Strip = Sequence[int | None]
"""The records of a partition by offset: the number of a record of the key, None for another key's."""


def key_order(strips: Mapping[str, Strip], handled: Sequence[int], *, title: str, note: str = "") -> Figure:
    """Draw the strips, and the numbers in the order `handled`. ValueError if there is nothing to draw, or more than 40
    cells in a row."""
    need([float(number) for number in handled], "key_order")
    longest = max(len(handled), *(len(strip) for strip in strips.values()))
    if longest > MOST_CELLS:
        raise ValueError(f"key_order draws at most {MOST_CELLS} cells in a row, not {longest}")
    cell = min(_CELL, (WIDTH - _STRIP_LEFT) / longest)
    foot = _TOP + 44 * len(strips) + 34
    svg = headed(title, note, foot + 52)
    svg.text(_STRIP_LEFT, _TOP - 12, "the log: offset 0 is on the left", 12.5, opacity=palette.FAINT)
    home: dict[int, str] = {}
    for row, (name, strip) in enumerate(strips.items()):
        y = _TOP + 44 * row
        svg.text(0, y + 21, shortened(name, _STRIP_LEFT - 10, 13, bold=True), 13, bold=True)
        for offset, number in enumerate(strip):
            _draw_cell(svg, _STRIP_LEFT + cell * offset, y, cell, number, colour_of(row))
            home |= {} if number is None else {number: colour_of(row)}
    svg.text(_STRIP_LEFT, foot - 12, "in the order in which the workers handle them", 12.5, opacity=palette.FAINT)
    svg.text(0, foot + 21, "handled", 13, bold=True)
    late = late_ones(handled)
    for turn, number in enumerate(handled):
        _draw_cell(svg, _STRIP_LEFT + cell * turn, foot, cell, number, home[number], number in late)
    if late:
        svg.text(_STRIP_LEFT, foot + 46, "framed: a later record was handled before it", 12.5, opacity=palette.FAINT)
    words = [f"{name}: {_strip_in_words(strip)}" for name, strip in strips.items()]
    words += [f"handled: {' '.join(map(str, handled))}", f"after a later one: {' '.join(map(str, late)) or 'none'}"]
    return finished(svg, title, note, words, {"data": [], "layout": {}})


def late_ones(handled: Sequence[int]) -> list[int]:
    """The numbers that come after a larger one."""
    latest, found = handled[0], []
    for number in handled:
        found += [number] if number < latest else []
        latest = max(latest, number)
    return found


def _draw_cell(
    svg: Svg, x: float, y: float, width: float, number: int | None, colour: str, is_late: bool = False
) -> None:
    svg.rect(
        x + 1, y, width - 3, 32, rx=3, fill="none" if number is None else colour, stroke="currentColor",
        stroke_opacity="0.3" if number is None else "1", stroke_width="3" if is_late else "1",
    )  # fmt: skip
    label = "" if number is None else str(number)
    if label and text_width(label, 13, bold=True) <= width:
        svg.text(x + width / 2 - 0.5, y + 21, label, 13, anchor="middle", bold=True, fill=palette.ink_on(colour))


def _strip_in_words(strip: Strip) -> str:
    numbers = [number for number in strip if number is not None]
    others = len(strip) - len(numbers)
    return f"{' '.join(map(str, numbers)) or 'none of the key'}, and {others} of other keys"
