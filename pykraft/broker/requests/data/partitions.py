"""How requests for records name partitions, the rights that they need, and how an answer names another leader.

Up to version 12 of both a request names topics, from version 13 on it has their ids (KIP-516). An answer names a topic
the way its request did. A broker that does not lead a partition names the leader and its address, so that the client
need not ask for metadata (KIP-951).
"""

from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.requests.authorizer import Authorizer
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition, Uuid
from pykraft.protocol.messages.data import LeaderIdAndEpoch, NodeEndpoint
from pykraft.transport.server_channel import RequestContext

FIRST_VERSION_BY_ID = 13
NOT_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

Asked = tuple[str, Uuid, int]
"""The topic's name or its id, whichever the version has, and the partition."""


def topic_name(replicas: ReplicaManager, asked: Asked, context: RequestContext) -> str | None:
    """The topic's name; None for an id that this broker does not know."""
    name, topic_id, _ = asked
    if context.api_version < FIRST_VERSION_BY_ID:
        return name
    topic = replicas.image.topics.get(topic_id)
    return None if topic is None else topic.name


def is_denied(authorizer: Authorizer, context: RequestContext, operation: AclOperation, topic: str) -> bool:
    """Whether the client may not do this to the topic. Without an authorizer this costs next to nothing."""
    return not (authorizer.allows_all or authorizer.allows(context, operation, AclResourceType.TOPIC, topic))


def current_leader(
    replicas: ReplicaManager,
    error: ErrorCode,
    topic_partition: TopicPartition,
    context: RequestContext,
    endpoints: dict[int, NodeEndpoint],
) -> LeaderIdAndEpoch | None:
    """The leader, if `error` says that it is not this broker; where it is reached is added to `endpoints`, by id."""
    hint = replicas.leader_hint(topic_partition)
    if error not in NOT_LEADER or hint is None:
        return None
    broker = replicas.image.brokers.get(hint.leader_id)
    endpoint = None if broker is None else broker.endpoints.get(context.listener)
    if broker is not None and endpoint is not None:
        endpoints[hint.leader_id] = NodeEndpoint(
            node_id=hint.leader_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
    return LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
