"""What the operating system's kernel tells, and what becomes of it on a system that tells nothing."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykraft.course import kernel


def test_what_a_process_reads_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(100_000))
    with kernel.counted() as moved:
        path.read_bytes()
    assert moved["rchar"] >= 100_000
    assert moved["syscr"] >= 1
    assert moved["wchar"] < 100_000


def test_memory_is_no_device(tmp_path: Path) -> None:
    """Both probes find out by the counters, not by the name of the file system."""
    shared = Path("/dev/shm")
    if kernel.file_system(shared) != "tmpfs":
        pytest.fail("this test needs a tmpfs on /dev/shm")
    for why in (kernel.why_no_cold_reads, kernel.why_no_writes_to_a_device):
        obstacle = why(shared)
        assert obstacle is not None
        assert "on tmpfs were" in obstacle.reason
        assert min(obstacle.counters.values()) < kernel.PROBE_BYTES // 2
    assert not list(shared.glob("probe-*"))


def test_a_probe_finds_a_device_or_says_by_counters_why_not(tmp_path: Path) -> None:
    for why in (kernel.why_no_cold_reads, kernel.why_no_writes_to_a_device):
        obstacle = why(tmp_path)
        assert obstacle is None or min(obstacle.counters.values()) < kernel.PROBE_BYTES // 2
    assert not list(tmp_path.iterdir())


def test_a_system_without_counters_is_an_obstacle_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "IO_FILE", tmp_path / "missing")
    monkeypatch.setattr(kernel, "MOUNTS_FILE", tmp_path / "missing")
    assert kernel.counters() == {}
    assert kernel.file_system(tmp_path) == "unknown"
    for why in (kernel.why_no_cold_reads, kernel.why_no_writes_to_a_device):
        assert "does not count" in str(why(tmp_path))


def test_the_pages_of_a_file_in_memory_are_counted_before_and_after_an_eviction(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert kernel.pages_in_memory(path) == b""
    path.write_bytes(os.urandom(10 * mmap.PAGESIZE + 1))
    assert kernel.pages_in_memory(path) == bytes([1] * 11)
    kernel.evict(path)
    if kernel.why_no_cold_reads(tmp_path) is None:
        assert sum(kernel.pages_in_memory(path)) < 11


@contextlib.contextmanager
def on_cpu(choose: Callable[[set[int]], int]) -> Iterator[None]:
    """Let this thread run on one of its CPUs alone."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {choose(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("readers_cpu", [min, max])
def test_pages_on_their_way_to_a_reader_are_asked_for_again(
    readers_cpu: Callable[[set[int]], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a broker's: ``sendfile`` lends the pages of a log to a socket, and no eviction takes them from it. Here the
    reader reads when the first eviction waits. If it does so on another CPU, only traffic brings them back."""
    path, sleep, cpus = tmp_path / "file", time.sleep, os.sched_getaffinity(0)
    path.write_bytes(os.urandom(50 * mmap.PAGESIZE))
    can_be_evicted = kernel.why_no_cold_reads(tmp_path) is None
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as reader:
        writer, _ = server.accept()
        waits: list[int] = []

        def read_all(pause_s: float) -> None:
            waits.append(sum(kernel.pages_in_memory(path)))
            reader.settimeout(0)
            with contextlib.suppress(BlockingIOError), on_cpu(readers_cpu):
                while reader.recv(1 << 20):
                    pass
            sleep(pause_s)

        with writer, path.open("rb") as file, monkeypatch.context() as patch:
            with on_cpu(min):
                assert os.sendfile(writer.fileno(), file.fileno(), 0, 50 * mmap.PAGESIZE) > 0
            patch.setattr(kernel.time, "sleep", read_all)
            if can_be_evicted:
                patch.setattr(kernel, "EVICTIONS", kernel.EVICTIONS * 20)  # it ends when they are gone
            kernel.evict(path)
            assert os.sched_getaffinity(0) == cpus
    if can_be_evicted:
        assert waits and waits[0] > 0
        assert sum(kernel.pages_in_memory(path)) == 0


def test_another_process_has_counters_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1_000_000))
    program = "import sys; input(); open(sys.argv[1], 'rb').read(); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        with kernel.counted(other.pid) as moved:
            other.stdin.write(b"\n")
            other.stdin.flush()
            other.stdout.readline()
        assert moved["rchar"] >= 1_000_000
        assert kernel.counters(other.pid).keys() == kernel.counters().keys()
        other.communicate(b"\n", timeout=20)
    assert kernel.counters(other.pid) == {}


def test_measurements_go_to_a_device_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel.tempfile, "gettempdir", lambda: "/dev/shm")
    found = kernel.folder_for_measurements()
    on_device = Path("/var/tmp")
    is_better = os.access(on_device, os.W_OK) and kernel.why_no_cold_reads(on_device) is None
    assert found == (on_device if is_better else Path("/dev/shm"))
