"""Plants a bug in a process of its own, and runs seeds until one fails."""

from __future__ import annotations

from typing import NamedTuple

from pykraft.sim.bugs.planting import plant
from pykraft.simulation import Simulation, SimulationFailed


class Death(NamedTuple):
    """How the first history that finds a bug fails."""

    seed: int
    law: str
    text: str


def first_death(work: tuple[str, list[int]]) -> Death | None:
    """Make a mistake, then run seeds until one fails. None if the mistake survives them all."""
    name, seeds = work
    plant(name)
    for seed in seeds:
        try:
            Simulation(seed).run()
        except SimulationFailed as failure:
            return Death(seed, failure.law, str(failure))
    return None
