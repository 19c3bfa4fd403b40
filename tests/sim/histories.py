"""Runs simulated histories, each in the seed's own way, and as many at once as the machine has processors.

A history that breaks a law, or ends a node by an assertion, comes back as text: the seed, the step, the law, and the
command that shows it again. The processes are started anew for each batch of work: what one of them has patched into
itself is gone with it.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from pykraft.simulation import Report, Simulation, SimulationFailed

SEEDS = range(100)
"""The histories of `make test`."""


def history(seed: int) -> Report | str:
    """What came of a seed: its report, or how it failed."""
    try:
        return Simulation(seed).run()
    except SimulationFailed as failure:
        return str(failure)


def in_processes(function: Callable[..., Any], arguments: Sequence[Any], count: int = 1) -> Iterator[Any]:
    """`map`, in other processes, each of which makes `count` calls; the results come in the order of the arguments."""
    rarely = {"initializer": gc.set_threshold, "initargs": (50_000, 20, 20)}  # a history keeps what it makes
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), max_tasks_per_child=1, **rarely) as pool:
        yield from pool.map(function, arguments, chunksize=count)
