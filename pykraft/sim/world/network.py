"""A network in memory: streams of bytes between hosts, with everything that a real one does to them.

A connection is two streams, one each way. What is sent arrives later, in order; how much later is drawn each time, so
that streams overtake each other, and now and then a piece takes very long. On top of that, as the `Weather` says:

* a *link* between two hosts can be **cut**, in one direction or both. Nothing gets through, and neither end gets an
  error. When it is mended, what was sent meanwhile arrives (TCP sends again what was not confirmed), unless its sender
  has given up;
* a link can be **clogged** for a while: everything arrives, late;
* a connection can **break**: either both ends hear of it, or it goes silent for good and each end must find out by
  itself. What was on its way is lost, so that the sender does not know whether it arrived: this is how messages are
  lost, and how the same request comes to be sent twice;
* a request can have a **ghost**: it is delivered once more, much later, on a connection whose sender is long gone. (A
  server may find a request in its socket's buffer whose sender has timed out, and has sent it again elsewhere.) Its
  answer goes nowhere;
* a host that dies takes its ends of all connections with it; the others hear of it if their link is not cut.

What travels are encoded frames, through the same `ClientChannel` and `ServerChannel` as on real sockets.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Protocol

from pykraft.common.types import Endpoint
from pykraft.sim.world.mishaps import AGAIN, BREAKS, RESET, SILENT, Mishaps
from pykraft.sim.world.scheduler import US_PER_MS, Action, Planned, Scheduler

Link = tuple[str, str]
GHOST = "ghost"
"""The name of the host at the other end of a ghost's connection."""
_SYN_AGAIN_US = 200 * US_PER_MS


@dataclass
class Weather:
    """How the network is at the moment. Times are microseconds, the rest are probabilities for each piece sent."""

    latency_us: tuple[int, int] = (50, 400)
    straggler: float = 0.0
    straggler_us: int = 50_000
    breaks: float = 0.0
    goes_silent: float = 0.5
    """How often a connection breaks without an error at either end."""
    ghost: float = 0.0
    ghost_us: int = 2_000_000
    late: float = 0.0
    """How often an answer is late by seconds. It is drawn from dice of its own."""
    late_us: int = 3_000_000
    late_port: int = 9092
    """Only answers from this port: of controllers whose answers are so late, none stays active for long."""
    late_hosts: frozenset[str] = frozenset()
    """And only answers to these hosts, the nodes."""
    late_to_clients: float = 0.0
    """How often an answer to any other host is. It has dice of its own, too."""


@dataclass(slots=True)
class Piece:
    """What was sent at once: encoded frames, b"" for "connected", None for the end of the stream."""

    number: int
    """Pieces are counted in the order in which they were sent; of equal runs they have equal numbers."""
    data: bytes | None
    sent_us: int


class InFlight(NamedTuple):
    """A piece on its way. It is due at this time; None means that a cut link holds it back."""

    piece: Piece
    end: "End"
    """Where it will arrive."""
    due_us: int | None

    @property
    def link(self) -> Link:
        return self.end.other.host.name, self.end.host.name


class Undeliverable(ValueError):  # noqa: N818 (it tells what is the case)
    """A piece cannot be handled as asked; the text says why."""


class Receiver(Protocol):
    """The owner of one end of a connection."""

    def connected(self) -> None: ...

    def received(self, data: bytes) -> None: ...

    def closed(self) -> None: ...


class Host(Protocol):
    """A machine on the network."""

    name: str
    is_up: bool
    stalled_until_us: int
    """Until then the host does nothing, and what arrives waits."""

    def accept(self, endpoint: Endpoint, end: "End") -> Receiver: ...


class Credentials(Protocol):
    """Gives each client that is made on a network what it shows and logs in with (`sim.world.secure_hosts`)."""

    def equip(self, client: Any) -> None: ...


class End:
    """One end of a connection. What is sent here arrives at the other."""

    def __init__(self, network: "Network", host: Host) -> None:
        self._network = network
        self.host = host
        self.other: End
        self.receiver: Receiver | None = None
        self.endpoint: Endpoint | None = None
        """The address that was dialled, if this is the end that dialled it: its pieces are requests."""
        self.is_open = True
        self.is_silent = False
        """The connection is broken, and neither end knows."""
        self.connection = 0
        """Both ends of a connection have its number."""
        self.asked: dict[bytes, bytes] = {}
        """Of the requests sent from here: their correlation ids, and API key and version."""
        self.arrivals: deque[Piece] = deque()
        """What is on its way to this end, in order."""
        self.planned: deque[tuple[int, Planned]] = deque()
        """When something will arrive, in order: as many times as there are pieces, less those that are held back."""
        self.last_arrival_us = 0

    def send(self, parts: Sequence[bytes]) -> None:
        """Send these parts as one piece; regions of simulated files are bytes. OSError: the connection is closed."""
        if not self.is_open:
            raise ConnectionResetError("the connection is closed")
        data = b"".join(parts)
        if data:
            self._network.carry(self, data)

    def close(self) -> None:
        """Tell the other end that this one is closed."""
        if self.is_open:
            self.is_open = False
            self._network.forget(self)
            self._network.carry(self, None)


class Network:
    """All hosts, links and connections."""

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        late: Random | None = None,
        late_to_clients: Random | None = None,
    ) -> None:
        """`late` and `late_to_clients` are the dice for answers that are late by seconds."""
        self._scheduler = scheduler
        self._random = random
        self._late = late or Random("late")
        self._late_to_clients = late_to_clients or Random("late to clients")
        self.weather = Weather()
        self.mishaps = Mishaps()
        self._slower: dict[Link, int] = {}
        self._hosts: dict[Endpoint, Host] = {}
        self._cut: set[Link] = set()
        self._clogged: dict[Link, int] = {}
        self._answers_at: dict[str, int] = {}
        self._held: dict[Link, list[End]] = {}
        self._ends: dict[str, dict[End, None]] = {}
        self._kept: set[Link] = set()
        self._connections = 0
        self._pieces = 0
        self.credentials: Credentials | None = None
        """What clients show and log in with; None: nothing."""
        self.delays: dict[str, Callable[[], int]] = {}
        """By host: for how many microseconds more what it sends now stays there. Others send at once."""
        self.delivered = 0
        self.last_delivered: InFlight | None = None
        """The piece that has arrived last."""

    # --- the network itself -------------------------------------------------------------------------------------------

    def add_address(self, endpoint: Endpoint, host: Host) -> None:
        self._hosts[endpoint] = host

    def cut(self, source: str, target: str) -> None:
        """Let nothing through from one host to another."""
        self._cut.add((source, target))

    def mend(self, source: str, target: str) -> None:
        """Let everything through again, and what was held back first."""
        if (source, target) in self._kept:
            return
        self._cut.discard((source, target))
        for end in self._held.pop((source, target), []):
            self._plan_arrival(end)

    def mend_all(self) -> None:
        for source, target in sorted(self._cut):
            self.mend(source, target)
        self._clogged.clear()
        self._answers_at.clear()

    def keep_cut(self, source: str, target: str) -> None:
        """Cut a link that only `release` will mend."""
        self._kept.add((source, target))
        self.cut(source, target)

    def release(self, source: str, target: str) -> None:
        """Mend a link, also one that was to stay cut."""
        self._kept.discard((source, target))
        self.mend(source, target)

    @property
    def cut_links(self) -> frozenset[Link]:
        return frozenset(self._cut)

    def is_kept_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._kept

    def knows(self, name: str) -> bool:
        """Whether a host of this name has ever been part of a connection."""
        return name in self._ends

    @property
    def connected_hosts(self) -> list[str]:
        """The names of the hosts that have a connection, or begin one."""
        return sorted(name for name, ends in self._ends.items() if ends)

    @property
    def is_whole(self) -> bool:
        """Whether everything arrives, and in time, as far as the weather lets it."""
        return not self._cut and all(until_us <= self._scheduler.now_us for until_us in self._clogged.values())

    @property
    def keeps_cut(self) -> bool:
        """Whether a link is cut that only `release` will mend."""
        return bool(self._kept)

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def clog(self, source: str, target: str, until_us: int) -> None:
        """Let nothing arrive before that time."""
        self._clogged[source, target] = until_us

    def hold_answers(self, name: str, until_us: int) -> None:
        """Let no broker's answer arrive at this host before that time."""
        self._answers_at[name] = until_us

    def slow_down(self, source: str, target: str, by_us: int) -> None:
        """Let each piece on this link take so much longer."""
        self._slower[source, target] = by_us

    def _latency_us(self, link: Link, end: End | None = None, piece: Piece | None = None) -> int:
        """How long the next piece on this link takes. `end` is where it arrives; a first packet has none."""
        weather = self.weather
        latency, late = self._random.randint(*weather.latency_us), 0
        if weather.straggler and self._random.random() < weather.straggler:
            late = self._random.randint(0, weather.straggler_us)
        if end is not None and self._is_asker_of_brokers(end):
            late += self._lateness_us(end)
        self.mishaps.count(link)
        if weather.straggler or weather.late or weather.late_to_clients:
            late = self.mishaps.lateness_us(link, late)
            if late and end is not None and piece is not None:
                self.mishaps.note(InFlight(piece, end, None))
        return latency + late

    def _lateness_us(self, end: End) -> int:
        """By how much an answer is late besides, to one that has asked a broker."""
        weather = self.weather
        chance, dice = weather.late_to_clients, self._late_to_clients
        if end.host.name in weather.late_hosts:
            chance, dice = weather.late, self._late
        return dice.randint(0, weather.late_us) if chance and dice.random() < chance else 0

    def _is_asker_of_brokers(self, end: End) -> bool:
        return end.endpoint is not None and end.endpoint.port == self.weather.late_port

    # --- connections --------------------------------------------------------------------------------------------------

    def connect(self, host: Host, endpoint: Endpoint, receiver: Receiver) -> End:
        """Begin to connect; the receiver gets a call with the outcome."""
        mine, theirs = End(self, host), End(self, self._hosts[endpoint])
        mine.other, theirs.other = theirs, mine
        self._connections += 1
        mine.connection = theirs.connection = self._connections
        mine.receiver = receiver
        mine.endpoint = endpoint
        self._remember(mine)
        latency_us = self._latency_us((host.name, theirs.host.name))
        self._scheduler.after(latency_us, lambda: self._arrive_at_listener(theirs, endpoint))
        return mine

    def _arrive_at_listener(self, theirs: End, endpoint: Endpoint) -> None:
        mine = theirs.other
        host = theirs.host
        if not mine.is_open:
            return
        if self.is_cut(mine.host.name, host.name):
            # The first packet is sent again until it comes through, or the opener gives up.
            self._scheduler.after(_SYN_AGAIN_US, lambda: self._arrive_at_listener(theirs, endpoint))
        elif not host.is_up:
            self.carry(theirs, None)
        elif host.stalled_until_us > self._scheduler.now_us:
            self._scheduler.at(host.stalled_until_us, lambda: self._arrive_at_listener(theirs, endpoint))
        else:
            self._remember(theirs)
            theirs.receiver = host.accept(endpoint, theirs)
            self.carry(theirs, b"")

    def _remember(self, end: End) -> None:
        self._ends.setdefault(end.host.name, {})[end] = None

    def forget(self, end: End) -> None:
        self._ends.get(end.host.name, {}).pop(end, None)

    def drop_host(self, host: Host) -> None:
        """The host has died: its ends are gone, the other ends will hear of it."""
        for end in list(self._ends.pop(host.name, {})):
            end.is_open = False
            end.receiver = None
            self.carry(end, None)

    # --- pieces on their way ------------------------------------------------------------------------------------------

    def carry(self, source: End, data: bytes | None) -> None:
        """Let a piece arrive at the other end: bytes, b"" for "connected", None for the end of the stream."""
        weather = self.weather
        if data and weather.breaks and self._breaks(source, data):
            return
        if data and source.endpoint is not None and weather.ghost:
            self._maybe_plan_ghost(source, source.endpoint, data)
        self._send(source, data)

    def _send(self, source: End, data: bytes | None) -> None:
        self._pieces += 1
        if data and source.endpoint is not None:
            source.asked[data[8:12]] = data[4:8]
        piece = Piece(self._pieces, data, self._scheduler.now_us)
        source.other.arrivals.append(piece)
        self._plan_arrival(source.other, piece)

    def _plan_arrival(self, end: End, piece: Piece | None = None) -> None:
        link = source, target = end.other.host.name, end.host.name
        time_us = self._scheduler.now_us + self._latency_us(link, end, piece) + self._slower.get(link, 0)
        not_before_us = max(end.last_arrival_us + 1, self._clogged.get(link, 0))
        if self._is_asker_of_brokers(end):
            not_before_us = max(not_before_us, self._answers_at.get(target, 0))
        if self.delays and (delay := self.delays.get(source)) is not None:
            time_us += delay()
        time_us = end.last_arrival_us = max(time_us, not_before_us)
        self._plan(end, time_us)

    def _plan(self, end: End, time_us: int) -> None:
        end.planned.append((time_us, self._scheduler.at(time_us, lambda: self._arrive(end))))

    def _arrive(self, end: End) -> None:
        _take_due(end, self._scheduler.now_us)
        link = (end.other.host.name, end.host.name)
        if end.is_silent:
            return
        if link in self._cut:
            self._held.setdefault(link, []).append(end)
            return
        if end.host.is_up and end.host.stalled_until_us > self._scheduler.now_us:
            self._plan(end, end.host.stalled_until_us)
            return
        self._deliver(end)

    def _deliver(self, end: End) -> None:
        """The oldest piece arrives."""
        piece = end.arrivals.popleft()
        data = piece.data
        self.last_delivered = InFlight(piece, end, self._scheduler.now_us)
        if not end.is_open or end.receiver is None:
            if data and end.other.is_open:
                self.carry(end, None)  # this end is closed: a reset goes back
            return
        self.delivered += 1
        if data is None:
            end.is_open = False
            self.forget(end)
            end.receiver.closed()
        elif data:
            end.receiver.received(data)
        else:
            end.receiver.connected()

    # --- by hand ------------------------------------------------------------------------------------------------------

    def in_flight(self) -> list[InFlight]:
        """What is on its way to a connection that is open, in the order in which it was sent."""
        found = [flight for ends in self._ends.values() for end in ends for flight in _on_the_way_to(end)]
        return sorted(found, key=lambda flight: flight.piece.number)

    def check_in_flight(self, number: int, also_held_back: bool = False) -> None:
        """Undeliverable, if this piece is not on its way, or (unless asked otherwise) cannot arrive."""
        end, _ = self._to_handle(number, also_held_back)
        if not also_held_back and end.host.is_up and end.host.stalled_until_us > self._scheduler.now_us:
            raise Undeliverable(f"{end.host.name} is paused: deliver the message after the pause")

    def deliver(self, number: int) -> None:
        """Let a piece arrive now. What was sent before it on its connection arrives first, as in any stream."""
        end, _ = self._to_handle(number)
        is_delivered = False
        while end.arrivals and not is_delivered:
            is_delivered = end.arrivals[0].number == number
            due = min(end.planned, key=_time)
            due[1].cancel()
            end.planned.remove(due)
            self._deliver(end)

    def delay(self, number: int, by_us: int) -> None:
        """Let a piece arrive later, and with it what was sent after it on its connection."""
        end, position = self._to_handle(number)
        planned = sorted(end.planned, key=_time)
        time_us = planned[position][0] + by_us
        for due_us, late in planned[position:]:
            late.cancel()
            end.planned.remove((due_us, late))
            time_us = max(time_us, due_us)
            self._plan(end, time_us)
            time_us += 1
        end.last_arrival_us = max(end.last_arrival_us, time_us)

    def drop(self, number: int) -> None:
        """Lose a piece. A stream cannot lose one and deliver the next: its connection is silent from here on, and each
        end must find out by itself."""
        end, _ = self._to_handle(number, also_held_back=True)
        end.is_silent = end.other.is_silent = True

    def duplicate(self, number: int, after_us: int) -> None:
        """Let a request arrive once more, later, as a ghost: on a connection whose sender is gone."""
        self._scheduler.after(after_us, self._ghost_of(number))

    def check_duplicate(self, number: int) -> None:
        """Undeliverable, if this piece is not on its way or is no request."""
        self._ghost_of(number)

    def _ghost_of(self, number: int) -> Action:
        end, position = self._to_handle(number, also_held_back=True)
        data, endpoint = end.arrivals[position].data, end.other.endpoint
        if not data or endpoint is None:
            raise Undeliverable(f"message {number} is a response: only a request can arrive once more")
        return lambda: self._arrive_as_ghost(end.host, endpoint, data)

    def _to_handle(self, number: int, also_held_back: bool = False) -> tuple[End, int]:
        """Where this piece will arrive, and how many will arrive there before it."""
        for flight in self.in_flight():
            if flight.piece.number == number:
                source, target = flight.link
                if self.is_cut(source, target) and not also_held_back:
                    raise Undeliverable(f"the link from {source} to {target} is cut: heal it first")
                return flight.end, [piece.number for piece in flight.end.arrivals].index(number)
        raise Undeliverable(f"message {number} is not on its way: it has arrived, or its connection is closed")

    # --- trouble ------------------------------------------------------------------------------------------------------

    def _breaks(self, source: End, data: bytes) -> bool:
        """Whether the connection breaks instead of carrying the next piece."""
        drawn = None
        if self._random.random() < self.weather.breaks:
            drawn = (SILENT if self._random.random() < self.weather.goes_silent else RESET), 0
        link = _link_from(source)
        broken = self.mishaps.before_sending(link, BREAKS, drawn)
        if broken is None:
            return False
        self.mishaps.count(link)  # a lost message has a number, too: the next one has another
        self._note(source, data)
        if broken.kind == SILENT:
            source.is_silent = source.other.is_silent = True
        else:
            for end in (source, source.other):
                self._send(end.other, None)
        return True

    def _note(self, source: End, data: bytes) -> None:
        self.mishaps.note(InFlight(Piece(0, data, self._scheduler.now_us), source.other, None))

    def _maybe_plan_ghost(self, source: End, endpoint: Endpoint, data: bytes) -> None:
        drawn = None
        if self._random.random() < self.weather.ghost:
            drawn = AGAIN, self._random.randint(0, self.weather.ghost_us)
        ghost = self.mishaps.before_sending(_link_from(source), (AGAIN,), drawn)
        if ghost is not None:
            self._note(source, data)
            self._scheduler.after(ghost.us, lambda: self._arrive_as_ghost(source.other.host, endpoint, data))

    def _arrive_as_ghost(self, target: Host, endpoint: Endpoint, data: bytes) -> None:
        if target.is_up and target.stalled_until_us <= self._scheduler.now_us:
            end = End(self, target)
            end.other = End(self, _Nobody())
            end.other.other = end
            end.is_silent = end.other.is_silent = True
            receiver = target.accept(endpoint, end)
            receiver.received(data)


def _link_from(source: End) -> Link:
    return source.host.name, source.other.host.name


def _time(planned: tuple[int, Planned]) -> int:
    return planned[0]


def _take_due(end: End, now_us: int) -> None:
    """One of the planned arrivals is happening: it is planned no more."""
    for due in end.planned:
        if due[0] == now_us and due[1].action is None:
            end.planned.remove(due)
            return


def _on_the_way_to(end: End) -> Iterator[InFlight]:
    if end.arrivals and end.is_open and not end.is_silent:
        times = sorted(time_us for time_us, _ in end.planned)
        held_back = [None] * (len(end.arrivals) - len(times))
        for piece, due_us in zip(end.arrivals, [*held_back, *times], strict=True):
            yield InFlight(piece, end, due_us)


class _Nobody:
    """The host of a ghost: it hears nothing."""

    name = GHOST
    is_up = False
    stalled_until_us = 0

    def accept(self, endpoint: Endpoint, end: End) -> Receiver:
        raise AssertionError("a ghost does not listen")
