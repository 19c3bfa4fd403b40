"""What pytest has collected stays to its end, so Python's collector need not visit it again and again.

Tests and the modules that they import are a hundred thousand objects and more. Looking through them takes four of a
hundred seconds of tests that only compute.
"""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
