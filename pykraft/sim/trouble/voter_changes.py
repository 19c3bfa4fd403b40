"""What is drawn for the seeds in which voters come and go.

The controllers are separate, and some of them, the spare ones, are no voters at first. Administrators add and remove
voters all the time, each without regard to the others, and to what is wrong with the cluster. In some of these
histories the spare controllers join by themselves.

Two voters stay. A leader of two that removes itself, and ends before the other one has that record, leaves a quorum
that elects no more: the other one needs its vote, and does not get it, for its log is shorter; and the old leader does
not stand, for it is no voter any more. So it is in Kafka.

In some of these histories controllers lose their disks, and come again on an empty one: `wiped_disks`. And in some all
nodes write snapshots all the time: then a node that is added has the voters from a snapshot, not from their records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

VOTER_SEEDS, VOTER_PERIOD = range(6400, 6500), 12_800
"""Of each 12,800 seeds these have voters that come and go, and neither groups nor a bank."""


_OF_CONTROLLERS = {"cut_off_controller": 1.5, "one_way_partition": 0.3, "crash_controller": 0.5, "power_loss": 0.3}
"""Trouble that lets a leader lose what it has appended: all these histories have it."""
_ELSE = 0.15
"""How likely each kind of trouble is that the seed has besides."""


def trouble_of_voters(faults: Mapping[str, float]) -> dict[str, float]:
    """What befalls such a cluster; there is no coordinator to crash."""
    return {kind: _ELSE for kind in faults if kind != "crash_coordinator"} | _OF_CONTROLLERS


_WITHOUT_DISKS = (1, 4)
"""Of five seeds in a row these keep all disks, and write no snapshots: so there is more time for changes."""
_SNAPSHOTS = 0.5
"""How many of the others write snapshots all the time."""
ADD, REMOVE = "add", "remove"


@dataclass(frozen=True)
class VoterKnobs:
    """The draw of a seed in which voters come and go."""

    first: int
    """So many controllers are voters at first."""
    spare: int
    """And so many are not."""
    administrators: int
    every_ms: int
    """How often each administrator changes something."""
    again_ms: int
    """After which pause it asks again, if it has asked a controller that does not lead."""
    of_leader: float
    """Of how many removals the leader is the voter that is removed."""
    joins: bool
    """The spare controllers join by themselves."""
    fault_every_ms: int
    orders: tuple[tuple[int, str], ...] = ()
    """Where they are not drawn by lot: when what is changed, `ADD` a spare controller or `REMOVE` the leader."""
    patience_ms: int = 300
    """For how long an administrator waits for an answer."""
    wipe_every_ms: int = 0
    """How often a controller loses its disk, if the quorum can do without it; 0 for never."""
    wipes: int = 0
    """So many lose theirs."""
    properties: Mapping[str, int] = field(default_factory=dict)
    """Of each node."""


def draw_voters(seed: int) -> VoterKnobs | None:
    if seed % VOTER_PERIOD not in VOTER_SEEDS:
        return None
    random = Random(f"voters {seed}")
    administrators, spare = random.choice((1, 1, 2)), random.choice((1, 2, 2))
    return VoterKnobs(
        first=random.choice((1, 3, 4) if administrators == 1 else (3, 4)),
        spare=spare,
        administrators=administrators,
        every_ms=random.choice((20, 50, 200)),
        again_ms=random.choice((2, 10, 50)),
        of_leader=random.choice((0.1, 0.3, 0.7)),
        joins=random.random() < 0.3,
        fault_every_ms=random.choice((150, 300, 600)),
        **({} if seed % 5 in _WITHOUT_DISKS else _of_disks(Random(f"wiped disks {seed}"))),
    )


def _of_disks(random: Random) -> dict[str, Any]:
    """How often disks are lost, and snapshots written."""
    return {
        "wipe_every_ms": random.choice((0, 200, 500)),
        "wipes": random.choice((1, 2, 3)),
        "properties": _snapshots(random) if random.random() < _SNAPSHOTS else {},
    }


def _snapshots(random: Random) -> dict[str, int]:
    """A snapshot goes when the next one is written, so a replica must be able to copy it before that."""
    return {
        "metadata.log.max.record.bytes.between.snapshots": random.choice((300, 1_000, 4_000)),
        "metadata.max.retention.bytes": random.choice((0, 2_000)),
        "internal.metadata.max.fetch.size.in.bytes": random.choice((500, 8 << 20)),
    }
