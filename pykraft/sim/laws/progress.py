"""What a run has brought about: a simulator that has gone to sleep breaks no law, either."""

from dataclasses import dataclass


@dataclass
class Progress:
    """What a run has brought about."""

    elections: int = 0
    truncations: int = 0
    isr_changes: int = 0
    acknowledged: int = 0
    consumed: int = 0
    consumed_from_followers: int = 0
    """Those that a reader has fetched while a leader had sent it to a follower."""
    crashes: int = 0
    classic_rebalances: int = 0
    """Generations of classic groups whose assignment was committed."""
    classic_members_lost: int = 0
    classic_coordinator_moves: int = 0
    """Shards of the group coordinator that were lost while classic groups had work in flight there."""
    consumer_rebalances: int = 0
    """Epochs of consumer groups whose target assignment was committed."""
    consumer_members_lost: int = 0
    consumer_coordinator_moves: int = 0
    committed: int = 0
    """Transactions that a producer knows to be committed."""
    aborted: int = 0
    timed_out: int = 0
    """Producers that were fenced because their transaction took too long."""
    fenced: int = 0
    """Producers that were fenced by another one."""
    moves_ongoing: int = 0
    """Shards of the transaction coordinator that were lost while a transaction was open there."""
    moves_prepare_commit: int = 0
    """And while markers of a commit were still to be written."""
    moves_prepare_abort: int = 0
    snapshots_written: int = 0
    snapshots_loaded: int = 0
    """Copied from a leader whose log began later."""
    log_starts_moved: int = 0
    preferred_elections: int = 0
    """Leaderships that went back to the first replica from another that was in sync."""
    unclean_elections: int = 0
    last_known_elections: int = 0
    """Of the last known leader, where ISR and ELR are empty (KIP-966). They need no leave, and are
    recovered like unclean ones."""
    elr_elections: int = 0
    """Leaders that came from the ELR."""
    reassignments_completed: int = 0
    reassignments_cancelled: int = 0
    topics_deleted: int = 0
    groups_deleted: int = 0
    voters_added: int = 0
    voters_removed: int = 0
    leaders_removed: int = 0
    """Leaders that have removed themselves from the voters."""
    disks_wiped: int = 0
    """Of controllers."""
    wiped_voters_removed: int = 0
    wiped_voters_back: int = 0
    """Those that were added again, on another disk."""
    partition_starts_moved: int = 0
    """Log starts of replicas of partitions that rose."""
    logs_begun_again: int = 0
    """Replicas that ended below their leader's log start, and begin there."""
    logs_cleaned: int = 0
    """Passes of the cleaner."""
    deletions: int = 0
    """DeleteRecords that were acknowledged."""
    keys_written: int = 0
    keys_read: int = 0
    producers_forgotten: int = 0
    settings_changed: int = 0
    """Requests that were acknowledged, for one setting or more."""
    levels_changed: int = 0
    """Of features; also to the one that there was."""
    appends_refused: int = 0
    """Because too few replicas were in sync."""
    minutes_slept: int = 0
    """While all machines were suspended."""
    disks_rotten: int = 0
    """Of brokers."""
    damage_met: int = 0
    """Batches that failed their checksum when a consumer got them, or a follower."""
    disks_filled: int = 0
    processes_without_room: int = 0
    """That have ended because a disk was full."""
    disks_replaced: int = 0
    """By older ones, or by empty ones: of brokers."""
    clock_jumps: int = 0
    directories_failed: int = 0
    """Log directories whose disk has broken; one that is replaced later, too."""
    directories_replaced: int = 0
    directory_moves: int = 0
    """Replicas that have moved between the directories of a broker."""
    moves_cut: int = 0
    """Moves from or to a directory that failed."""
    foreign_answers: int = 0
    """Requests of strangers that were answered."""
    member_commits: int = 0
    """Offsets that a transaction has committed for a member of a consumer group, by request."""
    member_commits_refused: int = 0
    client_cuts: int = 0
    """Cuts that part clients from one side, or from a coordinator."""
    falls: int = 0
    """Leaders of a cascade that have crashed."""
    burdens: int = 0
    """Requests for much that were answered."""
    long_turns: int = 0
    """Turns of nodes that took more than a few milliseconds of work."""
    partitions_added: int = 0
    """To topics that a group reads, while it does."""
    rights_denied: int = 0
    """Of a group or its topic, for a moment."""
    members_expelled: int = 0
    seeks: int = 0
    events: int = 0

    def count(self, protocol: str, what: str, by: int = 1) -> None:
        """Something befell a group of this protocol."""
        name = f"{protocol}_{what}"
        setattr(self, name, getattr(self, name) + by)

    def __add__(self, other: "Progress") -> "Progress":
        return Progress(
            *(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True))
        )
