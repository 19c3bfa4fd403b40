"""How an offset is found: the log in segments, one segment in batches, and the index entries that point at them.

Three levels, each a magnified piece of the one above it::

    segments     all of the log; the one that holds the offset is dark
    batches      all of that segment; those of the third level are dark
    the lookup   a few batches, and above them their index entries, each with an arrow to where its batch begins

On the third level the entry that the search finds is dark, and so is the batch that holds the offset. A lookup reads
the header of the entry's batch first; where that batch ends too early, an arrow leads on to the next header. Of a long
walk the middle is left out.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened, text_width

_LEFT, _RIGHT = 116.0, 12.0
_SPAN = WIDTH - _LEFT - _RIGHT
_SEGMENTS, _BATCHES, _ENTRIES, _SHOWN = 62.0, 142.0, 232.0, 330.0
"""The top of each row."""
_BOX, _TALL = 28.0, 44.0
_BEFORE, _MOST = 1, 4
"""Of the batches on the third level: how many come before the entry's, and how many there are."""
_PLAIN, _STRONG = palette.SKY, palette.BLUE


class Segment(NamedTuple):
    """One segment: its base offset and the bytes of its log."""

    base_offset: int
    size: int


class Batch(NamedTuple):
    """One batch: its first and its last offset, where it begins in its segment, and its bytes."""

    base_offset: int
    last_offset: int
    position: int
    size: int


def lookup_chart(
    segments: Sequence[Segment],
    batches: Sequence[Batch],
    entries: Sequence[tuple[int, int]],
    offset: int,
    *,
    title: str,
    note: str = "",
    deleted: Sequence[Segment] = (),
) -> Figure:
    """Draw the lookup of `offset`. `batches` and `entries` are those of its segment; an entry is the last offset of a
    batch, and where it begins. Segments that are `deleted` are dashed; if the offset was in one of them there are only
    the segments. ValueError if no segment or no batch holds the offset."""
    if deleted and offset < segments[0].base_offset:
        svg = headed(title, note, _SHOWN + _TALL + 34)
        _draw_segments(svg, segments, deleted)
        _draw_names(svg, len(segments))
        words = [f"{offset:,} was in a segment that is deleted", *_sizes_in_words(segments, deleted)]
        return finished(svg, title, note, words, {"data": [], "layout": {}})
    segment = max((each for each in segments if each.base_offset <= offset), default=None)
    wanted = next((batch for batch in batches if batch.last_offset >= offset), None)
    if segment is None or wanted is None or not segment.base_offset <= wanted.base_offset <= offset:
        raise ValueError(f"offset {offset:,} is in none of these batches")
    found = max((entry for entry in entries if entry[0] <= offset), default=None)
    start = next((batch for batch in batches if found and batch.position == found[1]), batches[0])
    shown = _third_level(batches, batches.index(start), batches.index(wanted))
    svg = headed(title, note, _SHOWN + _TALL + 34)
    _draw_segments(svg, segments, deleted, segment)
    _draw_batches(svg, batches, shown)
    edges = [_LEFT + _SPAN * number / len(shown) for number in range(len(shown) + 1)]
    for number, batch in enumerate(shown):
        box = (edges[number], edges[number + 1] - 8)
        _draw_batch(svg, box, batch, batch == wanted)
        for entry in entries:
            if entry[1] == batch.position:
                _draw_entry(svg, box, entry, entry == found)
    _draw_names(svg, len(segments), len(batches))
    first, last = shown.index(start), shown.index(wanted)
    _draw_walk(svg, edges, first, [batches.index(batch) for batch in shown[first : last + 1]])
    _draw_mark(svg, edges[shown.index(wanted)], wanted, offset, len(shown))
    words = _in_words(segment, entries, found, wanted, offset)
    return finished(svg, title, note, [*_sizes_in_words(segments, deleted), *words], {"data": [], "layout": {}})


def _third_level(batches: Sequence[Batch], start: int, wanted: int) -> list[Batch]:
    """The batches that are drawn large, from the one before the entry's. Of a long walk the middle is left out."""
    first = max(0, start - _BEFORE)
    if wanted < first + _MOST:
        return list(batches[first : first + _MOST])
    return [*batches[first : start + _MOST - _BEFORE - 1], batches[wanted]]


def _draw_names(svg: Svg, segments: int, batches: int = 0) -> None:
    """What the levels are; without batches there is only the first one."""
    names: list[tuple[float, tuple[str, ...]]] = [
        (_SEGMENTS + 12, ("the log:", "1 segment" if segments == 1 else f"{segments} segments"))
    ]
    if batches:
        names += [
            (_BATCHES + 12, ("one segment:", "1 batch" if batches == 1 else f"{batches} batches")),
            (_ENTRIES + 18, ("index entries",)),
            (_SHOWN + 26, ("its batches",)),
        ]
    for y, lines in names:
        for row, line in enumerate(lines):
            svg.text(_LEFT - 10, y + 16 * row, shortened(line, _LEFT - 10, 12.5), 12.5, anchor="end")


def _draw_segments(
    svg: Svg, segments: Sequence[Segment], deleted: Sequence[Segment], chosen: Segment | None = None
) -> None:
    """The upper level, and what is magnified of it."""
    scale, x = _SPAN / (sum(each.size for each in (*deleted, *segments)) or 1), _LEFT
    for each in deleted:
        width = max(1.0, each.size * scale - 1)
        svg.rect(x, _SEGMENTS, width, _BOX, fill="none", stroke="currentColor", stroke_dasharray="4 3")
        if text_width("deleted", 12) <= width - 6:
            svg.text(x + width / 2, _SEGMENTS + 18, "deleted", 12, anchor="middle")
        x += each.size * scale
    for each in segments:
        width = each.size * scale
        _box(svg, x, _SEGMENTS, width - 1, _BOX, each == chosen, f"{each.base_offset:,}")
        if each == chosen:
            _magnify(svg, (x, x + width), _SEGMENTS + _BOX, _BATCHES)
        x += width


def _draw_batches(svg: Svg, batches: Sequence[Batch], shown: Sequence[Batch]) -> None:
    """The level in the middle, and what is magnified of it."""
    scale = _SPAN / (sum(batch.size for batch in batches) or 1)
    for batch in batches:
        _box(svg, _LEFT + batch.position * scale, _BATCHES, batch.size * scale - 1, _BOX, batch in shown, "")
    ends = (_LEFT + shown[0].position * scale, _LEFT + (shown[-1].position + shown[-1].size) * scale)
    _magnify(svg, ends, _BATCHES + _BOX, _ENTRIES - 12)


def _magnify(svg: Svg, piece: tuple[float, float], top: float, bottom: float) -> None:
    for x, to in zip(piece, (_LEFT, _LEFT + _SPAN - 2), strict=True):
        svg.line(x, top, to, bottom, stroke="currentColor", stroke_opacity="0.5", stroke_dasharray="3 3")


def _box(svg: Svg, x: float, y: float, width: float, height: float, is_strong: bool, label: str) -> None:
    filling = _STRONG if is_strong else _PLAIN
    svg.rect(x, y, max(1.0, width), height, fill=filling, stroke="currentColor", stroke_width="0.6")
    if label and text_width(label, 12) <= width - 6:
        svg.text(x + width / 2, y + 18, label, 12, anchor="middle", fill=palette.ink_on(filling))


def _draw_batch(svg: Svg, box: tuple[float, float], batch: Batch, is_wanted: bool) -> None:
    filling, middle = _STRONG if is_wanted else _PLAIN, (box[0] + box[1]) / 2
    svg.rect(box[0], _SHOWN, box[1] - box[0], _TALL, fill=filling, stroke="currentColor", stroke_width="0.8")
    for row, line in enumerate((f"{batch.base_offset:,} to {batch.last_offset:,}", f"at byte {batch.position:,}")):
        text = shortened(line, box[1] - box[0] - 8, 12)
        svg.text(middle, _SHOWN + 18 + 16 * row, text, 12, anchor="middle", fill=palette.ink_on(filling))


def _draw_entry(svg: Svg, box: tuple[float, float], entry: tuple[int, int], is_found: bool) -> None:
    """An entry above its batch, and an arrow to the first byte of it."""
    filling, middle = (
        palette.ORANGE if is_found else palette.mix(palette.ORANGE, palette.WHITE, 0.6),
        (box[0] + box[1]) / 2,
    )
    width = min(box[1] - box[0] - 12, 170.0)
    svg.rect(
        middle - width / 2, _ENTRIES - 6, width, 40, rx=3, fill=filling, stroke="currentColor",
        stroke_width="2.2" if is_found else "0.6",
    )  # fmt: skip
    for row, line in enumerate((f"up to {entry[0]:,}", f"byte {entry[1]:,}")):
        text = shortened(line, width - 6, 12, bold=is_found)
        svg.text(
            middle, _ENTRIES + 10 + 16 * row, text, 12, anchor="middle", bold=is_found, fill=palette.ink_on(filling)
        )
    _arrow(svg, (middle - width / 2 + 14, _ENTRIES + 35), (box[0] + 1, _SHOWN - 2), 2.2 if is_found else 1.0)


def _arrow(svg: Svg, start: tuple[float, float], end: tuple[float, float], thick: float) -> None:
    svg.line(*start, end[0], end[1] - 6, stroke="currentColor", stroke_width=f"{thick:g}")
    (x, y), half = end, 4.5
    svg.element("polygon", points=f"{x:g},{y:g} {x - half:g},{y - 8:g} {x + half:g},{y - 8:g}", fill="currentColor")


def _draw_walk(svg: Svg, edges: Sequence[float], start: int, walk: Sequence[int]) -> None:
    """From the header that the entry names, in the box `start`, to the header of the batch that is wanted; `walk` are
    the numbers of the batches that are drawn on this way."""
    for number, (batch, following) in enumerate(pairwise(walk), start):
        x, to, y = edges[number] + 16, edges[number + 1] + 10, _SHOWN - 22
        svg.path(
            f"M{x:.1f} {_SHOWN:.1f}C{x + 20:.1f} {y:.1f} {to - 20:.1f} {y:.1f} {to:.1f} {_SHOWN - 8:.1f}",
            fill="none", stroke=palette.VERMILLION, stroke_width="2.2",
        )  # fmt: skip
        svg.element(
            "polygon", points=f"{to:.1f},{_SHOWN:.1f} {to - 6:.1f},{_SHOWN - 9:.1f} {to + 4:.1f},{_SHOWN - 9:.1f}",
            fill=palette.VERMILLION,
        )  # fmt: skip
        label = "next header" if following == batch + 1 else f"{following - batch} headers on"
        svg.text((x + to) / 2, y - 2, label, 12, anchor="middle", bold=True)


def _draw_mark(svg: Svg, left: float, wanted: Batch, offset: int, shown: int) -> None:
    width = _SPAN / shown - 8
    share = (offset - wanted.base_offset + 0.5) / (wanted.last_offset - wanted.base_offset + 1)
    x, y = left + width * share, _SHOWN + _TALL
    svg.line(x, y - 5, x, y + 10, stroke=palette.VERMILLION, stroke_width="3")
    half = text_width(f"{offset:,}", 13, bold=True) / 2
    svg.text(min(max(x, half), WIDTH - half), y + 26, f"{offset:,}", 13, anchor="middle", bold=True)


def _sizes_in_words(segments: Sequence[Segment], deleted: Sequence[Segment]) -> list[str]:
    sizes = ", ".join(f"{each.base_offset:,} ({each.size:,} bytes)" for each in segments)
    gone = ", ".join(f"{each.base_offset:,}" for each in deleted)
    return [f"segments: {sizes}", *([f"deleted: {gone}"] if gone else [])]


def _in_words(
    segment: Segment,
    entries: Sequence[tuple[int, int]],
    found: tuple[int, int] | None,
    wanted: Batch,
    offset: int,
) -> list[str]:
    entry = f"offset {found[0]:,} at byte {found[1]:,}" if found else "none, so the segment's beginning"
    return [
        f"{offset:,} is in segment {segment.base_offset:,}, whose index has {len(entries)} entries",
        f"the last entry at or below it: {entry}",
        f"the batch that holds it: {wanted.base_offset:,} to {wanted.last_offset:,}, at byte {wanted.position:,}",
    ]
