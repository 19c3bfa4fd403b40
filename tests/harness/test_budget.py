"""The budget of a notebook: a test more than it has cells, red when the notebook takes too much."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest

from tests.harness.budget import LOOKS_PER_SUM, Watch
from tests.harness.tree import ROOT
from tests.run import HARNESS, NBVAL

A_HUNDRED_MEGABYTES = "import time; held = bytearray(100_000_000); total = sum(range(2 * 10**7)); time.sleep(1)"


@pytest.mark.parametrize(
    ("budget", "verdict"),
    [
        ((60, 1000), "2 passed"),
        ((0.1, 1000), "1 failed, 1 passed"),
        ((60, 90), "1 failed, 1 passed"),
    ],
    ids=["enough", "too slow", "too large"],
)
def test_a_notebook_that_takes_more_than_it_may_is_red(
    tmp_path: Path, budget: tuple[float, float], verdict: str
) -> None:
    cells = [nbformat.v4.new_code_cell(A_HUNDRED_MEGABYTES)]  # type: ignore[no-untyped-call]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "a.ipynb")  # type: ignore[no-untyped-call]
    (tmp_path / "conftest.py").write_text(f"from tests.harness import budget\nbudget.DEFAULT = {budget}\n")
    environment = {name: value for name, value in os.environ.items() if name != "CI" and "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *HARNESS, *NBVAL, "-p", "tests.harness.budget", "a.ipynb"],
        check=False,
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.splitlines()[-1].startswith(verdict), done.stdout


def test_a_moments_memory_is_seen_though_shares_are_not_summed_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    resident, sums = [100_000_000], []

    def summed(process: psutil.Process) -> int:
        sums.append(resident[0])
        return resident[0]

    monkeypatch.setattr("tests.harness.budget._pss", summed)
    monkeypatch.setattr("tests.harness.budget._rss", lambda process: resident[0])
    watch = Watch()
    watch.stop()
    here = [psutil.Process()]
    watch._look_once(here)
    resident[0] = 150_000_000
    watch._look_once(here)
    assert watch.megabytes == 150
    resident[0] = 120_000_000
    sums.clear()
    for _ in range(10 * LOOKS_PER_SUM):
        watch._look_once(here)
    assert len(sums) == 10 and watch.megabytes == 150
