"""What is known of each bug: the part of Kafka that it breaks, the law that names it, and a seed in which it dies.

When the code changes, other seeds come upon a bug. A test then fails and names what it saw; a run of the tests with
``--long`` looks for another seed.
"""

from typing import NamedTuple

PARTS = {
    "role table": "which role of a node in the quorum may follow which",
    "ISR table": "when a change of the in-sync replicas counts",
    "group table": "which state of a group or a member may follow which",
    "transaction table": "which state of a transaction may follow which",
    "voter table": "when the voters may change",
    "quorum rule": "votes, and what a majority has",
    "log rule": "what a log keeps, truncates and knows of its producers",
    "replication": "high watermarks, acknowledgements, and what readers get",
    "election": "who leads a partition",
    "reassignment": "moving partitions between brokers",
    "group coordinator": "members, assignments and committed offsets",
    "transaction coordinator": "epochs, decisions and markers",
    "voters": "what holds of a voter that comes or goes",
    "snapshot": "snapshots of the metadata",
    "feature level": "levels, and the records that they allow",
    "fetch session": "incremental fetches",
    "client": "what a client takes for its answer",
    "quota": "who is throttled",
    "ACL": "who may do what",
}
"""What of Kafka a bug breaks."""


class Recorded(NamedTuple):
    """What is known of one bug."""

    part: str
    law: str
    seed: int


RECORDED = {
    "a_candidate_that_does_not_raise_the_epoch": Recorded("role table", "One Vote", 6419),
    "an_isr_that_counts_only_once_it_is_committed": Recorded("ISR table", "High Watermark", 419),
    "a_group_that_is_stable_before_it_is_assigned": Recorded("group table", "Members Own What Is Committed", 1),
    "a_partition_assigned_before_its_owner_revoked_it": Recorded("group table", "Revoke before Assign", 57),
    "a_transaction_that_begins_before_the_last_one_is_complete": Recorded("transaction table", "Markers", 100),
    "a_change_before_anything_of_the_epoch_is_committed": Recorded("voter table", "One Voter at a Time", 6406),
    "a_second_change_before_the_first_is_committed": Recorded("voter table", "One Voter at a Time", 6481),
    "a_fetch_answered_before_its_flush": Recorded("quorum rule", "Majority", 64),
    "a_majority_that_is_one_voter_short": Recorded("quorum rule", "Majority", 64),
    "a_vote_answered_before_its_flush": Recorded("quorum rule", "Election Safety", 97),
    "a_vote_for_a_stale_log": Recorded("quorum rule", "Leader Completeness", 39),
    "a_vote_forgotten_after_granting": Recorded("quorum rule", "Election Safety", 63),
    "a_follower_cut_to_its_high_watermark": Recorded("log rule", "Committed Stays", 20),
    "a_last_stable_offset_one_transaction_too_far": Recorded("log rule", "Atomic Reads", 104),
    "a_log_that_goes_on_after_a_snapshot_was_copied": Recorded("log rule", "Snapshots", 234),
    "a_sequence_check_skipped_after_a_leader_change": Recorded("log rule", "Producer Order", 71),
    "a_truncation_that_keeps_the_producers": Recorded("log rule", "Producers Follow from the Log", 110),
    "an_aborted_list_cut_short": Recorded("log rule", "Atomic Reads", 104),
    "a_retention_that_goes_past_the_high_watermark": Recorded("log rule", "Log Start", 6703),
    "a_retention_that_forgets_the_policy": Recorded("log rule", "Log Start", 6657),
    "a_deletion_that_followers_do_not_follow": Recorded("log rule", "Log Start", 6657),
    "a_deletion_answered_before_the_followers_have_it": Recorded("log rule", "Log Start", 6657),
    "a_follower_that_keeps_what_is_below_its_leaders_start": Recorded("log rule", "Log Start", 6661),
    "a_cleaner_that_drops_the_newest_record_of_a_key": Recorded("log rule", "Compaction", 6657),
    "a_cleaner_that_goes_beyond_the_last_stable_offset": Recorded("log rule", "Compaction", 6662),
    "a_tombstone_dropped_at_once": Recorded("log rule", "Compaction", 6657),
    "a_marker_dropped_before_its_records": Recorded("log rule", "Compaction", 6657),
    "an_abort_forgotten_by_the_cleaner": Recorded("log rule", "Compaction", 6657),
    "a_swap_that_loses_a_segment_in_a_crash": Recorded("log rule", "Producers Follow from the Log", 6663),
    "a_coordinator_that_ignores_a_tombstone_when_loading": Recorded(
        "group coordinator", "A Coordinator Follows from Its Log", 6664
    ),
    "a_producer_forgotten_too_early": Recorded("log rule", "Producers Follow from the Log", 6657),
    "an_answer_matched_by_name_and_leader_epoch": Recorded("log rule", "Topic Ids", 3210),
    "no_truncation_on_divergence": Recorded("log rule", "Divergence", 6),
    "a_follower_that_serves_what_is_not_committed": Recorded("replication", "Consumers See What Is Committed", 8),
    "a_high_watermark_one_replica_short": Recorded("replication", "High Watermark", 64),
    "a_high_watermark_that_runs_back": Recorded("replication", "Monotonic High Watermark", 42),
    "acks_all_answered_at_the_log_end": Recorded("replication", "Durability", 64),
    "an_isr_grown_before_the_follower_caught_up": Recorded("replication", "In-Sync Replicas", 25),
    "a_fenced_broker_kept_in_the_isr": Recorded("election", "Image", 20),
    "a_preferred_leader_elected_outside_the_isr": Recorded("election", "Image", 407),
    "an_elr_member_kept_after_an_unclean_shutdown": Recorded("election", "Eligible Leader Replicas", 404),
    "a_reassignment_acknowledged_and_not_written": Recorded("reassignment", "Acknowledged Administration", 810),
    "a_reassignment_completed_one_replica_early": Recorded("reassignment", "Reassignments Keep Copies", 841),
    "a_commit_answered_before_it_is_appended": Recorded("group coordinator", "Members Own What Is Committed", 30),
    "a_commit_answered_before_it_is_committed": Recorded("group coordinator", "Members Own What Is Committed", 1),
    "a_commit_matched_by_its_generation_alone": Recorded("group coordinator", "Deleted Groups", 3201),
    "a_deleted_offset_kept_in_memory": Recorded("group coordinator", "Offsets That Are Read", 3210),
    "a_group_deleted_without_its_offsets": Recorded("group coordinator", "Deleted Groups", 3210),
    "a_member_forgotten_on_replay": Recorded("group coordinator", "A Coordinator Follows from Its Log", 2),
    "a_read_of_what_is_not_committed": Recorded("group coordinator", "Offsets That Are Read", 1),
    "a_session_timer_not_restarted_on_load": Recorded("group coordinator", "Member Sessions", 58),
    "a_stale_generation_accepted": Recorded("group coordinator", "Commits Come from Members", 1647),
    "a_stale_member_epoch_accepted": Recorded("group coordinator", "Commits Come from Members", 55),
    "a_target_assignment_from_an_older_epoch": Recorded("group coordinator", "Assignments of a Group", 73),
    "a_commit_that_a_new_coordinator_aborts": Recorded(
        "transaction coordinator", "A Coordinator Follows from Its Log", 155
    ),
    "a_marker_missing_on_one_partition": Recorded("transaction coordinator", "Markers", 100),
    "a_timeout_that_aborts_without_a_new_epoch": Recorded("transaction coordinator", "Markers", 120),
    "a_verification_skipped": Recorded("transaction coordinator", "Markers", 100),
    "an_old_epoch_not_fenced": Recorded("transaction coordinator", "One Identity", 117),
    "offsets_visible_before_the_marker": Recorded("transaction coordinator", "Atomic Reads", 112),
    "a_leader_that_counts_itself_after_its_removal": Recorded("voters", "Majority", 6402),
    "a_new_voter_whose_records_are_not_on_its_disk": Recorded("voters", "Majority", 6402),
    "a_removed_voter_whose_vote_counts": Recorded("voters", "Elected by Voters", 6413),
    "a_truncation_that_keeps_the_voters": Recorded("voters", "Voters of the Log", 6434),
    "an_observer_that_votes_for_itself": Recorded("voters", "Voters of the Log", 6413),
    "voters_that_hold_only_when_they_are_committed": Recorded("voters", "Voters of the Log", 6413),
    "a_deleted_topic_that_survives_a_snapshot": Recorded("snapshot", "One Image", 210),
    "a_log_start_moved_before_the_snapshot_is_durable": Recorded("snapshot", "A node's own rule", 215),
    "an_uncommitted_record_in_a_snapshot": Recorded("snapshot", "Snapshots", 287),
    "a_level_that_is_acknowledged_and_not_written": Recorded("feature level", "Acknowledged Administration", 201),
    "records_that_are_newer_than_the_level": Recorded("feature level", "Snapshots", 200),
    "a_session_evicted_while_in_use": Recorded("fetch session", "Fetch Sessions", 19),
    "a_session_that_forgets_a_changed_partition": Recorded("fetch session", "Fetch Sessions", 2),
    "a_late_answer_taken_for_the_next_one": Recorded("client", "Durability", 3281),
    "a_muted_connection_that_is_read_on": Recorded("quota", "Quotas", 25600),
    "one_tenant_charged_for_another": Recorded("quota", "Quotas", 25600),
    "precedence_turned_round": Recorded("quota", "Quotas", 25600),
    "a_denial_that_does_not_go_first": Recorded("ACL", "Rules of Access", 25650),
    "a_rule_that_is_removed_and_still_counts": Recorded("ACL", "Rules of Access", 25650),
    "wrong_line_0": Recorded("quorum rule", "Majority", 65),
    "wrong_line_1": Recorded("replication", "High Watermark", 65),
    "wrong_line_2": Recorded("replication", "Durability", 65),
    "wrong_line_3": Recorded("election", "Image", 62),
    "wrong_line_4": Recorded("group table", "Revoke before Assign", 57),
    "wrong_line_5": Recorded("transaction coordinator", "Atomic Reads", 104),
    "wrong_line_6": Recorded("quorum rule", "Election Safety", 63),
    "wrong_line_7": Recorded("log rule", "Committed Stays", 2),
    "wrong_line_8": Recorded("quorum rule", "Leader Completeness", 39),
    "wrong_line_9": Recorded("election", "Eligible Leader Replicas", 404),
    "wrong_line_10": Recorded("log rule", "Divergence", 5),
}
