"""Produce on a broker's listener, versions 3 to 13 (advertised from 0, see `protocol.api`).

One object (`ProducedBatch`) goes the whole way with a partition's batch: it is judged, appended, waits for its replicas
if acks=all wants that, and is answered. Behaviour to know:

* Produce with acks=0 is never answered. Kafka closes the connection if such a produce fails, so that the producer at
  least sees something; so does this.
* Of a partition that a request names twice the last mention counts, and it is answered once.
* Batches of a transaction: `broker.requests.data.produce_transactions`. What is refused, and what such an answer says:
  `broker.requests.data.produce_refusals`.

Follows kafka.server.KafkaApis.handleProduceRequest.
"""

from functools import partial

from pykraft.broker.coordination.transaction_verification import TransactionVerification, Verified
from pykraft.broker.replication.delayed import DelayedProduce, decide
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.requests.authorizer import Authorizer
from pykraft.broker.requests.cluster.cluster import INTERNAL_TOPICS
from pykraft.broker.requests.data.partitions import Asked, is_denied, topic_name
from pykraft.broker.requests.data.produce_refusals import (
    FIRST_ZSTD_VERSION,
    ProducedBatch,
    check_codec,
    not_appended,
    refused_answer,
)
from pykraft.broker.requests.data.produce_transactions import ProduceTransactions
from pykraft.broker.requests.dispatch import CloseConnection, Handlers
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation
from pykraft.common.core import Promise, Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.protocol.messages.data import NodeEndpoint, ProduceRequest, ProduceResponse
from pykraft.storage.answers import AppendInfo
from pykraft.storage.validator import UnpackBudget, only_batch
from pykraft.storage.verification_state import NO_CHECK
from pykraft.transport.server_channel import RequestContext

ALL_REPLICAS = -1
"""acks=all."""
_ADMIN_CLIENT_ID = "__admin_client"
"""A client of this name may write to the coordinators' topics, as it may in Kafka."""
_DECIDED_AT_ONCE = 500


class ProduceApis:
    """Appends what producers send."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer, verification: TransactionVerification) -> None:
        self._replicas = replicas
        self._authorizer = authorizer
        self._transactions = ProduceTransactions(authorizer, verification)

    def produce(self, request: ProduceRequest, context: RequestContext, now: int) -> ItemByItem:
        asked: dict[Asked, ProduceRequest.Topic.Partition] = {
            (topic.name, topic.topic_id, partition.index): partition
            for topic in request.topic_data
            for partition in topic.partition_data
        }
        judge, judged = partial(self._judge, request, context), partial(self._judged, request, context)
        return ItemByItem(list(asked.items()), judge, judged, is_write=True)

    def _judge(
        self,
        request: ProduceRequest,
        context: RequestContext,
        named: tuple[Asked, ProduceRequest.Topic.Partition],
        now: int,
    ) -> ProducedBatch:
        """The partition's batch, refused as far as it can be without the log."""
        asked, partition = named
        name = topic_name(self._replicas, asked, context)
        topic_partition = TopicPartition(name or "", partition.index)
        batch, refusal = None, None
        try:
            batch = only_batch(partition.records)
            if context.api_version < FIRST_ZSTD_VERSION:
                check_codec(batch)
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
        produced = ProducedBatch(topic_partition, None, topic_id=topic_id, asked=asked, batch=batch)
        if refusal is not None:
            produced.refuse(refusal)
        return produced

    def _judged(
        self, request: ProduceRequest, context: RequestContext, batches: list[ProducedBatch], now: int
    ) -> ItemByItem | Promise[ItemByItem]:
        """Append, once the transaction's coordinator has said what it knows, if it has to be asked."""
        transactional = [each for each in batches if each.batch is not None and each.batch.is_transactional]
        if not transactional:
            return self._appending(request, context, batches, None)
        verified = self._transactions.verify(request, context, transactional)
        return verified.map(partial(self._appending, request, context, batches))

    def _appending(
        self, request: ProduceRequest, context: RequestContext, batches: list[ProducedBatch], verified: Verified | None
    ) -> ItemByItem:
        append = partial(self._append, request, verified, UnpackBudget())
        return ItemByItem(batches, append, partial(self._appended, request, context), is_write=True)

    def _append(
        self,
        request: ProduceRequest,
        verified: Verified | None,
        budget: UnpackBudget,
        produced: ProducedBatch,
        now: int,
    ) -> ProducedBatch | Steps[ProducedBatch]:
        check = NO_CHECK if verified is None else self._transactions.check(produced, verified)
        if produced.error is not None or produced.batch is None:
            return produced
        topic_partition, needs_all = produced.topic_partition, request.acks == ALL_REPLICAS
        topic_id = produced.topic_id
        try:
            info = self._replicas.produce(
                topic_partition, produced.batch, now, topic_id=topic_id, needs_all=needs_all, budget=budget, check=check
            )
        except KafkaError as error:
            return not_appended(self._replicas, produced, budget, error)
        if isinstance(info, AppendInfo):
            return self._in_log(produced, info, needs_all)
        return self._append_in_steps(info, produced, budget, needs_all)

    def _in_log(self, produced: ProducedBatch, info: AppendInfo, needs_all: bool) -> ProducedBatch:
        """The batch is in the log. With acks=all it counts once enough replicas have it, which one may do at once."""
        produced.info, produced.error = info, ErrorCode.NONE
        if needs_all:
            decide(self._replicas, produced)
        return produced

    def _append_in_steps(
        self, steps: Steps[AppendInfo], produced: ProducedBatch, budget: UnpackBudget, needs_all: bool
    ) -> Steps[ProducedBatch]:
        try:
            info = yield from steps
        except KafkaError as error:
            return not_appended(self._replicas, produced, budget, error)
        return self._in_log(produced, info, needs_all)

    def _appended(
        self, request: ProduceRequest, context: RequestContext, batches: list[ProducedBatch], now: int
    ) -> ItemByItem | Promise[ItemByItem] | None:
        """Answer, once what has to be replicated is."""
        if request.acks == 0:
            if any(each.error is not ErrorCode.NONE for each in batches):
                raise CloseConnection("a produce with acks=0 failed")
            return None
        if None not in [each.error for each in batches]:
            return self._answering(context, batches)
        delayed = DelayedProduce(self._replicas, batches)
        if len(batches) <= _DECIDED_AT_ONCE:
            return self._wait(request, context, batches, delayed, now)
        # Others may have come between very many appends: look in steps at which of these are replicated by now.
        wait = partial(self._wait, request, context, batches, delayed)
        return ItemByItem((delayed,), lambda delayed, now: delayed.decide_in_steps(), lambda _, now: wait(now), True)

    def _wait(
        self,
        request: ProduceRequest,
        context: RequestContext,
        batches: list[ProducedBatch],
        delayed: DelayedProduce,
        now: int,
    ) -> ItemByItem | Promise[ItemByItem]:
        """Answer when the last batch is replicated, or when the client's patience is over."""
        if delayed.is_decided():
            return self._answering(context, batches)
        watched = sorted({each.topic_partition for each in batches if each.error is None})
        self._replicas.produces.watch(delayed, watched, now + max(0, request.timeout_ms))
        return delayed.promise.map(lambda _: self._answering(context, batches))

    def _answering(self, context: RequestContext, batches: list[ProducedBatch]) -> ItemByItem:
        leaders: dict[int, NodeEndpoint] = {}

        def respond(answers: list[ProduceResponse.Topic.Partition], now: int) -> ProduceResponse:
            topics: dict[tuple[str, Uuid], list[ProduceResponse.Topic.Partition]] = {}
            for each, answer in zip(batches, answers, strict=True):
                name, topic_id, _ = each.asked
                topics.setdefault((name, topic_id), []).append(answer)
            return ProduceResponse(
                responses=[
                    ProduceResponse.Topic(name=name, topic_id=topic_id, partition_responses=of_topic)
                    for (name, topic_id), of_topic in topics.items()
                ],
                node_endpoints=list(leaders.values()),
            )

        return ItemByItem(batches, partial(self._answer, context, leaders), respond)

    def _answer(
        self, context: RequestContext, leaders: dict[int, NodeEndpoint], produced: ProducedBatch, now: int
    ) -> ProduceResponse.Topic.Partition:
        if produced.error is not ErrorCode.NONE or produced.info is None:
            return refused_answer(self._replicas, produced, context, leaders)
        return ProduceResponse.Topic.Partition(
            index=produced.topic_partition.partition,
            base_offset=produced.info.first_offset,
            log_append_time_ms=produced.info.log_append_time_ms,
            log_start_offset=produced.info.log_start_offset,
        )


HANDLERS: Handlers = {
    ProduceRequest: ProduceApis.produce,
}
