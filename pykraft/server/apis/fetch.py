"""Fetch on a broker's listener, versions 4 to 18: consumers read, and followers replicate. Behaviour to know:

* In a fetch session (`server.fetch_sessions`) a request is about all partitions of the session, and the answer leaves
  out those without news.
* From version 13 on topics go by id; an id that this broker does not know is UNKNOWN_TOPIC_ID.
* From version 11 on a consumer may read from a follower, and says in which rack it is; a leader with a replica selector
  (`server.replica_selector`) may send it to a follower.
* A follower that catches up may be slowed down (`server.replication_quotas`).
* Of a partition that a request names twice the last mention counts, and it is answered once.

Follows kafka.server.KafkaApis.handleFetchRequest.
"""

from collections.abc import Sequence

from pykraft.common.acl import AclOperation
from pykraft.common.core import Promise, Steps, finish
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.protocol.messages.data import NO_EPOCH, FetchRequest, FetchResponse, NodeEndpoint
from pykraft.server import config as keys
from pykraft.server.apis.dispatch import Handlers
from pykraft.server.apis.partitions import (
    FIRST_VERSION_BY_ID,
    NOT_LEADER,
    Asked,
    current_leader,
    is_denied,
    topic_name,
)
from pykraft.server.authorizer import Authorizer, allows_on_cluster
from pykraft.server.config import NodeConfig
from pykraft.server.delayed import DelayedFetch
from pykraft.server.fetch_sessions import FetchContext, FetchSessionCache, Reader
from pykraft.server.fetching import FetchParams, FetchPlace, FetchResult, SelectReplica
from pykraft.server.replica_manager import ReplicaManager
from pykraft.server.replica_selector import nearest_replica
from pykraft.server.turns import PARTS_PER_TURN
from pykraft.storage.answers import Isolation
from pykraft.transport.server_channel import RequestContext

READ_COMMITTED = 1
CONSUMER = -1
"""The replica id of a reader that is no replica."""
_FIRST_VERSION_WITH_RACK = 11
_FIRST_VERSION_WITH_REPLICA_STATE = 15
_FIRST_VERSION_WITH_LEADER = 16
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class FetchApis:
    """Gives readers what there is, or lets them wait."""

    def __init__(
        self, config: NodeConfig, replicas: ReplicaManager, authorizer: Authorizer, sessions: FetchSessionCache
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._authorizer = authorizer
        self._sessions = sessions
        self._selects_replicas = config.values[keys.REPLICA_SELECTOR_CLASS] == keys.RACK_AWARE_SELECTOR

    def fetch(
        self, request: FetchRequest, context: RequestContext, now: int
    ) -> Steps[FetchResponse | Promise[FetchResponse]]:
        state = request.replica_state or FetchRequest.ReplicaState()
        has_state = context.api_version >= _FIRST_VERSION_WITH_REPLICA_STATE
        replica_id = state.replica_id if has_state else request.replica_id
        is_replica = replica_id >= 0
        # A replica is asked about once, as a part of the cluster; a consumer for each topic.
        is_stranger = is_replica and not allows_on_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        try:
            session = self._session(request, context, is_replica and not is_stranger)
        except KafkaError as error:
            return FetchResponse(error_code=error.code, responses=[])
        places = []
        for number, (key, partition) in enumerate(session.wanted.items(), 1):
            place = self._place(key, partition, context)
            if is_stranger or (not is_replica and self._is_denied(place, context)):
                place = place._replace(refused=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            places.append(place)
            if number % PARTS_PER_TURN == 0:
                now = yield
        most_bytes = request.max_bytes
        if is_replica:
            places = self._replicas.record_fetches(places, replica_id, state.replica_epoch, now)
        else:
            most_bytes = min(most_bytes, self._config.values[keys.FETCH_MAX_BYTES])
        params = FetchParams(
            isolation_of(replica_id, request.isolation_level),
            max_bytes=max(0, most_bytes),
            min_bytes=max(0, request.min_bytes),
            replica_id=replica_id,
            needs_leader=is_replica or context.api_version < _FIRST_VERSION_WITH_RACK,
            select_replica=None if is_replica else self._selector(request, context),
            holds_back=self._replicas.quotas.holds_back if is_replica else None,
            tells_high_watermark=is_replica and self._selects_replicas,
        )
        fetch = DelayedFetch(replicas=self._replicas, places=places, params=params)
        may_wait = request.max_wait_ms > 0 and bool(places)
        if not may_wait or fetch.has_enough():
            results = yield from fetch.read()
            if not may_wait or fetch.is_worth_an_answer(results):
                return (yield from self._fetched(session, context, results, replica_id))
        session.begin_wait(fetch.promise)
        watched = sorted({place.topic_partition for place in places})
        self._replicas.fetches.watch(fetch, watched, now + request.max_wait_ms)
        return fetch.promise.map(lambda late: finish(self._fetched(session, context, late, replica_id)))

    def _selector(self, request: FetchRequest, context: RequestContext) -> SelectReplica | None:
        """How this consumer is sent to other replicas; None if it never is."""
        rack, listener = request.rack_id, context.listener
        if not rack or not self._selects_replicas or context.api_version < _FIRST_VERSION_WITH_RACK:
            return None
        return lambda partition, place: nearest_replica(partition, place, self._replicas.image, rack, listener)

    def _session(self, request: FetchRequest, context: RequestContext, is_follower: bool) -> FetchContext:
        """What the request is about; KafkaError if that is a session which is not here."""
        wanted: dict[Asked, FetchRequest.Topic.Partition] = {
            (topic.topic, topic.topic_id, partition.partition): partition
            for topic in request.topics
            for partition in topic.partitions
        }
        forgotten = [
            (topic.topic, topic.topic_id, number)
            for topic in request.forgotten_topics_data
            for number in topic.partitions
        ]
        reader = Reader(context.principal, is_follower, context.api_version >= FIRST_VERSION_BY_ID)
        return self._sessions.context(request, wanted, forgotten, reader)

    def _is_denied(self, place: FetchPlace, context: RequestContext) -> bool:
        topic = place.topic_partition.topic
        is_known = place.refused is not ErrorCode.UNKNOWN_TOPIC_ID
        return is_known and is_denied(self._authorizer, context, AclOperation.READ, topic)

    def _place(self, asked: Asked, partition: FetchRequest.Topic.Partition, context: RequestContext) -> FetchPlace:
        name = topic_name(self._replicas, asked, context)
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
            asked[1] if held is None else held.key.topic_id,
        )

    def _fetched(
        self, session: FetchContext, context: RequestContext, results: Sequence[FetchResult], replica_id: int
    ) -> Steps[FetchResponse]:
        if session.error is not ErrorCode.NONE:
            return FetchResponse(error_code=session.error, session_id=session.session_id(), responses=[])
        if replica_id >= 0:
            self._replicas.note_told(results, replica_id)
        tells_leader = context.api_version >= _FIRST_VERSION_WITH_LEADER
        leaders: dict[int, NodeEndpoint] = {}
        topics: dict[tuple[str, Uuid], list[FetchResponse.Topic.Partition]] = {}
        for number, (asked, result) in enumerate(zip(session.wanted, results, strict=True), 1):
            if number % PARTS_PER_TURN == 0:
                yield
            if not session.note(asked, result):
                continue
            answer = self._fetched_partition(result)
            if result.error is ErrorCode.NONE:
                topic_partition = result.place.topic_partition
                is_added = replica_id >= 0 and self._replicas.is_adding(topic_partition, replica_id)
                self._replicas.topic_metrics.fetched(
                    topic_partition.topic, len(result.records), replica_id >= 0, is_added
                )
                if replica_id >= 0:
                    self._replicas.quotas.leader.record(topic_partition, len(result.records))
            else:
                self._replicas.topic_metrics.not_fetched(result.place.topic_partition.topic, result.error)
            if tells_leader and result.error in NOT_LEADER:
                answer.current_leader = current_leader(
                    self._replicas, result.error, result.place.topic_partition, context, leaders
                )
            name, topic_id, _ = asked
            topics.setdefault((name, topic_id), []).append(answer)
        return FetchResponse(
            session_id=session.session_id(),
            responses=[
                FetchResponse.Topic(topic=name, topic_id=topic_id, partitions=answers)
                for (name, topic_id), answers in topics.items()
            ],
            # A follower has the endpoints from the metadata log.
            node_endpoints=list(leaders.values()) if replica_id < 0 else (),
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
            preferred_read_replica=result.preferred_read_replica,
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


HANDLERS: Handlers = {
    FetchRequest: FetchApis.fetch,
}


def isolation_of(replica_id: int, isolation_level: int) -> Isolation:
    """How far this reader may see: a replica, or a consumer that looks at replicas one by one (-2), sees everything."""
    if replica_id != CONSUMER:
        return Isolation.LOG_END
    return Isolation.COMMITTED if isolation_level == READ_COMMITTED else Isolation.HIGH_WATERMARK
