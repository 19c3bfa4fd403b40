"""What is drawn for the seeds with cuts that part the clients, too, and with leaders that fall one after the other.

    side_cut          a leader is cut off from all other nodes, and some clients reach only that side; others reach only
                      the other one. Some of the clients stay cut off when the nodes have found each other again: they
                      reach the leader of before, and not the one of now
    coordinator_cut   some clients do not reach the node that coordinates groups or transactions, and all others
    cascade           some followers of a leader lag, and it falls; the next leader falls likewise, as soon as it leads,
                      and perhaps another one after it

The workload is that of other seeds. One to three of these kinds strike, and sometimes another kind besides.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from pykraft.sim.trouble.transaction_members import MEMBERS, draw_bank

ONE_SIDED_SEEDS = range(44_100, 44_200)
"""These seeds have them."""
ONE_SIDED = ("side_cut", "coordinator_cut", "cascade")
_BANKS = ("groups", "groups", "bank", MEMBERS, "elections", "snapshots")
_OTHERS = ("crash", "stall", "clog", "one_way_partition", "crash_controller")
_HAS_OTHER = 0.4


def draw_one_sided(seed: int, draw_of: Callable[[int], Any]) -> Any:
    """The knobs of such a seed; `draw_of` gives those of a seed of a bank."""
    random = Random(f"one side {seed}")
    name = random.choice(_BANKS)
    base = draw_bank(name, random, draw_of)
    has_coordinator = bool(base.groups) or base.transactions is not None
    kinds = [kind for kind in ONE_SIDED if has_coordinator or kind != "coordinator_cut"]
    faults = dict.fromkeys(random.sample(kinds, random.randint(1, len(kinds))), 1.0)
    if random.random() < _HAS_OTHER:
        faults[random.choice(_OTHERS)] = 0.5
    return replace(
        base,
        faults=faults,
        fault_every_ms=random.choice((200, 400, 800)),
        restart_ms=random.choice(((0, 100), (50, 500), (500, 2_500))),
        storm_from_ms=1_000,
        storm_until_ms=7_000,
        swarm=(name, *sorted(faults)),
    )
