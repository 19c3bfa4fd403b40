"""Fetch on a broker's listener, versions 4 to 18: consumers read, and followers replicate. Behaviour to know:

* In a fetch session (`broker.requests.data.fetch_sessions`) a request is about all partitions of the session, and the
  answer leaves out those without news.
* From version 13 on topics go by id; an id that this broker does not know is UNKNOWN_TOPIC_ID.
* From version 11 on a consumer may read from a follower, and says in which rack it is; a leader with a replica selector
  (`broker.replication.replica_selector`) may send it to a follower.
* A follower that catches up may be slowed down (`broker.replication.replication_quotas`).
* Of a partition that a request names twice the last mention counts, and it is answered once.

Follows kafka.server.KafkaApis.handleFetchRequest.
"""

from functools import partial
from typing import NamedTuple

from pykraft.broker.replication.delayed import DelayedFetch
from pykraft.broker.replication.fetching import FetchParams, FetchPlace, FetchResult, SelectReplica
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.replication.replica_selector import nearest_replica
from pykraft.broker.requests.authorizer import Authorizer, allows_on_cluster
from pykraft.broker.requests.data.fetch_sessions import FetchContext, FetchSessionCache, Reader
from pykraft.broker.requests.data.partitions import (
    FIRST_VERSION_BY_ID,
    NOT_LEADER,
    Asked,
    current_leader,
    is_denied,
    topic_name,
)
from pykraft.broker.requests.dispatch import Handled, Handlers
from pykraft.broker.settings import config as keys
from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.protocol.messages.data import NO_EPOCH, FetchRequest, FetchResponse, NodeEndpoint
from pykraft.storage.answers import Isolation
from pykraft.transport.server_channel import RequestContext

READ_COMMITTED = 1
CONSUMER = -1
"""The replica id of a reader that is no replica."""
_FIRST_VERSION_WITH_RACK = 11
_FIRST_VERSION_WITH_REPLICA_STATE = 15
_FIRST_VERSION_WITH_LEADER = 16
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class _Asking(NamedTuple):
    """A fetch on its way through the handler."""

    request: FetchRequest
    context: RequestContext
    session: FetchContext
    replica: FetchRequest.ReplicaState
    """Of a consumer, the one without an id."""
    is_stranger: bool
    """It claims to be a replica, and may not act for the cluster."""

    @property
    def is_replica(self) -> bool:
        return self.replica.replica_id >= 0


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

    def fetch(self, request: FetchRequest, context: RequestContext, now: int) -> Handled:
        replica = request.replica_state or FetchRequest.ReplicaState()
        if context.api_version < _FIRST_VERSION_WITH_REPLICA_STATE:
            replica = FetchRequest.ReplicaState(replica_id=request.replica_id)
        is_replica = replica.replica_id >= 0
        # A replica is asked about once, as a part of the cluster; a consumer for each topic.
        is_stranger = is_replica and not allows_on_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        try:
            session = self._session(request, context, is_replica and not is_stranger)
        except KafkaError as error:
            return FetchResponse(error_code=error.code, responses=[])
        asking = _Asking(request, context, session, replica, is_stranger)
        return ItemByItem(list(session.wanted.items()), partial(self._place, asking), partial(self._placed, asking))

    def _placed(self, asking: _Asking, places: list[FetchPlace], now: int) -> Handled:
        """Read at once, or once there is enough."""
        request = asking.request
        fetch = DelayedFetch(replicas=self._replicas, places=places, params=self._params(asking))
        if request.max_wait_ms <= 0 or not places:
            return self._read(asking, fetch, 0, True)
        deadline = now + request.max_wait_ms
        return self._read(asking, fetch, deadline, False) if fetch.has_enough() else self._wait(asking, fetch, deadline)

    def _params(self, asking: _Asking) -> FetchParams:
        request, context, _, replica, _ = asking
        most_bytes, is_replica = request.max_bytes, asking.is_replica
        if not is_replica:
            most_bytes = min(most_bytes, self._config.values[keys.FETCH_MAX_BYTES])
        return FetchParams(
            isolation_of(replica.replica_id, request.isolation_level),
            max_bytes=max(0, most_bytes),
            min_bytes=max(0, request.min_bytes),
            replica_id=replica.replica_id,
            needs_leader=is_replica or context.api_version < _FIRST_VERSION_WITH_RACK,
            select_replica=None if is_replica else self._selector(request, context),
            holds_back=self._replicas.quotas.holds_back if is_replica else None,
            tells_high_watermark=is_replica and self._selects_replicas,
        )

    def _wait(self, asking: _Asking, fetch: DelayedFetch, deadline: int) -> Promise[ItemByItem]:
        asking.session.begin_wait(fetch.promise)
        watched = sorted({place.topic_partition for place in fetch.places})
        self._replicas.fetches.watch(fetch, watched, deadline)
        return fetch.promise.map(partial(self._read, asking, fetch, deadline))

    def _read(self, asking: _Asking, fetch: DelayedFetch, deadline: int, is_last: bool) -> ItemByItem:
        """Read what is there. If it is not the last time, the fetch may wait on."""

        def judge(results: list[FetchResult], now: int) -> Handled:
            if is_last or fetch.is_worth_an_answer(results):
                return self._fetched(asking, results)
            return self._wait(asking, fetch.again(), deadline)

        return ItemByItem(fetch.places, fetch.reader().read, judge)

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

    def _place(self, asking: _Asking, wanted: tuple[Asked, FetchRequest.Topic.Partition], now: int) -> FetchPlace:
        asked, partition = wanted
        name = topic_name(self._replicas, asked, asking.context)
        refused = ErrorCode.UNKNOWN_TOPIC_ID if name is None else None
        topic_partition = TopicPartition(name or "", partition.partition)
        held = self._replicas.partitions.get(topic_partition)
        if held is not None and asked[1] not in (ZERO_UUID, held.key.topic_id):
            refused = ErrorCode.INCONSISTENT_TOPIC_ID
        place = FetchPlace(
            topic_partition,
            partition.fetch_offset,
            max(0, partition.partition_max_bytes),
            max(NO_EPOCH, partition.current_leader_epoch),
            partition.last_fetched_epoch,
            partition.log_start_offset,
            refused,
            asked[1] if held is None else held.key.topic_id,
        )
        is_replica = asking.is_replica
        if asking.is_stranger or (not is_replica and self._is_denied(place, asking.context)):
            place = place._replace(refused=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if is_replica:
            return self._replicas.record_fetch(place, asking.replica.replica_id, asking.replica.replica_epoch, now)
        return place

    def _fetched(self, asking: _Asking, results: list[FetchResult]) -> Handled:
        session, replica_id = asking.session, asking.replica.replica_id
        if session.error is not ErrorCode.NONE:
            return FetchResponse(error_code=session.error, session_id=session.session_id(), responses=[])
        if replica_id >= 0:
            self._replicas.note_told(results, replica_id)
        leaders: dict[int, NodeEndpoint] = {}
        topics: dict[tuple[str, Uuid], list[FetchResponse.Topic.Partition]] = {}

        def answer_one(wanted: tuple[Asked, FetchResult], now: int) -> None:
            (name, topic_id, _), result = wanted
            if session.note(wanted[0], result):
                topics.setdefault((name, topic_id), []).append(self._answer(asking, result, leaders))

        def respond(_: list[None], now: int) -> FetchResponse:
            return FetchResponse(
                session_id=session.session_id(),
                responses=[
                    FetchResponse.Topic(topic=name, topic_id=topic_id, partitions=answers)
                    for (name, topic_id), answers in topics.items()
                ],
                # A follower has the endpoints from the metadata log.
                node_endpoints=list(leaders.values()) if replica_id < 0 else (),
            )

        return ItemByItem(list(zip(session.wanted, results, strict=True)), answer_one, respond)

    def _answer(
        self, asking: _Asking, result: FetchResult, leaders: dict[int, NodeEndpoint]
    ) -> FetchResponse.Topic.Partition:
        """The answer about a partition, and what the metrics and quotas need to know of it."""
        answer = self._fetched_partition(result)
        topic_partition, replica_id = result.place.topic_partition, asking.replica.replica_id
        if result.error is ErrorCode.NONE:
            is_added = replica_id >= 0 and self._replicas.is_adding(topic_partition, replica_id)
            self._replicas.topic_metrics.fetched(topic_partition.topic, len(result.records), replica_id >= 0, is_added)
            if replica_id >= 0:
                self._replicas.quotas.leader.record(topic_partition, len(result.records))
            return answer
        self._replicas.topic_metrics.not_fetched(topic_partition.topic, result.error)
        if asking.context.api_version >= _FIRST_VERSION_WITH_LEADER and result.error in NOT_LEADER:
            answer.current_leader = current_leader(
                self._replicas, result.error, topic_partition, asking.context, leaders
            )
        return answer

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
