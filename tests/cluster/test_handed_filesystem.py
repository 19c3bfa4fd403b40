"""A cluster's nodes reach the disk through the file system that they are handed."""

from __future__ import annotations

import pytest

from pykraft import Cluster
from pykraft.storage.disk.filesystem import OsFile, OsFileSystem


class Watched(OsFileSystem):
    """The disk of this machine, and the names of all files that were opened."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, path: str) -> OsFile:
        self.opened.append(path.rpartition("/")[2])
        return super().open(path)


def test_a_node_opens_its_logs_through_the_file_system_that_it_is_handed() -> None:
    filesystem = Watched()
    with Cluster(nodes=1, filesystem=filesystem):
        assert f"{0:020d}.log" in filesystem.opened


def test_processes_cannot_be_handed_one() -> None:
    with pytest.raises(ValueError, match="a filesystem can be handed to nodes in this process only"):
        Cluster(nodes=1, mode="processes", filesystem=OsFileSystem())
