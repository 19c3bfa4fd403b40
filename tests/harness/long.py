"""``--long`` makes long suites of short ones: `make soak` does. Without it what is marked `long` is left out.

``--quick`` leaves out what is marked `costly` too, for `make quick`: the few tests that take most of the time.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="hundreds of kills, minutes of compaction, every notebook")
    parser.addoption("--quick", action="store_true", help="without the few tests that take most of the time")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: only with --long")
    config.addinivalue_line("markers", "costly: takes a third of a second or more, not with --quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marks = ("long",) * (not config.getoption("--long")) + ("costly",) * config.getoption("--quick")
    left_out = [item for item in items if any(map(item.get_closest_marker, marks))]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
