"""Runs pytest on a text given by a test, in a process of its own, with the harness loaded."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

from tests.harness.tree import ROOT
from tests.run import HARNESS, WITHOUT_NBVAL


def run_pytest(
    folder: pathlib.Path, text: str, *arguments: str, has_nbval: bool = False, **environment: str
) -> tuple[dict[str, str], str]:
    """Each test's verdict by name ("passed", "failed", ...; "error" for one that could not start), and the output."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_inner.py").write_text(text)
    inherited = {name: value for name, value in os.environ.items() if name != "CI" and "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", *HARNESS, *(() if has_nbval else WITHOUT_NBVAL), *arguments],
        check=False,
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    summary = done.stdout.partition("short test summary info")[2]
    lines = re.findall(r"^([A-Z]+) (?:\[\d+\] )?test_inner\.py(?:::(\w+))?", summary, re.MULTILINE)
    return {name or "module": verdict.lower() for verdict, name in lines}, done.stdout + done.stderr
