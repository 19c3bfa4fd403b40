"""The disk without syncs: files are what they are on the disk, and the disk is never asked to write them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pykraft.storage.disk import filesystem
from pykraft.storage.disk.filesystem import FileSystem, OsFileSystem, Synced, replace_file
from pykraft.storage.disk.unsynced import UnsyncedFileSystem


def write_all_ways(disk: FileSystem, home: Path) -> dict[str, bytes]:
    """Change files in each way that syncs; what is in them then."""
    disk.make_directory(f"{home}/sub")
    replace_file(disk, f"{home}/sub/replaced", b"first")
    replace_file(disk, f"{home}/sub/replaced", b"second")
    file = disk.open(f"{home}/sub/appended")
    file.append(b"one two")
    file.truncate(3)
    synced = Synced(file)
    synced.distrust()
    synced.sync()
    file.sync()
    assert file.read(0, 10) == b"one"
    file.close()
    disk.sync_directory(f"{home}/sub")
    disk.sync_everything(str(home))
    return {path.name: path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("disk", "syncs"), [(OsFileSystem(), True), (UnsyncedFileSystem(), False)])
def test_the_same_files_are_written_with_and_without_syncs(
    disk: FileSystem, syncs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def note(descriptor: int) -> int:
        asked.append(descriptor)
        return 0

    calls: list[tuple[object, str, Callable[[int], int]]] = [
        (os, "fsync", note),
        (filesystem, "_sync_data", note),
        (filesystem, "_syncfs", note),
    ]
    for owner, name, call in calls:
        monkeypatch.setattr(owner, name, call)
    assert write_all_ways(disk, tmp_path) == {"replaced": b"second", "appended": b"one"}
    assert bool(asked) == syncs
