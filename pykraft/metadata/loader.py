"""A node's view of the metadata log: what is committed becomes images, and images are published.

Records between BeginTransaction and EndTransaction become true together, however many batches they take (KIP-868); an
AbortTransaction undoes them. Until the end is seen, nothing of it is published, and the image's offset stays before its
beginning. A beginning within a transaction, and an end or an abort outside of one, are faults: no controller writes
them.

Publishers (the replicas, the configurations) get each change once, with the delta that made it and the image after it.
A listener (the controller) hears of every commit, snapshot and leader: one decoding and one replay serve the node.

A batch may hold ten thousand records, and a broker has work to do for each. So a commit is taken in in `Steps`: the
node pauses after a record, and the publishers pause where they may. What is replayed is no image's before the batch
ends, and the next batch waits until every publisher is done with this one.

A record that cannot be replayed is a fault. The node says in `on_load_fault` what follows: a controller must stop, and
a broker goes on without the record. From then on its image is not that of the log, so `has_failed` is set, and it
writes no snapshot any more: a wrong image must not outlive the process. A publisher that raises does not keep the
change from the others.

While there is no publisher, an image is made only when something asks for it: a node that starts reads very many
batches, and copies the tables of the image once.

Follows org.apache.kafka.image.loader.{MetadataLoader,MetadataBatchLoader}.
"""

from collections.abc import Callable, Sequence

from pykraft.common.core import Steps, finish
from pykraft.common.errors import ProtocolError
from pykraft.common.types import LeaderAndEpoch, OffsetAndEpoch
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage
from pykraft.protocol.messages.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from pykraft.raft.log.listener import CommittedBatch, Listener

LoadFault = Callable[[Exception, int, str], None]
"""Hears of a record that cannot be replayed, or an image that cannot be made: why, at which offset, which record."""
Publisher = Callable[[MetadataDelta, MetadataImage], Steps[None] | None]
"""Takes up a change: at once, or in the steps that it returns."""


class MetadataLoader:
    """Keeps the image of what is committed. It is a listener of the Raft client."""

    def __init__(self) -> None:
        self._image = EMPTY_IMAGE
        self._delta = MetadataDelta(EMPTY_IMAGE)
        """What was replayed since, up to `_loaded`."""
        self._loaded = EMPTY_IMAGE.provenance
        self._is_in_transaction = False
        self._is_replaying = False
        """Whether a part of a batch or of a snapshot is in the delta."""
        self._is_applying = False
        """Whether an image is being made of the delta."""
        self._published: int | None = None
        """The offset of the image before, while the publishers take up a new one."""
        self._publishers: list[Publisher] = []
        self._listeners: list[Listener] = []
        self._watchers: list[Callable[[], None]] = []
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
    def published_offset(self) -> int:
        """Up to where every publisher has taken up what is committed."""
        return self.image.provenance.offset if self._published is None else self._published

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

    def watch(self, on_news: Callable[[], None]) -> None:
        """Call ``on_news()`` when there may be another image, or when all publishers have taken it up. In the middle of
        a change: it may only note that."""
        self._watchers.append(on_news)

    def _tell_watchers(self) -> None:
        for on_news in self._watchers:
            on_news()

    def handle_commit(self, batch: CommittedBatch) -> Steps[None]:
        self._is_replaying = True
        for offset, record in enumerate(batch.records, batch.base_offset):
            match record:
                case BeginTransactionRecord() | EndTransactionRecord() | AbortTransactionRecord():
                    yield from self._frame(record, offset, batch)
                case _:
                    self._replay(self._delta, record, offset)
            yield
        self._is_replaying = False
        self._loaded = OffsetAndEpoch(batch.last_offset, batch.epoch)
        self._tell_watchers()
        if self._publishers:
            yield from self._update_in_steps()
        for listener in self._listeners:
            yield from listener.handle_commit(batch) or ()

    def _frame(self, record: MetadataRecord, offset: int, batch: CommittedBatch) -> Steps[None]:
        """A transaction begins, ends or is undone. Where it cannot, that is a fault, and all stays as it was."""
        if isinstance(record, BeginTransactionRecord) is self._is_in_transaction:
            error = ProtocolError(f"a metadata transaction is {'open' if self._is_in_transaction else 'not open'} here")
            self._note_load_fault(error, offset, type(record).__name__)
        elif isinstance(record, BeginTransactionRecord):
            if offset > batch.base_offset:
                self._loaded = OffsetAndEpoch(offset - 1, batch.epoch)
            self._is_replaying = False
            yield from self._update_in_steps()
            self._is_replaying = self._is_in_transaction = True
        elif isinstance(record, AbortTransactionRecord):
            self._undo_transaction()
        else:
            self._is_in_transaction = False

    def _undo_transaction(self) -> None:
        if self._is_in_transaction:
            self._delta = MetadataDelta(self._image)
        self._is_in_transaction = False

    def handle_load_snapshot(self, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]) -> Steps[None]:
        """Publish the change from the image that is there: a topic that was deleted meanwhile is removed."""
        whole = MetadataDelta(EMPTY_IMAGE)
        for batch in batches:
            for record in batch.records:
                self._replay(whole, record, snapshot.offset)
                yield
        self._undo_transaction()
        self._is_replaying = True
        self._loaded = OffsetAndEpoch(snapshot.offset - 1, snapshot.epoch)
        try:
            yield from whole.settle()
            self._delta = yield from MetadataDelta.between_in_steps(self._image, whole.apply(self._loaded))
        except Exception as error:
            self._note_load_fault(error, snapshot.offset, "snapshot")
        finally:
            self._is_replaying = False
        yield from self._apply()
        for listener in self._listeners:
            yield from listener.handle_load_snapshot(snapshot, batches) or ()

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        for listener in self._listeners:
            listener.handle_leader_change(leader)

    def _update(self) -> None:
        """The same at once, where there is nothing to publish to."""
        finish(self._update_in_steps())

    def _update_in_steps(self) -> Steps[None]:
        """Bring the image to the last commit, unless a transaction is open, or a part of a batch is in the delta."""
        is_between = self._is_in_transaction or self._is_replaying or self._is_applying
        if self._loaded != self._image.provenance and not is_between:
            yield from self._apply()

    def _apply(self) -> Steps[None]:
        delta = self._delta
        self._is_applying = True
        try:
            yield from delta.settle()
            image = delta.apply(self._loaded)
        except Exception as error:
            self._note_load_fault(error, self._loaded.offset, "image")
            delta = MetadataDelta(self._image)  # what the change was is lost
            image = delta.apply(self._loaded)
        finally:
            self._is_applying = False
        before, self._image, self._delta = self._image, image, MetadataDelta(image)
        self._tell_watchers()
        try:
            for publisher in list(self._publishers):
                self._published = before.provenance.offset
                yield from self._publish(publisher, delta, image)
        finally:
            self._published = None
            self._tell_watchers()

    def _publish(self, publisher: Publisher, delta: MetadataDelta, image: MetadataImage) -> Steps[None]:
        try:
            yield from publisher(delta, image) or ()
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
