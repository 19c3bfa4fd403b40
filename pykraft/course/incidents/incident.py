"""What an incident is: a world in which something has gone wrong, a pager's text, and a judge.

An `Incident` builds its world with a prehistory, and then the page goes out. From that moment its counters run, once a
second, and the judge looks. It ends

    solved     all is right, and stayed right through the second blow that every repair gets
    lost       what no command brings back: records are gone, or were taken for new ones twice
    handed on  the time is over: a colleague takes the pager

The reader's deeds are lines in a terminal, each at its moment after the page. A `Shift` keeps them, so they can be done
again: `Shift.link` is the whole history in one line of text.
"""

import base64
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from pykraft.common.version import VERSION
from pykraft.course.incidents.drawing import Card, Row
from pykraft.course.incidents.terminal import PropertiesFile, Terminal, Verb
from pykraft.course.incidents.world import World

OPEN, SOLVED, LOST, HANDED_ON = "open", "solved", "lost", "handed on"
LIMIT_S = 1_800
_LOOK_MS = 1_000
_SEEN_S = 20
"""For so long the loss is seen to grow before the incident is over."""
_MOST_LINES = 400
_LONGEST_LINK = 40_000
_LONGEST_WAIT_S = 120
_NAME = "incident"

Script = Sequence[tuple[float, str]]
"""Lines, each with its second after the page."""


class Counter(NamedTuple):
    """One number that runs while the reader works."""

    label: str
    value: int
    harm: bool = False
    """It counts what is lost, late or stuck."""
    unit: str = ""
    usual: int = 0
    """This much is there on a good day, too."""

    @property
    def warns(self) -> bool:
        return self.harm and self.value > self.usual


class WrongCure(NamedTuple):
    """A plausible repair that makes it worse."""

    name: str
    script: Script
    about: str
    """Why, in one sentence."""


class Incident(ABC):
    """One failure. A subclass builds the world and judges it."""

    NUMBER: ClassVar[int]
    TITLE: ClassVar[str]
    PAGER: ClassVar[str]
    """What the pager says."""
    TOPICS: ClassVar[tuple[str, ...]]
    """What the board shows."""
    CURE: ClassVar[Script]
    WRONG: ClassVar[tuple[WrongCure, ...]]
    STORY: ClassVar[tuple[str, ...]]
    """The debrief: what happened, in paragraphs."""
    SHOWN_BY: ClassVar[tuple[tuple[str, str], ...]]
    """The commands that show it, and what each shows."""
    LOSS: ClassVar[str] = "records are gone"
    """What has happened when it is lost."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = self.build()
        self.verbs = {verb.usage.split()[0]: verb for verb in (*by_hand(self.world), *self.own_verbs())}
        self.terminal = Terminal(self.world, self.verbs, self.files())
        self.state = OPEN
        self.history: list[tuple[int, tuple[Counter, ...]]] = []
        """Once a second: the second, and the counters."""
        self.news: list[tuple[int, str]] = []
        """What befell the cluster, and when, as the terminal reports it."""
        self._lost_s = 0
        self.prepare()
        self.paged_ms = self.world.now_ms
        self._look()

    # --- for a subclass -----------------------------------------------------------------------------------------------

    @abstractmethod
    def build(self) -> World: ...

    @abstractmethod
    def prepare(self) -> None:
        """The prehistory: when it returns the page goes out."""

    def own_verbs(self) -> Sequence[Verb]:
        return ()

    def files(self) -> Mapping[str, PropertiesFile]:
        """The properties files that the terminal has."""
        return {}

    @abstractmethod
    def counters(self) -> tuple[Counter, ...]: ...

    @abstractmethod
    def cards(self) -> list[Card]:
        """The board."""

    @abstractmethod
    def missing(self) -> str | None:
        """What is not right yet; None if everything is."""

    @abstractmethod
    def is_lost(self) -> bool:
        """Whether records are gone for good."""

    def second(self) -> None:  # noqa: B027 (most incidents have no such blow)
        """Called once a second before the judge looks: for blows that depend on what the reader does."""

    # --- for all ------------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Since the page."""
        return (self.world.now_ms - self.paged_ms) / 1000

    def report(self, text: str) -> None:
        """Something befell the cluster that a person on call would hear of."""
        self.news.append((self.world.now_ms, text))

    def _look(self) -> None:
        if self.state == OPEN:
            self.second()
            self._lost_s = self._lost_s + 1 if self.is_lost() else 0
            if self._lost_s > _SEEN_S:
                self.state = LOST
            elif self._lost_s == 0 and self.missing() is None:
                self.state = SOLVED
            elif self.seconds >= LIMIT_S:
                self.state = HANDED_ON
            self.history.append((round(self.seconds), self.counters()))
            self.world.after(_LOOK_MS, self._look)


def in_time_of_page(lines: Sequence[tuple[int, str]], paged_ms: int) -> Iterator[str]:
    """The lines of a program's log, each with its minute and second after the page."""
    for ms, text in lines:
        tenths = abs(ms - paged_ms) // 100
        sign = "-" if ms < paged_ms else ""
        yield f"{f'{sign}{tenths // 600}:{tenths % 600 / 10:04.1f}':>8}  {text}"


def by_hand(world: World) -> list[Verb]:
    """What an operator can do in every incident."""

    def node_of(words: list[str]) -> int:
        if len(words) != 1 or not words[0].isdigit() or int(words[0]) not in world.brokers:
            raise ValueError(f"say which broker: {', '.join(map(str, world.brokers))}")
        return int(words[0])

    def restart(words: list[str]) -> str:
        node = node_of(words)
        was_up = world.is_up(node)
        world.restart(node)
        return f"broker {node} {'stopped in order, and' if was_up else 'was down. It'} is starting"

    def wait(words: list[str]) -> str:
        if len(words) != 1 or not words[0].isdigit() or not 1 <= int(words[0]) <= _LONGEST_WAIT_S:
            raise ValueError(f"say how many seconds, 1 to {_LONGEST_WAIT_S}")
        world.run_to(world.now_ms + 1000 * int(words[0]))
        return ""

    return [
        Verb("restart-broker N", "stop a broker in order and start it; one that is down starts", restart),
        Verb("wait SECONDS", "let time pass", wait),
    ]


def replica_cards(world: World, topic: str, partitions: int) -> list[Card]:
    """The brokers, each with its replicas of a topic: how much of the leader's log each has."""
    leaders = {number: world.leader(topic, number) for number in range(partitions)}
    ends = {number: leader.log.log_end_offset for number, leader in leaders.items() if leader is not None}
    found = []
    for node in world.brokers:
        rows = []
        for number in range(partitions):
            replica = world.replicas(topic, number).get(node)
            if replica is None:
                continue
            end, longest = replica.log.log_end_offset, ends.get(number, replica.log.log_end_offset)
            is_in_sync = node in world.in_sync(topic, number)
            role = "◆ leads" if replica.is_leader else "● in sync" if is_in_sync else "not in sync"
            share = end / longest if longest else 1.0
            rows.append(Row(f"{topic}-{number}  {role}", share, f"end {end:,}", not is_in_sync))
        is_up = world.is_up(node)
        found.append(Card(f"broker {node}", "runs" if is_up else "down", rows, is_up))
    return found


class Shift(NamedTuple):
    """A person on call, with one incident."""

    incident: Incident
    log: list[tuple[int, str]]
    """The lines that were typed, each at its millisecond after the page."""
    said: list[tuple[int, str, str]]
    """The same with what the terminal answered."""

    @classmethod
    def begin(cls, make: Callable[[int], Incident], seed: int) -> "Shift":
        return cls(make(seed), [], [])

    @property
    def is_over(self) -> bool:
        return self.incident.state != OPEN

    def advance(self, ms: int) -> None:
        """Let the world go on by so much, or until the incident is over."""
        until = self.incident.world.now_ms + ms
        while not self.is_over and self.incident.world.now_ms < until:
            self.incident.world.run_to(min(until, self.incident.world.now_ms + _LOOK_MS))

    def enter(self, line: str) -> str:
        """Type a line; what the terminal says. An incident that is over takes no more."""
        if self.is_over:
            return "the incident is over"
        if len(self.log) >= _MOST_LINES:
            return f"{_MOST_LINES} lines are enough for one incident"
        self.log.append((self.incident.world.now_ms - self.incident.paged_ms, line))
        answer = self.incident.terminal.run(line)
        self.said.append((*self.log[-1], answer))
        return answer

    def play(self, script: Script) -> None:
        """Type lines at their seconds, or as soon after them as the line before is done."""
        for at_s, line in script:
            begun_ms = self.incident.world.now_ms - self.incident.paged_ms
            self.advance(max(0, round(at_s * 1000) - begun_ms))
            self.enter(line)

    def run_on(self, seconds: float = LIMIT_S) -> None:
        """Let time pass until the incident is over, or for so long."""
        self.advance(round(seconds * 1000))

    @property
    def link(self) -> str:
        """The history in one line: version, number, seed and what was typed when."""
        packed = zlib.compress(json.dumps([self._now_ms, self.log], separators=(",", ":")).encode(), 9)
        text = base64.urlsafe_b64encode(packed).decode().rstrip("=")
        return f"pykraft/{VERSION}/{_NAME}/{self.incident.NUMBER}/{self.incident.seed}/{text}"

    @property
    def _now_ms(self) -> int:
        return self.incident.world.now_ms - self.incident.paged_ms


class Linked(NamedTuple):
    """What a link says."""

    number: int
    seed: int
    until_ms: int
    log: list[tuple[int, str]]


def read_link(link: str) -> Linked:
    """ValueError: it is no link of an incident, or of another version."""
    parts = link.strip().split("/")
    if len(parts) != 6 or parts[0] != "pykraft" or parts[2] != _NAME or len(link) > _LONGEST_LINK:
        raise ValueError("this is no link of an incident: one is pykraft/VERSION/incident/NUMBER/SEED/LINES")
    if parts[1] != VERSION:
        raise ValueError(f"the link is of pykraft {parts[1]}, and this is {VERSION}: its history is another one")
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(base64.urlsafe_b64decode(parts[5] + "=" * (-len(parts[5]) % 4)), 10 * _LONGEST_LINK)
        until_ms, log = json.loads(text)
        lines = [(int(at_ms), str(line)) for at_ms, line in log]
        found = Linked(int(parts[3]), int(parts[4]), int(until_ms), lines)
    except (ValueError, TypeError, zlib.error):
        raise ValueError("this link of an incident is damaged: copy it whole") from None
    if not 0 <= found.until_ms <= (LIMIT_S + 600) * 1000 or len(lines) > _MOST_LINES:
        raise ValueError("this link of an incident is longer than any shift")
    return found


def replayed(linked: Linked, make: Callable[[int], Incident]) -> Shift:
    """Do again what a link says, up to the moment of the link."""
    shift = Shift.begin(make, linked.seed)
    shift.play([(at_ms / 1000, line) for at_ms, line in linked.log])
    shift.advance(max(0, linked.until_ms - (shift.incident.world.now_ms - shift.incident.paged_ms)))
    return shift
