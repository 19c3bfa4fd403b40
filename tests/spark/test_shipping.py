"""The zip file that executors get."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from tests.harness.tree import ROOT


def test_a_driver_that_has_only_the_zip_file_hands_on_the_same_file(tmp_path: pathlib.Path) -> None:
    """As spark-submit --py-files starts it where the driver runs on the cluster."""
    first, second = tmp_path / "pykraft.zip", tmp_path / "again.zip"
    subprocess.run([sys.executable, "-m", "pykraft.spark", first], cwd=ROOT, check=True)
    from_zip = f"import runpy, sys; sys.path.insert(0, {str(first)!r}); runpy.run_module('pykraft.spark', None, '%s')"
    command = [sys.executable, "-c", from_zip % "__main__", second]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert len(first.read_bytes()) > 500_000
    assert second.read_bytes() == first.read_bytes()
