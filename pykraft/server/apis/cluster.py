"""ApiVersions, Metadata, DescribeCluster and FindCoordinator on a broker's listener.

Versions: ApiVersions 0 to 4, Metadata 0 to 13, DescribeCluster 0 to 2, FindCoordinator 0 to 6. Behaviour to know:

* Clients are told the endpoints of the listener that they came by.
* The controller id in Metadata and DescribeCluster is that of a broker: clients send it what the controller shall do,
  and it forwards (KIP-590).
* Metadata makes missing topics if the client allows it and ``auto.create.topics.enable`` is set; it answers
  UNKNOWN_TOPIC_OR_PARTITION meanwhile, and the client asks again.
* librdkafka's "all topics" request in versions 9 to 13 has a count in the classic form in front; read by the schema it
  is a null list and a few bytes more, which is what was meant.
* A broker without the listener that the client came by is one that it cannot reach: it leads nothing, and is offline.
  Version 0 leaves out all that cannot be reached.
* A Metadata request that names an id anywhere is read as one for ids; what it asks for twice is answered once.
* Which operations a client may do is told when it asks; as long as nobody is refused anything, that is all of them.
* FindCoordinator answers COORDINATOR_NOT_AVAILABLE: there are no coordinators yet. It is advertised all the same,
  because clients ask for it without looking.

Follows kafka.server.KafkaApis and kafka.server.metadata.KRaftMetadataCache.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import METADATA_TOPIC, ZERO_UUID, Uuid
from pykraft.controller.features import SUPPORTED_FEATURES
from pykraft.controller.topics import check_topic_name
from pykraft.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from pykraft.protocol.api import ListenerKind, advertised
from pykraft.protocol.messages.cluster import (
    BROKER_ENDPOINTS,
    CONTROLLER_ENDPOINTS,
    GROUP_COORDINATOR,
    OPERATIONS_NOT_ASKED_FOR,
    TRANSACTION_COORDINATOR,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from pykraft.protocol.messages.records import NO_LEADER
from pykraft.raft.voters import VoterSet
from pykraft.server import config as keys
from pykraft.server.apis.dispatch import Handlers
from pykraft.server.config import NodeConfig
from pykraft.transport.server_channel import RequestContext

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", METADATA_TOPIC})

# Bit n for operation n of the access control lists: all that there are for a cluster, and for a topic.
_CLUSTER_OPERATIONS = 0b1_1111_1010_0000
_TOPIC_OPERATIONS = 0b1101_1111_1000
_FIRST_METADATA_BY_ID = 12
_FIRST_LISTENER_NOT_FOUND = 6
_ONLY_LIVE_REPLICAS = 0
"""The version of Metadata that leaves out the replicas that cannot be reached, and says that there are some."""
_COORDINATORS = (GROUP_COORDINATOR, TRANSACTION_COORDINATOR)


_SUPPORTED_FEATURES = tuple(
    ApiVersionsResponse.SupportedFeature(name=name, min_version=low, max_version=high)
    for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
)


@cache
def _spoken(kind: ListenerKind) -> tuple[ApiVersionsResponse.ApiVersion, ...]:
    return tuple(
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, low, high in advertised(kind)
    )


def api_versions(kind: ListenerKind, image: MetadataImage) -> ApiVersionsResponse:
    """What a listener of this kind speaks, and which features the cluster has."""
    return ApiVersionsResponse(
        api_keys=_spoken(kind),
        supported_features=_SUPPORTED_FEATURES,
        finalized_features_epoch=image.provenance.offset,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeature(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(image.features.items())
        ],
    )


class ClusterApis:
    """Answers about the cluster."""

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        image: Callable[[], MetadataImage],
        voters: Callable[[], VoterSet],
        controller_id: Callable[[], int],
        create_topics: Callable[[list[str], int], None],
    ) -> None:
        """`create_topics(names, now)` asks the controller to make topics that a client has asked about."""
        self._config = config
        self._cluster_id = cluster_id
        self._image = image
        self._voters = voters
        self._controller_id = controller_id
        self._create_topics = create_topics

    def api_versions(self, request: ApiVersionsRequest, context: RequestContext, now: int) -> ApiVersionsResponse:
        return api_versions(context.kind, self._image())

    # --- Metadata -----------------------------------------------------------------------------------------------------

    def metadata(self, request: MetadataRequest, context: RequestContext, now: int) -> MetadataResponse:
        image = self._image()
        asked = request.topics
        if asked and context.api_version < _FIRST_METADATA_BY_ID and any(map(_is_by_id, asked)):
            # Versions 10 and 11 have a field for ids, but no broker ever answered by them.
            raise KafkaError(ErrorCode.INVALID_REQUEST, "topics go by id from version 12 on")
        if asked is None or (context.api_version == 0 and not asked):
            topics = [self._topic(topic, context) for _, topic in sorted(_by_name(image).items())]
        else:
            topics = self._asked(image, asked, context)
            if request.allow_auto_topic_creation and self._config.values[keys.AUTO_CREATE_TOPICS_ENABLE]:
                missing = [t.name for t in topics if t.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and t.name]
                if missing:
                    self._create_topics(missing, now)
        if request.include_topic_authorized_operations:
            for topic in topics:
                if not topic.error_code:
                    topic.topic_authorized_operations = _TOPIC_OPERATIONS
        operations = _operations(request.include_cluster_authorized_operations)
        return MetadataResponse(
            brokers=self._brokers(image, context.listener),
            cluster_id=self._cluster_id,
            controller_id=self._reachable_controller(image),
            topics=topics,
            cluster_authorized_operations=operations,
        )

    def _brokers(self, image: MetadataImage, listener: str) -> list[MetadataResponse.Broker]:
        return [
            MetadataResponse.Broker(
                node_id=broker_id,
                host=image.brokers[broker_id].endpoints[listener].host,
                port=image.brokers[broker_id].endpoints[listener].port,
                rack=image.brokers[broker_id].rack,
            )
            for broker_id in sorted(image.brokers)
            if not image.brokers[broker_id].fenced and listener in image.brokers[broker_id].endpoints
        ]

    def _reachable_controller(self, image: MetadataImage) -> int:
        """The active controller if it is a broker, too; else any broker: each forwards."""
        alive = [broker_id for broker_id, broker in sorted(image.brokers.items()) if not broker.fenced]
        active = self._controller_id()
        return active if active in alive else alive[0] if alive else -1

    def _asked(
        self, image: MetadataImage, asked: Sequence[MetadataRequest.Topic], context: RequestContext
    ) -> list[MetadataResponse.Topic]:
        """Each topic once."""
        ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID)
        if ids:
            return [self._topic_with_id(image, topic_id, context) for topic_id in ids]
        return [self._topic_named(image, name, context) for name in dict.fromkeys(topic.name or "" for topic in asked)]

    def _topic_with_id(self, image: MetadataImage, topic_id: Uuid, context: RequestContext) -> MetadataResponse.Topic:
        topic = image.topics.get(topic_id)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
            return MetadataResponse.Topic(error_code=error, name=None, topic_id=topic_id, partitions=[])
        return self._topic(topic, context)

    def _topic_named(self, image: MetadataImage, name: str, context: RequestContext) -> MetadataResponse.Topic:
        topic = image.topic_named(name)
        if topic is None:
            return MetadataResponse.Topic(error_code=_missing(name), name=name, partitions=[])
        return self._topic(topic, context)

    def _topic(self, topic: TopicImage, context: RequestContext) -> MetadataResponse.Topic:
        image = self._image()
        return MetadataResponse.Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[
                _partition(image, number, partition, context) for number, partition in sorted(topic.partitions.items())
            ],
        )

    # --- DescribeCluster ----------------------------------------------------------------------------------------------

    def describe_cluster(
        self, request: DescribeClusterRequest, context: RequestContext, now: int
    ) -> DescribeClusterResponse:
        served = BROKER_ENDPOINTS if context.kind is ListenerKind.BROKER else CONTROLLER_ENDPOINTS
        if request.endpoint_type != served:
            known = request.endpoint_type in (BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS)
            error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            if context.api_version == 0:  # which has no word for it
                error = ErrorCode.INVALID_REQUEST
            raise KafkaError(error, error.text)
        image = self._image()
        is_broker = context.kind is ListenerKind.BROKER
        return DescribeClusterResponse(
            endpoint_type=served,
            cluster_id=self._cluster_id,
            controller_id=self._reachable_controller(image) if is_broker else self._controller_id(),
            brokers=list(
                self._described_brokers(image, request, context.listener)
                if is_broker
                else self._described_controllers(context.listener)
            ),
            cluster_authorized_operations=_operations(request.include_cluster_authorized_operations),
        )

    def _described_brokers(
        self, image: MetadataImage, request: DescribeClusterRequest, listener: str
    ) -> Iterable[DescribeClusterResponse.Broker]:
        for broker_id, broker in sorted(image.brokers.items()):
            endpoint = broker.endpoints.get(listener)
            if endpoint is not None and (request.include_fenced_brokers or not broker.fenced):
                yield DescribeClusterResponse.Broker(
                    broker_id=broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                    is_fenced=broker.fenced,
                )

    def _described_controllers(self, listener: str) -> Iterable[DescribeClusterResponse.Broker]:
        voters = self._voters()
        for voter_id in voters.ids:
            node = voters.node(voter_id, listener)
            if node is not None:
                yield DescribeClusterResponse.Broker(broker_id=voter_id, host=node.host, port=node.port)

    # --- FindCoordinator ----------------------------------------------------------------------------------------------

    def find_coordinator(
        self, request: FindCoordinatorRequest, context: RequestContext, now: int
    ) -> FindCoordinatorResponse:
        is_known = request.key_type in _COORDINATORS
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_known else ErrorCode.INVALID_REQUEST
        return request.refusal(KafkaError(error, error.text))


HANDLERS: Handlers = {
    ApiVersionsRequest: ClusterApis.api_versions,
    MetadataRequest: ClusterApis.metadata,
    DescribeClusterRequest: ClusterApis.describe_cluster,
    FindCoordinatorRequest: ClusterApis.find_coordinator,
}


def _by_name(image: MetadataImage) -> dict[str, TopicImage]:
    return {topic.name: topic for topic in image.topics.values()}


def _is_by_id(topic: MetadataRequest.Topic) -> bool:
    return topic.name is None or topic.topic_id != ZERO_UUID


def _operations(asked_for: bool) -> int:
    return _CLUSTER_OPERATIONS if asked_for else OPERATIONS_NOT_ASKED_FOR


def _missing(name: str) -> ErrorCode:
    """Why there is no topic of this name: it could not even be made, or nobody made it."""
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partition(
    image: MetadataImage, number: int, partition: PartitionRegistration, context: RequestContext
) -> MetadataResponse.Topic.Partition:
    """What the client is told of a partition, and of those of its brokers that it can reach."""
    offline = [replica for replica in partition.replicas if not _is_reachable(image, replica, context.listener)]
    replicas, in_sync = partition.replicas, partition.isr
    if context.api_version == _ONLY_LIVE_REPLICAS:
        replicas = tuple(replica for replica in replicas if replica not in offline)
        in_sync = tuple(replica for replica in in_sync if replica not in offline)
    leader = image.brokers.get(partition.leader)
    error, leader_id = ErrorCode.NONE, partition.leader
    if leader is None or context.listener not in leader.endpoints:
        lacks_listener = leader is not None and context.api_version >= _FIRST_LISTENER_NOT_FOUND
        error = ErrorCode.LISTENER_NOT_FOUND if lacks_listener else ErrorCode.LEADER_NOT_AVAILABLE
        leader_id = NO_LEADER
    elif (replicas, in_sync) != (partition.replicas, partition.isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponse.Topic.Partition(
        error_code=error,
        partition_index=number,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=in_sync,
        offline_replicas=offline,
    )


def _is_reachable(image: MetadataImage, broker_id: int, listener: str) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and listener in broker.endpoints
