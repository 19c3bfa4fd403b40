"""Each planted bug dies of a broken law in one of the hundred histories, with no script of its own."""

from __future__ import annotations

import pytest

from tests.sim.histories import SEEDS, in_processes
from tests.sim.planted import PLANTED, first_death

# Where each was seen to die. The search begins there and goes round: when the code changes, other seeds find it.
SEEN = {
    "a_vote_for_a_stale_log": 30,
    "a_vote_forgotten_after_granting": 36,
    "a_vote_answered_before_its_flush": 97,
    "a_fetch_answered_before_its_flush": 64,
    "a_majority_that_is_one_voter_short": 64,
    "a_high_watermark_one_replica_short": 64,
    "an_isr_grown_before_the_follower_caught_up": 25,
    "acks_all_answered_at_the_log_end": 64,
    "no_truncation_on_divergence": 6,
    "a_sequence_check_skipped_after_a_leader_change": 69,
    "a_high_watermark_that_runs_back": 31,
    "a_follower_cut_to_its_high_watermark": 20,
    "a_session_that_forgets_a_changed_partition": 2,
    "a_session_evicted_while_in_use": 4,
    "a_commit_answered_before_it_is_committed": 1,
    "a_stale_generation_accepted": 30,
    "a_member_forgotten_on_replay": 1,
    "a_fenced_broker_kept_in_the_isr": 20,
}


@pytest.fixture(scope="module")
def deaths() -> dict[str, str | None]:
    """By bug: how the first seed that finds it fails."""
    work = [(name, [*SEEDS[SEEN.get(name, 0) :], *SEEDS[: SEEN.get(name, 0)]]) for name in PLANTED]
    return dict(zip(PLANTED, in_processes(first_death, work), strict=True))


@pytest.mark.limit(900)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_dies(name: str, deaths: dict[str, str | None]) -> None:
    death = deaths[name]
    assert death is not None, f"{name} survives {len(SEEDS)} histories"
    assert any(kind in death for kind in ("Violation", "AssertionError", "DamagedFileError")), death


def test_eight_bugs_at_least_are_planted() -> None:
    assert len(PLANTED) >= 8
