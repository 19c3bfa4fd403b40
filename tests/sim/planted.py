"""Plants a bug in a process of its own, and runs seeds until one fails.

The sleeping rooms of these histories are not audited, which takes a quarter of a history's time and changes nothing in
it: no bug here is of that law, and the histories without a bug have their audits.
"""

from __future__ import annotations

from typing import NamedTuple

from pykraft.sim.bugs.planting import plant
from pykraft.sim.laws import sleep_laws
from pykraft.simulation import Simulation, SimulationFailed

NEVER = 1 << 62
"""One of this many seeds is audited."""
LATE = frozenset(
    {
        "a_coordinator_that_ignores_a_tombstone_when_loading",
        "a_deletion_that_followers_do_not_follow",
        "a_follower_that_keeps_what_is_below_its_leaders_start",
        "a_marker_dropped_before_its_records",
        "a_negative_partition_taken_for_an_index",
        "a_new_voter_whose_records_are_not_on_its_disk",
        "a_preferred_leader_elected_outside_the_isr",
        "a_record_type_that_stops_a_load",
        "a_removed_voter_whose_vote_counts",
        "a_stale_member_epoch_accepted",
        "a_truncation_that_keeps_the_voters",
        "a_voter_on_any_disk",
        "an_observer_that_votes_for_itself",
    }
)
"""Bugs that die only after seconds of computing, in a long run. Another dies early, in every run, by the same law."""


class Death(NamedTuple):
    """How the first history that finds a bug fails."""

    seed: int
    law: str
    text: str


def first_death(work: tuple[str, list[int]]) -> Death | None:
    """Make a mistake, then run seeds until one fails. None if the mistake survives them all."""
    name, seeds = work
    plant(name)
    sleep_laws.AUDIT_PERIOD = NEVER
    for seed in seeds:
        try:
            Simulation(seed).run()
        except SimulationFailed as failure:
            return Death(seed, failure.law, str(failure))
    return None
