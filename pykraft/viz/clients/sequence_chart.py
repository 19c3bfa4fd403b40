"""Messages between several hosts, and what a host writes meanwhile: from top to bottom, in the order of their times.

Each host has a line down the page. A message is an arrow, with its name and the time at which it was sent; what a host
writes is a box on its line. What comes after `shown` rows is pale: it has not happened yet. The text beside the picture
has the rows that are shown.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykraft.viz.drawing import palette
from pykraft.viz.drawing.charts import WIDTH, finished, headed
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.svg import Svg, shortened, text_width

Host = int | str
_TOP, _ROW, _LEFT = 112.0, 34.0, 84.0
_PALE = 0.3


class Row(NamedTuple):
    """A message, or (without a receiver) what `sender` writes."""

    ms: float
    sender: Host
    receiver: Host | None
    label: str


def sequence(hosts: Mapping[Host, str], rows: Sequence[Row], *, shown: int, title: str, note: str = "") -> Figure:
    """Draw the rows between these hosts, each of which has its name. ValueError if there is nothing to draw."""
    if not hosts or not rows:
        raise ValueError("sequence needs at least one host and one row")
    foot = _TOP + _ROW * len(rows)
    svg = headed(title, note, foot + 14)
    width = (WIDTH - _LEFT) / len(hosts)
    places = {host: _LEFT + width * (number + 0.5) for number, host in enumerate(hosts)}
    for host, name in hosts.items():
        for number, line in enumerate(name.split("\n")):
            svg.text(places[host], 72 + 17 * number, shortened(line, width - 8, 13, bold=not number), 13,
                     anchor="middle", bold=not number)  # fmt: skip
        svg.line(places[host], _TOP - 14, places[host], foot, stroke="currentColor", stroke_opacity="0.4")
    for number, row in enumerate(rows):
        opacity = 1.0 if number < shown else _PALE
        y = _TOP + _ROW * (number + 0.5)
        svg.text(_LEFT - 10, y + 4, f"{row.ms:,.0f} ms", 12, anchor="end", opacity=opacity)
        if row.receiver is None:
            _draw_box(svg, places[row.sender], y, row.label, opacity)
        else:
            _draw_arrow(svg, places[row.sender], places[row.receiver], y, opacity)
            beside = (
                1 if places[row.receiver] > places[row.sender] else -1
            )  # no other host's line runs through its name
            label = shortened(row.label, width - 20, 12.5)
            svg.text(places[row.sender] + beside * width / 2, y, label, 12.5, anchor="middle", opacity=opacity)
    words = [_in_words(hosts, row) for row in rows[:shown]]
    return finished(svg, title, note, words, {"data": [], "layout": {"title": {"text": title}}})


def _draw_box(svg: Svg, x: float, y: float, label: str, opacity: float) -> None:
    width = text_width(label, 12.5, bold=True) + 16
    svg.rect(x - width / 2, y - 11, width, 22, rx=4, fill=palette.SKY, fill_opacity=opacity, stroke="currentColor",
             stroke_opacity=opacity)  # fmt: skip
    ink = palette.ink_on(palette.SKY) if opacity == 1.0 else None
    svg.text(x, y + 4.5, label, 12.5, anchor="middle", bold=True, fill=ink, opacity=opacity)


def _draw_arrow(svg: Svg, x: float, to: float, y: float, opacity: float) -> None:
    back = 9 if to < x else -9
    svg.line(x, y + 6, to + back / 2, y + 6, stroke="currentColor", stroke_width="1.6", stroke_opacity=opacity)
    points = f"{to:g},{y + 6:g} {to + back:g},{y + 1:g} {to + back:g},{y + 11:g}"
    svg.element("polygon", points=points, fill="currentColor", fill_opacity=opacity)


def _in_words(hosts: Mapping[Host, str], row: Row) -> str:
    sender = hosts[row.sender].split("\n")[0]
    if row.receiver is None:
        return f"{row.ms:,.0f} ms: {sender} writes {row.label}"
    return f"{row.ms:,.0f} ms: {sender} to {hosts[row.receiver].split(chr(10))[0]}: {row.label}"
