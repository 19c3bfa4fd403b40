"""Bugs in snapshots of the metadata, and in the levels that say what its records may be.

A snapshot takes the place of a log: whatever is wrong with it is wrong for good.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.common.core import Steps
from pykraft.common.types import OffsetAndEpoch
from pykraft.controller import controller
from pykraft.controller.feature_control import FeatureControl
from pykraft.controller.result import Result
from pykraft.metadata import snapshot_generator
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.metadata.snapshot_generator import SnapshotGenerator
from pykraft.protocol.messages.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from pykraft.raft.log.history import committed
from pykraft.raft.log.listener import CommittedBatch
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.sim.bugs.planting import bug, put
from pykraft.storage.disk.filesystem import FileSystem


@bug
def an_uncommitted_record_in_a_snapshot() -> None:
    """A snapshot has what the log has, committed or not."""

    def decided(self: SnapshotGenerator) -> MetadataImage:
        image, log = self._loader.image, self._replica.log
        delta, offset = MetadataDelta(image), image.provenance.offset + 1
        for batch in log.batches_between(offset, log.end_offset):
            for record in committed(batch).records:
                delta.replay(record)
        return delta.apply(image.provenance)

    put(SnapshotGenerator, "_decided", decided)


@bug
def a_log_start_moved_before_the_snapshot_is_durable() -> None:
    """A snapshot is written and not synced, and the log before it is removed all the same."""

    def write(filesystem: FileSystem, path: str, data: bytes) -> None:
        file = filesystem.open(path)
        file.append(data)
        file.close()

    put(snapshot_generator, "write_snapshot", write)


@bug
def a_deleted_topic_that_survives_a_snapshot() -> None:
    """A snapshot is replayed onto the image that is there, and what it does not mention stays."""

    def handle_load_snapshot(
        self: MetadataLoader, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]
    ) -> Steps[None]:
        for batch in batches:
            for record in batch.records:
                self._delta.replay(record)
        self._loaded = OffsetAndEpoch(snapshot.offset - 1, snapshot.epoch)
        yield from self._apply()
        for listener in self._listeners:
            yield from listener.handle_load_snapshot(snapshot, batches) or ()

    put(MetadataLoader, "handle_load_snapshot", handle_load_snapshot)


@bug
def a_log_that_goes_on_after_a_snapshot_was_copied() -> None:
    """A replica copies a snapshot and keeps the log that it had."""
    put(ReplicatedLog, "begin_at", lambda self, snapshot: self._log.update_high_watermark(snapshot.offset))


@bug
def a_level_that_is_acknowledged_and_not_written() -> None:
    """The controller acknowledges a new level of a feature, and writes no record of it."""
    plan = FeatureControl.update_features

    def update_features(
        self: FeatureControl, image: MetadataImage, request: UpdateFeaturesRequest
    ) -> Result[UpdateFeaturesResponse]:
        return plan(self, image, request)._replace(records=[])

    put(FeatureControl, "update_features", update_features)


@bug
def records_that_are_newer_than_the_level() -> None:
    """The controller writes every record in its newest version, whatever the oldest node can read."""
    put(controller, "as_of_level", lambda record, version, level: (record, version))
