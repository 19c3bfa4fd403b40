"""TxnOffsetCommit on a broker's listener, versions 0 to 6: offsets of a group that count once a transaction commits.

The group's coordinator answers it, not the transaction's. Behaviour to know:

* It needs WRITE on the transactional id, READ on the group, and READ on each topic. A topic or partition that there is
  not, or not for this client, is refused alone.
* Before the first offsets of a transaction the group coordinator asks the transaction's coordinator whether
  `__consumer_offsets` is part of it; from version 5 on it adds its partition itself (KIP-890).
* From version 3 on a member of the group names itself, and is fenced if it is none any more (KIP-447). From version 6
  on it is GROUP_ID_NOT_FOUND or STALE_MEMBER_EPOCH that fences it, where older ones have ILLEGAL_GENERATION.
* From version 6 on topics go by their ids. A topic that there is not is UNKNOWN_TOPIC_ID then.
* Many offsets are committed in pieces (`pieces`), as those of OffsetCommit are.
* Up to version 1 a group that is being loaded is COORDINATOR_NOT_AVAILABLE: old producers cannot bear the other error.

Follows kafka.server.KafkaApis.handleTxnOffsetCommitRequest and
org.apache.kafka.coordinator.group.GroupCoordinatorService.commitTransactionalOffsets.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pykraft.broker.coordination.coordinators import GroupCoordinator
from pykraft.broker.coordination.transaction_verification import Transaction, TransactionSupport
from pykraft.broker.requests.authorizer import Authorizer
from pykraft.broker.requests.coordinators.group_offsets import Committed, Judged, judge, merge_commits
from pykraft.broker.requests.coordinators.pieces import Piece, cut
from pykraft.broker.requests.dispatch import Handled, Handlers
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Promise, gather
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.coordinator.result import TransactionalWriter
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from pykraft.transport.server_channel import RequestContext

_FIRST_THAT_KNOWS_LOADING = 2
_FIRST_BY_ID = 6


class TxnOffsetApis:
    """Commits the offsets of transactions."""

    def __init__(
        self, coordinator: GroupCoordinator, image: Callable[[], MetadataImage], authorizer: Authorizer
    ) -> None:
        self._coordinator = coordinator
        self._image = image
        self._authorizer = authorizer

    def txn_offset_commit(self, request: TxnOffsetCommitRequest, context: RequestContext, now: int) -> Handled:
        allows, version = self._authorizer.allows, context.api_version
        if not allows(context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

        def judge(pieces: list[Piece], now: int) -> Handled:
            return ItemByItem(
                pieces, lambda piece, _: self._judge(piece, context), partial(self._verify, request, version)
            )

        return cut(request.topics, lambda topic: topic.partitions, judge, now)

    def _verify(
        self, request: TxnOffsetCommitRequest, version: int, pieces: Sequence[Sequence[Judged]], now: int
    ) -> Handled:
        """Have the transaction's coordinator confirm the transaction, and commit."""
        if not any(each.asked for piece in pieces for each in piece):
            return self._merge([Committed(piece, ()) for piece in pieces])
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "GroupId can't be empty.")
        support = TransactionSupport.of_offset_commit(version)
        transaction = Transaction(request.transactional_id, request.producer_id, request.producer_epoch, support)

        def begin(verified: TransactionalWriter | KafkaError) -> Handled:
            return ItemByItem(
                pieces,
                partial(self._commit, request, version, verified),
                lambda answers, _: gather(answers).map(self._merge),
                is_write=True,
            )

        return self._coordinator.verify(request.group_id, transaction, now).map(begin)

    @staticmethod
    def _merge(found: Sequence[Committed]) -> Handled:
        topic_type = TxnOffsetCommitResponse.Topic
        return merge_commits(topic_type, lambda topics: TxnOffsetCommitResponse(topics=topics), found)

    def _commit(
        self,
        request: TxnOffsetCommitRequest,
        version: int,
        verified: TransactionalWriter | KafkaError,
        piece: Sequence[Judged],
        now: int,
    ) -> Promise[Committed]:
        """Commit one piece. Each asks again whether the member may commit, and whether the producer may write."""
        kept = [each.asked for each in piece if each.asked is not None]
        if not kept:
            return Promise.of(Committed(piece, ()))
        asked = request.replace(topics=kept)

        def answered(found: Any) -> Committed:
            if not isinstance(found, KafkaError):
                return Committed(piece, found.topics)
            code = found.code
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _FIRST_THAT_KNOWS_LOADING:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return Committed(piece, asked.refusal(KafkaError(code)).topics)

        if isinstance(verified, KafkaError):
            return Promise.of(answered(verified))
        written = self._coordinator.write(
            request.group_id, lambda shard: shard.commit_transactional(asked, version), now, verified
        )
        return written.map(answered)

    def _judge(self, piece: Piece, context: RequestContext) -> list[Judged]:
        """Which offsets of this piece may be committed."""
        image = self._image()
        by_id = context.api_version >= _FIRST_BY_ID
        names = [_name(image, part.topic.topic_id) if by_id else part.topic.name for part in piece]
        known = {name for name in names if name is not None}
        allowed = self._authorizer.allowed(context, AclOperation.READ, AclResourceType.TOPIC, known)

        def why_not(name: str | None) -> ErrorCode | None:
            if name is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            return None if name in allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED

        return [judge(part, name or "", why_not(name), image) for part, name in zip(piece, names, strict=True)]


def _name(image: MetadataImage, topic_id: Uuid) -> str | None:
    """The name of the topic of this id; None if there is none."""
    topic = image.topics.get(topic_id)
    return None if topic is None else topic.name


HANDLERS: Handlers = {
    TxnOffsetCommitRequest: TxnOffsetApis.txn_offset_commit,
}
