"""A bounded number of descriptors for any number of files: which are closed, and that no caller notices."""

from __future__ import annotations

import errno
import os
import pathlib
import resource
import threading
from collections.abc import Iterator

import pytest

from pykraft.storage.answers import Isolation
from pykraft.storage.disk import filesystem as module
from pykraft.storage.disk.filesystem import OsFile, OsFileSystem
from pykraft.storage.disk.open_files import OpenFiles
from pykraft.storage.log import UnifiedLog
from tests.harness.storage import bytes_of, contents, fill, open_log, tiny

LIMIT = 3


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> OpenFiles:
    """Three descriptors for all files."""
    found = OpenFiles(LIMIT)
    monkeypatch.setattr(module, "OPEN_FILES", found)
    return found


@pytest.fixture
def files(tmp_path: pathlib.Path) -> Iterator[list[OsFile]]:
    """Ten files, each with its number in it."""
    made = [OsFileSystem().open(f"{tmp_path}/{number}") for number in range(10)]
    for number, file in enumerate(made):
        file.append(b"%d" % number)
    yield made
    for file in made:
        file.close()


def open_numbers() -> int:
    return len(os.listdir("/proc/self/fd"))


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the system does not list open files")


@needs_proc
def test_no_more_than_so_many_are_open_and_all_are_read(few: OpenFiles, tmp_path: pathlib.Path) -> None:
    before = open_numbers()
    files = [OsFileSystem().open(f"{tmp_path}/{number}") for number in range(50)]
    for round_ in range(3):
        for number, file in enumerate(files):
            file.append(b"%d:%d " % (number, round_))
            assert open_numbers() <= before + LIMIT and len(few) <= LIMIT
    for number, file in enumerate(files):
        assert file.read(0, 99) == b"".join(b"%d:%d " % (number, round_) for round_ in range(3))
        assert file.size == len(file.read(0, 99))
        file.close()
    assert open_numbers() == before and len(few) == 0


def test_a_file_that_is_used_stays_open_while_others_come_and_go(files: list[OsFile]) -> None:
    favourite = files[0]
    favourite.read(0, 1)
    kept = favourite.held
    for other in files[1:] * 2:
        favourite.read(0, 1)
        other.read(0, 1)
    assert favourite.held is kept


def test_a_file_that_was_let_go_can_be_cut_synced_sent_and_grows_at_its_end(files: list[OsFile]) -> None:
    first = files[0]
    assert first.held is None
    first.append(b"123")
    let_go(files)
    region = first.region(1, 2)
    let_go(files)
    assert bytes_of(region) == b"12"
    let_go(files)
    first.truncate(2)
    let_go(files)
    first.sync()
    first.append(b"x")
    assert first.read(0, 9) == b"01x"


def let_go(files: list[OsFile]) -> None:
    """Use so many others that the first file has to go."""
    for other in files[1:] * 2:
        other.read(0, 1)
    assert files[0].held is None


@needs_proc
def test_nothing_is_closed_under_the_hands_of_who_uses_it(files: list[OsFile]) -> None:
    held = files[0].descriptor
    let_go(files)
    os.fstat(held.number)
    assert os.pread(held.number, 1, 0) == b"0"
    number = held.number
    del held
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_closed_file_is_not_opened_again(files: list[OsFile]) -> None:
    let_go(files)
    files[0].close()
    with pytest.raises(OSError) as caught:
        files[0].read(0, 1)
    assert caught.value.errno == errno.EBADF


def test_a_file_that_was_renamed_is_found_where_its_owner_says(files: list[OsFile], tmp_path: pathlib.Path) -> None:
    let_go(files)
    OsFileSystem().rename(files[0].path, f"{tmp_path}/other")
    with pytest.raises(FileNotFoundError):
        files[0].read(0, 1)
    assert not (tmp_path / "0").exists(), "it is not made again"
    files[0].path = f"{tmp_path}/other"
    assert files[0].read(0, 1) == b"0"


def test_if_the_process_has_no_descriptor_left_one_of_ours_goes(files: list[OsFile], few: OpenFiles) -> None:
    files[1].read(0, 1)
    few.limit = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(held.number for file in files if (held := file.held) is not None)
    spare = [os.dup(0)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(highest, *spare) + 1, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                spare.append(os.dup(0))
        for number, file in enumerate(files):
            assert file.read(0, 1) == b"%d" % number
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in spare:
            os.close(number)


def test_threads_that_share_few_descriptors_never_meet_in_one(files: list[OsFile]) -> None:
    wrong: list[bytes] = []

    def use(mine: list[OsFile]) -> None:
        for _ in range(300):
            for file in mine:
                expected = file.path[-1:].encode()
                file.append(expected)
                read = file.read(0, 1 << 20)
                if set(read) != set(expected) or len(read) != file.size:
                    wrong.append(read)

    threads = [threading.Thread(target=use, args=(files[number::3],)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_log_with_more_segments_than_descriptors_works_as_ever(tmp_path: pathlib.Path, few: OpenFiles) -> None:
    def opened() -> UnifiedLog:
        return open_log(OsFileSystem(), tiny(), clean=True, directory=f"{tmp_path}/flights-0")

    log = opened()
    appended = fill(log, 60)
    assert len(log.segments) > 2 * LIMIT and len(few) <= LIMIT
    assert contents(log) == b"".join(bytes(some.buffer) for some in appended)
    region = log.read(0, 1 << 20, Isolation.LOG_END, at_least_one=True).records
    log.update_high_watermark(log.log_end_offset)
    log.delete_segments(2)
    left = b"".join(bytes(some.buffer) for some in appended if some.base_offset >= log.log_start_offset)
    assert contents(log) == left
    assert bytes_of(region) == bytes(appended[0].buffer) + bytes_of(region)[appended[0].size :], "promised, and kept"
    log.close()
    again = opened()
    assert contents(again) == left
    again.abandon()
    log.abandon()


@needs_proc
def test_where_sockets_have_taken_the_numbers_files_keep_away_from_the_last_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    free = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]
    for number in free:
        os.close(number)
    few = OpenFiles(100, highest_number=free[-1])
    monkeypatch.setattr(module, "OPEN_FILES", few)
    files = [OsFileSystem().open(f"{tmp_path}/{number}") for number in range(60)]
    assert 0 < len(few) <= 8 and all(file.held is None or file.held.number <= free[-1] for file in files)
    for file in files:
        file.append(b"x")
        file.close()
