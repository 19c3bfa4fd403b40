"""What is drawn for the seeds in which work takes time: turns of nodes cost what they do, and some clients ask much.

The workload is that of other seeds. Besides, a few clients send requests with up to thousands of elements, one after
the other, to all brokers. The machines are as fast as usual, or several times slower. Half of these histories are
quiet: no fault comes, and the network delivers in good time. So no broker may be fenced there, and none is for being
busy.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pykraft.sim.trouble.transaction_members import MEMBERS, draw_bank

WORK_SEEDS = range(44_200, 44_300)
"""In these seeds work takes time."""
_BANKS = ("groups", "groups", "bank", MEMBERS, "elections", "snapshots")
_IS_QUIET = 0.5
_FAULTS = ("crash", "crash_leader", "crash_controller", "partition", "stall", "stop", "cascade")


@dataclass(frozen=True)
class WorkKnobs:
    """The draw of a seed in which work takes time. Times are milliseconds."""

    slowness: int
    """How many times slower than usual the machines are."""
    clients: int
    """How many clients ask for much."""
    most_elements: int
    """Of one of their requests."""
    every_ms: int
    """How long they wait after an answer, on average."""
    is_quiet: bool
    """Nothing befalls the cluster but work."""


def draw_work(seed: int, draw_of: Callable[[int], Any]) -> Any:
    """The knobs of such a seed; `draw_of` gives those of a seed of a bank."""
    random = Random(f"work {seed}")
    name = random.choice(_BANKS)
    base = draw_bank(name, random, draw_of)
    work = WorkKnobs(
        slowness=random.choice((1, 2, 4)),
        clients=random.choice((1, 2, 4)),
        most_elements=random.choice((100, 1_000, 3_000)),
        every_ms=random.choice((5, 20, 100)),
        is_quiet=random.random() < _IS_QUIET,
    )
    faults = {} if work.is_quiet else dict.fromkeys(random.sample(_FAULTS, random.randint(1, 3)), 1.0)
    return replace(
        base,
        faults=faults,
        fault_every_ms=random.choice((300, 600)),
        groups=tuple(replace(group, crashes_at_end=False) for group in base.groups) if work.is_quiet else base.groups,
        straggler=0.0,
        breaks=0.0,
        ghost=0.0,
        late_to_clients=0.0,
        clock_skew_ms=0,
        slice_ends=0.0,
        busy_us=0,
        storm_from_ms=1_000,
        storm_until_ms=min(base.storm_until_ms, 5_000),
        work=work,
        swarm=(name, f"{work.slowness} times slower", *sorted(faults)),
    )
