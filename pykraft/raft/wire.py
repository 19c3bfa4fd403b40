"""Raft's messages, each about one partition: ``__cluster_metadata-0``.

The messages could carry several topics and partitions; there is one quorum, so requests for anything else are refused.
These helpers put the one partition in and take it out again.

Follows org.apache.kafka.raft.RaftUtil.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pykraft.common.errors import ErrorCode
from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID, Endpoint, Node, OffsetAndEpoch, ReplicaKey, Uuid
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, LeaderIdAndEpoch
from pykraft.protocol.messages.data import NodeEndpoint as FetchNodeEndpoint
from pykraft.protocol.messages.quorum import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ListenerEndpoint,
    NodeEndpoint,
    RemoveRaftVoterRequest,
    SnapshotId,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoteRequest,
    VoteResponse,
)
from pykraft.raft.log.replicated_log import Validation, Verdict
from pykraft.raft.log.voters import VersionRange, Voter

NO_LEADER = -1
_NO_SNAPSHOT = OffsetAndEpoch(0, 0)


class View(NamedTuple):
    """What a node tells of epoch and leader in every answer."""

    epoch: int
    leader_id: int | None
    leader: Node | None

    @property
    def leader_or_none(self) -> int:
        return NO_LEADER if self.leader_id is None else self.leader_id

    @property
    def endpoints(self) -> list[NodeEndpoint]:
        if self.leader is None:
            return []
        return [NodeEndpoint(node_id=self.leader.id, host=self.leader.host, port=self.leader.port)]


def only_partition(message: Any) -> Any | None:
    """The metadata partition in a request or response; None if it is about anything else."""
    topics: Any = message.responses if isinstance(message, FetchResponse) else message.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic, partition = topics[0], topics[0].partitions[0]
    if isinstance(message, FetchRequest | FetchResponse):
        is_metadata = topic.topic_id == METADATA_TOPIC_ID or topic.topic == METADATA_TOPIC
    elif isinstance(message, FetchSnapshotRequest | FetchSnapshotResponse):
        is_metadata = topic.name == METADATA_TOPIC
    else:
        is_metadata = topic.topic_name == METADATA_TOPIC
    if isinstance(message, FetchRequest | FetchSnapshotRequest):
        index = partition.partition
    else:
        index = partition.index if isinstance(message, FetchSnapshotResponse) else partition.partition_index
    return partition if is_metadata and index == 0 else None


def view_of(response: Any, partition: Any) -> View:
    """What the sender of a response knows of epoch and leader."""
    if isinstance(response, UpdateRaftVoterResponse):
        leader = response.current_leader or UpdateRaftVoterResponse.CurrentLeader(host="", port=0)
        if leader.leader_id < 0:
            return View(leader.leader_epoch, None, None)
        node = Node(leader.leader_id, leader.host, leader.port) if leader.host else None
        return View(leader.leader_epoch, leader.leader_id, node)
    if isinstance(response, FetchResponse | FetchSnapshotResponse):
        current = partition.current_leader or LeaderIdAndEpoch()
        leader_id, epoch = current.leader_id, current.leader_epoch
    else:
        leader_id, epoch = partition.leader_id, partition.leader_epoch
    nodes = [Node(e.node_id, e.host, e.port) for e in response.node_endpoints if e.node_id == leader_id]
    return View(epoch, None if leader_id < 0 else leader_id, nodes[0] if nodes else None)


# --- votes ------------------------------------------------------------------------------------------------------------


def vote_request(
    cluster_id: str, epoch: int, candidate: ReplicaKey, voter: ReplicaKey, end: OffsetAndEpoch, pre_vote: bool
) -> VoteRequest:
    partition = VoteRequest.Topic.Partition(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=candidate.id,
        replica_directory_id=candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=end.epoch,
        last_offset=end.offset,
        pre_vote=pre_vote,
    )
    topic = VoteRequest.Topic(topic_name=METADATA_TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def vote_response(view: View, error: ErrorCode, granted: bool) -> VoteResponse:
    partition = VoteResponse.Topic.Partition(
        partition_index=0,
        error_code=error,
        leader_id=view.leader_or_none,
        leader_epoch=view.epoch,
        vote_granted=granted,
    )
    topic = VoteResponse.Topic(topic_name=METADATA_TOPIC, partitions=[partition])
    return VoteResponse(topics=[topic], node_endpoints=view.endpoints)


# --- beginning and end of a leadership --------------------------------------------------------------------------------


def begin_request(
    cluster_id: str, epoch: int, leader_id: int, endpoints: Sequence[ListenerEndpoint], voter: ReplicaKey
) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochRequest.Topic.Partition(
        partition_index=0, voter_directory_id=voter.directory_id, leader_id=leader_id, leader_epoch=epoch
    )
    topic = BeginQuorumEpochRequest.Topic(topic_name=METADATA_TOPIC, partitions=[partition])
    return BeginQuorumEpochRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic], leader_endpoints=endpoints)


def begin_response(view: View, error: ErrorCode) -> BeginQuorumEpochResponse:
    partition = BeginQuorumEpochResponse.Topic.Partition(
        partition_index=0, error_code=error, leader_id=view.leader_or_none, leader_epoch=view.epoch
    )
    topic = BeginQuorumEpochResponse.Topic(topic_name=METADATA_TOPIC, partitions=[partition])
    return BeginQuorumEpochResponse(topics=[topic], node_endpoints=view.endpoints)


def end_request(
    cluster_id: str,
    epoch: int,
    leader_id: int,
    endpoints: Sequence[ListenerEndpoint],
    successors: Sequence[ReplicaKey],
) -> EndQuorumEpochRequest:
    partition_type = EndQuorumEpochRequest.Topic.Partition
    partition = partition_type(
        partition_index=0,
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=[key.id for key in successors],
        preferred_candidates=[
            partition_type.Candidate(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in successors
        ],
    )
    topic = EndQuorumEpochRequest.Topic(topic_name=METADATA_TOPIC, partitions=[partition])
    return EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic], leader_endpoints=endpoints)


def end_response(view: View, error: ErrorCode) -> EndQuorumEpochResponse:
    partition = EndQuorumEpochResponse.Topic.Partition(
        partition_index=0, error_code=error, leader_id=view.leader_or_none, leader_epoch=view.epoch
    )
    topic = EndQuorumEpochResponse.Topic(topic_name=METADATA_TOPIC, partitions=[partition])
    return EndQuorumEpochResponse(topics=[topic], node_endpoints=view.endpoints)


# --- what a voter is --------------------------------------------------------------------------------------------------


def update_request(cluster_id: str, epoch: int, voter: Voter) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=_listeners(voter),
        kraft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(
            min_supported_version=voter.kraft_versions.minimum, max_supported_version=voter.kraft_versions.maximum
        ),
    )


def add_request(cluster_id: str, voter: Voter, timeout_ms: int) -> AddRaftVoterRequest:
    """The controller that sends it wants to vote. It does not wait for the commit: it has to fetch for that."""
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=_listeners(voter),
        ack_when_committed=False,
    )


def remove_request(cluster_id: str, key: ReplicaKey) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=key.id, voter_directory_id=key.directory_id)


def _listeners(voter: Voter) -> list[ListenerEndpoint]:
    return [
        ListenerEndpoint(name=name, host=endpoint.host, port=endpoint.port)
        for name, endpoint in sorted(voter.endpoints.items())
    ]


def endpoints_of(listeners: Sequence[ListenerEndpoint]) -> dict[str, Endpoint]:
    return {listener.name: Endpoint(listener.host, listener.port) for listener in listeners}


def voter_of(request: UpdateRaftVoterRequest) -> Voter:
    """What a voter says of itself."""
    return Voter(
        ReplicaKey(request.voter_id, request.voter_directory_id),
        endpoints_of(request.listeners),
        VersionRange(
            request.kraft_version_feature.min_supported_version, request.kraft_version_feature.max_supported_version
        ),
    )


def update_response(view: View, error: ErrorCode) -> UpdateRaftVoterResponse:
    host, port = ("", 0) if view.leader is None else (view.leader.host, view.leader.port)
    leader = UpdateRaftVoterResponse.CurrentLeader(
        leader_id=view.leader_or_none, leader_epoch=view.epoch, host=host, port=port
    )
    return UpdateRaftVoterResponse(error_code=error, current_leader=leader)


# --- fetching ---------------------------------------------------------------------------------------------------------


def fetch_request(
    cluster_id: str,
    local: ReplicaKey,
    epoch: int,
    end: OffsetAndEpoch,
    high_watermark: int,
    max_wait_ms: int,
    max_bytes: int,
) -> FetchRequest:
    partition = FetchRequest.Topic.Partition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=end.offset,
        last_fetched_epoch=end.epoch,
        partition_max_bytes=0,
        replica_directory_id=local.directory_id,
        high_watermark=high_watermark,
    )
    topic = FetchRequest.Topic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return FetchRequest(
        cluster_id=cluster_id,
        replica_id=local.id,
        replica_state=FetchRequest.ReplicaState(replica_id=local.id),
        max_wait_ms=max_wait_ms,
        min_bytes=0,
        max_bytes=max_bytes,
        topics=[topic],
    )


def fetch_response(
    view: View,
    error: ErrorCode,
    log_start_offset: int,
    high_watermark: int | None = None,
    records: Any = b"",
    validation: Validation | None = None,
) -> FetchResponse:
    partition_type = FetchResponse.Topic.Partition
    partition = partition_type(
        partition_index=0,
        error_code=error,
        high_watermark=-1 if high_watermark is None else high_watermark,
        log_start_offset=log_start_offset,
        current_leader=LeaderIdAndEpoch(leader_id=view.leader_or_none, leader_epoch=view.epoch),
        records=records,
    )
    if validation is not None and validation.verdict is Verdict.DIVERGING:
        partition.diverging_epoch = partition_type.EpochEndOffset(
            epoch=validation.place.epoch, end_offset=validation.place.offset
        )
    elif validation is not None and validation.verdict is Verdict.SNAPSHOT:
        partition.snapshot_id = partition_type.SnapshotId(
            epoch=validation.place.epoch, end_offset=validation.place.offset
        )
    topic = FetchResponse.Topic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    endpoints = [FetchNodeEndpoint(node_id=e.node_id, host=e.host, port=e.port) for e in view.endpoints]
    return FetchResponse(responses=[topic], node_endpoints=endpoints)


def snapshot_request(
    cluster_id: str, local: ReplicaKey, epoch: int, snapshot: OffsetAndEpoch, position: int, max_bytes: int
) -> FetchSnapshotRequest:
    partition = FetchSnapshotRequest.Topic.Partition(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=local.directory_id,
    )
    topic = FetchSnapshotRequest.Topic(name=METADATA_TOPIC, partitions=[partition])
    return FetchSnapshotRequest(cluster_id=cluster_id, replica_id=local.id, max_bytes=max_bytes, topics=[topic])


def snapshot_response(
    view: View,
    error: ErrorCode,
    snapshot: OffsetAndEpoch = _NO_SNAPSHOT,
    size: int = 0,
    position: int = 0,
    piece: Any = b"",
) -> FetchSnapshotResponse:
    partition_type = FetchSnapshotResponse.Topic.Partition
    partition = partition_type(
        index=0,
        error_code=error,
        snapshot_id=SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        current_leader=partition_type.CurrentLeader(leader_id=view.leader_or_none, leader_epoch=view.epoch),
        size=size,
        position=position,
        unaligned_records=piece,
    )
    topic = FetchSnapshotResponse.Topic(name=METADATA_TOPIC, partitions=[partition])
    return FetchSnapshotResponse(topics=[topic], node_endpoints=view.endpoints)


def replica_of(request: FetchRequest, directory_id: Uuid) -> ReplicaKey:
    """Which replica fetches: until version 14 it says so in the request itself, then in a tagged field."""
    state = request.replica_state
    return ReplicaKey(request.replica_id if state is None else state.replica_id, directory_id)
