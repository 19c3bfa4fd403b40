"""What is drawn for the seeds with elections of all kinds: preferred ones, unclean ones, and those from the ELR.

Trouble comes fast in them, and brokers lose their power in the middle of other trouble.
"""

from dataclasses import dataclass
from random import Random

ELECTION_SEEDS, ELECTION_PERIOD = range(400, 500), 800
"""Of each eight hundred seeds these have elections of all kinds, and neither groups nor a bank."""


@dataclass(frozen=True)
class ElectionKnobs:
    """The draw of a seed with elections."""

    keeps_elr: bool
    """The cluster keeps eligible leader replicas."""
    allows_unclean: bool
    """The topic allows unclean elections."""
    orders_unclean: bool
    """The administrator orders some."""
    every_ms: int
    """How often the administrator orders an election."""
    imbalance_check_s: int
    """How often the controller looks for leaderships to give back; 0 for never."""


def draw_elections(seed: int) -> ElectionKnobs | None:
    if seed % ELECTION_PERIOD not in ELECTION_SEEDS:
        return None
    random = Random(f"elections {seed}")
    return ElectionKnobs(
        keeps_elr=random.random() < 0.7,
        allows_unclean=random.random() < 0.2,
        orders_unclean=random.random() < 0.2,
        every_ms=random.choice((100, 300, 1000)),
        imbalance_check_s=random.choice((0, 1)),
    )


def election_properties(elections: ElectionKnobs | None) -> dict[str, int]:
    if elections is None:
        return {}
    interval_s = elections.imbalance_check_s
    check = {"leader.imbalance.check.interval.seconds": interval_s} if interval_s else {}
    return {"unclean.leader.election.interval.ms": 500, **check}


def election_faults(seed: int, elections: ElectionKnobs | None) -> dict[str, float]:
    """Where there is an ELR, brokers stop in order and lose their power: it makes a difference."""
    if elections is None or not elections.keeps_elr:
        return {}
    random = Random(f"faults of elections {seed}")
    return {"power_loss": random.uniform(0.5, 2.0), "stop": random.uniform(0.2, 1.5)}


def election_fault_every_ms(drawn_ms: int, elections: ElectionKnobs | None) -> int:
    """A leader comes from the ELR once all members of the ISR have failed: trouble has to come fast for that."""
    return min(drawn_ms, 250) if elections is not None and elections.keeps_elr else drawn_ms
