"""What is between the nodes of a board: links that are cut, and messages on their way.

A cut link is a broken line between two cards. The messages are drawn below the cards, one to a line, from the column of
their sender to that of their receiver. A dot shows how far a message is; a cross, that a cut link holds it back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pykraft.cluster_view import ClusterView, MessageInFlight
from pykraft.viz.drawing import palette
from pykraft.viz.drawing.svg import Svg, shortened, text_width

Host = int | str
ROW = 34
HEADS = 24
MOST_MESSAGES = 8
_LABEL = 11.5
_DEAD_END = float("inf")


@dataclass(frozen=True)
class Card:
    """Where a node's card is."""

    row: int
    column: int
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def draw_cuts(svg: Svg, view: ClusterView, cards: Mapping[int, Card]) -> bool:
    """The cut links between cards of one row; of others the cards themselves tell. Whether there are any."""
    pairs = {
        (min(one, other), max(one, other))
        for one, other in view.cut_links
        if isinstance(one, int) and isinstance(other, int)
    }
    found = False
    tracks: dict[int, int] = {}
    for one, other in sorted(pairs):
        if one not in cards or other not in cards or cards[one].row != cards[other].row:
            continue
        left, right = sorted((cards[one], cards[other]), key=lambda card: card.column)
        blocked = {(a, b) for a, b in ((one, other), (other, one)) if (a, b) in view.cut_links}
        to_right = len(blocked) == 2 or any(cards[b] == right for _, b in blocked)
        to_left = len(blocked) == 2 or not to_right
        if right.column == left.column + 1:
            _broken_line(svg, [(left.x + left.width, left.y + 26), (right.x, right.y + 26)], to_left, to_right)
        else:
            track = tracks[left.row] = tracks.get(left.row, 0) + 1
            level = left.y - 5 - 5 * ((track - 1) % 2)
            start, end = left.middle + 30, right.middle - 30
            _broken_line(svg, [(start, left.y), (start, level), (end, level), (end, right.y)], to_left, to_right)
        found = True
    return found


def _broken_line(svg: Svg, points: Sequence[tuple[float, float]], to_left: bool, to_right: bool) -> None:
    """With an arrowhead where only one direction is cut: nothing gets there."""
    for is_there, (x, y), (from_x, _) in ((to_right, points[-1], points[-2]), (to_left, points[0], points[1])):
        if is_there and not (to_left and to_right):
            step = "l-4.5 -8h9z" if x == from_x else f"l{-8 if x > from_x else 8} -4.5v9z"
            svg.path(f"M{x:.1f} {y:.1f}{step}", fill=palette.VERMILLION)
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    svg.path(path, fill="none", stroke=palette.VERMILLION, stroke_width="2.4", stroke_dasharray="5 4")
    middle = (points[len(points) // 2 - 1][0] + points[len(points) // 2][0]) / 2
    level = (points[len(points) // 2 - 1][1] + points[len(points) // 2][1]) / 2
    svg.path(
        f"M{middle - 6:.1f} {level - 6:.1f}l12 12m0 -12l-12 12", fill="none", stroke=palette.VERMILLION,
        stroke_width="3.2", stroke_linecap="round",
    )  # fmt: skip


class Messages:
    """The messages that are drawn: those that arrive first, and in any case the one that is selected."""

    def __init__(
        self, view: ClusterView, columns: Mapping[int, float], width: float, selected: int | None, most: int
    ) -> None:
        self._now = view.time_ms
        self._width = width
        self._selected = selected
        by_due = sorted(view.messages, key=lambda message: (message.id != selected, message.due_ms, message.id))
        self.shown = sorted(by_due[:most], key=lambda message: message.id)
        self.left_out = len(view.messages) - len(self.shown)
        hosts = {host for message in self.shown for host in (message.sender, message.receiver)}
        self._has_heads = not hosts <= columns.keys() or len(set(columns.values())) < len(columns)
        if self._has_heads:
            ordered = [*(n for n in columns if n in hosts), *sorted((h for h in hosts if h not in columns), key=str)]
            step = width / max(1, len(ordered))
            self._places: dict[Host, float] = {host: step * (n + 0.5) for n, host in enumerate(ordered)}
        else:
            self._places = {host: place for host, place in columns.items() if host in hosts}

    @property
    def height(self) -> float:
        if not self.shown:
            return 0
        return 12 + HEADS * self._has_heads + ROW * len(self.shown) + 20 * bool(self.left_out)

    def draw(self, svg: Svg, y: float) -> None:
        """Draw them below `y`."""
        if not self.shown:
            return
        top = y + 4
        if self._has_heads:
            room = self._width / len(self._places) - 12
            for host, place in self._places.items():
                name = f"node {host}" if isinstance(host, int) else host
                svg.text(place, y + 18, shortened(name, room, 12, bold=True), 12, anchor="middle", bold=True)
            top += HEADS
        bottom = top + ROW * len(self.shown) + 4
        for place in self._places.values():
            svg.line(place, top, place, bottom, stroke="currentColor", stroke_opacity="0.25", stroke_dasharray="2 3")
        for number, message in enumerate(self.shown):
            with svg.group(data_message=f"{message.id}"):
                self._arrow(svg, top + ROW * number + 24, message)
        if self.left_out:
            svg.text(0, bottom + 14, f"and {self.left_out:,} more on the way", 12, opacity=0.8)

    def _arrow(self, svg: Svg, y: float, message: MessageInFlight) -> None:
        start, end = self._places[message.sender], self._places[message.receiver]
        if start == end:  # a node that sends to itself
            end = start + 60
        is_selected = message.id == self._selected
        turn = 1 if end > start else -1
        is_held = message.due_ms == _DEAD_END
        label = f"{message.name}{'' if not message.is_response else ' response'}"
        label += f": {message.summary}" if message.summary else ""
        label = f"▶ {label}" if is_selected else label
        label = shortened(label, self._width, _LABEL, bold=is_selected)
        width = text_width(label, _LABEL, bold=is_selected)
        middle = min(max((start + end) / 2, width / 2), self._width - width / 2)
        if is_selected:
            left = min(start, end, middle - width / 2) - 6
            right = max(start, end, middle + width / 2) + 6
            left, right = max(0.5, left), min(self._width - 0.5, right)
            svg.rect(
                left, y - 23, right - left, ROW - 2, rx=6, fill=palette.YELLOW, fill_opacity="0.22",
                stroke=palette.ORANGE, stroke_width="1.6",
            )  # fmt: skip
        stroke = {"stroke": "currentColor", "stroke_width": "2.6" if is_selected else "1.5"}
        dashes = "7 4" if message.is_response else None
        svg.line(start, y, end - turn * 7, y, **stroke, stroke_dasharray=dashes)
        svg.path(f"M{end:.1f} {y:.1f}l{-9 * turn} -5v10z", fill="currentColor")
        svg.text(middle, y - 9, label, _LABEL, anchor="middle", bold=is_selected)
        self._progress(svg, y, start, end, message, is_held)

    def _progress(self, svg: Svg, y: float, start: float, end: float, message: MessageInFlight, is_held: bool) -> None:
        if is_held:
            at = (start + end) / 2
            svg.path(f"M{at - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10", fill="none", stroke=palette.VERMILLION,
                     stroke_width="3")  # fmt: skip
            return
        length = message.due_ms - message.sent_ms
        share = min(1.0, max(0.0, (self._now - message.sent_ms) / length)) if length > 0 else 0.0
        at = start + (end - start) * min(share, 0.96)
        svg.element("circle", cx=at, cy=y, r=4, fill=palette.ORANGE, stroke="currentColor", stroke_width="1")
