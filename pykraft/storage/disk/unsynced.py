"""The disk of this machine, without syncs: for a cluster whose files need not outlast a loss of power.

A node of pykraft syncs what the quorum and the logs' checkpoints rest on. A cluster of one node that starts, makes a
topic, serves a group and stops syncs about 75 times, and a disk needs some milliseconds for each. In a test's own
cluster that is most of the time, and nothing is gained: a machine that lost its power starts the test again.

All else is as on the disk: a process that dies leaves what it has written, since the kernel has it.
"""

from pykraft.storage.disk.filesystem import OsFile, OsFileSystem


class UnsyncedFile(OsFile):
    """A file whose bytes reach the disk when the kernel writes them."""

    __slots__ = ()

    def sync(self) -> None:
        pass


class UnsyncedFileSystem(OsFileSystem):
    """Ours: Apache Kafka has only settings that make syncs rare."""

    def open(self, path: str) -> UnsyncedFile:
        return UnsyncedFile(path)

    def sync_directory(self, path: str) -> None:
        pass

    def sync_everything(self, path: str) -> None:
        pass

    def _sync(self, descriptor: int) -> None:
        pass
