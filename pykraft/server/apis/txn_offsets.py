"""TxnOffsetCommit on a broker's listener, versions 0 to 5: offsets of a group that count once a transaction commits.

The group's coordinator answers it, not the transaction's. Behaviour to know:

* It needs WRITE on the transactional id, READ on the group, and READ on each topic. A topic or partition that there is
  not, or not for this client, is refused alone.
* Before the first offsets of a transaction the group coordinator asks the transaction's coordinator whether
  `__consumer_offsets` is part of it; from version 5 on it adds its partition itself (KIP-890).
* From version 3 on a member of the group names itself, and is fenced if it is none any more (KIP-447).
* Up to version 1 a group that is being loaded is COORDINATOR_NOT_AVAILABLE: old producers cannot bear the other error.

Follows kafka.server.KafkaApis.handleTxnOffsetCommitRequest and
org.apache.kafka.coordinator.group.GroupCoordinatorService.commitTransactionalOffsets.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from pykraft.protocol.schema import Response
from pykraft.server.apis.dispatch import Handlers
from pykraft.server.authorizer import Authorizer
from pykraft.server.coordinators import GroupCoordinator
from pykraft.server.transaction_verification import Transaction, TransactionSupport
from pykraft.transport.server_channel import RequestContext

_FIRST_THAT_KNOWS_LOADING = 2


class TxnOffsetApis:
    """Commits the offsets of transactions."""

    def __init__(
        self, coordinator: GroupCoordinator, image: Callable[[], MetadataImage], authorizer: Authorizer
    ) -> None:
        self._coordinator = coordinator
        self._image = image
        self._authorizer = authorizer

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext, now: int
    ) -> Promise[Response]:
        allows, version = self._authorizer.allows, context.api_version
        if not allows(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        refused, kept = self._judge(request, context)
        if not kept.topics:
            return Promise.of(_merged(request, refused, TxnOffsetCommitResponse(topics=[])))
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "GroupId can't be empty.")
        support = TransactionSupport.of_offset_commit(version)
        transaction = Transaction(request.transactional_id, request.producer_id, request.producer_epoch, support)
        written = self._coordinator.write_transactional(
            request.group_id, transaction, lambda shard: shard.commit_transactional(kept, version), now
        )

        def answered(found: Any) -> Response:
            if not isinstance(found, KafkaError):
                return _merged(request, refused, found)
            code = found.code
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _FIRST_THAT_KNOWS_LOADING:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return _merged(request, refused, kept.refusal(KafkaError(code)))

        return written.map(answered)

    def _judge(
        self, request: TxnOffsetCommitRequest, context: RequestContext
    ) -> tuple[Sequence[dict[int, ErrorCode]], TxnOffsetCommitRequest]:
        """For each topic of the request the partitions that are refused here, and the request without them."""
        names = {topic.name for topic in request.topics}
        allowed = self._authorizer.allowed(context, AclOperation.READ, AclResourceType.TOPIC, names)
        refused: list[dict[int, ErrorCode]] = []
        kept = []
        for topic in request.topics:
            known = self._image().topic_named(topic.name)
            there = known.partitions if known is not None and topic.name in allowed else {}
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic.name not in allowed:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            numbers = [partition.partition_index for partition in topic.partitions]
            refused.append({number: error for number in numbers if number not in there})
            partitions = [partition for partition in topic.partitions if partition.partition_index in there]
            if partitions:
                kept.append(topic.replace(partitions=partitions))
        return refused, request.replace(topics=kept)


def _merged(
    request: TxnOffsetCommitRequest, refused: Sequence[dict[int, ErrorCode]], response: TxnOffsetCommitResponse
) -> TxnOffsetCommitResponse:
    """The coordinator's answers, and the refusals of what it was not asked, in the order of the request."""
    topic_type = TxnOffsetCommitResponse.Topic
    answered = iter(response.topics)
    topics = []
    for topic, errors in zip(request.topics, refused, strict=True):
        codes: dict[int, int] = dict(errors)
        if any(partition.partition_index not in errors for partition in topic.partitions):
            codes |= {partition.partition_index: partition.error_code for partition in next(answered).partitions}
        topics.append(
            topic_type(
                name=topic.name,
                partitions=[
                    topic_type.Partition(
                        partition_index=partition.partition_index, error_code=codes[partition.partition_index]
                    )
                    for partition in topic.partitions
                ],
            )
        )
    return TxnOffsetCommitResponse(topics=topics)


HANDLERS: Handlers = {
    TxnOffsetCommitRequest: TxnOffsetApis.txn_offset_commit,
}
