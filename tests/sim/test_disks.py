"""Histories in which bytes rot, disks are full or older ones, and clocks are set: no law is broken, and each planted
bug breaks one."""

from __future__ import annotations

import errno

import pytest

from pykraft.sim.bugs import disks
from pykraft.sim.trouble.disks import BIT_ROT, CLOCK, DISK_SEEDS, FULL_DISK, OLD_DISK
from pykraft.sim.trouble.knobs import draw
from pykraft.sim.world.disk import MemoryFileSystem
from tests.sim.floors import Floors, check_deaths, hold_floors

FLOORS = Floors(
    short=(8176,),
    long=DISK_SEEDS,
    short_floors={"disks_rotten": 1, "damage_met": 1, "acknowledged": 200},
    long_floors={
        "disks_rotten": 20,
        "damage_met": 1_400,
        "disks_filled": 190,
        "processes_without_room": 80,
        "disks_replaced": 19,
        "clock_jumps": 300,
        "acknowledged": 24_000,
    },
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_though_disks_and_clocks_go_wrong(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.long
@pytest.mark.limit(1800)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(disks, DISK_SEEDS, request)


def test_the_seeds_have_each_kind_in_turn_and_brokers_that_lose_disks_are_no_controllers() -> None:
    drawn = [draw(seed) for seed in DISK_SEEDS]
    kinds = [each.disks.kind for each in drawn if each.disks is not None]
    assert [kinds.count(kind) for kind in (BIT_ROT, FULL_DISK, OLD_DISK, CLOCK)] == [25] * 4
    assert all(each.controllers for each in drawn if each.disks is not None and each.disks.kind == OLD_DISK)
    assert all("power_loss" not in each.faults for each in drawn)


def test_rot_is_read_while_it_is_shown_and_goes_with_what_is_cut_or_written_to_another_disk() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/d")
    file = disk.open("/d/a")
    file.append(b"abcdef")
    disk.shows_damage = False
    disk.rot("/d/a", {1: 1, 4: 2})
    assert (file.read(0, 6), disk.read("/d/a")) == (b"abcdef", b"abcdef")
    disk.shows_damage = True
    assert (file.read(0, 6), file.read(1, 2), disk.read("/d/a")) == (b"accdgf", b"cc", b"accdgf")
    other = disk.copy()
    file.truncate(4)
    assert (disk.rotten("/d/a"), other.rotten("/d/a")) == ((1,), (1, 4))
    other.open("/d/a").append(b"gh")
    assert (disk.read("/d/a"), other.read("/d/a")) == (b"accd", b"abcdefgh"), "each disk is its own"


def test_a_disk_that_is_filled_counts_what_it_refuses_until_its_process_ends() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/d")
    file = disk.open("/d/a")
    disk.fill_up(2)
    file.append(b"ab")
    with pytest.raises(OSError) as full:
        file.append(b"c")
    assert (full.value.errno, disk.refusals) == (errno.ENOSPC, 1)
    disk.crash_process()
    assert disk.refusals == 0
    disk.make_room()
    disk.open("/d/a").append(b"c")
