"""How the quorum is, for tools: who leads, and how far each replica has come.

Follows handleDescribeQuorumRequest of org.apache.kafka.raft.KafkaRaftClient.
"""

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode
from pykraft.common.types import METADATA_TOPIC
from pykraft.protocol.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse, ListenerEndpoint
from pykraft.raft import wire
from pykraft.raft.leader_state import ReplicaProgress
from pykraft.raft.replica import RaftReplica


def describe_quorum(replica: RaftReplica, request: DescribeQuorumRequest, now: int) -> Steps[DescribeQuorumResponse]:
    """The state of the one quorum that there is. A client that asks for others, or for several, gets an error
    for each: in steps, for they may be many."""
    topic_type = DescribeQuorumResponse.Topic
    if wire.only_partition(request) is None:
        errors = []
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                partitions.append(_no_quorum(asked.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                yield
            errors.append(topic_type(topic_name=topic.topic_name, partitions=partitions))
        return DescribeQuorumResponse(topics=errors)
    leader = replica.leader
    if leader is None:
        partition = _no_quorum(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return DescribeQuorumResponse(topics=[topic_type(topic_name=METADATA_TOPIC, partitions=[partition])])
    leader.forget_silent_observers(now)
    partition = topic_type.Partition(
        partition_index=0,
        leader_id=replica.local.id,
        leader_epoch=leader.epoch,
        high_watermark=-1 if leader.high_watermark is None else leader.high_watermark,
        current_voters=[_described(replica, leader.voters[voter_id], now) for voter_id in sorted(leader.voters)],
        observers=[_described(replica, leader.observers[key], now) for key in sorted(leader.observers)],
    )
    return DescribeQuorumResponse(
        topics=[topic_type(topic_name=METADATA_TOPIC, partitions=[partition])], nodes=_nodes(replica)
    )


def _no_quorum(index: int, error: ErrorCode) -> DescribeQuorumResponse.Topic.Partition:
    return DescribeQuorumResponse.Topic.Partition(
        partition_index=index,
        error_code=error,
        error_message=error.text,
        leader_epoch=0,
        current_voters=[],
        observers=[],
    )


def _described(
    replica: RaftReplica, progress: ReplicaProgress, now: int
) -> DescribeQuorumResponse.Topic.Partition.ReplicaState:
    """Tools want the time of day."""
    is_leader = progress.key.matches(replica.local)
    time_ms = replica.clock.time_ms()
    fetched, caught_up = progress.last_fetch, progress.last_caught_up
    return DescribeQuorumResponse.Topic.Partition.ReplicaState(
        replica_id=progress.key.id,
        replica_directory_id=progress.key.directory_id,
        log_end_offset=-1 if progress.end_offset is None else progress.end_offset,
        last_fetch_timestamp=time_ms if is_leader else -1 if fetched < 0 else time_ms - (now - fetched),
        last_caught_up_timestamp=time_ms if is_leader else -1 if caught_up < 0 else time_ms - (now - caught_up),
    )


def _nodes(replica: RaftReplica) -> list[DescribeQuorumResponse.Node]:
    voters = replica.control_records.voters
    return [
        DescribeQuorumResponse.Node(
            node_id=voter_id,
            listeners=[
                ListenerEndpoint(name=name, host=endpoint.host, port=endpoint.port)
                for name, endpoint in sorted(voters.voters[voter_id].endpoints.items())
            ],
        )
        for voter_id in voters.ids
    ]
