"""Seeds of every kind in turn: where a bug is looked for that may be anywhere.

Each kind of history has a range of seeds of its own (`knobs`). A hundred seeds in a row are of one kind, so a search
that begins somewhere sees little of all the others. Twenty-four seeds in a row of this mixture have some of each.
"""

from collections.abc import Iterable, Iterator
from itertools import count

from pykraft.sim.trouble.elections import ELECTION_PERIOD, ELECTION_SEEDS
from pykraft.sim.trouble.foreigners import FOREIGN_PERIOD, FOREIGN_SEEDS
from pykraft.sim.trouble.knobs import (
    REASSIGNMENT_PERIOD,
    REASSIGNMENT_SEEDS,
    SNAPSHOT_PERIOD,
    SNAPSHOT_SEEDS,
    TRANSACTION_SEEDS,
)
from pykraft.sim.trouble.limits import LIMIT_PERIOD, QUOTA_SEEDS, RULE_SEEDS
from pykraft.sim.trouble.moving_logs import MOVING_PERIOD, MOVING_SEEDS
from pykraft.sim.trouble.recreations import RECREATION_PERIOD, RECREATION_SEEDS
from pykraft.sim.trouble.security import SECURITY_PERIOD, SECURITY_SEEDS
from pykraft.sim.trouble.settings import SETTING_PERIOD, SETTING_SEEDS
from pykraft.sim.trouble.swarms import SWARM_SEEDS
from pykraft.sim.trouble.voter_changes import VOTER_PERIOD, VOTER_SEEDS
from pykraft.sim.trouble.wide_swarms import WIDE_SWARM_SEEDS

_GENERAL, _BANK = (range(100), 1 << 20), (TRANSACTION_SEEDS, 1 << 20)
_SWARM, _WIDE_SWARM = (SWARM_SEEDS, 1 << 20), (WIDE_SWARM_SEEDS, 1 << 20)
_TURNS = (
    *(_GENERAL, _BANK, _GENERAL),
    (SNAPSHOT_SEEDS, SNAPSHOT_PERIOD),
    (RECREATION_SEEDS, RECREATION_PERIOD),
    _GENERAL,
    (ELECTION_SEEDS, ELECTION_PERIOD),
    (VOTER_SEEDS, VOTER_PERIOD),
    _BANK,
    (REASSIGNMENT_SEEDS, REASSIGNMENT_PERIOD),
    (range(900, 1000), 1 << 20),
    (QUOTA_SEEDS, LIMIT_PERIOD),
    (RULE_SEEDS, LIMIT_PERIOD),
    _SWARM,
    (SETTING_SEEDS, SETTING_PERIOD),
    _SWARM,
    (MOVING_SEEDS, MOVING_PERIOD),
    _SWARM,
    *(_WIDE_SWARM, _WIDE_SWARM),
    (FOREIGN_SEEDS, FOREIGN_PERIOD),
    *(_WIDE_SWARM, _WIDE_SWARM),
    (SECURITY_SEEDS, SECURITY_PERIOD),
)
"""The seeds of each kind, and after how many seeds they come again."""


def mixture() -> Iterator[int]:
    """Without an end; the same each time."""
    kinds = {turn: _seeds(*turn) for turn in dict.fromkeys(_TURNS)}
    while True:
        for turn in _TURNS:
            yield next(kinds[turn])


def _seeds(first: Iterable[int], period: int) -> Iterator[int]:
    for block in count():
        yield from (seed + block * period for seed in first)
