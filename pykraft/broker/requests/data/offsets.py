"""ListOffsets and OffsetForLeaderEpoch on a broker's listener: offsets found by time, by mark and by epoch.

Versions: ListOffsets 1 to 11, OffsetForLeaderEpoch 2 to 4. Behaviour to know:

* ListOffsets by the latest timestamp answers what its isolation level lets see. Replica -2 is a tool that looks inside:
  any replica answers it, and with the end of that replica's log.

Follows kafka.server.KafkaApis.{handleListOffsetRequest,handleOffsetForLeaderEpochRequest}.
"""

from itertools import islice
from typing import Any

from pykraft.broker.replication.partition import Partition
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.requests.authorizer import Authorizer, allows_on_cluster
from pykraft.broker.requests.data.fetch import isolation_of
from pykraft.broker.requests.data.partitions import is_denied
from pykraft.broker.requests.dispatch import Handlers
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation
from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from pykraft.storage.answers import Isolation, TimestampedOffset
from pykraft.storage.time_lookup import offset_for_timestamp, offset_of_max_timestamp
from pykraft.transport.server_channel import RequestContext

DEBUGGING = -2
"""The replica id of a tool that looks at replicas one by one."""
_FIRST_VERSION_OF_MARK = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}


class OffsetApis:
    """Finds offsets."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    # --- ListOffsets --------------------------------------------------------------------------------------------------

    def list_offsets(self, request: ListOffsetsRequest, context: RequestContext, now: int) -> ItemByItem:
        asked: dict[TopicPartition, ListOffsetsRequest.Topic.Partition] = {}
        twice: set[TopicPartition] = set()
        for topic in request.topics:
            for partition in topic.partitions:
                place = TopicPartition(topic.name, partition.partition_index)
                if place in asked:
                    twice.add(place)
                asked[place] = partition
        topics: dict[str, list[ListOffsetsResponse.Topic.Partition]] = {}

        def answer_one(named: tuple[TopicPartition, ListOffsetsRequest.Topic.Partition], now: int) -> Any:
            topic_partition, partition = named
            answer = ListOffsetsResponse.Topic.Partition(partition_index=topic_partition.partition)
            topics.setdefault(topic_partition.topic, []).append(answer)
            if topic_partition in twice:
                answer.error_code = ErrorCode.INVALID_REQUEST
                return None
            return self._find(topic_partition, partition, request, context, answer)

        def respond(_: list[Any], now: int) -> ListOffsetsResponse:
            return ListOffsetsResponse(
                topics=[ListOffsetsResponse.Topic(name=name, partitions=answers) for name, answers in topics.items()]
            )

        return ItemByItem(list(asked.items()), answer_one, respond)

    def _find(
        self,
        topic_partition: TopicPartition,
        asked: ListOffsetsRequest.Topic.Partition,
        request: ListOffsetsRequest,
        context: RequestContext,
        answer: ListOffsetsResponse.Topic.Partition,
    ) -> Steps[None] | None:
        """Put the offset, or why there is none, into the answer; in steps if records have to be looked at."""
        try:
            if is_denied(self._authorizer, context, AclOperation.DESCRIBE, topic_partition.topic):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            _check_mark(asked.timestamp, context.api_version)
            partition = self._led(topic_partition, asked, request)
            if asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP:
                return self._search(partition, asked, request, answer)
            found = self._marked(partition, asked, request)
            answer.timestamp, answer.offset, answer.leader_epoch = found
        except KafkaError as error:
            answer.error_code = error.code
        except OSError as error:
            answer.error_code = self._replicas.on_disk_failure(error).code
        return None

    def _led(
        self, topic_partition: TopicPartition, asked: ListOffsetsRequest.Topic.Partition, request: ListOffsetsRequest
    ) -> Partition:
        """The partition, if it may be asked; KafkaError if not."""
        partition = self._replicas.partition(topic_partition)
        if request.replica_id != DEBUGGING:
            partition.check_leader(asked.current_leader_epoch)
        return partition

    def _search(
        self,
        partition: Partition,
        asked: ListOffsetsRequest.Topic.Partition,
        request: ListOffsetsRequest,
        answer: ListOffsetsResponse.Topic.Partition,
    ) -> Steps[None]:
        """Look for a record by its timestamp. Between the steps the partition may have moved: ask again."""
        try:
            if asked.timestamp == MAX_TIMESTAMP:
                found = yield from offset_of_max_timestamp(partition.log)
            else:
                found = yield from offset_for_timestamp(partition.log, asked.timestamp)
            if self._led(partition.topic_partition, asked, request) is not partition:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            end, is_behind = _end(partition, request)
            if found is not None and found.offset < end:
                answer.timestamp, answer.offset, answer.leader_epoch = found
            elif found is not None and is_behind:
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        except KafkaError as error:
            answer.error_code = error.code
        except OSError as error:
            answer.error_code = self._replicas.on_disk_failure(error).code

    @staticmethod
    def _marked(
        partition: Partition, asked: ListOffsetsRequest.Topic.Partition, request: ListOffsetsRequest
    ) -> TimestampedOffset:
        """The offset that a negative timestamp stands for."""
        log = partition.log
        end, is_behind = _end(partition, request)
        if asked.timestamp == LATEST_TIMESTAMP:
            if is_behind:
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
            return TimestampedOffset(-1, end, partition.leader_epoch)
        if asked.timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            epoch = log.epochs.epoch_for(log.log_start_offset)
            return TimestampedOffset(-1, log.log_start_offset, -1 if epoch is None else epoch)
        return TimestampedOffset(-1, -1, -1)  # of tiered storage, which there is none of

    # --- OffsetForLeaderEpoch -----------------------------------------------------------------------------------------

    def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, context: RequestContext, now: int
    ) -> ItemByItem:
        topic_type = OffsetForLeaderEpochResponse.Topic
        is_replica = allows_on_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        named = [(topic.topic, asked) for topic in request.topics for asked in topic.partitions]

        def answer_one(
            named: tuple[str, OffsetForLeaderEpochRequest.Topic.Partition], now: int
        ) -> OffsetForLeaderEpochResponse.Topic.Partition:
            name, asked = named
            answer = topic_type.Partition(partition=asked.partition)
            try:
                if not is_replica and is_denied(self._authorizer, context, AclOperation.DESCRIBE, name):
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                partition = self._replicas.partition(TopicPartition(name, asked.partition))
                partition.check_leader(asked.current_leader_epoch)
                end = partition.log.end_offset_for(asked.leader_epoch)
                if end is not None:
                    answer.end_offset, answer.leader_epoch = end
            except KafkaError as error:
                answer.error_code = error.code
            return answer

        def respond(
            answers: list[OffsetForLeaderEpochResponse.Topic.Partition], now: int
        ) -> OffsetForLeaderEpochResponse:
            rest = iter(answers)
            return OffsetForLeaderEpochResponse(
                topics=[
                    topic_type(topic=topic.topic, partitions=list(islice(rest, len(topic.partitions))))
                    for topic in request.topics
                ]
            )

        return ItemByItem(named, answer_one, respond)


HANDLERS: Handlers = {
    ListOffsetsRequest: OffsetApis.list_offsets,
    OffsetForLeaderEpochRequest: OffsetApis.offset_for_leader_epoch,
}


def _end(partition: Partition, request: ListOffsetsRequest) -> tuple[int, bool]:
    """Up to where this reader may see; and whether that may be less than what is committed, since a new leader does not
    know yet how much of the older epochs is."""
    isolation = isolation_of(request.replica_id, request.isolation_level)
    is_behind = isolation is not Isolation.LOG_END and partition.log.high_watermark < partition.leader_epoch_start
    return partition.log.upper_bound(isolation), is_behind


def _check_mark(timestamp: int, version: int) -> None:
    """Negative timestamps stand for places, and more of them came with the versions."""
    if timestamp < EARLIEST_TIMESTAMP and version < _FIRST_VERSION_OF_MARK.get(timestamp, version + 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} means nothing in version {version}")
