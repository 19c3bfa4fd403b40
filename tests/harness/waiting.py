"""Waiting for a condition, with a deadline; never for a time. And seconds by the clock of a machine that others use."""

from __future__ import annotations

import time
from collections.abc import Callable

_POLL_S = 0.01
_TRIES = 5


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
    """Look again and again until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"after {timeout_s:g} s it is not so that {what}"
        time.sleep(_POLL_S)


def seconds(action: Callable[[], object]) -> float:
    """How long it takes, by the clock."""
    began = time.monotonic()
    action()
    return time.monotonic() - began


def quickest(tried: Callable[[], float], limit_s: float) -> float:
    """The seconds of the first try below the limit, or of the best one of five. Another process, or the neighbour of a
    virtual machine, stops one of them for seconds; what waits by mistake waits in each."""
    best = tried()
    for _ in range(_TRIES - 1):
        if best < limit_s:
            break
        best = min(best, tried())
    return best
