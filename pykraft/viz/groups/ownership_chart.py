"""The owners of partitions over time: a row for each partition, a colour and a pattern for each member.

`ownership` draws one panel for each group, all on one scale of seconds: so the same seconds of two groups are above
each other. A row is empty where its partition has no owner: no member reads it then. A line through a row says that its
owner pauses: it owns the partition and does not read it. Marks are moments with a name.

Members differ by colour and by pattern; the key names them. The text beside the picture says of each partition who
owned it, and from when until when.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import ceil
from typing import NamedTuple
from zlib import crc32

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import MOST_TIMES, WIDTH, draw_marks, finished, headed, layout, need, round_step
from pykraft.viz.drawing.figure import Figure, Spec
from pykraft.viz.drawing.svg import SMALLEST, Svg, shortened, text_width

Spans = Mapping[str, Sequence[tuple[str, float, float]]]
"""By partition: the owner ("" for none), from which second, until which."""
Pauses = Sequence[tuple[str, float, float]]
"""The member that pauses, from which second, until which."""

_COLOURS = (palette.BLUE, palette.ORANGE, palette.GREEN, palette.PURPLE, palette.SKY, palette.VERMILLION)
_LINES = ("", "M-1 5 5-1M3 9 9 3", "M0 2h3M4 6h3", "M-1 3 5 9M3-1 9 5", "M0 4h8", "M4 0v8")
"""What is on the tiles of 8 x 8 pixels: nothing, stripes, dashes, stripes the other way, lines across, lines down."""
_EMPTY: dict[str, object] = {"stroke": "currentColor", "stroke_opacity": "0.6", "stroke_dasharray": "3 2"}
_MARK: dict[str, object] = {"stroke": palette.VERMILLION, "stroke_width": "2", "stroke_dasharray": "4 3"}
_LEFT, _KEY, _MARKS, _HEAD, _ROW, _GAP = 34.0, 64.0, 68.0, 22.0, 11.0, 12.0
_NICK = 1.5
"""The least width of a span, and of a gap."""


class _Panel(NamedTuple):
    """One group on the page."""

    heading: str
    spans: Spans
    y: float


class _Scale(NamedTuple):
    """Where a second is across."""

    start: float
    end: float

    def across(self, second: float) -> float:
        second = min(self.end, max(self.start, second))
        return _LEFT + (second - self.start) * (WIDTH - _LEFT - 8) / ((self.end - self.start) or 1.0)


def ownership(
    groups: Mapping[str, Spans],
    *,
    title: str,
    note: str = "",
    marks: Mapping[str, float] | None = None,
    pauses: Pauses = (),
) -> Figure:
    """A panel for each group, by its heading. ValueError if there is nothing to draw."""
    moments = [moment for spans in groups.values() for each in spans.values() for span in each for moment in span[1:]]
    need(moments, "ownership")
    scale = _Scale(min(moments), max(moments))
    top = _KEY + (_MARKS if marks else 16.0)
    panels, y = [], top
    for heading, spans in groups.items():
        panels.append(_Panel(heading, spans, y))
        y += _HEAD + _ROW * len(spans) + _GAP
    svg = headed(title, note, y + 24)
    looks = Looks(_owners(groups), title)
    looks.define(svg)
    _draw_key(svg, looks, bool(pauses))
    for panel in panels:
        _draw_panel(svg, panel, looks, pauses, scale)
    _draw_seconds(svg, scale, y)
    _draw_marks(svg, {name: scale.across(moment) for name, moment in (marks or {}).items()}, panels)
    words = [f"{name}: at {moment:.1f} s" for name, moment in (marks or {}).items()]
    words += [f"{name} pauses from {begin:.1f} s to {stop:.1f} s" for name, begin, stop in pauses]
    said = [*words, *_said(groups)]
    return finished(svg, title, note, [*words, *_in_words(groups)], _spec(groups, title), said)


class Looks:
    """Each member's colour and pattern, by the order of their names. Each drawing has patterns of its own, under names
    made of its title: a page may hide another drawing, and with it what that one defines."""

    def __init__(self, members: Iterable[str], title: str) -> None:
        self._numbers = {member: number % len(_COLOURS) for number, member in enumerate(sorted(set(members)))}
        self._prefix = f"pk-{crc32(title.encode()):08x}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def colour(self, member: str) -> str:
        """The ground of its pattern."""
        return _COLOURS[self._numbers[member]]

    def pattern(self, member: str) -> str:
        """Its filling, in a drawing with `define`; only its colour on a page that removes what a drawing defines."""
        return f"url(#{self._prefix}-{self._numbers[member]}) {self.colour(member)}"

    def define(self, svg: Svg) -> None:
        """What `pattern` refers to."""
        tiles = []
        for number in sorted(set(self._numbers.values())):
            ground, drawn = _COLOURS[number], _LINES[number]
            ink = f'stroke="{palette.ink_on(ground)}" stroke-width="1.3" stroke-opacity="0.7"'
            lines = f'<path d="{drawn}" {ink}/>' if drawn else ""
            tiles.append(
                f'<pattern id="{self._prefix}-{number}" width="8" height="8" patternUnits="userSpaceOnUse">'
                f'<rect width="8" height="8" fill="{ground}"/>{lines}</pattern>'
            )
        svg.insert(f"<defs>{''.join(tiles)}</defs>")


def _owners(groups: Mapping[str, Spans]) -> Iterator[str]:
    return (owner for spans in groups.values() for each in spans.values() for owner, *_ in each if owner)


def _draw_key(svg: Svg, looks: Looks, has_pauses: bool) -> None:
    x = 0.0
    for member in looks:
        svg.rect(x, _KEY - 6, 26, 13, fill=looks.pattern(member), stroke="currentColor", stroke_opacity="0.5")
        x = svg.text(x + 32, _KEY + 5, shortened(member, 120, 12.5), 12.5).right + 18
    svg.rect(x, _KEY - 6, 26, 13, fill="none", **_EMPTY)
    x = svg.text(x + 32, _KEY + 5, "no owner", 12.5).right + 18
    if has_pauses:
        svg.line(x, _KEY + 0.5, x + 26, _KEY + 0.5, stroke="currentColor", stroke_width="3")
        svg.text(x + 32, _KEY + 5, "its owner pauses", 12.5)


def _draw_panel(svg: Svg, panel: _Panel, looks: Looks, pauses: Pauses, scale: _Scale) -> None:
    svg.text(0, panel.y + 14, shortened(panel.heading, WIDTH, 13, bold=True), 13, bold=True)
    boxes: dict[str, list[str]] = {}
    for row, (partition, spans) in enumerate(panel.spans.items()):
        y = panel.y + _HEAD + _ROW * row
        svg.text(
            _LEFT - 7, y + 8.2, shortened(partition, _LEFT - 8, SMALLEST), SMALLEST, anchor="end", opacity=palette.FAINT
        )
        drawn_to = 0.0
        for owner, begin, end in spans:
            x = max(drawn_to, scale.across(begin))
            width = max(_NICK, scale.across(end) - x)
            boxes.setdefault(owner, []).append(f"M{x:.1f} {y:g}h{width:.1f}v{_ROW - 1:g}h-{width:.1f}z")
            drawn_to = x + _NICK if not owner else 0.0
    for owner, some in boxes.items():  # one path for each owner: a rectangle for each span would be long
        look: dict[str, object] = {"fill": looks.pattern(owner)} if owner else {"fill": "none", **_EMPTY}
        svg.path("".join(some), **look)
    for row, spans in enumerate(panel.spans.values()):
        y = panel.y + _HEAD + _ROW * (row + 0.5) - 0.5
        for begin, end in _paused(spans, pauses):
            svg.line(scale.across(begin), y, scale.across(end), y, stroke="currentColor", stroke_width="3")


def _paused(spans: Sequence[tuple[str, float, float]], pauses: Pauses) -> Iterator[tuple[float, float]]:
    """The parts of a row in which its owner pauses."""
    for name, begin, stop in pauses:
        for owner, first, last in spans:
            if owner == name and first < stop and begin < last:
                yield max(begin, first), min(stop, last)


def _draw_marks(svg: Svg, places: Mapping[str, float], panels: Sequence[_Panel]) -> None:
    """The names above the first panel; the lines through the rows, and not through the headings."""
    draw_marks(svg, places, panels[0].y, panels[0].y - 2)
    for x in places.values():
        for panel in panels:
            foot = panel.y + _HEAD + _ROW * len(panel.spans)
            svg.line(
                x, panel.y + _HEAD - 3, x, foot, stroke=palette.VERMILLION, stroke_width="2", stroke_dasharray="4 3"
            )


def _draw_seconds(svg: Svg, scale: _Scale, y: float) -> None:
    every = ceil(max(1.0, round_step(max(1.0, scale.end - scale.start) / MOST_TIMES)))
    for second in range(ceil(scale.start), int(scale.end) + 1):
        label = f"{second} s"
        x = scale.across(second)
        if second % every == 0 and x <= WIDTH - text_width(label, 12) / 2:
            svg.text(x, y + 10, label, 12, anchor="middle", opacity=palette.FAINT)


def _in_words(groups: Mapping[str, Spans]) -> Iterator[str]:
    for heading, spans in groups.items():
        yield f"{heading}:"
        for partition, each in spans.items():
            some = ", ".join(f"{owner or 'no owner'} {begin:.1f} to {end:.1f} s" for owner, begin, end in each)
            yield f"  {partition}: {some}"


def _said(groups: Mapping[str, Spans]) -> Iterator[str]:
    """The same for the ear: the headings, then each partition's owners, and how often it had none."""
    yield from groups
    for heading, spans in groups.items():
        group = f"{heading.partition(':')[0]}, " if len(groups) > 1 else ""
        for partition, each in spans.items():
            owners = [owner for owner, _ in groupby(owner for owner, *_ in each if owner)]
            gaps = sum(not owner for owner, *_ in each)
            without = f"; {gaps} time{'s' * (gaps > 1)} without an owner" if gaps else ""
            yield f"{group}{partition}: {', then '.join(owners) or 'no member'}{without}"


def _spec(groups: Mapping[str, Spans], title: str) -> Spec:
    looks = Looks(_owners(groups), title)
    rows = [
        (f"{heading}, {partition}", span)
        for heading, spans in groups.items()
        for partition, each in spans.items()
        for span in each
        if span[0]
    ]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": member,
            "y": [row for row, span in rows if span[0] == member],
            "base": [span[1] for _, span in rows if span[0] == member],
            "x": [span[2] - span[1] for _, span in rows if span[0] == member],
            "marker": {"color": looks.colour(member)},
        }
        for member in looks
    ]
    axes = {"yaxis": {"autorange": "reversed"}, "xaxis": {"title": {"text": "seconds"}}}
    return {"data": data, "layout": layout(title, barmode="overlay", **axes)}
