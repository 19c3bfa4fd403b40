"""The suites of clusters and of Kafka's dialogues once more, on nodes with Kafka's threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.harness.network import NETWORK
from tests.harness.tree import ROOT

pytestmark = [pytest.mark.long, pytest.mark.limit(3600)]


@pytest.mark.skipif(NETWORK != "fused", reason="this run is such a run")
@pytest.mark.parametrize("suite", ["tests/cluster", "tests/conformance", "tests/wire", "tests/interop"])
def test_a_suite_passes_on_kafkas_threads(suite: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", suite]
    environment = {**os.environ, "NETWORK": "staged"}
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-5000:]
