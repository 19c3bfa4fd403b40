"""A node's view of the metadata log: what is committed becomes images, and images are published.

Records between BeginTransaction and EndTransaction become true together, however many batches they take (KIP-868); an
AbortTransaction, or a new transaction while one is open, undoes them. Until the end is seen, nothing of it is
published, and the image's offset stays before its beginning.

Publishers (the replicas, the configurations) get each change once, with the delta that made it and the image after it.
A listener (the controller) hears of every commit, snapshot and leader: one decoding and one replay serve the node.

A record that cannot be replayed is a fault. The node says in `on_load_fault` what follows: a controller must stop, and
a broker goes on without the record. From then on its image is not that of the log, so `has_failed` is set, and it
writes no snapshot any more: a wrong image must not outlive the process. A publisher that raises does not keep the
change from the others.

While there is no publisher, an image is made only when something asks for it: a node that starts reads very many
batches, and copies the tables of the image once.

Follows org.apache.kafka.image.loader.{MetadataLoader,MetadataBatchLoader}.
"""

from collections.abc import Callable, Sequence

from pykraft.common.types import LeaderAndEpoch, OffsetAndEpoch
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage
from pykraft.protocol.messages.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from pykraft.raft.listener import CommittedBatch, Listener

LoadFault = Callable[[Exception, int, str], None]
"""Hears of a record that cannot be replayed, or an image that cannot be made: why, at which offset, which record."""
Publisher = Callable[[MetadataDelta, MetadataImage], None]


class MetadataLoader:
    """Keeps the image of what is committed. It is a listener of the Raft client."""

    def __init__(self) -> None:
        self._image = EMPTY_IMAGE
        self._delta = MetadataDelta(EMPTY_IMAGE)
        """What was replayed since, up to `_loaded`."""
        self._loaded = EMPTY_IMAGE.provenance
        self._is_in_transaction = False
        self._publishers: list[Publisher] = []
        self._listeners: list[Listener] = []
        self.has_failed = False
        """Whether something of the log, or of an image, could not be taken in."""
        self.on_load_fault: LoadFault | None = None
        """None: a fault is raised to what delivers the log."""
        self.on_publish_fault: Callable[[Exception], None] | None = None
        """Hears of what a publisher has raised; None: it is raised."""

    @property
    def image(self) -> MetadataImage:
        """The state as of the last commit, or as of the last before the transaction that is open."""
        if not self._publishers:  # with a publisher it is up to date, and any thread may look at it
            self._update()
        return self._image

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open as of the last commit."""
        return self._is_in_transaction

    def publish_to(self, publisher: Publisher) -> None:
        """Call ``publisher(delta, image)`` after each change from now on; what the image holds already, it has to take
        up by itself."""
        self._update()
        self._publishers.append(publisher)

    def add_listener(self, listener: Listener) -> None:
        """Pass on to it what this loader hears, once the image has it."""
        self._listeners.append(listener)

    def handle_commit(self, batch: CommittedBatch) -> None:
        for offset, record in enumerate(batch.records, batch.base_offset):
            match record:
                case BeginTransactionRecord():
                    self._undo_transaction()
                    if offset > batch.base_offset:
                        self._loaded = OffsetAndEpoch(offset - 1, batch.epoch)
                    self._update()
                    self._is_in_transaction = True
                case EndTransactionRecord():
                    self._is_in_transaction = False
                case AbortTransactionRecord():
                    self._undo_transaction()
                case _:
                    self._replay(self._delta, record, offset)
        self._loaded = OffsetAndEpoch(batch.last_offset, batch.epoch)
        if self._publishers:
            self._update()
        for listener in self._listeners:
            listener.handle_commit(batch)

    def _undo_transaction(self) -> None:
        if self._is_in_transaction:
            self._delta = MetadataDelta(self._image)
        self._is_in_transaction = False

    def handle_load_snapshot(self, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]) -> None:
        """Publish the change from the image that is there: a topic that was deleted meanwhile is removed."""
        whole = MetadataDelta(EMPTY_IMAGE)
        for batch in batches:
            for record in batch.records:
                self._replay(whole, record, snapshot.offset)
        self._undo_transaction()
        self._loaded = OffsetAndEpoch(snapshot.offset - 1, snapshot.epoch)
        try:
            self._delta = MetadataDelta.between(self._image, whole.apply(self._loaded))
        except Exception as error:
            self._note_load_fault(error, snapshot.offset, "snapshot")
        self._apply()
        for listener in self._listeners:
            listener.handle_load_snapshot(snapshot, batches)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        for listener in self._listeners:
            listener.handle_leader_change(leader)

    def _update(self) -> None:
        """Bring the image to the last commit, unless a transaction is open."""
        if self._loaded != self._image.provenance and not self._is_in_transaction:
            self._apply()

    def _apply(self) -> None:
        delta = self._delta
        try:
            image = delta.apply(self._loaded)
        except Exception as error:
            self._note_load_fault(error, self._loaded.offset, "image")
            delta = MetadataDelta(self._image)  # what the change was is lost
            image = delta.apply(self._loaded)
        self._image, self._delta = image, MetadataDelta(image)
        for publisher in self._publishers:
            try:
                publisher(delta, image)
            except Exception as error:
                self.has_failed = True
                if self.on_publish_fault is None:
                    raise
                self.on_publish_fault(error)

    def _replay(self, delta: MetadataDelta, record: MetadataRecord, offset: int) -> None:
        try:
            delta.replay(record)
        except Exception as error:
            self._note_load_fault(error, offset, type(record).__name__)

    def _note_load_fault(self, error: Exception, offset: int, record: str) -> None:
        self.has_failed = True
        if self.on_load_fault is None:
            raise error
        self.on_load_fault(error, offset, record)
