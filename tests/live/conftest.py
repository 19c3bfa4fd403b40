"""``--long`` makes of this suite a long one: `make soak` does. Afterwards no thread, socket or child is left."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

from tests.cluster.conftest import nothing_is_left

__all__ = ["nothing_is_left"]

HERE = pathlib.Path(__file__).parent
ROUNDS = 15
"""So many times each test that takes a `seed` is run with ``--long``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="hundreds of kills, minutes of compaction")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: only with --long")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The same seed each time in `make test`, new ones in a soak. PYKRAFT_SEED names the first."""
    if "seed" in metafunc.fixturenames:
        is_long = metafunc.config.getoption("--long")
        first = int(os.environ.get("PYKRAFT_SEED", time.time_ns() // 1_000_000 if is_long else 1))
        metafunc.parametrize("seed", range(first, first + (ROUNDS if is_long else 1)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        left_out = [item for item in items if item.path.is_relative_to(HERE) and item.get_closest_marker("long")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture
def is_long(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--long"))
