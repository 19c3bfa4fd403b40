"""What a person may do to a simulated cluster: kill and restart nodes, cut and heal links, handle single messages.

An intervention takes one step of the history, at the time of the step before it. The rest follows from the seed as
before, so a history with interventions is as deterministic as one without: a seed, and what was done in which step.

What is done by hand stays until it is undone by hand: the simulator restarts no node that was killed here and heals no
link that was cut here, and it waits with its demand that the cluster recovers. Faults are called what Jepsen's
glossary of reliability terms calls them: a crash, a network partition, message delay, message omission.
"""

from dataclasses import dataclass

from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.coordination import fire_of_group, group_timers
from pykraft.sim.timers import fire, timers_of
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.network import Undeliverable
from pykraft.sim.world.scheduler import US_PER_MS

Host = int | str
"""A node by its id, a client by its name."""
_LONGEST_DELAY_MS = 600_000


class Impossible(ValueError):  # noqa: N818 (it tells what is the case)
    """What was asked for cannot be done now; the text says why, and what can be done. Nothing has changed."""


@dataclass(frozen=True)
class Kill:
    """A crash: the node ends, and what it wrote to its disk stays."""

    node: int

    def __str__(self) -> str:
        return f"kill node {self.node}"

    def check(self, cluster: SimulatedCluster) -> None:
        machine = _node(cluster, self.node)
        if not machine.is_up and machine.is_kept_down:
            raise Impossible(f"node {self.node} is down already: restart it first")

    def apply(self, cluster: SimulatedCluster) -> None:
        machine = cluster.nodes[self.node]
        machine.is_kept_down = True
        if machine.is_up:
            machine.crash()


@dataclass(frozen=True)
class Restart:
    """A node that is down starts on its disk."""

    node: int

    def __str__(self) -> str:
        return f"restart node {self.node}"

    def check(self, cluster: SimulatedCluster) -> None:
        if _node(cluster, self.node).is_up:
            raise Impossible(f"node {self.node} runs: kill it first")

    def apply(self, cluster: SimulatedCluster) -> None:
        machine = cluster.nodes[self.node]
        machine.is_kept_down = False
        cluster.note("start", {"node": self.node})
        machine.start()


@dataclass(frozen=True)
class Cut:
    """A network partition between two hosts, in both directions."""

    one: Host
    other: Host

    def __str__(self) -> str:
        return f"cut {_name(self.one)} and {_name(self.other)} apart"

    def check(self, cluster: SimulatedCluster) -> None:
        one, other = _pair(cluster, self.one, self.other)
        if cluster.network.is_kept_cut(one, other):
            raise Impossible(f"{_name(self.one)} and {_name(self.other)} are cut apart already: heal them first")

    def apply(self, cluster: SimulatedCluster) -> None:
        links = _both_ways(cluster, self.one, self.other)
        cluster.note("cut", {"links": links})
        for source, target in links:
            cluster.network.keep_cut(source, target)


@dataclass(frozen=True)
class Heal:
    """Two hosts reach each other again; what was held back between them arrives."""

    one: Host
    other: Host

    def __str__(self) -> str:
        return f"heal {_name(self.one)} and {_name(self.other)}"

    def check(self, cluster: SimulatedCluster) -> None:
        links = _both_ways(cluster, self.one, self.other)
        if not any(cluster.network.is_cut(source, target) for source, target in links):
            raise Impossible(f"{_name(self.one)} and {_name(self.other)} are not cut apart: there is nothing to heal")

    def apply(self, cluster: SimulatedCluster) -> None:
        links = _both_ways(cluster, self.one, self.other)
        cluster.note("mend", {"links": links})
        for source, target in links:
            cluster.network.release(source, target)


@dataclass(frozen=True)
class Deliver:
    """A message arrives now; so does what was sent before it on its connection."""

    message: int
    label: str = ""

    def __str__(self) -> str:
        return f"deliver {self.label or f'message {self.message}'}"

    def check(self, cluster: SimulatedCluster) -> None:
        _find(cluster, self.message)

    def apply(self, cluster: SimulatedCluster) -> None:
        cluster.network.deliver(self.message)


@dataclass(frozen=True)
class Delay:
    """Message delay: a message arrives later, and so does what was sent after it on its connection."""

    message: int
    ms: int
    label: str = ""

    def __str__(self) -> str:
        return f"delay {self.label or f'message {self.message}'} by {self.ms:,} ms"

    def check(self, cluster: SimulatedCluster) -> None:
        if not 1 <= self.ms <= _LONGEST_DELAY_MS:
            raise Impossible(f"a delay of {self.ms} ms: it is 1 ms to {_LONGEST_DELAY_MS:,} ms")
        _find(cluster, self.message)

    def apply(self, cluster: SimulatedCluster) -> None:
        cluster.network.delay(self.message, self.ms * US_PER_MS)


@dataclass(frozen=True)
class Drop:
    """Message omission. A TCP connection cannot lose one message and deliver the next, so all that is under way on this
    connection is lost, and its two ends find out by their timeouts."""

    message: int
    label: str = ""

    def __str__(self) -> str:
        return f"drop {self.label or f'message {self.message}'}"

    def check(self, cluster: SimulatedCluster) -> None:
        _find(cluster, self.message, also_held_back=True)

    def apply(self, cluster: SimulatedCluster) -> None:
        cluster.network.drop(self.message)


@dataclass(frozen=True)
class Duplicate:
    """A request arrives once more, later, on a connection whose sender is gone: a ghost (see `sim.world.network`)."""

    message: int
    ms: int
    label: str = ""

    def __str__(self) -> str:
        return f"duplicate {self.label or f'message {self.message}'}, {self.ms:,} ms later"

    def check(self, cluster: SimulatedCluster) -> None:
        if not 1 <= self.ms <= _LONGEST_DELAY_MS:
            raise Impossible(f"a duplicate after {self.ms} ms: it is 1 ms to {_LONGEST_DELAY_MS:,} ms")
        try:
            cluster.network.check_duplicate(self.message)
        except Undeliverable as reason:
            raise Impossible(str(reason)) from None

    def apply(self, cluster: SimulatedCluster) -> None:
        cluster.network.duplicate(self.message, self.ms * US_PER_MS)


@dataclass(frozen=True)
class Fire:
    """A timer runs out now: `fetch` or `election`, by which a node seeks votes; `session`, by which the active
    controller gives a broker up; or one of a group (`sim.coordination`), which may be a client's."""

    host: Host
    timer: str

    def __str__(self) -> str:
        return f"let the {self.timer} timer of {_name(self.host)} run out"

    def check(self, cluster: SimulatedCluster) -> None:
        known = [each.kind for each in group_timers(cluster) if each.host == self.host]
        if isinstance(self.host, int):
            known += [each.kind for each in timers_of(cluster.nodes, _node(cluster, self.host).node_id)]
        if self.timer not in known:
            has = ", ".join(known) or "none"
            raise Impossible(f"{_name(self.host)} has no {self.timer} timer now; it has {has}")

    def apply(self, cluster: SimulatedCluster) -> None:
        for timer, place in group_timers(cluster).items():
            if timer[:2] == (self.host, self.timer):
                return fire_of_group(cluster, place)
        assert isinstance(self.host, int)
        return fire(cluster.nodes, self.host, self.timer, cluster.scheduler.now)


def _node(cluster: SimulatedCluster, node_id: int) -> SimulatedNode:
    if node_id not in cluster.nodes:
        raise Impossible(f"there is no node {node_id}; there are {', '.join(map(str, cluster.nodes))}")
    return cluster.nodes[node_id]


def _find(cluster: SimulatedCluster, message: int, also_held_back: bool = False) -> None:
    try:
        cluster.network.check_in_flight(message, also_held_back)
    except Undeliverable as reason:
        raise Impossible(str(reason)) from None


def _both_ways(cluster: SimulatedCluster, one: Host, other: Host) -> list[tuple[str, str]]:
    first, second = _pair(cluster, one, other)
    return [(first, second), (second, first)]


def _pair(cluster: SimulatedCluster, one: Host, other: Host) -> tuple[str, str]:
    if one == other:
        raise Impossible(f"{_name(one)} cannot be cut off from itself: name two hosts")
    return _host(cluster, one), _host(cluster, other)


def _host(cluster: SimulatedCluster, host: Host) -> str:
    if isinstance(host, int):
        return _node(cluster, host).name
    if not cluster.network.knows(host):
        raise Impossible(f"there is no client {host!r} that has ever connected to a node")
    return host


def _name(host: Host) -> str:
    return f"node {host}" if isinstance(host, int) else host
