"""nbval, as the suite runs it: a verdict that changes is a failure, and what follows a failed cell is not run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat

from tests.harness.tree import ROOT
from tests.run import HARNESS, NBVAL, SLOW_READER, STRICT

CLAIM = "print('%s  A claim.')"


Cell = tuple[str, str, bool]
"""Its source, its committed text, and whether it has the tag, which says that the two are to be compared."""


def verdicts(
    folder: Path,
    notebooks: Mapping[str, Sequence[Cell]],
    arguments: tuple[str, ...] = NBVAL,
    tag: str = "nbval-check-output",
) -> dict[str, Counter[str]]:
    """How many cells of each notebook have passed, failed and been skipped, in one run of all."""
    for name, cells in notebooks.items():
        _write(folder / name, cells, tag)
    shutil.copy(ROOT / "notebooks" / "conftest.py", folder)
    environment = {name: value for name, value in os.environ.items() if name != "CI" and "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *HARNESS, *arguments, "."],
        check=False,
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)},  # where the harness is
        capture_output=True,
        text=True,
        timeout=100,
    )
    found = re.findall(r"^(\S+)::ipynb::.+ (PASSED|FAILED|SKIPPED)\b", done.stdout, re.MULTILINE)
    return {name: Counter(verdict.lower() for stem, verdict in found if f"{stem}.ipynb" == name) for name in notebooks}


def _write(path: Path, cells: Sequence[Cell], tag: str) -> None:
    made: list[Any] = []
    for count, (source, text, is_tagged) in enumerate(cells, 1):
        output = nbformat.v4.new_output("stream", name="stdout", text=text)  # type: ignore[no-untyped-call]
        metadata = {"tags": [tag]} if is_tagged else {}
        made.append(
            nbformat.v4.new_code_cell(source, execution_count=count, outputs=[output], metadata=metadata)  # type: ignore[no-untyped-call]
        )
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)  # type: ignore[no-untyped-call]


def test_a_verdict_that_changes_fails_other_texts_may_change_and_after_a_cell_that_raises_the_rest_is_skipped(
    tmp_path: Path,
) -> None:
    holds, fails = "HOLDS  A claim.\n", "DOES NOT HOLD  A claim.\n"
    changes = (
        (CLAIM % "HOLDS", holds, True),
        ("print(2)", "1\n", False),
        (CLAIM % "DOES NOT HOLD", holds, True),
        ("print(3)", fails, False),
    )
    raises = (("1 / 0", "", False), ("print(1)", "1\n", True), ("print(1)", "1\n", False))
    assert verdicts(tmp_path, {"a.ipynb": changes, "b.ipynb": raises}) == {
        "a.ipynb": {"passed": 2, "failed": 1, "skipped": 1},
        "b.ipynb": {"failed": 1, "skipped": 2},
    }


def test_a_strict_run_compares_every_output_that_is_not_tagged_and_leaves_out_what_is_not_deterministic(
    tmp_path: Path,
) -> None:
    cells = (("print(1)", "1\n", False), ("print(3)", "2\n", True), ("print(5)", "4\n", False))
    notebooks = {"02_an_index.ipynb": cells, "01_a_log.ipynb": cells[:1]}
    found = verdicts(tmp_path, notebooks, STRICT, "nbval-ignore-output")
    assert found == {"02_an_index.ipynb": {"passed": 2, "failed": 1}, "01_a_log.ipynb": {}}


def test_nodes_keep_house_as_if_the_reader_took_his_time(tmp_path: Path) -> None:
    imported = "from pykraft.broker.settings.config import NODE_CONFIG"
    looks = f"{imported}\nprint(NODE_CONFIG.keys['log.initial.task.delay.ms'].default)"
    found = verdicts(tmp_path, {"a.ipynb": [(looks, "1000\n", True)]}, (*NBVAL, *SLOW_READER))
    assert found == {"a.ipynb": {"passed": 1}}
