"""Messages that move records: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch.

Since Kafka 4.0 versions older than those of 2.1 are gone (KIP-896). From Produce 13 and Fetch 13 on topics go by id
instead of by name (KIP-516), so that a topic deleted and made again is not taken for the old one.
"""

from pykraft.common.errors import KafkaError
from pykraft.common.types import ZERO_UUID
from pykraft.protocol.listeners import BOTH, BROKER
from pykraft.protocol.messages.refusals import each_partition
from pykraft.protocol.schema import (
    Array,
    Request,
    Response,
    Struct,
    field,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    uuid,
)

NO_OFFSET = -1
NO_EPOCH = -1

NO_SESSION = 0
"""In place of a fetch session's id."""
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
"""The session epochs of fetches that name all their partitions: one begins a session, the other does not."""
_LAST_SESSION_EPOCH = (1 << 31) - 1


def next_session_epoch(epoch: int) -> int:
    """The session epoch of the fetch after this one."""
    return FINAL_EPOCH if epoch < 0 else epoch % _LAST_SESSION_EPOCH + 1


class NodeEndpoint(Struct):
    """Where a new leader can be reached, so that the client need not ask for metadata (KIP-951)."""

    node_id: int32
    host: string
    port: int32
    rack: string | None = field(default=None)


class LeaderIdAndEpoch(Struct):
    """The partition's current leader, sent along with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (KIP-951)."""

    leader_id: int32 = field(default=-1)
    leader_epoch: int32 = field(default=-1)


class ProduceRequest(Request, api=0, versions=(3, 13), flexible=9, listeners=BROKER, advertised=(0, 13)):
    """Append these record batches. `acks` says whose writing the answer waits for: 1 the leader's, -1 that of all
    in-sync replicas; with 0 no answer is sent at all."""

    class Topic(Struct):
        class Partition(Struct):
            index: int32
            records: record_batches | None

        name: string = field(default="", until=12)
        topic_id: uuid = field(default=ZERO_UUID, since=13)
        partition_data: Array[Partition]

    transactional_id: string | None = field(default=None)
    acks: int16
    timeout_ms: int32
    topic_data: Array[Topic]

    def refusal(self, error: KafkaError) -> "ProduceResponse | None":
        """Each partition gets the error; with acks=0 there is no answer."""
        if self.acks == 0:
            return None
        topic_type = ProduceResponse.Topic
        code, message = error.code, error.detail or None
        return ProduceResponse(
            responses=[
                topic_type(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        topic_type.Partition(index=partition.index, error_code=code, error_message=message)
                        for partition in topic.partition_data
                    ],
                )
                for topic in self.topic_data
            ]
        )


class ProduceResponse(Response, to=ProduceRequest):
    """Where the batches went, partition by partition."""

    class Topic(Struct):
        class Partition(Struct):
            class RecordError(Struct):
                batch_index: int32
                batch_index_error_message: string | None = field(default=None)

            index: int32
            error_code: int16 = field(default=0)
            base_offset: int64 = field(default=NO_OFFSET)
            log_append_time_ms: int64 = field(default=-1)
            log_start_offset: int64 = field(default=NO_OFFSET, since=5)
            record_errors: Array[RecordError] = field(default=(), since=8)
            error_message: string | None = field(default=None, since=8)
            current_leader: LeaderIdAndEpoch | None = field(default=None, since=10, tag=0)

        name: string = field(default="", until=12)
        topic_id: uuid = field(default=ZERO_UUID, since=13)
        partition_responses: Array[Partition]

    responses: Array[Topic]
    throttle_time_ms: int32 = field(default=0)
    node_endpoints: Array[NodeEndpoint] = field(default=(), since=10, tag=0)


class FetchRequest(Request, api=1, versions=(4, 18), flexible=12, listeners=BOTH):
    """Read record batches from `fetch_offset` on; wait up to `max_wait_ms` until there are `min_bytes`.

    Consumers, followers and Raft replicas all read with this request. A replica names itself, and the epoch of the last
    batch it has, so that the leader sees where the two logs part (KIP-595). For a leader a follower's fetch at offset n
    is also the news that the follower has everything before n.
    """

    class ReplicaState(Struct):
        replica_id: int32 = field(default=-1)
        replica_epoch: int64 = field(default=-1)

    class Topic(Struct):
        class Partition(Struct):
            partition: int32
            current_leader_epoch: int32 = field(default=NO_EPOCH, since=9)
            fetch_offset: int64
            last_fetched_epoch: int32 = field(default=NO_EPOCH, since=12)
            log_start_offset: int64 = field(default=NO_OFFSET, since=5)
            partition_max_bytes: int32
            replica_directory_id: uuid = field(default=ZERO_UUID, since=17, tag=0)
            high_watermark: int64 = field(default=(1 << 63) - 1, since=18, tag=1)

        topic: string = field(default="", until=12)
        topic_id: uuid = field(default=ZERO_UUID, since=13)
        partitions: Array[Partition]

    class ForgottenTopic(Struct):
        topic: string = field(default="", since=7, until=12)
        topic_id: uuid = field(default=ZERO_UUID, since=13)
        partitions: Array[int32] = field(default=(), since=7)

    cluster_id: string | None = field(default=None, since=12, tag=0)
    replica_id: int32 = field(default=-1, until=14)
    replica_state: ReplicaState | None = field(default=None, since=15, tag=1)
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = field(default=0x7FFFFFFF)
    isolation_level: int8 = field(default=0)
    session_id: int32 = field(default=NO_SESSION, since=7)
    session_epoch: int32 = field(default=FINAL_EPOCH, since=7)
    topics: Array[Topic]
    forgotten_topics_data: Array[ForgottenTopic] = field(default=(), since=7)
    rack_id: string = field(default="", since=11)

    def refusal(self, error: KafkaError) -> "FetchResponse":
        """The error is that of the whole; where topics go by name, older clients look for it at each partition."""
        topic_type = FetchResponse.Topic
        return FetchResponse(
            error_code=error.code,
            session_id=self.session_id,
            responses=[
                topic_type(
                    topic=topic.topic,
                    partitions=[
                        topic_type.Partition(partition_index=partition.partition, error_code=error.code)
                        for partition in topic.partitions
                    ],
                )
                for topic in self.topics
                if topic.topic
            ],
        )


class FetchResponse(Response, to=FetchRequest):
    """Record batches, and how far each partition is replicated and decided."""

    class Topic(Struct):
        class Partition(Struct):
            class EpochEndOffset(Struct):
                epoch: int32 = field(default=NO_EPOCH)
                end_offset: int64 = field(default=NO_OFFSET)

            class SnapshotId(Struct):
                end_offset: int64 = field(default=NO_OFFSET)
                epoch: int32 = field(default=NO_EPOCH)

            class AbortedTransaction(Struct):
                producer_id: int64
                first_offset: int64

            partition_index: int32
            error_code: int16 = field(default=0)
            high_watermark: int64 = field(default=NO_OFFSET)
            last_stable_offset: int64 = field(default=NO_OFFSET)
            log_start_offset: int64 = field(default=NO_OFFSET, since=5)
            diverging_epoch: EpochEndOffset | None = field(default=None, since=12, tag=0)
            current_leader: LeaderIdAndEpoch | None = field(default=None, since=12, tag=1)
            snapshot_id: SnapshotId | None = field(default=None, since=12, tag=2)
            aborted_transactions: Array[AbortedTransaction] | None = field(default=None)
            preferred_read_replica: int32 = field(default=-1, since=11)
            records: record_batches | None = field(default=b"")

        topic: string = field(default="", until=12)
        topic_id: uuid = field(default=ZERO_UUID, since=13)
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0, since=7)
    session_id: int32 = field(default=NO_SESSION, since=7)
    responses: Array[Topic]
    node_endpoints: Array[NodeEndpoint] = field(default=(), since=16, tag=0)


class ListOffsetsRequest(Request, api=2, versions=(1, 11), flexible=6, listeners=BROKER):
    """Find an offset by a timestamp, or by one of the negative marks below."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            current_leader_epoch: int32 = field(default=NO_EPOCH, since=4)
            timestamp: int64

        name: string
        partitions: Array[Partition]

    replica_id: int32 = field(default=-1)
    isolation_level: int8 = field(default=0, since=2)
    topics: Array[Topic]
    timeout_ms: int32 = field(default=0, since=10)

    def refusal(self, error: KafkaError) -> "ListOffsetsResponse":
        """Each partition gets the error."""
        return ListOffsetsResponse(topics=each_partition(ListOffsetsResponse.Topic, self.topics, error))


LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6


class ListOffsetsResponse(Response, to=ListOffsetsRequest):
    """The offsets found; -1 where no record is that young."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int32
            error_code: int16 = field(default=0)
            timestamp: int64 = field(default=-1)
            offset: int64 = field(default=NO_OFFSET)
            leader_epoch: int32 = field(default=NO_EPOCH, since=4)

        name: string
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0, since=2)
    topics: Array[Topic]


class OffsetForLeaderEpochRequest(Request, api=23, versions=(2, 4), flexible=4, listeners=BROKER):
    """Ask where the log of a leader epoch ends: a consumer checks so that its position was not truncated (KIP-320)."""

    class Topic(Struct):
        class Partition(Struct):
            partition: int32
            current_leader_epoch: int32 = field(default=NO_EPOCH)
            leader_epoch: int32

        topic: string
        partitions: Array[Partition]

    replica_id: int32 = field(default=-2, since=3)
    topics: Array[Topic]

    def refusal(self, error: KafkaError) -> "OffsetForLeaderEpochResponse":
        """Each partition gets the error."""
        topic_type = OffsetForLeaderEpochResponse.Topic
        return OffsetForLeaderEpochResponse(
            topics=[
                topic_type(
                    topic=topic.topic,
                    partitions=[
                        topic_type.Partition(partition=partition.partition, error_code=error.code)
                        for partition in topic.partitions
                    ],
                )
                for topic in self.topics
            ]
        )


class OffsetForLeaderEpochResponse(Response, to=OffsetForLeaderEpochRequest):
    """The largest epoch up to the asked one, and the offset after its last record."""

    class Topic(Struct):
        class Partition(Struct):
            error_code: int16 = field(default=0)
            partition: int32
            leader_epoch: int32 = field(default=NO_EPOCH)
            end_offset: int64 = field(default=NO_OFFSET)

        topic: string
        partitions: Array[Partition]

    throttle_time_ms: int32 = field(default=0)
    topics: Array[Topic]
