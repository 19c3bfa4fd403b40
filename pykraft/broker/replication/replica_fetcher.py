"""Following a leader: one fetcher for each broker that leads partitions which this broker follows.

One Fetch at a time asks for all of them, in a fetch session: it names those whose log has changed (KIP-227). It says
for each partition where its log ends and of which epoch its last record is (KIP-595 brought this to data partitions,
too). The leader answers with what follows; or, if the two logs are not the same up to there, with where that epoch ends
in its log: the follower cuts its log to where both agree, and asks again. So a follower never cuts by its high
watermark, which may lag behind what was acknowledged (KIP-101, KIP-279).

An answer may come seconds late. By then the topic may have been deleted and made again: the new one has the same name,
and its leader epochs begin at 0 again. So an answer counts only for the log that was asked about, in the leadership in
which it was asked, and while that log still ends where it did then (`_Asked`). Any other answer is dropped, and the
follower asks again.

Most partitions are idle, and there may be thousands. So a poll looks only at those of which the next fetch may have to
say something else than the last one (`loud`): new ones, those that were answered, that rest or are held off, that lag,
and those whose log begins later now. All others are in the session, as the last fetch has left them there.

What can go wrong with one partition does not hold up the others: it rests for ``replica.fetch.backoff.ms``. A partition
whose leader epoch is outdated here rests until the metadata log has brought the new one. A throttled partition that is
not in sync is left out while this broker's quota is exceeded (`replication_quotas`).

Follows kafka.server.{AbstractFetcherThread,ReplicaFetcherThread}.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pykraft.broker.replication.partition import Partition
from pykraft.broker.replication.replication_quotas import ReplicationQuotas
from pykraft.broker.replication.topic_metrics import BrokerTopicMetrics
from pykraft.broker.settings import config as keys
from pykraft.common.core import FOREVER, Failure, Outbound, Poll
from pykraft.common.errors import CorruptRecordError, ErrorCode, KafkaError
from pykraft.common.rooms import Room
from pykraft.common.settings.config import Config
from pykraft.common.trace import Tracer
from pykraft.common.types import Node, OffsetAndEpoch, TopicPartition
from pykraft.protocol.messages.data import (
    EARLIEST_TIMESTAMP,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from pykraft.storage.log import UnifiedLog
from pykraft.transport.fetch_session import FetchSessionHandler, Wanted

CHANNEL = "replica-fetcher"


class _Followed:
    """One partition, and until when it rests."""

    __slots__ = ("lag", "partition", "resting_until")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.resting_until = 0
        self.lag: int | None = None
        """How many committed records it had not yet, after the last answer; None before there was one."""


class _Asked(NamedTuple):
    """What a request said of one partition."""

    followed: _Followed
    leader_epoch: int
    end_offset: int
    """Where the log here ended: the fetch offset."""


class ReplicaFetcher:
    """Fetches from one leader. It is a RequestManager."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        leader_id: int,
        node: Node | None,
        values: Config,
        trace: Tracer,
        on_news: Callable[[Partition], None],
        topic_metrics: BrokerTopicMetrics,
        quotas: ReplicationQuotas,
        on_all_deleted: Callable[[], None],
        on_disk_failure: Callable[[OSError], KafkaError],
        room: Room,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self.leader_id = leader_id
        self._node = node
        self._values = values
        self._trace = trace
        self._on_news = on_news
        self._topic_metrics = topic_metrics
        self._quotas = quotas
        self._on_all_deleted = on_all_deleted
        self._on_disk_failure = on_disk_failure
        self._room = room
        self.is_held_off = False
        """Whether it fetches nothing, and some of it because of the throttle."""
        self.followed: dict[TopicPartition, _Followed] = {}
        self.loud: dict[TopicPartition, _Followed] = {}
        """Those at which the next poll looks."""
        self._asked: dict[TopicPartition, _Asked] = {}
        """What the last fetch that named a partition said of it."""
        self._removed: set[TopicPartition] = set()
        """Those that are not followed any more since the last fetch."""
        self.session = FetchSessionHandler()
        self._in_flight = False
        self._resting_until = 0
        self._outbox: list[Outbound] = []

    def add(self, partition: Partition) -> None:
        key = partition.topic_partition
        self.followed[key] = self.loud[key] = _Followed(partition)
        self._removed.discard(key)

    def remove(self, partition: Partition) -> None:
        key = partition.topic_partition
        if self.followed.pop(key, None) is not None:
            self.loud.pop(key, None)
            self._removed.add(key)

    def look_at(self, partition: Partition) -> None:
        """The log has changed, and the leader is to hear of that."""
        followed = self.followed.get(partition.topic_partition)
        if followed is not None:
            self.loud[partition.topic_partition] = followed

    def set_node(self, node: Node | None) -> None:
        self._node = node

    @property
    def is_idle(self) -> bool:
        return not self.followed

    def poll(self, now: int) -> Poll:
        outbox, self._outbox = self._outbox, []
        self.is_held_off = False
        if self._in_flight or self._node is None:
            return Poll(FOREVER, outbox)
        if now < self._resting_until:
            return Poll(self._resting_until, outbox)
        awake, asleep, wake_at = self._awake(now)
        if not awake and len(self.followed) == len(asleep):
            self.is_held_off = any(followed.resting_until <= now for followed in asleep)
            return Poll(wake_at, outbox)
        self._in_flight = True
        outbox.append(
            Outbound(
                CHANNEL,
                self._node,
                self._request(awake, asleep),
                self._on_response,
                self._values[keys.REPLICA_SOCKET_TIMEOUT_MS],
            )
        )
        return Poll(FOREVER, outbox)

    def _awake(self, now: int) -> tuple[list[_Followed], list[_Followed], int]:
        """Of the loud partitions those to fetch now, and those to leave out; and when some of these may be fetched."""
        if not self.session.is_incremental:
            self.loud = dict(self.followed)
        awake, asleep, wake_at = [], [], FOREVER
        for topic_partition, followed in self.loud.items():
            if followed.resting_until > now:
                wake_at = min(wake_at, followed.resting_until)
                asleep.append(followed)
            elif self._quotas.holds_off(topic_partition, followed.lag):
                wake_at = min(wake_at, now + self._values[keys.REPLICA_FETCH_BACKOFF_MS])
                asleep.append(followed)
            else:
                awake.append(followed)
        return awake, asleep, wake_at

    def _request(self, awake: list[_Followed], asleep: list[_Followed]) -> FetchRequest:
        wanted = {}
        for followed in sorted(awake, key=lambda followed: followed.partition.key):
            key = followed.partition.topic_partition
            wanted[key], self._asked[key] = self.wanted(followed.partition), _asked(followed)
        replica = FetchRequest.ReplicaState(replica_id=self._broker_id, replica_epoch=self._broker_epoch())
        request = FetchRequest(
            replica_id=self._broker_id,
            replica_state=replica,
            max_wait_ms=self._values[keys.REPLICA_FETCH_WAIT_MAX_MS],
            min_bytes=self._values[keys.REPLICA_FETCH_MIN_BYTES],
            max_bytes=self._values[keys.REPLICA_FETCH_RESPONSE_MAX_BYTES],
            topics=[],
        )
        unwanted = sorted(self._removed.union(followed.partition.topic_partition for followed in asleep))
        for key in unwanted:
            self._asked.pop(key, None)
        if self.session.is_incremental:
            self.session.fill_changed(request, wanted, unwanted)
        else:
            self.session.fill(request, wanted)
        # The throttle may hold off one that lags before it hears anything new.
        loud = [*asleep, *(followed for followed in awake if followed.lag != 0)]
        self.loud = {followed.partition.topic_partition: followed for followed in loud}
        self._removed = set()
        return request

    def wanted(self, partition: Partition) -> Wanted:
        """What a fetch says of this partition now."""
        return Wanted(
            topic_id=partition.key.topic_id,
            fetch_offset=partition.log.log_end_offset,
            partition_max_bytes=self._values[keys.REPLICA_FETCH_MAX_BYTES],
            current_leader_epoch=partition.leader_epoch,
            last_fetched_epoch=partition.log.latest_epoch,
            log_start_offset=partition.log.log_start_offset,
        )

    # --- answers ------------------------------------------------------------------------------------------------------

    def _on_response(self, response: FetchResponse | Failure, now: int) -> None:
        self._in_flight = False
        self._room.mark("answer")
        rest_until = now + self._values[keys.REPLICA_FETCH_BACKOFF_MS]
        if isinstance(response, Failure):
            self.session.reset()
            self._resting_until = rest_until
            return
        was_incremental = self.session.is_incremental
        answers = self.session.take(response)
        if answers is None:
            if not was_incremental:  # else it is the session that was refused: fetch without it at once
                self._resting_until = rest_until
            return
        for topic_partition, answer in answers:
            followed = self.followed.get(topic_partition)
            if followed is None:
                continue
            self.loud[topic_partition] = followed
            if self._is_current(followed, self._asked.get(topic_partition)):
                self._process(followed, answer, rest_until)
            else:
                # What was asked of another log, or from elsewhere, is of no use. The leader takes it for known.
                self.session.reset()

    def _is_current(self, followed: _Followed, asked: _Asked | None) -> bool:
        """Whether the answer to this question may be used for what is followed now. Each log, and each leadership, is
        followed by an object of its own."""
        return asked is not None and asked.followed is followed and asked == _asked(followed)

    def _process(self, followed: _Followed, answer: FetchResponse.Topic.Partition, rest_until: int) -> None:
        try:
            self._take(followed, answer, rest_until)
        except OSError as error:
            self._on_disk_failure(error)
        except KafkaError as error:
            partition = followed.partition.name
            self._trace("replica_append_refused", partition=partition, reason=str(error))
            followed.resting_until = rest_until

    def _take(self, followed: _Followed, answer: FetchResponse.Topic.Partition, rest_until: int) -> None:
        partition = followed.partition
        match ErrorCode.of(answer.error_code):
            case ErrorCode.NONE:
                if answer.diverging_epoch is not None:
                    self._truncate(partition, answer.diverging_epoch)
                else:
                    self._append(partition, answer)
            case ErrorCode.OFFSET_OUT_OF_RANGE as error:
                self._trace("fetch_refused", partition=partition.name, error=error.name)
                followed.resting_until = rest_until
                self._ask_for_start(followed)
            case ErrorCode.FENCED_LEADER_EPOCH:
                followed.resting_until = FOREVER  # the metadata log brings the new epoch, and with it a new start
            case error:
                self._trace("fetch_refused", partition=partition.name, error=error.name)
                followed.resting_until = rest_until

    def _append(self, partition: Partition, answer: FetchResponse.Topic.Partition) -> None:
        records, end_before = memoryview(answer.records or b""), partition.log.log_end_offset
        high_watermark_before = partition.log.high_watermark
        count = partition.append_as_follower(records, answer.high_watermark, answer.log_start_offset)
        if partition.follow_log_start(answer.log_start_offset) and answer.log_start_offset >= end_before:
            # What was here before may be of a leader that no replica followed: no crash must bring it back.
            self._on_all_deleted()
        if count:
            self._topic_metrics.replicated(len(records), is_added=self._broker_id in partition.adding)
        if count or partition.log.high_watermark > high_watermark_before:
            self._on_news(partition)
        self._quotas.follower.record(partition.topic_partition, len(records))
        followed = self.followed.get(partition.topic_partition)
        if followed is not None:
            followed.lag = max(0, answer.high_watermark - partition.log.log_end_offset)

    @property
    def max_lag(self) -> int:
        """How many records the slowest replica has still to fetch from this leader."""
        return max((followed.lag or 0 for followed in self.followed.values()), default=0)

    def _truncate(self, partition: Partition, leaders_end: FetchResponse.Topic.Partition.EpochEndOffset) -> None:
        """The leader's log of that epoch (the largest it has up to ours) ends there: cut ours to where both agree."""
        log = partition.log
        if leaders_end.end_offset < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the leader says that the logs part, and not where")
        agreed = agreed_end(log, OffsetAndEpoch(leaders_end.end_offset, leaders_end.epoch))
        damage = log.damage_below(agreed)
        if damage is not None and damage < log.high_watermark:
            # This replica may still be elected: it keeps what is committed, and falls out of the ISR, as Kafka's does.
            raise CorruptRecordError(f"{log} cannot be truncated to {agreed}: what is committed there is damaged")
        before = log.log_end_offset
        log.truncate_to(agreed)
        self._trace("truncate", partition=partition.name, before=before, end=log.log_end_offset)

    def _ask_for_start(self, followed: _Followed) -> None:
        """The log here ends outside of the leader's: find out where the leader's begins."""
        if self._node is None:
            return
        partition = followed.partition
        topic_type = ListOffsetsRequest.Topic
        asked = topic_type.Partition(
            partition_index=partition.key.partition,
            current_leader_epoch=partition.leader_epoch,
            timestamp=EARLIEST_TIMESTAMP,
        )
        request = ListOffsetsRequest(
            replica_id=self._broker_id, topics=[topic_type(name=partition.key.topic, partitions=[asked])]
        )
        question = _asked(followed)

        def on_response(response: Any, now: int) -> None:
            now_followed = self.followed.get(partition.topic_partition)
            if not isinstance(response, ListOffsetsResponse) or now_followed is None:
                return
            if not self._is_current(now_followed, question):
                return  # it was deleted since, or moved: its folder may be another's; or its log goes on by now
            for answer in (answer for topic in response.topics for answer in topic.partitions):
                if not answer.error_code and self._is_no_start_of_ours(partition.log, answer.offset):
                    self._begin_anew(partition, answer.offset)
            followed.resting_until = now
            self._room.mark("log start")

        timeout_ms = self._values[keys.REPLICA_SOCKET_TIMEOUT_MS]
        self._outbox.append(Outbound(CHANNEL, self._node, request, on_response, timeout_ms))

    @staticmethod
    def _is_no_start_of_ours(log: UnifiedLog, leaders_start: int) -> bool:
        """Whether our log, which the leader says is outside of its own, has to begin where the leader's begins: it ends
        before that; or it ends behind the leader's, and has no record, so that no epoch tells where the logs part."""
        if log.is_empty:
            return leaders_start >= 0 and leaders_start != log.log_end_offset
        return leaders_start > log.log_end_offset

    def _begin_anew(self, partition: Partition, offset: int) -> None:
        try:
            partition.log.truncate_fully(offset)
        except OSError as error:
            self._on_disk_failure(error)
        self._trace("truncate_fully", partition=partition.name, end=offset)


def _asked(followed: _Followed) -> _Asked:
    """What a request says of this partition now."""
    return _Asked(followed, followed.partition.leader_epoch, followed.partition.log.log_end_offset)


def agreed_end(log: UnifiedLog, leaders_end: OffsetAndEpoch) -> int:
    """Up to where a follower's log may agree with its leader's, whose epoch (the largest up to the follower's) ends
    there."""
    ours = log.end_offset_for(leaders_end.epoch)
    return min(leaders_end.offset, log.log_end_offset if ours is None else ours.offset)
