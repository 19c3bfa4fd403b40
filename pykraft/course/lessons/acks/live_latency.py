"""How long a record waits for its acknowledgement in a live cluster, by the level of acks, measured in turns.

Measured one after the other, the first level pays for what is not warm yet, and a busy moment of the machine falls on
one of them only. Here each round asks all levels, so that both are shared.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from statistics import median
from typing import Any

from pykraft.producer import Producer

_PATIENCE_S, _WARM = 30, 10


def latencies_in_turns(
    servers: str, topic: str, levels: Mapping[str, Mapping[str, Any]], rounds: int = 60
) -> dict[str, float]:
    """By level, the median of so many records, in milliseconds. `levels` are the settings of each level's producer."""
    times: dict[str, list[float]] = {level: [] for level in levels}
    with ExitStack() as stack:
        producers = {
            level: stack.enter_context(Producer(bootstrap_servers=servers, linger_ms=0, **settings))
            for level, settings in levels.items()
        }
        for number in range(_WARM + rounds):
            for level, producer in producers.items():
                began = time.perf_counter()
                producer.send(topic, b"10 EUR").result(_PATIENCE_S)
                if number >= _WARM:
                    times[level].append(1000 * (time.perf_counter() - began))
    return {level: median(some) for level, some in times.items()}
