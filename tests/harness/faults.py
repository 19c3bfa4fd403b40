"""A fault that a node survives fails the test in which it happens.

A node counts an exception that nothing expected, writes it into its journal and goes on. A test that looks only at
answers would not see it. So each fault is noted, and fails the test at its end, unless the test is marked with
``survives_faults``. For a node in this process its `FaultHandler` notes it. The journal of a node that is a process of
its own (`NodeProcess`) is its output: what is new there is read when the process has ended, and at each test's end.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykraft.common.fault_handler import FaultHandler
from pykraft.runtime.process import NodeProcess

_noted: list[str] = []
_MOST_NOTED = 10
_LONGEST_TRACEBACK = 10_000
_FAULT = re.compile(r"^ *\d+ ms  node \d+  fault  .*\n(?:(?! *\d+ ms  node ).*\n)*", re.MULTILINE)
"""An event of a journal, with the lines of its traceback."""


class _Output:
    """What a process writes, from where it began."""

    def __init__(self, file: Path, position: int) -> None:
        self._file = file
        self._position = position

    def note_faults(self) -> None:
        """Note those in the whole lines that are new."""
        try:
            with self._file.open("rb") as output:
                output.seek(self._position)
                new = output.read()
        except FileNotFoundError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._position += len(whole)
        if b"  fault  " in whole:
            for event in _FAULT.findall(whole.decode(errors="replace")):
                _note(f"{self._file.name}: {event.strip()}")


_outputs: dict[NodeProcess, _Output] = {}


def _note(text: str) -> None:
    if len(_noted) < _MOST_NOTED:
        _noted.append(text[:_LONGEST_TRACEBACK])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "survives_faults: the test plants faults, and the nodes survive them")
    _note_faults_of_threads()
    _note_faults_of_processes()


def _note_faults_of_threads() -> None:
    handle_fault = FaultHandler.handle_fault

    def noting(self: FaultHandler, kind: str, error: BaseException, **details: Any) -> None:
        handle_fault(self, kind, error, **details)
        if isinstance(error, OSError):
            return  # a log directory is offline, and others are left: what that leads to is tested where it is caused
        text = "".join(traceback.format_exception(error))[-_LONGEST_TRACEBACK:]
        _note(f"{kind} {details}\n{text}")

    FaultHandler.handle_fault = noting  # type: ignore[method-assign]


def _note_faults_of_processes() -> None:
    start, close = NodeProcess.__init__, NodeProcess._close

    def starting(self: NodeProcess, node_id: int, properties_file: Path, log_file: Path, *rest: Any) -> None:
        start(self, node_id, properties_file, log_file, *rest)
        _outputs[self] = _Output(log_file, self._log_start)

    def closing(self: NodeProcess) -> None:
        close(self)
        if not self.is_running and self in _outputs:
            _outputs.pop(self).note_faults()

    NodeProcess.__init__ = starting  # type: ignore[method-assign]
    NodeProcess._close = closing  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def _no_fault(request: pytest.FixtureRequest) -> Iterator[None]:
    _noted.clear()
    yield
    for output in _outputs.values():
        output.note_faults()
    if _noted and request.node.get_closest_marker("survives_faults") is None:
        pytest.fail("a node has survived a fault:\n" + "\n".join(_noted), pytrace=False)
