"""The transaction APIs on a broker's listener.

InitProducerId 0 to 5, AddPartitionsToTxn 0 to 5, AddOffsetsToTxn 0 to 4, EndTxn 0 to 5, DescribeTransactions 0,
ListTransactions 0 to 2.

Only the broker that leads the transactional id's partition of __transaction_state answers; any other says
NOT_COORDINATOR, and while the partition is loaded COORDINATOR_LOAD_IN_PROGRESS. InitProducerId without a transactional
id is answered by any broker, from its block of ids. Behaviour to know:

* WRITE on the transactional id lets a client use it, DESCRIBE lets it look. A producer id without a transactional id
  needs IDEMPOTENT_WRITE on the cluster, or WRITE on some topic.
* AddPartitionsToTxn up to version 3 comes from clients and needs WRITE on each topic; the brokers' own topics are for
  no client. From version 4 on it comes from brokers, with several transactions at once, and needs CLUSTER_ACTION. If
  one partition of a transaction is refused, none is added, and the others get OPERATION_NOT_ATTEMPTED.
* AddOffsetsToTxn adds the group's partition of __consumer_offsets, and needs READ on the group.
* The version of a request says by which rules its client plays: from version 4 of AddPartitionsToTxn and version 5 of
  EndTxn on by those of transaction.version 2. Clients learn from ApiVersions which level the cluster has.
* Older versions know no PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH instead.
* DescribeTransactions leaves out topics that the client may not DESCRIBE, ListTransactions such transactional ids.

Follows kafka.server.KafkaApis.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.broker.coordination.producer_ids import ProducerIds
from pykraft.broker.coordination.transactions import TransactionCoordinator
from pykraft.broker.requests.authorizer import Authorizer, allows_on_cluster, check_cluster
from pykraft.broker.requests.cluster.cluster import INTERNAL_TOPICS
from pykraft.broker.requests.coordinators.groups import once_each, put_together
from pykraft.broker.requests.dispatch import Handled, Handlers
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Promise, Steps, gather
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.config import OFFSETS_TOPIC_NUM_PARTITIONS
from pykraft.coordinator.group.consumer_groups.subscription_patterns import compile_pattern
from pykraft.coordinator.runtime import partition_for
from pykraft.coordinator.transaction.shard import Expected
from pykraft.coordinator.transaction.state import BY_TITLE
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.transactions import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from pykraft.protocol.schema import Request, Response
from pykraft.transport.server_channel import RequestContext

_FIRST_ADD_BY_BROKERS = 4
_FIRST_END_WITH_EPOCH_BUMP = 5
_FIRST_FENCED = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}
"""The first version whose clients know PRODUCER_FENCED."""
_MANY = 200
"""An answer about more partitions is encoded in slices."""
Codes = Mapping[TopicPartition, ErrorCode]
"""What to answer about each partition."""


class TransactionApis:
    """Answers transactional producers, and clients that look at transactions."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        producer_ids: ProducerIds,
        image: Callable[[], MetadataImage],
        authorizer: Authorizer,
    ) -> None:
        self._coordinator = coordinator
        self._producer_ids = producer_ids
        self._image = image
        self._authorizer = authorizer

    # --- InitProducerId -----------------------------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitProducerIdRequest, context: RequestContext, now: int
    ) -> Response | Promise[Response]:
        name = request.transactional_id
        if name is None:
            self._check_idempotent(context)
        else:
            self._check(context, AclOperation.WRITE, name)
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and an epoch belong together")
        if name is None:
            return InitProducerIdResponse(producer_id=self._producer_ids.take(now), producer_epoch=0)
        has_id = request.producer_id != NO_PRODUCER_ID
        expected = Expected(request.producer_id, request.producer_epoch) if has_id else None
        timeout_ms = request.transaction_timeout_ms
        answer = self._coordinator.write(
            name, lambda shard: shard.init_producer_id(name, timeout_ms, expected, now), now
        )
        return answer.map(lambda found: _response(request, found, context))

    def _check_idempotent(self, context: RequestContext) -> None:
        ask = self._authorizer
        may_write = allows_on_cluster(ask, context, AclOperation.IDEMPOTENT_WRITE)
        if not may_write and not ask.allows_some(context, AclOperation.WRITE, AclResourceType.TOPIC):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    # --- what a transaction writes to ---------------------------------------------------------------------------------

    def add_partitions_to_txn(
        self, request: AddPartitionsToTxnRequest, context: RequestContext, now: int
    ) -> ItemByItem:
        if context.api_version < _FIRST_ADD_BY_BROKERS:
            return self._add_for_client(request, context)
        check_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        return ItemByItem(
            request.transactions,
            self._add_for_broker,
            lambda answers, _: gather(answers).map(_answer_to_broker),
            is_write=True,
        )

    def _add_for_client(self, request: AddPartitionsToTxnRequest, context: RequestContext) -> ItemByItem:
        name = request.v3_and_below_transactional_id
        self._check(context, AclOperation.WRITE, name)
        places = _places(request.v3_and_below_topics)
        topics = {place.topic for place in places} - INTERNAL_TOPICS
        allowed = self._authorizer.allowed(context, AclOperation.WRITE, AclResourceType.TOPIC, topics)
        topic_type = AddPartitionsToTxnResponse.Topic
        producer = Expected(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)

        def answered(codes: Codes) -> ItemByItem:
            return ItemByItem(
                (codes,),
                lambda codes, _: _results(topic_type, codes),
                lambda results, _: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0]),
                is_large=len(codes) > _MANY,
            )

        def add(refusals: list[ErrorCode], now: int) -> Handled:
            """One plan for all, or none."""
            if refused := _refused(places, refusals):
                return answered(refused)
            added = self._coordinator.write(name, lambda shard: shard.add_partitions(name, producer, places, 0), now)
            return added.map(lambda found: answered(dict.fromkeys(places, _code(request, found, context))))

        return ItemByItem(places, lambda place, _: self._refusal(place, allowed), add, is_write=True)

    def _add_for_broker(
        self, asked: AddPartitionsToTxnRequest.Transaction, now: int
    ) -> Steps[Promise[tuple[str, Codes]]]:
        """What is to be answered about each partition of one transaction. They are looked at in steps, and added by
        one plan, or none of them is."""
        name = asked.transactional_id
        codes: dict[TopicPartition, ErrorCode] = {}
        for topic in asked.topics:
            for number in topic.partitions:
                now = (yield) or now
                place = TopicPartition(topic.name, number)
                if place not in codes:
                    codes[place] = self._refusal(place, (topic.name,))
        if any(codes.values()):
            refused = {place: code or ErrorCode.OPERATION_NOT_ATTEMPTED for place, code in codes.items()}
            return Promise.of((name, refused))
        producer, places = Expected(asked.producer_id, asked.producer_epoch), list(codes)
        if asked.verify_only:
            verified = self._coordinator.read(name, lambda shard: shard.verify_partitions(name, producer, places), now)
            return verified.map(
                lambda found: (name, dict.fromkeys(places, found.code) if isinstance(found, KafkaError) else found)
            )
        added = self._coordinator.write(name, lambda shard: shard.add_partitions(name, producer, places, 2), now)
        return added.map(
            lambda found: (
                name,
                dict.fromkeys(places, found.code if isinstance(found, KafkaError) else ErrorCode.NONE),
            )
        )

    def _refusal(self, place: TopicPartition, allowed: Collection[str]) -> ErrorCode:
        """Why the partition is not added; NONE if it may be."""
        if place.topic not in allowed:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE if self._is_there(place) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _is_there(self, place: TopicPartition) -> bool:
        topic = self._image().topic_named(place.topic)
        return topic is not None and place.partition in topic.partitions

    def add_offsets_to_txn(
        self, request: AddOffsetsToTxnRequest, context: RequestContext, now: int
    ) -> Promise[Response]:
        name = request.transactional_id
        self._check(context, AclOperation.WRITE, name)
        if not self._authorizer.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        topic = self._image().topic_named(GROUP_TOPIC)
        count = self._coordinator.config[OFFSETS_TOPIC_NUM_PARTITIONS] if topic is None else len(topic.partitions)
        place = TopicPartition(GROUP_TOPIC, partition_for(request.group_id, count))
        producer = Expected(request.producer_id, request.producer_epoch)
        added = self._coordinator.write(name, lambda shard: shard.add_partitions(name, producer, [place], 0), now)
        return added.map(lambda found: AddOffsetsToTxnResponse(error_code=_code(request, found, context)))

    # --- its end ------------------------------------------------------------------------------------------------------

    def end_txn(self, request: EndTxnRequest, context: RequestContext, now: int) -> Promise[Response]:
        name = request.transactional_id
        self._check(context, AclOperation.WRITE, name)
        producer = Expected(request.producer_id, request.producer_epoch)
        version = 2 if context.api_version >= _FIRST_END_WITH_EPOCH_BUMP else 0
        is_commit = request.committed
        ended = self._coordinator.write(name, lambda shard: shard.end(name, producer, is_commit, version, now), now)
        return ended.map(lambda found: _response(request, found, context))

    # --- seen from outside --------------------------------------------------------------------------------------------

    def describe_transactions(
        self, request: DescribeTransactionsRequest, context: RequestContext, now: int
    ) -> ItemByItem:
        state_type = DescribeTransactionsResponse.TransactionState

        def described(name: str, now: int) -> Promise[DescribeTransactionsResponse.TransactionState]:
            if not self._authorizer.allows(context, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, name):
                code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                return Promise.of(state_type(transactional_id=name, error_code=code))

            def answered(found: Any) -> DescribeTransactionsResponse.TransactionState:
                if isinstance(found, KafkaError):
                    return state_type(transactional_id=name, error_code=found.code)
                names = {topic.topic for topic in found.topics}
                shown = self._authorizer.allowed(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
                found.topics = [topic for topic in found.topics if topic.topic in shown]
                state: DescribeTransactionsResponse.TransactionState = found
                return state

            return self._coordinator.read(name, lambda shard: shard.describe(name), now).map(answered)

        return ItemByItem(
            request.transactional_ids,
            once_each(described),
            lambda answers, _: put_together(
                answers, lambda states: DescribeTransactionsResponse(transaction_states=states)
            ),
        )

    def list_transactions(self, request: ListTransactionsRequest, context: RequestContext, now: int) -> Handled:
        runtime = self._coordinator.runtime
        if runtime.is_loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        pattern = request.transactional_id_pattern
        is_wanted = compile_pattern(pattern).fullmatch if pattern else lambda _: True
        states = {BY_TITLE[title] for title in request.state_filters if title in BY_TITLE}
        wanted_states = states if request.state_filters else None
        producer_ids = frozenset(request.producer_id_filters)

        def listed(partition: int, now: int) -> Sequence[Any]:
            if partition not in runtime.active_partitions():
                return ()  # it has moved
            return runtime.active(partition).listed(wanted_states, producer_ids, request.duration_filter, is_wanted)

        def respond(answers: list[Sequence[Any]], now: int) -> ListTransactionsResponse:
            found = [metadata for listed in answers for metadata in listed]
            names = {metadata.transactional_id for metadata in found}
            kind = AclResourceType.TRANSACTIONAL_ID
            shown = self._authorizer.allowed(context, AclOperation.DESCRIBE, kind, names)
            return ListTransactionsResponse(
                unknown_state_filters=[t for t in dict.fromkeys(request.state_filters) if t not in BY_TITLE],
                transaction_states=[
                    ListTransactionsResponse.TransactionState(
                        transactional_id=metadata.transactional_id,
                        producer_id=metadata.producer_id,
                        transaction_state=metadata.state.title,
                    )
                    for metadata in found
                    if metadata.transactional_id in shown
                ],
            )

        return ItemByItem(runtime.active_partitions(), listed, respond)

    def _check(self, context: RequestContext, operation: AclOperation, name: str) -> None:
        if not self._authorizer.allows(context, operation, AclResourceType.TRANSACTIONAL_ID, name):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _places(topics: Iterable[Any]) -> list[TopicPartition]:
    """Each partition that the topics of a request name, once."""
    return list(dict.fromkeys(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions))


def _refused(places: Sequence[TopicPartition], refusals: Sequence[ErrorCode]) -> dict[TopicPartition, ErrorCode]:
    """What to answer about each partition if any is refused: then none is added. Nothing if all may be."""
    if not any(refusals):
        return {}
    return {
        place: refusal or ErrorCode.OPERATION_NOT_ATTEMPTED for place, refusal in zip(places, refusals, strict=True)
    }


def _answer_to_broker(found: Sequence[tuple[str, Codes]]) -> ItemByItem:
    """The answer about several transactions."""
    result_type = AddPartitionsToTxnResponse.Transaction

    def result(answered: tuple[str, Codes], now: int) -> Steps[AddPartitionsToTxnResponse.Transaction]:
        name, codes = answered
        results = yield from _results(result_type.Topic, codes)
        return result_type(transactional_id=name, topic_results=results)

    return ItemByItem(
        found,
        result,
        lambda results, _: AddPartitionsToTxnResponse(results_by_transaction=results),
        is_large=sum(len(codes) for _, codes in found) > _MANY,
    )


def _results(topic_type: Any, codes: Codes) -> Steps[list[Any]]:
    """The answers about partitions, by topic."""
    by_topic: dict[str, list[Any]] = {}
    for place, code in codes.items():
        yield
        answer = topic_type.Partition(partition_index=place.partition, partition_error_code=code)
        by_topic.setdefault(place.topic, []).append(answer)
    results = []
    for name, answers in by_topic.items():
        yield
        results.append(topic_type(name=name, results_by_partition=answers))
    return results


def _seen_by(request: Request, code: ErrorCode, context: RequestContext) -> ErrorCode:
    """The error as clients of this version know it."""
    is_old = context.api_version < _FIRST_FENCED[type(request)]
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old and code is ErrorCode.PRODUCER_FENCED else code


def _code(request: Request, found: Any, context: RequestContext) -> ErrorCode:
    return _seen_by(request, found.code, context) if isinstance(found, KafkaError) else ErrorCode.NONE


def _response(request: Request, found: Any, context: RequestContext) -> Response:
    if not isinstance(found, KafkaError):
        response: Response = found
        return response
    refusal = request.refusal(KafkaError(_code(request, found, context), found.detail))
    assert refusal is not None, "every request about transactions is answered"
    return refusal


HANDLERS: Handlers = {
    InitProducerIdRequest: TransactionApis.init_producer_id,
    AddPartitionsToTxnRequest: TransactionApis.add_partitions_to_txn,
    AddOffsetsToTxnRequest: TransactionApis.add_offsets_to_txn,
    EndTxnRequest: TransactionApis.end_txn,
    DescribeTransactionsRequest: TransactionApis.describe_transactions,
    ListTransactionsRequest: TransactionApis.list_transactions,
}
