"""Histories in which brokers have several log directories, replicas move between them, and directories fail: no law is
broken, and each planted bug breaks one."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from pykraft.sim.bugs import directories
from pykraft.sim.trouble.directories import DIRECTORY_SEEDS, MOMENTS, NOW
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.world.disk import MemoryFileSystem
from tests.sim.floors import Floors, check_deaths, hold_floors

FLOORS = Floors(
    short=(8251,),
    long=DIRECTORY_SEEDS,
    short_floors={"directories_failed": 1, "directory_moves": 1, "acknowledged": 100},
    long_floors={
        "directories_failed": 100,
        "directories_replaced": 10,
        "directory_moves": 250,
        "moves_cut": 10,
        "acknowledged": 10_000,
    },
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_though_log_directories_fail(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.long
@pytest.mark.limit(1800)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(directories, DIRECTORY_SEEDS, request)


def test_each_broker_of_these_seeds_has_two_or_three_directories_and_the_metadata_in_one_of_them_or_apart() -> None:
    drawn = [draw(seed) for seed in DIRECTORY_SEEDS]
    counts = [len(each.directories.paths) for each in drawn if each.directories is not None]
    assert len(counts) == len(drawn) and set(counts) == {2, 3}
    assert {each.directories.metadata_path for each in drawn if each.directories is not None} == {"", "/metadata"}
    assert all("power_loss" not in each.faults and "disk_error" not in each.faults for each in drawn)


@pytest.mark.parametrize("moment", [each for each in MOMENTS if each != NOW])
def test_a_disk_breaks_at_the_operation_that_was_planned_and_at_no_other(moment: str) -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/a/t-0")
    file = disk.open("/a/t-0/log")
    done: dict[str, Callable[[], object]] = {
        "append": lambda: file.append(b"abc"),
        "read": lambda: file.read(0, 1),
        "sync": file.sync,
        "write": lambda: disk.write("/a/checkpoint", b"1"),
        "create": lambda: disk.open("/a/index"),
        "rename": lambda: disk.rename("/a/t-0", "/a/t-1"),
    }
    disk.break_at("/a", moment)
    for name, do in done.items():
        if name != moment:
            do()
    assert disk.is_breaking("/a") and not disk.failed_folders
    with pytest.raises(OSError) as broken:
        done[moment]()
    assert broken.value.errno == errno.EIO and disk.failed_folders == {"/a"}


def test_a_disk_that_was_about_to_break_is_spared_with_its_process() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/a")
    disk.break_at("/a", "write")
    disk.crash_process()
    disk.write("/a/checkpoint", b"1")
    assert not disk.failed_folders


def test_a_law_reads_what_the_node_has_closed_and_meets_no_broken_disk() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/a")
    file = disk.open("/a/log")
    file.append(b"abc")
    file.close()
    disk.break_now("/a")
    with pytest.raises(OSError):
        file.read(0, 3)
    disk.shows_damage = False
    assert (file.read(0, 3), disk.read("/a/log")) == (b"abc", b"abc")


def test_a_directory_that_has_lost_what_was_not_synced_keeps_the_rest() -> None:
    disk = MemoryFileSystem()
    for folder in ("/a", "/b"):
        disk.make_directory(folder)
        file = disk.open(f"{folder}/log")
        file.append(b"abc")
    disk.sync_all()
    for folder in ("/a", "/b"):
        disk.open(f"{folder}/log").append(b"def")
        disk.open(f"{folder}/new")
    disk.lose_unsynced("/a", Random(1))
    assert disk.read("/a/log")[:3] == b"abc" and disk.read("/b/log") == b"abcdef" and disk.exists("/b/new")
