"""Takes a mark away, and runs an audited history until the audit names the room that sleeps without it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pykraft.broker.turns.marks import MARKS
from pykraft.common.rooms import Room
from pykraft.sim.laws import sleep_laws
from pykraft.simulation import Simulation, SimulationFailed


class Mark(NamedTuple):
    row: str
    why: str


def row_of(room: Room) -> str:
    """The row of the table that has this room's marks."""
    return room.name if room.name in MARKS else str(room.fault)


def run(seed: int, steps: int) -> None:
    """A history up to this step, or to its end. SimulationFailed if a law is broken."""
    simulation = Simulation(seed)
    while not simulation.cluster.is_settled and simulation.step < steps:
        simulation.cluster.step()


def lose(lost: Mark, patch: pytest.MonkeyPatch) -> None:
    """From now on this mark is never set."""
    mark, wake_by = Room.mark, Room.wake_by

    def is_lost(room: Room, why: str) -> bool:
        return why == lost.why and row_of(room) == lost.row

    patch.setattr(Room, "mark", lambda room, why: None if is_lost(room, why) else mark(room, why))
    patch.setattr(Room, "wake_by", lambda room, due, why: None if is_lost(room, why) else wake_by(room, due, why))


def die_without(lost: Mark, seed: int, steps: int, patch: pytest.MonkeyPatch) -> str:
    """How an audited history ends in which this mark is never set."""
    lose(lost, patch)
    patch.setattr(sleep_laws, "AUDIT_PERIOD", 1)
    with pytest.raises(SimulationFailed) as death:
        run(seed, steps)
    return str(death.value)
