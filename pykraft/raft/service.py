"""What the other controllers, brokers and tools ask of this replica: votes, fetches, and how the quorum is.

Follows the handle...Request methods of org.apache.kafka.raft.KafkaRaftClient.
"""

from pykraft.common.core import Promise, Steps
from pykraft.common.errors import ErrorCode
from pykraft.common.types import Node, OffsetAndEpoch, ReplicaKey
from pykraft.protocol.messages.data import FetchRequest, FetchResponse
from pykraft.protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoteRequest,
    VoteResponse,
)
from pykraft.raft import config as keys
from pykraft.raft import wire
from pykraft.raft.leader_state import Outcome
from pykraft.raft.log.replicated_log import Verdict
from pykraft.raft.log.snapshot import BOOTSTRAP_SNAPSHOT
from pykraft.raft.quorum_description import describe_quorum
from pykraft.raft.quorum_state import Follower, Prospective, Unattached, grants_vote
from pykraft.raft.replica import RaftReplica, unavailable
from pykraft.raft.voter_changes import add_voter, remove_voter
from pykraft.raft.voter_updates import update_voter

HIGHEST_EPOCH = (1 << 31) - (1 << 16)
"""Each election needs an epoch more, and there are 2^31. A peer that names one above this is not believed: a node that
took it over would soon have no epoch left to be elected in. But if the quorum has come there, its next elections go
on."""
HIGHEST_EPOCH_OF_ANSWERS = HIGHEST_EPOCH + (1 << 15)
"""From answers a node that was away learns how far the others are."""
_ELECTIONS_AHEAD = 1 << 10


def is_too_high(epoch: int, known: int) -> bool:
    """Whether a node that knows the epoch `known` must not believe in this one."""
    return epoch > HIGHEST_EPOCH and epoch - known > _ELECTIONS_AHEAD


class RaftService:
    """Answers requests. Each names the cluster it is meant for, and most an epoch: an older one is refused, a newer one
    is taken over first."""

    def __init__(self, replica: RaftReplica) -> None:
        self._replica = replica

    # --- elections ----------------------------------------------------------------------------------------------------

    def vote(self, request: VoteRequest, now: int) -> VoteResponse:
        self._replica.room.mark("vote")
        replica = self._replica
        partition = wire.only_partition(request)
        if self._is_foreign(request.cluster_id):
            return VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if partition is None:
            return VoteResponse(error_code=ErrorCode.INVALID_REQUEST)
        end = OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch)
        # A candidate has raised the epoch, so no record of that epoch can be in its log; who only asks, may have some.
        newest = partition.replica_epoch if partition.pre_vote else partition.replica_epoch - 1
        is_valid = end.offset >= 0 and 0 <= end.epoch <= newest and partition.replica_id >= 0
        if not is_valid or is_too_high(partition.replica_epoch, replica.epoch):
            return wire.vote_response(replica.view, ErrorCode.INVALID_REQUEST, granted=False)
        if partition.replica_epoch < replica.epoch:
            return wire.vote_response(replica.view, ErrorCode.FENCED_LEADER_EPOCH, granted=False)
        if partition.replica_epoch > replica.epoch:
            replica.become_unattached(partition.replica_epoch, None, now)
        if not self._is_meant(request.voter_id, partition.voter_directory_id):
            return wire.vote_response(replica.view, ErrorCode.INVALID_VOTER_KEY, granted=False)
        candidate = ReplicaKey(partition.replica_id, partition.replica_directory_id)
        up_to_date = replica.log.is_up_to_date(end)
        role = replica.quorum.role
        granted = candidate.id != replica.local.id and grants_vote(role, candidate, up_to_date, partition.pre_vote)
        if granted and not partition.pre_vote and isinstance(role, Unattached | Prospective) and role.voted is None:
            replica.quorum.give_vote(candidate, now)
        return wire.vote_response(replica.view, ErrorCode.NONE, granted)

    def begin_quorum_epoch(self, request: BeginQuorumEpochRequest, now: int) -> BeginQuorumEpochResponse:
        self._replica.room.mark("begin")
        replica = self._replica
        partition = wire.only_partition(request)
        if self._is_foreign(request.cluster_id):
            return BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if partition is None:
            return BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
        error = self._heed_leader(partition.leader_id, partition.leader_epoch, request.leader_endpoints, now)
        if error is ErrorCode.NONE and not self._is_meant(request.voter_id, partition.voter_directory_id):
            error = ErrorCode.INVALID_VOTER_KEY
        return wire.begin_response(replica.view, error)

    def end_quorum_epoch(self, request: EndQuorumEpochRequest, now: int) -> EndQuorumEpochResponse:
        self._replica.room.mark("end")
        replica = self._replica
        partition = wire.only_partition(request)
        if self._is_foreign(request.cluster_id):
            return EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if partition is None:
            return EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
        error = self._heed_leader(partition.leader_id, partition.leader_epoch, request.leader_endpoints, now)
        role = replica.quorum.role
        if error is ErrorCode.NONE and isinstance(role, Follower) and role.leader_id == partition.leader_id:
            successors = [ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in partition.preferred_candidates]
            successors = successors or [ReplicaKey(successor) for successor in partition.preferred_successors]
            replica.quorum.hasten_election(now + self._election_backoff_ms(successors))
        return wire.end_response(replica.view, error)

    def _heed_leader(self, leader_id: int, epoch: int, endpoints: object, now: int) -> ErrorCode:
        """A node says that it leads (or led) this epoch."""
        replica = self._replica
        if epoch < replica.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        nodes = [
            Node(leader_id, endpoint.host, endpoint.port)
            for endpoint in endpoints  # type: ignore[attr-defined]
            if endpoint.name == replica.listener_name
        ]
        view = wire.View(epoch, leader_id, nodes[0] if nodes else None)
        is_self = leader_id == replica.local.id
        if leader_id < 0 or is_self or is_too_high(epoch, replica.epoch) or replica.contradicts(view):
            return ErrorCode.INVALID_REQUEST
        replica.follow(view, now)
        return ErrorCode.NONE

    def _election_backoff_ms(self, successors: list[ReplicaKey]) -> int:
        """The first successor stands at once, the others wait the longer the later they come."""
        longest_ms = self._replica.config[keys.ELECTION_BACKOFF_MAX_MS]
        known = [key.id for key in successors]
        if self._replica.local.id not in known:
            return longest_ms
        position = known.index(self._replica.local.id)
        return 0 if position == 0 else min(longest_ms, longest_ms >> (len(known) - 1) << (position - 1))

    def _is_foreign(self, cluster_id: str | None) -> bool:
        return cluster_id not in (None, self._replica.cluster_id)

    def _is_meant(self, voter_id: int, directory_id: bytes) -> bool:
        """Whether a request for this voter is for this node, on this disk. Old versions do not say."""
        local = self._replica.local
        return voter_id == -1 or (
            voter_id == local.id and (not any(directory_id) or directory_id == local.directory_id)
        )

    # --- replication --------------------------------------------------------------------------------------------------

    def fetch(self, request: FetchRequest, now: int) -> Promise[FetchResponse]:
        """A replica or observer reads. Answered at once if there is anything to tell, else within ``max_wait_ms``."""
        self._replica.room.mark("fetch")
        partition = wire.only_partition(request)
        if self._is_foreign(request.cluster_id):
            return Promise.of(FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, responses=[]))
        if partition is None:
            return Promise.of(FetchResponse(error_code=ErrorCode.INVALID_REQUEST, responses=[]))
        replica = self._replica
        newest = partition.current_leader_epoch
        is_valid = request.max_wait_ms >= 0 and partition.fetch_offset >= 0
        if not is_valid or not 0 <= partition.last_fetched_epoch <= newest:
            return Promise.of(unavailable(replica.view, ErrorCode.INVALID_REQUEST, replica.log))
        key = wire.replica_of(request, partition.replica_directory_id)
        response = self._try_fetch(key, partition, request.max_bytes, now)
        answer = response.responses[0].partitions[0]
        is_news = answer.diverging_epoch is not None or answer.snapshot_id is not None
        is_news = is_news or len(answer.records or b"") > 0 or partition.high_watermark < answer.high_watermark
        if answer.error_code or is_news or request.max_wait_ms == 0:
            return Promise.of(response)
        # The follower was counted above; answering again later must not count it as of later.
        return replica.park(
            partition.fetch_offset, lambda: self._read(partition, request.max_bytes), now + request.max_wait_ms
        )

    def fetch_snapshot(self, request: FetchSnapshotRequest, now: int) -> FetchSnapshotResponse:
        """A replica that is behind the log's start copies a snapshot, piece by piece."""
        self._replica.room.mark("snapshot")
        replica = self._replica
        if self._is_foreign(request.cluster_id):
            return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        partition = wire.only_partition(request)
        if partition is None or request.max_bytes <= 0:
            return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        error = self._fetch_error(partition.current_leader_epoch)
        if error is not ErrorCode.NONE or replica.leader is None:
            return wire.snapshot_response(replica.view, error)
        snapshot = OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        # The first one is of an empty log: each node was formatted with its own.
        if snapshot == BOOTSTRAP_SNAPSHOT or not replica.log.has_snapshot(snapshot):
            return wire.snapshot_response(replica.view, ErrorCode.SNAPSHOT_NOT_FOUND)
        size = replica.log.snapshots.size(snapshot)
        if not 0 <= partition.position < size:
            return wire.snapshot_response(replica.view, ErrorCode.POSITION_OUT_OF_RANGE)
        max_bytes = min(request.max_bytes, replica.config[keys.FETCH_MAX_BYTES])
        piece = replica.log.snapshots.read(snapshot, partition.position, max_bytes)
        replica.leader.heard_of(ReplicaKey(request.replica_id, partition.replica_directory_id), now)
        return wire.snapshot_response(replica.view, ErrorCode.NONE, snapshot, size, partition.position, piece)

    def _try_fetch(
        self, key: ReplicaKey, partition: FetchRequest.Topic.Partition, max_bytes: int, now: int
    ) -> FetchResponse:
        replica = self._replica
        error = self._fetch_error(partition.current_leader_epoch)
        if error is not ErrorCode.NONE or replica.leader is None:
            return unavailable(replica.view, error, replica.log)
        if key.id == replica.local.id:
            return unavailable(replica.view, ErrorCode.INVALID_REQUEST, replica.log)
        validation = replica.log.validate(partition.fetch_offset, partition.last_fetched_epoch)
        is_valid = validation.verdict is Verdict.VALID
        if is_valid and replica.leader.update_replica(key, partition.fetch_offset, replica.log.end_offset, now):
            replica.on_high_watermark()
        return self._read(partition, max_bytes)

    def _read(self, partition: FetchRequest.Topic.Partition, max_bytes: int) -> FetchResponse:
        """The answer to a fetch, as of now."""
        replica = self._replica
        error = self._fetch_error(partition.current_leader_epoch)
        if error is not ErrorCode.NONE or replica.leader is None:
            return unavailable(replica.view, error, replica.log)
        validation = replica.log.validate(partition.fetch_offset, partition.last_fetched_epoch)
        is_valid = validation.verdict is Verdict.VALID
        records = replica.log.read(partition.fetch_offset, max_bytes) if is_valid else b""
        return wire.fetch_response(
            replica.view,
            ErrorCode.NONE,
            replica.log.start_offset,
            replica.leader.high_watermark,
            records,
            validation,
        )

    def _fetch_error(self, epoch: int) -> ErrorCode:
        if epoch < self._replica.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self._replica.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self._replica.leader is not None else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # --- what a voter is ----------------------------------------------------------------------------------------------

    def update_raft_voter(self, request: UpdateRaftVoterRequest, now: int) -> UpdateRaftVoterResponse:
        """A voter tells the leader of its directory, its endpoints and the levels of ``kraft.version`` it supports."""
        self._replica.room.mark("update")
        replica = self._replica
        if self._is_foreign(request.cluster_id):
            return wire.update_response(replica.view, ErrorCode.INCONSISTENT_CLUSTER_ID)
        error = self._fetch_error(request.current_leader_epoch)
        if error is ErrorCode.NONE:
            error = update_voter(replica, wire.voter_of(request), now)
        return wire.update_response(replica.view, error)

    def add_raft_voter(self, request: AddRaftVoterRequest, now: int) -> Promise[AddRaftVoterResponse]:
        """An administrator, or the observer itself, wants it to vote."""
        self._replica.room.mark("change")
        if self._is_foreign(request.cluster_id):
            outcome = Promise.of(self._foreign(request.cluster_id))
        else:
            key, endpoints = (
                ReplicaKey(request.voter_id, request.voter_directory_id),
                wire.endpoints_of(request.listeners),
            )
            outcome = add_voter(self._replica, key, endpoints, request.ack_when_committed, now)
        return outcome.map(lambda made: AddRaftVoterResponse(error_code=made.error, error_message=made.message))

    def remove_raft_voter(self, request: RemoveRaftVoterRequest, now: int) -> Promise[RemoveRaftVoterResponse]:
        """An administrator wants this voter to vote no more, or another replica with its id, on another disk."""
        self._replica.room.mark("change")
        if self._is_foreign(request.cluster_id):
            outcome = Promise.of(self._foreign(request.cluster_id))
        else:
            key = ReplicaKey(request.voter_id, request.voter_directory_id)
            outcome = remove_voter(self._replica, key, now)
        return outcome.map(lambda made: RemoveRaftVoterResponse(error_code=made.error, error_message=made.message))

    def _foreign(self, cluster_id: str | None) -> Outcome:
        own = self._replica.cluster_id
        return Outcome(ErrorCode.INCONSISTENT_CLUSTER_ID, f"the request is for cluster {cluster_id}, but this is {own}")

    # --- tools --------------------------------------------------------------------------------------------------------

    def describe_quorum(self, request: DescribeQuorumRequest, now: int) -> Steps[DescribeQuorumResponse]:
        return describe_quorum(self._replica, request, now)
