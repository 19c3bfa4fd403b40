"""Adding and removing voters: AddRaftVoter and RemoveRaftVoter (KIP-853).

A voter set is a record of the log, and holds from when it is appended. Two sets that differ by one voter have no two
majorities without a voter in common. So the voters change one at a time, and the next change waits until the last one
is committed: then no majority of the set before it can elect a leader any more that has another idea of the voters.

The leader goes through these steps, and gives up at the first that fails:

====================================  ==================================================================
what must hold                        the error otherwise
====================================  ==================================================================
this node leads                       NOT_LEADER_OR_FOLLOWER
the request names id, directory id    INVALID_REQUEST
and (add) an address
no other change is under way          REQUEST_TIMED_OUT: the client asks again
a record of this epoch is committed   REQUEST_TIMED_OUT: an older leader's change may still come or go
``kraft.version`` is 1                UNSUPPORTED_VERSION
the last voter set is committed       REQUEST_TIMED_OUT
add: no voter has the id              DUPLICATE_VOTER
remove: it is a voter, not the last   VOTER_NOT_FOUND
add: the node answers ApiVersions     REQUEST_TIMED_OUT
add: it supports kraft.version 1      INVALID_REQUEST
add: it has caught up                 REQUEST_TIMED_OUT
*the VotersRecord is appended*
it is committed in time               REQUEST_TIMED_OUT: it may be committed later
====================================  ==================================================================

A majority of the *new* set commits the record. A leader that removes itself does not count for that, and resigns when
it is committed. A voter on another disk, with the same id, is another voter: remove the old one, then add the new one.

A controller that is no voter does both itself where ``controller.quorum.auto.join.enable`` says so (`wanted_change`).

Follows org.apache.kafka.raft.internals.{AddVoterHandler,RemoveVoterHandler} and pollFollowerAsObserver of
org.apache.kafka.raft.KafkaRaftClient, as of Kafka 4.2.
"""

from collections.abc import Mapping

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import ZERO_UUID, Endpoint, Node, ReplicaKey
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.messages.quorum import AddRaftVoterRequest, RemoveRaftVoterRequest
from pykraft.raft import config as keys
from pykraft.raft import wire
from pykraft.raft.leader_state import Outcome, VoterChange
from pykraft.raft.log.voters import STATIC_VOTERS, VersionRange, Voter, VoterSet
from pykraft.raft.replica import RaftReplica, voters_records

_KRAFT_VERSION = "kraft.version"


def add_voter(
    replica: RaftReplica, key: ReplicaKey, endpoints: Mapping[str, Endpoint], ack_when_committed: bool, now: int
) -> Promise[Outcome]:
    """Make this observer a voter. The promise is kept when that is committed; without `ack_when_committed` when it is
    appended."""
    refused = _refusal(replica, key)
    if refused is not None:
        return Promise.of(refused)
    if replica.listener_name not in endpoints:
        return _no(ErrorCode.INVALID_REQUEST, f"the new voter has no listener {replica.listener_name}")
    refused = _obstacle(replica)
    if refused is not None:
        return Promise.of(refused)
    voters = replica.control_records.voters
    if key.id in voters.voters:
        return _no(ErrorCode.DUPLICATE_VOTER, f"{_named(voters.voters[key.id].key)} is a voter: remove it first")
    address = endpoints[replica.listener_name]
    change = VoterChange(key)
    request = ApiVersionsRequest(client_software_name="pykraft", client_software_version="voter")

    def on_versions(_: Node, response: ApiVersionsResponse, then: int) -> bool:
        return _on_versions(replica, change, endpoints, response, ack_when_committed, then)

    if not replica.voting.send(Node(key.id, address.host, address.port), request, on_versions, now):
        return _no(ErrorCode.REQUEST_TIMED_OUT, f"{_named(key)} has not answered the last request yet")
    _begin(replica, change, now)
    return change.outcome


def remove_voter(replica: RaftReplica, key: ReplicaKey, now: int) -> Promise[Outcome]:
    """Take this voter out of the voter set. The promise is kept when that is committed."""
    refused = _refusal(replica, key) or _obstacle(replica)
    if refused is not None:
        return Promise.of(refused)
    voters = replica.control_records.voters
    if key not in voters.keys:
        return _no(ErrorCode.VOTER_NOT_FOUND, f"{_named(key)} is no voter; the voters are {_listed(voters)}")
    if len(voters.voters) == 1:
        return _no(ErrorCode.VOTER_NOT_FOUND, f"{_named(key)} is the only voter: add another one first")
    change = VoterChange(key)
    _begin(replica, change, now)
    _append(replica, change, voters.without_voter(key), now)
    return change.outcome


def _refusal(replica: RaftReplica, key: ReplicaKey) -> Outcome | None:
    """What is wrong with the request itself, whatever the quorum does."""
    if replica.leader is None or replica.is_removed:
        return Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if key.id < 0 or key.directory_id == ZERO_UUID:
        return Outcome(ErrorCode.INVALID_REQUEST, f"{_named(key)} is no voter: an id and a directory id name one")
    return None


def _obstacle(replica: RaftReplica) -> Outcome | None:
    """Why this leader can change no voters now."""
    leader, records = replica.leader, replica.control_records
    assert leader is not None
    if leader.change is not None:
        return Outcome(ErrorCode.REQUEST_TIMED_OUT, f"another change is under way: that of {_named(leader.change.key)}")
    if leader.high_watermark is None:
        return Outcome(ErrorCode.REQUEST_TIMED_OUT, f"the leader has committed nothing yet in its epoch {leader.epoch}")
    if records.kraft_version == STATIC_VOTERS:
        return Outcome(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{_KRAFT_VERSION} is {records.kraft_version}: the voters change from level 1 on",
        )
    if records.history.latest_offset >= leader.high_watermark:
        return Outcome(
            ErrorCode.REQUEST_TIMED_OUT,
            f"the voters at offset {records.history.latest_offset} are not committed: the high watermark is "
            f"{leader.high_watermark}",
        )
    return None


def _begin(replica: RaftReplica, change: VoterChange, now: int) -> None:
    """From now on no other change begins, until this one is made or its time is up."""
    leader = replica.leader
    assert leader is not None and leader.change is None

    def expire(_: int) -> None:
        if leader.change is change:
            leader.end_change(
                Outcome(ErrorCode.REQUEST_TIMED_OUT, f"the change of {_named(change.key)} was not made in time")
            )

    leader.change = change
    change.expiry = replica.timer.at(now + replica.config[keys.REQUEST_TIMEOUT_MS], expire)


def _append(replica: RaftReplica, change: VoterChange, voters: VoterSet, now: int) -> None:
    leader = replica.leader
    assert leader is not None
    leader.put_off_check(now)
    replica.write_control(voters_records(voters)[1:])
    change.offset = replica.control_records.history.latest_offset
    replica.trace("voters", voters=voters.ids, offset=change.offset)
    leader.note_committed_change()  # a majority may have been this leader alone


def _on_versions(
    replica: RaftReplica,
    change: VoterChange,
    endpoints: Mapping[str, Endpoint],
    response: ApiVersionsResponse,
    ack_when_committed: bool,
    now: int,
) -> bool:
    """The new voter says which levels of ``kraft.version`` it supports."""
    leader, level = replica.leader, replica.control_records.kraft_version
    if leader is None or leader.change is not change or change.offset is not None:
        return True
    found = [feature for feature in response.supported_features or () if feature.name == _KRAFT_VERSION]
    levels = [VersionRange(feature.min_version, feature.max_version) for feature in found]
    if response.error_code:
        error = ErrorCode.of(response.error_code)
        leader.end_change(
            Outcome(ErrorCode.REQUEST_TIMED_OUT, f"{_named(change.key)} answers ApiVersions with {error.name}")
        )
    elif not levels or not levels[0].minimum <= level <= levels[0].maximum:
        spoken = f"{levels[0].minimum} to {levels[0].maximum}" if levels else "none"
        leader.end_change(
            Outcome(
                ErrorCode.INVALID_REQUEST,
                f"{_named(change.key)} does not support {_KRAFT_VERSION} {level}, only {spoken}",
            )
        )
    elif not leader.is_caught_up(change.key, now):
        leader.end_change(
            Outcome(ErrorCode.REQUEST_TIMED_OUT, f"{_named(change.key)} has not caught up with the leader")
        )
    else:
        voter = Voter(change.key, endpoints, levels[0])
        _append(replica, change, replica.control_records.voters.with_voter(voter), now)
        if not ack_when_committed and not change.outcome.kept:
            change.outcome.keep(Outcome(ErrorCode.NONE))
    return not response.error_code


def wanted_change(replica: RaftReplica) -> AddRaftVoterRequest | RemoveRaftVoterRequest | None:
    """What a controller that is no voter asks the leader for, to become one: that it is added, or first that the voter
    with its id and another directory is removed; None where it is to stay an observer."""
    records = replica.control_records
    is_wanted = replica.can_become_voter and replica.config[keys.AUTO_JOIN]
    if not is_wanted or records.kraft_version == STATIC_VOTERS or replica.quorum.is_voter:
        return None
    local = replica.local_voter
    old = records.voters.voters.get(local.key.id)
    if old is not None:
        return wire.remove_request(replica.cluster_id, old.key)
    return wire.add_request(replica.cluster_id, local, replica.config[keys.REQUEST_TIMEOUT_MS])


def _named(key: ReplicaKey) -> str:
    return f"node {key.id} with directory id {key.directory_id}"


def _listed(voters: VoterSet) -> str:
    return ", ".join(map(_named, voters.keys))


def _no(error: ErrorCode, message: str) -> Promise[Outcome]:
    return Promise.of(Outcome(error, message))
