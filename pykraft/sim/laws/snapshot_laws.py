"""What a snapshot of the metadata must hold, and what an image must be: what replaying the committed log comes to.

* A snapshot of offset 47 is the replay of what is committed before 47, whichever node wrote it: no less, and nothing
  uncommitted. It is checked when it is written, and again when another node has copied it.
* A node that has copied a snapshot has a log that is empty, and begins where the snapshot ends: what it had before may
  contradict the snapshot.
* Two nodes that have read equally far have equal images, also if one of them has read a snapshot and the other every
  record. (A topic that was deleted is in neither.)

The replay goes on from one check to the next; a check of an earlier offset begins from the first record again.

Follows KIP-630 and org.apache.kafka.image.MetadataImageTest.
"""

from bisect import bisect_right

from pykraft.broker.node import Node
from pykraft.common.core import finish
from pykraft.common.types import OffsetAndEpoch
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.raft.log.history import committed as decoded
from pykraft.raft.log.history import read_snapshot
from pykraft.sim.laws.invariants import CommittedLog, Violation, require

_KEPT = 64


class SnapshotLaws:
    """The laws of one run."""

    def __init__(self, committed: CommittedLog) -> None:
        self._committed = committed
        self._loader = MetadataLoader()
        self._replayed = 0
        self._images: dict[OffsetAndEpoch, MetadataImage] = {}
        """The newest that some node has published, by their provenance."""

    def check(self, node: Node, snapshot: OffsetAndEpoch) -> None:
        """A node has written or copied this one."""
        folder = node.raft.replica.log.snapshots
        found = read_snapshot(folder.filesystem, folder.path(snapshot))
        require(found is not None, f"snapshot {snapshot} of node {node.config.node_id} is not there")
        assert found is not None
        loader = MetadataLoader()
        finish(loader.handle_load_snapshot(snapshot, found.decoded()))
        replayed = self._replay_to(snapshot.offset)
        require(
            loader.image == replayed,
            f"snapshot {snapshot} of node {node.config.node_id} is not what was committed before it: "
            f"{_difference(loader.image, replayed)}",
        )

    def check_copied(self, node: Node, snapshot: OffsetAndEpoch) -> None:
        """A node has copied this one, and appends what follows it."""
        self.check(node, snapshot)
        log = node.raft.replica.log
        require(
            log.start_offset == log.end_offset == snapshot.offset,
            f"node {node.config.node_id} has copied snapshot {snapshot}, and its log has offsets {log.start_offset} to "
            f"{log.end_offset}",
        )

    def check_image(self, node_id: int, image: MetadataImage) -> None:
        """A node has published this image."""
        known = self._images.setdefault(image.provenance, image)
        if known is not image and known != image:
            raise Violation(
                f"node {node_id} has another image of offset {image.provenance.offset} than others: "
                f"{_difference(image, known)}"
            )
        while len(self._images) > _KEPT:
            del self._images[next(iter(self._images))]

    def _replay_to(self, end_offset: int) -> MetadataImage:
        count = bisect_right(self._committed.ends, end_offset)
        require(
            count > 0 and self._committed.ends[count - 1] == end_offset,
            f"a snapshot ends at offset {end_offset}, where nothing committed ends",
        )
        if count < self._replayed:
            self._loader, self._replayed = MetadataLoader(), 0
        for batch in self._committed.batches(self._replayed, count):
            finish(self._loader.handle_commit(decoded(batch)))
        self._replayed = count
        return self._loader.image


def _difference(found: MetadataImage, expected: MetadataImage) -> str:
    names = [name for name, value in vars(expected).items() if vars(found)[name] != value]
    return f"{', '.join(names)} differ"
