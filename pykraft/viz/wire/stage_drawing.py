"""Where the requests of a broker are: in sockets, with network threads, in the queue, with handlers, in purgatory.

One square is one request. A dashed square is a place that is free. From left to right a request passes through the
stages of kafka.network.SocketServer; in purgatory it waits for records or followers, and no thread waits with it. The
text beside the picture has the same numbers.
"""

from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg

_TOP, _CELL, _GAP = 92.0, 18.0, 5.0
_IN_A_ROW = 4
MOST_SQUARES = 24
"""In one stage; the number below it counts all."""


class StageCounts(NamedTuple):
    """How many requests are where."""

    sockets: int
    """Connections whose next request is unread."""
    network: int
    """Requests that a network thread cannot get rid of: the queue is full."""
    network_threads: int
    queue: int
    capacity: int
    handlers: int
    """Handlers that have a request."""
    handler_threads: int
    purgatory: int

    @property
    def inside(self) -> int:
        """Requests that were read and wait for a thread."""
        return self.network + self.queue + self.handlers


def broker_stages(counts: StageCounts, *, title: str, note: str = "") -> Figure:
    """Draw them."""
    columns = [
        ("sockets", "in sockets", counts.sockets, counts.sockets, palette.YELLOW),
        ("network", "network threads", counts.network, counts.network_threads, palette.SKY),
        ("queue", "request queue", counts.queue, counts.capacity, palette.ORANGE),
        ("handlers", "handlers", counts.handlers, counts.handler_threads, palette.GREEN),
        ("purgatory", "purgatory", counts.purgatory, counts.purgatory, palette.PURPLE),
    ]
    rows = max(-(-_drawn(used, places) // _IN_A_ROW) for _, _, used, places, _ in columns)
    svg = headed(title, note, _TOP + max(rows, 2) * (_CELL + _GAP) + 44)
    width = WIDTH / len(columns)
    for number, (_, name, used, places, look) in enumerate(columns):
        _draw_column(svg, number * width, name, used, places, look)
        if number:
            _draw_arrow(svg, number * width - 26, _TOP + _CELL / 2, is_dashed=number == len(columns) - 1)
    words = [f"{name}: {used}" + (f" of {places}" if key in _OF else "") for key, name, used, places, _ in columns]
    return finished(svg, title, note, words, {"data": [], "layout": {}})


_OF = ("network", "queue", "handlers")


def _draw_column(svg: Svg, left: float, name: str, used: int, places: int, look: str) -> None:
    svg.text(left, _TOP - 16, name, 13, bold=True)
    for place in range(_drawn(used, places)):
        x = left + place % _IN_A_ROW * (_CELL + _GAP)
        y = _TOP + place // _IN_A_ROW * (_CELL + _GAP)
        is_used = place < used
        svg.rect(
            x, y, _CELL, _CELL, rx=3, fill=look if is_used else "none", stroke="currentColor",
            stroke_width="1", stroke_dasharray=None if is_used else "3 3",
        )  # fmt: skip
    rows = max(1, -(-_drawn(used, places) // _IN_A_ROW))
    counted = str(used) if places <= MOST_SQUARES else f"{used:,} of {places:,}"
    svg.text(left, _TOP + rows * (_CELL + _GAP) + 16, counted, 13)


def _drawn(used: int, places: int) -> int:
    return min(max(used, places), MOST_SQUARES)


def _draw_arrow(svg: Svg, x: float, y: float, is_dashed: bool) -> None:
    svg.line(
        x - 12, y, x + 4, y, stroke="currentColor", stroke_width="1.5", stroke_dasharray="3 3" if is_dashed else None
    )
    svg.element("polygon", points=f"{x + 10:g},{y:g} {x + 2:g},{y - 4:g} {x + 2:g},{y + 4:g}", fill="currentColor")
