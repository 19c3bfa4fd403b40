"""The segments of a film's lanes: which files a replica's log has, and what became of those that it has no more.

A lane's value is its segments, oldest first, each with the offset at which it begins, its bytes and its state:

    active    receives the next records
    closed    complete; retention may delete it, and the cleaner may compact it
    clean     compacted: of each key's records before the first dirty offset the last one is left

What is *gone* is kept, with the moment from which on it is so: retention deleted the segment, or the cleaner has copied
what is left of it into the one before. Offsets whose records a compacted log has no more are cells of the kind
``compacted`` (`lanes.CellBook`).
"""

from collections.abc import Iterator
from typing import NamedTuple

from pykraft.broker.describe import PartitionView, SegmentView
from pykraft.cluster_view import ClusterView
from pykraft.story.scenes import Scene
from pykraft.viz.player.lanes import Lane, Row

ACTIVE, CLOSED, CLEAN = "active", "closed", "clean"
DELETED, MERGED = "deleted", "merged"
KIND = "segment"
"""The kind of a mark that says what happened to segments."""
_PASS_MS = 50
"""A pass of the cleaner over such small segments is over by then."""


def segments_of(replica: PartitionView) -> list[Row]:
    """What a lane shows of its segments."""
    *closed, active = replica.segments or [None]
    rows = [[each.base_offset, each.size_bytes, CLEAN if each.is_clean else CLOSED] for each in closed if each]
    return rows if active is None else [*rows, [active.base_offset, active.size_bytes, ACTIVE]]


class _Pass(NamedTuple):
    """What the cleaner has done to one log."""

    old_bytes: int
    mark: Row


class SegmentBook:
    """What each replica's log had before, and what has gone since."""

    def __init__(self) -> None:
        self.gone: list[Row] = []
        self.marks: list[Row] = []
        self._known: dict[Lane, tuple[SegmentView, ...]] = {}
        self._passes: dict[int, _Pass] = {}

    def look(self, view: ClusterView, scene: Scene, ms: float) -> Iterator[tuple[Lane, list[Row]]]:
        """Take note of what has gone; what each lane has now."""
        for node, replica in view.replicas(*scene.topic_partition).items():
            before = self._known.get(node, ())
            if view.nodes[node].is_alive and before != replica.segments:
                self._known[node] = replica.segments
                self._note(node, before, replica, ms)
            yield node, segments_of(replica)

    def _note(self, node: int, before: tuple[SegmentView, ...], replica: PartitionView, ms: float) -> None:
        left = {each.base_offset for each in replica.segments}
        deleted = 0
        for segment, end in zip(before, [each.base_offset for each in before[1:]], strict=False):
            if segment.base_offset not in left and segment.base_offset < replica.log_end_offset:
                is_deleted = end <= replica.log_start_offset
                deleted += is_deleted
                self.gone.append([node, segment.base_offset, end, ms, DELETED if is_deleted else MERGED])
        if deleted:
            what = "its oldest segment" if deleted == 1 else f"its {deleted} oldest segments"
            text = f"node {node} deletes {what}: its log starts at offset {replica.log_start_offset}"
            self.marks.append([ms, KIND, text, node])
        old_bytes, new_bytes = (sum(each.size_bytes for each in log[:-1]) for log in (before, replica.segments))
        if new_bytes < old_bytes and not deleted:
            self._note_pass(node, old_bytes, new_bytes, ms)
        elif (known := self._passes.get(node)) is not None and ms - known.mark[0] <= _PASS_MS:
            known.mark[0] = ms  # the cleaner has written down up to where the log is clean

    def _note_pass(self, node: int, old_bytes: int, new_bytes: int, ms: float) -> None:
        """A pass of the cleaner puts one group of segments after the other in place, all at about one moment."""
        known = self._passes.get(node)
        if known is None or ms - known.mark[0] > _PASS_MS:
            known = self._passes[node] = _Pass(old_bytes, [ms, KIND, "", node])
            self.marks.append(known.mark)
        known.mark[0] = ms
        left = f"of {known.old_bytes:,} bytes {new_bytes:,} are left"
        known.mark[2] = f"node {node} compacts its closed segments: {left}"
