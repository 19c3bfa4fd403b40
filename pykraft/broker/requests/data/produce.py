"""Produce on a broker's listener, versions 3 to 13 (advertised from 0, see `protocol.api`). Behaviour to know:

* Produce with acks=0 is never answered. Kafka closes the connection if such a produce fails, so that the producer at
  least sees something; so does this.
* Of a partition that a request names twice the last mention counts, and it is answered once.
* Transactional batches need WRITE on the request's transactional id, and are all of one producer id and epoch. Before
  any batch of the request is appended, the transaction coordinator is asked about the partitions whose transaction is
  not open yet (see `broker.coordination.transaction_verification`); the handler pauses until the answer is there.

Follows kafka.server.KafkaApis.handleProduceRequest.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pykraft.broker.coordination.transaction_verification import (
    NOTHING_TO_VERIFY,
    Transaction,
    TransactionSupport,
    TransactionVerification,
    Verified,
)
from pykraft.broker.replication.delayed import DelayedProduce, ProduceResult
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.requests.authorizer import Authorizer
from pykraft.broker.requests.cluster.cluster import INTERNAL_TOPICS
from pykraft.broker.requests.data.partitions import NOT_LEADER, Asked, current_leader, is_denied, topic_name
from pykraft.broker.requests.dispatch import CloseConnection, Handlers
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Promise, Steps
from pykraft.common.errors import ErrorCode, InvalidRecordsError, KafkaError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.protocol.messages.data import NodeEndpoint, ProduceRequest, ProduceResponse
from pykraft.records.batch import CODEC_MASK, RecordBatch
from pykraft.records.compression import Compression
from pykraft.storage.answers import AppendInfo
from pykraft.storage.validator import UnpackBudget, only_batch
from pykraft.storage.verification_state import NO_CHECK, AppendCheck
from pykraft.transport.server_channel import RequestContext

ALL_REPLICAS = -1
"""acks=all."""
_ADMIN_CLIENT_ID = "__admin_client"
"""A client of this name may write to the coordinators' topics, as it may in Kafka."""
_FIRST_ZSTD_VERSION = 7
_DECIDED_AT_ONCE = 500
_BEFORE_THE_LOG = (
    *NOT_LEADER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
)
"""With these refusals of a batch the answer does not say where the log begins."""


class _Part(NamedTuple):
    """What a request brings for one partition: a batch, or why it is refused before the log is asked."""

    asked: Asked
    topic_partition: TopicPartition
    batch: RecordBatch | None
    refusal: KafkaError | None = None
    topic_id: Uuid = ZERO_UUID
    """Of the topic that had this name when the request came."""


class ProduceApis:
    """Appends what producers send."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer, verification: TransactionVerification) -> None:
        self._replicas = replicas
        self._authorizer = authorizer
        self._verification = verification

    def produce(self, request: ProduceRequest, context: RequestContext, now: int) -> ItemByItem:
        asked: dict[Asked, ProduceRequest.Topic.Partition] = {
            (topic.name, topic.topic_id, partition.index): partition
            for topic in request.topic_data
            for partition in topic.partition_data
        }
        judge, verify = partial(self._part, request, context), partial(self._verified, request, context)
        return ItemByItem(list(asked.items()), judge, verify, is_write=True)

    def _verified(
        self, request: ProduceRequest, context: RequestContext, parts: list[_Part], now: int
    ) -> ItemByItem | Promise[ItemByItem]:
        """Append once the transaction's coordinator has said what it knows, if it has to be asked."""
        appended: Callable[[list[ProduceResult], int], Any] = partial(self._appended, request, context, parts)
        if len(parts) > _DECIDED_AT_ONCE:
            appended = partial(self._decided_ahead, appended)

        def append(verified: Verified) -> ItemByItem:
            return ItemByItem(parts, partial(self._append, request, verified, UnpackBudget()), appended, is_write=True)

        verified = self._verify(request, context, parts)
        return append(verified.value) if verified.kept else verified.map(append)

    def _decided_ahead(
        self, appended: Callable[[list[ProduceResult], int], Any], results: list[ProduceResult], now: int
    ) -> ItemByItem:
        """Look in steps at which of very many batches are replicated already, so that `appended` finds them decided."""
        return ItemByItem(
            (DelayedProduce(self._replicas, results),),
            lambda delayed, now: delayed.decide_in_steps(),
            lambda _, now: appended(results, now),
            is_write=True,
        )

    def _appended(
        self,
        request: ProduceRequest,
        context: RequestContext,
        parts: list[_Part],
        results: list[ProduceResult],
        now: int,
    ) -> ItemByItem | Promise[ItemByItem] | None:
        """Answer once what has to be replicated is."""
        if request.acks == 0:
            if any(result.error not in (None, ErrorCode.NONE) for result in results):
                raise CloseConnection("a produce with acks=0 failed")
            return None
        delayed = DelayedProduce(self._replicas, results)
        if delayed.is_decided():
            return self._produced(parts, context, results)
        watched = sorted({result.topic_partition for result in results if result.error is None})
        self._replicas.produces.watch(delayed, watched, now + max(0, request.timeout_ms))
        return delayed.promise.map(partial(self._produced, parts, context))

    def _part(
        self,
        request: ProduceRequest,
        context: RequestContext,
        named: tuple[Asked, ProduceRequest.Topic.Partition],
        now: int,
    ) -> _Part:
        """The partition's batch, as far as it can be judged without the log."""
        asked, partition = named
        name = topic_name(self._replicas, asked, context)
        topic_partition = TopicPartition(name or "", partition.index)
        batch, refusal = None, None
        try:
            batch = _only_batch(partition)
            if batch.attributes & CODEC_MASK == Compression.ZSTD and context.api_version < _FIRST_ZSTD_VERSION:
                raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
        except KafkaError as error:
            refusal = error
        if name is None:
            refusal = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {asked[1]}")
        elif is_denied(self._authorizer, context, AclOperation.WRITE, name):
            refusal = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif name in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT_ID:
            refusal = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is the brokers' own")
        elif refusal is None and request.acks not in (0, 1, ALL_REPLICAS):
            refusal = KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
        topic_id = self._replicas.image.topic_ids.get(name or "", ZERO_UUID)
        return _Part(asked, topic_partition, batch, refusal, topic_id)

    def _verify(self, request: ProduceRequest, context: RequestContext, parts: Sequence[_Part]) -> Promise[Verified]:
        """Ask the transaction coordinator about what is part of a transaction, if anything is."""
        transactional = [(part, part.batch) for part in parts if part.batch is not None and part.batch.is_transactional]
        if not transactional:
            return NOTHING_TO_VERIFY
        transactional_id = request.transactional_id
        if transactional_id is None or not self._authorizer.allows(
            context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id
        ):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        wanted = [
            (part.topic_partition, batch)
            for part, batch in transactional
            if part.refusal is None and batch.has_producer_id
        ]
        producers = {(batch.producer_id, batch.producer_epoch) for _, batch in wanted}
        if not producers:
            return NOTHING_TO_VERIFY
        if len(producers) > 1:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
            )
        support = TransactionSupport.of_produce(context.api_version)
        transaction = Transaction(transactional_id, *producers.pop(), support)
        sequences = {topic_partition: batch.base_sequence for topic_partition, batch in wanted}
        return self._verification.verify(transaction, sequences, retries=True)

    def _append(
        self, request: ProduceRequest, verified: Verified, budget: UnpackBudget, part: _Part, now: int
    ) -> ProduceResult | Steps[ProduceResult]:
        _, topic_partition, batch, refusal, topic_id = part
        refusal = refusal or verified.refusal(topic_partition)
        if refusal is not None or batch is None:
            assert refusal is not None, "a part without a batch is refused"
            return ProduceResult(topic_partition, refusal.code, refusal.detail)
        needs_all = request.acks == ALL_REPLICAS
        check = NO_CHECK
        if batch.is_transactional:
            verification = verified.verifications.get(topic_partition)
            check = AppendCheck(verification, needs_verification=self._verification.is_required)
        try:
            info = self._replicas.produce(
                topic_partition, batch, now, topic_id=topic_id, needs_all=needs_all, budget=budget, check=check
            )
        except KafkaError as error:
            return self._not_appended(part, budget, error)
        if isinstance(info, AppendInfo):
            return _appended_to(part, info, needs_all)
        return self._append_in_steps(info, part, budget, needs_all)

    def _append_in_steps(
        self, steps: Steps[AppendInfo], part: _Part, budget: UnpackBudget, needs_all: bool
    ) -> Steps[ProduceResult]:
        try:
            info = yield from steps
        except KafkaError as error:
            return self._not_appended(part, budget, error)
        return _appended_to(part, info, needs_all)

    def _not_appended(self, part: _Part, budget: UnpackBudget, error: KafkaError) -> ProduceResult:
        topic_partition = part.topic_partition
        assert part.batch is not None, "a part without a batch is refused before"
        self._replicas.topic_metrics.refused(topic_partition.topic, error.code, part.batch.size)
        code = error.code
        if code is ErrorCode.UNKNOWN_TOPIC_ID and part.asked[1] == ZERO_UUID:  # which a client by names does not know
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        result = ProduceResult(topic_partition, code, error.detail)
        if isinstance(error, InvalidRecordsError):
            result.record_errors = error.records[: budget.left_errors]
            budget.left_errors -= len(result.record_errors)
        if error.code not in _BEFORE_THE_LOG:
            result.log_start_offset = self._replicas.partition(topic_partition).log.log_start_offset
        return result

    def _produced(self, parts: list[_Part], context: RequestContext, results: list[ProduceResult]) -> ItemByItem:
        leaders: dict[int, NodeEndpoint] = {}

        def respond(answers: list[ProduceResponse.Topic.Partition], now: int) -> ProduceResponse:
            topics: dict[tuple[str, Uuid], list[ProduceResponse.Topic.Partition]] = {}
            for part, answer in zip(parts, answers, strict=True):
                name, topic_id, _ = part.asked
                topics.setdefault((name, topic_id), []).append(answer)
            return ProduceResponse(
                responses=[
                    ProduceResponse.Topic(name=name, topic_id=topic_id, partition_responses=of_topic)
                    for (name, topic_id), of_topic in topics.items()
                ],
                node_endpoints=list(leaders.values()),
            )

        return ItemByItem(results, partial(self._produced_partition, context, leaders), respond)

    def _produced_partition(
        self, context: RequestContext, leaders: dict[int, NodeEndpoint], result: ProduceResult, now: int
    ) -> ProduceResponse.Topic.Partition:
        assert result.error is not None
        partition = result.topic_partition.partition
        answer = ProduceResponse.Topic.Partition(index=partition, error_code=result.error)
        if result.info is not None and result.error is ErrorCode.NONE:
            answer.base_offset = result.info.first_offset
            answer.log_append_time_ms = result.info.log_append_time_ms
            answer.log_start_offset = result.info.log_start_offset
        elif result.error is not ErrorCode.NONE:
            answer.error_message = result.detail or None
            answer.record_errors = [
                ProduceResponse.Topic.Partition.RecordError(batch_index=index, batch_index_error_message=message)
                for index, message in result.record_errors
            ]
            answer.log_start_offset = result.log_start_offset
            answer.current_leader = current_leader(
                self._replicas, result.error, result.topic_partition, context, leaders
            )
        return answer


def _appended_to(part: _Part, info: AppendInfo, needs_all: bool) -> ProduceResult:
    """The result of a batch that is in the log: undecided if it has to be replicated."""
    error = None if needs_all else ErrorCode.NONE
    return ProduceResult(part.topic_partition, error, info=info, topic_id=part.topic_id)


def _only_batch(partition: ProduceRequest.Topic.Partition) -> RecordBatch:
    if partition.records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the records are null")
    return only_batch(partition.records)


HANDLERS: Handlers = {
    ProduceRequest: ProduceApis.produce,
}
