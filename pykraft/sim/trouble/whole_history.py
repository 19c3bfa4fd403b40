"""The faults of a whole history, for one from which some are left out: they say where its dice were before each fault.

The whole history is run for that, up to the law that it breaks. A shrinker asks for the same one again and again, so
the last few are kept.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from pykraft.sim.bugs.planting import planted_now
from pykraft.sim.report import SimulationFailed
from pykraft.sim.trouble.faults import Faults, Strike
from pykraft.sim.trouble.knobs import Knobs
from pykraft.sim.trouble.omissions import NOTHING

_KEPT = 4
_kept: dict[object, Sequence[Strike]] = {}


class StormyCluster(Protocol):
    """What is needed of a `SimulatedCluster`."""

    faults: Faults
    is_storm_over: bool

    def begin(self) -> None: ...

    def step(self) -> None: ...


def strikes_of(make: Callable[[int, Knobs], StormyCluster], seed: int, knobs: Knobs) -> Sequence[Strike]:
    """The faults of the whole history. `make` makes its cluster."""
    whole = replace(knobs, omitted=NOTHING)
    key = seed, repr(whole), planted_now()
    if key not in _kept:
        cluster = make(seed, whole)
        with suppress(SimulationFailed):
            cluster.begin()
            while not cluster.is_storm_over:
                cluster.step()
        if len(_kept) == _KEPT:
            _kept.clear()
        _kept[key] = cluster.faults.strikes
    return _kept[key]
