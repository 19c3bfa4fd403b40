"""What the operating system's kernel tells, and what becomes of it on a system that tells nothing."""

from __future__ import annotations

import os
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
