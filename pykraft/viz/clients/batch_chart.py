"""Batches: how long records wait in a producer, and in which order a leader has appended them.

`batches_over_time` has a row for each producer, and in it one bar for each batch::

    triangle     the program sends a record
    light bar    the batch waits in the producer, from its first record on
    dark bar     it is under way, until its response arrives; the number in it counts its records

`log_orders` draws the records of a partition in the order of their offsets, a row for each log::

    filled           the record comes after all smaller numbers, for the first time
    framed, late     a larger number is in the log before it
    framed, again    it is in the log already

The text beside each picture has the same facts.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, amount, finished, headed, need, round_step
from pykraft.viz.drawing.figure import Figure, Spec
from pykraft.viz.drawing.svg import Svg, shortened, text_width

_TOP, _LANE, _BAR = 60.0, 19.0, 15.0
_RECORDS = 20.0
_BETWEEN = 26.0
_MOST_LISTED = 20
"""The text lists at most this many batches of a row."""
_RIGHT = 128.0
_WIDEST_NAME = 210.0
MOST_CELLS = 24
_CELL, _ORDER_ROW = 34.0, 58.0


class SentBatch(NamedTuple):
    """A batch in one request. Times are milliseconds since the same moment."""

    partition: int
    appended_ms: tuple[float, ...]
    """When the program sent each record."""
    sent_ms: float
    answered_ms: float
    request: int
    """Counts the requests: batches that travel together have the same number."""
    size: int
    """In bytes, with its header."""

    @property
    def records(self) -> int:
        return len(self.appended_ms)


def batches_over_time(
    rows: Mapping[str, Sequence[SentBatch]], *, until_ms: float, title: str, note: str = ""
) -> Figure:
    """Draw the batches of each producer up to `until_ms`; what is written beside a row counts all of them. ValueError
    if there is nothing to draw."""
    shown = {name: [batch for batch in some if min(batch.appended_ms) < until_ms] for name, some in rows.items()}
    need([batch.sent_ms for some in shown.values() for batch in some], "batches_over_time", begin_at_zero=True)
    left = _name_width(rows)
    scale = (WIDTH - left - _RIGHT) / until_ms
    lanes = {name: _lanes(some) for name, some in shown.items()}
    height = sum(_RECORDS + _LANE * (max(found, default=0) + 1) + _BETWEEN for found in lanes.values())
    svg = headed(title, note, _TOP + height + 46)
    y = _TOP
    for name, some in shown.items():
        svg.text(0, y + 30, shortened(name, left - 10, 13, bold=True), 13, bold=True)
        svg.text(WIDTH - _RIGHT + 10, y + 24, amount(_requests(rows[name]), "requests"), 13)
        svg.text(WIDTH - _RIGHT + 10, y + 42, f"median {amount(_median_ms(rows[name]), 'ms')}", 13)
        for batch, lane in zip(some, lanes[name], strict=True):
            _draw_batch(svg, batch, left, scale, y + _RECORDS + _LANE * lane, until_ms)
            for moment in batch.appended_ms:
                if moment <= until_ms:
                    svg.element(
                        "path", d=f"M{left + moment * scale:.1f} {y + 14:.1f}l-4 -9h8z", fill=palette.VERMILLION
                    )
        y += _RECORDS + _LANE * (max(lanes[name], default=0) + 1) + _BETWEEN
    _draw_axis(svg, left, scale, until_ms, y)
    legend = (
        "triangle: a record is sent · light: its batch waits · dark: the batch is under way, with this many records"
    )
    svg.text(left, y + 36, shortened(legend, WIDTH - left, 12.5), 12.5, opacity=palette.FAINT)
    return finished(svg, title, note, [_in_words(name, some) for name, some in rows.items()], _spec(rows, title))


def _name_width(names: Iterable[str]) -> float:
    return 14 + min(_WIDEST_NAME, max(text_width(name, 13, bold=True) for name in names))


def _lanes(some: Sequence[SentBatch]) -> list[int]:
    """For each batch the first lane in which no earlier one is left."""
    free: list[float] = []
    found = []
    for batch in some:
        start = min(batch.appended_ms)
        lane = next((number for number, end in enumerate(free) if end <= start), len(free))
        free[lane : lane + 1] = [batch.answered_ms]
        found.append(lane)
    return found


def _draw_batch(svg: Svg, batch: SentBatch, left: float, scale: float, top: float, until_ms: float) -> None:
    moments = (min(batch.appended_ms), batch.sent_ms, batch.answered_ms)
    start, sent, end = (left + scale * min(moment, until_ms) for moment in moments)
    if sent > start:
        svg.rect(start, top, sent - start, _BAR, fill=palette.SKY)
    if end > sent:
        svg.rect(sent, top, max(1.0, end - sent - 1), _BAR, fill=palette.BLUE)
    label = str(batch.records)
    if text_width(label, 12) < end - sent - 4:
        svg.text((sent + end) / 2, top + 12, label, 12, anchor="middle", fill=palette.ink_on(palette.BLUE))


def _draw_axis(svg: Svg, left: float, scale: float, until_ms: float, y: float) -> None:
    svg.line(left, y, left + scale * until_ms, y, stroke="currentColor", stroke_opacity="0.6")
    step = round_step(until_ms / 6)
    for number in range(int(until_ms / step + 1e-9) + 1):
        moment = number * step
        svg.text(left + scale * moment, y + 16, amount(moment, "ms"), 12, anchor="middle", opacity=palette.FAINT)


def _requests(some: Iterable[SentBatch]) -> int:
    return len({batch.request for batch in some})


def _median_ms(some: Iterable[SentBatch]) -> float:
    """From a record's sending to the response: the median over all records."""
    return median([batch.answered_ms - moment for batch in some for moment in batch.appended_ms] or [0.0])


def _in_words(name: str, some: Sequence[SentBatch]) -> str:
    records = sum(batch.records for batch in some)
    first = ", ".join(str(batch.records) for batch in some[:_MOST_LISTED])
    more = ", …" if len(some) > _MOST_LISTED else ""
    return (
        f"{name}: {records} records in {_requests(some)} requests, a record is acknowledged after "
        f"{_median_ms(some):.1f} ms in the median; records of each batch: {first}{more}"
    )


def _spec(rows: Mapping[str, Sequence[SentBatch]], title: str) -> Spec:
    data = [
        {"type": "bar", "name": name, "x": [b.sent_ms for b in some], "y": [b.records for b in some]}
        for name, some in rows.items()
    ]
    return {"data": data, "layout": {"title": {"text": title}}}


# --- the order in a log -----------------------------------------------------------------------------------------------


class Trouble(NamedTuple):
    """What is wrong with an order of numbers."""

    late: tuple[int, ...]
    """Those that come for the first time after a larger one."""
    again: tuple[int, ...]
    """Those that come more than once."""

    def __str__(self) -> str:
        parts = [f"{_listed(self.late)} late"] * bool(self.late) + [f"{_listed(self.again)} twice"] * bool(self.again)
        return ", ".join(parts) or "each once, in order"


def trouble_in(order: Sequence[int]) -> Trouble:
    """The numbers that are late, and those that are there again."""
    states = _states(order)
    return Trouble(
        tuple(sorted({number for number, state in zip(order, states, strict=True) if state == "late"})),
        tuple(sorted({number for number, state in zip(order, states, strict=True) if state == "again"})),
    )


def _states(order: Sequence[int]) -> list[str]:
    seen: set[int] = set()
    states = []
    for number in order:
        states.append("again" if number in seen else "late" if seen and number < max(seen) else "")
        seen.add(number)
    return states


def _listed(numbers: Sequence[int]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return " and ".join(map(str, numbers))


def log_orders(logs: Mapping[str, Sequence[int]], *, title: str, note: str = "") -> Figure:
    """Draw each log's records in the order of their offsets. ValueError if there is nothing to draw, or more than
    `MOST_CELLS` in a log."""
    longest = max(map(len, logs.values()), default=0)
    if not 1 <= longest <= MOST_CELLS:
        raise ValueError(f"log_orders draws 1 to {MOST_CELLS} records in a row, not {longest}")
    left = _name_width(logs)
    cell = min(_CELL, (WIDTH - left - 150) / longest)
    foot = _TOP + _ORDER_ROW * len(logs)
    svg = headed(title, note, foot + 40)
    for row, (name, order) in enumerate(logs.items()):
        y = _TOP + _ORDER_ROW * row
        svg.text(0, y + 20, shortened(name, left - 10, 13, bold=True), 13, bold=True)
        for offset, (number, state) in enumerate(zip(order, _states(order), strict=True)):
            _draw_cell(svg, left + cell * offset, y, cell, number, state)
        x = left + cell * len(order) + 8
        svg.text(x, y + 20, shortened(str(trouble_in(order)), WIDTH - x, 13), 13)
    for offset in range(longest):
        svg.text(left + cell * (offset + 0.5), foot, str(offset), 12, anchor="middle", opacity=palette.FAINT)
    svg.text(left - 8, foot, "place", 12, anchor="end", opacity=palette.FAINT)
    legend = "light: in order · dark, framed: late, a larger number is before it · dashed: there already"
    svg.text(left, foot + 26, shortened(legend, WIDTH - left, 12.5), 12.5, opacity=palette.FAINT)
    words = [f"{name}: {', '.join(map(str, order))} ({trouble_in(order)})" for name, order in logs.items()]
    return finished(svg, title, note, words, {"data": [], "layout": {"title": {"text": title}}})


def _draw_cell(svg: Svg, x: float, y: float, cell: float, number: int, state: str) -> None:
    filling = {"": palette.SKY, "late": palette.VERMILLION, "again": "none"}[state]
    svg.rect(
        x, y, cell - 4, 30, rx=4, fill=filling, stroke="currentColor",
        stroke_width="1" if not state else "2.5", stroke_dasharray="4 3" if state == "again" else None,
    )  # fmt: skip
    ink = palette.ink_on(filling) if state != "again" else None
    svg.text(x + (cell - 4) / 2, y + 20, str(number), 14, anchor="middle", bold=bool(state), fill=ink)
