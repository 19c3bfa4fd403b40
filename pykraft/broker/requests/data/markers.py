"""WriteTxnMarkers and DescribeProducers on a broker's listener: transactions as the leader of a partition sees them.

Versions: WriteTxnMarkers 1 and 2, DescribeProducers 0. Behaviour to know:

* A transaction's coordinator sends WriteTxnMarkers; an administrator may, to end a hanging transaction. It needs ALTER
  or CLUSTER_ACTION on the cluster. The answer comes once all in-sync replicas have the markers (acks=all), or after
  ``request.timeout.ms``.
* Version 2 says which transaction.version the producer has. From 2 on the marker's epoch must be above that of the
  transaction's records: a marker that is late cannot end the next transaction.
* A partition of ``__consumer_offsets`` gets its marker from the group coordinator, which must replay it. While that is
  not ready the answer is NOT_LEADER_OR_FOLLOWER, which the sender retries. Such a marker is written even if too few
  replicas are in sync, and answered when it is committed; other partitions refuse it with NOT_ENOUGH_REPLICAS.
* The results of all markers of one producer are answered together, and each partition once.
* DescribeProducers needs READ on the topic (KIP-664). Clients ask the leader unless they name a broker; each replica
  answers with what its own log knows.

Follows kafka.server.KafkaApis.{handleWriteTxnMarkersRequest,handleDescribeProducersRequest}.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from pykraft.broker.coordination.coordinators import GROUP_TOPIC, GroupCoordinator, append_marker, check_producer
from pykraft.broker.replication.delayed import DelayedProduce, ProduceResult
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.requests.authorizer import Authorizer, allows_on_cluster, check_cluster
from pykraft.broker.requests.dispatch import Handlers
from pykraft.broker.settings import config as keys
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Clock, Promise, gather
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition
from pykraft.controller.partitions.topics import check_topic_name
from pykraft.coordinator.result import TransactionEnd
from pykraft.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pykraft.transport.server_channel import RequestContext

_PRODUCER_BYTES = 39
"""Of one producer in an answer of DescribeProducers."""
_Marker = WriteTxnMarkersResponse.Marker


class _Place(NamedTuple):
    """Where a marker goes."""

    end: TransactionEnd
    topic_partition: TopicPartition


class MarkerApis:
    """Writes markers, and shows the producers of a partition."""

    def __init__(
        self,
        config: Config,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        authorizer: Authorizer,
        clock: Clock,
    ) -> None:
        self._timeout_ms: int = config[keys.REQUEST_TIMEOUT_MS]
        self._replicas = replicas
        self._groups = groups
        self._authorizer = authorizer
        self._clock = clock

    # --- WriteTxnMarkers ----------------------------------------------------------------------------------------------

    def write_txn_markers(self, request: WriteTxnMarkersRequest, context: RequestContext, now: int) -> ItemByItem:
        if not allows_on_cluster(self._authorizer, context, AclOperation.ALTER):
            check_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        for marker in request.markers:
            check_producer(marker.producer_id, marker.producer_epoch)
        in_logs: list[tuple[_Place, ProduceResult]] = []
        in_groups: list[tuple[_Place, Promise[Any]]] = []

        def write(place: _Place, now: int) -> None:
            if place.topic_partition.topic == GROUP_TOPIC and place.topic_partition in self._replicas.partitions:
                number_of_groups = place.topic_partition.partition
                ended = self._groups.end_transaction(number_of_groups, place.end, self._timeout_ms, now)
                in_groups.append((place, ended))
            else:
                in_logs.append((place, self._append(place, now)))

        def written(_: list[None], now: int) -> ItemByItem:
            delayed = DelayedProduce(self._replicas, [result for _, result in in_logs])
            return ItemByItem((delayed,), lambda delayed, now: delayed.decide_in_steps(), waited, is_write=True)

        def waited(found: list[DelayedProduce], now: int) -> Promise[Any]:
            (delayed,) = found
            if not delayed.try_complete():
                watched = sorted({result.topic_partition for _, result in in_logs if result.error is None})
                self._replicas.produces.watch(delayed, watched, now + self._timeout_ms)
            return gather([delayed.promise, *(ended for _, ended in in_groups)]).map(answered)

        def answered(_: Any) -> ItemByItem:
            response = _Results()
            outcomes = [(place, result.error) for place, result in in_logs]
            outcomes += [(place, _error_of(ended.value)) for place, ended in in_groups]
            return ItemByItem(outcomes, response.add, response.respond)

        return ItemByItem(list(_places(request)), write, written, is_write=True)

    def _append(self, place: _Place, now: int) -> ProduceResult:
        topic_partition = place.topic_partition
        if topic_partition not in self._replicas.partitions:
            return ProduceResult(topic_partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            info = append_marker(self._replicas, topic_partition, place.end, self._clock.time_ms(), now)
        except KafkaError as error:
            return ProduceResult(topic_partition, error.code, error.detail)
        topic_id = self._replicas.partitions[topic_partition].key.topic_id
        return ProduceResult(topic_partition, None, info=info, topic_id=topic_id)

    # --- DescribeProducers --------------------------------------------------------------------------------------------

    def describe_producers(self, request: DescribeProducersRequest, context: RequestContext, now: int) -> ItemByItem:
        topic_type = DescribeProducersResponse.Topic
        refusals = {topic.name: self._refusal(topic.name, context) for topic in request.topics}
        named = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
        described: dict[TopicPartition, DescribeProducersResponse.Topic.Partition] = {}

        def describe(place: TopicPartition, now: int) -> DescribeProducersResponse.Topic.Partition:
            """A partition that is named again gets the same answer again."""
            if place not in described:
                described[place] = self._described(place, refusals[place.topic])
            return described[place]

        def respond(answers: list[Any], now: int) -> DescribeProducersResponse:
            rest = iter(answers)
            return DescribeProducersResponse(
                topics=[
                    topic_type(name=topic.name, partitions=list(islice(rest, len(topic.partition_indexes))))
                    for topic in request.topics
                ]
            )

        return ItemByItem(named, describe, respond, weigh=lambda answer: _PRODUCER_BYTES * len(answer.active_producers))

    def _refusal(self, name: str, context: RequestContext) -> KafkaError | None:
        try:
            check_topic_name(name)
        except KafkaError as error:
            return error
        if not self._authorizer.allows(context, AclOperation.READ, AclResourceType.TOPIC, name):
            return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if self._replicas.image.topic_named(name) is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return None

    def _described(
        self, topic_partition: TopicPartition, refusal: KafkaError | None
    ) -> DescribeProducersResponse.Topic.Partition:
        partition_type = DescribeProducersResponse.Topic.Partition
        answer = partition_type(partition_index=topic_partition.partition)
        try:
            if refusal is not None:
                raise refusal
            partition = self._replicas.partition(topic_partition)
        except KafkaError as error:
            answer.error_code = error.code
            answer.error_message = error.detail or error.code.text
            return answer
        answer.active_producers = [
            partition_type.Producer(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=-1
                if entry.transaction_first_offset is None
                else entry.transaction_first_offset,
            )
            for _, entry in sorted(partition.log.producer_state.producers.items())
        ]
        return answer


def _places(request: WriteTxnMarkersRequest) -> Iterator[_Place]:
    """Where each marker goes, each partition of a marker once."""
    for marker in request.markers:
        end = TransactionEnd(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        numbers = ((topic.name, number) for topic in marker.topics for number in topic.partition_indexes)
        for name, number in dict.fromkeys(numbers):
            yield _Place(end, TopicPartition(name, number))


def _error_of(found: Any) -> ErrorCode:
    return found.code if isinstance(found, KafkaError) else ErrorCode.NONE


class _OfTopic(NamedTuple):
    """The results of a topic, of each partition the last."""

    topic: _Marker.Topic
    partitions: dict[int, _Marker.Topic.Partition]


class _Results:
    """The results by producer and topic. Of two markers for one partition the later one's result counts."""

    def __init__(self) -> None:
        self._markers: dict[int, tuple[_Marker, dict[str, _OfTopic]]] = {}

    def add(self, outcome: tuple[_Place, ErrorCode | None], now: int) -> None:
        (end, (name, number)), error = outcome
        assert error is not None, "a marker that waits for its replication is answered later"
        if end.producer_id not in self._markers:
            self._markers[end.producer_id] = _Marker(producer_id=end.producer_id, topics=[]), {}
        _, topics = self._markers[end.producer_id]
        of_topic = topics.get(name) or topics.setdefault(name, _OfTopic(_Marker.Topic(name=name, partitions=[]), {}))
        of_topic.partitions[number] = _Marker.Topic.Partition(partition_index=number, error_code=error)

    def respond(self, _: list[None], now: int) -> WriteTxnMarkersResponse:
        for marker, topics in self._markers.values():
            marker.topics = [of_topic.topic for of_topic in topics.values()]
            for topic, partitions in topics.values():
                topic.partitions = list(partitions.values())
        return WriteTxnMarkersResponse(markers=[marker for marker, _ in self._markers.values()])


HANDLERS: Handlers = {
    WriteTxnMarkersRequest: MarkerApis.write_txn_markers,
    DescribeProducersRequest: MarkerApis.describe_producers,
}
