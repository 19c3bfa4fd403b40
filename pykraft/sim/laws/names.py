"""The laws by name, and what each of them says: for a person who reads how a history has failed.

A check does not say which law it is of. The place where it stands does: `SITES` has the functions that find a
violation, and `law_of` looks for the innermost of them in the traceback of an error.
"""

from collections.abc import Iterator
from traceback import walk_tb
from types import CodeType

from pykraft.sim.laws.invariants import Violation, require

OWN = "A node's own rule"
"""The law that no watcher keeps, but the node itself."""

LAWS = {
    # --- of every log
    "Log Matching": "where two logs hold the same offset with the same epoch, they are equal up to there",
    "State Machine Safety": "what is committed at an offset is the same for every replica, for ever",
    "Leader Completeness": "the leader of an epoch has everything that was committed in earlier epochs",
    "Order of a Log": "a log has no gaps, and its epochs do not go down",
    "Epochs of a Log": "a log that was truncated knows where each epoch that it has left begins, and no other epochs",
    "Committed Stays": "no replica truncates what is committed, nor lacks it when its process starts again",
    # --- of the quorum
    "Election Safety": "an epoch has one leader, and the epoch of a node never goes back",
    "One Vote": "a voter votes once in an epoch, also if its process ends in between",
    "Majority": "what the metadata quorum takes for committed is on the disks of a majority of the voters, and "
    "ends with a record of the leader's own epoch",
    "Monotonic High Watermark": "the high watermark never goes back",
    "Voters of the Log": "a node goes by the last voter set in its own log, committed or not, and a snapshot has the "
    "one that holds at its offset",
    "Elected by Voters": "a node leads only as a voter, with the votes of a majority of the voters, each on its disk",
    "One Voter at a Time": "the voters change by one at a time, after the last change and a record of the leader's own "
    "epoch are committed",
    # --- of partitions
    "High Watermark": "a leader's high watermark is not above the log of any replica that is in sync",
    "In-Sync Replicas": "a replica joins the ISR only when its log reaches the high watermark",
    "Eligible Leader Replicas": "a member of the ELR has everything that is committed",
    "Producer Order": "each batch of a producer is in the log once, and in the order of its sequence numbers",
    "Exactly Once in the Log": "a record that was sent once is in its partition once, and offsets have no gaps",
    "Durability": "an acknowledged record is committed, at the offset that was acknowledged",
    "Consumers See What Is Committed": "a consumer gets the committed records, each once and in order",
    "Topic Ids": "a log holds records of its own topic id only, not those of another topic of the same name",
    "Divergence": "a leader that refuses a follower's fetch says where their two logs part, and the follower truncates "
    "to there",
    "Fetch Sessions": "both ends of a fetch session know the same partitions, and what is quiet there lacks nothing",
    "Reassignments Keep Copies": "a reassignment ends only when every new replica has what is committed",
    "Producers Follow from the Log": "what a replica knows of producers and transactions is what its log says",
    "Log Start": "a log begins later only by retention, by DeleteRecords or after its leader, never above the high "
    "watermark, and what it had deleted does not come back",
    "Compaction": "a compacted log keeps the newest record of each key, and what a transaction needs to be read",
    # --- of the metadata
    "Image": "a leader is in its ISR, the ISR is among the replicas, and a fenced broker leads nothing",
    "Replicas Follow the Image": "a broker has the replicas that the metadata give it, in their state, and no others",
    "Changes Are Told": "what the parts of a node hear of a new image is all that differs from the one before",
    "One Image": "every node has the same image at the same offset, and it is what the log alone gives",
    "Record Versions": "no record of the metadata log is newer than the cluster's metadata.version allows",
    "Snapshots": "a snapshot is what was committed before its offset, and a log goes on where the snapshot ends",
    "Acknowledged Administration": "what was acknowledged to an administrator is in the metadata",
    # --- of groups
    "Assignments of a Group": "a partition has one owner in a generation or an epoch, generations do not go back, and "
    "a member has what is for it: also a static one that comes again, or one that named a pattern",
    "Members Own What Is Committed": "a member owns only what a committed assignment gives it",
    "Revoke before Assign": "a partition is assigned to a member only after its owner before has given it up",
    "Commits Come from Members": "an offset is committed by a member that may commit now, and does not go back",
    "Acknowledged Commits": "an offset commit that was acknowledged is committed",
    "Offsets That Are Read": "an offset that is read is a committed one, and of a topic that is there",
    "No Record Skipped": "a group reads on from where it has committed, and skips no record",
    "Every Partition Has an Owner": "soon after all is quiet, each partition of a topic that a group subscribes to has "
    "one owner in the group, also a new one",
    "Deleted Groups": "of a group that was deleted nothing stays, and its members before may not commit",
    "A Coordinator Follows from Its Log": "what a coordinator holds in memory is what its log says",
    "Member Sessions": "every member of a group has a session on its coordinator, which ends without heartbeats",
    # --- of transactions
    "One Identity": "two producers that are not fenced never share a producer id and an epoch",
    "Atomic Reads": "a reader of committed data sees all records of committed transactions once, and no others",
    "The Bank's Total": "transfers move money, and neither make nor lose any",
    "Markers": "a transaction is written and ended in one epoch of its producer",
    "Time of a Transaction": "a transaction is as old as its first partition, and neither its id nor its producer is "
    "forgotten before it ends",
    # --- of settings and levels
    "Settings in Force": "a node goes by what the metadata say of a setting, from the moment that it knows",
    "Enough Replicas": "an append is acknowledged when as many logs as demanded have it, and refused for too few",
    "Unclean Elections Are Allowed": "a replica that may lack records leads only where a setting allows it then",
    "Levels Are Supported": "no feature has a level that a registered broker does not support",
    # --- of disks and clocks
    "Damage Is Found": "bytes that rot fail a checksum: no replica appends them, and after a crash no start trusts "
    "them where they were not known to be synced",
    "A Failed Directory Is Offline": "a process whose only log directory has failed at a write does nothing more",
    "A Replaced Disk Is Not in Sync": "a broker on another disk is in an ISR only with everything that is committed",
    "Clocks May Be Set": "what waits for a time waits by a clock that only goes on, whatever the wall clock says",
    # --- of log directories
    "A Failed Directory Takes Its Own": "a broker goes on with its other log directories, and what is there is served",
    "Others Lead What Has Failed": "the controller soon hears of a failed directory: its broker leads nothing of it, "
    "and another replica that is in sync does",
    "A Moved Replica Is Whole": "the copy of a log that moves is a beginning of it, and becomes the only log once it "
    "has everything",
    "Nothing of a Failed Directory": "what was in a failed directory is not served, nor made again in another, until "
    "the broker has begun again with it",
    "Directories Are Known": "in the end the metadata name the directories of each broker, and that of each replica",
    # --- of limits and rights
    "Quotas": "no client gets more bytes than its quota, and none is throttled for what another one used",
    "Rules of Access": "all nodes have the same rules, and allow by them what a look at each rule allows",
    "Proven Identity": "a request counts as that of the host that sent it, and a server is the one that was meant",
    "Handshakes End": "a client that does not prove who it is in time is disconnected",
    "Refusals Have Names": "a client or stranger that is refused hears one of the reasons that there are for it",
    # --- of time and memory
    "Turns Are Short": "a node's thread looks after itself in time, however much its clients ask for",
    "Being Busy Is Not Being Dead": "a broker that runs and is reached is not fenced, however many requests it gets",
    "What a Node Holds": "what a node keeps is bounded by what its clients have open and by its settings",
    # --- of strangers
    "Every Request Is Answered": "any well-formed request gets a whole answer of its own version, in time; a "
    "connection is closed instead only where no answer is wanted",
    "No Right, No Deed": "a client without rights is granted nothing, and nothing that it asks for is done",
    # --- of answers
    "True Answers": "what a node answers about its logs, producers, transactions, settings and partitions is so",
    "What Is Stale Is Refused": "a request with an epoch, a generation or a sequence number that does not hold now "
    "changes nothing, nor does one of a member or a replica that there is not",
    # --- of the cluster as a whole
    "Sleeping Rooms": "a part of a node that sleeps has nothing to do",
    "Recovery": "when the trouble has ended, the cluster recovers, and soon everything is committed and read",
    OWN: "the node's own code asserts what it relies on, and ends when that is not so",
}
"""What each law says, as a clause after its name."""

_GROUP = "Assignments of a Group"
SITES = {
    "CommittedLog.check_matching": "Log Matching",
    "CommittedLog.commit": "State Machine Safety",
    "CommittedLog.check_leader": "Leader Completeness",
    "CommittedLog.check_kept": "Committed Stays",
    "ReplicaLog._add": "Order of a Log",
    "ReplicaLog._begin_with": "Snapshots",
    "_IncarnationLog.check_matching": "Topic Ids",
    "Election.observe_votes": "One Vote",
    "Election.observe": "Election Safety",
    "ProducerOrder.observe": "Producer Order",
    "PartitionHistory.commit": "Exactly Once in the Log",
    "PartitionHistory.take": "Exactly Once in the Log",
    "PartitionHistory.acknowledge": "Durability",
    "PartitionHistory.consume": "Consumers See What Is Committed",
    "IncarnationReader._read": "Consumers See What Is Committed",
    "check_high_watermark": "High Watermark",
    "check_isr": "In-Sync Replicas",
    "check_image": "Image",
    "check_elr": "Eligible Leader Replicas",
    "Watcher._look_at_quorum": "Monotonic High Watermark",
    "Watcher._look_at_partition": "Monotonic High Watermark",
    "MajorityLaw.check": "Majority",
    "MajorityLaw.check_leader": "Majority",
    "Watcher.on_trace": "A Coordinator Follows from Its Log",
    "check_record_versions": "Record Versions",
    "SnapshotLaws.check": "Snapshots",
    "SnapshotLaws.check_copied": "Snapshots",
    "SnapshotLaws.check_image": "One Image",
    "SnapshotLaws._replay_to": "Snapshots",
    "_check_replicas": "Replicas Follow the Image",
    "_check_given": "Settings in Force",
    "check_images": "One Image",
    "_compare": "One Image",
    "Administrator.check": "Acknowledged Administration",
    "TopicRecreator.check": "Acknowledged Administration",
    "Reassignments.check": "Acknowledged Administration",
    "ReassignmentLaws._change": "Reassignments Keep Copies",
    "check_epochs": "Epochs of a Log",
    "check_producers": "Producers Follow from the Log",
    "_check_entry": "Producers Follow from the Log",
    "check_shard": "A Coordinator Follows from Its Log",
    "check_no_shard": "A Coordinator Follows from Its Log",
    "_check_view": "Offsets That Are Read",
    "_check_fetch_session": "Fetch Sessions",
    "_check_quiet": "Fetch Sessions",
    "_check_log_start": "Fetch Sessions",
    "_check_members": "Member Sessions",
    "check_refused": "Divergence",
    "MovingLogLaws.look": "Log Start",
    "MovingLogLaws._check_start": "Log Start",
    "MovingLogLaws._check_reason": "Log Start",
    "MovingLogLaws.on_deleted": "Log Start",
    "MovingLogLaws.check_end": "Log Start",
    "check_begun_again": "Log Start",
    "RecordsOfLog.check_may_be_gone": "Compaction",
    "RecordsOfLog.check_marker_may_be_gone": "Compaction",
    "MovingLogLaws.check_content": "Compaction",
    "MovingLogLaws._note_gone": "Compaction",
    "MovingReplicaLog._add_any": "Order of a Log",
    "MovingReplicaLog._assume_next": "Order of a Log",
    "check_part": "Compaction",
    "MovingLogLaws._check_aborted": "Atomic Reads",
    "MovingLogLaws.check_shown": "Consumers See What Is Committed",
    "MovingLogLaws.check_skipped": "Consumers See What Is Committed",
    "MovingLogLaws.check_producers": "Producers Follow from the Log",
    "SettingLaws._check_partition": "Settings in Force",
    "SettingLaws._check_config": "Settings in Force",
    "AnswerLaws._check_heartbeat": "Settings in Force",
    "AnswerLaws._check_append": "Enough Replicas",
    "AnswerLaws._check_copies": "Enough Replicas",
    "SettingLaws._change": "Unclean Elections Are Allowed",
    "check_levels": "Levels Are Supported",
    "Promises.check": "Acknowledged Administration",
    "VoterLaws.check": "Voters of the Log",
    "VoterLaws.check_elected": "Elected by Voters",
    "VoterLaws.check_snapshot": "Voters of the Log",
    "VoterLaws._check_one_at_a_time": "One Voter at a Time",
    "ClassicGroupLaws.on_group_record": _GROUP,
    "ClassicGroupLaws.own": "Members Own What Is Committed",
    "ClassicGroupLaws.check_group": "A Coordinator Follows from Its Log",
    "ConsumerGroupLaws._on_group": _GROUP,
    "ConsumerGroupLaws._on_target": _GROUP,
    "ConsumerGroupLaws._on_assignment": _GROUP,
    "ConsumerGroupLaws._check_target": _GROUP,
    "ConsumerGroupLaws._check_given_up": "Revoke before Assign",
    "ConsumerGroupLaws.send_heartbeat": "Revoke before Assign",
    "ConsumerGroupLaws.hear_heartbeat": "Members Own What Is Committed",
    "ConsumerGroupLaws.own": "Members Own What Is Committed",
    "ConsumerGroupLaws.check_group": "A Coordinator Follows from Its Log",
    "GroupLaws.on_record": "Commits Come from Members",
    "GroupLaws._on_commit": "Commits Come from Members",
    "GroupLaws.send_commit": "No Record Skipped",
    "GroupLaws._acknowledge": "Acknowledged Commits",
    "GroupLaws.hear_offsets": "Offsets That Are Read",
    "GroupLaws.read": "No Record Skipped",
    "_StormLaws._forget": "Deleted Groups",
    "_StormLaws.check_pattern": _GROUP,
    "_StormLaws.check_owners": "Every Partition Has an Owner",
    "StormConsumerGroupLaws.check_join": "Members Own What Is Committed",
    "TopicChanger.check": "Acknowledged Administration",
    "Seeker.check_record": "Consumers See What Is Committed",
    "_CommittedReads._pass_over": "No Record Skipped",
    "_CommittedReads.check_passed": "No Record Skipped",
    "TransactionalCommitLaws._check": "Commits Come from Members",
    "GroupLaws.check_readers": "Offsets That Are Read",
    "GroupLaws.check_shard": "A Coordinator Follows from Its Log",
    "RecreatedGroupLaws._on_offset": "Deleted Groups",
    "RecreatedGroupLaws.hear_commit": "Acknowledged Commits",
    "RecreatedGroupLaws.hear_deletion": "Deleted Groups",
    "RecreatedGroupLaws.hear_offsets": "Offsets That Are Read",
    "RecreatedGroupLaws.check_readers": "Offsets That Are Read",
    "RecreatedGroupLaws.check_shard": "A Coordinator Follows from Its Log",
    "Ledger.note_identity": "One Identity",
    "Ledger.read": "Atomic Reads",
    "Ledger.check_shown": "Atomic Reads",
    "Ledger._compare": "Atomic Reads",
    "Ledger.check_total": "The Bank's Total",
    "TransactionalHistory.observe": "Markers",
    "TransactionalHistory._check_marker": "Markers",
    "ChecksummedLog.check_matching": "Damage Is Found",
    "check_start": "Damage Is Found",
    "DiskLaws._check_offline": "A Failed Directory Is Offline",
    "OtherDisks._check_joining": "A Replaced Disk Is Not in Sync",
    "OtherDisks._check_in_sync": "A Replaced Disk Is Not in Sync",
    "Sessions.check_fenced": "Clocks May Be Set",
    "_DeletedFiles.look": "Clocks May Be Set",
    "DirectoryLaws.note_end": "A Failed Directory Takes Its Own",
    "DirectoryLaws._check_served": "A Failed Directory Takes Its Own",
    "Fences.check_fenced": "A Failed Directory Takes Its Own",
    "DirectoryLaws._check_leaders": "Others Lead What Has Failed",
    "DirectoryLaws._check_leader": "Others Lead What Has Failed",
    "DirectoryLaws._require_beginning": "A Moved Replica Is Whole",
    "DirectoryLaws.on_moved": "A Moved Replica Is Whole",
    "DirectoryLaws._check_places": "Nothing of a Failed Directory",
    "DirectoryLaws.check_end": "Directories Are Known",
    "Rereader._read": "Consumers See What Is Committed",
    "QuotaLaws.see": "Quotas",
    "QuotaLaws._check_written": "Quotas",
    "QuotaLaws._check_throttled": "Quotas",
    "SecurityLaws.see_request": "Proven Identity",
    "SecurityLaws.see_streams": "Handshakes End",
    "SecurityLaws.see_certificate": "Proven Identity",
    "SecurityLaws.see_refusal": "Refusals Have Names",
    "Asker._on_answer": "Refusals Have Names",
    "_Visit.received": "Refusals Have Names",
    "check_rules": "Rules of Access",
    "check_same_rules": "Rules of Access",
    "LimitsWorkload.check": "Quotas",
    "WorkLaws._check_turn": "Turns Are Short",
    "WorkLaws._look_at_fences": "Being Busy Is Not Being Dead",
    "WorkLaws._check_held": "What a Node Holds",
    "check_answer": "Every Request Is Answered",
    "check_closed": "Every Request Is Answered",
    "check_in_time": "Every Request Is Answered",
    "_check_refused": "No Right, No Deed",
    "check_nothing_done": "No Right, No Deed",
    "_check_end": "True Answers",
    "_check_logs": "True Answers",
    "_check_lookup": "True Answers",
    "_check_epochs": "True Answers",
    "_check_described": "True Answers",
    "_check_metadata": "True Answers",
    "_check_settings": "True Answers",
    "_check_coordinators": "True Answers",
    "_check_transactions": "True Answers",
    "_refuses": "What Is Stale Is Refused",
    "_check_group": "What Is Stale Is Refused",
    "_check_no_deletion": "What Is Stale Is Refused",
    "_check_transaction": "What Is Stale Is Refused",
    "_check_times": "Time of a Transaction",
    "_check_repeated": "What Is Stale Is Refused",
    "_check_isr_changes": "What Is Stale Is Refused",
    "_check_block": "One Identity",
    "ChangeLaws.look": "Changes Are Told",
    "_check_both": "Changes Are Told",
    "_check_forgotten": "Time of a Transaction",
    "_check_producer_snapshot": "Producers Follow from the Log",
    "_check_truncation": "Divergence",
    "_check_validation": "Divergence",
    "_check_aborted": "Atomic Reads",
    "_check_cleaning": "Compaction",
    "_require_kept": "Voters of the Log",
    "_check_commits": "Majority",
    "_check_heir": _GROUP,
    "_check_emptied": _GROUP,
    "_check_loaded": "Member Sessions",
    "_check_patterns": _GROUP,
    "_check_deleted_topic": "Offsets That Are Read",
    "_check_kept_in_snapshot": "Snapshots",
    "_check_directory_gone": "Others Lead What Has Failed",
    "_check_cancelled": "Reassignments Keep Copies",
    "_check_told_again": "Directories Are Known",
    "_check_copy_truncated": "A Moved Replica Is Whole",
    "_check_unanswered": "High Watermark",
    "_check_news": "Fetch Sessions",
    "_check_late_commit": "Commits Come from Members",
    "_violation": "Sleeping Rooms",
    "SimulatedCluster._check_settled": "Recovery",
}
"""The law of each function that finds a violation, by the function's qualified name."""


def law_of(error: BaseException) -> str:
    """The name of the law that this error is about: a key of `LAWS`."""
    for each in _causes(error):
        if isinstance(each, Violation):
            found = [SITES.get(code.co_qualname) for code in _codes(each) if code is not require.__code__]
            return next((law for law in reversed(found) if law is not None), OWN)
    return OWN


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, the last one first: what wraps a violation is not what was found."""
    known: BaseException | None = error
    while known is not None:
        yield known
        known = known.__cause__ or known.__context__


def _codes(error: BaseException) -> Iterator[CodeType]:
    return (frame.f_code for frame, _ in walk_tb(error.__traceback__))
