"""What an administrator asks about transactions and their producers (KIP-664).

Two sides know of a transaction. Its coordinator knows its state and its partitions. The leader of each partition knows
the producers that have written there, and where the open transaction of each begins. A transaction *hangs* in a
partition that its coordinator does not count as part of it: nothing will end it there, and consumers that read only
committed data do not see what comes after it. `abort_transaction` writes the marker that is missing.

Follows org.apache.kafka.clients.admin.{TransactionListing,TransactionDescription,ProducerState,AbortTransactionSpec}
and, in org.apache.kafka.clients.admin.internals, ListTransactionsHandler, DescribeTransactionsHandler,
DescribeProducersHandler, AbortTransactionHandler and FenceProducersHandler.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, Self

from pykraft.client.administration.admin import AdminCalls, ClusterDescription
from pykraft.client.api_driver import ADMIN_CHANNEL, Answers, ApiDriver, ApiHandler, chained, converted, key_answer
from pykraft.client.lookups import BrokerStrategy, LookupStrategy
from pykraft.client.producing.numbering import ProducerIdAndEpoch
from pykraft.client.producing.transaction_calls import PAUSES_MS
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition, by_topic
from pykraft.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_FIRST_WITH_DURATION = 1
_FIRST_WITH_PATTERN = 2


class TransactionState(StrEnum):
    """The state of a transactional id, by its name on the wire."""

    ONGOING = "Ongoing"
    PREPARE_ABORT = "PrepareAbort"
    PREPARE_COMMIT = "PrepareCommit"
    COMPLETE_ABORT = "CompleteAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    EMPTY = "Empty"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"

    @classmethod
    def parse(cls, name: str) -> Self:
        """The state of this name; UNKNOWN if there is none."""
        return next((state for state in cls if state == name), cls("Unknown"))


class TransactionListing(NamedTuple):
    """A transactional id in a list, with the broker that coordinates it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: TransactionState


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator sees it. The start is in milliseconds since 1970, None if no transaction is
    open. The partitions are those that have no marker yet."""

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int | None
    topic_partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    """A producer as a replica of a partition sees it: its last batch, the epoch of the coordinator that wrote its last
    marker (None if there was none), and where its open transaction begins (None if none is open)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    current_transaction_start_offset: int | None


class AbortTransactionSpec(NamedTuple):
    """Which transaction to abort in one partition, as `describe_producers` shows it."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class _FinalError(KafkaError):
    """An error that time may heal, but not where the question went."""

    @property
    def retriable(self) -> bool:
        return False


class TransactionAdminCalls:
    """Each method asks one thing; `deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver
        self._cluster = AdminCalls(driver)

    def list_transactions(
        self,
        states: Collection[TransactionState],
        producer_ids: Collection[int],
        duration_ms: int | None,
        pattern: str | None,
        deadline: int,
    ) -> "Promise[list[TransactionListing] | KafkaError]":
        """The transactional ids of all brokers that pass the filters; an empty filter lets all through."""

        def request(asked: object) -> ListTransactionsRequest:
            request = ListTransactionsRequest(
                state_filters=list(states),
                producer_id_filters=list(producer_ids),
                duration_filter=-1 if duration_ms is None else duration_ms,
                transactional_id_pattern=pattern or None,
            )
            if pattern:
                return request.at_least(_FIRST_WITH_PATTERN)
            return request if duration_ms is None else request.at_least(_FIRST_WITH_DURATION)

        handler: ApiHandler[int, list[TransactionListing]] = ApiHandler(
            what="to list the transactions of the brokers {}",
            lookup=BrokerStrategy(self._driver.metadata, lambda broker: broker),
            request=request,
            read=_listings,
            channel=ADMIN_CHANNEL,
        )

        def ask_brokers(cluster: ClusterDescription) -> "Promise[dict[int, list[TransactionListing]] | KafkaError]":
            return self._driver.ask_all(handler, sorted(broker.id for broker in cluster.brokers), deadline)

        return converted(
            chained(self._cluster.describe_cluster(deadline), ask_brokers),
            lambda found: sorted(listing for listings in found.values() for listing in listings),
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str], deadline: int
    ) -> "Promise[Answers[str, TransactionDescription] | KafkaError]":
        """Each transactional id's description or its error."""
        handler: ApiHandler[str, TransactionDescription] = ApiHandler(
            what="to describe the transactions {}",
            lookup=self._driver.transaction_coordinators,
            request=lambda asked: DescribeTransactionsRequest(transactional_ids=list(asked)),
            read=self._descriptions,
            channel=ADMIN_CHANNEL,
        )
        return self._driver.ask_each(handler, transactional_ids, deadline)

    def _descriptions(
        self, asked: Sequence[str], response: DescribeTransactionsResponse
    ) -> Iterator[tuple[str, TransactionDescription | KafkaError]]:
        for found in response.transaction_states:
            coordinator = self._driver.transaction_coordinators.node_of(found.transactional_id)
            start_ms = found.transaction_start_time_ms
            description = TransactionDescription(
                -1 if coordinator is None else coordinator.id,
                TransactionState.parse(found.transaction_state),
                found.producer_id,
                found.producer_epoch,
                found.transaction_timeout_ms,
                None if start_ms < 0 else start_ms,
                tuple(TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions),
            )
            yield key_answer(found.transactional_id, found.error_code, description)

    def describe_producers(
        self, partitions: Iterable[TopicPartition], broker_id: int | None, deadline: int
    ) -> "Promise[Answers[TopicPartition, list[ProducerState]] | KafkaError]":
        """The producers of each partition, or its error. The leaders are asked, or one broker for all."""
        lookup: LookupStrategy[TopicPartition] = self._driver.leaders
        if broker_id is not None:
            lookup = BrokerStrategy(self._driver.metadata, lambda key: broker_id)

        def request(asked: Sequence[TopicPartition]) -> DescribeProducersRequest:
            topics = by_topic(asked)
            topic_type = DescribeProducersRequest.Topic
            return DescribeProducersRequest(
                topics=[topic_type(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
            )

        def read(
            asked: object, response: DescribeProducersResponse
        ) -> Iterator[tuple[TopicPartition, list[ProducerState] | KafkaError]]:
            for topic in response.topics:
                for found in topic.partitions:
                    key, answer = _producers(TopicPartition(topic.name, found.partition_index), found)
                    if isinstance(answer, KafkaError) and broker_id is not None:
                        answer = _FinalError(answer.code, f"{answer.detail} (broker {broker_id})")
                    yield key, answer

        handler = ApiHandler(
            what="to describe the producers of {}", lookup=lookup, request=request, read=read, channel=ADMIN_CHANNEL
        )
        return self._driver.ask_each(handler, partitions, deadline)

    def abort_transaction(self, spec: AbortTransactionSpec, deadline: int) -> "Promise[KafkaError | None]":
        """Have the partition's leader append an abort marker."""
        marker_type = WriteTxnMarkersRequest.Marker
        topic, number = spec.topic_partition
        marker = marker_type(
            producer_id=spec.producer_id,
            producer_epoch=spec.producer_epoch,
            coordinator_epoch=spec.coordinator_epoch,
            transaction_result=False,
            topics=[marker_type.Topic(name=topic, partition_indexes=[number])],
        )

        def read(
            asked: object, response: WriteTxnMarkersResponse
        ) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
            for answered in response.markers:
                for part in answered.topics:
                    for partition in part.partitions:
                        yield key_answer(
                            TopicPartition(part.name, partition.partition_index), partition.error_code, None
                        )

        handler = ApiHandler(
            what="the transaction in {} was not aborted",
            lookup=self._driver.leaders,
            request=lambda asked: WriteTxnMarkersRequest(markers=[marker]),
            read=read,
            channel=ADMIN_CHANNEL,
        )
        return converted(self._driver.ask_all(handler, [spec.topic_partition], deadline), lambda found: None)

    def fence_producers(
        self, transactional_ids: Iterable[str], timeout_ms: int, deadline: int
    ) -> "Promise[Answers[str, ProducerIdAndEpoch] | KafkaError]":
        """Raise the epoch of each transactional id, one after the other: a request has room for one."""

        def read(
            asked: Sequence[str], response: InitProducerIdResponse
        ) -> Iterator[tuple[str, ProducerIdAndEpoch | KafkaError]]:
            identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            yield key_answer(asked[0], response.error_code, identity)

        handler = ApiHandler(
            what="the producers of {} were not fenced",
            lookup=self._driver.transaction_coordinators,
            request=lambda asked: InitProducerIdRequest(transactional_id=asked[0], transaction_timeout_ms=timeout_ms),
            read=read,
            channel=ADMIN_CHANNEL,
            pauses_ms=PAUSES_MS,
        )
        return self._driver.ask_each(handler, transactional_ids, deadline)


def _listings(
    asked: Sequence[int], response: ListTransactionsResponse
) -> Iterator[tuple[int, list[TransactionListing]]]:
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code))
    for broker in asked:
        yield (
            broker,
            [
                TransactionListing(
                    found.transactional_id, broker, found.producer_id, TransactionState.parse(found.transaction_state)
                )
                for found in response.transaction_states
            ],
        )


def _producers(
    key: TopicPartition, found: DescribeProducersResponse.Topic.Partition
) -> tuple[TopicPartition, list[ProducerState] | KafkaError]:
    producers = [
        ProducerState(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            None if each.coordinator_epoch < 0 else each.coordinator_epoch,
            None if each.current_txn_start_offset < 0 else each.current_txn_start_offset,
        )
        for each in found.active_producers
    ]
    return key_answer(key, found.error_code, producers)
