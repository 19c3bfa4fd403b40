"""nbval, as the suite runs it: a verdict that changes is a failure, and what follows a failed cell is not run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat

from tests.harness.tree import ROOT
from tests.run import HARNESS, NBVAL, SLOW_READER, STRICT

CLAIM = "print('%s  A claim.')"


def verdicts(
    folder: Path,
    *cells: tuple[str, str, bool],
    arguments: tuple[str, ...] = NBVAL,
    tag: str = "nbval-check-output",
    name: str = "a.ipynb",
) -> dict[str, int]:
    """How many cells have passed, failed and been skipped. A cell is its source, its committed text, and whether it has
    the tag, which says that the two are to be compared."""
    made: list[Any] = []
    for count, (source, text, is_tagged) in enumerate(cells, 1):
        output = nbformat.v4.new_output("stream", name="stdout", text=text)  # type: ignore[no-untyped-call]
        metadata = {"tags": [tag]} if is_tagged else {}
        made.append(
            nbformat.v4.new_code_cell(source, execution_count=count, outputs=[output], metadata=metadata)  # type: ignore[no-untyped-call]
        )
    nbformat.write(nbformat.v4.new_notebook(cells=made), folder / name)  # type: ignore[no-untyped-call]
    shutil.copy(ROOT / "notebooks" / "conftest.py", folder)
    environment = {name: value for name, value in os.environ.items() if name != "CI" and "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *HARNESS, *arguments, "."],
        check=False,
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)},  # where the harness is
        capture_output=True,
        text=True,
        timeout=100,
    )
    last = done.stdout.splitlines()[-1]
    return {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|skipped)", last)}


def test_a_verdict_that_is_not_the_committed_one_is_a_failure_and_other_texts_may_change(tmp_path: Path) -> None:
    holds, fails = "HOLDS  A claim.\n", "DOES NOT HOLD  A claim.\n"
    assert verdicts(
        tmp_path,
        (CLAIM % "HOLDS", holds, True),
        ("print(2)", "1\n", False),
        (CLAIM % "DOES NOT HOLD", holds, True),
        ("print(3)", fails, False),
    ) == {"passed": 2, "failed": 1, "skipped": 1}


def test_a_cell_that_raises_is_a_failure_and_the_rest_is_skipped(tmp_path: Path) -> None:
    found = verdicts(tmp_path, ("1 / 0", "", False), ("print(1)", "1\n", True), ("print(1)", "1\n", False))
    assert found == {"failed": 1, "skipped": 2}


def test_of_a_deterministic_notebook_every_output_is_compared_but_those_that_are_tagged(tmp_path: Path) -> None:
    cells = (("print(1)", "1\n", False), ("print(3)", "2\n", True), ("print(5)", "4\n", False))
    found = verdicts(tmp_path, *cells, arguments=STRICT, tag="nbval-ignore-output", name="02_an_index.ipynb")
    assert found == {"passed": 2, "failed": 1}


def test_what_is_not_deterministic_is_left_out_of_the_strict_run(tmp_path: Path) -> None:
    assert verdicts(tmp_path, ("print(1)", "1\n", False), arguments=STRICT, name="01_a_log.ipynb") == {}


def test_nodes_keep_house_as_if_the_reader_took_his_time(tmp_path: Path) -> None:
    imported = "from pykraft.broker.settings.config import NODE_CONFIG"
    looks = f"{imported}\nprint(NODE_CONFIG.keys['log.initial.task.delay.ms'].default)"
    assert verdicts(tmp_path, (looks, "1000\n", True), arguments=(*NBVAL, *SLOW_READER)) == {"passed": 1}
