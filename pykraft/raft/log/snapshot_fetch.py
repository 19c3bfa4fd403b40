"""Copying a snapshot from the leader: the follower's half of FetchSnapshot, and the file that it fills.

A follower that is behind the start of the leader's log learns, in the answer to a fetch, which snapshot to copy. It
asks for one piece after the other, each from where the last one ended; a piece may begin and end in mid-batch::

    00000000000000000047-0000000003.checkpoint.part      grows, piece by piece
    00000000000000000047-0000000003.checkpoint           checked (footer, checksums, every record), synced, renamed

Then the follower's log begins again at offset 47. A role that ends drops the file; after a crash the next start removes
it. A leader that no longer has the snapshot says so, and the follower asks with a fetch again.

Follows handleFetchSnapshotResponse of org.apache.kafka.raft.KafkaRaftClient and
org.apache.kafka.snapshot.FileRawSnapshotWriter (KIP-630).
"""

from pykraft.common.core import Steps
from pykraft.common.types import OffsetAndEpoch
from pykraft.raft.log.history import SnapshotFolder, read_snapshot
from pykraft.raft.log.snapshot import PART_SUFFIX
from pykraft.storage.disk.checkpoint import DamagedFileError


class SnapshotFetch:
    """One snapshot on its way, and how much of it has come."""

    def __init__(self, folder: SnapshotFolder, snapshot: OffsetAndEpoch) -> None:
        self.id = snapshot
        self.position = 0
        """How many bytes there are; where the next piece begins."""
        self._folder = folder
        self._path = folder.path(snapshot) + PART_SUFFIX
        if folder.filesystem.exists(self._path):
            folder.filesystem.remove(self._path)
        self._file = folder.filesystem.open(self._path)

    def append(self, piece: memoryview) -> None:
        self._file.append(piece)
        self.position += len(piece)

    def check(self) -> Steps[None]:
        """All is there: DamagedFileError if it is no snapshot. Pauses between its batches."""
        self._file.sync()
        found = read_snapshot(self._folder.filesystem, self._path)
        if found is None:
            raise DamagedFileError(f"{self._path} is gone")
        yield from found.decoded_in_steps()

    def finish(self) -> None:
        """It is checked: let it be a snapshot."""
        self._file.close()
        self._folder.filesystem.rename(self._path, self._folder.path(self.id))
        self._folder.filesystem.sync_directory(self._folder.directory)

    def abandon(self) -> None:
        """It is not wanted any more."""
        self._file.close()
        self._folder.filesystem.remove(self._path)
