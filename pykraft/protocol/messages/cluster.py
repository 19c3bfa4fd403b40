"""Messages with which a client finds its way: ApiVersions, Metadata, DescribeTopicPartitions, DescribeCluster,
FindCoordinator.

A client asks one bootstrap address which APIs it speaks (ApiVersions), then for the leader of each partition
(Metadata), and from then on talks to those brokers directly. The two lists of operations are bit sets, bit n for
operation n of the access control lists; they are computed only on demand, since that takes a look-up for each resource
(KIP-430).
"""

from pykraft.common.errors import KafkaError
from pykraft.common.types import ZERO_UUID
from pykraft.protocol.listeners import BOTH, BROKER
from pykraft.protocol.schema import (
    Array,
    Request,
    Response,
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)

OPERATIONS_NOT_ASKED_FOR = -(1 << 31)
BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2
GROUP_COORDINATOR = 0
TRANSACTION_COORDINATOR = 1
ANY_NODE = -1
"""The node id of a client that does not say which node it means."""


class ApiVersionsRequest(Request, api=18, versions=(0, 5), flexible=3, listeners=BOTH):
    """The first request on a connection: which APIs and versions does the server have? From version 3 on it names the
    client (KIP-511); from version 5 on the cluster and the node that the client means to reach, or neither
    (KIP-1242)."""

    client_software_name: string = field(default="", since=3)
    client_software_version: string = field(default="", since=3)
    cluster_id: string | None = field(default=None, since=5)
    node_id: int32 = field(default=ANY_NODE, since=5)


class ApiVersionsResponse(Response, to=ApiVersionsRequest):
    """The APIs of this listener with their version ranges, and the features of the cluster (KIP-584).

    A server that does not know the version asked for answers version 0 with UNSUPPORTED_VERSION, which every client can
    read.
    """

    class ApiVersion(Struct):
        api_key: int16
        min_version: int16
        max_version: int16

    class SupportedFeature(Struct):
        name: string = field(default="", since=3)
        min_version: int16 = field(default=0, since=3)
        max_version: int16 = field(default=0, since=3)

    class FinalizedFeature(Struct):
        name: string = field(default="", since=3)
        max_version_level: int16 = field(default=0, since=3)
        min_version_level: int16 = field(default=0, since=3)

    error_code: int16 = field(default=0)
    api_keys: Array[ApiVersion]
    throttle_time_ms: int32 = field(default=0, since=1)
    supported_features: Array[SupportedFeature] = field(default=(), since=3, tag=0)
    # The offset of the metadata log up to which finalized_features holds: the larger one is the newer one.
    finalized_features_epoch: int64 = field(default=-1, since=3, tag=1)
    finalized_features: Array[FinalizedFeature] = field(default=(), since=3, tag=2)
    zk_migration_ready: boolean = field(default=False, since=3, tag=3)


class MetadataRequest(Request, api=3, versions=(0, 13), flexible=9, listeners=BROKER):
    """The leaders of these topics' partitions, and the live brokers. It may create a missing topic on the way."""

    class Topic(Struct):
        topic_id: uuid = field(default=ZERO_UUID, since=10)
        # Null where the topic is asked for by its id.
        name: string | None = field(default="", nullable_since=10)

    # Null asks for all topics; in version 0, which has no null, the empty list does.
    topics: Array[Topic] | None = field(default=(), nullable_since=1)
    allow_auto_topic_creation: boolean = field(default=True, since=4)
    include_cluster_authorized_operations: boolean = field(default=False, since=8, until=10)
    include_topic_authorized_operations: boolean = field(default=False, since=8)

    def refusal(self, error: KafkaError) -> "MetadataResponse":
        """Each topic that was asked for gets the error; before version 13 there is no other place for it."""
        topic_type = MetadataResponse.Topic
        return MetadataResponse(
            error_code=error.code,
            brokers=[],
            topics=[
                topic_type(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id, partitions=[])
                for topic in self.topics or ()
            ],
        )


class MetadataResponse(Response, to=MetadataRequest):
    """The unfenced brokers, and per partition its leader, its replicas and those in sync."""

    class Broker(Struct):
        node_id: int32
        host: string
        port: int32
        rack: string | None = field(default=None, since=1)

    class Topic(Struct):
        class Partition(Struct):
            error_code: int16 = field(default=0)
            partition_index: int32
            leader_id: int32
            leader_epoch: int32 = field(default=-1, since=7)
            replica_nodes: Array[int32]
            isr_nodes: Array[int32]
            offline_replicas: Array[int32] = field(default=(), since=5)

        error_code: int16 = field(default=0)
        # Null where the request named an unknown id.
        name: string | None = field(default="", nullable_since=12)
        topic_id: uuid = field(default=ZERO_UUID, since=10)
        is_internal: boolean = field(default=False, since=1)
        partitions: Array[Partition]
        topic_authorized_operations: int32 = field(default=OPERATIONS_NOT_ASKED_FOR, since=8)

    throttle_time_ms: int32 = field(default=0, since=3)
    brokers: Array[Broker]
    cluster_id: string | None = field(default=None, since=2)
    # Under KRaft no client may talk to a controller: brokers answer one of their own ids, and forward (KIP-590).
    controller_id: int32 = field(default=-1, since=1)
    topics: Array[Topic]
    cluster_authorized_operations: int32 = field(default=OPERATIONS_NOT_ASKED_FOR, since=8, until=10)
    error_code: int16 = field(default=0, since=13)


class TopicPartitionCursor(Struct):
    """Where a description that fills several responses goes on: this partition of this topic comes next."""

    topic_name: string
    partition_index: int32


class DescribeTopicPartitionsRequest(Request, api=75, versions=(0, 0), flexible=0, listeners=BROKER):
    """How are the partitions of these topics, or of all if none is named? The answer has at most
    `response_partition_limit` of them, from `cursor` on; it says where the next one is to begin (KIP-966)."""

    class Topic(Struct):
        name: string

    topics: Array[Topic]
    response_partition_limit: int32 = field(default=2000)
    cursor: TopicPartitionCursor | None = field(default=None)

    def refusal(self, error: KafkaError) -> "DescribeTopicPartitionsResponse":
        """Each topic that was asked for gets the error: there is no other place for it."""
        topic_type = DescribeTopicPartitionsResponse.Topic
        return DescribeTopicPartitionsResponse(
            topics=[topic_type(error_code=error.code, name=topic.name, partitions=[]) for topic in self.topics]
        )


class DescribeTopicPartitionsResponse(Response, to=DescribeTopicPartitionsRequest):
    """Topics in the order of their names, each with partitions in the order of their numbers."""

    class Topic(Struct):
        class Partition(Struct):
            error_code: int16 = field(default=0)
            partition_index: int32
            leader_id: int32
            leader_epoch: int32 = field(default=-1)
            replica_nodes: Array[int32]
            isr_nodes: Array[int32]
            # Replicas outside the ISR that hold everything committed.
            eligible_leader_replicas: Array[int32] | None = field(default=None)
            last_known_elr: Array[int32] | None = field(default=None)
            offline_replicas: Array[int32]

        error_code: int16 = field(default=0)
        name: string | None
        topic_id: uuid = field(default=ZERO_UUID)
        is_internal: boolean = field(default=False)
        partitions: Array[Partition]
        topic_authorized_operations: int32 = field(default=OPERATIONS_NOT_ASKED_FOR)

    throttle_time_ms: int32 = field(default=0)
    topics: Array[Topic]
    # Null when there is nothing more to tell.
    next_cursor: TopicPartitionCursor | None = field(default=None)


class DescribeClusterRequest(Request, api=60, versions=(0, 2), flexible=0, listeners=BOTH):
    """Which nodes are there? Asked by tools, of brokers or, from version 1 on, of controllers (KIP-700, KIP-919)."""

    include_cluster_authorized_operations: boolean = field(default=False)
    endpoint_type: int8 = field(default=BROKER_ENDPOINTS, since=1)
    include_fenced_brokers: boolean = field(default=False, since=2)


class DescribeClusterResponse(Response, to=DescribeClusterRequest):
    """The brokers, or the controllers, by their id and the listener that was asked."""

    class Broker(Struct):
        broker_id: int32
        host: string
        port: int32
        rack: string | None = field(default=None)
        is_fenced: boolean = field(default=False, since=2)

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default=None)
    endpoint_type: int8 = field(default=BROKER_ENDPOINTS, since=1)
    cluster_id: string = field(default="")
    controller_id: int32 = field(default=-1)
    brokers: Array[Broker]
    cluster_authorized_operations: int32 = field(default=OPERATIONS_NOT_ASKED_FOR)


class FindCoordinatorRequest(Request, api=10, versions=(0, 6), flexible=3, listeners=BROKER):
    """Which broker coordinates this group or this transactional id? From version 4 on for several at once (KIP-699)."""

    key: string = field(default="", until=3)
    key_type: int8 = field(default=GROUP_COORDINATOR, since=1)
    coordinator_keys: Array[string] = field(default=(), since=4)

    def refusal(self, error: KafkaError) -> "FindCoordinatorResponse":
        """Each key gets the error; the older versions have one place for it."""
        code, message = error.code, error.detail or None
        coordinator_type = FindCoordinatorResponse.Coordinator
        return FindCoordinatorResponse(
            error_code=code,
            error_message=message,
            coordinators=[
                coordinator_type(key=key, error_code=code, error_message=message) for key in self.coordinator_keys
            ],
        )


class FindCoordinatorResponse(Response, to=FindCoordinatorRequest):
    """The coordinators: one in the fields themselves up to version 3, a list from version 4 on."""

    class Coordinator(Struct):
        key: string = field(default="", since=4)
        node_id: int32 = field(default=-1, since=4)
        host: string = field(default="", since=4)
        port: int32 = field(default=-1, since=4)
        error_code: int16 = field(default=0, since=4)
        error_message: string | None = field(default=None, since=4)

    throttle_time_ms: int32 = field(default=0, since=1)
    error_code: int16 = field(default=0, until=3)
    error_message: string | None = field(default=None, since=1, until=3)
    node_id: int32 = field(default=-1, until=3)
    host: string = field(default="", until=3)
    port: int32 = field(default=-1, until=3)
    coordinators: Array[Coordinator] = field(default=(), since=4)
