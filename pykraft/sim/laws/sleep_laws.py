"""A room that sleeps has nothing to do (`common.rooms`): the audit polls it, and nothing may come of that.

After a turn of a node every room that sleeps is polled at the same time, by its own poll. That must send nothing and
mark nothing, must not bring a deadline forward nor put one off, and must leave no trace, no timer, no change on the
disk, no draw from the dice, no message on the network. So a history that is audited is the same history as without.

That is cheap and sees what a poll does. Now and then the audit also compares all that the room's node holds, before and
after, as bytes (`_State`): then no change goes unseen, a promise that was kept in silence neither.
"""

import io
import pickle
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from types import BuiltinFunctionType, FunctionType, GeneratorType, MappingProxyType, MethodType, ModuleType
from typing import Any

from pykraft.broker.node import Node
from pykraft.common.core import Poll
from pykraft.common.rooms import Room
from pykraft.sim.laws.invariants import require

AUDIT_PERIOD = 5
"""One of this many seeds has histories in which the nodes' sleeping rooms are audited after each turn."""
DEEP = 0.0001
"""How often the whole state is compared, of all times that a room is polled."""


Counts = Callable[[], tuple[int, ...]]
"""Counts what a node has done outside of itself: events traced, changes of its disk, what it has planned to happen."""


class SleepAudit:
    """Audits the turns of one node."""

    def __init__(self, random: Random, deep: float = DEEP) -> None:
        """`deep` is how often all that the node holds is compared."""
        self._random = random
        self._deep = deep
        self.polls = self.comparisons = 0

    def check(self, node: Node, counts: Counts, now: int) -> None:
        """Poll every room that sleeps after this turn. Violation, with the room's name, if it did something."""
        for room in node.rooms.asleep(now):
            self._check(node, room, counts, now)

    def _check(self, node: Node, room: Room, counts: Counts, now: int) -> None:
        self.polls += 1
        before, marked = _deeds(node, counts), _marked(node)
        is_deep = self._random.random() < self._deep
        state = _state(node) if is_deep else b""
        found = room.poll(now)
        deadline, requests = found if isinstance(found, Poll) else (found, ())
        name = f"the room {room.name!r} sleeps with work: "
        require(not requests, f"{name}it sends {requests}")
        require(marked == _marked(node), f"{name}it marks {_marked(node) - marked}")
        require(deadline == room.due, f"{name}it is due at {deadline}, not at {room.due}, and it is {now}")
        deeds = _deeds(node, counts)
        require(deeds == before, f"{name}it goes from {before} to {deeds}")
        if is_deep:
            self.comparisons += 1
            require(_state(node) == state, f"{name}it changes what the node holds")


def _marked(node: Node) -> set[str]:
    return {room.name for room in node.rooms if room.is_marked}


def _deeds(node: Node, counts: Counts) -> tuple[int, ...]:
    """What a poll may do without saying so, as counts and deadlines."""
    return *counts(), node.timer.made, node.raft.replica.timer.made, *(each.due for each in node.rooms)


# --- all that a node holds --------------------------------------------------------------------------------------------


def _state(node: Node) -> bytes:
    """A hash of everything that the node's parts hold, but for what is outside of them: clocks, sinks, hosts."""
    held = [room.poll.__self__ for room in node.rooms if isinstance(room.poll, MethodType)]
    written = io.BytesIO()
    _State(written, node).dump(held)
    return blake2b(written.getbuffer(), digest_size=16).digest()


class _State(pickle.Pickler):
    """Writes objects that were not made to be written: functions by name, with what they close over; generators by
    where they have stopped."""

    def __init__(self, file: io.BytesIO, node: Node) -> None:
        super().__init__(file, 5)
        self._outside = {id(each) for each in node.ports}

    def persistent_id(self, given: Any) -> Any:
        if id(given) in self._outside or isinstance(given, ModuleType | type) or _is_world(type(given)):
            return "outside"
        return None

    def reducer_override(self, given: Any) -> Any:
        match given:
            case FunctionType():
                cells = [cell.cell_contents for cell in given.__closure__ or () if _is_full(cell)]
                return _Stub, (given.__qualname__,), cells
            case BuiltinFunctionType():
                return _Stub, (given.__qualname__,)
            case MethodType():
                return _Stub, (given.__func__.__qualname__, given.__self__)
            case GeneratorType():
                frame = given.gi_frame
                return _Stub, (given.__qualname__, -1 if frame is None else frame.f_lasti)
            case MappingProxyType():
                return _Stub, (dict(given),)
            case memoryview():
                return _Stub, (bytes(given),)
        return NotImplemented


def _is_world(kind: type) -> bool:
    """Whether that is a thing of the simulator's."""
    return kind.__module__.startswith("pykraft.sim.")


class _Stub:
    """Stands in the bytes for what cannot be written."""


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (an empty cell raises)
    except ValueError:
        return False
    return True
