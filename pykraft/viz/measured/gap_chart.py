"""The log end of a partition above its high watermark: what is between them is not committed, and is filled.

Both are steps: they stay where they are until something happens. A strip below has the in-sync replicas, and changes
where a follower leaves or comes back.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, round_step
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, text_width

_LEFT, _TOP, _HEIGHT, _RIGHT, _STRIP = 56.0, 72.0, 210.0, 8.0, 24.0
At = Callable[[float, float], tuple[float, float]]
"""From milliseconds and an offset to a place."""
_COLOURS = (palette.SKY, palette.YELLOW, palette.PURPLE, palette.GREEN)


class State(NamedTuple):
    """A partition from this moment on, as its leader knows it."""

    ms: float
    log_end: int
    high_watermark: int
    isr: tuple[int, ...]


def gap_chart(states: Sequence[State], *, until_ms: float, title: str, note: str = "") -> Figure:
    """Draw both marks, and the ISR below. ValueError without a state."""
    if not states:
        raise ValueError("gap_chart needs a state")
    floor, ceiling = min(each.high_watermark for each in states), max(each.log_end for each in states) + 1
    across, up = (WIDTH - _LEFT - _RIGHT) / until_ms, _HEIGHT / max(1, ceiling - floor)
    foot = _TOP + _HEIGHT
    svg = headed(title, note, foot + _STRIP + 76)

    def at(ms: float, offset: float) -> tuple[float, float]:
        return _LEFT + min(ms, until_ms) * across, foot - (offset - floor) * up

    top = _stairs([at(each.ms, each.log_end) for each in states], at(until_ms, 0)[0])
    low = _stairs([at(each.ms, each.high_watermark) for each in states], at(until_ms, 0)[0])
    points = [*top, *reversed(low)]
    svg.path(f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in points)}z", fill=palette.ORANGE, fill_opacity="0.45")
    for line, colour, width in ((top, palette.VERMILLION, "2"), (low, palette.BLUE, "3")):
        svg.path(f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in line)}", fill="none", stroke=colour, stroke_width=width)
    _draw_axes(svg, at, (floor, ceiling), until_ms)
    _draw_isr(svg, states, at, foot + 30, until_ms)
    key = "red: log end · blue: high watermark · filled: not committed yet"
    svg.text(_LEFT, foot + _STRIP + 64, key, 12.5, opacity=palette.FAINT)
    return finished(svg, title, note, list(_in_words(states)), {"data": [], "layout": {}})


def _stairs(points: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    """Level from each point to the next one, and to the end."""
    found: list[tuple[float, float]] = []
    for x, y in points:
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return [*found, (end, found[-1][1])]


def _draw_axes(svg: Svg, at: At, bounds: tuple[int, int], until_ms: float) -> None:
    left, foot = at(0, bounds[0])
    svg.line(left, foot, WIDTH - _RIGHT, foot, stroke="currentColor", stroke_opacity="0.6")
    svg.line(left, foot, left, _TOP, stroke="currentColor", stroke_opacity="0.6")
    svg.text(0, _TOP - 8, "offset", 12, opacity=palette.FAINT)
    step = max(1, round_step((bounds[1] - bounds[0]) / 5))
    for number in range(0, bounds[1] + 1, int(step)):
        if number >= bounds[0]:
            svg.text(left - 8, at(0, number)[1] + 4, f"{number:,}", 12, anchor="end", opacity=palette.FAINT)
    step_ms = round_step(until_ms / 8)
    for count in range(int(until_ms / step_ms) + 1):
        words = f"{amount(count * step_ms)} ms"
        x = min(at(count * step_ms, 0)[0], WIDTH - _RIGHT - text_width(words, 12) / 2)
        svg.text(x, foot + 18, words, 12, anchor="middle", opacity=palette.FAINT)


def _draw_isr(svg: Svg, states: Sequence[State], at: At, y: float, until_ms: float) -> None:
    svg.text(0, y + 17, "ISR", 13, bold=True)
    spans = _spans(states)
    known = list(dict.fromkeys(isr for _, isr in spans))
    for number, (start, isr) in enumerate(spans):
        ends = [later for later, _ in spans[number + 1 :]]
        left, right = at(start, 0)[0], at(ends[0] if ends else until_ms, 0)[0]
        colour = _COLOURS[known.index(isr) % len(_COLOURS)]
        svg.rect(left, y, right - left - 1, _STRIP, fill=colour, stroke="currentColor", stroke_opacity="0.5")
        words = ", ".join(map(str, isr))
        if text_width(words, 12.5) < right - left - 6:
            svg.text((left + right) / 2, y + 17, words, 12.5, anchor="middle", fill=palette.ink_on(colour))


def _spans(states: Sequence[State]) -> list[tuple[float, tuple[int, ...]]]:
    found: list[tuple[float, tuple[int, ...]]] = []
    for each in states:
        if not found or found[-1][1] != each.isr:
            found.append((each.ms, each.isr))
    return found


def widest(states: Sequence[State]) -> State:
    """The state in which most records are not committed."""
    return max(states, key=lambda each: each.log_end - each.high_watermark)


def _in_words(states: Sequence[State]) -> Iterator[str]:
    most = widest(states)
    yield f"at most {most.log_end - most.high_watermark} records are not committed, at {amount(most.ms)} ms"
    last = states[-1]
    yield f"in the end: log end {last.log_end}, high watermark {last.high_watermark}"
    for start, isr in _spans(states):
        yield f"from {amount(start)} ms on the ISR is {', '.join(map(str, isr))}"
