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
from pykraft.common.rooms import Room
from pykraft.sim.laws.invariants import Violation

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
        asleep, deeds = node.rooms.asleep(now), _deeds(node, counts)
        dues = [room.due for room in node.rooms]
        for room in asleep:
            is_deep = self._random.random() < self._deep
            state = _state(node) if is_deep else b""
            found = room.poll(now)
            deadline, requests = (found, ()) if isinstance(found, int) else found
            if requests:
                raise _violation(room, f"it sends {requests}")
            done = _deeds(node, counts)
            if done != deeds and (marked := [each.name for each in asleep if each.is_marked]):
                raise _violation(room, f"it marks {', '.join(marked)}")
            if deadline != room.due:
                raise _violation(room, f"it is due at {deadline}, not at {room.due}, and it is {now}")
            if done != deeds:
                raise _violation(room, f"it goes from {deeds} to {done}")
            if is_deep:
                self.comparisons += 1
                if _state(node) != state:
                    raise _violation(room, "it changes what the node holds")
        self.polls += len(asleep)
        for room, due in zip(node.rooms, dues, strict=True):
            if room.due != due:
                raise _violation(room, f"one that was polled has changed when it is due, from {due} to {room.due}")


def _violation(room: Room, what: str) -> Violation:
    return Violation(f"the room {room.name!r} sleeps with work: {what}")


def _deeds(node: Node, counts: Counts) -> tuple[object, ...]:
    """What a poll may do without saying so, as counts: with each deed another one."""
    return counts(), node.timer.made, node.raft.replica.timer.made, node.rooms.noted


# --- all that a node holds --------------------------------------------------------------------------------------------


def _state(node: Node) -> bytes:
    """A hash of everything that the node's parts hold, but for what is outside of them: clocks, sinks, hosts."""
    held = [room.poll.__self__ for room in node.rooms if isinstance(room.poll, MethodType)]
    written = io.BytesIO()
    _State(written, node).dump(held)
    return blake2b(written.getbuffer(), digest_size=16).digest()


class _State(pickle.Pickler):
    """Writes objects that were not made to be written: functions by name, with what they close over; generators by
    where they have stopped; and of what is outside, nothing.

    The pickler writes numbers, texts and plain containers by itself, and asks `reducer_override` for all others."""

    def __init__(self, file: io.BytesIO, node: Node) -> None:
        super().__init__(file, 5)
        self._outside = {id(each) for each in node.ports}

    def reducer_override(self, given: Any) -> Any:
        if given is _Stub:
            return NotImplemented
        if id(given) in self._outside or isinstance(given, ModuleType | type) or _is_world(type(given)):
            return _Stub, ("outside",)
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
