"""What came of a simulated run: a report, or the seed and the step at which it failed.

Both name the seed, for a seed is all that it takes to run the same history again. A report counts what the run has
brought about, and has a digest of everything that was reported: equal runs have equal digests. Its line names what
happened in this history, and nothing that did not.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pykraft.sim.laws.names import law_of
from pykraft.sim.laws.progress import Progress

WORDS = {
    "elections": ("election", "elections"),
    "truncations": ("truncation", "truncations"),
    "isr_changes": ("ISR change", "ISR changes"),
    "acknowledged": ("record acknowledged", "records acknowledged"),
    "consumed": ("record consumed", "records consumed"),
    "consumed_from_followers": ("of them from a follower", "of them from followers"),
    "crashes": ("crash", "crashes"),
    "classic_rebalances": ("rebalance of classic groups", "rebalances of classic groups"),
    "classic_members_lost": ("member of classic groups lost", "members of classic groups lost"),
    "classic_coordinator_moves": ("coordinator of classic groups lost", "coordinators of classic groups lost"),
    "consumer_rebalances": ("rebalance of consumer groups", "rebalances of consumer groups"),
    "consumer_members_lost": ("member of consumer groups lost", "members of consumer groups lost"),
    "consumer_coordinator_moves": ("coordinator of consumer groups lost", "coordinators of consumer groups lost"),
    "committed": ("transaction committed", "transactions committed"),
    "aborted": ("transaction aborted", "transactions aborted"),
    "timed_out": ("transaction timed out", "transactions timed out"),
    "fenced": ("producer fenced by another one", "producers fenced by another one"),
    "moves_ongoing": ("coordinator lost with an open transaction", "coordinators lost with an open transaction"),
    "moves_prepare_commit": (
        "coordinator lost during a commit",
        "coordinators lost during a commit",
    ),
    "moves_prepare_abort": (
        "coordinator lost during an abort",
        "coordinators lost during an abort",
    ),
    "snapshots_written": ("snapshot written", "snapshots written"),
    "snapshots_loaded": ("snapshot loaded", "snapshots loaded"),
    "log_starts_moved": ("log start moved", "log starts moved"),
    "preferred_elections": ("preferred election", "preferred elections"),
    "unclean_elections": ("unclean election", "unclean elections"),
    "last_known_elections": ("election of the last known leader", "elections of the last known leader"),
    "elr_elections": ("election from the ELR", "elections from the ELR"),
    "reassignments_completed": ("reassignment completed", "reassignments completed"),
    "reassignments_cancelled": ("reassignment cancelled", "reassignments cancelled"),
    "topics_deleted": ("topic deleted", "topics deleted"),
    "groups_deleted": ("group deleted", "groups deleted"),
    "voters_added": ("voter added", "voters added"),
    "voters_removed": ("voter removed", "voters removed"),
    "leaders_removed": ("leader removed by itself", "leaders removed by themselves"),
    "disks_wiped": ("controller's disk lost", "controllers' disks lost"),
    "wiped_voters_removed": ("voter removed whose disk was lost", "voters removed whose disks were lost"),
    "wiped_voters_back": ("voter added again on another disk", "voters added again on other disks"),
    "partition_starts_moved": ("log start of a partition moved", "log starts of partitions moved"),
    "logs_begun_again": ("log begun again at its leader's start", "logs begun again at their leader's start"),
    "logs_cleaned": ("log compacted", "logs compacted"),
    "deletions": ("deletion of records acknowledged", "deletions of records acknowledged"),
    "keys_written": ("record with a key acknowledged", "records with keys acknowledged"),
    "keys_read": ("record with a key read", "records with keys read"),
    "producers_forgotten": ("producer forgotten", "producers forgotten"),
    "settings_changed": ("change of settings acknowledged", "changes of settings acknowledged"),
    "levels_changed": ("change of a feature's level acknowledged", "changes of features' levels acknowledged"),
    "appends_refused": ("append refused for lack of replicas", "appends refused for lack of replicas"),
    "minutes_slept": ("minute slept by all machines", "minutes slept by all machines"),
    "disks_rotten": ("disk with rotten bytes", "disks with rotten bytes"),
    "damage_met": ("damaged batch found by its checksum", "damaged batches found by their checksums"),
    "disks_filled": ("disk filled", "disks filled"),
    "processes_without_room": ("process ended by a full disk", "processes ended by a full disk"),
    "disks_replaced": ("broker's disk replaced", "brokers' disks replaced"),
    "clock_jumps": ("clock set", "clocks set"),
    "directories_failed": ("log directory failed", "log directories failed"),
    "directories_replaced": ("log directory replaced", "log directories replaced"),
    "directory_moves": ("replica moved to another directory", "replicas moved to other directories"),
    "moves_cut": ("move ended by a failed directory", "moves ended by failed directories"),
    "foreign_answers": ("answer to a stranger", "answers to strangers"),
    "member_commits": ("commit of a member's transaction", "commits of members' transactions"),
    "member_commits_refused": ("commit of a member's transaction refused", "commits of members' transactions refused"),
    "client_cuts": ("cut between clients and one side", "cuts between clients and one side"),
    "falls": ("leader fallen in a cascade", "leaders fallen in cascades"),
    "burdens": ("request for much answered", "requests for much answered"),
    "long_turns": ("long turn", "long turns"),
    "partitions_added": ("partition added to a topic of groups", "partitions added to topics of groups"),
    "rights_denied": ("right denied for a moment", "rights denied for a moment"),
    "members_expelled": ("member expelled", "members expelled"),
    "seeks": ("seek", "seeks"),
}
"""Of each count of `Progress`, in its order: how one is called, and how more are. Events are the steps."""


@dataclass(frozen=True)
class Report:
    """What came of a run."""

    seed: int
    progress: Progress
    steps: int
    virtual_ms: int
    digest: str
    """A hash of everything that was reported: equal runs have equal digests."""

    def __str__(self) -> str:
        happened = ", ".join(self._happened()) or "nothing happened"
        took = f"{self.steps:,} steps, {self.virtual_ms / 1000:.1f} s"
        return f"seed {self.seed}: {took}: {happened}; digest {self.digest}"

    def _happened(self) -> Iterator[str]:
        for name, (one, more) in WORDS.items():
            if count := getattr(self.progress, name):
                yield f"{count:,} {one if count == 1 else more}"


class SimulationFailed(AssertionError):  # noqa: N818 (it tells what happened)
    """A law was broken, or a node died. The message names the seed that shows it again."""

    def __init__(self, seed: int, step: int, now: int, cause: BaseException) -> None:
        super().__init__(
            f"seed {seed}, step {step}, {now} ms: {type(cause).__name__}: {cause}\n"
            f"again: python -m pykraft simulate {seed}"
        )
        self.seed = seed
        self.step = step
        self.law = law_of(cause)
        """The name of the law that was broken; `sim.laws.names` has what it says."""
        self.found = str(cause)
