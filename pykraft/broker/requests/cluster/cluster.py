"""ApiVersions, Metadata, DescribeCluster and FindCoordinator on a broker's listener.

Versions: ApiVersions 0 to 5, Metadata 0 to 13, DescribeCluster 0 to 2, FindCoordinator 0 to 6. Behaviour to know:

* A client that means another cluster, or another broker, than it has reached is sent back to its bootstrap servers
  (REBOOTSTRAP_REQUIRED): an address may have changed hands. A controller does not look.
* The answer names the endpoints of the listener that the client came by.
* The controller id in Metadata and DescribeCluster is that of a broker: clients send it what the controller shall do,
  and it forwards (KIP-590).
* Metadata makes missing topics if the client allows it and ``auto.create.topics.enable`` is set; it answers
  UNKNOWN_TOPIC_OR_PARTITION meanwhile, and the client asks again.
* librdkafka's "all topics" request in versions 9 to 13 has a count in the classic form in front; read by the schema it
  is a null list and a few bytes more, which is what was meant.
* A broker without the listener that the client came by is one that it cannot reach: it leads nothing, and is offline.
  Version 0 leaves out all that cannot be reached.
* A Metadata request that names an id anywhere is read as one for ids; what it asks for twice is answered once.
* Metadata shows a topic to a client that may DESCRIBE it. Another topic is left out of a list of all topics; if it was
  asked for, the client gets TOPIC_AUTHORIZATION_FAILED, whether there is such a topic or not. To have a missing topic
  made, a client needs CREATE on the cluster or on that topic.
* FindCoordinator needs DESCRIBE on the group or the transactional id. DescribeCluster needs nothing on a broker, and
  ALTER on the cluster on a controller.
* A client that asks gets the operations it may do; without DESCRIBE on the cluster there are none.
* FindCoordinator has __consumer_offsets created by the first client that asks for a group's coordinator, and
  __transaction_state by the first that asks for a transactional id's. It answers COORDINATOR_NOT_AVAILABLE until their
  partitions are led.

Follows kafka.server.KafkaApis and kafka.server.metadata.KRaftMetadataCache.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, partial

from pykraft.broker.coordination.coordinators import GROUP_TOPIC, group_topic
from pykraft.broker.coordination.transactions import transaction_topic
from pykraft.broker.requests.authorizer import Authorizer, allows_on_cluster, authorized_operations, check_cluster
from pykraft.broker.requests.dispatch import Handlers
from pykraft.broker.settings import config as keys
from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import CLUSTER_NAME, AclOperation, AclResourceType
from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import METADATA_TOPIC, ZERO_UUID, Uuid
from pykraft.controller.features import KRAFT_VERSION, SUPPORTED_FEATURES
from pykraft.controller.partitions.topics import check_topic_name
from pykraft.coordinator.runtime import partition_for
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from pykraft.metadata.versions import BASE, IV_3_7_0_CONTROLLER_REGISTRATION, METADATA_VERSION
from pykraft.protocol.api import ListenerKind, advertised
from pykraft.protocol.messages.admin import CreateTopicsRequest
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
from pykraft.transport.server_channel import RequestContext

INTERNAL_TOPICS = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC, METADATA_TOPIC})
_INTERNAL_TOPICS = {GROUP_COORDINATOR: group_topic, TRANSACTION_COORDINATOR: transaction_topic}
"""How the topic is made that a kind of coordinator keeps its records in."""

_FIRST_METADATA_BY_ID = 12
_FIRST_LISTENER_NOT_FOUND = 6
_FIRST_FIND_OF_SEVERAL = 4
_ONLY_LIVE_REPLICAS = 0
"""The version of Metadata that leaves out the replicas that cannot be reached, and says that there are some."""
_COORDINATORS = {
    GROUP_COORDINATOR: (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    TRANSACTION_COORDINATOR: (AclResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}


_PARTITIONS_PER_STEP = 50
"""A topic with more partitions is described in steps."""
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


def api_versions(kind: ListenerKind, image: MetadataImage, kraft_version: int) -> ApiVersionsResponse:
    """What a listener of this kind speaks, and which features the cluster has. A feature at level 0 is not shown. The
    image has no ``kraft.version``: that is Raft's."""
    levels = dict(image.features) | ({KRAFT_VERSION: kraft_version} if kraft_version else {})
    return ApiVersionsResponse(
        api_keys=_spoken(kind),
        supported_features=_SUPPORTED_FEATURES,
        finalized_features_epoch=image.provenance.offset,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeature(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(levels.items())
        ],
    )


_MANY_KEYS = 200
"""An answer about more coordinators is encoded in slices, also if all are one."""


class ClusterApis:
    """Answers about the cluster."""

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        image: Callable[[], MetadataImage],
        kraft_version: Callable[[], int],
        controller_id: Callable[[], int],
        create_topics: Callable[[list[str], RequestContext, int], None],
        create_internal: Callable[[CreateTopicsRequest.Topic, int], None],
        authorizer: Authorizer,
    ) -> None:
        """`create_topics(names, context, now)` asks the controller to make topics that a client has asked about,
        `create_internal(topic, now)` to make one that a coordinator keeps its records in."""
        self._config = config
        self._cluster_id = cluster_id
        self._image = image
        self._kraft_version = kraft_version
        self._controller_id = controller_id
        self._create_topics = create_topics
        self._create_internal = create_internal
        self._authorizer = authorizer

    def api_versions(self, request: ApiVersionsRequest, context: RequestContext, now: int) -> ApiVersionsResponse:
        if context.kind is ListenerKind.BROKER and request.cluster_id is not None:
            meant, own = (request.cluster_id, request.node_id), (self._cluster_id, self._config.node_id)
            if meant != own:
                raise KafkaError(ErrorCode.REBOOTSTRAP_REQUIRED)
        return api_versions(context.kind, self._image(), self._kraft_version())

    # --- Metadata -----------------------------------------------------------------------------------------------------

    def metadata(self, request: MetadataRequest, context: RequestContext, now: int) -> ItemByItem:
        image = self._image()
        asked = request.topics
        if asked and context.api_version < _FIRST_METADATA_BY_ID and any(map(_is_by_id, asked)):
            # Versions 10 and 11 have a field for ids, but no broker ever answered by them.
            raise KafkaError(ErrorCode.INVALID_REQUEST, "topics go by id from version 12 on")
        makes_missing = False
        if asked is None or (context.api_version == 0 and not asked):
            names = sorted(image.topic_ids)
            shown = self._describable(names, context)
            named: Sequence[str | Uuid] = [name for name in names if name in shown]
        else:
            named = _named(asked)
            names = [name for name in (_name(image, each) for each in named) if name is not None]
            shown = self._describable(names, context)
            makes_missing = request.allow_auto_topic_creation and self._config.values[keys.AUTO_CREATE_TOPICS_ENABLE]
        with_operations = request.include_topic_authorized_operations
        describe = partial(self._topic, image, shown, context, with_operations)

        def respond(topics: list[MetadataResponse.Topic], now: int) -> MetadataResponse:
            if makes_missing:
                self._create_missing(topics, context, now)
            return MetadataResponse(
                brokers=self._brokers(image, context.listener),
                cluster_id=self._cluster_id,
                controller_id=self._reachable_controller(image),
                topics=topics,
                cluster_authorized_operations=self._operations(request.include_cluster_authorized_operations, context),
            )

        return ItemByItem(named, describe, respond)

    def _describable(self, names: Collection[str], context: RequestContext) -> Collection[str]:
        return self._authorizer.allowed(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names)

    def _create_missing(self, topics: Sequence[MetadataResponse.Topic], context: RequestContext, now: int) -> None:
        """Have the topics made that there are not, and refuse those that this client may not make."""
        missing = {t.name: t for t in topics if t.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and t.name}
        if not missing:
            return
        allowed: Collection[str] = missing
        if not allows_on_cluster(self._authorizer, context, AclOperation.CREATE):
            allowed = self._authorizer.allowed(context, AclOperation.CREATE, AclResourceType.TOPIC, missing.keys())
        for name, topic in missing.items():
            if name not in allowed:
                topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        names = [name for name in missing if name in allowed]
        if names:
            self._create_topics(names, context, now)

    def _operations(self, asked_for: bool, context: RequestContext) -> int:
        """What this client may do to the cluster, as a bit set."""
        if not asked_for:
            return OPERATIONS_NOT_ASKED_FOR
        if not allows_on_cluster(self._authorizer, context, AclOperation.DESCRIBE):
            return 0
        return authorized_operations(self._authorizer, context, AclResourceType.CLUSTER, CLUSTER_NAME)

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

    def _topic(
        self,
        image: MetadataImage,
        shown: Collection[str],
        context: RequestContext,
        with_operations: bool,
        named: str | Uuid,
        now: int,
    ) -> MetadataResponse.Topic | Steps[MetadataResponse.Topic]:
        """A topic by its name or its id, or why it is not described."""
        topic = image.topics.get(named) if isinstance(named, Uuid) else image.topic_named(named)
        name = topic.name if topic is not None else None if isinstance(named, Uuid) else named
        if name is not None and name not in shown:
            refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if isinstance(named, Uuid):
                return MetadataResponse.Topic(error_code=refused, name=None, topic_id=named, partitions=[])
            return MetadataResponse.Topic(error_code=refused, name=name, partitions=[])
        operations = OPERATIONS_NOT_ASKED_FOR
        if with_operations and name is not None:
            operations = authorized_operations(self._authorizer, context, AclResourceType.TOPIC, name)
        if topic is not None:
            return _described(image, topic, context, operations)
        if isinstance(named, Uuid):
            return MetadataResponse.Topic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=named, partitions=[]
            )
        return MetadataResponse.Topic(
            error_code=why_missing(named), name=named, partitions=[], topic_authorized_operations=operations
        )

    # --- DescribeCluster ----------------------------------------------------------------------------------------------

    def describe_cluster(
        self, request: DescribeClusterRequest, context: RequestContext, now: int
    ) -> DescribeClusterResponse:
        is_broker = context.kind is ListenerKind.BROKER
        if not is_broker:
            _check_controllers_register(self._image())
            check_cluster(self._authorizer, context, AclOperation.ALTER)
        served = BROKER_ENDPOINTS if is_broker else CONTROLLER_ENDPOINTS
        if request.endpoint_type != served:
            known = request.endpoint_type in (BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS)
            error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            if context.api_version == 0:  # which has no word for it
                error = ErrorCode.INVALID_REQUEST
            raise KafkaError(error, error.text)
        image = self._image()
        return DescribeClusterResponse(
            endpoint_type=served,
            cluster_id=self._cluster_id,
            controller_id=self._reachable_controller(image) if is_broker else self._controller_id(),
            brokers=list(
                self._described_brokers(image, request, context.listener)
                if is_broker
                else self._described_controllers(image, context.listener)
            ),
            cluster_authorized_operations=self._operations(request.include_cluster_authorized_operations, context),
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

    def _described_controllers(self, image: MetadataImage, listener: str) -> Iterable[DescribeClusterResponse.Broker]:
        for controller_id, controller in sorted(image.controllers.items()):
            for endpoint in controller.end_points:
                if endpoint.name == listener:
                    yield DescribeClusterResponse.Broker(
                        broker_id=controller_id, host=endpoint.host, port=endpoint.port
                    )

    # --- FindCoordinator ----------------------------------------------------------------------------------------------

    def find_coordinator(
        self, request: FindCoordinatorRequest, context: RequestContext, now: int
    ) -> FindCoordinatorResponse | ItemByItem:
        if context.api_version < _FIRST_FIND_OF_SEVERAL:
            found = self._coordinator(request.key_type, request.key, context, now)
            return FindCoordinatorResponse(
                error_code=found.error_code,
                error_message=found.error_message,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
            )

        def respond(found: list[FindCoordinatorResponse.Coordinator], now: int) -> FindCoordinatorResponse:
            by_key = {coordinator.key: coordinator for coordinator in found}
            return FindCoordinatorResponse(coordinators=[by_key[key] for key in request.coordinator_keys])

        return ItemByItem(
            list(dict.fromkeys(request.coordinator_keys)),
            lambda key, now: self._coordinator(request.key_type, key, context, now),
            respond,
            is_large=len(request.coordinator_keys) > _MANY_KEYS,
        )

    def _coordinator(
        self, key_type: int, key: str, context: RequestContext, now: int
    ) -> FindCoordinatorResponse.Coordinator:
        """Where the coordinator of this id is: the leader of the partition that holds it."""
        coordinator_type = FindCoordinatorResponse.Coordinator
        error = self._why_no_coordinator(key_type, key, context)
        if error is ErrorCode.NONE:
            image = self._image()
            missing = _INTERNAL_TOPICS[key_type](self._config.values)
            topic = image.topic_named(missing.name)
            if topic is None:
                self._create_internal(missing, now)
            else:
                partition = topic.partitions[partition_for(key, len(topic.partitions))]
                leader = image.brokers.get(partition.leader)
                endpoint = None if leader is None or leader.fenced else leader.endpoints.get(context.listener)
                if endpoint is not None:
                    return coordinator_type(
                        key=key,
                        node_id=partition.leader,
                        host=endpoint.host,
                        port=endpoint.port,
                        error_message=ErrorCode.NONE.text,
                    )
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return coordinator_type(key=key, error_code=error, error_message=error.text)

    def _why_no_coordinator(self, key_type: int, key: str, context: RequestContext) -> ErrorCode:
        if key_type not in _COORDINATORS:
            return ErrorCode.INVALID_REQUEST
        resource_type, refused = _COORDINATORS[key_type]
        if not self._authorizer.allows(context, AclOperation.DESCRIBE, resource_type, key):
            return refused
        return ErrorCode.NONE


HANDLERS: Handlers = {
    ApiVersionsRequest: ClusterApis.api_versions,
    MetadataRequest: ClusterApis.metadata,
    DescribeClusterRequest: ClusterApis.describe_cluster,
    FindCoordinatorRequest: ClusterApis.find_coordinator,
}


def _check_controllers_register(image: MetadataImage) -> None:
    """KafkaError if the cluster's level does not let controllers register: then no broker knows their addresses."""
    level = image.features.get(METADATA_VERSION, BASE.level)
    if level < IV_3_7_0_CONTROLLER_REGISTRATION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"controllers are described from {METADATA_VERSION} 15 on, and it is {level}"
        )


def _named(asked: Sequence[MetadataRequest.Topic]) -> list[str | Uuid]:
    """What a request asks for, each topic once: by id, if it names an id anywhere."""
    ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID)
    return list(ids) if ids else list(dict.fromkeys(topic.name or "" for topic in asked))


def _name(image: MetadataImage, named: str | Uuid) -> str | None:
    """The name of a topic by its name or its id; None for an id that is not known."""
    if isinstance(named, str):
        return named
    topic = image.topics.get(named)
    return None if topic is None else topic.name


def _described(
    image: MetadataImage, topic: TopicImage, context: RequestContext, operations: int
) -> MetadataResponse.Topic | Steps[MetadataResponse.Topic]:
    described = MetadataResponse.Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
        partitions=[],
    )
    if len(topic.partitions) > _PARTITIONS_PER_STEP:
        return _with_many_partitions(image, topic, context, described)
    described.partitions = [
        _partition(image, number, partition, context) for number, partition in sorted(topic.partitions.items())
    ]
    return described


def _with_many_partitions(
    image: MetadataImage, topic: TopicImage, context: RequestContext, described: MetadataResponse.Topic
) -> Steps[MetadataResponse.Topic]:
    partitions = []
    for number, partition in sorted(topic.partitions.items()):
        partitions.append(_partition(image, number, partition, context))
        if len(partitions) % _PARTITIONS_PER_STEP == 0:
            yield
    described.partitions = partitions
    return described


def _is_by_id(topic: MetadataRequest.Topic) -> bool:
    return topic.name is None or topic.topic_id != ZERO_UUID


def why_missing(name: str) -> ErrorCode:
    """Why there is no topic of this name: its name is not allowed, or it was not created."""
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partition(
    image: MetadataImage, number: int, partition: PartitionRegistration, context: RequestContext
) -> MetadataResponse.Topic.Partition:
    """The partition as the client sees it, with those of its brokers that the client can reach."""
    replicas, in_sync = partition.replicas, partition.isr
    if context.api_version == _ONLY_LIVE_REPLICAS:
        replicas = tuple(replica for replica in replicas if is_reachable(image, replica, context.listener))
        in_sync = tuple(replica for replica in in_sync if is_reachable(image, replica, context.listener))
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
        offline_replicas=offline_replicas(image, partition, context.listener),
    )


def is_reachable(image: MetadataImage, broker_id: int, listener: str) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and listener in broker.endpoints


def offline_replicas(image: MetadataImage, partition: PartitionRegistration, listener: str) -> list[int]:
    """The replicas that nothing can read now: the broker is not reachable for the client, or it lives and has lost the
    log directory with the replica (KIP-112, KIP-858)."""
    return [
        replica
        for replica in partition.replicas
        if not is_reachable(image, replica, listener) or not image.is_online(replica, partition)
    ]
