"""What is drawn for the seeds in which voters come and go.

The controllers are separate, and some of them, the spare ones, are no voters at first. Administrators add and remove
voters all the time, each without regard to the others, and to what is wrong with the cluster. In some of these
histories the spare controllers join by themselves.

Two voters stay. A leader of two that removes itself, and ends before the other one has that record, leaves a quorum
that elects no more: the other one needs its vote, and does not get it, for its log is shorter; and the old leader does
not stand, for it is no voter any more. So it is in Kafka.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykraft.sim.trouble.knobs import Knobs

VOTER_SEEDS, VOTER_PERIOD = range(6400, 6500), 12_800
"""Of each 12,800 seeds these have voters that come and go, and neither groups nor a bank."""


_OF_CONTROLLERS = {"partition": 1.0, "one_way_partition": 0.5, "crash_controller": 0.7, "power_loss": 0.3}
"""Trouble that lets a leader lose what it has appended: all these histories have it."""


@dataclass(frozen=True)
class VoterKnobs:
    """The draw of a seed in which voters come and go."""

    spare: int
    """So many controllers are no voters at first."""
    administrators: int
    every_ms: int
    """How often each administrator changes something."""
    again_ms: int
    """After which pause it asks again, if it has asked a controller that does not lead."""
    of_leader: float
    """Of how many removals the leader is the voter that is removed."""
    joins: bool
    """The spare controllers join by themselves."""


def with_voter_changes(seed: int, knobs: "Knobs") -> "Knobs":
    """The same draw, with voters that come and go if it is one of those seeds."""
    if seed % VOTER_PERIOD not in VOTER_SEEDS:
        return knobs
    random = Random(f"voters {seed}")
    spare = random.choice((1, 2, 2))
    administrators = random.choice((1, 1, 2))
    return replace(
        knobs,
        brokers=2,
        controllers=random.choice((1, 3, 4) if administrators == 1 else (3, 4)) + spare,
        records_per_s=60,
        producers=knobs.producers[:1],
        consumers=knobs.consumers[:1],
        partitions=1,
        properties={
            **knobs.properties,
            "replica.fetch.max.bytes": 1 << 20,
            "replica.fetch.response.max.bytes": 10 << 20,
        },
        faults={**knobs.faults, **_OF_CONTROLLERS},
        fault_every_ms=random.choice((150, 300, 600)),
        storm_until_ms=min(knobs.storm_until_ms, 4_000),
        groups=(),
        features={},
        voters=VoterKnobs(
            spare=spare,
            administrators=administrators,
            every_ms=random.choice((20, 50, 200)),
            again_ms=random.choice((2, 10, 50)),
            of_leader=random.choice((0.1, 0.3, 0.7)),
            joins=random.random() < 0.3,
        ),
    )
