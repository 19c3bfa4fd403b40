"""Messages of the controller quorum: votes, the leader's announcements, snapshots, and changes of the voter set.

Replication itself has no message here: a replica of the metadata log reads with Fetch, like any follower (KIP-595). A
voter is known by its id and the id of its metadata directory, so that one that came back on an empty disk is not taken
for the one that had voted; and leaders send where they can be reached (KIP-853). Each message could serve several
partitions, but there is one, `__cluster_metadata-0`.
"""

from pykraft.common.types import ZERO_UUID
from pykraft.protocol.listeners import BOTH, CONTROLLER
from pykraft.protocol.messages.data import NO_EPOCH
from pykraft.protocol.schema import (
    Array,
    Request,
    Response,
    Struct,
    boolean,
    field,
    int16,
    int32,
    int64,
    record_batches,
    string,
    uint16,
    uuid,
)

NO_LEADER = -1


class NodeEndpoint(Struct):
    """Where the leader that an answer names can be reached."""

    node_id: int32
    host: string
    port: uint16


class ListenerEndpoint(Struct):
    """Where a voter can be reached on its listener `name`."""

    name: string
    host: string
    port: uint16


class VoteRequest(Request, api=52, versions=(0, 2), flexible=0, listeners=CONTROLLER):
    """Will you vote for me, whose log ends here? With `pre_vote`, would you: nothing is written down, no epoch is
    raised, so a node that was cut off does not disturb the others when it returns (KIP-996)."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            replica_epoch: int32
            replica_id: int32
            replica_directory_id: uuid = field(default=ZERO_UUID, since=1)
            voter_directory_id: uuid = field(default=ZERO_UUID, since=1)
            last_offset_epoch: int32
            # The end of the log: the offset after the last record.
            last_offset: int64
            pre_vote: boolean = field(default=False, since=2)

        topic_name: string
        partitions: Array[Partition]

    cluster_id: string | None = field(default=None)
    voter_id: int32 = field(default=-1, since=1)
    topics: Array[Topic]


class VoteResponse(Response, to=VoteRequest):
    """The vote, and what the voter knows of epoch and leader."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            error_code: int16 = field(default=0)
            leader_id: int32 = field(default=NO_LEADER)
            leader_epoch: int32
            vote_granted: boolean = field(default=False)

        topic_name: string
        partitions: Array[Partition]

    error_code: int16 = field(default=0)
    topics: Array[Topic] = field(default=())
    node_endpoints: Array[NodeEndpoint] = field(default=(), since=1, tag=0)


class BeginQuorumEpochRequest(Request, api=53, versions=(0, 1), flexible=1, listeners=CONTROLLER):
    """I lead this epoch: sent by a new leader to the voters that do not fetch from it yet."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            voter_directory_id: uuid = field(default=ZERO_UUID, since=1)
            leader_id: int32
            leader_epoch: int32

        topic_name: string
        partitions: Array[Partition]

    cluster_id: string | None = field(default=None)
    voter_id: int32 = field(default=-1, since=1)
    topics: Array[Topic]
    leader_endpoints: Array[ListenerEndpoint] = field(default=(), since=1)


class BeginQuorumEpochResponse(Response, to=BeginQuorumEpochRequest):
    """What the voter knows of epoch and leader now."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            error_code: int16 = field(default=0)
            leader_id: int32 = field(default=NO_LEADER)
            leader_epoch: int32

        topic_name: string
        partitions: Array[Partition]

    error_code: int16 = field(default=0)
    topics: Array[Topic] = field(default=())
    node_endpoints: Array[NodeEndpoint] = field(default=(), since=1, tag=0)


class EndQuorumEpochRequest(Request, api=54, versions=(0, 1), flexible=1, listeners=CONTROLLER):
    """Sent by a leader that resigns because it shuts down, so that no voter waits for a timeout. The preferred
    candidates are in the order of their log end offsets: the first becomes a candidate at once, the others wait in that
    order."""

    class Topic(Struct):
        class Partition(Struct):
            class Candidate(Struct):
                candidate_id: int32 = field(default=-1, since=1)
                candidate_directory_id: uuid = field(default=ZERO_UUID, since=1)

            partition_index: int32
            leader_id: int32
            leader_epoch: int32
            preferred_successors: Array[int32] = field(default=(), until=0)
            preferred_candidates: Array[Candidate] = field(default=(), since=1)

        topic_name: string
        partitions: Array[Partition]

    cluster_id: string | None = field(default=None)
    topics: Array[Topic]
    leader_endpoints: Array[ListenerEndpoint] = field(default=(), since=1)


class EndQuorumEpochResponse(Response, to=EndQuorumEpochRequest):
    """What the voter knows of epoch and leader now."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            error_code: int16 = field(default=0)
            leader_id: int32 = field(default=NO_LEADER)
            leader_epoch: int32

        topic_name: string
        partitions: Array[Partition]

    error_code: int16 = field(default=0)
    topics: Array[Topic] = field(default=())
    node_endpoints: Array[NodeEndpoint] = field(default=(), since=1, tag=0)


class DescribeQuorumRequest(Request, api=55, versions=(0, 2), flexible=0, listeners=BOTH, forwardable=True):
    """How is the quorum? Asked by tools; a broker passes it on to the leader, since only it knows (KIP-595)."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32

        topic_name: string
        partitions: Array[Partition]

    topics: Array[Topic]


class DescribeQuorumResponse(Response, to=DescribeQuorumRequest):
    """The leader, its epoch and high watermark, and how far each voter and observer has fetched (KIP-836)."""

    class Topic(Struct):
        class Partition(Struct):
            class ReplicaState(Struct):
                replica_id: int32
                replica_directory_id: uuid = field(default=ZERO_UUID, since=2)
                log_end_offset: int64
                last_fetch_timestamp: int64 = field(default=-1, since=1)
                last_caught_up_timestamp: int64 = field(default=-1, since=1)

            partition_index: int32
            error_code: int16 = field(default=0)
            error_message: string | None = field(default=None, since=2)
            leader_id: int32 = field(default=NO_LEADER)
            leader_epoch: int32
            high_watermark: int64 = field(default=-1)
            current_voters: Array[ReplicaState]
            observers: Array[ReplicaState]

        topic_name: string
        partitions: Array[Partition]

    class Node(Struct):
        node_id: int32 = field(default=-1, since=2)
        listeners: Array[ListenerEndpoint] = field(default=(), since=2)

    error_code: int16 = field(default=0)
    error_message: string | None = field(default=None, since=2)
    topics: Array[Topic] = field(default=())
    nodes: Array[Node] = field(default=(), since=2)


class SnapshotId(Struct):
    """Which snapshot: it holds everything before `end_offset`, whose last record is of `epoch`."""

    end_offset: int64
    epoch: int32


class FetchSnapshotRequest(Request, api=59, versions=(0, 1), flexible=0, listeners=CONTROLLER):
    """Read a snapshot from byte `position` on: sent by a replica that the log no longer reaches back to (KIP-630)."""

    class Topic(Struct):
        class Partition(Struct):
            partition: int32
            current_leader_epoch: int32
            snapshot_id: SnapshotId
            position: int64
            replica_directory_id: uuid = field(default=ZERO_UUID, since=1, tag=0)

        name: string
        partitions: Array[Partition]

    cluster_id: string | None = field(default=None, tag=0)
    replica_id: int32 = field(default=-1)
    max_bytes: int32 = field(default=0x7FFFFFFF)
    topics: Array[Topic]


class FetchSnapshotResponse(Response, to=FetchSnapshotRequest):
    """A piece of the snapshot, which may begin and end in mid-batch."""

    class Topic(Struct):
        class Partition(Struct):
            class CurrentLeader(Struct):
                leader_id: int32
                leader_epoch: int32

            index: int32
            error_code: int16 = field(default=0)
            snapshot_id: SnapshotId
            current_leader: CurrentLeader | None = field(default=None, tag=0)
            size: int64
            position: int64
            unaligned_records: record_batches

        name: string
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    topics: Array[Topic] = field(default=())
    node_endpoints: Array[NodeEndpoint] = field(default=(), since=1, tag=0)


class AddRaftVoterRequest(Request, api=80, versions=(0, 1), flexible=0, listeners=BOTH, forwardable=True):
    """Make this observer, which has caught up, a voter (KIP-853). `ack_when_committed` false asks for an answer as soon
    as the leader has appended the change (KIP-1186)."""

    cluster_id: string | None = field(default=None)
    timeout_ms: int32
    voter_id: int32
    voter_directory_id: uuid
    listeners: Array[ListenerEndpoint]
    ack_when_committed: boolean = field(default=True, since=1)


class AddRaftVoterResponse(Response, to=AddRaftVoterRequest):
    """Whether the new voter set is committed."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default=None)


class RemoveRaftVoterRequest(Request, api=81, versions=(0, 0), flexible=0, listeners=BOTH, forwardable=True):
    """Take this voter out of the voter set (KIP-853)."""

    cluster_id: string | None = field(default=None)
    voter_id: int32
    voter_directory_id: uuid


class RemoveRaftVoterResponse(Response, to=RemoveRaftVoterRequest):
    """Whether the new voter set is committed."""

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default=None)


class UpdateRaftVoterRequest(Request, api=82, versions=(0, 0), flexible=0, listeners=CONTROLLER):
    """A voter tells the leader its directory, its endpoints and its range of kraft.version: where the log has them
    otherwise, and at kraft.version 0 to each new leader (KIP-853)."""

    class KRaftVersionFeature(Struct):
        min_supported_version: int16
        max_supported_version: int16

    cluster_id: string | None = field(default=None)
    current_leader_epoch: int32 = field(default=NO_EPOCH)
    voter_id: int32
    voter_directory_id: uuid
    listeners: Array[ListenerEndpoint]
    kraft_version_feature: KRaftVersionFeature


class UpdateRaftVoterResponse(Response, to=UpdateRaftVoterRequest):
    """Whether the leader has taken it, not yet committed; and which node leads."""

    class CurrentLeader(Struct):
        leader_id: int32 = field(default=NO_LEADER)
        leader_epoch: int32 = field(default=NO_EPOCH)
        host: string
        port: int32

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    current_leader: CurrentLeader | None = field(default=None, tag=0)
