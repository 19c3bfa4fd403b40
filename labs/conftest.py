"""Makes the checks of the labs run under plain pytest: `pytest labs/lab08_partitioner` looks at your work.py. And lets
the notebooks of the labs run as tests: those runs are headless, and leave your file alone."""

import os

from pykraft.course.labs.checks import (  # noqa: F401 (pytest finds them here)
    chance,
    impl,
    pytest_configure,
    pytest_runtest_call,
    pytest_runtest_makereport,
    pytest_sessionfinish,
    seed,
)
from pykraft.surroundings import HEADLESS

os.environ[HEADLESS] = "1"  # kernels inherit it
