"""Wide swarms: swarms that also take the workloads and the trouble which other swarms do not have.

Disks that rot or are replaced, log directories, suspended machines, work that takes time, cuts that part the clients,
groups whose topics come and go: each has some seeds of its own. A search that begins elsewhere would see none of them.
So half of the wide swarms are one of these histories (`Room`), with a draw of the seed's own. The other half are swarms
as ever.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from pykraft.sim.trouble.directories import draw_directories
from pykraft.sim.trouble.disks import draw_disks
from pykraft.sim.trouble.group_storms import draw_group_storms
from pykraft.sim.trouble.long_times import draw_long_times
from pykraft.sim.trouble.one_sided import draw_one_sided
from pykraft.sim.trouble.swarms import draw_swarm, struck
from pykraft.sim.trouble.transaction_members import MEMBERS, draw_transaction_members
from pykraft.sim.trouble.work import draw_work

WIDE_SWARM_SEEDS = range(35_000, 40_000)
"""These seeds are wide swarms."""
_IN_A_ROOM = 0.5


class Room(NamedTuple):
    """A kind of history that has seeds of its own elsewhere, and how likely a wide swarm is one."""

    draw: Callable[[int, Callable[[int], Any]], Any]
    weight: float
    is_struck: bool = False
    """Its trouble is a swarm's instead of its own."""


ROOMS: Mapping[str, Room] = {
    "disks": Room(draw_disks, 3),
    "directories": Room(draw_directories, 3),
    "long times": Room(draw_long_times, 2),
    "one side": Room(draw_one_sided, 2),
    MEMBERS: Room(draw_transaction_members, 3, is_struck=True),
    "work": Room(draw_work, 1),
    "group storms": Room(draw_group_storms, 3),
}


def draw_wide_swarm(seed: int, draw_of: Callable[[int], Any]) -> Any:
    """The knobs of a wide swarm; `draw_of` gives those of a seed of a bank."""
    random = Random(f"wide swarm {seed}")
    if random.random() >= _IN_A_ROOM:
        return draw_swarm(seed, draw_of)
    name = random.choices(list(ROOMS), [room.weight for room in ROOMS.values()])[0]
    knobs = ROOMS[name].draw(seed, draw_of)
    return struck(knobs, name, random) if ROOMS[name].is_struck else knobs
