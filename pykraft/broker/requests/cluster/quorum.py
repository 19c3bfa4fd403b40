"""The quorum's own messages, on the controller listener.

Versions: Vote 0 to 2, BeginQuorumEpoch and EndQuorumEpoch 0 to 1, Fetch 4 to 18 (of the metadata log), FetchSnapshot 0
to 1, AddRaftVoter 0 to 1, RemoveRaftVoter 0, UpdateRaftVoter 0, DescribeQuorum 0 to 2. Each needs CLUSTER_ACTION on the
cluster, but of those that tools send AddRaftVoter and RemoveRaftVoter need ALTER, and DescribeQuorum needs DESCRIBE.

Follows kafka.server.ControllerApis.handleRaftRequest.
"""

from pykraft.broker.requests.authorizer import Authorizer, check_cluster
from pykraft.broker.requests.dispatch import Handlers
from pykraft.broker.requests.long_answers import Long
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation
from pykraft.common.core import Promise
from pykraft.protocol.messages.data import FetchRequest, FetchResponse
from pykraft.protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
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
from pykraft.raft.service import RaftService
from pykraft.transport.server_channel import RequestContext


class QuorumApis:
    """Passes the quorum's messages to this node's replica of the metadata log."""

    def __init__(self, raft: RaftService, authorizer: Authorizer) -> None:
        self._raft = raft
        self._authorizer = authorizer

    def vote(self, request: VoteRequest, context: RequestContext, now: int) -> VoteResponse:
        check_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        return self._raft.vote(request, now)

    def begin_quorum_epoch(
        self, request: BeginQuorumEpochRequest, context: RequestContext, now: int
    ) -> BeginQuorumEpochResponse:
        check_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        return self._raft.begin_quorum_epoch(request, now)

    def end_quorum_epoch(
        self, request: EndQuorumEpochRequest, context: RequestContext, now: int
    ) -> EndQuorumEpochResponse:
        check_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        return self._raft.end_quorum_epoch(request, now)

    def fetch(self, request: FetchRequest, context: RequestContext, now: int) -> Promise[FetchResponse]:
        check_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        return self._raft.fetch(request, now)

    def fetch_snapshot(self, request: FetchSnapshotRequest, context: RequestContext, now: int) -> FetchSnapshotResponse:
        check_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        return self._raft.fetch_snapshot(request, now)

    def add_raft_voter(
        self, request: AddRaftVoterRequest, context: RequestContext, now: int
    ) -> Promise[AddRaftVoterResponse]:
        check_cluster(self._authorizer, context, AclOperation.ALTER)
        return self._raft.add_raft_voter(request, now)

    def remove_raft_voter(
        self, request: RemoveRaftVoterRequest, context: RequestContext, now: int
    ) -> Promise[RemoveRaftVoterResponse]:
        check_cluster(self._authorizer, context, AclOperation.ALTER)
        return self._raft.remove_raft_voter(request, now)

    def update_raft_voter(
        self, request: UpdateRaftVoterRequest, context: RequestContext, now: int
    ) -> UpdateRaftVoterResponse:
        check_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        return self._raft.update_raft_voter(request, now)

    def describe_quorum(self, request: DescribeQuorumRequest, context: RequestContext, now: int) -> ItemByItem:
        check_cluster(self._authorizer, context, AclOperation.DESCRIBE)
        return ItemByItem((request,), self._raft.describe_quorum, lambda found, _: Long(found[0]))


HANDLERS: Handlers = {
    VoteRequest: QuorumApis.vote,
    BeginQuorumEpochRequest: QuorumApis.begin_quorum_epoch,
    EndQuorumEpochRequest: QuorumApis.end_quorum_epoch,
    FetchRequest: QuorumApis.fetch,
    FetchSnapshotRequest: QuorumApis.fetch_snapshot,
    AddRaftVoterRequest: QuorumApis.add_raft_voter,
    RemoveRaftVoterRequest: QuorumApis.remove_raft_voter,
    UpdateRaftVoterRequest: QuorumApis.update_raft_voter,
    DescribeQuorumRequest: QuorumApis.describe_quorum,
}
