"""The rooms of a node: its parts that act on time, each polled only when there is something to do.

A node is made of parts with a ``poll(now)``: raft, the controller, the heartbeats, the fetchers, the coordinators, the
channels to the controller. If each turn of the loop polled all of them, every part that is added would cost every
request of every client. So each part has a `Room`, and a room sleeps until one of two things wakes it::

    its deadline is due     the poll before has returned it; `wake_by` may bring it forward
    it is marked            something that the poll reads has changed: an answer, a request, the metadata, ...

`Rooms.turn` visits the rooms that are due or marked, and no others, in the order in which they were added. The
deadlines are in one heap and the marked rooms in one list, so a turn with nothing to do costs the same with five rooms
and with fifty.

**Marks within a turn.** A room may mark a later one: that one is visited in the same turn. If it marks an earlier one,
there is another turn at once. A room that marks itself while it is polled marks nothing: what it returns says when it
is needed again, and it must return ``now`` if it has left work behind.

**What a room owes.** A poll may read what it likes: its own state, another part's, the image. But whatever can change
its result, apart from time, needs a mark in the place where it changes. Time needs none: a poll that waits for a time
returns it. A mark too many costs one poll. A mark too few is the worst fault of all: a room that sleeps with work.
A room whose result changes with the time, in a way that no deadline tells, stays awake (`stay_awake`): it is visited in
each turn that there is, as all of them once were.

**The audit.** Polling a room that sleeps must do nothing. So a simulated history may poll all sleepers after each turn,
and fail, by the room's name, if that does anything at all (`sim.laws.sleep_laws`). Which marks there are, and why, is
the table of `broker.turns.marks`. On the real clock a node visits all its rooms once a second (`runtime.threaded`), so
that a mark too few costs a second, and not the node. The simulator has no such net: it is to see what is wrong.

This is ours: in Kafka these parts are threads, and the operating system lets them sleep.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from pykraft.common.core import FOREVER, Outbound, Poll

OnFault = Callable[[str, Exception], int]
"""``on_fault(kind, error)`` takes note of what a poll has raised, or raises it again; it returns after how many
milliseconds the room is polled again."""
_BETWEEN_TURNS = -1


class Room:
    """A part that is polled. One that is in no `Rooms` is polled by hand, and its marks mean nothing."""

    __slots__ = ("_rooms", "alarm", "due", "fault", "is_awake", "is_marked", "look_in", "name", "number", "poll")

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.poll: Callable[[int], Poll | int]
        self.due = FOREVER
        """When it has to be polled again."""
        self.alarm = FOREVER
        """Its entry in the heap of deadlines: never later than `due`."""
        self.is_marked = True
        """Whether it is in the list of those to visit. At first it is: nothing is known of it."""
        self.is_awake = False
        self.look_in = FOREVER
        """It is visited in the first turn from then on; that alone is no reason for a turn."""
        self.fault: str | None = None
        """The kind of fault that it is if its poll raises; None: that ends the turn."""
        self._rooms: Rooms | None = None

    @property
    def may_gather(self) -> bool:
        """Whether other requests wait to be handled before the room is visited, as far as the runner says."""
        return self._rooms is None or self._rooms.more_waits()

    def mark(self, why: str) -> None:
        """Something that its poll reads has changed: it is visited in this turn, or in another one at once. `why` is in
        the table of marks."""
        if not self.is_marked and self._rooms is not None:
            self.is_marked = True
            self._rooms.list_marked(self)

    def wake_by(self, deadline: int, why: str) -> None:
        """A mark that can wait: it has to be polled by then. While it is polled, what it returns counts instead."""
        if deadline < self.due:
            self.due = deadline
            if self._rooms is not None:
                self._rooms.set_alarm(self)

    def look_in_at(self, time: int) -> None:
        """Visit it in the first turn from then on, instead of at the time that it named before; that alone is no reason
        for a turn."""
        self.look_in = time
        if self._rooms is not None:
            self._rooms.note_look_in(time)

    def stay_awake(self, is_awake: bool = True) -> None:
        """Visit it in each turn that there is, or no more."""
        if is_awake is not self.is_awake:
            self.is_awake = is_awake
            if self._rooms is not None:
                self._rooms.count_awake()


class Rooms:
    """All rooms of a node."""

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._rooms: list[Room] = []
        self._alarms: list[tuple[int, int]] = []
        """A heap of (deadline, number). An entry that is not its room's `alarm` is out of date."""
        self._ahead: list[int] = []
        """A heap of the numbers of marked rooms that this turn, or the next one, visits."""
        self._again: list[int] = []
        """Those that were marked after this turn had passed them."""
        self._awake: tuple[Room, ...] = ()
        self._look_in = FOREVER
        """When the first room is to be looked into, or before."""
        self._at = _BETWEEN_TURNS
        """The room that is polled now."""
        self.more_waits: Callable[[], bool] = lambda: True
        """Whether requests wait that will be handled before the next turn; the runner knows. What a room gathers until
        its visit need not wait for that if nothing more can come."""

    def add(self, room: Room, poll: Callable[[int], Poll | int], fault: str | None = None) -> None:
        """Add a room after the others. What its poll raises is a `fault` of this kind; or, without one, ends the
        turn."""
        room.poll, room.fault = poll, fault
        room.number, room._rooms = len(self._rooms), self
        self._rooms.append(room)
        heappush(self._ahead, room.number)
        self.count_awake()

    def __iter__(self) -> Iterator[Room]:
        return iter(self._rooms)

    def asleep(self, now: int) -> list[Room]:
        """The rooms that a turn would not visit now."""
        return [room for room in self._rooms if not room.is_marked and not room.is_awake and room.due > now]

    def mark_all(self, why: str) -> None:
        """Visit every room."""
        for room in self._rooms:
            room.mark(why)

    @property
    def has_marked(self) -> bool:
        """Whether a room waits to be visited."""
        return bool(self._ahead)

    @property
    def noted(self) -> tuple[int, int]:
        """Counts that change, between two turns, with each mark and each deadline that is brought forward."""
        return len(self._ahead), len(self._alarms)

    @property
    def deadline(self) -> int:
        """When the next room is due, apart from those that are marked."""
        alarms, rooms = self._alarms, self._rooms
        while alarms:
            alarm, number = alarms[0]
            room = rooms[number]
            if alarm == room.due:
                return alarm
            if alarm == room.alarm and room.due < FOREVER:  # it has been put off
                room.alarm = room.due
                heapreplace(alarms, (room.due, number))
            else:
                if alarm == room.alarm:
                    room.alarm = FOREVER
                heappop(alarms)
        return FOREVER

    def turn(self, now: int) -> tuple[int, Sequence[Outbound]]:
        """Visit the rooms that are due or marked; when there has to be another turn, and what they want to send."""
        rooms, ahead = self._rooms, self._ahead
        while (deadline := self.deadline) <= now:
            room = rooms[heappop(self._alarms)[1]]
            room.due = room.alarm = FOREVER
            room.mark("due")
        for room in self._awake:
            room.mark("awake")
        if self._look_in <= now:
            self._mark_late(now)
        if not ahead:
            return deadline, ()
        requests: list[Outbound] = []
        try:
            while ahead:
                room = rooms[ahead[0]]
                self._at = room.number
                try:
                    found = room.poll(now)
                except Exception as error:
                    if room.fault is None:
                        raise
                    found = now + self._on_fault(room.fault, error)
                heappop(ahead)
                room.is_marked = False
                due, wanted = (found, ()) if isinstance(found, int) else found
                if due != room.due:
                    room.due = due
                    if due < room.alarm:
                        self.set_alarm(room)
                if wanted:
                    requests += wanted
        finally:
            self._at = _BETWEEN_TURNS
            if self._again:
                ahead += self._again
                self._again.clear()
                heapify(ahead)
        return now if ahead else self.deadline, requests

    def _mark_late(self, now: int) -> None:
        """The rooms that were to be looked into when there is a turn."""
        self._look_in = FOREVER
        for room in self._rooms:
            if room.look_in <= now:
                room.look_in = FOREVER
                room.mark("look in")
            self._look_in = min(self._look_in, room.look_in)

    # --- what a room does ---------------------------------------------------------------------------------------------

    def list_marked(self, room: Room) -> None:
        if room.number > self._at:
            heappush(self._ahead, room.number)
        else:
            self._again.append(room.number)

    def set_alarm(self, room: Room) -> None:
        room.alarm = room.due
        heappush(self._alarms, (room.due, room.number))

    def note_look_in(self, time: int) -> None:
        self._look_in = min(self._look_in, time)

    def count_awake(self) -> None:
        self._awake = tuple(room for room in self._rooms if room.is_awake)
