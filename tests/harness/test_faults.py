"""A fault that a node survives fails the test in which it happens: in this process, and in one of its own."""

from __future__ import annotations

import pathlib

from tests.harness.inner import run_pytest

INNER = """
import pathlib
import pytest
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.trace import RingBuffer, TraceEvent, Tracer
from pykraft.runtime.process import NodeProcess
from tests.harness.waiting import wait_until

FAULT = TraceEvent(12, 1, "fault", {"kind": "timer", "error": "ZeroDivisionError", "traceback": "\\n  File x\\n"})
RUNS = TraceEvent(15, 1, "lifecycle", {"state": "running"})
PROGRAM = f"print({str(FAULT)!r}); print({str(RUNS)!r}, flush=True); input()"

@pytest.fixture
def process(tmp_path):
    node = NodeProcess(1, pathlib.Path("no.properties"), tmp_path / "1.out")
    wait_until(lambda: "running" in (tmp_path / "1.out").read_text(), "it has written all")
    yield node
    node.kill()

NodeProcess.command = ("-c", PROGRAM)

def test_process_that_runs(process):
    assert process.is_running

def test_process_that_is_killed(process):
    process.kill()

@pytest.mark.survives_faults
def test_marked(process):
    FaultHandler(Tracer(1, RingBuffer())).handle_fault("timer", ZeroDivisionError())

def test_thread():
    FaultHandler(Tracer(1, RingBuffer())).handle_fault("timer", ZeroDivisionError())

def test_process_without_a_fault(monkeypatch, tmp_path):
    monkeypatch.setattr(NodeProcess, "command", ("-c", f"print({str(RUNS)!r})"))
    node = NodeProcess(1, pathlib.Path("no.properties"), tmp_path / "1.out")
    node.stop()
"""


def test_a_fault_that_a_node_survives_fails_the_test(tmp_path: pathlib.Path) -> None:
    verdicts, output = run_pytest(tmp_path, INNER, "-p", "tests.harness.faults")
    assert verdicts == {
        "test_process_that_runs": "error",
        "test_process_that_is_killed": "error",
        "test_marked": "passed",
        "test_thread": "error",
        "test_process_without_a_fault": "passed",
    }, output
    event = "12 ms  node 1  fault  kind=timer  error=ZeroDivisionError  traceback=\n  File x\n"
    assert output.count(event) == 2, output
