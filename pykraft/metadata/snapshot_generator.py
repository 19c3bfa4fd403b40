"""When a node writes a snapshot of its metadata, and how.

Each node, controller or broker, writes snapshots of its own image, so that it can start from the newest one and let the
beginning of its log go. One is due when `metadata.log.max.record.bytes.between.snapshots` have been committed since the
last, or `metadata.log.max.snapshot.interval.ms` have passed; both are looked at when something is committed, and an
idle cluster commits a NoOpRecord twice a second.

A snapshot of offset 47 holds all that is decided before 47, and nothing else: the image of the loader, taken when a
batch has just ended at 46 and no metadata transaction is open. The image is a value, so it is encoded and written off
the node's thread (`common.background`), while the node goes on. The log is synced first: from then on a start reads the
snapshot and what follows it, and trusts what is before. When the file is whole and on the disk, the node gets a call on
its own thread; a crash before that leaves a file that no start takes for a snapshot (`raft.log.snapshot`).

Follows org.apache.kafka.image.publisher.{SnapshotGenerator,SnapshotEmitter} (KIP-630, KIP-876).
"""

from collections.abc import Callable, Sequence

from pykraft.common.background import Background
from pykraft.common.core import Clock
from pykraft.common.settings.config import Config
from pykraft.common.types import LeaderAndEpoch, OffsetAndEpoch
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.protocol.messages.records import encode_metadata_record
from pykraft.raft import config as keys
from pykraft.raft.log.listener import CommittedBatch
from pykraft.raft.log.snapshot import encode_snapshot, write_snapshot
from pykraft.raft.log.voters import VoterSet
from pykraft.raft.replica import RaftReplica


class SnapshotGenerator:
    """Listens to the loader of a node."""

    def __init__(
        self,
        loader: MetadataLoader,
        replica: RaftReplica,
        config: Config,
        background: Background,
        clock: Clock,
        now: Callable[[], int],
    ) -> None:
        self._loader = loader
        self._replica = replica
        self._max_bytes: int = config[keys.MAX_BYTES_BETWEEN_SNAPSHOTS]
        self._max_interval_ms: int = config[keys.MAX_SNAPSHOT_INTERVAL_MS]
        self._background = background
        self._clock = clock
        self._now = now
        self._bytes = 0
        """Committed since the last snapshot."""
        self._last: int | None = None
        """When that was; None until the first commit."""
        self._is_writing = False

    def handle_commit(self, batch: CommittedBatch) -> None:
        self._bytes += batch.size
        if self._last is None:
            self._last = self._now()
        waited_ms = self._now() - self._last
        is_due = self._bytes >= self._max_bytes or (self._max_interval_ms and waited_ms >= self._max_interval_ms)
        if is_due and not self._is_writing and not self._loader.has_failed:
            self._write(batch)

    def handle_load_snapshot(self, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]) -> None:
        self._reset()

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Every node writes snapshots, whichever leads."""

    def _reset(self) -> None:
        self._bytes, self._last = 0, self._now()

    def _decided(self) -> MetadataImage:
        return self._loader.image

    def _write(self, batch: CommittedBatch) -> None:
        image = self._decided()
        if image.provenance != (batch.last_offset, batch.epoch):
            return  # a metadata transaction is open: what it has written may come to nothing
        snapshot = OffsetAndEpoch(batch.last_offset + 1, batch.epoch)
        self._reset()
        if self._replica.log.has_snapshot(snapshot):
            return
        voters = self._replica.control_records.voters_in_log(snapshot.offset)
        folder, time_ms = self._replica.log.snapshots, self._clock.time_ms()
        sync_log = self._replica.log.sync_before_snapshot()

        def write() -> bool:
            if not sync_log():
                return False  # the log was closed, or lost a segment meanwhile
            data = snapshot_of_image(image, voters, snapshot.epoch, time_ms, batch.timestamp)
            write_snapshot(folder.filesystem, folder.path(snapshot), data)
            return True

        def written(is_written: bool) -> None:
            self._is_writing = False
            if is_written:
                self._replica.snapshot_written(snapshot)

        self._is_writing = True
        self._background.submit(write, written)


def snapshot_of_image(
    image: MetadataImage, voters: VoterSet | None, epoch: int, time_ms: int, last_time_ms: int
) -> bytes:
    """The bytes of a snapshot. `last_time_ms` is when the last record in it was written."""
    values = (encode_metadata_record(record, version) for record, version in image.to_records())
    return encode_snapshot(voters, values, epoch=epoch, timestamp=time_ms, last_timestamp=last_time_ms)
