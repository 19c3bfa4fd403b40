"""A simulated quorum of three controllers, for notebook 13 and lab 13: it elects, is cut apart, heals, and is counted.

::

    quorum = Quorum(seed=7)           three nodes on a virtual clock, not started yet
    quorum.run_until_led()            until one of them leads, and a majority follows
    quorum.kill(quorum.leader)        a crash; `cut_off` and `heal` cut one node's links and join them again
    quorum.spans()                    who had which role in which epoch, when: `pykraft.viz.roles_over_time` draws it

The nodes are pykraft's own, brokers and controllers at once, with the timeouts of a lesson. Nothing fails by itself.
Two seeds differ by chance alone: when a node starts, how long a message takes, how long a node waits.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

from pykraft.common.core import FOREVER
from pykraft.common.trace import TraceEvent
from pykraft.raft.quorum_state import Follower, Leader, Nominee, Prospective, QuorumState
from pykraft.records.batch import RecordBatch
from pykraft.sim.cluster import SIMULATOR, SimulatedCluster
from pykraft.sim.interventions import Cut, Heal, Kill, Restart
from pykraft.sim.trouble.knobs import Knobs, calm, draw
from pykraft.timeouts import LESSON
from pykraft.viz.measured.role_chart import Bar

FETCH_TIMEOUT_MS, ELECTION_TIMEOUT_MS = 500, 300
"""`controller.quorum.fetch.timeout.ms` and `controller.quorum.election.timeout.ms`, as in a lesson."""
_SHAPE_SEED, _SEEDS = 2, 100
_LIMIT_MS = 60_000


def quorum_knobs(
    nodes: int = 3,
    fetch_timeout_ms: int = FETCH_TIMEOUT_MS,
    election_timeout_ms: int = ELECTION_TIMEOUT_MS,
    idle_ms: int = 100,
    controllers: int = 0,
) -> Knobs:
    """So many nodes, one small topic, no clients, no faults. With `controllers` these are the voters, in processes of
    their own, and the nodes are brokers alone."""
    properties = {
        **LESSON,
        "controller.quorum.fetch.timeout.ms": fetch_timeout_ms,
        "controller.quorum.election.timeout.ms": election_timeout_ms,
        "metadata.max.idle.interval.ms": idle_ms,
        "internal.metadata.log.segment.bytes": 1 << 20,
    }
    none = replace(draw(_SHAPE_SEED), brokers=nodes, controllers=controllers, partitions=1)
    none = replace(none, groups=(), producers=(), consumers=())
    small = replace(none, has_plain_producer=False, transactions=None, admin_every_ms=0, properties=properties)
    return replace(calm(small), storm_from_ms=0, storm_until_ms=_LIMIT_MS)


class Quorum:
    """Some controllers of one seed."""

    def __init__(self, seed: int, nodes: int = 3, **timeouts: int) -> None:
        """`timeouts` are the other words of `quorum_knobs`."""
        self.seed = seed
        self._cluster = SimulatedCluster(seed, quorum_knobs(nodes, **timeouts))
        self._cluster.begin()
        self.marks: dict[str, float] = {}
        """What was done to it, and when."""

    @property
    def now_ms(self) -> float:
        return self._cluster.scheduler.now_us / 1000

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Go on until it is so; TimeoutError after a minute of the virtual clock."""
        while not condition():
            if self.now_ms > _LIMIT_MS:
                raise TimeoutError(f"seed {self.seed}: not within {_LIMIT_MS:,} ms")
            self._cluster.step()

    def run_for(self, ms: float) -> None:
        """Go on for this long."""
        until = self.now_ms + ms
        self.run_until(lambda: self.now_ms >= until)

    def run_until_led(self, after_epoch: int = 0) -> int:
        """Go on until a node leads an epoch after this one, and all that reach it follow; the node."""
        self.run_until(lambda: self._is_led(after_epoch))
        assert self.leader is not None
        return self.leader

    def run_until_led_or(self, until_ms: float, after_epoch: int) -> int | None:
        """The same until this moment at most; None if no node leads by then."""
        self.run_until(lambda: self._is_led(after_epoch) or self.now_ms >= until_ms)
        return self.leader if self._is_led(after_epoch) else None

    def _is_led(self, after_epoch: int) -> bool:
        leader = self.leader
        if leader is None or self.epoch <= after_epoch:
            return False
        others = [node for node in self.running if node != leader and not self._is_cut(node, leader)]
        return all(self._quorum(node).role.leader_id == leader for node in others)

    # --- what is so now -----------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[int]:
        return [number for number, machine in self._cluster.nodes.items() if machine.node is not None]

    def _quorum(self, node: int) -> QuorumState:
        running = self._cluster.nodes[node].node
        assert running is not None
        return running.raft.replica.quorum

    def _is_cut(self, one: int, other: int) -> bool:
        return (f"node-{one}", f"node-{other}") in self._cluster.network.cut_links

    @property
    def epoch(self) -> int:
        """The highest that a running node knows."""
        return max((self._quorum(node).epoch for node in self.running), default=0)

    @property
    def leaders(self) -> dict[int, int]:
        """Every node that leads, or thinks so, with its epoch."""
        return {node: self._quorum(node).epoch for node in self.running if self._quorum(node).is_leader}

    @property
    def leader(self) -> int | None:
        """The one in the highest epoch, if it leads."""
        return next((node for node, epoch in self.leaders.items() if epoch == self.epoch), None)

    def timers(self) -> dict[int, float]:
        """By node, when its timer runs out: a follower's for the next answer, another node's for the next attempt. A
        leader has none of these."""
        lead_ms = self._cluster.scheduler.now_us // 1000 - self._cluster.scheduler.now
        found = {}
        for node in self.running:
            role = self._quorum(node).role
            deadline = (
                role.fetch_deadline if isinstance(role, Follower) else getattr(role, "election_deadline", FOREVER)
            )
            if deadline < FOREVER:
                found[node] = deadline + lead_ms
        return found

    def followers(self) -> list[int]:
        return [node for node in self.running if node != self.leader]

    def high_watermark(self, node: int) -> int:
        """Up to where this node knows its metadata log to be committed."""
        running = self._cluster.nodes[node].node
        assert running is not None
        return running.raft.high_watermark

    def log_end(self, node: int) -> tuple[int, int]:
        """The epoch of a node's last record, and its log end offset: how good its log is, in an election."""
        running = self._cluster.nodes[node].node
        assert running is not None
        offset, epoch = running.raft.replica.log.end
        return epoch, offset

    def committed(self, node: int) -> list[RecordBatch]:
        """What a node has of the metadata log, up to its high watermark."""
        running = self._cluster.nodes[node].node
        assert running is not None
        return running.raft.replica.log.batches_between(0, running.raft.high_watermark)

    # --- what is done to it -------------------------------------------------------------------------------------------

    def kill(self, node: int) -> None:
        """A crash: the node ends."""
        self._mark(f"node {node} is killed")
        self._cluster.intervene(Kill(node))

    def restart(self, node: int) -> None:
        self._mark(f"node {node} starts")
        self._cluster.intervene(Restart(node))

    def cut_off(self, node: int) -> None:
        """Cut all links between this node and the others."""
        self._mark(f"node {node} is cut off")
        for other in self._cluster.nodes:
            if other != node:
                self._cluster.intervene(Cut(node, other))

    def heal(self) -> None:
        """Join all links again."""
        self._mark("the network heals")
        for one in self._cluster.nodes:
            for other in self._cluster.nodes:
                if one < other and self._is_cut(one, other):
                    self._cluster.intervene(Heal(one, other))

    def votes(self) -> dict[int, frozenset[int]]:
        """For each node that leads, or thinks so, the voters that elected it."""
        roles = {node: self._quorum(node).role for node in self.leaders}
        return {node: role.granted for node, role in roles.items() if isinstance(role, Leader)}

    def _mark(self, words: str) -> None:
        self.marks[words] = self.now_ms

    # --- what has been ------------------------------------------------------------------------------------------------

    def spans(self, since_ms: float = 0.0) -> list[Bar]:
        """Every role that each node has had since then."""
        return [
            span._replace(start_ms=max(span.start_ms, since_ms))
            for span in spans_of(self._cluster.trace, self.now_ms)
            if span.end_ms > since_ms
        ]

    def elections(self) -> dict[int, set[int]]:
        """For each epoch, the nodes that led it."""
        found: dict[int, set[int]] = {}
        for event in self._cluster.trace:
            if event.name == "role" and event.fields["role"] == "candidate":
                found.setdefault(event.fields["epoch"], set())
            if event.name == "role" and event.fields["role"] == "leader":
                found.setdefault(event.fields["epoch"], set()).add(event.node)
        return found


def spans_of(trace: Iterable[TraceEvent], end_ms: float) -> list[Bar]:
    """The roles in a trace. A node that is down has none."""
    spans: list[Bar] = []
    now: dict[int, Bar] = {}

    def close(node: int, time_ms: float) -> None:
        if node in now:
            span = now.pop(node)
            if time_ms > span.start_ms:
                spans.append(span._replace(end_ms=time_ms))

    for event in trace:
        if event.node == SIMULATOR and event.name == "ended":
            close(event.fields["node"], event.now)
        elif event.name == "role":
            role, epoch = event.fields["role"], event.fields["epoch"]
            current = now.get(event.node)
            if current is None or (current.role, current.epoch) != (role, epoch):
                close(event.node, event.now)
                now[event.node] = Bar(event.node, role, epoch, event.now, end_ms)
    for node in list(now):
        close(node, end_ms)
    return sorted(spans, key=lambda span: (span.node, span.start_ms))


# --- other rules ------------------------------------------------------------------------------------------------------


@contextmanager
def without_chance() -> Iterator[None]:
    """Every node waits exactly the election timeout, and no longer by chance."""

    def deadline(quorum: QuorumState, now: int) -> int:
        return now + quorum._election_timeout_ms if quorum.is_voter else FOREVER

    with patch.object(QuorumState, "_election_deadline", deadline):
        yield


@contextmanager
def without_pre_vote() -> Iterator[None]:
    """A node that misses its leader raises the epoch at once, as before KIP-996, without asking the other voters
    first."""
    granted = QuorumState.vote_is_granted

    def vote_is_granted(quorum: QuorumState, nominee: Nominee) -> bool:
        return isinstance(nominee, Prospective) or granted(quorum, nominee)

    with patch.object(QuorumState, "vote_is_granted", vote_is_granted):
        yield


# --- counted over seeds -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failover:
    """What came of a leader's death: how many epochs it took, and how many milliseconds."""

    seed: int
    epochs: int
    ms: float
    quorum: Quorum


def failover(seed: int, nodes: int = 3) -> Failover:
    """Elect a leader, let it lead for a while, and kill it."""
    quorum = Quorum(seed, nodes)
    leader = quorum.run_until_led()
    quorum.run_for(400)
    epoch, killed_ms = quorum.epoch, quorum.now_ms
    quorum.kill(leader)
    quorum.run_until_led(after_epoch=epoch)
    found = Failover(seed, quorum.epoch - epoch, quorum.now_ms - killed_ms, quorum)
    quorum.run_for(200)
    return found


def failovers(count: int) -> list[Failover]:
    """The failovers of the seeds 1 to `count`."""
    return [failover(seed) for seed in range(1, count + 1)]


def seed_of_two_leaders() -> int:
    """The first seed in which a leader that was cut off still leads when the others have elected another one."""
    for seed in range(1, _SEEDS):
        quorum = Quorum(seed)
        leader = quorum.run_until_led()
        quorum.run_for(400)
        quorum.cut_off(leader)
        quorum.run_until_led(after_epoch=quorum.epoch)
        if len(quorum.leaders) == 2:
            return seed
    raise RuntimeError("in no seed two nodes lead at once")


def returning_follower(seed: int) -> Quorum:
    """Cut a follower off for two seconds, and let it come back."""
    quorum = Quorum(seed)
    quorum.run_until_led()
    quorum.run_for(400)
    quorum.cut_off(quorum.followers()[0])
    quorum.run_for(2_000)
    quorum.heal()
    quorum.run_for(1_200)
    return quorum


def behind_and_complete(seed: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Cut a follower off while the log grows, and join it again in the moment in which the leader is killed.

    Returns how good the logs of the two followers were then, the incomplete one first, and which one was elected."""
    quorum = Quorum(seed)
    leader = quorum.run_until_led()
    quorum.run_for(400)
    late, other = quorum.followers()
    quorum.cut_off(late)
    quorum.run_for(400)
    quorum.kill(leader)
    quorum.heal()
    logs = {node: quorum.log_end(node) for node in (late, other)}
    return logs, quorum.run_until_led(after_epoch=quorum.epoch)
