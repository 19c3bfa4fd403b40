"""The metadata log beside the image that it makes: which record wrote which row of the cluster's state.

`image_map` draws the records on the left, in the order of their offsets, and on the right the image: a row for each
broker, topic, partition, setting and feature level. A line leads from each record to the row that it is about. So a row
with several lines was changed several times, and a snapshot needs it once. A record without a line says nothing about
the cluster: it frames a transaction of records, or only moves the log's end.

The rows have the order of the first records about them, so that few lines cross. Of a longer log the last records are
drawn, and the rows that they are about.

With `latest`, the whole image is drawn, as it is after the last of the records, and that record and its row stand out.

The text beside the picture has the same facts.
"""

from collections.abc import Iterator, Mapping, Sequence

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened

MOST_RECORDS = 40
Thing = tuple[str, str]
"""A row of the image: its kind and its name, such as ("partition", "flights-0")."""
_TOP, _ROW = 92.0, 25.0
_RECORDS, _RECORDS_WIDTH, _IMAGE = 0.0, 392.0, 510.0
_COLOURS = {
    "level": palette.PURPLE,
    "controller": palette.VERMILLION,
    "broker": palette.BLUE,
    "topic": palette.ORANGE,
    "partition": palette.GREEN,
    "setting": palette.SKY,
}


def image_map(
    records: Sequence[tuple[int, str, Thing | None]],
    image: Mapping[Thing, str],
    *,
    title: str,
    note: str = "",
    latest: bool = False,
) -> Figure:
    """Draw the records, each as its offset, its type and the row that it is about, and the image's rows in words. Rows
    that no record is about are left out, unless the `latest` is asked for. ValueError if there is no record, or more
    than 40."""
    if not 1 <= len(records) <= MOST_RECORDS:
        raise ValueError(f"image_map draws 1 to {MOST_RECORDS} records, not {len(records)}")
    rows = {thing: image[thing] for _, _, thing in records if thing is not None and thing in image}
    if latest:
        rows = dict(image)
    last = records[-1][2] if latest else None
    count = max(len(records), len(rows))
    svg = headed(title, note, _TOP + _ROW * count + 8)
    svg.text(_RECORDS, _TOP - 14, "the log: offset and record", 12.5, opacity=palette.FAINT)
    svg.text(_IMAGE, _TOP - 14, "the image", 12.5, opacity=palette.FAINT)
    top = _TOP + _ROW * (count - len(rows)) / 2
    places = {thing: top + _ROW * row for row, thing in enumerate(rows)}
    for row, (_, _, thing) in enumerate(records):
        if thing in places:
            is_last = latest and row == len(records) - 1
            _draw_line(svg, _TOP + _ROW * row, places[thing], _colour(thing), 5 if is_last else 1 if latest else 2)
    for row, (offset, name, thing) in enumerate(records):
        _draw_record(svg, _TOP + _ROW * row, offset, name, thing, latest and row == len(records) - 1)
    for thing, words in rows.items():
        _draw_row(svg, places[thing], thing, words, thing == last)
    return finished(svg, title, note, list(_in_words(records, rows)), {"data": [], "layout": {}})


def _colour(thing: Thing) -> str:
    return _COLOURS.get(thing[0], palette.YELLOW)


def _draw_line(svg: Svg, start: float, end: float, colour: str, width: int) -> None:
    x1, x2, y1, y2 = _RECORDS + _RECORDS_WIDTH, _IMAGE, start + 11, end + 11
    bend = (x2 - x1) * 0.5
    path = f"M{x1:.0f} {y1:.1f}C{x1 + bend:.0f} {y1:.1f} {x2 - bend:.0f} {y2:.1f} {x2:.0f} {y2:.1f}"
    svg.path(path, fill="none", stroke=colour, stroke_width=f"{width}")


def _draw_record(svg: Svg, y: float, offset: int, name: str, thing: Thing | None, stands_out: bool) -> None:
    faint = palette.FAINT if thing is None else 1.0
    svg.text(_RECORDS + 82, y + 16, str(offset), 13, anchor="end", mono=True, opacity=palette.FAINT)
    left, width = _RECORDS + 92, _RECORDS_WIDTH - 92
    dash = "3 3" if thing is None else None
    stroke = "currentColor" if thing is None else _colour(thing)
    svg.rect(left, y, width, 22, rx=4, fill="none", stroke=stroke, stroke_width="4" if stands_out else "1.5",
             stroke_dasharray=dash)  # fmt: skip
    words = name if thing is None else f"{name} {thing[1]}"
    svg.text(left + 10, y + 16, shortened(words, width - 20, 13, stands_out), 13, opacity=faint, bold=stands_out)


def _draw_row(svg: Svg, y: float, thing: Thing, words: str, stands_out: bool) -> None:
    width = WIDTH - _IMAGE - 1
    svg.rect(_IMAGE, y, width, 22, rx=4, fill=_colour(thing), fill_opacity="0.22",
             stroke=_colour(thing) if stands_out else "currentColor", stroke_width="4" if stands_out else None,
             stroke_opacity=None if stands_out else "0.5")  # fmt: skip
    name = f"{thing[0]} {thing[1]}"
    box = svg.text(_IMAGE + 10, y + 16, shortened(name, 200, 13, bold=True), 13, bold=True)
    svg.text(box.right + 8, y + 16, shortened(words, _IMAGE + width - box.right - 14, 13), 13)


def _in_words(records: Sequence[tuple[int, str, Thing | None]], rows: Mapping[Thing, str]) -> Iterator[str]:
    for offset, name, thing in records:
        yield f"{offset} {name}" + ("" if thing is None else f" {thing[1]}")
    for (kind, name), words in rows.items():
        count = sum(thing == (kind, name) for _, _, thing in records)
        yield f"{kind} {name}: {words}; {count} record{'s' * (count != 1)}"
