"""A node that leads a topic and the groups, and whose transactions are coordinated by broker 2, which a test plays.

`asked` takes the next question that the node sends to the coordinator, `answer` answers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.broker.requests.dispatch import Answer
from pykraft.common.core import Failure, Outbound, Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    WriteTxnMarkersRequest,
)
from pykraft.records.batch import RecordBatch
from tests.harness.lone_node import LoneNode

NONE = ErrorCode.NONE
T = TopicPartition("t", 0)
GROUPS = TopicPartition(GROUP_TOPIC, 0)


class TransactionalNode:
    """Node 1 with topic t and `__consumer_offsets`, each of one partition."""

    def __init__(self, replicas: tuple[int, ...] = (1,), group_replicas: tuple[int, ...] = (1,), **fields: Any) -> None:
        """All replicas of a partition must be in sync."""
        self.lone = LoneNode(**{"broker_session_timeout_ms": "60000", **fields})
        self.lone.join(2)
        self.lone.create(TRANSACTION_TOPIC, (2,))
        self.topic = self.lone.create(T.topic, replicas, min_insync_replicas=str(len(replicas)))
        settings = {"cleanup_policy": "compact", "min_insync_replicas": str(len(group_replicas))}
        self.group_topic = self.lone.create(GROUP_TOPIC, group_replicas, **settings)
        self.lone.run(200)

    def log(self, place: TopicPartition = T) -> Any:
        return self.lone.broker.replicas.partitions[place].log

    def produce(
        self,
        batch: RecordBatch,
        version: int = 12,
        transactional_id: str | None = "mine",
        acks: int = -1,
        topic: str = T.topic,
    ) -> Promise[Answer]:
        """Hand in a produce, from version 13 on for the topic t."""
        topic_type = ProduceRequest.Topic
        part = topic_type.Partition(index=0, records=memoryview(bytearray(batch.buffer)))
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=500,
            topic_data=[topic_type(name=topic, topic_id=self.topic, partition_data=[part])],
        )
        promise = self.lone.handle(request, version=version)
        self.lone.run(0)
        return promise

    def asked(self) -> Outbound:
        """The next question to the coordinator."""
        self.lone.run(0)
        questions = [each for each in self.lone.sent if isinstance(each.request, AddPartitionsToTxnRequest)]
        assert questions, "the coordinator was not asked"
        self.lone.sent.remove(questions[0])
        return questions[0]

    @property
    def is_asking(self) -> bool:
        self.lone.run(0)
        return any(isinstance(each.request, AddPartitionsToTxnRequest) for each in self.lone.sent)

    def answer(self, question: Outbound, error: ErrorCode | Failure = NONE, whole: ErrorCode = NONE) -> None:
        """Answer for all partitions alike; with `whole` the response as such is an error."""
        self.answer_only(question, error, whole)
        self.lone.run(0)

    def answer_only(self, question: Outbound, error: ErrorCode | Failure = NONE, whole: ErrorCode = NONE) -> None:
        """The same; what is interrupted then does not go on yet."""
        if isinstance(error, Failure):
            question.on_response(error, self.lone.now)
        else:
            question.on_response(_response(question.request, error, whole), self.lone.now)

    def markers(
        self,
        *markers: tuple[int, int, bool],
        places: Sequence[TopicPartition] = (T,),
        version: int = 2,
        coordinator_epoch: int = 0,
        transaction_version: int = 2,
    ) -> Mapping[tuple[int, TopicPartition], ErrorCode]:
        """Write markers (producer id, epoch, committed); the errors by producer and partition."""
        marker = WriteTxnMarkersRequest.Marker
        topics = [marker.Topic(name=place.topic, partition_indexes=[place.partition]) for place in places]
        request = WriteTxnMarkersRequest(
            markers=[
                marker(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    transaction_result=committed,
                    topics=topics,
                    coordinator_epoch=coordinator_epoch,
                    transaction_version=transaction_version if version > 1 else 0,
                )
                for producer_id, epoch, committed in markers
            ]
        )
        return errors_of(self.lone.ask(request, version=version))

    def send_marker(self, place: TopicPartition, producer_id: int = 7, epoch: int = 1) -> Promise[Answer]:
        """Write a COMMIT marker, which may wait."""
        marker = WriteTxnMarkersRequest.Marker
        topics = [marker.Topic(name=place.topic, partition_indexes=[place.partition])]
        sent = marker(
            producer_id=producer_id, producer_epoch=epoch, transaction_result=True, topics=topics, coordinator_epoch=0
        )
        promise = self.lone.handle(WriteTxnMarkersRequest(markers=[sent]))
        self.lone.run(1)
        return promise


def errors_of(response: Any) -> Mapping[tuple[int, TopicPartition], ErrorCode]:
    """The errors of markers, by producer and partition."""
    return {
        (each.producer_id, TopicPartition(topic.name, part.partition_index)): ErrorCode.of(part.error_code)
        for each in response.markers
        for topic in each.topics
        for part in topic.partitions
    }


def _response(request: AddPartitionsToTxnRequest, error: ErrorCode, whole: ErrorCode) -> AddPartitionsToTxnResponse:
    result = AddPartitionsToTxnResponse.Transaction
    return AddPartitionsToTxnResponse(
        error_code=whole,
        results_by_transaction=[
            result(
                transactional_id=transaction.transactional_id,
                topic_results=[
                    result.Topic(
                        name=topic.name,
                        results_by_partition=[
                            result.Topic.Partition(partition_index=number, partition_error_code=error)
                            for number in topic.partitions
                        ],
                    )
                    for topic in transaction.topics
                ],
            )
            for transaction in request.transactions
            if not whole
        ],
    )


def produced_error(answer: Promise[Answer]) -> ErrorCode:
    """The error of a produce that was answered."""
    response: Any = answer.value.response
    return ErrorCode.of(response.responses[0].partition_responses[0].error_code)
