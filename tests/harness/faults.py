"""A fault that a node survives fails the test in which it happens.

A node counts an exception that nothing expected, tells it and goes on. A test that looks only at answers would not see
it. So each fault of a node in this process is noted, and fails the test at its end, unless the test is marked with
``survives_faults``. Nodes that are processes of their own tell of theirs in their output.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from pykraft.common.fault_handler import FaultHandler

_noted: list[str] = []
_MOST_NOTED = 10
_LONGEST_TRACEBACK = 10_000


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "survives_faults: the test plants faults, and the nodes survive them")
    handle_fault = FaultHandler.handle_fault

    def noting(self: FaultHandler, kind: str, error: BaseException, **details: Any) -> None:
        handle_fault(self, kind, error, **details)
        text = "".join(traceback.format_exception(error))[-_LONGEST_TRACEBACK:]
        if len(_noted) < _MOST_NOTED:
            _noted.append(f"{kind} {details}\n{text}")

    FaultHandler.handle_fault = noting  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def _no_fault(request: pytest.FixtureRequest) -> Iterator[None]:
    _noted.clear()
    yield
    if _noted and request.node.get_closest_marker("survives_faults") is None:
        pytest.fail("a node has survived a fault:\n" + "\n".join(_noted), pytrace=False)
