"""The FileSystem port: the disk of this machine and the disk in memory keep the same contract."""

from __future__ import annotations

import ctypes
import errno
import os
import pathlib
import re
import socket
import stat
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk import filesystem as filesystems
from pykraft.storage.disk.filesystem import (
    FileSystem,
    LockedError,
    OsFileRegion,
    OsFileSystem,
    name_of,
    parent,
    replace_file,
)
from tests.harness.storage import bytes_of


@pytest.fixture(params=["memory", "system"])
def disk(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> tuple[FileSystem, str]:
    """A file system and an empty folder in it."""
    if request.param == "system":
        return OsFileSystem(), str(tmp_path)
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/tmp/x")
    return filesystem, "/tmp/x"


Disk = tuple[FileSystem, str]


def test_a_file_grows_at_its_end_and_is_read_anywhere(disk: Disk) -> None:
    filesystem, home = disk
    file = filesystem.open(f"{home}/a")
    assert file.size == 0 and filesystem.exists(f"{home}/a")
    file.append(b"0123")
    file.append(memoryview(b"456"))
    file.append(bytearray())
    assert file.size == filesystem.size(f"{home}/a") == 7
    assert file.read(2, 3) == b"234" and file.read(5, 99) == b"56" and file.read(7, 1) == b""
    assert filesystem.read(f"{home}/a") == b"0123456"
    assert file.path == f"{home}/a"
    file.sync()
    file.close()


def test_a_file_is_cut_and_goes_on_there(disk: Disk) -> None:
    filesystem, home = disk
    file = filesystem.open(f"{home}/a")
    file.append(b"0123456789")
    file.truncate(4)
    file.append(b"x")
    assert (file.size, filesystem.read(f"{home}/a")) == (5, b"0123x")
    file.close()
    again = filesystem.open(f"{home}/a")
    assert again.size == 5
    again.close()


def test_a_region_is_the_bytes_that_were_asked_for(disk: Disk) -> None:
    filesystem, home = disk
    file = filesystem.open(f"{home}/a")
    file.append(b"0123456789")
    region = file.region(3, 4)
    assert len(region) == 4 and bytes_of(region) == b"3456"
    file.append(b"more")
    assert bytes_of(region) == b"3456"
    file.close()


def test_a_closed_file_is_of_no_use(disk: Disk) -> None:
    filesystem, home = disk
    file = filesystem.open(f"{home}/a")
    file.close()
    file.close()
    for use in (lambda: file.append(b"x"), lambda: file.read(0, 1), lambda: file.truncate(0), file.sync):
        with pytest.raises(OSError):
            use()


def test_an_open_file_outlives_its_name(disk: Disk) -> None:
    filesystem, home = disk
    file = filesystem.open(f"{home}/a")
    file.append(b"1")
    filesystem.rename(f"{home}/a", f"{home}/b")
    file.append(b"2")
    assert filesystem.read(f"{home}/b") == b"12" and not filesystem.exists(f"{home}/a")
    filesystem.remove(f"{home}/b")
    file.append(b"3")
    assert file.read(0, 9) == b"123" and filesystem.list(home) == []
    file.close()


def test_write_overwrites_and_rename_replaces(disk: Disk) -> None:
    filesystem, home = disk
    filesystem.write(f"{home}/a", b"a long content")
    filesystem.write(f"{home}/a", b"short")
    filesystem.write(f"{home}/b", b"other")
    filesystem.rename(f"{home}/a", f"{home}/b")
    assert filesystem.list(home) == ["b"] and filesystem.read(f"{home}/b") == b"short"


def test_a_file_is_replaced_as_a_whole(disk: Disk) -> None:
    filesystem, home = disk
    for content in (b"one", b"two"):
        replace_file(filesystem, f"{home}/a", content)
        assert filesystem.read(f"{home}/a") == content
    assert filesystem.list(home) == ["a"]


def test_folders_are_made_listed_renamed_and_removed_with_all_that_is_in_them(disk: Disk) -> None:
    filesystem, home = disk
    filesystem.make_directory(f"{home}/x/y")
    filesystem.make_directory(f"{home}/x/y")
    filesystem.write(f"{home}/x/y/b", b"1")
    filesystem.write(f"{home}/x/y/a", b"2")
    assert filesystem.list(f"{home}/x/y") == ["a", "b"]
    filesystem.rename(f"{home}/x", f"{home}/z")
    assert filesystem.read(f"{home}/z/y/b") == b"1" and not filesystem.exists(f"{home}/x/y/b")
    filesystem.sync_directory(f"{home}/z/y")
    filesystem.remove(f"{home}/z")
    assert filesystem.list(home) == []


@pytest.mark.parametrize("use", ["size", "read", "list", "remove", "sync_directory"])
def test_what_is_missing_is_said_to_be_missing(disk: Disk, use: str) -> None:
    filesystem, home = disk
    assert not filesystem.exists(f"{home}/no") and not filesystem.exists(f"{home}/no/no")
    with pytest.raises(FileNotFoundError):
        getattr(filesystem, use)(f"{home}/no")
    for act in (
        lambda: filesystem.open(f"{home}/no/a"),
        lambda: filesystem.write(f"{home}/no/a", b""),
        lambda: filesystem.rename(f"{home}/no", f"{home}/a"),
    ):
        with pytest.raises(FileNotFoundError):
            act()


def test_a_folder_is_no_file(disk: Disk) -> None:
    filesystem, home = disk
    filesystem.make_directory(f"{home}/x")
    filesystem.write(f"{home}/a", b"")
    for act in (
        lambda: filesystem.open(f"{home}/x"),
        lambda: filesystem.read(f"{home}/x"),
        lambda: filesystem.write(f"{home}/x", b""),
        lambda: filesystem.list(f"{home}/a"),
        lambda: filesystem.make_directory(f"{home}/a"),
        lambda: filesystem.open(f"{home}/a/b"),
    ):
        with pytest.raises(OSError):
            act()
    assert not filesystem.exists(f"{home}/a/b")


def test_a_lock_is_held_by_one(disk: Disk) -> None:
    filesystem, home = disk
    lock = filesystem.lock(f"{home}/.lock")
    with pytest.raises(LockedError, match="this process"):
        filesystem.lock(f"{home}/.lock")
    other = filesystem.lock(f"{home}/.other")
    lock.release()
    lock.release()
    filesystem.lock(f"{home}/.lock").release()
    other.release()


def test_the_space_on_a_disk_is_told(disk: Disk) -> None:
    filesystem, home = disk
    space = filesystem.space(home)
    assert space.total_bytes >= space.usable_bytes > 0


@pytest.mark.parametrize(("path", "above", "name"), [("/a/b", "/a", "b"), ("/a", "/", "a"), ("/a/b.c", "/a", "b.c")])
def test_paths_are_taken_apart(path: str, above: str, name: str) -> None:
    assert (parent(path), name_of(path)) == (above, name)


# --- this machine's disk alone ----------------------------------------------------------------------------------------


def test_a_file_may_be_written_so_that_its_owner_cannot_change_it(tmp_path: pathlib.Path) -> None:
    OsFileSystem().write(f"{tmp_path}/snapshot", b"x", mode=0o400)
    assert stat.S_IMODE(os.stat(f"{tmp_path}/snapshot").st_mode) == 0o400


def test_an_append_to_a_full_disk_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    file = OsFileSystem().open(f"{tmp_path}/a")
    file.append(b"whole")
    system_write = os.write

    def half_full(descriptor: int, data: bytes) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, "no space left on device")
        return system_write(descriptor, data[:6])

    monkeypatch.setattr(os, "write", half_full)
    with pytest.raises(OSError, match="no space"):
        file.append(b"0123456789")
    monkeypatch.undo()
    assert (file.size, file.read(0, 99)) == (5, b"whole")
    file.append(b"!")
    assert file.read(0, 99) == b"whole!"
    file.close()


def test_a_short_write_is_completed(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    system_write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: system_write(descriptor, data[:3]))
    file = OsFileSystem().open(f"{tmp_path}/a")
    file.append(b"0123456789")
    assert file.read(0, 99) == b"0123456789"
    file.close()


def region_of(tmp_path: pathlib.Path) -> OsFileRegion:
    file = OsFileSystem().open(f"{tmp_path}/a")
    file.append(b"0123456789")
    region = file.region(2, 6)
    assert isinstance(region, OsFileRegion)
    return region


def test_the_kernel_sends_a_region(tmp_path: pathlib.Path) -> None:
    region = region_of(tmp_path)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sent = region.send_to(ours.fileno(), 0)
        while sent < len(region):
            sent += region.send_to(ours.fileno(), sent)
        assert theirs.recv(100) == b"234567"
        assert region.send_to(ours.fileno(), 4) == 2
        assert region.read(4, 99) == b"67"
    region._file.close()


def test_a_region_of_a_file_that_was_cut_since_is_not_sent(tmp_path: pathlib.Path) -> None:
    """Even if the file has grown again: other records may stand there."""
    region = region_of(tmp_path)
    region._file.truncate(3)
    region._file.append(b"abcdefgh")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for use in (lambda: region.read(0, 1), lambda: region.send_to(ours.fileno(), 0)):
            with pytest.raises(EOFError, match="was truncated after its bytes were promised"):
                use()
    region._file.close()


_HOLDER = """
import sys
from pykraft.storage.disk.filesystem import OsFileSystem
lock = OsFileSystem().lock(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_lock_keeps_other_processes_out_and_ends_with_its_own(tmp_path: pathlib.Path) -> None:
    filesystem, path = OsFileSystem(), f"{tmp_path}/.lock"
    command = [sys.executable, "-c", _HOLDER, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
        for _ in range(2):
            with pytest.raises(LockedError) as refused:
                filesystem.lock(path)
            holder_named = f"process {holder.pid}" if sys.platform == "linux" else "another process"
            assert str(refused.value) == holder_named
        holder.kill()
        holder.wait()
    lock = filesystem.lock(path)
    other = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert other.returncode == 1 and "LockedError: " in other.stderr
    lock.release()


def test_a_folder_under_two_names_is_one_folder(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    filesystem = OsFileSystem()
    lock = filesystem.lock(f"{tmp_path}/a/.lock")
    with pytest.raises(LockedError):
        filesystem.lock(f"{tmp_path}/b/.lock")
    lock.release()


# --- the same things done to both -------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from("ab"), st.binary(max_size=20)),
        st.tuples(st.just("truncate"), st.sampled_from("ab"), st.integers(0, 30)),
        st.tuples(st.just("write"), st.sampled_from("ab"), st.binary(max_size=20)),
        st.tuples(st.just("rename"), st.sampled_from("ab"), st.sampled_from("abc")),
        st.tuples(st.just("remove"), st.sampled_from("abc"), st.none()),
        st.tuples(st.just("read"), st.sampled_from("ab"), st.tuples(st.integers(0, 30), st.integers(0, 30))),
    ),
    max_size=30,
)


@given(STEPS)
def test_both_disks_do_the_same(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, object]]) -> None:
    memory = MemoryFileSystem()
    memory.make_directory("/h")
    results = [play(memory, "/h", steps), play(OsFileSystem(), str(tmp_path_factory.mktemp("h")), steps)]
    assert results[0] == results[1]


def play(filesystem: FileSystem, home: str, steps: list[tuple[str, str, object]]) -> list[object]:
    files = {}
    seen: list[object] = []
    for step, name, argument in steps:
        path = f"{home}/{name}"
        try:
            if step in ("append", "truncate", "read") and name not in files:
                files[name] = filesystem.open(path)
            if step == "truncate":
                assert isinstance(argument, int)
                files[name].truncate(min(argument, files[name].size))
            elif step == "append":
                assert isinstance(argument, bytes)
                files[name].append(argument)
            elif step == "read":
                assert isinstance(argument, tuple)
                seen.append(files[name].read(*argument))
            elif step == "write":
                assert isinstance(argument, bytes)
                forget(files, name)
                filesystem.write(path, argument)
            elif step == "rename":
                forget(files, name)
                forget(files, str(argument))
                filesystem.rename(path, f"{home}/{argument}")
            else:
                forget(files, name)
                filesystem.remove(path)
        except OSError as error:
            seen.append(type(error))
    for name in list(files):
        forget(files, name)
    return [*seen, [(name, filesystem.read(f"{home}/{name}")) for name in filesystem.list(home)]]


def forget(files: dict[str, object], name: str) -> None:
    file = files.pop(name, None)
    if file is not None:
        file.close()  # type: ignore[attr-defined]


def test_without_a_call_for_the_volume_everything_below_a_folder_is_synced_one_by_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x")
    OsFileSystem().sync_everything(str(tmp_path))  # as this system does it
    synced: list[int] = []
    monkeypatch.setattr(filesystems, "_syncfs", None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    OsFileSystem().sync_everything(str(tmp_path))
    assert sorted(synced) == sorted(path.stat().st_ino for path in (tmp_path, *tmp_path.rglob("*")))


def test_a_volume_that_could_not_write_says_so(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(filesystems, "_syncfs", fails)
    with pytest.raises(OSError, match=re.escape(str(tmp_path))) as failure:
        OsFileSystem().sync_everything(str(tmp_path))
    assert failure.value.errno == errno.EIO


# --- room ahead of the end --------------------------------------------------------------------------------------------


def taken(path: pathlib.Path) -> int:
    """How many bytes of the volume the file takes."""
    return path.stat().st_blocks * 512


def reserves(home: pathlib.Path) -> bool:
    """Whether this file system can reserve room behind the end of a file."""
    path = home / "probe"
    path.write_bytes(b"x")
    with path.open("r+b") as file:
        filesystems.reserve(file.fileno(), 1, 1 << 20)
    return taken(path) > 1 << 20


def grown(path: pathlib.Path, size: int) -> filesystems.OsFile:
    file = OsFileSystem().open(str(path))
    while file.size < size:
        file.append(bytes(64 << 10))
    return file


def test_a_file_that_grows_has_room_ahead_and_gives_it_back(tmp_path: pathlib.Path) -> None:
    ahead = 512 << 10 if reserves(tmp_path) else 0
    path = tmp_path / "a"
    file = grown(path, 3 << 19)
    for _ in range(2):
        assert file.size == path.stat().st_size and file.size + ahead <= taken(path) <= 2 * file.size
        file.trim()
        file.trim()
        assert file.size == path.stat().st_size and taken(path) == file.size
        file.append(bytes(64 << 10))
    file.append(b"last")
    assert path.read_bytes() == bytes(file.size - 4) + b"last"
    file.truncate(1 << 20)
    assert taken(path) == path.stat().st_size == 1 << 20
    file.append(bytes(64 << 10))
    assert file.size + ahead <= taken(path), "it grows again"
    file.close()
    grown(path, 10 << 20).close()
    assert taken(path) <= path.stat().st_size + (4 << 20), "no more than that"


def test_nothing_is_reserved_for_a_small_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a"
    file = grown(path, 512 << 10)
    assert taken(path) == file.size
    changed = path.stat().st_mtime_ns
    file.trim()
    assert path.stat().st_mtime_ns == changed
    file.close()


def test_what_a_crash_left_reserved_is_given_back_by_the_next_who_is_done_with_the_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a"
    grown(path, 2 << 20).close()
    again = OsFileSystem().open(str(path))
    again.trim()
    assert taken(path) == again.size == 2 << 20
    again.close()


def test_a_file_grows_the_same_where_nothing_can_be_reserved(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(number: int, mode: int, start: object, length: object) -> int:
        ctypes.set_errno(errno.EOPNOTSUPP)
        return -1

    for name, call in (("none", None), ("failing", fails)):
        monkeypatch.setattr(filesystems, "_fallocate", call)
        path = tmp_path / name
        file = grown(path, 2 << 20)
        file.trim()
        assert taken(path) == file.size == 2 << 20
        file.close()
