"""Waiting for a condition, with a deadline; never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

_POLL_S = 0.01


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
    """Look again and again until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"after {timeout_s:g} s it is not so that {what}"
        time.sleep(_POLL_S)
