"""What is so on a board: the questions that its drawing, its text and its description all ask a `ClusterView`.

A *lens* is the piece of a partition's offsets that the lanes of its replicas show: about the last twenty. It has one
scale for all replicas, so that a lag is seen, and begins early enough to show each mark that matters: where the logs of
the nodes that run end, their high watermarks, and where a log is not the leader's. If those are far apart, a cell is
several records. If the others have gone on so far that the records which a replica is about to lose would be too small
to see, the lens leaves out a part in the middle.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from pykraft.broker.describe import CellKind, EpochStart, NodeView, PartitionView
from pykraft.cluster_view import ClusterView
from pykraft.common.types import METADATA_TOPIC, TopicPartition

CELLS = 20
MOST_CELLS = 24
"""Where the log begins within the lens, and needs no stub before it."""
_SHORT_LOGS = (6, 12, MOST_CELLS)
"""A log of few records has wide cells. There are three widths, so that they do not change with each record."""
GAP_CELLS = 5
_FEW = 3
"""Cells that are too few to show what is lost."""
_SIGNS = {"leader": "◆", "follower": "●", "observer": "○"}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Lens(NamedTuple):
    """The offsets from `start` on, in `cells` cells of `per_cell` offsets each; but those from `gap_start` to before
    `gap_end` share the place of `GAP_CELLS` cells."""

    start: int
    per_cell: int
    cells: int
    gap_start: int = 0
    gap_end: int = 0

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The offsets that have cells."""
        cells = self.cells - GAP_CELLS * self.has_gap
        last = self.start + self.per_cell * cells + self.gap_end - self.gap_start
        return [(self.start, self.gap_start), (self.gap_end, last)] if self.has_gap else [(self.start, last)]

    @property
    def end(self) -> int:
        return self.ranges[-1][1]

    @property
    def has_gap(self) -> bool:
        return self.gap_end > self.gap_start

    def place(self, offset: int) -> float:
        """Where the offset is, in cells from the start."""
        if not self.has_gap or offset <= self.gap_start:
            return (offset - self.start) / self.per_cell
        before = (self.gap_start - self.start) / self.per_cell
        if offset < self.gap_end:
            return before + GAP_CELLS * (offset - self.gap_start) / (self.gap_end - self.gap_start)
        return before + GAP_CELLS + (offset - self.gap_end) / self.per_cell

    @property
    def has_stub(self) -> bool:
        """Whether there are records before it."""
        return self.cells == CELLS


class Piece(NamedTuple):
    """Neighbouring offsets of a replica that look alike."""

    start: int
    end: int
    kind: CellKind
    is_committed: bool
    is_torn: bool
    """Not in the leader's log: about to be truncated."""


@dataclass(frozen=True)
class Replica:
    """A replica and what the cluster, as opposed to the node itself, says of it."""

    node: NodeView
    view: PartitionView
    is_in_sync: bool
    newest_epoch: int
    torn_from: int | None
    """The offset from which its log is not the leader's."""

    @property
    def leads(self) -> bool:
        return self.view.leader_id == self.node.node_id

    @property
    def is_metadata(self) -> bool:
        """Whether it is the metadata log: it has no in-sync replicas."""
        return self.view.topic_partition.topic == METADATA_TOPIC

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
        if self.is_metadata and not self.leads and self.node.quorum.role not in ("follower", "observer"):
            return f"○ {self.node.quorum.role} · {epoch}"
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

    @property
    def last_stable(self) -> str | None:
        """The last stable offset, where an open transaction holds it below the high watermark."""
        offset = self.view.last_stable_offset
        return f"last stable {offset:,}" if 0 <= offset < self.view.high_watermark else None

    @property
    def loss(self) -> str | None:
        """What it loses when it hears of the leader."""
        if self.torn_from is None:
            return None
        count = self.view.log_end_offset - self.torn_from
        return f"{'truncates' if self.node.is_alive else 'would truncate'} {count:,} from offset {self.torn_from:,}"

    @property
    def epochs(self) -> list[EpochStart]:
        """The starts of the leader epochs that its log has records of, oldest first."""
        return [entry for entry in self.view.epochs if entry.start_offset < self.view.log_end_offset]

    def pieces(self, start: int, end: int) -> Iterator[Piece]:
        """Its offsets in this range, the alike ones together."""
        view = self.view
        start, end = max(start, view.log_start_offset), min(end, view.log_end_offset)
        edges = {start, end, view.high_watermark, self.torn_from or 0}
        edges |= {edge for run in view.tail for edge in (run.base_offset, run.end_offset)}
        inner = sorted(edge for edge in edges if start <= edge <= end)
        last: Piece | None = None
        for low, high in pairwise(inner):
            kind = next((run.kind for run in view.tail if run.base_offset <= low < run.end_offset), CellKind.DATA)
            is_torn = self.torn_from is not None and low >= self.torn_from
            piece = Piece(low, high, kind, low < view.high_watermark, is_torn)
            if last is not None and last[2:] == piece[2:]:
                last = last._replace(end=high)
                continue
            if last is not None:
                yield last
            last = piece
        if last is not None:
            yield last


class BoardFacts:
    """The view, with the answers."""

    def __init__(self, view: ClusterView, topics: Iterable[str] | None, has_metrics: bool = False) -> None:
        self._has_metrics = has_metrics
        self.view = view
        wanted = None if topics is None else set(topics)
        everywhere = {partition.topic_partition for node in view.nodes.values() for partition in node.partitions}
        self.topic_partitions = sorted(
            key for key in everywhere if (not key.topic.startswith("__") if wanted is None else key.topic in wanted)
        )
        self.hidden = len(everywhere) - len(self.topic_partitions)
        self._lenses: dict[TopicPartition, Lens] = {}
        self._replicas: dict[tuple[int, TopicPartition], Replica | None] = {}

    def replica(self, node: NodeView, key: TopicPartition) -> Replica | None:
        """The replica of the partition on this node, if there is one."""
        place = (node.node_id, key)
        if place not in self._replicas:
            self._replicas[place] = self._find(node, key)
        return self._replicas[place]

    def _find(self, node: NodeView, key: TopicPartition) -> Replica | None:
        found = node.partition(key.topic, key.partition)
        if found is None:
            return None
        replicas = self.view.replicas(key.topic, key.partition)
        epochs = [view.leader_epoch for node_id, view in replicas.items() if self.view.nodes[node_id].is_alive]
        in_sync = node.node_id in self.view.isr(key.topic, key.partition)
        torn = self.view.truncation_offset(key.topic, key.partition, node.node_id)
        return Replica(node, found, in_sync, max(epochs, default=found.leader_epoch), torn)

    def lens(self, key: TopicPartition) -> Lens:
        """The offsets that the partition's lanes show."""
        if key not in self._lenses:
            found = (self.replica(node, key) for node in self.view.nodes.values())
            self._lenses[key] = _lens([replica for replica in found if replica is not None])
        return self._lenses[key]

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

    def metrics(self, node: NodeView) -> list[str]:
        """What the node's metrics say, if the board is to show them: first what it has done, then what is not well."""
        figures = node.figures
        if not self._has_metrics or figures is None or not node.is_alive:
            return []
        troubles = [
            f"{count:,} {what}"
            for count, what in (
                (figures.under_replicated, "under-replicated"),
                (figures.offline_partitions, "without leader"),
                (figures.isr_shrinks, "ISR shrinks"),
                (figures.group_lag, "records of group lag"),
            )
            if count
        ]
        done = f"{figures.requests:,} requests answered, {figures.waiting:,} waiting"
        return [done, " · ".join(troubles)] if troubles else [done]

    def is_fenced(self, node: NodeView) -> bool:
        return node.is_alive and node.node_id in self.view.fenced_brokers

    def cut_off(self, node: NodeView) -> str | None:
        """From whom the node is cut off, in words; a link may be cut in one direction only."""
        me = node.node_id
        unreached = {target for source, target in self.view.cut_links if source == me}
        unheard = {source for source, target in self.view.cut_links if target == me}
        parts = [
            (unreached & unheard, "is cut off from"),
            (unreached - unheard, "does not reach"),
            (unheard - unreached, "does not hear"),
        ]
        found = [f"{verb} {listed(others)}" for others, verb in parts if others]
        return f"✕ {', '.join(found)}" if found else None

    def vote(self, node: NodeView) -> str | None:
        """The node's vote in the quorum's newest epoch."""
        quorum = node.quorum
        newest = max((each.quorum.epoch for each in self.view.alive), default=-1)
        if quorum.epoch != newest or not node.is_alive:
            return None
        if quorum.granted:
            return f"votes from {listed(quorum.granted)}"
        voted = self.view.votes.get(node.node_id)
        return None if voted is None else f"voted for {voted}"


def _lens(replicas: list[Replica]) -> Lens:
    views = [replica.view for replica in replicas]
    ends = [view.log_end_offset for view in views if view.log_end_offset >= 0]
    if not ends:
        return Lens(0, 1, MOST_CELLS)
    last = max(ends)
    first = min((view.log_start_offset for view in views if view.log_start_offset >= 0), default=0)
    for cells in _SHORT_LOGS:
        if last - first <= cells:
            return Lens(first, 1, cells)
    alive = [replica.view for replica in replicas if replica.node.is_alive]
    marks = [mark for view in alive for mark in (view.log_end_offset, view.high_watermark) if mark >= 0]
    marks += [replica.torn_from for replica in replicas if replica.torn_from is not None]
    needed = last - min([last, *marks])
    per_cell = next(size for size in _round_numbers() if (CELLS - 3) * size >= needed)
    torn = [(replica.torn_from, replica.view.log_end_offset) for replica in replicas if replica.torn_from is not None]
    if torn:
        begin, stop = min(torn)[0], max(end for _, end in torn)
        if stop - begin < _FEW * per_cell:
            lag = last - min([last, *(mark for mark in marks if mark > stop)])
            with_gap = _lens_with_gap(begin, stop, last, lag)
            if with_gap is not None and with_gap.per_cell < per_cell:
                return with_gap
    end = -(-last // per_cell) * per_cell
    if end - CELLS * per_cell < first:
        return Lens(first, per_cell, -(-(last - first) // per_cell))
    return Lens(end - CELLS * per_cell, per_cell, CELLS)


def _lens_with_gap(begin: int, stop: int, last: int, lag: int) -> Lens | None:
    """Three cells before what is lost from `begin` to `stop`, one after it, and the last cells up to `last`."""
    room = CELLS - GAP_CELLS
    for size in _round_numbers():
        lost = -(-(stop - begin) // size)
        after = room - 3 - lost - 1
        if after >= -(-lag // size) + 2:
            break
    start = begin - 3 * size
    gap_start, gap_end = start + (4 + lost) * size, last - after * size
    return Lens(start, size, CELLS, gap_start, gap_end) if start >= 0 and gap_end > gap_start else None


def _round_numbers() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def count_of(number: int, noun: str) -> str:
    word = _NUMBERS[number] if number < len(_NUMBERS) else str(number)
    return f"{word} {noun}{'' if number == 1 else 's'}"


def listed(ids: Iterable[int | str]) -> str:
    numbers = sorted(each for each in ids if isinstance(each, int))
    names = sorted(each for each in ids if isinstance(each, str))
    return ", ".join(map(str, [*numbers, *names])) or "none"
