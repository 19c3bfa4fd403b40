"""Each planted bug dies of a broken law in one of the hundred histories, with no script of its own.

A short run goes through one recorded history of each bug. A long one searches all hundred, from the recorded one on.
"""

from __future__ import annotations

import pytest

from tests.sim import planted_transactions
from tests.sim.histories import SEEDS, in_processes
from tests.sim.planted import PLANTED, first_death

# Where each was seen to die. When the code changes, other seeds find it: a long run names one to record here.
SEEN = {
    "a_vote_for_a_stale_log": 39,
    "a_vote_forgotten_after_granting": 63,
    "a_vote_answered_before_its_flush": 97,
    "a_fetch_answered_before_its_flush": 64,
    "a_majority_that_is_one_voter_short": 64,
    "a_high_watermark_one_replica_short": 64,
    "an_isr_grown_before_the_follower_caught_up": 25,
    "acks_all_answered_at_the_log_end": 64,
    "no_truncation_on_divergence": 6,
    "a_sequence_check_skipped_after_a_leader_change": 71,
    "a_high_watermark_that_runs_back": 42,
    "a_follower_cut_to_its_high_watermark": 20,
    "an_answer_matched_by_name_and_leader_epoch": 3210,
    "a_late_answer_taken_for_the_next_one": 3281,
    "a_session_that_forgets_a_changed_partition": 2,
    "a_session_evicted_while_in_use": 19,
    "a_follower_that_serves_what_is_not_committed": 8,
    "a_commit_answered_before_it_is_committed": 1,
    "a_commit_answered_before_it_is_appended": 30,
    "a_read_of_what_is_not_committed": 1,
    "a_stale_generation_accepted": 1647,
    "a_commit_matched_by_its_generation_alone": 3201,
    "a_group_deleted_without_its_offsets": 3210,
    "a_deleted_offset_kept_in_memory": 3210,
    "a_stale_member_epoch_accepted": 55,
    "a_member_forgotten_on_replay": 2,
    "a_session_timer_not_restarted_on_load": 58,
    "a_partition_assigned_before_its_owner_revoked_it": 57,
    "a_target_assignment_from_an_older_epoch": 73,
    "a_fenced_broker_kept_in_the_isr": 20,
    "a_marker_missing_on_one_partition": 100,
    "a_commit_that_a_new_coordinator_aborts": 155,
    "an_old_epoch_not_fenced": 117,
    "offsets_visible_before_the_marker": 112,
    "a_last_stable_offset_one_transaction_too_far": 104,
    "an_aborted_list_cut_short": 104,
    "a_timeout_that_aborts_without_a_new_epoch": 120,
    "a_verification_skipped": 100,
    "a_truncation_that_keeps_the_producers": 110,
}
LAWS = ("Violation", "AssertionError", "DamagedFileError")


def search(names: list[str], is_long: bool) -> dict[str, str | None]:
    """By bug: how the first history that finds it fails; None if there is none."""
    work = []
    for name in names:
        seen = SEEN[name]
        first = seen % len(SEEDS)
        seeds = range(seen - first, seen - first + len(SEEDS))
        work.append((name, [*seeds[first:], *seeds[:first]] if is_long else [seen]))
    return dict(zip(names, in_processes(first_death, work), strict=True))


@pytest.fixture(scope="module")
def deaths(request: pytest.FixtureRequest) -> dict[str, str | None]:
    return search(list(SEEN), request.config.getoption("--long"))


@pytest.mark.limit(900)
@pytest.mark.parametrize("name", SEEN)
def test_a_planted_bug_dies_in_its_recorded_history(name: str, deaths: dict[str, str | None]) -> None:
    death = deaths[name]
    assert death is not None, f"{name} survives; --long looks for a seed to record"
    assert any(kind in death for kind in LAWS), death
    assert f"seed {SEEN[name]}," in death, f"record this seed: {death}"
    assert "does not settle" not in death, f"no law names the mistake: {death}"


def test_a_history_is_recorded_for_each_planted_bug() -> None:
    modules = (first_death.__module__, planted_transactions.__name__)
    planted = [name for name, plant in PLANTED.items() if plant.__module__ in modules]
    assert sorted(planted) == sorted(SEEN)
