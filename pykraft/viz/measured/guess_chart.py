"""A guess on the picture: bars that are known, the bar that the reader has guessed, and the real one beside it.

All bars share one axis, so a guess is a place on it. `PLOT` and `value_at` tell a live page where the axis is: there
the reader drags the guessed bar's end.
"""

import math
from collections.abc import Mapping

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, need, round_step
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import shortened

PLOT = (230.0, 730.0)
"""Where the axis begins and ends, in the drawing's pixels."""
_TOP, _ROW = 40.0, 32.0
GUESS, REAL = "your guess", "measured"


def guess_chart(
    known: Mapping[str, float],
    guess: float,
    real: float | None = None,
    *,
    axis: tuple[float, float],
    unit: str,
    title: str,
) -> Figure:
    """Draw the known values, the guess, and the real value with its distance if it is given. `axis` is the smallest
    value and the largest; what is infinite has not happened. ValueError for a guess that is not on the axis."""
    low, high = axis
    values = {**known, GUESS: guess, **({} if real is None else {REAL: real})}
    need((value for value in values.values() if value != math.inf), "guess_chart")
    if not low <= guess <= high:
        raise ValueError(f"a guess of {guess:g} is not between {low:g} and {high:g}")
    foot = _TOP + _ROW * len(values)
    svg = headed(title, "", foot + 44)
    left, right = PLOT
    for row, (name, value) in enumerate(values.items()):
        y, end = _TOP + _ROW * row, _place(min(high, max(low, value)), axis)
        filling = {GUESS: palette.ORANGE, REAL: palette.BLUE}.get(name, palette.SKY)
        svg.text(left - 10, y + 17, shortened(name, left - 11, 13), 13, anchor="end", bold=name == GUESS)
        marker = {"class": "guess-bar"} if name == GUESS else {}
        svg.rect(left, y, max(1.0, end - left), 23, fill=filling, stroke="currentColor", stroke_opacity="0.4", **marker)
        svg.text(right + 24, y + 17, shortened(_amount(value, unit), WIDTH - right - 24, 13), 13)
        if name == GUESS:
            handle = {"class": "guess-handle"}
            svg.rect(end - 4, y - 4, 8, 31, rx=3, fill=palette.VERMILLION, stroke="currentColor", **handle)
    step = round_step((high - low) / 5)
    for mark in (low + step * number for number in range(int((high - low) / step + 1e-9) + 1)):
        x = _place(mark, axis)
        svg.line(x, foot + 2, x, foot + 7, stroke="currentColor", stroke_opacity="0.6")
        svg.text(x, foot + 22, amount(mark), 12, anchor="middle", opacity=palette.FAINT)
    svg.line(left, foot + 2, right, foot + 2, stroke="currentColor", stroke_opacity="0.6")
    svg.text(right + 24, foot + 22, shortened(unit, WIDTH - right - 24, 12), 12, opacity=palette.FAINT)
    lines = [f"{name}: {_amount(value, unit)}" for name, value in values.items()]
    return finished(svg, title, "", lines, {})


def _amount(value: float, unit: str) -> str:
    return "never" if value == math.inf else amount(value, unit)


def distance(guess: float, real: float, unit: str) -> str:
    """How far a guess was off, in words."""
    if real == math.inf:
        return "it did not happen"
    off = abs(guess - real)
    return "exactly right" if off == 0 else f"{amount(off, unit)} too {'high' if guess > real else 'low'}"


def _place(value: float, axis: tuple[float, float]) -> float:
    low, high = axis
    left, right = PLOT
    return left + (right - left) * (value - low) / (high - low)
