"""Histories with a failure in the middle of them, each under a name: a player opens on one, and a link names it.

A scene is a cluster, its clients, and a plan: what befalls the cluster at which virtual time. It says besides what a
player shows of it: which logs are its *lanes*, and what it *tells* of. Nothing else is different from any other
simulated history.

    first-loss      producers send with acks=1 and with acks=all; the leader is cut off, and comes back
    all-in-sync     the same with acks=all alone
    yours           the same cluster, and nothing befalls it: the reader does
    one-record      one record after the other, and which message commits it
    leader-returns  the leader dies with records that no other node has, and comes back
    power-loss      the leader loses its power, and what was not on its disk
    new-controller  the active controller dies, and the others elect one of them
    split-vote      the same, and at first none of them gets a majority
    voters          an observer becomes a voter, and the active controller is removed from the voters
    old-image       a broker that is cut off knows an older cluster
    lost-answer     an answer to an idempotent producer is lost, and it sends its record again
    lost-marker     a transaction's coordinator dies with a marker that it owes
    retention       each replica deletes its oldest segments when their records are too old
    compaction      the cleaner of each replica leaves the last record of each key
    quota           a producer sends more than its quota, and the broker mutes its connection
    group           a member of a consumer group crashes, one comes, one pauses
    classic-group   the same under the classic protocol
    seed-4711       the history of a seed, as `Simulation` runs it; seed-4711-calm has no faults, and more may be left
                    out (`history_names`)
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

from pykraft.common.types import TopicPartition
from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.laws.transaction_laws import BANK
from pykraft.sim.trouble.clients import CLASSIC, CONSUMER
from pykraft.sim.trouble.knobs import Knobs
from pykraft.sim.trouble.voter_changes import ADD, REMOVE
from pykraft.sim.workloads.workload import TOPIC
from pykraft.story import plans
from pykraft.story.checkpoints import Plan
from pykraft.story.history_names import SeedHistory, read_name
from pykraft.story.scene_clusters import (
    PRODUCER,
    SAFE,
    three_nodes,
    with_group,
    with_quota,
    with_segments,
    with_teller,
    with_voters,
)
from pykraft.story.story import Story

S = TypeVar("S", bound=Story)
REPLICAS, PARTITIONS, METADATA = "replicas", "partitions", "metadata"
"""What a scene's lanes are: the replicas of its partition, its topic's partitions, or the metadata log of each node."""
LOSSES, GROUP, TRANSACTIONS, QUORUM, VOTERS, SEGMENTS, QUOTA = (
    "losses",
    "group",
    "transactions",
    "quorum",
    "voters",
    "segments",
    "quota",
)
"""What a scene tells of."""


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
    lanes: str = REPLICAS
    tells: str = LOSSES
    shows_disk: bool = False
    """The lanes say what is on the disk."""
    moments: tuple[str, ...] = ()
    """Where a reader shall look: each is words of a step's sentence, or ``next`` and a kind of mark. Each is looked for
    after the one before; the first one from the failure on."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def shows_all(self) -> bool:
        """The lanes have all records, not only those of the film."""
        return self.tells == LOSSES

    def begin(self, cls: type[S]) -> S:
        """Its story, at the first step."""
        return cls.begin(self.seed, self.knobs, {}, self.plan)


_CUT_MS, _HEAL_MS, _END_MS = 4_500, 7_500, 9_500
_SEED = 7
_MOST_OF_A_SEED_MS = 4_000
_HASTY = {**PRODUCER, "acks": "1", "max.in.flight.requests.per.connection": 5}


def _first_loss() -> Scene:
    return Scene(
        "first-loss",
        "Cut off, a leader acknowledges records that will be lost",
        "Three nodes. One producer sends with acks=1, the other with acks=all.",
        _SEED,
        three_nodes(_SEED, (_HASTY, SAFE), True),
        partial(plans.leader_leaves, cut_ms=_CUT_MS, heal_ms=_HEAL_MS),
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
        knobs=three_nodes(_SEED, (SAFE, SAFE)),
        outcomes=(),
        rival="",
    )


def _new_controller() -> Scene:
    return replace(
        _all_in_sync(),
        name="new-controller",
        title="The active controller dies; the timers of the others decide who asks for votes first",
        about="Three nodes, each a broker and a controller.",
        plan=partial(plans.controller_dies, kill_ms=_CUT_MS, restart_ms=_HEAL_MS),
    )


def _yours() -> Scene:
    return replace(
        _first_loss(),
        name="yours",
        title="A cluster of your own: cut its leader off, wait, and heal the links",
        about="Three nodes. One producer sends with acks=1, the other with acks=all. Nothing fails unless you let it.",
        plan=plans.nothing,
        outcomes=(),
        rival="",
    )


def _one_record() -> Scene:
    return Scene(
        "one-record",
        "One record, three logs: when is it committed?",
        "Three nodes. A producer sends one record, and waits for its acknowledgement before it sends the next.",
        _SEED,
        replace(three_nodes(_SEED, (SAFE,)), records_per_s=2),
        plans.nothing,
        4_870,
        6_500,
        moments=("receives Produce request", "receives Fetch response t-0 offset", "receives Produce response"),
    )


def _leader_returns() -> Scene:
    return replace(
        _first_loss(),
        name="leader-returns",
        title="A leader dies with records that no follower has; when it returns it truncates them",
        plan=partial(plans.leader_dies, kill_ms=_CUT_MS, restart_ms=6_500),
        end_ms=8_500,
        outcomes=(),
        rival="",
        moments=("next crash", "next election", "next truncation"),
    )


def _power_loss() -> Scene:
    power = three_nodes(_SEED, (SAFE, SAFE))
    return replace(
        _leader_returns(),
        name="power-loss",
        title="The leader's power fails: its disk lacks the newest records",
        about="Three nodes. Both producers send with acks=all, and no node waits for its disk.",
        knobs=replace(power, records_per_s=30, topic={**power.topic, "internal.segment.bytes": 2_000}),
        plan=partial(plans.leader_dies, kill_ms=_CUT_MS, restart_ms=6_500, loses_power=True),
        shows_disk=True,
        moments=("next fault", "next election", "next restart"),
    )


def _split_vote() -> Scene:
    return replace(
        _new_controller(),
        name="split-vote",
        title="Two candidates each have their own vote: no majority, and the next epoch decides",
        about="Three nodes, each a broker and a controller. The lanes are their metadata logs.",
        seed=8,
        knobs=three_nodes(8, ()),
        end_ms=8_500,
        lanes=METADATA,
        tells=QUORUM,
        moments=("Vote request", "Vote response refused", "next election"),
    )


def _voters() -> Scene:
    return replace(
        _split_vote(),
        name="voters",
        title="A voter joins, and then the active controller is removed",
        about="Controllers 101 to 103 are voters, 104 is an observer, and so is broker 1. The lanes are metadata logs.",
        seed=_SEED,
        knobs=with_voters(three_nodes(_SEED, ()), ((_CUT_MS, ADD), (6_500, REMOVE))),
        plan=plans.nothing,
        end_ms=9_000,
        tells=VOTERS,
        moments=("next voters", "next voters", "next election"),
    )


def _old_image() -> Scene:
    return replace(
        _split_vote(),
        name="old-image",
        title="Node 3 is cut off: it knows the cluster as it was at an earlier offset",
        about="Three nodes, and a topic. The lanes are their metadata logs.",
        plan=partial(plans.leader_leaves, cut_ms=_CUT_MS, heal_ms=_HEAL_MS),
        end_ms=_END_MS,
        moments=("next isr", "next isr"),
    )


def _lost_answer() -> Scene:
    return replace(
        _one_record(),
        name="lost-answer",
        title="The answer is lost, the record is sent again, and the log has it once",
        about="Three nodes, and one idempotent producer.",
        plan=partial(plans.answer_is_lost, from_ms=_CUT_MS),
        end_ms=7_500,
        moments=("next fault", "receives Produce request", "receives Produce response"),
    )


def _lost_marker() -> Scene:
    return Scene(
        "lost-marker",
        "The coordinator dies with a marker that it owes: the next one sends it",
        "Three nodes. A teller writes a transaction at a time; a reader wants committed records only.",
        8,
        with_teller(three_nodes(8, ())),
        partial(plans.marker_is_lost, from_ms=5_500, restart_ms=9_000),
        5_500,
        10_500,
        topic=BANK,
        tells=TRANSACTIONS,
        moments=("next fault", "receives WriteTxnMarkers request", "receives WriteTxnMarkers response"),
    )


def _retention() -> Scene:
    return Scene(
        "retention",
        "Each replica deletes its own old segments, when it looks for them",
        "Three replicas. The topic keeps records for two seconds, and each broker looks every 600 ms.",
        _SEED,
        with_segments(three_nodes(_SEED, (SAFE,)), {"cleanup.policy": "delete", "retention.ms": 2_000}),
        plans.nothing,
        4_900,
        7_600,
        tells=SEGMENTS,
        moments=("next segment", "node 1 deletes", "node 1 deletes"),
    )


def _compaction() -> Scene:
    return replace(
        _retention(),
        name="compaction",
        title="The cleaner leaves the last record of each key, and no record changes its offset",
        about="Of four keys each is written half as often as the one before. Each cleaner looks once a second.",
        knobs=with_segments(three_nodes(_SEED, (SAFE,), True), {"cleanup.policy": "compact"}, keys=4),
        failure_ms=5_300,
        end_ms=8_600,
        moments=("node 1 compacts", "node 1 compacts", "node 1 compacts"),
    )


def _quota() -> Scene:
    return Scene(
        "quota",
        "Over its quota, a producer is answered at once and read later",
        "Three nodes. producer-0 may send 300 bytes a second, and sends more; producer-1 has no quota.",
        _SEED,
        with_quota(three_nodes(_SEED, (SAFE, SAFE)), 300),
        plans.nothing,
        3_700,
        8_000,
        tells=QUOTA,
        moments=("next quota", "next quota", "next quota"),
    )


def _group() -> Scene:
    return Scene(
        "group",
        "A member crashes: its partitions have no reader until its session ends",
        "Three members of a consumer group read three partitions.",
        _SEED,
        with_group(three_nodes(_SEED, (SAFE,)), CONSUMER),
        partial(plans.members_come_and_go, crash_ms=_CUT_MS, join_ms=6_600, pause_ms=7_200),
        _CUT_MS,
        10_500,
        rival="classic-group",
        rival_label="the classic protocol",
        lanes=PARTITIONS,
        tells=GROUP,
        moments=("crash", "next rebalance"),
    )


def _classic_group() -> Scene:
    return replace(
        _group(),
        name="classic-group",
        title="The same under the classic protocol: each rebalance waits for all members",
        about="Three members of a classic group read three partitions.",
        knobs=with_group(three_nodes(_SEED, (SAFE,)), CLASSIC),
        rival="",
    )


SCENES: dict[str, Callable[[], Scene]] = {
    "first-loss": _first_loss,
    "all-in-sync": _all_in_sync,
    "yours": _yours,
    "one-record": _one_record,
    "leader-returns": _leader_returns,
    "power-loss": _power_loss,
    "new-controller": _new_controller,
    "split-vote": _split_vote,
    "voters": _voters,
    "old-image": _old_image,
    "lost-answer": _lost_answer,
    "lost-marker": _lost_marker,
    "retention": _retention,
    "compaction": _compaction,
    "quota": _quota,
    "group": _group,
    "classic-group": _classic_group,
}


def scene(name: str) -> Scene:
    """The scene of this name; ValueError if there is none."""
    if (history := read_name(name)) is not None:
        return _of_seed(name, history)
    if name not in SCENES:
        raise ValueError(
            f"there is no scene {name!r}; there are {', '.join(SCENES)}, and seed-4711 for a seed's history"
        )
    return SCENES[name]()


def is_scene(name: str) -> bool:
    """Whether there is a scene of this name."""
    return name in SCENES or read_name(name) is not None


def _of_seed(name: str, history: SeedHistory) -> Scene:
    """The history of a seed as `Simulation` runs it: its faults come as the dice fall, and so do its clients."""
    seed, knobs = history.seed, history.knobs
    left_out = "".join(f", {word}" for word in knobs.omitted.words())
    begins_ms = max(1_500, knobs.storm_from_ms)
    return Scene(
        name,
        f"The history of seed {seed}{', without faults' if history.is_calm else ''}{left_out}",
        f"{knobs.brokers} brokers. What befalls them was drawn by lot.",
        seed,
        knobs,
        _as_it_is,
        begins_ms,
        min(begins_ms + _MOST_OF_A_SEED_MS, knobs.storm_until_ms + 1_000),
    )


def _as_it_is(cluster: SimulatedCluster) -> None:
    """The faults are the seed's own."""
