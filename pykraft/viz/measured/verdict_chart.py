"""Sentences that were put to the test: a row for each, with what was claimed, what was found, and the verdict.

::

    shaded      factors that make the claim hold
    dot         the factor that was found: filled if the claim holds, empty if it does not

All rows have one logarithmic axis of factors. The two numbers that a factor divides are written below the sentence.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, need
from pykraft.viz.drawing.figure import Figure, Spec
from pykraft.viz.drawing.svg import shortened
from pykraft.viz.measured.pairs_chart import log_marks

_TOP, _ROW = 78.0, 46.0
_LEFT, _RIGHT = 400.0, 128.0


class Finding(NamedTuple):
    """What came of one claim."""

    compared: tuple[str, str]
    values: tuple[float, float]
    """A typical measurement of each."""
    unit: str
    factor: float
    """The first divided by the second: the median of all pairs."""
    holds_from: float
    """From this factor on the claim holds; up to it, if it is `at_most`."""
    at_most: bool
    verdict: str


def verdicts(findings: Mapping[str, Finding], *, title: str, note: str = "") -> Figure:
    """Draw a row for each sentence. ValueError if there is nothing to draw, or a factor that is not above zero."""
    factors = [number for each in findings.values() for number in (each.factor, each.holds_from)]
    need(factors, "verdicts")
    if min(factors) <= 0:
        raise ValueError("verdicts needs factors above zero")
    low, high = min(*factors, 1.0) / 1.5, max(*factors, 1.0) * 1.5
    right = WIDTH - _RIGHT

    def at(factor: float) -> float:
        return _LEFT + (right - _LEFT) * math.log(factor / low) / math.log(high / low)

    foot = _TOP + _ROW * len(findings)
    svg = headed(title, note, foot + 44)
    for mark in log_marks(low, high):
        svg.line(
            at(mark), _TOP - 8, at(mark), foot, stroke="currentColor", stroke_opacity="0.45" if mark == 1 else "0.15"
        )
        svg.text(at(mark), foot + 16, amount(mark), 12, anchor="middle", opacity=palette.FAINT)
    for number, (said, found) in enumerate(findings.items()):
        y = _TOP + _ROW * number
        svg.text(0, y + 12, shortened(said, _LEFT - 14, 13, bold=True), 13, bold=True)
        svg.text(0, y + 30, shortened(_numbers(found), _LEFT - 14, 12.5), 12.5, opacity=palette.FAINT)
        edge = at(found.holds_from)
        start, end = (_LEFT, edge) if found.at_most else (edge, right)
        svg.rect(start, y, end - start, 30, fill=palette.SKY, fill_opacity="0.3")
        is_held = found.verdict == "HOLDS"
        svg.element(
            "circle", cx=f"{at(found.factor):.1f}", cy=f"{y + 15:g}", r=6.5, stroke=palette.BLUE, stroke_width="3",
            fill=palette.BLUE if is_held else "none",
        )  # fmt: skip
        svg.text(right + 12, y + 19, shortened(found.verdict, _RIGHT - 12, 12.5, bold=True), 12.5, bold=True)
    label = "factor, logarithmic; the claim holds in the shaded range"
    svg.text(right, foot + 34, label, 12.5, anchor="end", opacity=palette.FAINT)
    words = [
        f"{each.verdict}: {said}; {_numbers(each)}; factor {amount(each.factor)}" for said, each in findings.items()
    ]
    return finished(svg, title, note, words, _spec(findings, title))


def _numbers(found: Finding) -> str:
    (first, second), (one, other) = found.compared, found.values
    return f"{first} / {second}: {amount(one)} / {amount(other)} {found.unit}"


def _spec(findings: Mapping[str, Finding], title: str) -> Spec:
    data = [{"type": "scatter", "x": [each.factor for each in findings.values()], "y": list(findings)}]
    return {"data": data, "layout": {"title": {"text": title}}}
