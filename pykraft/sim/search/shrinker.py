"""Makes a failing history smaller: leaves out what it can, as long as the same law is broken.

First the end of the storm, then all trouble at once, whole kinds of it, single faults, clients, and what befalls single
messages. A part that is not needed goes; what is left is tried again, until nothing more can be left out. What goes is
named by `Omissions`, so the smaller history is a line as well. Single faults and messages are left out in halves first,
then in quarters, and so on (Zeller and Hildebrandt's delta debugging).

A history from which something is left out may fail later than the whole one, but not much later: a run that goes on for
longer is given up, which saves most of the time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.report import SimulationFailed
from pykraft.sim.trouble.knobs import OF_MESSAGES, WEATHER, Knobs
from pykraft.sim.trouble.omissions import Omissions
from pykraft.sim.world.mishaps import Mishap

_MORE_STEPS, _TIMES = 1_000, 1.5
"""So many steps more than the whole history has, and so many times as many, a smaller one may take."""
_SHORTEST_MS = 50
_MOST_NAMED = 3
"""Of more messages that are left out at once only the number is said."""
_RECOVERY = "Recovery"
_NEEDED_TO_RECOVER = ("admin", "maker-", "producer-", "teller-", "copier-", "classic-member-", "consumer-member-")
"""Clients whose absence may break that law in a sound cluster: no topic is made, no record is written."""
T = TypeVar("T")


class Failure(NamedTuple):
    """How a history fails, and what was in it by then."""

    law: str
    step: int
    now_ms: int
    faults: tuple[tuple[int, str], ...]
    """Those that came: their numbers and kinds."""
    kinds: frozenset[str]
    """Of those faults, and of the weather."""
    clients: tuple[str, ...]
    messages: tuple[Mishap, ...] = ()
    """What befell messages, in the order of time."""


Run = Callable[[Omissions], Failure | None]


class Shrinker:
    """One failing history and what has been left out of it. Each pass yields what it has left out."""

    def __init__(self, run: Run, whole: Omissions) -> None:
        """`run` says how a history fails, None if it does not; `whole` is what is left out from the beginning.
        ValueError if no law is broken."""
        found = run(whole)
        if found is None:
            raise ValueError("no law is broken in this history: there is nothing to shrink")
        self._run = run
        self.omitted = whole
        self.failure = found
        self.tries = 1
        self._in_vain: set[Omissions] = set()
        """What has been left out without breaking the law: the same again would not, either."""

    def shrink(self) -> Iterator[str]:
        """All passes, until one round changes nothing; in words, what goes."""
        before = None
        while before != self.omitted:
            before = self.omitted
            yield from self._shorten()
            yield from self._leave_out_kinds()
            yield from self._leave_out_faults()
            yield from self._leave_out_clients()
            yield from self._leave_out_messages()

    def _fails_with(self, omitted: Omissions) -> bool:
        """Take this over if the same law is broken."""
        if omitted in self._in_vain:
            return False
        self.tries += 1
        found = self._run(omitted)
        if found is None or found.law != self.failure.law:
            self._in_vain.add(omitted)
            return False
        if omitted.messages is not None:  # a message that was never sent is not needed
            omitted = replace(omitted, messages=frozenset(found.messages))
        self.omitted, self.failure = omitted, found
        return True

    def _shorten(self) -> Iterator[str]:
        """Let the storm end as early as possible: in the middle of what is known to suffice, and again."""
        enough = min(self.failure.now_ms + 1, self.omitted.until_ms or self.failure.now_ms + 1)
        if self.omitted.until_ms is None and not self._fails_with(replace(self.omitted, until_ms=enough)):
            return
        too_short, until_ms = 0, enough
        while until_ms - too_short > _SHORTEST_MS:
            middle = (too_short + until_ms) // 2
            if self._fails_with(replace(self.omitted, until_ms=middle)):
                until_ms = middle
            else:
                too_short = middle
        if until_ms < enough or enough == self.failure.now_ms + 1:
            yield f"the storm ends after {until_ms:,} ms"

    def _leave_out_kinds(self) -> Iterator[str]:
        left = self.failure.kinds - self.omitted.kinds
        for kinds in (sorted(left), *([kind] for kind in sorted(left) if len(left) > 1)):
            more = left.intersection(kinds) - self.omitted.kinds
            if more and self._fails_with(replace(self.omitted, kinds=self.omitted.kinds | more)):
                yield ", ".join(sorted(more))

    def _leave_out_faults(self) -> Iterator[str]:
        def fails_without(gone: Sequence[int]) -> bool:
            return self._fails_with(replace(self.omitted, faults=self.omitted.faults | set(gone)))

        kinds = dict(self.failure.faults)
        for gone in left_out(list(kinds), fails_without):
            yield "fault " + ", ".join(f"{number} ({kinds[number]})" for number in gone)

    def _leave_out_clients(self) -> Iterator[str]:
        for name in self.failure.clients:
            if name not in self.failure.clients:
                continue  # it has gone with its group
            if self.failure.law == _RECOVERY and name.startswith(_NEEDED_TO_RECOVER):
                continue
            if self._fails_with(replace(self.omitted, clients=self.omitted.clients | {name})):
                yield name

    def _leave_out_messages(self) -> Iterator[str]:
        """Of what has befallen messages: that of all of them, then that of single ones."""

        def fails_without(gone: Sequence[Mishap]) -> bool:
            came = frozenset(self.failure.messages)  # without those before, some of these were not sent at all
            return came.isdisjoint(gone) or self._fails_with(replace(self.omitted, messages=came.difference(gone)))

        for gone in left_out(self.failure.messages, fails_without):
            yield "; ".join(map(str, gone)) if len(gone) <= _MOST_NAMED else f"what befalls {len(gone)} messages"


def left_out(items: Sequence[T], fails_without: Callable[[Sequence[T]], bool]) -> Iterator[Sequence[T]]:
    """Parts of these that can go: large ones first, then smaller ones. `fails_without` says whether the history still
    fails when these go too, and remembers it if so."""
    left, size = list(items), len(items)
    while size:
        at = 0
        while at < len(left):
            part = left[at : at + size]
            if fails_without(part):
                del left[at : at + size]
                yield part
            else:
                at += size
        size //= 2


def runner(seed: int, knobs: Knobs) -> Run:
    """Runs the histories of a seed. The first one must be the whole: it says how long the others may be."""
    longest: list[int] = []

    def run(omitted: Omissions) -> Failure | None:
        cluster = SimulatedCluster(seed, replace(knobs, omitted=omitted))
        cluster.begin()
        try:
            while not cluster.is_settled and (not longest or cluster.scheduler.steps < longest[0]):
                cluster.step()
        except SimulationFailed as failure:
            longest.append(int(failure.step * _TIMES) + _MORE_STEPS)
            faults = [(number, strike.kind) for number, strike in enumerate(cluster.faults.strikes, 1) if strike.kind]
            clients = cluster.clients_that_began
            weather = {name for name in WEATHER if getattr(cluster.knobs, name)}
            if omitted.messages is not None:
                weather -= OF_MESSAGES
            kinds = weather.union(kind for _, kind in faults)
            messages = tuple(dict.fromkeys(cluster.network.mishaps.came))
            now_ms = cluster.scheduler.now
            return Failure(failure.law, failure.step, now_ms, tuple(faults), frozenset(kinds), clients, messages)
        return None

    return run
