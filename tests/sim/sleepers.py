"""Marks taken away, one at a time: does the audit find the room that sleeps without it?

`die_without` takes a mark away for good and runs an audited history until the audit names the room. `needed` asks the
same of all marks in one history: when a room is visited for one mark alone, and its poll does what the audit looks for,
then the audit would have found this very room, at this step, without this mark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pykraft.broker.turns.marks import MARKS
from pykraft.common.core import Poll
from pykraft.common.rooms import Room, Rooms
from pykraft.common.timer import Timer
from pykraft.common.trace import Tracer
from pykraft.sim import cluster
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.sim.world.scheduler import Scheduler
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


def die_without(lost: Mark, seed: int, steps: int, patch: pytest.MonkeyPatch) -> str:
    """How an audited history ends in which this mark is never set."""
    mark, wake_by = Room.mark, Room.wake_by

    def is_lost(room: Room, why: str) -> bool:
        return why == lost.why and row_of(room) == lost.row

    patch.setattr(Room, "mark", lambda room, why: None if is_lost(room, why) else mark(room, why))
    patch.setattr(Room, "wake_by", lambda room, due, why: None if is_lost(room, why) else wake_by(room, due, why))
    patch.setattr(cluster, "AUDIT_PERIOD", 1)
    with pytest.raises(SimulationFailed) as death:
        run(seed, steps)
    return str(death.value)


class Witness:
    """Sees which marks are needed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.needed: set[Mark] = set()
        self._deeds = 0
        self._why: dict[Room, set[str]] = {}
        self._polled: Room | None = None
        self._patch = patch
        for owner, name in ((Tracer, "__call__"), (Timer, "at"), (MemoryFileSystem, "step"), (Scheduler, "at")):
            self._count(owner, name)
        mark, wake_by, add = Room.mark, Room.wake_by, Rooms.add

        def note(room: Room, why: str) -> None:
            if room is not self._polled:
                self._deeds += 1
                self._why.setdefault(room, set()).add(why)

        def noted_mark(room: Room, why: str) -> None:
            note(room, why)
            mark(room, why)

        def noted_wake(room: Room, due: int, why: str) -> None:
            if due < room.due:
                note(room, why)
            wake_by(room, due, why)

        def watched_add(rooms: Rooms, room: Room, poll: Callable[[int], Poll | int], fault: str | None = None) -> None:
            add(rooms, room, lambda now: self._visit(room, poll, now), fault)

        patch.setattr(Room, "mark", noted_mark)
        patch.setattr(Room, "wake_by", noted_wake)
        patch.setattr(Rooms, "add", watched_add)

    def _count(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counted(*given: Any, **named: Any) -> Any:
            self._deeds += 1
            return original(*given, **named)

        self._patch.setattr(owner, name, counted)

    def _visit(self, room: Room, poll: Callable[[int], Poll | int], now: int) -> Poll | int:
        why, due, deeds = self._why.pop(room, set()), room.due, self._deeds
        if "append" in why:
            why.discard("due")  # it has become due because of the mark
        self._polled = room
        found = poll(now)
        self._polled = None
        deadline, requests = found if isinstance(found, Poll) else (found, ())
        if len(why) == 1 and (requests or deadline != due or self._deeds != deeds):
            self.needed.add(Mark(row_of(room), why.pop()))
        return found
