"""Notebook 04 must turn red when what it calls cold is warm, or when a node takes the page cache with it; and it must
say so, and stay green, where nothing can be cold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pykraft.course import kernel
from pykraft.course.authoring.execute import NotebookFailed
from pykraft.course.kernel import Obstacle
from pykraft.course.lessons.disk.disk import PAGE_BYTES, DiskFile, read_speed, read_speeds
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "04_disk.ipynb"

AN_EVICTION_THAT_EVICTS_NOTHING_AFTER_THE_PROBE = """
from pykraft.course import kernel

evict = kernel.evict
kernel.evict = lambda path: evict(path) if path.name.startswith("probe-") else None
"""

A_NODE_WHOSE_FILES_LEAVE_THE_CACHE_AT_ITS_START = '''
from pykraft.runtime.process import NodeProcess

program = """
import pathlib, runpy, sys
from pykraft.course.kernel import evict
for path in pathlib.Path(sys.argv[2]).parent.rglob("*.log"):
    evict(path)
runpy.run_module("pykraft", run_name="__main__", alter_sys=True)
"""
NodeProcess.command = ("-c", program, "server")
'''

MEMORY_INSTEAD_OF_A_DISK = """
from pathlib import Path

from pykraft.course import kernel

kernel.folder_for_measurements = lambda: Path("/dev/shm")
"""

SAYS_WHY = """
verdicts = {claim.text: claim.verdict for claim in nb.claims}
assert len(verdicts) == 2 and set(verdicts.values()) == {"NOT MEASURABLE HERE"}, verdicts
assert cold.counters["read_bytes"] == 0, cold
"""


@pytest.fixture
def cold_reads(tmp_path: Path) -> None:
    """Elsewhere there is nothing to be planted: the notebook says by counters why."""
    obstacle = kernel.why_no_cold_reads(kernel.folder_for_measurements())
    assert obstacle is None, f"these tests need a disk: {obstacle}"


@pytest.mark.usefixtures("cold_reads")
def test_an_eviction_that_evicts_nothing_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match="this does not hold: What was just written is read without the disk"):
        run("2. ", path=PATH, before=AN_EVICTION_THAT_EVICTS_NOTHING_AFTER_THE_PROBE)


@pytest.mark.long
@pytest.mark.usefixtures("cold_reads")
def test_a_node_that_does_not_find_its_pages_after_a_restart_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: The cache survives kill -9, not a boot"):
        run("Where this", since="5. ", path=PATH, before=A_NODE_WHOSE_FILES_LEAVE_THE_CACHE_AT_ITS_START)


@pytest.mark.long
@pytest.mark.usefixtures("cold_reads")
def test_a_boot_that_keeps_the_cache_turns_the_notebook_red() -> None:
    kept = ("broker.restart_machine()", "broker.restart_process()")
    with pytest.raises(NotebookFailed, match=r"this does not hold: The cache survives kill -9, not a boot"):
        run("Where this", since="5. ", path=PATH, changed=kept)


@pytest.mark.long
def test_in_memory_nothing_is_cold_and_each_verdict_says_so_with_the_counters() -> None:
    run("5. ", path=PATH, before=MEMORY_INSTEAD_OF_A_DISK, after=SAYS_WHY)


# --- what it measures with --------------------------------------------------------------------------------------------


@pytest.fixture
def file() -> Iterator[DiskFile]:
    file = DiskFile(megabytes=8)
    yield file
    file.close()


@pytest.mark.usefixtures("cold_reads")
def test_a_reading_counts_what_was_asked_what_was_fetched_and_the_pages_before_and_after(file: DiskFile) -> None:
    warm = file.read()
    file.evict()
    one = file.read([7])
    assert (sum(warm.before), sum(warm.after), warm.fetched_bytes) == (2048, 2048, 0)
    assert warm.asked_bytes == 8 << 20
    assert (sum(one.before), one.asked_bytes) == (0, PAGE_BYTES) and one.fetched_share >= 1 and one.after[7] == 1
    file.evict()
    assert file.read().fetched_share == pytest.approx(1, abs=0.05)


@pytest.mark.usefixtures("cold_reads")
def test_a_speed_is_of_reads_that_the_kernel_has_counted_as_cold_or_warm(
    file: DiskFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = read_speeds(file, (4, 64), Random(1), rounds=1)
    assert list(speeds) == ["warm, in order", "warm, at random", "cold, in order", "cold, at random"]
    assert all([block for block, _ in points] == [4, 64] for points in speeds.values())
    monkeypatch.setattr(kernel, "evict", lambda path: None)
    assert math.isnan(read_speed(file, "in order", True, 4096, Random(1)))


def test_where_nothing_can_be_cold_only_warm_reads_are_timed(file: DiskFile) -> None:
    file.never_cold = Obstacle("this is a test", {"read_bytes": 0})
    assert list(read_speeds(file, (64,), Random(1), rounds=1)) == ["warm, in order", "warm, at random"]
