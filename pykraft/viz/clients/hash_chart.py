"""One key under several hash functions, and many keys when a partition is added.

`hash_paths` draws a row for each function, as `key_paths` does for each key: the number that it makes of the key, the
remainder, and a line to the partition. Below is a square for each of many other keys. A dark one would be in another
partition if there were one partition fewer::

    murmur2   0x3f7ff406   mod 6 = 2  ───────  partition 2
    CRC-32    0x1c0de3f2   mod 6 = 0  ───────  partition 0
    ■ ■ □ ■ ■ ■ □ ■

The text beside the picture has the same facts.
"""

from collections.abc import Iterator, Sequence

from pykraft.viz.clients.key_chart import KeyPath, colour_of, draw_way
from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import shortened

MOST_FUNCTIONS, MOST_PARTITIONS, MOST_KEYS = 4, 12, 400
_TOP, _ROW, _BOX_HEIGHT = 92.0, 27.0, 22.0
_HASH, _REMAINDER, _FAN, _BOX = 130.0, 310.0, 440.0, 660.0
_SQUARE = 15.0


def hash_paths(
    paths: Sequence[KeyPath], partitions: int, moved: Sequence[bool], *, title: str, note: str = "", squares: str = ""
) -> Figure:
    """Draw the ways of one key; a path's `key` is here the name of its function. `moved` says of each of the other keys
    whether it is dark, and `squares` is the line above them. ValueError if there is nothing to draw, or too much: at
    most 4 functions, 12 partitions and 400 keys."""
    if not 1 <= len(paths) <= MOST_FUNCTIONS or not 1 <= partitions <= MOST_PARTITIONS or len(moved) > MOST_KEYS:
        raise ValueError(
            f"hash_paths draws 1 to {MOST_FUNCTIONS} functions, 1 to {MOST_PARTITIONS} partitions and at most "
            f"{MOST_KEYS} keys"
        )
    rows = max(2 * len(paths), partitions)
    foot = _TOP + _ROW * rows + 34
    in_a_row = int(WIDTH // _SQUARE)
    svg = headed(title, note, foot + _SQUARE * -(-len(moved) // in_a_row) + 6)
    heads = ((0, "function"), (_HASH, "hash"), (_REMAINDER, "remainder"), (_BOX, "partition"))
    for x, head in heads:
        svg.text(x, _TOP - 14, head, 12.5, opacity=palette.FAINT)
    step = _ROW * rows / partitions
    boxes = [_TOP + step * number + (step - _BOX_HEIGHT) / 2 for number in range(partitions)]
    for row, path in enumerate(paths):
        y = _TOP + _ROW * rows / len(paths) * (row + 0.5)
        draw_way(svg, y, boxes[path.remainder] + _BOX_HEIGHT / 2, colour_of(row))
        svg.text(0, y + 5, shortened(path.key, _HASH - 8, 14, bold=True), 14, bold=True)
        svg.text(_HASH, y + 5, f"0x{path.hash:08x}", 14, mono=True)
        svg.text(_REMAINDER, y + 5, f"mod {path.partitions} = {path.remainder}", 14, mono=True)
    chosen = {path.remainder: colour_of(row) for row, path in reversed([*enumerate(paths)])}
    for number, y in enumerate(boxes):
        filling = chosen.get(number, "none")
        svg.rect(_BOX, y, 132, _BOX_HEIGHT, rx=5, fill=filling, stroke="currentColor", stroke_opacity="0.6")
        ink = palette.ink_on(filling) if number in chosen else "currentColor"
        svg.text(_BOX + 66, y + 16, f"partition {number}", 13, anchor="middle", bold=number in chosen, fill=ink)
    svg.text(0, foot - 10, shortened(squares, WIDTH, 12.5), 12.5, opacity=palette.FAINT)
    for place, has_moved in enumerate(moved):
        row, column = divmod(place, in_a_row)
        svg.rect(
            _SQUARE * column + 1, foot + _SQUARE * row, _SQUARE - 3, _SQUARE - 3, rx=2,
            fill=palette.BLUE if has_moved else "none", stroke="currentColor", stroke_opacity="0.5",
        )  # fmt: skip
    return finished(svg, title, note, [*_in_words(paths), *([squares] if squares else [])], {"data": [], "layout": {}})


def _in_words(paths: Sequence[KeyPath]) -> Iterator[str]:
    for path in paths:
        remainder = f"mod {path.partitions} = {path.remainder}"
        yield f"{path.key}: 0x{path.hash:08x}, {remainder}: partition {path.remainder}"
