"""A node with its transaction coordinator, and the requests of transactional producers.

The test plays the leaders of partitions: each marker that the coordinator sends is kept, and answered when and as the
test says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pykraft.broker.coordination.coordinators import InternalLog
from pykraft.common.core import Failure, Outbound
from pykraft.common.errors import ErrorCode
from pykraft.controller.features import TRANSACTION_VERSION
from pykraft.controller.result import Result
from pykraft.coordinator.result import CoordinatorResult
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.coordinator.transaction.shard import TransactionShard
from pykraft.coordinator.transaction.state import record_of
from pykraft.protocol.messages.coordinators import (
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    decode_coordinator_record,
)
from pykraft.protocol.messages.records import FeatureLevelRecord
from pykraft.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.harness.lone_node import LoneNode

NAME = "x"
TIMEOUT_MS = 60_000
Producer = tuple[int, int]
"""A producer id and epoch."""


class TransactionNode(LoneNode):
    """A node whose markers the test answers."""

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        self.markers: list[Outbound] = []
        """The requests that are not answered yet."""
        super().__init__(*arguments, **fields)

    def _deliver(self, outbound: Outbound) -> None:
        if isinstance(outbound.request, WriteTxnMarkersRequest):
            self.markers.append(outbound)
        else:
            super()._deliver(outbound)


class Transactions:
    """The node with the topics t and u, and the requests of a producer whose transactional id is x."""

    def __init__(self, node: TransactionNode | None = None, **properties: str) -> None:
        settings = {"broker_session_timeout_ms": "6000000"}
        self.node = node or TransactionNode(**settings | properties)
        if node is None:
            self.node.create(TRANSACTION_TOPIC, cleanup_policy="compact")
            self.node.create("t")
            self.node.create("u")
        self.run(100)

    def run(self, duration_ms: int) -> None:
        self.node.run(duration_ms)

    def pass_time(self, duration_ms: int) -> None:
        """On the clock of the day, too, which transactions are timed by."""
        self.node.clock.now_ms += duration_ms
        self.run(duration_ms)

    def ask(self, request: Any, version: int | None = None) -> Any:
        promise = self.node.handle(request, version=version)
        self.run(1)
        assert promise.kept, f"{type(request).__name__} waits"
        return promise.value.response

    @property
    def shard(self) -> TransactionShard:
        shard: TransactionShard = self.node.broker.transactions.runtime.active(0)
        return shard

    def state(self, name: str = NAME) -> str:
        return str(self.describe(name).transaction_state)

    def set_level(self, level: int) -> None:
        """Let the cluster run at this transaction.version. (No API changes levels yet.)"""
        record = FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=level)
        self.node.node.controller._write(lambda image: Result([(record, 0)], None), self.node.now)  # type: ignore[union-attr]
        self.run(100)
        assert self.node.node.loader.image.features.get(TRANSACTION_VERSION, 0) == level

    # --- requests -----------------------------------------------------------------------------------------------------

    def init(self, expected: Producer = (-1, -1), name: str = NAME, **fields: Any) -> Any:
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=fields.get("timeout_ms", TIMEOUT_MS),
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        return self.ask(request, fields.get("version"))

    def producer(self, name: str = NAME, **fields: Any) -> Producer:
        """Begin; once the first block of producer ids is there."""
        response = self.init(name=name, **fields)
        while response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.run(1)
            response = self.init(name=name, **fields)
        assert not response.error_code, response
        return response.producer_id, response.producer_epoch

    def aged(self, epoch: int) -> Producer:
        """A producer with this epoch, as if it had come to it by many transactions."""
        producer_id, _ = self.producer()
        written = CoordinatorResult(None, [record_of(replace(self.shard.transactions[NAME], producer_epoch=epoch), 2)])
        self.node.broker.transactions.write(NAME, lambda shard: written, self.node.now)
        self.run(1)
        return producer_id, epoch

    def add(self, producer: Producer, *topics: str, name: str = NAME, version: int = 3) -> ErrorCode:
        """As a client does up to transaction.version 1; what each partition was answered must be the same."""
        topic = AddPartitionsToTxnRequest.Topic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[topic(name=each, partitions=[0]) for each in topics or ("t",)],
        )
        results = self.ask(request, version).results_by_topic_v3_and_below
        return _only(each.partition_error_code for topic in results for each in topic.results_by_partition)

    def add_as_broker(
        self, producer: Producer, *topics: str, name: str = NAME, verify_only: bool = False
    ) -> dict[str, ErrorCode]:
        """As a partition's leader does for its client (transaction.version 2)."""
        transaction = AddPartitionsToTxnRequest.Transaction
        asked = transaction(
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=verify_only,
            topics=[transaction.Topic(name=each, partitions=[0]) for each in topics or ("t",)],
        )
        response = self.ask(AddPartitionsToTxnRequest(transactions=[asked]), 5)
        (result,) = response.results_by_transaction
        assert result.transactional_id == name
        return {
            topic.name: ErrorCode.of(topic.results_by_partition[0].partition_error_code)
            for topic in result.topic_results
        }

    def add_offsets(self, producer: Producer, group_id: str = "g", version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=NAME, producer_id=producer[0], producer_epoch=producer[1], group_id=group_id
        )
        return ErrorCode.of(self.ask(request, version).error_code)

    def end(self, producer: Producer, commit: bool = True, name: str = NAME, version: int = 5) -> Any:
        request = EndTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        return self.ask(request, version)

    def ended(self, producer: Producer, commit: bool = True, **fields: Any) -> tuple[ErrorCode, Producer]:
        """(error, producer for the next transaction)."""
        response = self.end(producer, commit, **fields)
        return ErrorCode.of(response.error_code), (response.producer_id, response.producer_epoch)

    def describe(self, name: str = NAME) -> Any:
        return self.ask(DescribeTransactionsRequest(transactional_ids=[name])).transaction_states[0]

    def listed(self, **filters: Any) -> Any:
        fields = {"state_filters": [], "producer_id_filters": []} | filters
        return self.ask(ListTransactionsRequest(**fields))

    # --- markers ------------------------------------------------------------------------------------------------------

    def marked(self, **codes: ErrorCode) -> list[tuple[Producer, bool, list[str]]]:
        """Answer the markers that were sent: those of each topic with its code, or 0. What they said."""
        sent, self.node.markers = self.node.markers, []
        for outbound in sent:
            outbound.on_response(written(outbound.request, codes), self.node.now)
        self.run(1)
        return said(sent)

    def lose(self, failure: Failure = Failure.DISCONNECTED) -> list[tuple[Producer, bool, list[str]]]:
        """The markers that were sent have no answer."""
        sent, self.node.markers = self.node.markers, []
        for outbound in sent:
            outbound.on_response(failure, self.node.now)
        self.run(1)
        return said(sent)

    # --- the log ------------------------------------------------------------------------------------------------------

    def records(self) -> list[CoordinatorRecord]:
        """Those of the internal topic."""
        log: Any = InternalLog(TRANSACTION_TOPIC, self.node.broker.replicas, self.node.clock)
        return [
            decode_coordinator_record(TRANSACTION_RECORDS, record.key or b"", record.value)
            for batch in log.batches(0)
            for record in batch.records()
        ]


def written(request: WriteTxnMarkersRequest, codes: dict[str, ErrorCode]) -> WriteTxnMarkersResponse:
    """What a leader answers: each topic gets its code, or 0."""
    marker = WriteTxnMarkersResponse.Marker
    return WriteTxnMarkersResponse(
        markers=[
            marker(
                producer_id=each.producer_id,
                topics=[
                    marker.Topic(
                        name=topic.name,
                        partitions=[
                            marker.Topic.Partition(
                                partition_index=number, error_code=codes.get(topic.name, ErrorCode.NONE)
                            )
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in request.markers
        ]
    )


def said(sent: Iterable[Outbound]) -> list[tuple[Producer, bool, list[str]]]:
    """(producer, whether it commits, topics) of each marker."""
    return [
        (
            (marker.producer_id, marker.producer_epoch),
            marker.transaction_result,
            [topic.name for topic in marker.topics],
        )
        for outbound in sent
        for marker in outbound.request.markers
    ]


def _only(codes: Iterable[int]) -> ErrorCode:
    (code,) = set(codes)
    return ErrorCode.of(code)
