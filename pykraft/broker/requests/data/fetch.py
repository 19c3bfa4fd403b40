"""Fetch on a broker's listener, versions 4 to 18: consumers read, and followers replicate. Behaviour to know:

* In a fetch session (`broker.requests.data.fetch_sessions`) a request is about all partitions of the session, and the
  answer leaves out those without news. Quiet partitions of a follower are not even looked at.
* From version 13 on topics go by id; an id that this broker does not know is UNKNOWN_TOPIC_ID.
* From version 11 on a consumer may read from a follower, and says in which rack it is; a leader with a replica selector
  (`broker.replication.replica_selector`) may send it to a follower.
* A follower that catches up may be slowed down (`broker.replication.replication_quotas`).
* A consumer that has used up its quota gets an empty answer (`broker.requests.quota_managers`), and its session goes on
  as if it had not asked.
* Of a partition that a request names twice the last mention counts, and it is answered once.

Follows kafka.server.KafkaApis.handleFetchRequest.
"""

from collections.abc import Sequence
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
from pykraft.broker.requests.quota_managers import ClientQuotas
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
_RESPONSE_BYTES, _PARTITION_BYTES = 24, 64
"""What a response has besides records, and each partition in it: about."""
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class _Asking(NamedTuple):
    """A fetch on its way through the handler."""

    request: FetchRequest
    context: RequestContext
    session: FetchContext
    params: FetchParams
    broker_epoch: int
    """Of a replica: which process of its broker it is."""
    is_stranger: bool
    """It claims to be a replica, and may not act for the cluster."""


class FetchApis:
    """Gives readers what there is, or lets them wait."""

    def __init__(
        self,
        config: NodeConfig,
        replicas: ReplicaManager,
        authorizer: Authorizer,
        sessions: FetchSessionCache,
        quotas: ClientQuotas,
    ) -> None:
        self._most_bytes = config.values[keys.FETCH_MAX_BYTES]
        self._replicas = replicas
        self._authorizer = authorizer
        self._sessions = sessions
        self._quotas = quotas
        self._selects_replicas = config.values[keys.REPLICA_SELECTOR_CLASS] == keys.RACK_AWARE_SELECTOR

    def fetch(self, request: FetchRequest, context: RequestContext, now: int) -> Handled:
        replica = request.replica_state or FetchRequest.ReplicaState()
        if context.api_version < _FIRST_VERSION_WITH_REPLICA_STATE:
            replica = FetchRequest.ReplicaState(replica_id=request.replica_id)
        is_replica = replica.replica_id >= 0
        # A replica is asked about once, as a part of the cluster; a consumer for each topic.
        is_stranger = is_replica and not allows_on_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        reader = Reader(
            context.principal,
            is_replica and not is_stranger,
            context.api_version >= FIRST_VERSION_BY_ID,
            replica.replica_id,
            replica.replica_epoch,
        )
        try:
            session = self._session(request, reader, now)
        except KafkaError as error:
            return FetchResponse(error_code=error.code, responses=[])
        params = self._params(request, context, replica.replica_id)
        asking = _Asking(request, context, session, params, replica.replica_epoch, is_stranger)
        return ItemByItem(list(session.wanted.items()), partial(self._place, asking), partial(self._placed, asking))

    def _session(self, request: FetchRequest, reader: Reader, now: int) -> FetchContext:
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
        return self._sessions.context(request, wanted, forgotten, reader, now)

    def _params(self, request: FetchRequest, context: RequestContext, replica_id: int) -> FetchParams:
        is_replica, min_bytes = replica_id >= 0, request.min_bytes
        max_bytes = request.max_bytes if is_replica else min(request.max_bytes, self._most_bytes)
        if self._quotas.limits_fetches and not is_replica:
            # More would be too much, however long the reader waits.
            max_bytes = min(max_bytes, self._quotas.most_fetched_bytes(context))
            min_bytes = min(min_bytes, max_bytes)
        return FetchParams(
            isolation_of(replica_id, request.isolation_level),
            max_bytes=max(0, max_bytes),
            min_bytes=max(0, min_bytes),
            replica_id=replica_id,
            needs_leader=is_replica or context.api_version < _FIRST_VERSION_WITH_RACK,
            select_replica=self._selector(request, context) if request.rack_id and not is_replica else None,
            holds_back=self._replicas.quotas.holds_back if is_replica else None,
            tells_high_watermark=is_replica and self._selects_replicas,
        )

    def _selector(self, request: FetchRequest, context: RequestContext) -> SelectReplica | None:
        """How a consumer in a rack is sent to other replicas; None if it never is."""
        rack, listener = request.rack_id, context.listener
        if not self._selects_replicas or context.api_version < _FIRST_VERSION_WITH_RACK:
            return None
        return lambda partition, place: nearest_replica(partition, place, self._replicas.image, rack, listener)

    def _place(self, asking: _Asking, wanted: tuple[Asked, FetchRequest.Topic.Partition], now: int) -> FetchPlace:
        asked, partition = wanted
        name = topic_name(self._replicas, asked, asking.context)
        topic_partition, replica_id = TopicPartition(name or "", partition.partition), asking.params.replica_id
        held = self._replicas.partitions.get(topic_partition)
        refused = None
        if asking.is_stranger:
            refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif name is None:
            refused = ErrorCode.UNKNOWN_TOPIC_ID
        elif replica_id < 0 and is_denied(self._authorizer, asking.context, AclOperation.READ, name):
            refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif held is not None and asked[1] not in (ZERO_UUID, held.key.topic_id):
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
        return place if replica_id < 0 else self._replicas.record_fetch(place, replica_id, asking.broker_epoch, now)

    def _placed(self, asking: _Asking, places: list[FetchPlace], now: int) -> Handled:
        """Read at once, or once there is enough."""
        wait_ms = asking.request.max_wait_ms
        if wait_ms <= 0:
            return self._read(asking, places, 0, True)
        if not self._has_records(asking.params, places):
            if not asking.session.may_wait:
                return self._read(asking, places, 0, True)
            fetch = DelayedFetch(replicas=self._replicas, places=places, params=asking.params)
            if not fetch.has_enough():
                return self._wait(asking, fetch, now + wait_ms)
        return self._read(asking, places, now + wait_ms, False)

    def _has_records(self, params: FetchParams, places: Sequence[FetchPlace]) -> bool:
        """Whether some partition has records for the reader. Then the fetch does not wait, whatever others have: the
        read finds their errors and their news."""
        if params.min_bytes > 1:
            return False
        for place in places:
            partition = self._replicas.partitions.get(place.topic_partition)
            if partition is None or place.offset >= partition.log.upper_bound(params.isolation):
                continue
            if params.holds_back is None or not params.is_held_back(partition):
                return True
        return False

    def _wait(self, asking: _Asking, fetch: DelayedFetch, deadline: int) -> Promise[ItemByItem]:
        watched = sorted({place.topic_partition for place in fetch.places})
        watch_also = self._replicas.fetches.watch(fetch, watched, deadline)

        def join(place: FetchPlace) -> None:
            fetch.add(place)
            watch_also(place.topic_partition)

        asking.session.begin_wait(fetch.promise, join)
        return fetch.promise.map(partial(self._read, asking, fetch.places, deadline))

    def _read(self, asking: _Asking, places: list[FetchPlace], deadline: int, is_last: bool) -> ItemByItem:
        """Read what is there. If it is not the last time, the fetch may wait on."""
        reader = FetchReader(self._replicas, asking.params)

        def judge(results: list[FetchResult], now: int) -> Handled:
            is_to_answer = is_last or reader.has_some or not asking.session.may_wait
            if is_to_answer or reader.is_worth_an_answer(results):
                return self._fetched(asking, results, now)
            again = DelayedFetch(replicas=self._replicas, places=places, params=asking.params)
            return self._wait(asking, again, deadline)

        return ItemByItem(places, reader.read, judge)

    def _fetched(self, asking: _Asking, results: list[FetchResult], now: int) -> Handled:
        session, replica_id = asking.session, asking.params.replica_id
        if session.error is not ErrorCode.NONE:
            return FetchResponse(error_code=session.error, session_id=session.session_id(now), responses=[])
        if replica_id >= 0:
            self._replicas.note_told(results, replica_id)
        elif self._quotas.limits_fetches:
            throttle_ms = self._quotas.record_fetch(asking.context, _size(results), now)
            if throttle_ms:
                return FetchResponse(throttle_time_ms=throttle_ms, session_id=session.id_of_throttled, responses=[])
        leaders: dict[int, NodeEndpoint] = {}
        topics: dict[tuple[str, Uuid], list[FetchResponse.Topic.Partition]] = {}

        def answer_one(wanted: tuple[Asked, FetchResult], now: int) -> None:
            (name, topic_id, _), result = wanted
            if session.note(wanted[0], result):
                topics.setdefault((name, topic_id), []).append(self._answer(asking, result, leaders))
            elif replica_id >= 0:
                follower = self._replicas.follower_without_news(result, replica_id)
                if follower is not None:
                    session.rest(wanted[0], follower, result.place)

        def respond(_: list[None], now: int) -> FetchResponse:
            return FetchResponse(
                session_id=session.session_id(now),
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
        topic_partition, replica_id = result.place.topic_partition, asking.params.replica_id
        partition_type = FetchResponse.Topic.Partition
        answer = partition_type(
            partition_index=topic_partition.partition,
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
        if result.error is not ErrorCode.NONE:
            self._tell_error(answer, asking.context, result, leaders)
            return answer
        is_added = replica_id >= 0 and self._replicas.is_adding(topic_partition, replica_id)
        self._replicas.topic_metrics.fetched(topic_partition.topic, result.size, replica_id >= 0, is_added)
        if replica_id >= 0:
            self._replicas.quotas.leader.record(topic_partition, result.size)
        return answer

    def _tell_error(
        self,
        answer: FetchResponse.Topic.Partition,
        context: RequestContext,
        result: FetchResult,
        leaders: dict[int, NodeEndpoint],
    ) -> None:
        """What else the answer says of a partition that was not read: where its leader is."""
        topic_partition = result.place.topic_partition
        self._replicas.topic_metrics.not_fetched(topic_partition.topic, result.error)
        if result.error in _UNKNOWN:
            answer.aborted_transactions = ()
        if context.api_version >= _FIRST_VERSION_WITH_LEADER and result.error in NOT_LEADER:
            answer.current_leader = current_leader(self._replicas, result.error, topic_partition, context, leaders)


class FetchReader:
    """Reads one partition of a fetch after the other. The first batch of the first partition that has any comes whole,
    however large; the others get what is left of `max_bytes`."""

    def __init__(self, replicas: ReplicaManager, params: FetchParams) -> None:
        self._replicas = replicas
        self._params = params
        self._left_bytes = params.max_bytes
        self.has_some = False
        """Whether there were records."""

    def read(self, place: FetchPlace, now: int) -> FetchResult:
        """What there is now."""
        result = self._replicas.read(place, self._params, self._left_bytes, at_least_one=not self.has_some)
        if result.size:
            self.has_some = True
            self._left_bytes = max(0, self._left_bytes - result.size)
        return result

    def is_worth_an_answer(self, results: Sequence[FetchResult]) -> bool:
        """False if what seemed to be there was compacted away: its reader would come back at once."""
        return self._params.min_bytes <= 0 or any(
            result.size or result.is_news or self._tells_high_watermark(result) for result in results
        )

    def _tells_high_watermark(self, result: FetchResult) -> bool:
        partition = self._replicas.held(result.place)
        return partition is not None and self._params.has_untold_high_watermark(partition)


def _size(results: Sequence[FetchResult]) -> int:
    """About how many bytes a response with these results has."""
    told = [result for result in results if result.size or result.error is not ErrorCode.NONE]
    return _RESPONSE_BYTES + sum(_PARTITION_BYTES + result.size for result in told)


HANDLERS: Handlers = {
    FetchRequest: FetchApis.fetch,
}


def isolation_of(replica_id: int, isolation_level: int) -> Isolation:
    """How far this reader may see: a replica, or a consumer that looks at replicas one by one (-2), sees everything."""
    if replica_id != CONSUMER:
        return Isolation.LOG_END
    return Isolation.COMMITTED if isolation_level == READ_COMMITTED else Isolation.HIGH_WATERMARK
