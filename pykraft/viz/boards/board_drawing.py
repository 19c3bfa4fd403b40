"""A board in lines: the cards of the nodes, what is between them, and a legend of what is there.

The legend explains what this board shows and nothing else. No name is shortened: names, titles and notes take as many
lines as they need.
"""

from collections.abc import Callable, Sequence

from pykraft.broker.describe import NodeView
from pykraft.common.types import TopicPartition
from pykraft.viz.boards.board_facts import BoardFacts, Replica, count_of
from pykraft.viz.boards.board_lens import Lane
from pykraft.viz.boards.board_links import MOST_MESSAGES, Card, Messages, draw_cuts
from pykraft.viz.drawing import palette
from pykraft.viz.drawing.svg import Svg, shortened, text_width, wrapped

CARD = 300
GAP = 30
COLUMNS = 3
INSET = 18
FOOT = 6
WIDTH = COLUMNS * CARD + (COLUMNS - 1) * GAP
_LINE = 17
_LEGEND_ROW = 24


class Drawing:
    """Puts cards, lanes, messages and legend on an Svg."""

    def __init__(
        self,
        facts: BoardFacts,
        shown: Sequence[TopicPartition],
        *,
        selected: int | None = None,
        max_messages: int = MOST_MESSAGES,
        has_legend: bool = True,
    ) -> None:
        self.facts = facts
        self.shown = shown
        self.looks: set[str] = set()
        nodes = list(facts.view.nodes.values())
        brokers = [node for node in nodes if "broker" in node.roles]
        controllers = [node for node in nodes if "broker" not in node.roles]
        self.rows = [cards[i : i + COLUMNS] for cards in (controllers, brokers) for i in range(0, len(cards), COLUMNS)]
        self._has_legend = has_legend
        columns = {
            node.node_id: column * (CARD + GAP) + CARD / 2 for row in self.rows for column, node in enumerate(row)
        }
        self._messages = Messages(facts.view, columns, WIDTH, selected, max_messages)

    def _replicas(self, node: NodeView) -> list[tuple[TopicPartition, Replica]]:
        found = ((key, self.facts.replica(node, key)) for key in self.shown)
        return [(key, replica) for key, replica in found if replica is not None]

    def _lane(self, key: TopicPartition, replica: Replica) -> Lane:
        leader = self.facts.view.leader(key.topic, key.partition)
        seen = self.facts.view.replicas(key.topic, key.partition).get(-1 if leader is None else leader)
        end = -1 if seen is None else seen.log_end_offset
        return Lane(replica, self.facts.lens(key), CARD - 2 * INSET, end)

    def _lane_heights(self) -> dict[TopicPartition, float]:
        """The height of each partition's lanes, the same on all cards: cards with the same partitions line up."""
        heights: dict[TopicPartition, float] = {}
        for node in self.facts.view.nodes.values():
            for key, replica in self._replicas(node):
                heights[key] = max(heights.get(key, 0), self._lane(key, replica).height)
        return heights

    def _head_lines(self, node: NodeView) -> list[str]:
        facts = self.facts
        state = f" · {node.broker_state}" if node.broker_state and node.is_alive else ""
        metadata = f"{node.quorum.log_end_offset:,}" if node.quorum.log_end_offset >= 0 else "unknown"
        seen = "quorum" if node.is_alive else "last seen in"
        quorum = f"{seen} epoch {node.quorum.epoch} · metadata end {metadata}"
        lines = [", ".join(node.roles) + state, quorum, *facts.metrics(node)]
        if vote := facts.vote(node):
            is_short = text_width(f"{lines[0]} · {vote}", 12) <= CARD - 2 * INSET
            lines[0:1] = [f"{lines[0]} · {vote}"] if is_short else [lines[0], vote]
        return [part for line in lines for part in wrapped(line, CARD - 2 * INSET, 12)]

    def _troubles(self, node: NodeView) -> list[str]:
        """What keeps it from its part: it is fenced, or cut off."""
        found = ["■ fenced"] if self.facts.is_fenced(node) else []
        found += [cut] if (cut := self.facts.cut_off(node)) else []
        return wrapped(" · ".join(found), CARD - 2 * INSET, 12, bold=True) if found else []

    def _left_out(self, node: NodeView) -> int:
        """How many of the node's replicas have no lane."""
        keys = self.facts.topic_partitions[len(self.shown) :]
        return sum(self.facts.replica(node, key) is not None for key in keys)

    # --- all of it ----------------------------------------------------------------------------------------------------

    def draw(self, title: str, when: str, note: str, corner: Sequence[str]) -> Svg:
        svg = Svg(WIDTH, 0)
        y = self._headline(svg, title, when, corner)
        lanes = self._lane_heights()
        cards: dict[int, Card] = {}
        for number, row in enumerate(self.rows):
            head = 45 + _LINE * max(len(self._head_lines(node)) + len(self._troubles(node)) for node in row)
            rest = max(sum(lanes[key] for key, _ in self._replicas(node)) for node in row)
            extra = 20 if any(self._left_out(node) for node in row) else 0
            height = head + rest + FOOT + extra
            for column, node in enumerate(row):
                x = column * (CARD + GAP)
                cards[node.node_id] = Card(number, column, x, y, CARD)
                with svg.group(data_node=f"{node.node_id}"):
                    self._card(svg, x, y, height, head, lanes, node)
            y += height + (GAP if number < len(self.rows) - 1 else 0)
        if draw_cuts(svg, self.facts.view, cards):
            self.looks.add("cut")
        self._messages.draw(svg, y)
        y += self._messages.height + 8
        if self._has_legend and self.looks:
            y = Legend(svg, self.looks).draw(y + 6)
        for line in wrapped(note, WIDTH, 13):
            y += 19
            svg.text(0, y, line, 13)
        svg.height = y + 10
        return svg

    def _headline(self, svg: Svg, title: str, when: str, corner: Sequence[str]) -> float:
        """Returns where the cards begin."""
        corner = [shortened(fact, WIDTH / 2, 13, bold=True) for fact in corner[:2]]
        room = WIDTH - max((text_width(fact, 13, bold=True) for fact in corner), default=0.0) - GAP
        y = 0.0
        for line in wrapped(title, room, 17, bold=True):
            y += 22
            svg.text(0, y, line, 17, bold=True)
        for line in wrapped(when, room, 13):
            y += 21
            svg.text(0, y, line, 13, opacity=palette.FAINT)
        for position, fact in enumerate(corner):
            svg.text(WIDTH, 22 + 22 * position, fact, 13, anchor="end", bold=position == 0)
        return max(y, 22.0 * len(corner)) + 24

    def _card(
        self,
        svg: Svg,
        x: float,
        y: float,
        height: float,
        head: float,
        lanes: dict[TopicPartition, float],
        node: NodeView,
    ) -> None:
        dashes = None if node.is_alive else "5 5"
        svg.rect(
            x + 0.5, y + 0.5, CARD - 1, height - 1, rx=10, fill="none", stroke="currentColor", stroke_opacity="0.5",
            stroke_width="1.2", stroke_dasharray=dashes,
        )  # fmt: skip
        self._pill(svg, x + CARD - INSET, y + 15, self.facts.pill(node), is_warning=not node.is_alive)
        svg.text(x + INSET, y + 32, f"Node {node.node_id}", 16, bold=True)
        line_y = y + 34
        for line in self._head_lines(node):
            line_y += _LINE
            svg.text(x + INSET, line_y, line, 12, opacity=palette.FAINT)
        for line in self._troubles(node):
            line_y += _LINE
            svg.text(x + INSET, line_y, line, 12, bold=True)
        lane_y = y + head + 4
        for key, replica in self._replicas(node):
            lane = self._lane(key, replica)
            lane.draw(svg, x + INSET, lane_y)
            self.looks |= lane.looks | ({"leads"} if replica.leads and node.is_alive else {"follows"})
            lane_y += lanes[key]
        left_out = self._left_out(node)
        if left_out:
            svg.text(x + INSET, y + height - 12, f"and {count_of(left_out, 'more partition')}", 12, opacity=0.8)

    def _pill(self, svg: Svg, right: float, y: float, label: str, *, is_warning: bool) -> None:
        width = text_width(label, 12, bold=True) + 20
        filling = palette.BLUE if label == "◆ active controller" else None
        svg.rect(
            right - width, y, width, 23, rx=11.5, fill=filling or "none",
            stroke=palette.VERMILLION if is_warning else filling or "currentColor",
            stroke_opacity=None if filling or is_warning else "0.5",
            stroke_width="1.6" if is_warning else None,
        )  # fmt: skip
        ink = palette.ink_on(filling) if filling else None
        svg.text(right - width / 2, y + 16, label, 12, anchor="middle", bold=True, fill=ink)


class Legend:
    """What the signs mean: those that are there."""

    def __init__(self, svg: Svg, looks: set[str]) -> None:
        self._svg = svg
        swatches: dict[str, tuple[str, Callable[[float, float], None]]] = {
            "leads": ("◆ leads the partition", self._box(palette.BLUE)),
            "follows": ("● follows", self._box(palette.SKY)),
            "not in sync": ("not in sync", self._dashed),
            "uncommitted": ("not committed", self._hatched),
            "torn": ("not in the leader's log: will be truncated", self._torn),
            "aborted": ("aborted", self._crossed),
            "open": ("in an open transaction", self._ringed),
            "marker": ("marker: C commit, A abort", self._marker),
            "high watermark": ("high watermark: committed up to here", self._watermark),
            "last stable": ("last stable offset", self._stable),
            "log end": ("log end", self._end),
            "cut": ("cut link", self._cut),
        }
        self._entries = [entry for look, entry in swatches.items() if look in looks]

    def draw(self, y: float) -> float:
        """Draw it below `y`; returns where it ends."""
        x = 0.0
        y += _LEGEND_ROW - 6
        for label, swatch in self._entries:
            width = 34 + text_width(label, 12)
            if x and x + width > WIDTH:
                x, y = 0.0, y + _LEGEND_ROW
            swatch(x, y - 12)
            x = self._svg.text(x + 34, y, label, 12).right + 24
        return y + 8

    def _box(self, filling: str) -> Callable[[float, float], None]:
        def draw(x: float, y: float) -> None:
            self._svg.rect(x, y, 26, 15, rx=2, fill=filling)

        return draw

    def _dashed(self, x: float, y: float) -> None:
        self._svg.rect(x + 0.5, y + 0.5, 25, 14, rx=3, fill="none", stroke="currentColor", stroke_opacity="0.6",
                       stroke_dasharray="4 3")  # fmt: skip

    def _lines(self, x: float, y: float, d: str, colour: str = "currentColor", width: str = "1.4") -> None:
        self._svg.path(d, fill="none", stroke=colour, stroke_width=width, transform=f"translate({x:.1f} {y:.1f})")

    def _hatched(self, x: float, y: float) -> None:
        self._svg.rect(x, y, 26, 15, fill=palette.BLUE, fill_opacity="0.12", stroke=palette.BLUE)
        self._lines(x, y, "M0 9l9 -9M0 15l15 -15M6 15l15 -15M12 15l14 -14M18 15l8 -8", palette.BLUE)

    def _torn(self, x: float, y: float) -> None:
        self._svg.rect(x + 4, y, 22, 15, fill="none", stroke=palette.VERMILLION, stroke_dasharray="3 2")
        self._lines(x + 4, y, "M0 7l8 8M1 0l15 15M8 0l14 14M15 0l7 7", palette.VERMILLION, "1.2")
        self._lines(x + 3, y, "M-1 -3l3 4l-3 4l3 4l-3 4l3 4", palette.VERMILLION, "2.2")

    def _crossed(self, x: float, y: float) -> None:
        self._svg.rect(x, y, 26, 15, fill=palette.SKY)
        self._lines(x, y, "M4 2l6 11m0 -11l-6 11M16 2l6 11m0 -11l-6 11", palette.DARK_INK, "1.6")

    def _ringed(self, x: float, y: float) -> None:
        self._svg.rect(x, y, 26, 15, fill=palette.SKY)
        for middle in (7, 19):
            self._svg.element("circle", cx=x + middle, cy=y + 7.5, r=4, fill="none", stroke=palette.DARK_INK,
                              stroke_width="1.6")  # fmt: skip

    def _marker(self, x: float, y: float) -> None:
        for left, letter in ((0, "C"), (13, "A")):
            self._svg.rect(x + left + 0.5, y, 12, 15, fill=palette.WHITE, stroke="currentColor", stroke_opacity="0.6")
            self._svg.text(x + left + 6.5, y + 11.5, letter, 11, anchor="middle", bold=True, fill=palette.DARK_INK)

    def _watermark(self, x: float, y: float) -> None:
        self._svg.rect(x + 12, y - 4, 3, 18, rx=1, fill=palette.ORANGE, stroke="currentColor", stroke_opacity="0.4")
        self._svg.path(f"M{x + 13.5:.1f} {y + 12:.1f}l4.5 7h-9z", fill=palette.ORANGE, stroke="currentColor",
                       stroke_opacity="0.5", stroke_width="0.6")  # fmt: skip

    def _stable(self, x: float, y: float) -> None:
        self._svg.line(x + 13, y - 3, x + 13, y + 13, stroke=palette.PURPLE, stroke_width="2.5",
                       stroke_dasharray="4 2")  # fmt: skip
        self._svg.path(f"M{x + 13:.1f} {y + 11:.1f}l4 4l-4 4l-4 -4z", fill=palette.PURPLE)

    def _end(self, x: float, y: float) -> None:
        self._lines(x, y, "M12 -1h4v17h-4", width="1.5")

    def _cut(self, x: float, y: float) -> None:
        self._lines(x, y, "M0 7.5h7M19 7.5h7", palette.VERMILLION, "2.4")
        self._lines(x, y, "M8 2.5l10 10m0 -10l-10 10", palette.VERMILLION, "2.8")
