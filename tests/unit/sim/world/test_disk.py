"""The disk that forgets: what stays, what may go, and that the same dice give the same disk."""

from __future__ import annotations

import errno
from random import Random
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.sim.world.disk import Crash, MemoryFileSystem
from pykraft.storage.disk.filesystem import LockedError, replace_file

SEEDS = range(200)


def fresh() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/d")
    filesystem.sync_all()
    return filesystem


def ends(build: object, path: str = "/d/a") -> set[bytes | None]:
    """What a file may be after a loss of power, over many throws of the dice; None if it is gone."""
    found: set[bytes | None] = set()
    for seed in SEEDS:
        filesystem = fresh()
        build(filesystem)  # type: ignore[operator]
        filesystem.crash_power(Random(seed))
        found.add(filesystem.read(path) if filesystem.exists(path) else None)
    return found


# --- the end of a process ---------------------------------------------------------------------------------------------


def test_the_end_of_a_process_loses_no_byte_and_no_name() -> None:
    filesystem = fresh()
    file = filesystem.open("/d/a")
    file.append(b"unsynced")
    filesystem.write("/d/b", b"x")
    filesystem.rename("/d/b", "/d/c")
    filesystem.crash_process()
    assert filesystem.list("/d") == ["a", "c"] and filesystem.read("/d/a") == b"unsynced"


def test_files_of_a_dead_process_are_dead_and_its_locks_are_free() -> None:
    filesystem = fresh()
    file, lock = filesystem.open("/d/a"), filesystem.lock("/d/.lock")
    filesystem.crash_process()
    for use in (lambda: file.append(b""), lambda: file.read(0, 1), lambda: file.truncate(0), file.sync):
        with pytest.raises(OSError) as dead:
            use()
        assert dead.value.errno == errno.EBADF
    again = filesystem.lock("/d/.lock")
    lock.release()  # by the dead process: the lock is another's now
    with pytest.raises(LockedError):
        filesystem.lock("/d/.lock")
    again.release()
    filesystem.lock("/d/.lock").release()


def test_a_disk_is_full_when_it_is_full() -> None:
    filesystem = fresh()
    filesystem.capacity_bytes = 10
    file = filesystem.open("/d/a")
    file.append(b"123456")
    assert filesystem.space("/d") == (10, 4)
    with pytest.raises(OSError) as full:
        file.append(b"12345")
    assert full.value.errno == errno.ENOSPC
    file.append(b"1234")
    assert file.read(0, 99) == b"1234561234" and filesystem.space("/d").usable_bytes == 0


def test_a_disk_may_fail_once_or_for_good() -> None:
    for for_good in (False, True):
        filesystem = fresh()
        file = filesystem.open("/d/a")
        filesystem.fail_after(1, OSError(errno.EIO, "it fails"), torn_bytes=2, for_good=for_good)
        file.append(b"one")
        with pytest.raises(OSError):
            file.append(b"two")
        if for_good:
            with pytest.raises(OSError):
                file.sync()
            filesystem.spare()
        file.sync()
        assert filesystem.read("/d/a") == b"onetw"


# --- a loss of power --------------------------------------------------------------------------------------------------


def test_what_was_synced_stays_and_of_the_rest_a_prefix() -> None:
    def build(filesystem: MemoryFileSystem) -> None:
        file = filesystem.open("/d/a")
        file.append(b"synced")
        file.sync()
        filesystem.sync_directory("/d")
        file.append(b"0123456789")

    found = ends(build)
    assert all(each is not None and each.startswith(b"synced") and len(each) <= 16 for each in found)
    whole = {b"synced0123456789"[:size] for size in range(6, 17)}
    assert whole <= found, "every length is possible"
    garbled = found - whole
    assert any(each and each.endswith(b"\x00") for each in garbled), "a tail of zeros is possible"
    assert any(each and not each.endswith(b"\x00") for each in garbled), "a tail of noise is possible"


def test_a_truncation_that_was_not_synced_happened_or_did_not_but_is_never_mixed() -> None:
    def build(filesystem: MemoryFileSystem) -> None:
        file = filesystem.open("/d/a")
        file.append(b"old old old")
        file.sync()
        filesystem.sync_directory("/d")
        file.truncate(4)
        file.append(b"new")
        file.truncate(5)
        file.append(b"NEWER")

    found = ends(build)
    assert b"old old old" in found and b"old " in found and b"old nNEWER" in found
    kept = {each for each in found if each and not each.startswith(b"old old")}
    assert all(each.startswith(b"old ") and len(each) <= 10 for each in kept)


def test_a_synced_truncation_is_not_undone() -> None:
    def build(filesystem: MemoryFileSystem) -> None:
        file = filesystem.open("/d/a")
        file.append(b"0123456789")
        file.sync()
        file.truncate(3)
        file.sync()
        filesystem.sync_directory("/d")

    assert ends(build) == {b"012"}


def test_a_synced_file_whose_name_was_not_synced_may_be_missing() -> None:
    assert ends(lambda filesystem: filesystem.write("/d/a", b"x")) == {None, b"x"}


def test_a_synced_name_keeps_a_file_but_not_its_bytes() -> None:
    def build(filesystem: MemoryFileSystem) -> None:
        filesystem.open("/d/a").append(b"0")
        filesystem.sync_directory("/d")

    assert {b"", b"0"} <= ends(build) and None not in ends(build)


def test_a_removal_that_was_not_synced_may_be_undone() -> None:
    def build(filesystem: MemoryFileSystem) -> None:
        filesystem.write("/d/a", b"x")
        filesystem.sync_directory("/d")
        filesystem.remove("/d/a")

    assert ends(build) == {None, b"x"}


def test_changes_in_a_folder_are_kept_in_their_order() -> None:
    seen = set()
    for seed in SEEDS:
        filesystem = fresh()
        for name in "abc":
            filesystem.write(f"/d/{name}", b"")
        filesystem.remove("/d/a")
        filesystem.crash_power(Random(seed))
        seen.add("".join(filesystem.list("/d")))
    assert seen == {"", "a", "ab", "abc", "bc"}


def test_a_replaced_file_is_the_old_or_the_new_one_whatever_crashes() -> None:
    for seed in SEEDS:
        for count in range(8):
            filesystem = fresh()
            replace_file(filesystem, "/d/a", b"old")
            filesystem.crash_after(count)
            try:
                replace_file(filesystem, "/d/a", b"new")
                done = True
            except Crash:
                done = False
            filesystem.crash_power(Random(seed))
            assert filesystem.read("/d/a") in ((b"new",) if done else (b"old", b"new"))


def test_a_folder_that_was_not_synced_goes_with_all_that_is_in_it() -> None:
    seen = set()
    for seed in SEEDS:
        filesystem = fresh()
        filesystem.make_directory("/d/e")
        filesystem.write("/d/e/a", b"x")
        filesystem.sync_directory("/d/e")
        filesystem.crash_power(Random(seed))
        seen.add(filesystem.exists("/d/e/a"))
        assert not filesystem.exists("/d/e") or filesystem.exists("/d/e/a")
    assert seen == {False, True}


def test_after_a_loss_of_power_what_is_left_is_on_the_disk() -> None:
    for seed in SEEDS:
        filesystem = fresh()
        filesystem.open("/d/a").append(b"0123456789")
        filesystem.crash_power(Random(seed))
        before = [(name, filesystem.read(f"/d/{name}")) for name in filesystem.list("/d")]
        filesystem.crash_power(Random(seed + 1))
        assert [(name, filesystem.read(f"/d/{name}")) for name in filesystem.list("/d")] == before


def test_an_open_file_writes_on_after_its_name_was_replaced() -> None:
    filesystem = fresh()
    old = filesystem.open("/d/a")
    old.append(b"old")
    filesystem.write("/d/b", b"new")
    filesystem.rename("/d/b", "/d/a")
    old.append(b"er")
    assert old.read(0, 9) == b"older" and filesystem.read("/d/a") == b"new"


@given(st.integers(0, 1 << 30), st.integers(0, 1 << 30))
def test_the_same_dice_give_the_same_disk(story: int, dice: int) -> None:
    def play() -> list[tuple[str, bytes]]:
        filesystem, random = fresh(), Random(story)
        for _ in range(30):
            path = f"/d/{random.choice('abc')}"
            step = random.choice(("append", "cut", "sync", "rename", "write", "folder"))
            if step == "rename" and filesystem.exists(path):
                filesystem.rename(path, f"/d/{random.choice('abc')}")
            elif step == "write":
                filesystem.write(path, random.randbytes(9))
            elif step == "folder":
                filesystem.sync_directory("/d")
            else:
                file = filesystem.open(path)
                if step == "append":
                    file.append(random.randbytes(50))
                elif step == "cut":
                    file.truncate(file.size // 2)
                else:
                    file.sync()
        filesystem.crash_power(Random(dice))
        return [(name, filesystem.read(f"/d/{name}")) for name in filesystem.list("/d")]

    assert play() == play()


# --- planned faults ---------------------------------------------------------------------------------------------------


def test_changing_operations_are_counted() -> None:
    filesystem = fresh()
    before = filesystem.operations
    file = filesystem.open("/d/a")  # 1: it is made
    filesystem.open("/d/a")
    file.append(b"x")  # 2
    file.read(0, 1)
    file.truncate(0)  # 3
    file.sync()  # 4
    filesystem.write("/d/b", b"")  # 5, 6, 7: made, written, synced
    filesystem.write("/d/b", b"")  # 8, 9, 10: emptied, written, synced
    filesystem.rename("/d/b", "/d/c")  # 11
    filesystem.sync_directory("/d")  # 12
    filesystem.make_directory("/d/e/f")  # 13, 14
    filesystem.make_directory("/d/e/f")
    filesystem.remove("/d/e")  # 15, 16
    assert filesystem.operations - before == 16


def test_an_operation_fails_once_as_planned_and_nothing_of_it_is_done() -> None:
    filesystem = fresh()
    file = filesystem.open("/d/a")
    filesystem.fail_after(1, OSError(errno.ENOSPC, "no space left on device"))
    file.append(b"1")
    with pytest.raises(OSError, match="no space"):
        file.append(b"2")
    file.append(b"3")
    assert filesystem.read("/d/a") == b"13"


def test_a_stopped_disk_stays_stopped_until_the_crash_is_carried_out() -> None:
    filesystem = fresh()
    file = filesystem.open("/d/a")
    filesystem.crash_after(1, torn_bytes=2)
    file.append(b"1")
    for _ in range(3):
        with pytest.raises(Crash):
            file.append(b"234")
    filesystem.crash_process()
    assert filesystem.read("/d/a") == b"123"
    filesystem.open("/d/a").append(b"!")


def test_no_exception_handler_swallows_a_crash() -> None:
    assert not issubclass(Crash, Exception)


def test_thousands_of_appends_cost_little() -> None:
    filesystem = fresh()
    file, data = filesystem.open("/d/a"), bytes(16 << 10)
    started = process_time()
    for _ in range(5_000):
        file.append(data)
        file.sync()
    seconds = process_time() - started
    assert file.size == 5_000 * len(data)
    assert seconds < 2, f"{seconds:.2f} s for 5,000 appends: it should be a twentieth of that"
