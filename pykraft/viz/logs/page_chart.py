"""Which pages of a file are in memory: a strip for each moment.

::

    just written                            then read: 0 of 101 MB came from the disk
    ██████████████████████████████████████
    evicted                                 then read: 101 of 101 MB came from the disk
    ▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯▯

A strip is as long as the file, or as its first pages. Where it is filled, the page cache holds the page; where it is
empty, the page is only on the disk. Ticks below a strip mark pages that a program has asked for. A run of pages is
drawn at least as wide as can be seen.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened

_TOP, _ROW, _STRIP = 58.0, 64.0, 24.0
_SEEN = 1.6
_MOST_RUNS = 1_500
_PAGE_BYTES = 4096
_KEY = "Filled: in memory. Empty: only on the disk."


def page_map(
    moments: Mapping[str, bytes],
    *,
    title: str,
    note: str = "",
    notes: Mapping[str, object] | None = None,
    asked: Mapping[str, Iterable[int]] | None = None,
) -> Figure:
    """Draw the pages of each moment: a byte for each page, 1 if it is in memory. `notes` are said at a moment's right,
    `asked` are pages to be marked below it. ValueError if there is nothing to draw."""
    if not moments:
        raise ValueError("page_map needs at least one moment")
    said = {name: str((notes or {}).get(name, "")) for name in moments}
    longest = max(map(len, moments.values()))
    svg = headed(title, f"{_KEY} {note}".strip(), _TOP + _ROW * len(moments) + 26)
    for row, (name, pages) in enumerate(moments.items()):
        y = _TOP + _ROW * row
        right = svg.text(WIDTH, y + 16, shortened(said[name], WIDTH * 0.62, 13), 13, anchor="end")
        svg.text(0, y + 16, shortened(name, right.left - 12, 13.5, bold=True), 13.5, bold=True)
        _draw_strip(svg, y + 24, pages, longest)
        for page in (asked or {}).get(name, ()):
            x = 1 + (WIDTH - 2) * (page + 0.5) / longest
            svg.line(x, y + 26 + _STRIP, x, y + 33 + _STRIP, stroke=palette.VERMILLION, stroke_width="1.4")
    _draw_scale(svg, _TOP + _ROW * len(moments) + 8, longest)
    words = [
        f"{name}: {_in_words(pages)}" + (f"; {said[name]}" if said[name] else "") for name, pages in moments.items()
    ]
    return finished(svg, title, note, words, {"data": [], "layout": {}})


def _draw_strip(svg: Svg, y: float, pages: bytes, longest: int) -> None:
    if not pages:
        svg.text(4, y + 16, "this system does not tell", 12, opacity=palette.FAINT)
    scale = (WIDTH - 2) / max(1, longest)
    runs = _runs(pages)
    for start, end in runs if len(runs) <= _MOST_RUNS else _coarser(runs, longest):
        svg.rect(1 + start * scale, y, max(_SEEN, (end - start) * scale), _STRIP, fill=palette.BLUE)
    svg.rect(1, y, WIDTH - 2, _STRIP, rx=2, fill="none", stroke="currentColor", stroke_width="1", stroke_opacity="0.7")


def _runs(pages: bytes) -> list[tuple[int, int]]:
    """Where pages in memory follow each other: the first, and the one after the last."""
    found, start = [], 0
    for is_there, some in groupby(pages):
        end = start + sum(1 for _ in some)
        if is_there:
            found.append((start, end))
        start = end
    return found


def _coarser(runs: list[tuple[int, int]], longest: int) -> list[tuple[int, int]]:
    """The runs, joined where the gap between two is too small to be seen."""
    gap = longest / WIDTH
    found = [runs[0]]
    for start, end in runs[1:]:
        if start - found[-1][1] < gap:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def _draw_scale(svg: Svg, y: float, longest: int) -> None:
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        label = f"{amount(share * longest * _PAGE_BYTES / 1e6)} MB" if share else "0"
        svg.text(WIDTH * share, y + 12, label, 12, anchor=anchor, opacity=palette.FAINT)


def _in_words(pages: bytes) -> str:
    if not pages:
        return "this system does not tell which pages are in memory"
    count = sum(pages)
    parts = len(_runs(pages))
    return f"{count:,} of {len(pages):,} pages in memory" + (f", in {parts:,} pieces" if parts > 1 else "")
