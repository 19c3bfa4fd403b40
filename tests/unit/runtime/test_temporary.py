"""A temporary directory of a process that has ended is removed by the next process that makes one, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykraft.runtime.temporary import MARK, TemporaryPlace, _mark_of, remove_abandoned
from tests.harness.tree import ROOT

PROGRAM = """
import sys
from pykraft.runtime.temporary import TemporaryPlace
print(TemporaryPlace().path, flush=True)
sys.stdin.read()
"""
LOCKING = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def other(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process, and the directory that it has made."""
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        (path / "node-1").mkdir()
        (path / "node-1" / ".lock").touch()
        yield process, path
        process.kill()


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_the_directory_of_a_process_that_was_killed_is_removed_with_the_next_one(
    other: tuple[subprocess.Popen[str], Path],
) -> None:
    process, path = other
    first = TemporaryPlace()
    assert path.is_dir(), "its process is alive"
    end(process)
    second = TemporaryPlace()
    assert not path.exists()
    assert first.path.is_dir(), "that of this process"
    for place in (first, second, second):
        place.remove()
    assert not first.path.exists()


def test_a_forked_child_takes_nothing(folder: Path) -> None:
    place = TemporaryPlace()
    child = os.fork()
    if child == 0:
        place.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert (place.path / MARK).is_file()
    place.remove()


def test_what_only_looks_like_one_stays(folder: Path, other: tuple[subprocess.Popen[str], Path]) -> None:
    process, path = other
    end(process)
    without_mark, of_something_else, copied, linked = (folder / f"pykraft-{name}" for name in "abcd")
    without_mark.mkdir()
    of_something_else.mkdir()
    (of_something_else / MARK).write_text("pid=1\nboot=\n\n")
    shutil.copytree(path, copied)
    linked.symlink_to(path)
    (folder / "pykraft-file").touch()
    assert remove_abandoned(folder) == [path]
    assert (copied / "node-1" / ".lock").is_file()
    assert without_mark.is_dir()
    assert (of_something_else / MARK).is_file()
    assert linked.is_symlink()


def test_a_directory_whose_node_still_runs_stays(folder: Path, other: tuple[subprocess.Popen[str], Path]) -> None:
    process, path = other
    end(process)
    command = [sys.executable, "-c", LOCKING, str(path / "node-1" / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        assert node.stdout.readline()
        assert remove_abandoned(folder) == []
    assert remove_abandoned(folder) == [path]


def test_the_directory_of_a_process_that_has_lost_its_lock_stays_while_it_lives(folder: Path) -> None:
    path = folder / "pykraft-unlocked"
    path.mkdir()
    (path / MARK).write_text(_mark_of(path, os.getppid()))
    assert remove_abandoned(folder) == []


def test_a_number_that_another_process_has_now_is_no_life_sign(
    folder: Path, other: tuple[subprocess.Popen[str], Path]
) -> None:
    process, path = other
    end(process)
    mark = path / MARK
    mark.write_text(mark.read_text().replace(f"pid={process.pid}\n", f"pid={os.getpid()}\n"))
    assert remove_abandoned(folder) == [path]


def test_a_process_of_before_the_machine_was_started_is_gone(folder: Path) -> None:
    place = TemporaryPlace()
    text = (place.path / MARK).read_text()
    place.remove()
    path = folder / "pykraft-before"
    path.mkdir()
    lines = dict(line.split("=") for line in text.splitlines())
    inode = f"{path.stat().st_dev}:{path.stat().st_ino}"
    (path / MARK).write_text(f"boot=before\npid={lines['pid']}\nstarted={lines['started']}\ninode={inode}\n")
    assert remove_abandoned(folder) == [path]
