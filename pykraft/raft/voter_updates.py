"""What voters tell the leader of themselves, and the change that needs it: ``kraft.version`` from 0 to 1.

At kraft.version 1 the log has each voter's directory id, endpoints and range of levels. A voter that is reached
elsewhere after a restart, or that runs other software, sends UpdateRaftVoter. The leader writes a voter set with the
new entry. A leader whose own entry is wrong writes it with the first records of its epoch.

At kraft.version 0 the log has no voters, and the static ones have no directory ids. So every voter sends
UpdateRaftVoter to each new leader, and the leader keeps what it hears in memory, as its *volatile voters*::

    before                leader: itself known; voters 2 and 3 known by address alone
    UpdateRaftVoter x 2   leader: directory id, endpoints and range of levels of all three, in memory
    upgrade to 1          one batch: KRaftVersionRecord(1), VotersRecord(1, 2, 3 with their directory ids)

The level may be raised when every voter has said that it supports level 1; before that the upgrade is refused. Both
records are in one batch, so a replica has both or neither. The level holds from when it is appended. If the leader dies
before the batch is committed, and the next leader does not have it, then the level is 0 on every replica again: those
that have the batch truncate it. The new leader knows nothing of the voters until they have told it. The level never
goes down.

Follows org.apache.kafka.raft.internals.{UpdateVoterHandler,KRaftVersionUpgrade} and maybeAppendUpgradedKRaftVersion of
org.apache.kafka.raft.LeaderState.
"""

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID
from pykraft.raft.log.voters import STATIC_VOTERS, Voter, VoterSet
from pykraft.raft.replica import RaftReplica, voters_records


def update_voter(replica: RaftReplica, voter: Voter, now: int) -> ErrorCode:
    """As the leader: keep what a voter says of itself, in memory or in the log. REQUEST_TIMED_OUT if it should try
    again later: this leadership has committed nothing yet, another voter set is not committed yet, or a voter is being
    added or removed."""
    leader, level = replica.leader, replica.control_records.kraft_version
    assert leader is not None
    low, high = voter.kraft_versions
    is_valid = voter.key.id >= 0 and voter.key.directory_id != ZERO_UUID and 0 <= low <= high
    if not is_valid or replica.listener_name not in voter.endpoints or voter.key.id == replica.local.id:
        return ErrorCode.INVALID_REQUEST
    voters = _current_voters(replica)
    if voters is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if not low <= level <= high:
        return ErrorCode.INVALID_REQUEST
    is_static = level == STATIC_VOTERS
    if voter.key.id not in voters.voters if is_static else not voters.is_voter(voter.key):
        return ErrorCode.VOTER_NOT_FOUND
    updated = voters.with_voter(voter)
    if is_static:
        leader.volatile_voters = updated
    else:
        replica.write_control(voters_records(updated)[1:])
    leader.heard_of(voter.key, now)
    return ErrorCode.NONE


def _current_voters(replica: RaftReplica) -> VoterSet | None:
    """The voters that an update changes; None while they cannot be changed."""
    leader, control_records = replica.leader, replica.control_records
    if leader is None or leader.high_watermark is None or leader.change is not None:
        return None
    if control_records.kraft_version == STATIC_VOTERS:
        return leader.volatile_voters
    is_committed = control_records.history.latest_offset < leader.high_watermark
    return control_records.voters if is_committed else None


def upgrade(replica: RaftReplica, level: int, validate_only: bool) -> None:
    """As the leader: raise the level of ``kraft.version``, or only see whether that is allowed. Nothing is to be done
    if it is there already. KafkaError(INVALID_UPDATE_VERSION) unless all voters have said that they support it."""
    leader, current = replica.leader, replica.control_records.kraft_version
    assert leader is not None
    if level == current:
        return
    if level < current:
        raise _refused(level, f"it is at {current}, and never goes down: the voters are in the log")
    voters = leader.volatile_voters
    assert voters is not None and voters.ids == replica.control_records.voters.ids, f"{voters} are not the voters"
    lacking = [str(voter_id) for voter_id, voter in sorted(voters.voters.items()) if not _supports(voter, level)]
    if lacking:
        raise _refused(
            level,
            f"not all of the voters support it: voter{'s' * (len(lacking) > 1)} {', '.join(lacking)} "
            f"{'have' if len(lacking) > 1 else 'has'} not told the leader so",
        )
    if not validate_only:
        leader.volatile_voters = None
        replica.write_control(voters_records(voters))
        replica.trace("kraft_version", level=level, voters=voters.ids)


def _supports(voter: Voter, level: int) -> bool:
    return voter.kraft_versions.minimum <= level <= voter.kraft_versions.maximum


def _refused(level: int, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"kraft.version cannot be {level}: {reason}")
