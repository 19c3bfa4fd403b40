"""Pairs of measurements: a row for each pair, a dot at its factor, and what the factors mean.

The axis is logarithmic. Two ranges are shaded, one at each end: a dot in one of them speaks for the verdict that is
written above it, and a dot between them for neither. The two measurements are written beside each row.
"""

import math
from collections.abc import Sequence
from statistics import median

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, need
from pykraft.viz.drawing.figure import Figure, Spec
from pykraft.viz.drawing.svg import Svg, shortened

_TOP, _ROW, _LEFT, _RIGHT = 96.0, 22.0, 60.0, 190.0


def factors_of_pairs(
    pairs: Sequence[tuple[float, float]],
    *,
    compared: tuple[str, str],
    bounds: tuple[float, float],
    ranges: tuple[str, str],
    title: str,
    note: str = "",
    unit: str = "",
) -> Figure:
    """Draw the factor of each pair, the first number divided by the second. Up to ``bounds[0]`` a factor is in the
    first range, from ``bounds[1]`` on in the second. ValueError without pairs, or for a number that is not above zero.
    """
    need([value for pair in pairs for value in pair], "factors_of_pairs")
    if min(value for pair in pairs for value in pair) <= 0:
        raise ValueError("factors_of_pairs needs numbers above zero: a factor divides one by the other")
    factors = [first / second for first, second in pairs]
    lowest, highest = min(*factors, bounds[0]) / 1.6, max(*factors, bounds[1]) * 1.6
    right = WIDTH - _RIGHT

    def at(factor: float) -> float:
        return _LEFT + (right - _LEFT) * math.log(factor / lowest) / math.log(highest / lowest)

    foot = _TOP + _ROW * len(pairs) + 6
    svg = headed(title, note, foot + 46)
    _draw_ranges(svg, (at(bounds[0]), at(bounds[1])), (_LEFT, right), foot, bounds, ranges)
    middle = at(median(factors))
    svg.line(middle, _TOP - 8, middle, foot, stroke="currentColor", stroke_width="1.4", stroke_dasharray="5 4")
    svg.text(right + 14, _TOP - 14, shortened(f"{compared[0]} / {compared[1]}", _RIGHT - 14, 12), 12)
    for number, (pair, factor) in enumerate(zip(pairs, factors, strict=True), 1):
        y = _TOP + _ROW * number - 8
        svg.text(_LEFT - 10, y + 4, f"pair {number}", 12, anchor="end", opacity=palette.FAINT)
        svg.line(_LEFT, y, right, y, stroke="currentColor", stroke_opacity="0.15")
        svg.element("circle", cx=f"{at(factor):.1f}", cy=f"{y:g}", r=5.5, fill=palette.BLUE, stroke="currentColor")
        svg.text(right + 14, y + 4, f"{amount(pair[0])} / {amount(pair[1])} {unit}", 12)
    for mark in log_marks(lowest, highest):
        svg.text(at(mark), foot + 17, amount(mark), 12, anchor="middle", opacity=palette.FAINT)
        svg.line(at(mark), foot, at(mark), foot + 4, stroke="currentColor", stroke_opacity="0.6")
    svg.line(_LEFT, foot, right, foot, stroke="currentColor", stroke_opacity="0.6")
    label = f"factor, logarithmic; the dashed line is the median, {amount(median(factors))}"
    svg.text(right, foot + 36, label, 12.5, anchor="end", opacity=palette.FAINT)
    words = [
        f"pair {number}: {first:.3g} / {second:.3g} {unit} = {first / second:.3g}".replace("  ", " ")
        for number, (first, second) in enumerate(pairs, 1)
    ]
    words += [f"up to {bounds[0]:g}: {ranges[0]}; from {bounds[1]:g} on: {ranges[1]}; median {amount(median(factors))}"]
    return finished(svg, title, note, words, _spec(factors, title))


def _draw_ranges(
    svg: Svg,
    places: tuple[float, float],
    ends: tuple[float, float],
    foot: float,
    bounds: tuple[float, float],
    ranges: tuple[str, str],
) -> None:
    spans = ((ends[0], places[0]), (places[1], ends[1]))
    words = (f"{ranges[0]}: up to {bounds[0]:.3g}", f"{ranges[1]}: from {bounds[1]:.3g}")
    for (start, end), said, anchor in zip(spans, words, ("start", "end"), strict=True):
        svg.rect(start, _TOP - 8, end - start, foot - _TOP + 8, fill=palette.SKY, fill_opacity="0.22")
        edge = start if anchor == "start" else end
        room = (ends[1] - ends[0]) / 2 - 8
        svg.text(edge, _TOP - 14, shortened(said, room, 12.5, bold=True), 12.5, anchor=anchor, bold=True)
        line = end if anchor == "start" else start
        svg.line(line, _TOP - 8, line, foot, stroke=palette.VERMILLION, stroke_width="2")


def log_marks(lowest: float, highest: float) -> list[float]:
    """Round numbers on a logarithmic axis: 1, 2 and 5 in a short one, powers of ten in a long one."""
    steps = (1, 2, 5) if highest / lowest < 300 else (1,)
    first, last = math.floor(math.log10(lowest)), math.ceil(math.log10(highest))
    powers = range(first, last + 1, max(1, (last - first) // 6))
    return [step * 10.0**power for power in powers for step in steps if lowest <= step * 10.0**power <= highest]


def _spec(factors: Sequence[float], title: str) -> Spec:
    data = [{"type": "scatter", "mode": "markers", "x": list(factors), "y": list(range(1, len(factors) + 1))}]
    return {"data": data, "layout": {"title": {"text": title}, "xaxis": {"type": "log"}}}
