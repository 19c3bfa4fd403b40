"""Notebook 04 must turn red when what it calls cold is warm, or when a node takes the page cache with it; and it must
say so, and stay green, where nothing can be cold."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from pykraft.course import kernel
from pykraft.course.authoring.execute import NotebookFailed, execute, read
from tests.notebooks.sections import NOTEBOOK, cells_up_to, run

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

A_KILL_THAT_LETS_THE_NODE_CLOSE_ITS_FILES = """
from pykraft.runtime.process import NodeProcess

NodeProcess.kill = NodeProcess.stop
"""

MEMORY_INSTEAD_OF_A_DISK = """
from pathlib import Path

from pykraft.course import kernel

kernel.folder_for_measurements = lambda: Path("/dev/shm")
"""

SAYS_WHY = """
verdicts = {claim.text: claim.verdict for claim in nb.claims if claim.kind == "hardware"}
assert len(verdicts) == 5 and set(verdicts.values()) == {"NOT MEASURABLE HERE"}, verdicts
assert no_cold_reads.counters["read_bytes"] == 0, no_cold_reads
"""


def only_the_restart(before: str) -> None:
    """Run the part on restarts, and of the parts before it what it needs."""
    notebook = read(PATH)
    whole = cells_up_to(notebook, "Where this differs")
    needed = ("import os", "import time", "from pykraft import Cluster")
    first = whole.index(next(cell for cell in whole if "import confluent_kafka" in cell.source))
    cells = [cell for cell in whole[1:first] if cell.source.startswith(needed)]
    assert len(cells) == len(needed)
    planted = nbformat.v4.new_code_cell(before)  # type: ignore[no-untyped-call]
    notebook.cells = [whole[0], planted, *cells, *whole[first:], notebook.cells[-1]]
    execute(notebook, PATH.parent)


@pytest.fixture
def cold_reads(tmp_path: Path) -> None:
    """Elsewhere there is nothing to be planted: the notebook says by counters why."""
    obstacle = kernel.why_no_cold_reads(kernel.folder_for_measurements())
    assert obstacle is None, f"these tests need a disk: {obstacle}"


@pytest.mark.usefixtures("cold_reads")
def test_an_eviction_that_evicts_nothing_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match="this does not hold: What was just written or just read did not come"):
        run("2. ", path=PATH, before=AN_EVICTION_THAT_EVICTS_NOTHING_AFTER_THE_PROBE)


@pytest.mark.usefixtures("cold_reads")
def test_a_node_that_does_not_find_its_pages_after_a_restart_turns_the_notebook_red() -> None:
    with pytest.raises(
        NotebookFailed, match=r"this does not hold: .*After kill -9 the node read its log once more and fetched hardly"
    ):
        only_the_restart(before=A_NODE_WHOSE_FILES_LEAVE_THE_CACHE_AT_ITS_START)


@pytest.mark.long
@pytest.mark.usefixtures("cold_reads")
def test_a_node_that_need_not_recover_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*After kill -9 the node read its log once more"):
        only_the_restart(before=A_KILL_THAT_LETS_THE_NODE_CLOSE_ITS_FILES)


@pytest.mark.long
def test_in_memory_nothing_is_cold_and_each_verdict_says_so_with_the_counters() -> None:
    run("3. ", path=PATH, before=MEMORY_INSTEAD_OF_A_DISK, after=SAYS_WHY)
