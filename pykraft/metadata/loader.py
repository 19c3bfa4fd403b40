"""A broker's view of the metadata log: committed batches become images, and images are published.

Records between BeginTransaction and EndTransaction become true together, however many batches they take (KIP-868); an
AbortTransaction, or a new transaction while one is open, undoes them. Until the end is seen, nothing of it is
published.

Publishers (the replicas, the configurations) get each change once, with the delta that made it and the image after it.

Follows org.apache.kafka.image.loader.{MetadataLoader,MetadataBatchLoader}.
"""

from collections.abc import Callable, Sequence

from pykraft.common.types import LeaderAndEpoch, OffsetAndEpoch
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage
from pykraft.protocol.messages.records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from pykraft.raft.listener import CommittedBatch

Publisher = Callable[[MetadataDelta, MetadataImage], None]


class MetadataLoader:
    """Keeps the image of what is committed. It is a listener of the Raft client."""

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.leader = LeaderAndEpoch(-1, 0)
        self._publishers: list[Publisher] = []
        self._transaction: MetadataDelta | None = None

    def publish_to(self, publisher: Publisher) -> None:
        """Call ``publisher(delta, image)`` after each change."""
        self._publishers.append(publisher)

    def handle_commit(self, batch: CommittedBatch) -> None:
        here = OffsetAndEpoch(batch.last_offset, batch.epoch)
        delta = MetadataDelta(self.image)
        for record in batch.records:
            if isinstance(record, BeginTransactionRecord):
                self._publish(delta, here)
                self._transaction = MetadataDelta(self.image)
            elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
                if self._transaction is not None and isinstance(record, EndTransactionRecord):
                    self._publish(self._transaction, here)
                self._transaction = None
                delta = MetadataDelta(self.image)
            else:
                (self._transaction or delta).replay(record)
        if self._transaction is None:
            self._publish(delta, here)

    def handle_load_snapshot(self, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]) -> None:
        self._transaction = None
        delta = MetadataDelta(EMPTY_IMAGE)
        for batch in batches:
            for record in batch.records:
                delta.replay(record)
        self._publish(delta, OffsetAndEpoch(snapshot.offset - 1, snapshot.epoch))

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.leader = leader

    def _publish(self, delta: MetadataDelta, provenance: OffsetAndEpoch) -> None:
        self.image = delta.apply(provenance)
        for publisher in self._publishers:
            publisher(delta, self.image)
