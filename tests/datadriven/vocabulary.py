"""The words of a dialogue: what every script can say, and how a line finds the method that does it.

A script begins with the line that says what is on the stage: ``voters 1 2 3`` (`tests.datadriven.voters`), or ``cluster
controllers=9 brokers=1,2`` (`tests.datadriven.cluster`). Both know these commands; a node is its id, ``*`` is any node,
and a kind is the name of a request (`tests.datadriven.wording.kind_of`), or nothing for all kinds::

    hold 2 -> 1 Fetch        from now on such messages are held; a kind alone (`hold Fetch`) means all links
    deliver 2 -> 1 Fetch     the oldest held message on this link arrives, and what comes of it happens
    drop 2 -> 1 Fetch        held messages on this link will never arrive
    release 2 -> 1 Fetch     such messages are held no longer, and those that are held arrive
    hide MetadataFetch       from now on such messages are no lines of the dialogue (`show`: they are again)
    wait 10 s                time passes on all clocks (also: `wait 500 ms`)
    timeout 3                time passes on the clock of node 3 alone, until its role in the quorum changes
    crash 2                  the process ends; what it wrote stays
    lose-power 2             the machine stops; what was not synced is lost
    start 2                  the node starts on its disk
    state                    what every node is and has
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeVar

from pykraft.common.trace import TraceEvent
from pykraft.raft.client import RaftClient
from tests.datadriven.stage import ANY, Link, Stage
from tests.datadriven.wording import Wording

F = TypeVar("F", bound=Callable[..., None])
UNITS_MS = {"ms": 1, "s": 1000}


class ScriptError(Exception):
    """A line that a script cannot say."""


def command(pattern: str) -> Callable[[F], F]:
    """The lines that this method does: a regular expression whose groups are its arguments."""

    def mark(method: F) -> F:
        method.pattern = re.compile(pattern)  # type: ignore[attr-defined]
        return method

    return mark


def numbers(text: str) -> list[int]:
    """Ids, separated by blanks or commas."""
    return [int(word) for word in re.split(r"[ ,]+", text.strip())]


class LosesEverything(Random):
    """The dice of a power failure at which all is lost that can be lost: nothing that was not synced survives."""

    def random(self) -> float:
        return 0.99

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def randint(self, a: int, b: int) -> int:
        return a


class World:
    """What is on the stage, and the commands that hold for everything."""

    hidden: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.wording = Wording()
        self.stage = Stage(self.locate, self.wording, set(self.hidden))

    # --- what a world is made of --------------------------------------------------------------------------------------

    def locate(self, host: str, port: int) -> int:
        raise NotImplementedError

    def raft(self, node_id: int) -> RaftClient:
        raise NotImplementedError

    def start_node(self, node_id: int) -> None:
        raise NotImplementedError

    def crash_node(self, node_id: int, dice: Random | None) -> None:
        """The node ends; with `dice` its machine loses power."""
        raise NotImplementedError

    def described(self) -> Iterator[str]:
        """What every node is and has."""
        raise NotImplementedError

    # --- lines --------------------------------------------------------------------------------------------------------

    def run(self, line: str) -> list[str]:
        """Do what the line says; the dialogue that follows. ScriptError if it says nothing known."""
        for name in dir(type(self)):
            method = getattr(type(self), name)
            found = method.pattern.fullmatch(line) if hasattr(method, "pattern") else None
            if found:
                method(self, *found.groups())
                self.stage.settle()
                return self.stage.take_lines()
        raise ScriptError(f"no command reads {line!r}")

    def emit(self, event: TraceEvent) -> None:
        """A node reports that its state has changed."""
        text = self.wording.event(event)
        if text is not None:
            self.stage.say(text)

    @command(r"hold (?:(\S+) -> (\S+))? ?(\w+)?")
    def hold(self, sender: str | None, receiver: str | None, kind: str | None) -> None:
        self.stage.hold(Link(sender or ANY, receiver or ANY, kind or ANY))

    @command(r"release (?:(\S+) -> (\S+))? ?(\w+)?")
    def release(self, sender: str | None, receiver: str | None, kind: str | None) -> None:
        self.stage.release(Link(sender or ANY, receiver or ANY, kind or ANY))

    @command(r"deliver (\S+) -> (\S+)(?: (\w+))?")
    def deliver(self, sender: str, receiver: str, kind: str | None) -> None:
        link = Link(sender, receiver, kind or ANY)
        if not self.stage.is_held(link):
            raise ScriptError(f"no {kind or 'message'} from {sender} to {receiver} is held")
        self.stage.deliver(link)

    @command(r"drop (\S+) -> (\S+)(?: (\w+))?")
    def drop(self, sender: str, receiver: str, kind: str | None) -> None:
        self.stage.drop(Link(sender, receiver, kind or ANY))

    @command(r"hide (\w+)")
    def hide(self, kind: str) -> None:
        self.stage.hidden.add(kind)

    @command(r"show (\w+)")
    def show(self, kind: str) -> None:
        self.stage.hidden.discard(kind)

    @command(r"wait (\d+) (ms|s)")
    def wait(self, count: str, unit: str) -> None:
        self.stage.wait(int(count) * UNITS_MS[unit])

    @command(r"timeout (\d+)")
    def timeout(self, node: str) -> None:
        quorum = self.raft(int(node)).replica.quorum
        before = (quorum.role.name, quorum.epoch)
        self.stage.pass_time_on(int(node), lambda: (quorum.role.name, quorum.epoch) != before)

    @command(r"crash (\d+)")
    def crash(self, node: str) -> None:
        self.crash_node(int(node), None)
        self.stage.remove(int(node))

    @command(r"lose-power (\d+)")
    def lose_power(self, node: str) -> None:
        self.crash_node(int(node), LosesEverything())
        self.stage.remove(int(node))

    @command(r"start (\d+)")
    def start(self, node: str) -> None:
        self.start_node(int(node))

    @command(r"state")
    def state(self) -> None:
        for line in self.described():
            self.stage.say(line)
