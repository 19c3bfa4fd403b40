"""Lag: how far a group's committed offsets are behind the log ends of its partitions, and which consumer owns each.

`lag_over_time` draws a row for each partition. The upper line is the log end, the lower one the committed offset, and
the area between them is the lag. A bar below them names the consumer that owns the partition; it is empty while none
does. All rows have one scale, so equal heights are equal lags.

Consumers differ by colour and by the name in their bar. The text beside the picture has the same facts.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, draw_marks, finished, headed, layout, need
from pykraft.viz.drawing.figure import Figure, Spec
from pykraft.viz.drawing.svg import Svg, shortened, text_width

Seen = Sequence[tuple[float, int, int, str]]
"""What was seen of one partition, oldest first: the second, the committed offset, the log end, the consumer
that owns it ("" if none does)."""

_KEY, _TOP, _LEFT = 64.0, 118.0, 124.0
_LINES, _BAR, _ROW = 52.0, 17.0, 86.0
"""Heights: of the two lines, of the bar, and of a whole row."""
_OWNERS = (palette.BLUE, palette.GREEN, palette.PURPLE, palette.SKY)


class _Scales(NamedTuple):
    """Where a second is across, and how many pixels a record is high."""

    start_s: float
    pixels_per_s: float
    pixels_per_record: float

    def across(self, second: float) -> float:
        return _LEFT + (second - self.start_s) * self.pixels_per_s


def lag_over_time(
    partitions: Mapping[str, Seen], *, title: str, note: str = "", marks: Mapping[str, float] | None = None
) -> Figure:
    """A row for each partition. `marks` are moments with a name, in the same seconds. ValueError if nothing was seen,
    or if a partition was seen once only: one moment is no course."""
    moments = [second for seen in partitions.values() for second, *_ in seen]
    need(moments, "lag_over_time")
    if min(len(seen) for seen in partitions.values()) < 2:
        raise ValueError("lag_over_time needs at least two moments of each partition")
    start_s, end_s = min(moments), max(moments)
    highest = max(max(end for _, _, end, _ in seen) - _lowest(seen) for seen in partitions.values())
    scales = _Scales(start_s, (WIDTH - _LEFT - 10) / ((end_s - start_s) or 1.0), _LINES / (highest or 1))
    bottom = _TOP + _ROW * len(partitions) - (_ROW - _LINES - _BAR - 4)
    svg = headed(title, note, bottom + 30)
    _draw_key(svg)
    owners = sorted({owner for seen in partitions.values() for *_, owner in seen if owner})
    colours = {owner: _OWNERS[number % len(_OWNERS)] for number, owner in enumerate(owners)}
    for row, (name, seen) in enumerate(partitions.items()):
        top = _TOP + _ROW * row
        _draw_name(svg, name, seen, top)
        _draw_offsets(svg, seen, top, scales)
        _draw_owners(svg, seen, top + _LINES + 4, scales, colours)
    for second in range(int(start_s), int(end_s) + 1):
        label = f"{second} s"
        x = scales.across(second)
        if _LEFT <= x <= WIDTH - text_width(label, 12) / 2:
            svg.text(x, bottom + 20, label, 12, anchor="middle", opacity=palette.FAINT)
    draw_marks(svg, {name: scales.across(moment) for name, moment in (marks or {}).items()}, _TOP, bottom)
    words = [f"{name}: at {moment:.2f} s" for name, moment in (marks or {}).items()]
    words += [f"{name}: {_in_words(seen)}" for name, seen in partitions.items()]
    return finished(svg, title, note, words, _spec(partitions, title))


def _lowest(seen: Seen) -> int:
    """The offset at the foot of a row."""
    return min(committed for _, committed, _, _ in seen)


def _draw_key(svg: Svg) -> None:
    x = 0.0
    for name in ("log end", "committed", "lag"):
        if name == "lag":
            svg.rect(x, _KEY - 4, 26, 12, fill=palette.ORANGE, fill_opacity="0.45")
        else:
            svg.line(x, _KEY + 2, x + 26, _KEY + 2, **_line(name))
        x = svg.text(x + 32, _KEY + 6, name, 12.5).right + 22


def _line(name: str) -> dict[str, object]:
    """How a line looks: the log end is dashed."""
    dash = "5 3" if name == "log end" else None
    return {"stroke": "currentColor", "stroke_width": "1.8", "stroke_dasharray": dash}


def _draw_name(svg: Svg, name: str, seen: Seen, top: float) -> None:
    """The partition, and its largest lag."""
    _, committed, end, _ = _largest_lag(seen)
    svg.text(_LEFT - 10, top + 26, shortened(name, _LEFT - 11, 12.5, bold=True), 12.5, anchor="end", bold=True)
    lag = shortened(f"lag up to {amount(end - committed)}", _LEFT - 11, 12)
    svg.text(_LEFT - 10, top + 44, lag, 12, anchor="end")


def _largest_lag(seen: Seen) -> tuple[float, int, int, str]:
    return max(seen, key=lambda each: each[2] - each[1])


def _draw_offsets(svg: Svg, seen: Seen, top: float, scales: _Scales) -> None:
    """The two lines, and the area between them."""
    foot, lowest = top + _LINES, _lowest(seen)

    def placed(second: float, offset: int) -> tuple[float, float]:
        return scales.across(second), foot - (offset - lowest) * scales.pixels_per_record

    ends = _points([placed(second, end) for second, _, end, _ in seen])
    steps = _points(list(_stairs([placed(second, committed) for second, committed, _, _ in seen])))
    back = " ".join(reversed(steps.split()))
    svg.element("polygon", points=f"{ends} {back}", fill=palette.ORANGE, fill_opacity="0.45")
    svg.line(_LEFT, foot, WIDTH - 10, foot, stroke="currentColor", stroke_opacity="0.3")
    for name, points in (("log end", ends), ("committed", steps)):
        svg.element("polyline", points=points, fill="none", **_line(name))


def _stairs(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """An offset holds until the next commit: a line of steps."""
    yield points[0]
    for (_, before), (x, after) in pairwise(points):
        yield x, before
        yield x, after


def _points(points: Sequence[tuple[float, float]]) -> str:
    """As SVG has them, without those in the middle of a level stretch."""
    corners = [
        point
        for number, point in enumerate(points)
        if number in (0, len(points) - 1) or not points[number - 1][1] == point[1] == points[number + 1][1]
    ]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _spans(seen: Seen) -> list[tuple[str, float, float]]:
    """Which consumer owned the partition, from when until when."""
    changes = [(owner, next(iter(group))[0]) for owner, group in groupby(seen, key=lambda each: each[3])]
    moments = [moment for _, moment in changes[1:]] + [seen[-1][0]]
    return [(owner, begin, end) for (owner, begin), end in zip(changes, moments, strict=True)]


def _draw_owners(svg: Svg, seen: Seen, y: float, scales: _Scales, colours: Mapping[str, str]) -> None:
    for owner, begin, end in _spans(seen):
        x, width = scales.across(begin), (end - begin) * scales.pixels_per_s
        filling = colours.get(owner, "none")
        dash = None if owner else "4 3"
        svg.rect(
            x, y, width, _BAR, rx=3, fill=filling, stroke="currentColor", stroke_opacity="0.5", stroke_dasharray=dash
        )
        text = owner or "no owner"
        if text_width(text, 12) <= width - 8:
            ink = palette.ink_on(filling) if owner else None
            svg.text(x + width / 2, y + 13, text, 12, anchor="middle", fill=ink)


def _in_words(seen: Seen) -> str:
    spans = ", ".join(f"{owner or 'no owner'} from {begin:.2f} s to {end:.2f} s" for owner, begin, end in _spans(seen))
    second, committed, end, _ = _largest_lag(seen)
    last = seen[-1]
    return (
        f"{spans}; the lag is {amount(end - committed)} at most, at {second:.2f} s,"
        f" and {amount(last[2] - last[1])} at the end"
    )


def _spec(partitions: Mapping[str, Seen], title: str) -> Spec:
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{name}, {line}",
            "x": [each[0] for each in seen],
            "y": [each[column] for each in seen],
            "line": {"shape": "hv" if line == "committed" else "linear", "dash": dash},
        }
        for name, seen in partitions.items()
        for column, line, dash in ((1, "committed", "solid"), (2, "log end", "dash"))
    ]
    return {"data": data, "layout": layout(title, xaxis={"title": {"text": "seconds"}})}
