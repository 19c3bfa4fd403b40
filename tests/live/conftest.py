"""Each test that takes a `seed` is run with new ones by ``--long``. Afterwards no thread, socket or child is left."""

from __future__ import annotations

import os
import time

import pytest

from tests.cluster.conftest import nothing_is_left

__all__ = ["nothing_is_left"]

ROUNDS = 15
"""So many times each test that takes a `seed` is run with ``--long``."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The same seed each time in `make test`, new ones in a soak. PYKRAFT_SEED names the first."""
    if "seed" in metafunc.fixturenames:
        is_long = metafunc.config.getoption("--long")
        first = int(os.environ.get("PYKRAFT_SEED", time.time_ns() // 1_000_000 if is_long else 1))
        metafunc.parametrize("seed", range(first, first + (ROUNDS if is_long else 1)))


@pytest.fixture
def is_long(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--long"))
