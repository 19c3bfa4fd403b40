"""What a transactional producer asks the coordinators, and how their answers read.

Each call is repeated until it is answered for good: its promise has the value, or an error that does not pass. Calls
about the transaction go to the coordinator of the transactional id, the offsets themselves to that of the group.

A cluster with ``transaction.version`` 2 takes newer versions of EndTxn and TxnOffsetCommit, which do more (KIP-890).
`is_v2` says whether to send those.

Follows the request handlers within org.apache.kafka.clients.producer.internals.TransactionManager.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pykraft.client.api_driver import ApiDriver, ApiHandler, converted, key_answer
from pykraft.client.consuming.commits import ConsumerGroupMetadata, Offsets
from pykraft.client.producing.numbering import ProducerIdAndEpoch
from pykraft.common.core import FOREVER, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid, by_topic
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.messages.transactions import (
    NO_PRODUCER_ID,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from pykraft.protocol.schema import Request
from pykraft.transport.client_channel import SOFTWARE_NAME, SOFTWARE_VERSION

CHANNEL = "transactions"
TRANSACTION_VERSION = "transaction.version"
_LAST_ADD_PARTITIONS = 3
"""From version 4 on, AddPartitionsToTxn is a question of brokers."""
_LAST_V1_END_TXN = 4
_LAST_V1_TXN_OFFSET_COMMIT = 4
_LAST_TXN_OFFSET_COMMIT_BY_NAME = 5
PAUSES_MS = {ErrorCode.CONCURRENT_TRANSACTIONS: 20}
"""The markers of the transaction before are being written, which takes some milliseconds."""

T = TypeVar("T")


class TransactionCalls:
    """Asks for one transactional id."""

    def __init__(self, driver: ApiDriver, transactional_id: str) -> None:
        self._driver = driver
        self._id = transactional_id

    def transaction_version(self) -> "Promise[int | KafkaError]":
        """The level of ``transaction.version`` in the cluster's features; 0 if the cluster has none."""
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        return self._driver.ask_any("the cluster's features", request, _transaction_version, FOREVER, CHANNEL)

    def identity(self, timeout_ms: int, present: ProducerIdAndEpoch) -> "Promise[ProducerIdAndEpoch | KafkaError]":
        """A higher epoch, which fences older producers; or the one after `present`."""
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=timeout_ms,
            producer_id=present.producer_id,
            producer_epoch=present.epoch,
        )
        return self._ask("the producer id", request, _identity)

    def add_partitions(
        self, identity: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> "Promise[KafkaError | None]":
        """Make these partitions part of the transaction."""
        topics = by_topic(partitions)
        topic_type = AddPartitionsToTxnRequest.Topic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[topic_type(name=topic, partitions=numbers) for topic, numbers in topics.items()],
        ).at_most(_LAST_ADD_PARTITIONS)
        return self._ask("partitions for the transaction", request, _all_added)

    def add_offsets(self, identity: ProducerIdAndEpoch, group_id: str) -> "Promise[KafkaError | None]":
        """Make the offsets of this group part of the transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )
        return self._ask("a group for the transaction", request, _done)

    def commit_offsets(
        self, identity: ProducerIdAndEpoch, group: ConsumerGroupMetadata, offsets: Offsets, is_v2: bool
    ) -> "Promise[KafkaError | None]":
        """Write these offsets, pending until the transaction ends."""
        topic_type = TxnOffsetCommitRequest.Topic
        topics: dict[str, list[TxnOffsetCommitRequest.Topic.Partition]] = {}
        ids = {key.topic: self._driver.metadata.topic_id(key.topic) for key in offsets}
        for key, place in offsets.items():
            partition = topic_type.Partition(
                partition_index=key.partition,
                committed_offset=place.offset,
                committed_leader_epoch=place.leader_epoch,
                committed_metadata=place.metadata,
            )
            topics.setdefault(key.topic, []).append(partition)
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id_or_member_epoch=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[
                topic_type(name=name, topic_id=ids[name], partitions=partitions) for name, partitions in topics.items()
            ],
        )
        if ZERO_UUID in ids.values():
            request.at_most(_LAST_TXN_OFFSET_COMMIT_BY_NAME)
        if group.member_id:
            request.at_least(_FIRST_WITH_MEMBER)
        if not is_v2:
            request.at_most(_LAST_V1_TXN_OFFSET_COMMIT)
        names = {topic_id: name for name, topic_id in ids.items()}
        return self._ask(
            "offsets for the transaction", request, lambda found: _all_committed(found, names), group.group_id
        )

    def end(
        self, identity: ProducerIdAndEpoch, is_commit: bool, is_v2: bool
    ) -> "Promise[ProducerIdAndEpoch | KafkaError]":
        """Commit or abort; the id and epoch to go on with."""
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )
        if not is_v2:
            request.at_most(_LAST_V1_END_TXN)

        def read(response: EndTxnResponse) -> "ProducerIdAndEpoch | KafkaError":
            next_identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            return _value(response.error_code, identity if response.producer_id == NO_PRODUCER_ID else next_identity)

        return self._ask("the end of the transaction", request, read)

    def _ask(
        self, what: str, request: Request, read: "Callable[[Any], T | KafkaError]", group_id: str | None = None
    ) -> "Promise[T | KafkaError]":
        """Ask the coordinator of the transactional id, or of a group; `read` finds the value in the response."""
        key, lookup = self._id, self._driver.transaction_coordinators
        if group_id is not None:
            key, lookup = group_id, self._driver.group_coordinators
        handler: ApiHandler[str, T] = ApiHandler(
            what=what,
            lookup=lookup,
            request=lambda asked: request,
            read=lambda asked, response: [(key, read(response))],
            channel=CHANNEL,
            pauses_ms=PAUSES_MS,
        )
        return converted(self._driver.ask_all(handler, [key], FOREVER), lambda found: found[key])


_FIRST_WITH_MEMBER = 3
"""Before version 3 of TxnOffsetCommit a member cannot say which one it is, and could not be fenced (KIP-447)."""


def _value(code: int, value: T) -> "T | KafkaError":
    error = ErrorCode.of(code)
    return value if error is ErrorCode.NONE else KafkaError(error)


def _done(response: AddOffsetsToTxnResponse) -> KafkaError | None:
    return _value(response.error_code, None)


def _identity(response: InitProducerIdResponse) -> "ProducerIdAndEpoch | KafkaError":
    return _value(response.error_code, ProducerIdAndEpoch(response.producer_id, response.producer_epoch))


def _transaction_version(response: ApiVersionsResponse) -> int:
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code))
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    return levels.get(TRANSACTION_VERSION, 0)


def _all_added(response: AddPartitionsToTxnResponse) -> KafkaError | None:
    return _gravest(
        (TopicPartition(topic.name, partition.partition_index), partition.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    )


def _all_committed(response: TxnOffsetCommitResponse, names: Mapping[Uuid, str]) -> KafkaError | None:
    return _gravest(
        (TopicPartition(topic.name or names.get(topic.topic_id, ""), partition.partition_index), partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    )


def _gravest(codes: Iterable[tuple[TopicPartition, int]]) -> KafkaError | None:
    """The error that counts for all partitions: one that does not pass before one that does, and the cause before
    OPERATION_NOT_ATTEMPTED, which the others get for it."""

    def rank(error: KafkaError) -> tuple[bool, bool]:
        return error.code is ErrorCode.OPERATION_NOT_ATTEMPTED, error.retriable

    return min(_errors(codes), key=rank, default=None)


def _errors(codes: Iterable[tuple[TopicPartition, int]]) -> Iterator[KafkaError]:
    for key, code in codes:
        _, answer = key_answer(key, code, None)
        if isinstance(answer, KafkaError):
            yield answer
