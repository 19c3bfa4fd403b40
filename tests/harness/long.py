"""``--long`` makes long suites of short ones: `make soak` does. Without it what is marked `long` is left out."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="hundreds of kills, minutes of compaction, every notebook")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: only with --long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        left_out = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
