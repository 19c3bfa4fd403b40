"""Swarms: what is drawn for the seeds that do little, and strike hard with it.

A history with everything in it spends most of its time on what is harmless, and its faults hide each other's traces. So
each of these seeds draws one workload and one to three kinds of fault from weighted lists, and the faults come several
times a second (swarm testing: Groce et al., ISSTA 2012). Two of five aim at a named danger instead: a mistake that a
system of this kind has made before, with the workload, the faults and the timeouts that lead there.

A workload is that of a bank of seeds that there is already (`Bank`): a swarm takes the draw of one of its seeds, and
replaces the trouble.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

from pykraft.sim.trouble.elections import ELECTION_SEEDS
from pykraft.sim.trouble.limits import QUOTA_SEEDS, RULE_SEEDS
from pykraft.sim.trouble.moving_logs import MOVING_SEEDS
from pykraft.sim.trouble.recreations import LATE_SEEDS, RECREATION_SEEDS
from pykraft.sim.trouble.settings import SETTING_SEEDS
from pykraft.sim.trouble.voter_changes import VOTER_SEEDS

SWARM_SEEDS = range(30_000, 35_000)
"""These seeds are swarms; those of `wide_swarms` follow."""
_AIMS = 0.4
"""How many of them aim at a named danger."""

FAULT_KINDS: Mapping[str, float] = {
    "crash": 2,
    "crash_leader": 3,
    "crash_controller": 2,
    "crash_within_step": 2,
    "cut_off_controller": 2,
    "partition": 2,
    "one_way_partition": 2,
    "clog": 1,
    "stall": 2,
    "stop": 1,
    "power_loss": 1,
    "disk_error": 1,
}
"""Each kind of fault, and how likely a swarm has it. A workload may add its own, or have fewer."""
WEATHER: Mapping[str, tuple[float, tuple[float, ...]]] = {
    "": (4, (0.0,)),
    "straggler": (2, (0.02, 0.1)),
    "breaks": (1, (0.01, 0.03)),
    "ghost": (1, (0.02, 0.05)),
}
"""At most one kind of bad weather: how likely it is, and how strong it may be."""


class Bank(NamedTuple):
    """A workload: the seeds that have it, and how likely a swarm takes it."""

    seeds: Sequence[int]
    weight: float
    keeps_faults: bool = False
    """Its laws or its recovery allow only the faults that its seeds draw, and no other weather."""


BANKS: Mapping[str, Bank] = {
    "groups": Bank(range(100), 3),
    "bank": Bank(range(100, 200), 3),
    "snapshots": Bank(range(200, 300), 2),
    "elections": Bank(ELECTION_SEEDS, 2),
    "reassignments": Bank(range(800, 900), 2),
    "slices": Bank(range(900, 1000), 1),
    "names used again": Bank(RECREATION_SEEDS, 1),
    "late answers": Bank(LATE_SEEDS[50:], 1),
    "voters": Bank(VOTER_SEEDS, 3, keeps_faults=True),
    "logs that move": Bank(MOVING_SEEDS, 1, keeps_faults=True),
    "settings": Bank(SETTING_SEEDS, 2, keeps_faults=True),
    "quotas": Bank(QUOTA_SEEDS, 0.5, keeps_faults=True),
    "rules": Bank(RULE_SEEDS, 0.5, keeps_faults=True),
}


@dataclass(frozen=True)
class Danger:
    """A mistake that was made before, and what leads to it."""

    bank: str
    faults: Mapping[str, float]
    fault_every_ms: int
    restart_ms: tuple[int, int]
    properties: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Other knobs."""


DANGERS: Mapping[str, Danger] = {
    # Raft's figure 8: what an earlier epoch appended is on a majority, and is not committed yet.
    "Figure 8": Danger(
        "snapshots",
        {"cut_off_controller": 2.0, "crash_controller": 2.0, "one_way_partition": 0.5},
        120,
        (50, 600),
        {"controller.quorum.fetch.timeout.ms": 200, "controller.quorum.election.timeout.ms": 100},
        {"controllers": 5, "admin_every_ms": 100},
    ),
    # The ISR grows by a follower that lacks what a high watermark, which lags behind, does not show as committed yet.
    "KAFKA-7128": Danger(
        "elections",
        {"stall": 2.0, "crash_leader": 2.0, "clog": 1.0},
        120,
        (0, 300),
        {"replica.fetch.wait.max.ms": 10, "replica.lag.time.max.ms": 210},
    ),
    # Leaders follow each other so fast that a follower truncates to an epoch which its new leader does not have.
    "KIP-279": Danger(
        "groups",
        {"crash_leader": 4.0, "partition": 1.0},
        100,
        (0, 100),
        {"broker.session.timeout.ms": 300, "broker.heartbeat.interval.ms": 50},
    ),
    # A broker is back, and lacks what it had, before the leader's request for the ISR with its old process arrives.
    "KIP-903": Danger(
        "elections",
        {"power_loss": 3.0, "stop": 1.0, "clog": 1.0, "stall": 0.5},
        120,
        (0, 50),
        {"controller.socket.timeout.ms": 1_000},
        {"straggler": 0.1},
    ),
    "a topic made again under a late answer": Danger(
        "names used again", {"crash_leader": 0.5, "clog": 2.0, "stall": 1.0, "partition": 0.5}, 200, (0, 300)
    ),
    "a coordinator that loads while it is deposed": Danger(
        "bank",
        {"crash_coordinator": 4.0, "crash_leader": 2.0, "stall": 1.0},
        120,
        (0, 100),
        {"broker.session.timeout.ms": 300, "broker.heartbeat.interval.ms": 50},
    ),
}


def draw_swarm(seed: int, draw_of: Callable[[int], Any]) -> Any:
    """The knobs of a swarm; `draw_of` gives those of a seed of a bank."""
    random = Random(f"swarm {seed}")
    if random.random() < _AIMS:
        name = random.choice(sorted(DANGERS))
        danger = DANGERS[name]
        base = draw_of(random.choice(BANKS[danger.bank].seeds))
        changes = {
            "faults": {kind: weight for kind, weight in danger.faults.items() if _may_have(base, kind)},
            "fault_every_ms": danger.fault_every_ms,
            "restart_ms": danger.restart_ms,
            "properties": {**base.properties, **danger.properties},
            **danger.changes,
        }
        return replace(base, **changes, storm_from_ms=1_000, storm_until_ms=7_000, swarm=(name,))
    name = random.choices(list(BANKS), [bank.weight for bank in BANKS.values()])[0]
    return struck(draw_of(random.choice(BANKS[name].seeds)), name, random, BANKS[name].keeps_faults)


def struck(base: Any, name: str, random: Random, keeps_faults: bool = False) -> Any:
    """The draw, called `name`, with a swarm's trouble instead of its own; or with few of its own kinds of fault."""
    faults = _few_faults(base, keeps_faults, random)
    changes = {} if keeps_faults else _weather(random)
    return replace(
        base,
        **changes,
        faults=faults,
        fault_every_ms=random.choice((80, 150, 300)),
        restart_ms=random.choice(((0, 100), (50, 500), (500, 2_500))),
        storm_from_ms=1_000,
        storm_until_ms=base.storm_until_ms if keeps_faults else 7_000,
        swarm=(name, *sorted(faults), *(kind for kind, strength in changes.items() if strength)),
    )


def _may_have(base: Any, kind: str) -> bool:
    return kind != "crash_coordinator" or bool(base.groups) or base.transactions is not None


def _few_faults(base: Any, keeps_faults: bool, random: Random) -> dict[str, float]:
    """One to three kinds."""
    kinds = dict.fromkeys(base.faults, 2.0) if keeps_faults else dict(FAULT_KINDS)
    if _may_have(base, "crash_coordinator"):
        kinds["crash_coordinator"] = 3.0
    chosen: dict[str, float] = {}
    for _ in range(random.choice((1, 2, 2, 3)) if kinds else 0):
        kind = random.choices(list(kinds), list(kinds.values()))[0]
        chosen[kind] = random.choice((0.5, 1.0, 2.0))
    return chosen


def _weather(random: Random) -> dict[str, float]:
    quiet = {"straggler": 0.0, "breaks": 0.0, "ghost": 0.0}
    kind = random.choices(list(WEATHER), [weight for weight, _ in WEATHER.values()])[0]
    return quiet | ({kind: random.choice(WEATHER[kind][1])} if kind else {})
