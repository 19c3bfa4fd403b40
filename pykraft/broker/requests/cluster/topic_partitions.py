"""DescribeTopicPartitions 0 on a broker's listener: topics by name, a limited number of partitions in each answer.

Metadata answers about a topic as a whole, so the answer about 100,000 partitions is one frame of megabytes. Here an
answer ends after the smaller of the request's limit and ``max.request.partition.size.limit``, and says with a *cursor*
which partition comes next; the client sends the cursor with its next request. Behaviour to know:

* No topic named means all topics. Topics come in the order of their names, partitions in the order of their numbers.
* The cursor names a topic and a partition, not a place in a list: topics may come and go between two answers. If the
  request names topics, the cursor's must be one of them, else it is refused with INVALID_REQUEST. Topics before the
  cursor's are left out, and so are partitions before the cursor's in that topic.
* A topic that does not exist gets UNKNOWN_TOPIC_OR_PARTITION if it was named. It does not count for the limit.
* A topic that the client may not DESCRIBE is left out of a list of all topics; a named one gets
  TOPIC_AUTHORIZATION_FAILED, in every answer of the series.
* A partition has no error code of its own: without a leader that this client can reach, the leader is -1.
* The answer shows eligible leader replicas (KIP-966), which Metadata does not.

Follows kafka.server.handlers.DescribeTopicPartitionsRequestHandler and kafka.server.metadata.KRaftMetadataCache.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.broker.requests.authorizer import Authorizer, authorized_operations
from pykraft.broker.requests.cluster.cluster import offline_replicas, why_missing
from pykraft.broker.requests.dispatch import Handlers
from pykraft.broker.settings import config as keys
from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from pykraft.protocol.messages.cluster import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicPartitionCursor,
)
from pykraft.protocol.messages.records import NO_LEADER
from pykraft.transport.server_channel import RequestContext

_INTERNAL_TOPICS = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC})
"""Metadata calls the metadata log internal, too; this API does not."""
_PARTITIONS_PER_STEP = 50
_Topic = DescribeTopicPartitionsResponse.Topic


class TopicPartitionApis:
    """Describes topics, page by page."""

    def __init__(self, config: NodeConfig, image: Callable[[], MetadataImage], authorizer: Authorizer) -> None:
        self._limit: int = config.values[keys.MAX_REQUEST_PARTITION_SIZE_LIMIT]
        self._image = image
        self._authorizer = authorizer

    def describe(self, request: DescribeTopicPartitionsRequest, context: RequestContext, now: int) -> ItemByItem:
        image = self._image()
        names = _wanted(image, request)
        shown = self._authorizer.allowed(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
        limit = max(1, min(self._limit, request.response_partition_limit))
        pieces, next_cursor = _page(image, [name for name in names if name in shown], request.cursor, limit)

        def describe_one(piece: _Piece, now: int) -> _Topic | Steps[_Topic]:
            name, first, length = piece
            operations = authorized_operations(self._authorizer, context, AclResourceType.TOPIC, name)
            found = image.topic_named(name)
            if found is None:
                topic = _without_partitions(why_missing(name), name, is_internal=name in _INTERNAL_TOPICS)
                topic.topic_authorized_operations = operations
                return topic
            return _described(image, found, range(first, first + length), context.listener, operations)

        def respond(topics: list[_Topic], now: int) -> DescribeTopicPartitionsResponse:
            if request.topics:
                refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                topics += [_without_partitions(refused, name) for name in names if name not in shown]
            return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)

        return ItemByItem(pieces, describe_one, respond)


HANDLERS: Handlers = {DescribeTopicPartitionsRequest: TopicPartitionApis.describe}


def _wanted(image: MetadataImage, request: DescribeTopicPartitionsRequest) -> list[str]:
    """The names of the topics that the answer is about, in order: from the cursor's on. KafkaError if there can be no
    such cursor."""
    named = {topic.name for topic in request.topics}
    cursor = request.cursor
    if cursor is None:
        return sorted(named or image.topic_ids)
    if named and cursor.topic_name not in named:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the cursor is at topic {cursor.topic_name}, which the request does not name"
        )
    if cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the cursor is at partition {cursor.partition_index}: at least 0 is allowed"
        )
    return sorted(name for name in named or image.topic_ids if name >= cursor.topic_name)


def _without_partitions(error: ErrorCode, name: str, is_internal: bool = False) -> _Topic:
    return _Topic(error_code=error, name=name, is_internal=is_internal, partitions=[])


class _Piece(NamedTuple):
    """A topic, and which of its partitions an answer describes."""

    name: str
    first: int
    length: int


def _page(
    image: MetadataImage, names: Sequence[str], cursor: TopicPartitionCursor | None, limit: int
) -> tuple[list[_Piece], TopicPartitionCursor | None]:
    """What fits into an answer of `limit` partitions, and where the next one begins."""
    pieces: list[_Piece] = []
    for name in names:
        if not limit:
            return pieces, TopicPartitionCursor(topic_name=name, partition_index=0)
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        found = image.topic_named(name)
        left = 0 if found is None else max(0, len(found.partitions) - first)
        count = min(left, limit)
        pieces.append(_Piece(name, first, count))
        limit -= count
        if count < left:
            return pieces, TopicPartitionCursor(topic_name=name, partition_index=first + count)
    return pieces, None


def _described(
    image: MetadataImage, topic: TopicImage, numbers: range, listener: str, operations: int
) -> Steps[_Topic]:
    """The topic with these partitions."""
    partitions = []
    for number in numbers:
        partitions.append(_partition(image, number, topic.partitions[number], listener))
        if len(partitions) % _PARTITIONS_PER_STEP == 0:
            yield
    return _Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in _INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _partition(image: MetadataImage, number: int, partition: PartitionRegistration, listener: str) -> _Topic.Partition:
    leader = image.brokers.get(partition.leader)
    has_leader = leader is not None and listener in leader.endpoints
    return _Topic.Partition(
        partition_index=number,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_leader,
        offline_replicas=offline_replicas(image, partition, listener),
    )
