"""A stage for protocol dialogues: nodes without threads or sockets, whose messages a script can hold, deliver and drop.

Time does not pass while a command runs. All messages are delivered, and answered, at the same moment, until no node has
anything more to say (`Stage.settle`). Time passes only when a script says so: on all clocks (`wait`), or on the clock
of one node (`pass_time_on`), which then finds its leader silent before the others do.

A *hold* keeps the messages of one kind, on one link and in one direction, until the script delivers or drops them. The
sender sees what it would see on a connection that has gone silent: no answer, and after its timeout a failure. The held
message may still be delivered after that, as may the message of a process that is dead by now.

Each message, and each change of state that a node reports, is a line of the dialogue. A line is left out if it repeats
the last one of its kind on its link, within a command; of fetches also later, for a follower that fetches in vain does
so twice a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pykraft.common.core import FOREVER, Failure, Outbound, Poll, Promise
from tests.datadriven.wording import Wording, kind_of
from tests.harness.quorum import flat

ANY = "*"
FETCHES = ("Fetch", "MetadataFetch")
_MOST_ROUNDS = 2000


class Actor(Protocol):
    """A node on the stage."""

    def poll(self, now: int) -> Poll: ...

    def handle(self, request: Any, port: int, now: int) -> Promise[Any]:
        """Answer a request; the response is None for a request without one."""
        ...


class Link(NamedTuple):
    """Messages of one kind from one node to another; each part may be `ANY`."""

    sender: str
    receiver: str
    kind: str = ANY

    def covers(self, other: Link) -> bool:
        return all(mine in (ANY, its) for mine, its in zip(self, other, strict=True))


@dataclass(eq=False)
class Message:
    """A request, or the response to one. `text` is None if it is not worth a line."""

    link: Link
    text: str | None
    arrive: Callable[[], None]
    is_response: bool


@dataclass(eq=False)
class Exchange:
    """A request whose sender waits for the response until `deadline`, by its own clock."""

    sender: int
    actor: Actor
    receiver: int
    kind: str
    outbound: Outbound
    deadline: int
    has_arrived: bool = False


@dataclass
class Stage:
    """The nodes, what is under way between them, and the dialogue so far.

    `locate(host, port)` is the id of the node that listens there.
    """

    locate: Callable[[str, int], int]
    wording: Wording
    hidden: set[str]
    """Kinds of messages that are no lines of the dialogue."""
    now: int = 0
    lines: list[str] = field(default_factory=list)
    actors: dict[int, Actor] = field(default_factory=dict)
    is_quiet: bool = False
    _ahead: dict[int, int] = field(default_factory=dict)
    _holds: list[Link] = field(default_factory=list)
    _held: list[Message] = field(default_factory=list)
    _due: deque[Message] = field(default_factory=deque)
    _exchanges: list[Exchange] = field(default_factory=list)
    _last_said: dict[tuple[Link, bool], str] = field(default_factory=dict)

    # --- the dialogue -------------------------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        """Add a line, unless it repeats the one before."""
        if not self.is_quiet and self.lines[-1:] != [line]:
            self.lines.append(line)

    def take_lines(self) -> list[str]:
        """The dialogue of one command."""
        taken, self.lines = self.lines, []
        self._last_said = {key: line for key, line in self._last_said.items() if key[0].kind in FETCHES}
        return taken

    def _say_message(self, message: Message, remark: str = "") -> None:
        if message.text is None or message.link.kind in self.hidden:
            return
        line = f"{message.link.sender} -> {message.link.receiver}  {message.link.kind}: {message.text}{remark}"
        key = (message.link, message.is_response)
        if self._last_said.get(key) != line or remark:
            self._last_said[key] = line
            self.say(line)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def clock(self, node_id: int) -> int:
        """The time on the node's own clock."""
        return self.now + self._ahead.get(node_id, 0)

    def add(self, node_id: int, actor: Actor) -> None:
        self.actors[node_id] = actor

    def remove(self, node_id: int) -> None:
        """The node is gone: it waits for no answer, and the nodes that wait for its answer learn that it is gone."""
        gone = self.actors.pop(node_id)
        self._exchanges = [exchange for exchange in self._exchanges if exchange.actor is not gone]
        for exchange in self._exchanges:
            if exchange.receiver == node_id and exchange.has_arrived:
                self._respond(exchange, Failure.DISCONNECTED, "the connection breaks")

    # --- messages -----------------------------------------------------------------------------------------------------

    def _send(self, sender: int, outbound: Outbound) -> None:
        request = outbound.request
        receiver, port = self.locate(outbound.destination.host, outbound.destination.port), outbound.destination.port
        deadline = self.clock(sender) + outbound.timeout_ms
        exchange = Exchange(sender, self.actors[sender], receiver, kind_of(request), outbound, deadline)
        self._exchanges.append(exchange)
        version = request.versions[1]
        copy = type(request).decode(request.to_bytes(version), version)
        link = Link(str(sender), str(receiver), exchange.kind)
        self._post(Message(link, self.wording.request(copy), lambda: self._arrive(exchange, copy, port), False))

    def _arrive(self, exchange: Exchange, request: Any, port: int) -> None:
        actor = self.actors.get(exchange.receiver)
        if actor is None:
            self._finish(exchange, Failure.DISCONNECTED)
            return
        exchange.has_arrived = True

        def on_response(response: Any) -> None:
            if response is None:
                self._finish(exchange, None)
            elif self.actors.get(exchange.receiver) is actor:
                version = request.versions[1]
                copy = type(response).decode(flat(response, version), version)
                self._respond(exchange, copy, self.wording.response(request, copy))

        actor.handle(request, port, self.clock(exchange.receiver)).then(on_response)

    def _respond(self, exchange: Exchange, result: Any, text: str | None) -> None:
        link = Link(str(exchange.receiver), str(exchange.sender), exchange.kind)
        self._post(Message(link, text, lambda: self._finish(exchange, result), True))

    def _finish(self, exchange: Exchange, result: Any) -> None:
        """Tell the sender, unless it is gone or has given up."""
        if exchange in self._exchanges:
            self._exchanges.remove(exchange)
            exchange.outbound.on_response(result, self.clock(exchange.sender))

    def _give_up(self) -> None:
        """A sender that has waited long enough gives up the connection, and all that is under way on it."""
        for late in [each for each in self._exchanges if each.deadline <= self.clock(each.sender)]:
            if late.kind not in self.hidden:
                self.say(f"{late.sender}  waits no longer for an answer to its {late.kind} from {late.receiver}")
            shared = (late.sender, late.outbound.channel, late.outbound.destination)
            for each in list(self._exchanges):
                if (each.sender, each.outbound.channel, each.outbound.destination) == shared:
                    self._finish(each, Failure.TIMED_OUT)

    def _post(self, message: Message) -> None:
        if any(hold.covers(message.link) for hold in self._holds):
            self._held.append(message)
            self._say_message(message, "  (held)")
        else:
            self._due.append(message)

    # --- what a script does to messages -------------------------------------------------------------------------------

    def hold(self, link: Link) -> None:
        """From now on such messages are held."""
        self._holds.append(link)

    def release(self, link: Link) -> None:
        """Hold such messages no longer, and let those that are held arrive."""
        self._holds = [hold for hold in self._holds if not link.covers(hold)]
        released = self._take(link)
        self._due.extend(released)

    def deliver(self, link: Link) -> None:
        """Let the oldest message that is held on this link arrive; the hold stays."""
        first = next(message for message in self._held if link.covers(message.link))
        self._held.remove(first)
        self._due.append(first)

    def drop(self, link: Link) -> None:
        """Such messages that are held will never arrive."""
        self._take(link)

    def _take(self, link: Link) -> list[Message]:
        taken = [message for message in self._held if link.covers(message.link)]
        self._held = [message for message in self._held if message not in taken]
        return taken

    def is_held(self, link: Link) -> bool:
        return any(link.covers(message.link) for message in self._held)

    # --- time ---------------------------------------------------------------------------------------------------------

    def settle(self) -> int:
        """Let every node act at this moment until none has more to say; when the next one wants to act."""
        for _ in range(_MOST_ROUNDS):
            deadlines = [self._poll(node_id) for node_id in sorted(self.actors)]
            self._give_up()
            deadlines += [each.deadline - self._ahead.get(each.sender, 0) for each in self._exchanges]
            if not self._due and min(deadlines, default=FOREVER) > self.now:
                return min(deadlines, default=FOREVER)
            while self._due:
                message = self._due.popleft()
                self._say_message(message)
                message.arrive()
        raise AssertionError("the nodes say the same things for ever")

    def _poll(self, node_id: int) -> int:
        poll = self.actors[node_id].poll(self.clock(node_id))
        for outbound in poll.requests:
            self._send(node_id, outbound)
        return poll.deadline - self._ahead.get(node_id, 0)

    def wait(self, duration_ms: int) -> None:
        """Let time pass on all clocks."""
        end = self.now + duration_ms
        while (deadline := self.settle()) <= end:
            self.now = deadline
        self.now = end
        self.settle()

    def pass_time_on(self, node_id: int, until: Callable[[], bool]) -> None:
        """Let time pass on the clock of one node, until `until` holds. No message reaches the node or leaves it before;
        what it sends in its last step does leave it."""
        actor = self.actors[node_id]
        while True:
            poll = actor.poll(self.clock(node_id))
            if until():
                break
            self._ahead[node_id] = self._ahead.get(node_id, 0) + max(1, poll.deadline - self.clock(node_id))
        self._exchanges = [exchange for exchange in self._exchanges if exchange.actor is not actor]
        for outbound in poll.requests:
            self._send(node_id, outbound)
