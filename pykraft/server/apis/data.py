"""Produce, Fetch, ListOffsets and OffsetForLeaderEpoch on a broker's listener.

Versions: Produce 3 to 13 (advertised from 0, see `protocol.api`), Fetch 4 to 18, ListOffsets 1 to 11,
OffsetForLeaderEpoch 2 to 4. Behaviour to know:

* Produce with acks=0 is never answered. Kafka closes the connection if such a produce fails, so that the producer at
  least sees something; so does this.
* Fetch sessions (KIP-227) are not built: a request to begin one is answered with session id 0, which means "none", and
  the client then sends full requests.
* From Produce 13 and Fetch 13 on topics go by id; an id that nobody knows is UNKNOWN_TOPIC_ID.
* Of a partition that a request names twice the last mention counts, and it is answered once.
* ListOffsets by the latest timestamp answers what its isolation level lets see. Who asks as replica -2 wants to look
  inside: it is answered by any replica, and with the end of that replica's log.

Follows kafka.server.KafkaApis.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, InvalidRecordsError, KafkaError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.protocol.messages.data import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    NO_EPOCH,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    ListOffsetsRequest,
    ListOffsetsResponse,
    NodeEndpoint,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
)
from pykraft.records.batch import CODEC_MASK, RecordBatch
from pykraft.records.compression import Compression
from pykraft.server import config as keys
from pykraft.server.config import NodeConfig
from pykraft.server.delayed import CONSUMER, DelayedFetch, DelayedProduce, FetchPlace, FetchResult, ProduceResult
from pykraft.server.line import ALL_REPLICAS
from pykraft.server.partition import Partition
from pykraft.server.replica_manager import ReplicaManager
from pykraft.storage.answers import Isolation, TimestampedOffset
from pykraft.storage.validator import only_batch
from pykraft.transport.server_channel import RequestContext

READ_COMMITTED = 1
DEBUGGING = -2
"""The replica id of somebody who looks at replicas one by one."""
_NEW_SESSION, _NO_SESSION = 0, -1
"""The session epochs of fetches that belong to no session that there was before."""
_FIRST_ZSTD_VERSION = 7
_FIRST_VERSION_BY_ID = 13
_FIRST_FETCH_WITH_REPLICA_STATE = 15
_FIRST_FETCH_WITH_LEADER = 16
_FIRST_VERSION_OF_MARK = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
_NOT_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_BEFORE_THE_LOG = (
    *_NOT_LEADER,
    *_UNKNOWN,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
)
"""With these refusals of a batch the start of the log is not told."""

Asked = tuple[str, Uuid, int]
"""The topic's name or its id, whichever the version has, and the partition."""


class CloseConnection(Exception):  # noqa: N818 (it is an order, not a fault)
    """There is no way to tell this client what went wrong but to hang up."""


class DataApis:
    """Answers about records."""

    def __init__(self, config: NodeConfig, replicas: ReplicaManager) -> None:
        self._config = config
        self._replicas = replicas

    # --- Produce ------------------------------------------------------------------------------------------------------

    def produce(self, request: ProduceRequest, context: RequestContext, now: int) -> Promise[ProduceResponse | None]:
        asked: dict[Asked, ProduceRequest.Topic.Partition] = {
            (topic.name, topic.topic_id, partition.index): partition
            for topic in request.topic_data
            for partition in topic.partition_data
        }
        results = [self._append(request, context, key, partition, now) for key, partition in asked.items()]
        if request.acks == 0:
            if any(result.error not in (None, ErrorCode.NONE) for result in results):
                raise CloseConnection("a produce with acks=0 failed")
            return Promise.of(None)
        answer: Promise[ProduceResponse | None] = Promise()
        delayed = DelayedProduce(self._replicas, results)
        delayed.promise.then(lambda done: answer.keep(self._produced(asked, context, done)))
        watched = {result.topic_partition for result in results if result.error is None}
        self._replicas.produces.try_complete_else_watch(delayed, sorted(watched), now + max(0, request.timeout_ms))
        return answer

    def _append(
        self,
        request: ProduceRequest,
        context: RequestContext,
        asked: Asked,
        partition: ProduceRequest.Topic.Partition,
        now: int,
    ) -> ProduceResult:
        name = self._name_of(asked, context)
        topic_partition = TopicPartition(name or "", partition.index)
        try:
            if request.acks not in (0, 1, ALL_REPLICAS):
                raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
            if name is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {asked[1]}")
            batch = self._checked(partition, context)
        except KafkaError as error:
            return ProduceResult(topic_partition, error.code, error.detail)
        needs_all = request.acks == ALL_REPLICAS
        try:
            info = self._replicas.append(topic_partition, batch, needs_all, now)
        except KafkaError as error:
            result = ProduceResult(topic_partition, error.code, error.detail)
            if isinstance(error, InvalidRecordsError):
                result.record_errors = error.records
            if error.code not in _BEFORE_THE_LOG:
                result.log_start_offset = self._replicas.partition(topic_partition).log.log_start_offset
            return result
        return ProduceResult(topic_partition, None if needs_all else ErrorCode.NONE, info=info)

    @staticmethod
    def _checked(partition: ProduceRequest.Topic.Partition, context: RequestContext) -> RecordBatch:
        """The partition's batch, as far as it can be judged without the log."""
        if partition.records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "the records are null")
        batch = only_batch(partition.records)
        if batch.is_transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "this broker coordinates no transactions")
        if batch.attributes & CODEC_MASK == Compression.ZSTD and context.api_version < _FIRST_ZSTD_VERSION:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
        return batch

    def _produced(
        self, asked: Collection[Asked], context: RequestContext, results: Sequence[ProduceResult]
    ) -> ProduceResponse:
        leaders: dict[int, NodeEndpoint] = {}
        topics: dict[tuple[str, Uuid], list[ProduceResponse.Topic.Partition]] = {}
        for (name, topic_id, _), result in zip(asked, results, strict=True):
            topics.setdefault((name, topic_id), []).append(self._produced_partition(result, context, leaders))
        return ProduceResponse(
            responses=[
                ProduceResponse.Topic(name=name, topic_id=topic_id, partition_responses=answers)
                for (name, topic_id), answers in topics.items()
            ],
            node_endpoints=list(leaders.values()),
        )

    def _produced_partition(
        self, result: ProduceResult, context: RequestContext, leaders: dict[int, NodeEndpoint]
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
            answer.current_leader = self._leader(result.error, result.topic_partition, context, leaders)
        return answer

    # --- Fetch --------------------------------------------------------------------------------------------------------

    def fetch(self, request: FetchRequest, context: RequestContext, now: int) -> Promise[FetchResponse | None]:
        if request.session_epoch not in (_NEW_SESSION, _NO_SESSION):
            return Promise.of(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[]))
        state = request.replica_state or FetchRequest.ReplicaState()
        has_state = context.api_version >= _FIRST_FETCH_WITH_REPLICA_STATE
        replica_id = state.replica_id if has_state else request.replica_id
        limit = self._config.values[keys.FETCH_MAX_BYTES]
        asked: dict[Asked, FetchRequest.Topic.Partition] = {
            (topic.topic, topic.topic_id, partition.partition): partition
            for topic in request.topics
            for partition in topic.partitions
        }
        fetch = DelayedFetch(
            replicas=self._replicas,
            places=[self._place(key, partition, context) for key, partition in asked.items()],
            replica_id=replica_id,
            replica_epoch=state.replica_epoch,
            isolation=_isolation(replica_id, request.isolation_level),
            min_bytes=max(0, request.min_bytes),
            max_bytes=max(0, min(request.max_bytes, limit)) if replica_id < 0 else max(0, request.max_bytes),
        )
        if replica_id >= 0:
            fetch.record(now)
        answer: Promise[FetchResponse | None] = Promise()

        def on_results(results: Sequence[FetchResult]) -> None:
            response = self._fetched(asked, context, results)
            if replica_id >= 0:
                response.node_endpoints = ()  # a follower has them from the metadata log
            answer.keep(response)

        fetch.promise.then(on_results)
        watched = sorted({place.topic_partition for place in fetch.places})
        deadline = now + max(0, request.max_wait_ms)
        if not watched or request.max_wait_ms <= 0:
            fetch.expire()
        else:
            self._replicas.fetches.try_complete_else_watch(fetch, watched, deadline)
        return answer

    def _place(self, asked: Asked, partition: FetchRequest.Topic.Partition, context: RequestContext) -> FetchPlace:
        name = self._name_of(asked, context)
        refused = ErrorCode.UNKNOWN_TOPIC_ID if name is None else None
        topic_partition = TopicPartition(name or "", partition.partition)
        held = self._replicas.partitions.get(topic_partition)
        if held is not None and asked[1] not in (ZERO_UUID, held.key.topic_id):
            refused = ErrorCode.INCONSISTENT_TOPIC_ID
        return FetchPlace(
            topic_partition,
            partition.fetch_offset,
            max(0, partition.partition_max_bytes),
            max(NO_EPOCH, partition.current_leader_epoch),
            partition.last_fetched_epoch,
            partition.log_start_offset,
            refused,
        )

    def _fetched(
        self, asked: Collection[Asked], context: RequestContext, results: Sequence[FetchResult]
    ) -> FetchResponse:
        tells_leader = context.api_version >= _FIRST_FETCH_WITH_LEADER
        leaders: dict[int, NodeEndpoint] = {}
        topics: dict[tuple[str, Uuid], list[FetchResponse.Topic.Partition]] = {}
        for (name, topic_id, _), result in zip(asked, results, strict=True):
            answer = self._fetched_partition(result)
            if tells_leader and result.error in _NOT_LEADER:
                answer.current_leader = self._leader(result.error, result.place.topic_partition, context, leaders)
            topics.setdefault((name, topic_id), []).append(answer)
        return FetchResponse(
            responses=[
                FetchResponse.Topic(topic=name, topic_id=topic_id, partitions=answers)
                for (name, topic_id), answers in topics.items()
            ],
            node_endpoints=list(leaders.values()),
        )

    @staticmethod
    def _fetched_partition(result: FetchResult) -> FetchResponse.Topic.Partition:
        partition_type = FetchResponse.Topic.Partition
        answer = partition_type(
            partition_index=result.place.topic_partition.partition,
            error_code=result.error,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            records=result.records,
        )
        if result.diverging is not None:
            end = result.diverging
            answer.diverging_epoch = partition_type.EpochEndOffset(epoch=end.epoch, end_offset=end.offset)
        if result.aborted is not None:
            answer.aborted_transactions = [
                partition_type.AbortedTransaction(producer_id=a.producer_id, first_offset=a.first_offset)
                for a in result.aborted
            ]
        if result.error in _UNKNOWN:
            answer.aborted_transactions = ()
        return answer

    # --- ListOffsets --------------------------------------------------------------------------------------------------

    def list_offsets(
        self, request: ListOffsetsRequest, context: RequestContext, now: int
    ) -> Promise[ListOffsetsResponse | None]:
        named = [TopicPartition(t.name, p.partition_index) for t in request.topics for p in t.partitions]
        twice = {topic_partition for topic_partition, times in Counter(named).items() if times > 1}
        asked = {
            TopicPartition(topic.name, partition.partition_index): partition
            for topic in request.topics
            for partition in topic.partitions
        }
        topics: dict[str, list[ListOffsetsResponse.Topic.Partition]] = {}
        for topic_partition, partition in asked.items():
            answer = ListOffsetsResponse.Topic.Partition(partition_index=topic_partition.partition)
            topics.setdefault(topic_partition.topic, []).append(answer)
            try:
                if topic_partition in twice:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic_partition} is named twice")
                _check_mark(partition.timestamp, context.api_version)
                found = self._offset(self._replicas.partition(topic_partition), partition, request)
                answer.timestamp, answer.offset, answer.leader_epoch = found
            except KafkaError as error:
                answer.error_code = error.code
            except OSError as error:
                answer.error_code = self._replicas.on_disk_failure(error).code
        return Promise.of(
            ListOffsetsResponse(
                topics=[ListOffsetsResponse.Topic(name=name, partitions=answers) for name, answers in topics.items()]
            )
        )

    @staticmethod
    def _offset(
        partition: Partition, asked: ListOffsetsRequest.Topic.Partition, request: ListOffsetsRequest
    ) -> TimestampedOffset:
        if request.replica_id != DEBUGGING:
            partition.check_leader(asked.current_leader_epoch)
        log = partition.log
        isolation = _isolation(request.replica_id, request.isolation_level)
        end = log.upper_bound(isolation)
        # A new leader does not know yet how much of the older epochs is committed.
        is_behind = isolation is not Isolation.LOG_END and log.high_watermark < partition.leader_epoch_start
        nothing = TimestampedOffset(-1, -1, -1)
        match asked.timestamp:
            case _ if asked.timestamp == LATEST_TIMESTAMP:
                if is_behind:
                    raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
                return TimestampedOffset(-1, end, partition.leader_epoch)
            case _ if asked.timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
                epoch = log.epochs.epoch_for(log.log_start_offset)
                return TimestampedOffset(-1, log.log_start_offset, -1 if epoch is None else epoch)
            case _ if asked.timestamp == MAX_TIMESTAMP:
                found = log.offset_of_max_timestamp()
            case _ if asked.timestamp < 0:
                return nothing  # of tiered storage, which there is none of
            case _:
                found = log.offset_for_timestamp(asked.timestamp)
        if found is not None and found.offset < end:
            return found
        if found is not None and is_behind:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return nothing

    # --- OffsetForLeaderEpoch -----------------------------------------------------------------------------------------

    def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, context: RequestContext, now: int
    ) -> Promise[OffsetForLeaderEpochResponse | None]:
        topic_type = OffsetForLeaderEpochResponse.Topic
        topics = []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                answer = topic_type.Partition(partition=asked.partition)
                answers.append(answer)
                try:
                    partition = self._replicas.partition(TopicPartition(topic.topic, asked.partition))
                    partition.check_leader(asked.current_leader_epoch)
                    end = partition.log.end_offset_for(asked.leader_epoch)
                    if end is not None:
                        answer.end_offset, answer.leader_epoch = end
                except KafkaError as error:
                    answer.error_code = error.code
            topics.append(topic_type(topic=topic.topic, partitions=answers))
        return Promise.of(OffsetForLeaderEpochResponse(topics=topics))

    # ------------------------------------------------------------------------------------------------------------------

    def _name_of(self, asked: Asked, context: RequestContext) -> str | None:
        """The topic's name; None for an id that nobody knows. From Produce 13 and Fetch 13 on there is no name."""
        name, topic_id, _ = asked
        if context.api_version < _FIRST_VERSION_BY_ID:
            return name
        topic = self._replicas.image.topics.get(topic_id)
        return None if topic is None else topic.name

    def _leader(
        self,
        error: ErrorCode,
        topic_partition: TopicPartition,
        context: RequestContext,
        leaders: dict[int, NodeEndpoint],
    ) -> LeaderIdAndEpoch | None:
        """Who leads instead, and (in `leaders`) where it is reached, so that the client need not ask (KIP-951)."""
        hint = self._replicas.leader_hint(topic_partition)
        if error not in _NOT_LEADER or hint is None:
            return None
        broker = self._replicas.image.brokers.get(hint.leader_id)
        endpoint = None if broker is None else broker.endpoints.get(context.listener)
        if broker is not None and endpoint is not None:
            leaders[hint.leader_id] = NodeEndpoint(
                node_id=hint.leader_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
        return LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)


def _check_mark(timestamp: int, version: int) -> None:
    """Negative timestamps stand for places, and more of them came with the versions."""
    if timestamp < EARLIEST_TIMESTAMP and version < _FIRST_VERSION_OF_MARK.get(timestamp, version + 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} means nothing in version {version}")


def _isolation(replica_id: int, isolation_level: int) -> Isolation:
    if replica_id >= 0 or replica_id < CONSUMER:
        return Isolation.LOG_END  # a follower, or a consumer that debugs (-2)
    return Isolation.COMMITTED if isolation_level == READ_COMMITTED else Isolation.HIGH_WATERMARK
