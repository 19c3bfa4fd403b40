"""Histories with a failure in the middle of them, each under a name: a player opens on one, and a link names it.

A scene is a cluster, its clients, and a plan: what befalls the cluster at which virtual time. The plan comes in every
branch, whatever a reader has done before. Messages take 25 to 60 ms, as between data centres of a continent, so that
they can be seen on their way. Nothing else is different from any other simulated history.

    first-loss     producers send with acks=1 and with acks=all; the leader is cut off, and comes back
    all-in-sync    the same with acks=all alone
    new-controller the active controller dies, and the others elect one of them
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.trouble.knobs import Knobs, calm, draw
from pykraft.sim.workloads.workload import TOPIC
from pykraft.sim.world.network import Weather
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.story.checkpoints import Plan
from pykraft.story.story import Story
from pykraft.story.views import cluster_view

S = TypeVar("S", bound=Story)
_LATENCY_US = (25_000, 60_000)
_NEVER_MS = 600_000
_PRODUCER: Mapping[str, object] = {
    "batch.size": 1,
    "linger.ms": 0,
    "compression.type": "none",
    "max.in.flight.requests.per.connection": 1,
    "request.timeout.ms": 600,
    "delivery.timeout.ms": 60_000,
    "retry.backoff.ms": 100,
    "metadata.max.age.ms": 300_000,
}
_SAFE = {**_PRODUCER, "metadata.max.age.ms": 800}
"""It waits for all in-sync replicas, and soon asks again who leads."""
_PROPERTIES = {
    "broker.session.timeout.ms": 1_000,
    "broker.heartbeat.interval.ms": 250,
    "controller.quorum.fetch.timeout.ms": 800,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.election.backoff.max.ms": 100,
    "controller.quorum.request.timeout.ms": 600,
    "controller.quorum.append.linger.ms": 0,
    "metadata.max.idle.interval.ms": 500,
    "replica.lag.time.max.ms": 1_500,
    "replica.fetch.wait.max.ms": 200,
    "replica.fetch.backoff.ms": 100,
    "replica.socket.timeout.ms": 1_000,
    "controller.socket.timeout.ms": 1_000,
}


class Outcome(NamedTuple):
    """An act that a page without Python has recorded. A click between `since` and `until` shows the same film.

    In the act ``{leader}`` is the node that leads at that time, and ``{message}`` the first message on its way with
    these words."""

    label: str
    act: str
    ms: int
    since: int
    until: int
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scene:
    """A seed with its plan, and where to look. Virtual milliseconds."""

    name: str
    title: str
    about: str
    seed: int
    knobs: Knobs
    plan: Plan
    failure_ms: int
    """A player opens one second before it."""
    end_ms: int
    topic: str = TOPIC
    partition: int = 0
    outcomes: tuple[Outcome, ...] = ()
    rival: str = ""
    """Another scene with the same failure, to compare with."""
    rival_label: str = ""

    def begin(self, cls: type[S]) -> S:
        """Its story, at the first step."""
        return cls.begin(self.seed, self.knobs, {}, self.plan)


def _cluster(seed: int, producers: tuple[Mapping[str, object], ...], has_plain_producer: bool) -> Knobs:
    """Three nodes that are brokers and controllers, one partition, no faults but the plan's."""
    own = draw(seed)
    drawn = calm(own)
    return replace(
        drawn,
        brokers=3,
        controllers=0,
        partitions=1,
        groups=(),
        transactions=None,
        elections=None,
        recreations=None,
        admin_every_ms=0,
        racks=(),
        features={},
        consumers=(),
        producers=tuple(dict(each) for each in producers),
        has_plain_producer=has_plain_producer,
        records_per_s=12,
        storm_from_ms=_NEVER_MS,
        storm_until_ms=_NEVER_MS,
        background_us=100,
        properties={**own.properties, **_PROPERTIES},
        topic={"min.insync.replicas": 2},
    )


def _leader_leaves(cluster: SimulatedCluster, cut_ms: int, heal_ms: int) -> None:
    """The partition's leader is cut off from the other nodes. Its producers still reach it."""
    cluster.network.weather = Weather(latency_us=_LATENCY_US)
    links: list[tuple[str, str]] = []

    def cut() -> None:
        leader = cluster_view(cluster).leader(TOPIC, 0)
        if leader is None:
            return
        for other in cluster.nodes:
            if other != leader:
                pair = (cluster.nodes[leader].name, cluster.nodes[other].name)
                links.extend((pair, pair[::-1]))
        cluster.note("cut", {"links": links})
        for link in links:
            cluster.network.keep_cut(*link)

    def heal() -> None:
        still = [link for link in links if cluster.network.is_kept_cut(*link)]
        cluster.note("mend", {"links": still})
        for link in still:
            cluster.network.release(*link)

    cluster.scheduler.at(cut_ms * US_PER_MS, cut)
    cluster.scheduler.at(heal_ms * US_PER_MS, heal)


def _controller_dies(cluster: SimulatedCluster, kill_ms: int, restart_ms: int) -> None:
    """The active controller crashes, and starts again."""
    cluster.network.weather = Weather(latency_us=_LATENCY_US)
    killed: list[int] = []

    def kill() -> None:
        active = cluster_view(cluster).active_controller
        if active is not None:
            killed.append(active)
            cluster.nodes[active].is_kept_down = True
            cluster.nodes[active].crash()

    def restart() -> None:
        for machine in (cluster.nodes[node_id] for node_id in killed):
            machine.is_kept_down = False
            if not machine.is_up:
                cluster.note("start", {"node": machine.node_id})
                machine.start()

    cluster.scheduler.at(kill_ms * US_PER_MS, kill)
    cluster.scheduler.at(restart_ms * US_PER_MS, restart)


_CUT_MS, _HEAL_MS, _END_MS = 4_500, 7_500, 9_500
_SEED = 7


def _first_loss() -> Scene:
    hasty = {**_PRODUCER, "acks": "1", "max.in.flight.requests.per.connection": 5}
    return Scene(
        "first-loss",
        "Cut off, a leader acknowledges records that will be lost",
        "Three nodes. One producer sends with acks=1, the other with acks=all.",
        _SEED,
        _cluster(_SEED, (hasty, _SAFE), True),
        partial(_leader_leaves, cut_ms=_CUT_MS, heal_ms=_HEAL_MS),
        _CUT_MS,
        _END_MS,
        outcomes=(
            Outcome("the leader dies before that", "kill {leader}", 4_400, 3_300, _CUT_MS),
            Outcome("a Fetch response is dropped", "drop {message}", 4_450, 4_441, 4_491, ("Fetch response", "offset")),
            Outcome("the links heal after one second", "heal {leader}", 5_500, _CUT_MS, 5_900),
        ),
        rival="all-in-sync",
        rival_label="both producers use acks=all",
    )


def _all_in_sync() -> Scene:
    return replace(
        _first_loss(),
        name="all-in-sync",
        title="The same failure with acks=all: nothing that was acknowledged is lost",
        about="Three nodes. Both producers send with acks=all.",
        knobs=_cluster(_SEED, (_SAFE, _SAFE), False),
        outcomes=(),
        rival="",
    )


def _new_controller() -> Scene:
    return replace(
        _all_in_sync(),
        name="new-controller",
        title="The active controller dies; the timers of the others decide who asks for votes first",
        about="Three nodes, each a broker and a controller.",
        plan=partial(_controller_dies, kill_ms=_CUT_MS, restart_ms=_HEAL_MS),
    )


SCENES: dict[str, Callable[[], Scene]] = {
    "first-loss": _first_loss,
    "all-in-sync": _all_in_sync,
    "new-controller": _new_controller,
}


def scene(name: str) -> Scene:
    """The scene of this name; ValueError if there is none."""
    if name not in SCENES:
        raise ValueError(f"there is no scene {name!r}; there are {', '.join(SCENES)}")
    return SCENES[name]()
