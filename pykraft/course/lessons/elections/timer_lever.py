"""The first picture of notebook 13: a leader dies, and the timers of the other nodes decide when another one leads.

At each move a quorum of pykraft's own nodes is simulated with these timeouts: it elects, its leader is killed, and it
elects again. A follower's timer is its fetch timeout, and each answer of the leader sets it back. A candidate's timer
is the election timeout, and up to as much again by chance.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

from pykraft.course.lessons.elections.elections import Quorum, without_chance
from pykraft.viz import Figure, roles_over_time

BY_CHANCE, EXACTLY = "up to twice as long", "exactly as long"
_LED_MS, _BEFORE_MS, _AFTER_MS = 400, 150, 150
_MOST_MS = 6_000


class Election(NamedTuple):
    """What came of the leader's death."""

    quorum: Quorum
    killed_ms: float
    leader: int | None
    epochs: int
    ms: float
    """Without a leader."""
    timers: dict[int, list[tuple[float, float]]]
    """By node, from shortly before the death on: what its timer has left."""


def draw_election(fetch_timeout_ms: int, election_timeout_ms: int, election_wait: str, run: int) -> Figure:
    """The roles and the timers of three nodes, from shortly before the leader's death until another one leads."""
    found = elected(fetch_timeout_ms, election_timeout_ms, election_wait, run)
    if found.leader is None:
        title = f"No leader within {_MOST_MS / 1000:g} s, and {found.epochs} epochs"
    else:
        attempts = "1 election" if found.epochs == 1 else f"{found.epochs} elections"
        title = f"{found.ms:,.0f} ms without a leader: {attempts}, and node {found.leader} leads"
    spans = found.quorum.spans(since_ms=found.killed_ms - _BEFORE_MS)
    return roles_over_time(spans, marks=found.quorum.marks, timers=found.timers, title=title, note=_note(found))


def elected(fetch_timeout_ms: int, election_timeout_ms: int, election_wait: str, run: int) -> Election:
    with without_chance() if election_wait == EXACTLY else nullcontext():
        quorum = Quorum(run, fetch_timeout_ms=fetch_timeout_ms, election_timeout_ms=election_timeout_ms)
        leader = quorum.run_until_led()
        quorum.run_for(_LED_MS - _BEFORE_MS)
        watch = _Watch(quorum)
        quorum.run_until(watch.until(quorum.now_ms + _BEFORE_MS))
        epoch, killed_ms = quorum.epoch, quorum.now_ms
        quorum.kill(leader)
        watch.forget(leader)
        new: int | None = None
        while new is None and quorum.now_ms < killed_ms + _MOST_MS:
            new = quorum.run_until_led_or(quorum.now_ms + 1, epoch)
            watch.look()
        epochs, ms = quorum.epoch - epoch, quorum.now_ms - killed_ms
        quorum.run_until(watch.until(quorum.now_ms + _AFTER_MS))
        watch.end()
    return Election(quorum, killed_ms, new, epochs, ms, watch.seen)


def _note(found: Election) -> str:
    ends = [(time, node) for node, some in found.timers.items() for time, left in some if left <= 0]
    if not ends:
        return ""
    time, node = min(ends)
    return f"The first timer that runs out is that of node {node}, {time - found.killed_ms:,.0f} ms after the death."


class _Watch:
    """Notes each timer where it is set, and where it ends: put off, or run out."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._deadlines: dict[int, float] = {}
        self.seen: dict[int, list[tuple[float, float]]] = {node: [] for node in quorum.running}
        self.look()

    def look(self) -> None:
        """Take in what has changed."""
        now, timers = self._quorum.now_ms, self._quorum.timers()
        for node, some in self.seen.items():
            before, after = self._deadlines.get(node), timers.get(node)
            if before != after:
                if before is not None:
                    some.append((min(now, before), max(0.0, before - now)))
                if after is not None:
                    some.append((now, max(0.0, after - now)))
        self._deadlines = timers

    def end(self) -> None:
        """Note what each timer has left."""
        for node, deadline in self._deadlines.items():
            self.seen[node].append((self._quorum.now_ms, max(0.0, deadline - self._quorum.now_ms)))

    def forget(self, node: int) -> None:
        """The node is down: so is its timer."""
        self._deadlines.pop(node, None)

    def until(self, ms: float) -> Callable[[], bool]:
        """A condition of `run_until` that looks at each step."""

        def is_over() -> bool:
            self.look()
            return self._quorum.now_ms >= ms

        return is_over
