"""The lanes of a film: logs, as a scene wants them to be seen.

    replicas     the replicas of one partition, one for each node
    partitions   the partitions of a topic, each as its leader has it
    metadata     the metadata log, one for each node

A lane's value is where its log starts and ends, its high watermark and epochs, what it is in words, and further
*marks*: the last stable offset, what a group has committed, what is on the disk. Records that a reader may not get,
markers, and offsets whose records were compacted away are *cells*: each is there from one moment until another.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pykraft.broker.describe import TAIL, CellKind, EpochStart, NodeView, PartitionView
from pykraft.cluster_view import ClusterView
from pykraft.common.types import TopicPartition
from pykraft.story.scenes import METADATA, PARTITIONS, SEGMENTS, Scene

Row = list[Any]
Lane = int | str
STABLE, GROUP, DISK, START = "stable", "group", "disk", "start"
COMPACTED = "compacted"
"""The kind of cells whose records the cleaner has left out."""
MARKS = {
    STABLE: "last stable offset: committed records are read up to here",
    GROUP: "committed by the group",
    DISK: "on the disk up to here",
    START: "log start offset",
}
"""What the player's legend says of them."""
_PLAIN = (CellKind.DATA, CellKind.CONTROL, CellKind.EMPTY)


class Value(NamedTuple):
    """What a lane shows. As a row it is what `player.js` reads."""

    start: int
    end: int
    high_watermark: int
    epochs: list[list[int]]
    said: str
    leads: bool
    in_sync: bool
    torn: int | None
    """From here on the log is not the leader's."""
    marks: list[Row]


def lanes_at(view: ClusterView, scene: Scene, committed: dict[TopicPartition, int]) -> Iterator[tuple[Lane, Value]]:
    """All lanes at a moment. `committed` is what a group has committed."""
    if scene.lanes == METADATA:
        yield from ((node.node_id, _metadata(node)) for node in view.nodes.values())
    elif scene.lanes == PARTITIONS:
        for key in view.topic_partitions:
            leader = view.leader(*key)
            replica = None if leader is None else view.nodes[leader].partition(*key)
            if key.topic == scene.topic and leader is not None and replica is not None:
                yield str(key), _partition(replica, leader, committed.get(key), scene)
    else:
        led = newest_leader(view, scene.topic, scene.partition)
        for node_id, replica in view.replicas(scene.topic, scene.partition).items():
            yield node_id, _replica(view, view.nodes[node_id], replica, node_id == led, scene)


def newest_leader(view: ClusterView, topic: str, partition: int) -> int | None:
    """The node that has led in the highest epoch, also one that is dead: until another leads, its log counts."""
    own = [
        (each.leader_epoch, node) for node, each in view.replicas(topic, partition).items() if each.leader_id == node
    ]
    return max(own)[1] if own else None


def _replica(view: ClusterView, node: NodeView, replica: PartitionView, leads: bool, scene: Scene) -> Value:
    key = replica.topic_partition
    if not node.is_alive:
        role = "✕ dead"
    elif leads:
        role = "◆ leads"
    else:
        role = "◇ thinks it leads" if replica.leader_id == node.node_id else "● follows"
    return Value(
        *_offsets(replica),
        _epochs(replica.epochs, replica.log_end_offset),
        f"{role}, epoch {replica.leader_epoch}",
        leads,
        node.node_id in view.isr(*key),
        view.truncation_offset(*key, node.node_id),
        list(_marks(replica, scene)),
    )


def _partition(replica: PartitionView, leader: int, committed: int | None, scene: Scene) -> Value:
    marks = list(_marks(replica, scene))
    if committed is not None:
        marks.append([GROUP, committed])
    epochs = _epochs(replica.epochs, replica.log_end_offset)
    said = f"node {leader} leads, epoch {replica.leader_epoch}"
    return Value(*_offsets(replica), epochs, said, True, True, None, marks)


def _metadata(node: NodeView) -> Value:
    quorum, end = node.quorum, max(0, node.quorum.log_end_offset)
    leads = leads_quorum(node)
    sign = "◆ leads" if leads else "● follows" if quorum.role == "follower" else f"○ {quorum.role}"
    said = f"{sign}, epoch {max(0, quorum.epoch)}" if node.is_alive else "✕ dead"
    return Value(0, end, max(0, quorum.high_watermark), _epochs(quorum.epochs, end), said, leads, True, None, [])


def leads_quorum(node: NodeView) -> bool:
    """Whether it leads the metadata quorum, or thinks so: also without a vote, until its own removal is committed."""
    return node.is_alive and node.quorum.leader_id == node.node_id


def _offsets(replica: PartitionView) -> tuple[int, int, int]:
    return max(0, replica.log_start_offset), max(0, replica.log_end_offset), max(0, replica.high_watermark)


def _epochs(epochs: tuple[EpochStart, ...], end: int) -> list[list[int]]:
    return [[entry.epoch, entry.start_offset] for entry in epochs if entry.start_offset < end]


def _marks(replica: PartitionView, scene: Scene) -> Iterator[Row]:
    if scene.tells == SEGMENTS:
        yield [START, replica.log_start_offset]
    if 0 <= replica.last_stable_offset < replica.high_watermark:
        yield [STABLE, replica.last_stable_offset]
    if scene.shows_disk:
        yield [DISK, replica.recovery_point]


def gaps(replica: PartitionView) -> Iterator[tuple[int, int]]:
    """The offsets without a record in the segments that are clean, as far as the tail of the log is known."""
    dirty = next((each.base_offset for each in replica.segments if not each.is_clean), replica.log_end_offset)
    at = max(replica.log_start_offset, replica.log_end_offset - TAIL)
    for run in (*(each for each in replica.tail if each.kind is not CellKind.EMPTY), None):
        begins = dirty if run is None else min(run.base_offset, dirty)
        if at < begins:
            yield at, begins
        at = max(at, dirty if run is None else run.end_offset)


class CellBook:
    """The cells of all lanes, each with the time from which and until which it is there."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._there: dict[tuple[Lane, int], Row] = {}
        self._tails: dict[Lane, object] = {}
        self._gaps: dict[Lane, set[int]] = {}

    def look(self, view: ClusterView, scene: Scene, ms: float) -> None:
        """Take note of what has changed in the logs' tails."""
        if scene.lanes == METADATA:
            return
        for lane, replica in _tails(view, scene):
            clean = [each.is_clean for each in replica.segments] if scene.tells == SEGMENTS else []
            state = replica.tail, replica.log_end_offset, clean
            if self._tails.get(lane) != state:
                self._tails[lane] = state
                self._note(lane, replica, ms)
                if scene.tells == SEGMENTS:
                    self._note_gaps(lane, replica, ms)

    def _note_gaps(self, lane: Lane, replica: PartitionView, ms: float) -> None:
        """A gap stays, and grows; the tail may know only the end of it."""
        for first, end in gaps(replica):
            known = self._gaps.setdefault(lane, set())
            new = [offset for offset in range(first, end) if offset not in known]
            known.update(new)
            self.rows += [[lane, offset, offset + 1, COMPACTED, ms, None] for offset in new]

    def _note(self, lane: Lane, replica: PartitionView, ms: float) -> None:
        now = {run.base_offset: run for run in replica.tail if run.kind not in _PLAIN}
        first = replica.tail[0].base_offset if replica.tail else replica.log_end_offset
        for key in [key for key in self._there if key[0] == lane and key[1] >= first]:
            row, run = self._there[key], now.get(key[1])
            if run is None or row[2:4] != [run.end_offset, run.kind.value]:
                row[5] = ms
                del self._there[key]
        for offset, run in now.items():
            if (lane, offset) not in self._there:
                row = [lane, offset, run.end_offset, run.kind.value, ms, None]
                self._there[lane, offset] = row
                self.rows.append(row)


def _tails(view: ClusterView, scene: Scene) -> Iterator[tuple[Lane, PartitionView]]:
    for key in view.topic_partitions if scene.lanes == PARTITIONS else [scene.topic_partition]:
        replicas = view.replicas(*key)
        if scene.lanes != PARTITIONS:
            yield from replicas.items()
        elif key.topic == scene.topic and (leader := view.leader(*key)) in replicas and leader is not None:
            yield str(key), replicas[leader]
