"""The board: a cluster at one moment, drawn from its `ClusterView` and from nothing else.

A card is a node. A lane in it is a replica: the bar is its log, from offset 0 to its end, and all bars of a board have
one scale, so a replica that lags is seen to lag. What colour says, shape or words say too::

    dark bar, ◆     leads the partition
    light bar, ●    follows, in sync
    dashed outline  not in sync: it would lose records if it led
    orange mark     the high watermark: what lies before it is committed
    ◆ ● ▲ ○ ✕       of a node: leads the metadata quorum, follows, wants to lead, has no vote, is dead

Nodes tell what they know, and may be wrong: one that was cut off can believe that it still leads. The board believes
the highest epoch and says so where a node is behind it. Offsets that nobody could tell (-1) are called unknown, not
drawn as zero.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pykraft.cluster_view import ClusterView
from pykraft.common.types import TopicPartition
from pykraft.server.describe import NodeView, PartitionView
from pykraft.viz import palette
from pykraft.viz.figure import Figure
from pykraft.viz.svg import Svg, shortened, text_width

if TYPE_CHECKING:
    from pykraft.viz.live import Breakable, LiveBoard

CARD = 300
GAP = 30
COLUMNS = 3
INSET = 18
TOP = 64
HEAD = 92
LANE = 86
BAR = 26
FOOT = 12
WIDTH = COLUMNS * CARD + (COLUMNS - 1) * GAP

_SIGNS = {"leader": "◆", "follower": "●", "observer": "○"}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Describable(Protocol):
    """A cluster: something that tells its view."""

    def describe(self) -> ClusterView: ...


class Board:
    """`board(cluster)` is a picture of a cluster; `board.live(cluster)` is one with buttons."""

    def __call__(
        self,
        cluster: ClusterView | Describable,
        *,
        title: str | None = None,
        when: str | None = None,
        note: str | None = None,
        facts: Sequence[str] = (),
        topics: Iterable[str] | None = None,
        max_partitions: int = 6,
    ) -> Figure:
        """Draw a cluster, or a view of it that was kept.

        `title` says what, `when` says when, `note` is one sentence below; each has a sensible default. Up to two
        `facts` stand in the upper right corner. Topics whose names begin with __ are left out unless `topics` names
        them. A card has at most `max_partitions` lanes; the text has all.
        """
        view = cluster if isinstance(cluster, ClusterView) else cluster.describe()
        state = _BoardState(view, topics)
        title = title or f"Cluster of {_count(len(view.nodes), 'node')}"
        when = when or _when(view)
        note = note or _summary(state)
        drawing = _Drawing(state, state.topic_partitions[:max_partitions])
        svg = drawing.draw(title, when, note, facts)
        text = _text(state, title, when, note, facts)
        return Figure(title, svg.render(f"{title}, {when}", _description(state, note)), text, tuple(svg.boxes))

    def live(self, cluster: "Breakable", **options: Any) -> "Figure | LiveBoard":
        """A board with buttons, or, where nobody sits in front, the static one; `options` are the same."""
        from pykraft.course.surroundings import is_headless, is_notebook
        from pykraft.viz.live import LiveBoard

        if is_headless() or not is_notebook():
            return self(cluster, **options)
        return LiveBoard(cluster, **options)


board = Board()


# --- what is so -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Replica:
    """A replica and what the cluster, as opposed to the node itself, says of it."""

    node: NodeView
    view: PartitionView
    is_in_sync: bool
    newest_epoch: int

    @property
    def leads(self) -> bool:
        return self.view.leader_id == self.node.node_id

    @property
    def is_behind(self) -> bool:
        """Whether the node has not heard of the partition's latest leader."""
        return self.view.leader_epoch < self.newest_epoch

    @property
    def role(self) -> str:
        """What the lane's right side says."""
        epoch = f"epoch {self.view.leader_epoch}"
        if not self.node.is_alive:
            return f"{'led' if self.leads else 'followed'} in {epoch}"
        if self.leads and self.is_behind:
            return f"◆ thinks it leads · {epoch}"
        role = "◆ leads" if self.leads else "● follows"
        return f"{role}, out of sync · {epoch}" if not self.is_in_sync else f"{role} · {epoch}"

    @property
    def end(self) -> str:
        return "end unknown" if self.view.log_end_offset < 0 else f"end {self.view.log_end_offset:,}"

    @property
    def high_watermark(self) -> str:
        known = self.view.high_watermark >= 0
        return f"high watermark {self.view.high_watermark:,}" if known else "high watermark unknown"


class _BoardState:
    """The view, with the questions that the drawing and the text both ask."""

    def __init__(self, view: ClusterView, topics: Iterable[str] | None) -> None:
        self.view = view
        wanted = None if topics is None else set(topics)
        everywhere = {partition.topic_partition for node in view.nodes.values() for partition in node.partitions}
        self.topic_partitions = sorted(
            key for key in everywhere if (not key.topic.startswith("__") if wanted is None else key.topic in wanted)
        )
        self.hidden = len(everywhere) - len(self.topic_partitions)
        ends = [p.log_end_offset for node in view.nodes.values() for p in node.partitions if self._shows(p)]
        self.longest = max([*ends, 1])

    def _shows(self, partition: PartitionView) -> bool:
        return partition.topic_partition in self.topic_partitions

    def replica(self, node: NodeView, key: TopicPartition) -> _Replica | None:
        found = node.partition(key.topic, key.partition)
        if found is None:
            return None
        replicas = self.view.replicas(key.topic, key.partition)
        epochs = [view.leader_epoch for node_id, view in replicas.items() if self.view.nodes[node_id].is_alive]
        in_sync = node.node_id in self.view.isr(key.topic, key.partition)
        return _Replica(node, found, in_sync, max(epochs, default=found.leader_epoch))

    @property
    def quorum_epoch(self) -> int:
        return max((node.quorum.epoch for node in self.view.alive), default=-1)

    def pill(self, node: NodeView) -> str:
        """The node's part in the metadata quorum, in a word."""
        if not node.is_alive:
            return "✕ dead"
        if node.node_id == self.view.active_controller:
            return "◆ active controller"
        if node.quorum.role == "leader":
            return "◆ thinks it is controller"
        # All that are neither leader, follower nor observer seek votes, in one way or another.
        return f"{_SIGNS.get(node.quorum.role, '▲')} quorum: {node.quorum.role}"


def _count(number: int, noun: str) -> str:
    word = _NUMBERS[number] if number < len(_NUMBERS) else str(number)
    return f"{word} {noun}{'' if number == 1 else 's'}"


def _when(view: ClusterView) -> str:
    epoch = max((node.quorum.epoch for node in view.alive), default=None)
    ends = [node.quorum.high_watermark for node in view.alive]
    parts = [f"{view.time_ms / 1000:,.1f} s after the start"]
    if epoch is not None:
        parts += [f"Raft epoch {epoch}", f"metadata offset {max(ends):,}"]
    return " · ".join(parts)


def _summary(state: _BoardState) -> str:
    """The sentence below, if the caller has none."""
    view = state.view
    leader = view.active_controller
    parts = [f"Node {leader} is the active controller" if leader is not None else "No node is active controller"]
    dead = [node.node_id for node in view.nodes.values() if not node.is_alive]
    if dead:
        parts.append(f"{_names(dead)} dead")
    isrs = {frozenset(view.isr(key.topic, key.partition)) for key in state.topic_partitions}
    if len(isrs) == 1:
        parts.append(f"in-sync replicas of every partition: {_list(next(iter(isrs)))}")
    leaderless = [str(key) for key in state.topic_partitions if view.leader(key.topic, key.partition) is None]
    if leaderless:
        parts.append(f"without leader: {', '.join(leaderless[:3])}{' …' if len(leaderless) > 3 else ''}")
    return "; ".join(parts) + "."


def _list(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids))) or "none"


def _names(ids: Sequence[int]) -> str:
    return f"node {ids[0]} is" if len(ids) == 1 else f"nodes {_list(ids)} are"


# --- in words ---------------------------------------------------------------------------------------------------------


def _description(state: _BoardState, note: str) -> str:
    """For those who hear the picture: short, since the same facts lie beside it as text."""
    parts = [f"{_count(len(state.view.nodes), 'node').capitalize()}."]
    for node in state.view.nodes.values():
        led = [
            str(key)
            for key in state.topic_partitions
            if node.is_alive and state.view.leader(key.topic, key.partition) == node.node_id
        ]
        what = state.pill(node)[2:]
        parts.append(f"Node {node.node_id}: {what}{', leads ' + ', '.join(led) if led else ''}.")
    return " ".join([*parts, note])


def _text(state: _BoardState, title: str, when: str, note: str, facts: Sequence[str]) -> str:
    lines = [f"{title}, {when}", *facts]
    for node in state.view.nodes.values():
        quorum = node.quorum
        was = "" if node.is_alive else "last seen "
        broker = "" if node.broker_state is None else f", broker {was}{node.broker_state}"
        lines.append(
            f"node {node.node_id} ({' and '.join(node.roles)}): {state.pill(node)}{broker}; quorum epoch "
            f"{quorum.epoch}, leader {quorum.leader_id}, metadata end {quorum.log_end_offset:,}, "
            f"high watermark {quorum.high_watermark:,}"
        )
        for key in state.topic_partitions:
            replica = state.replica(node, key)
            if replica is not None:
                sync = "in sync" if replica.is_in_sync else "not in sync"
                lines.append(
                    f"  {key}: {replica.role}, leader {replica.view.leader_id}, {sync}, {replica.end}, "
                    f"{replica.high_watermark}, start {replica.view.log_start_offset}, "
                    f"replicas {_list(replica.view.replicas)}, ISR {_list(replica.view.isr)}"
                )
    if state.hidden:
        lines.append(f"not listed: {_count(state.hidden, 'partition')} of other topics")
    return "\n".join([*lines, note])


# --- in lines ---------------------------------------------------------------------------------------------------------


class _Drawing:
    """Puts cards, lanes and legend on an Svg."""

    def __init__(self, state: _BoardState, shown: Sequence[TopicPartition]) -> None:
        self.state = state
        self.shown = shown
        nodes = list(state.view.nodes.values())
        brokers = [node for node in nodes if "broker" in node.roles]
        controllers = [node for node in nodes if "broker" not in node.roles]
        self.rows = [cards[i : i + COLUMNS] for cards in (controllers, brokers) for i in range(0, len(cards), COLUMNS)]
        heights = [self._row_height(row) for row in self.rows]
        self.foot = TOP + sum(heights) + GAP * max(0, len(heights) - 1)
        self.heights = heights
        self.svg = Svg(WIDTH, self.foot + (78 if shown else 44))

    def _row_height(self, row: Sequence[NodeView]) -> float:
        lanes = max(sum(self.state.replica(node, key) is not None for key in self.shown) for node in row)
        extra = 20 if any(self._left_out(node) for node in row) else 0
        return HEAD + lanes * LANE + FOOT + extra if lanes else 80 + extra

    def _left_out(self, node: NodeView) -> int:
        """How many of the node's replicas have no lane."""
        return sum(self.state.replica(node, key) is not None for key in self.state.topic_partitions[len(self.shown) :])

    def draw(self, title: str, when: str, note: str, facts: Sequence[str]) -> Svg:
        svg = self.svg
        facts = [shortened(fact, WIDTH / 2, 13, bold=True) for fact in facts[:2]]
        corner = max((text_width(fact, 13, bold=True) for fact in facts), default=0.0)
        svg.text(0, 22, shortened(title, WIDTH - corner - GAP, 17, bold=True), 17, bold=True)
        svg.text(0, 44, shortened(when, WIDTH - corner - GAP, 13), 13, opacity=palette.FAINT)
        for position, fact in enumerate(facts):
            svg.text(WIDTH, 22 + 22 * position, fact, 13, anchor="end", bold=position == 0)
        y: float = TOP
        for row, height in zip(self.rows, self.heights, strict=True):
            for column, node in enumerate(row):
                self._card(column * (CARD + GAP), y, height, node)
            y += height + GAP
        if self.shown:
            self._legend(self.foot + 26)
        svg.text(0, svg.height - 10, shortened(note, WIDTH, 13), 13)
        return svg

    def _card(self, x: float, y: float, height: float, node: NodeView) -> None:
        svg = self.svg
        dashes = None if node.is_alive else "5 5"
        svg.rect(
            x + 0.5, y + 0.5, CARD - 1, height - 1, rx=10, fill="none", stroke="currentColor", stroke_opacity="0.5",
            stroke_width="1.2", stroke_dasharray=dashes,
        )  # fmt: skip
        self._pill(x + CARD - INSET, y + 15, node)
        svg.text(x + INSET, y + 32, f"Node {node.node_id}", 16, bold=True)
        roles = ", ".join(node.roles)
        state = f" · {node.broker_state}" if node.broker_state and node.is_alive else ""
        svg.text(x + INSET, y + 52, roles + state, 12.5, opacity=palette.FAINT)
        metadata = f"{node.quorum.log_end_offset:,}" if node.quorum.log_end_offset >= 0 else "unknown"
        seen = "quorum" if node.is_alive else "last seen in"
        svg.text(x + INSET, y + 69, f"{seen} epoch {node.quorum.epoch} · metadata end {metadata}", 12, opacity=0.7)
        lane = y + HEAD
        for key in self.shown:
            replica = self.state.replica(node, key)
            if replica is not None:
                self._lane(x + INSET, lane, key, replica)
                lane += LANE
        left_out = self._left_out(node)
        if left_out:
            svg.text(x + INSET, y + height - FOOT, f"and {_count(left_out, 'more partition')}", 12, opacity=0.8)

    def _pill(self, right: float, y: float, node: NodeView) -> None:
        label = self.state.pill(node)
        width = text_width(label, 12, bold=True) + 20
        filling = palette.BLUE if label == "◆ active controller" else None
        self.svg.rect(
            right - width, y, width, 23, rx=11.5, fill=filling or "none",
            stroke=palette.VERMILLION if not node.is_alive else filling or "currentColor",
            stroke_opacity=None if filling or not node.is_alive else "0.5",
            stroke_width=None if node.is_alive else "1.6",
        )  # fmt: skip
        ink = palette.ink_on(filling) if filling else None
        self.svg.text(right - width / 2, y + 16, label, 12, anchor="middle", bold=True, fill=ink)

    def _lane(self, x: float, y: float, key: TopicPartition, replica: _Replica) -> None:
        svg, width = self.svg, CARD - 2 * INSET
        is_alive = replica.node.is_alive
        role = svg.text(
            x + width, y + 12, replica.role, 12, anchor="end", bold=replica.leads and is_alive,
            opacity=1.0 if is_alive else palette.FAINT,
        )  # fmt: skip
        name = shortened(str(key), role.left - x - 8, 13, bold=True)
        svg.text(x, y + 12, name, 13, bold=True, opacity=1.0 if is_alive else palette.FAINT)
        svg.rect(x, y + 20, width, BAR, rx=4, fill="currentColor", fill_opacity="0.06")
        end = replica.view.log_end_offset
        length = width * max(0, end) / self.state.longest
        filling = self._bar(x, y + 20, length, replica)
        watermark = replica.view.high_watermark
        if watermark >= 0 and end >= 0:
            self._mark(x + width * min(watermark, self.state.longest) / self.state.longest, y + 20)
        self._end(x, y + 37, length, replica, filling)
        right = svg.text(
            x + width, y + 62, replica.high_watermark, 11.5, anchor="end", mono=True, opacity=palette.FAINT
        )  # fmt: skip
        if replica.leads and is_alive:
            isr = shortened(f"ISR {_list(replica.view.isr)}", right.left - x - 8, 11.5, mono=True)
            svg.text(x, y + 62, isr, 11.5, mono=True, opacity=palette.FAINT)

    def _bar(self, x: float, y: float, length: float, replica: _Replica) -> str | None:
        """The bar; returns its filling."""
        if replica.view.log_end_offset < 0:
            return None
        if not (replica.node.is_alive and replica.is_in_sync):
            self.svg.rect(
                x + 0.5, y + 0.5, max(1.0, length - 1), BAR - 1, rx=4, fill="none", stroke="currentColor",
                stroke_opacity="0.6", stroke_dasharray="4 4",
            )  # fmt: skip
            return None
        filling = palette.BLUE if replica.leads else palette.SKY
        self.svg.rect(
            x, y, max(1.0, length), BAR, rx=4, fill=filling, stroke="currentColor", stroke_opacity="0.4",
            stroke_width="0.6",
        )  # fmt: skip
        return filling

    def _mark(self, x: float, y: float) -> None:
        self.svg.rect(
            x - 2, y - 5, 4, BAR + 10, rx=1, fill=palette.ORANGE, stroke="currentColor", stroke_opacity="0.5",
            stroke_width="0.6",
        )  # fmt: skip

    def _end(self, x: float, y: float, length: float, replica: _Replica, filling: str | None) -> None:
        """The log's end: inside the bar if it fits, else behind it."""
        needed = text_width(replica.end, 12, mono=True) + 20
        fits = length >= needed
        behind = 0.0 if replica.view.log_end_offset < 0 else length
        ink = palette.ink_on(filling) if filling and fits else None
        self.svg.text(x + 8 + (0 if fits else behind), y, replica.end, 12, mono=True, fill=ink)

    def _legend(self, y: float) -> None:
        svg = self.svg
        x = 0.0
        for filling, dashes, label in (
            (palette.BLUE, None, "◆ leads the partition"),
            (palette.SKY, None, "● follows, in sync"),
            ("none", "4 4", "not in sync"),
        ):
            svg.rect(
                x + 0.5, y - 12.5, 25, 15, rx=3, fill=filling, stroke="currentColor", stroke_opacity="0.5",
                stroke_dasharray=dashes,
            )  # fmt: skip
            x = svg.text(x + 34, y, label, 12.5).right + 26
        self.svg.rect(x + 2, y - 15, 4, 20, rx=1, fill=palette.ORANGE, stroke="currentColor", stroke_opacity="0.5")
        svg.text(x + 14, y, "high watermark: committed up to here", 12.5)
