"""How fast this machine is: a limit in seconds holds for the machine that it was set on."""

from __future__ import annotations

import time

from pykraft.common.metrics import Meter

INCREMENT_NS = 21.0
"""What the increment of a counter took on the machine that the limits were set on."""
_TRIES, _EACH = 500, 100


def slowness() -> float:
    """How many times as long this machine takes for the increment of a counter; at least 1. The best of many tries."""
    meter, best = Meter(), float("inf")
    for _ in range(_TRIES):
        began = time.perf_counter_ns()
        for _ in range(_EACH):
            meter.count += 1
        best = min(best, (time.perf_counter_ns() - began) / _EACH)
    return max(1.0, best / INCREMENT_NS)
