"""All replicas on this broker, and what reads and writes them.

The metadata log says which partitions this broker holds and who leads each; `apply` makes it so: logs are made and
deleted, leaders begin to lead, followers begin to fetch. Producers append here (acks=all waits in a purgatory), and
consumers and followers read here (a fetch without enough data waits in another).

Some things are done from time to time: ISRs are looked through for followers that lag, high watermarks are written
down, silent producers are forgotten, and the logs are shortened and compacted.

Follows kafka.server.ReplicaManager.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import islice

from pykraft.broker.replication.alter_partition import AlterPartitionManager
from pykraft.broker.replication.fetching import (
    FetchParams,
    FetchPlace,
    FetchResult,
    LeaderHint,
    is_prefix,
    read_partition,
)
from pykraft.broker.replication.follower_state import FollowerState
from pykraft.broker.replication.offline_replicas import OfflineReplicas
from pykraft.broker.replication.partition import NO_EPOCH, IsrProposal, Partition
from pykraft.broker.replication.purgatory import Purgatory
from pykraft.broker.replication.replica_fetcher import ReplicaFetcher
from pykraft.broker.replication.replication_quotas import ReplicationQuotas
from pykraft.broker.replication.topic_metrics import BrokerTopicMetrics
from pykraft.broker.settings import config as keys
from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.settings.topic_configs import TopicConfigs
from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.broker.turns.chores import Chores
from pykraft.common.core import FOREVER, Clock, Poll, Steps, finish, merge
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.fault_handler import RETRY_AFTER_FAULT_MS, FaultHandler
from pykraft.common.metrics import Metrics
from pykraft.common.rooms import Room
from pykraft.common.settings.broker_config import LOG_CLEANER_BACKOFF_MS
from pykraft.common.settings.topic_config import FOREVER_MS
from pykraft.common.time_slice import take_steps
from pykraft.common.timer import Timer
from pykraft.common.trace import Tracer
from pykraft.common.types import ZERO_UUID, Node, TopicIdPartition, TopicPartition, Uuid
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, TOPIC_RESOURCE, ConfigResource, MetadataImage, TopicImage
from pykraft.records.batch import RecordBatch
from pykraft.storage.answers import AppendInfo
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin
from pykraft.storage.upkeep.log_directories import LogDirectories
from pykraft.storage.validator import UnpackBudget, validation
from pykraft.storage.verification_state import NO_CHECK, AppendCheck

_LOOK_FOR_DELETED_MS = 1000
_MADE_AT_ONCE = 200
"""After so many new logs their marks are written down, with those of all others, and they are served."""


class ReplicaManager:
    """The partitions of this broker, by name. A topic that is deleted and made again has the same name: what was asked
    for earlier, or waits, also names the topic's id."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        topic_configs: TopicConfigs,
        logs: LogDirectories,
        timer: Timer,
        clock: Clock,
        metrics: Metrics,
        trace: Tracer,
        faults: FaultHandler,
        broker_epoch: Callable[[], int],
        isr_changes: ControllerChannel,
        quotas: ReplicationQuotas,
        chores: Chores,
    ) -> None:
        """`isr_changes` is the way to the controller for changes of ISRs."""
        self._config = config
        self._topic_configs = topic_configs
        self._values = config.values
        self.broker_id = config.node_id
        self._logs = logs
        self._timer = timer
        self._clock = clock
        self._trace = trace
        self._faults = faults
        self._broker_epoch = broker_epoch
        self._alter_partition = AlterPartitionManager(self.broker_id, broker_epoch, isr_changes, self._wake, timer)
        self.partitions: dict[TopicPartition, Partition] = {}
        self._to_make: dict[TopicPartition, TopicIdPartition] = {}
        """Partitions whose logs are still to be made, in this order, or are being made."""
        self._making: Steps[None] | None = None
        self.image: MetadataImage = EMPTY_IMAGE
        self.room = Room("replicas")
        self.offline = OfflineReplicas(logs, trace, lambda: self.room.mark("failed directory"))
        self.on_disk_failure = self.offline.on_disk_failure
        self.on_placed: Callable[[TopicIdPartition], None] = lambda key: None
        self.produces = Purgatory(timer, faults)
        self.fetches = Purgatory(timer, faults)
        self.deletes = Purgatory(timer, faults)
        self._watched: dict[str, Callable[[int], None]] = {}
        self.fetchers: dict[int, ReplicaFetcher] = {}
        """By leader: from each of them the partitions are fetched that it leads."""
        self._isr_shrinks = metrics.meter("ReplicaManager", "IsrShrinksPerSec")
        self._isr_expands = metrics.meter("ReplicaManager", "IsrExpandsPerSec")
        self.topic_metrics = BrokerTopicMetrics(metrics)
        self.quotas = quotas
        self._chores = chores

    def start(self, now: int) -> None:
        """Begin what is done from time to time. Not before the topics' settings are known: by the defaults a log loses
        what is older than a week."""
        every, values, logs = self._chores.every, self._values, self._logs
        every(max(1, values[keys.REPLICA_LAG_TIME_MAX_MS] // 2), self._shrink_isrs, now)
        every(values[keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS], lambda _: logs.checkpoint(), now)
        every(values[keys.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS], self._forget_producers, now)
        self._care_for_logs(now)

    def _care_for_logs(self, now: int) -> None:
        """Retention, compaction, and the removal of what was deleted."""
        every, values, logs = self._chores.every, self._values, self._logs
        delay_ms = values[keys.LOG_INITIAL_TASK_DELAY_MS]
        every(values[keys.LOG_RETENTION_CHECK_INTERVAL_MS], self._delete_old_segments, now, delay_ms)
        every(_LOOK_FOR_DELETED_MS, lambda _: logs.empty_trash(), now)
        flush_ms = values[keys.LOG_FLUSH_SCHEDULER_INTERVAL_MS]
        if flush_ms < FOREVER_MS:
            every(max(1, flush_ms), lambda _: logs.flush_old(), now, delay_ms)
        if values[keys.LOG_CLEANER_ENABLE]:
            every(max(1, values[LOG_CLEANER_BACKOFF_MS]), lambda _: logs.compact(), now)

    def _delete_old_segments(self, now: int) -> None:
        if self._logs.delete_old_segments():
            self._timer.at(now + 1, self._delete_old_segments)

    # --- finding ------------------------------------------------------------------------------------------------------

    def partition(self, topic_partition: TopicPartition, topic_id: Uuid = ZERO_UUID) -> Partition:
        """The replica here; KafkaError if there is none, if its disk has failed, or if it is of another topic than the
        one with this id (zero: of whichever has the name)."""
        if self._logs.failures:
            self.offline.check(topic_partition)
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            if topic_id not in (ZERO_UUID, partition.key.topic_id):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"{topic_partition} has another topic id than {topic_id}")
            return partition
        topic = self.image.topic_named(topic_partition.topic)
        if topic is not None and topic_partition.partition in topic.partitions:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker holds no replica of {topic_partition}")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic_partition}")

    def leader_hint(self, topic_partition: TopicPartition) -> LeaderHint | None:
        """The leader of the partition, as far as this broker knows."""
        topic = self.image.topic_named(topic_partition.topic)
        known = topic.partitions.get(topic_partition.partition) if topic is not None else None
        return LeaderHint(known.leader, known.leader_epoch) if known is not None and known.has_leader else None

    # --- metadata -----------------------------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage, now: int) -> Steps[None]:
        """The cluster has changed. Pauses after a partition; requests for one whose turn has not come are served, or
        refused, as before the change."""
        self.image = image
        removed = [topic for _, topic in sorted(delta.removed_topics.items())]
        yield from self._drop([TopicPartition(topic.name, number) for topic in removed for number in topic.partitions])
        # An ISR and the min.insync.replicas of another moment might let a high watermark rise too far: it may only once
        # all of both is known. The settings are known first, and where there are any, nothing comes in between.
        set_anew = self._apply_configs(delta.touched_configs)
        touched = self._apply_topics(delta, image, now)
        if set_anew:
            finish(touched)
        else:
            yield from touched
        for partition in set_anew:
            if partition.is_leader and partition.advance_high_watermark(now):
                self._wake(partition)  # fewer replicas may be demanded now
        if delta.touched_brokers:
            for fetcher in self.fetchers.values():
                fetcher.set_node(self._node(fetcher.leader_id))
                self.room.mark("followed")
            for partition in list(self.partitions.values()):
                partition.set_image(image)
                self.deletes.check(partition.topic_partition)  # a dead follower is not waited for
                yield

    def set_strays_aside(self) -> None:
        """Keep, but no longer serve, the logs of partitions that are not this broker's: deleted or moved while it was
        away, or unknown to these metadata for a reason that this broker cannot know."""
        strays = self._logs.set_aside(sorted(set(self._logs.logs) - set(self.partitions)))
        if strays:
            self._trace("strays", directories=strays)

    def _apply_topics(self, delta: MetadataDelta, image: MetadataImage, now: int) -> Steps[None]:
        for topic_id in sorted(delta.touched_topics):
            topic = image.topics.get(topic_id)
            if topic is not None:
                yield from self._apply_topic(topic, delta.touched_partitions(topic), now)

    def _apply_topic(self, topic: TopicImage, numbers: Sequence[int], now: int) -> Steps[None]:
        """These partitions of the topic are new, or have changed."""
        keys = [TopicIdPartition(topic.topic_id, topic.name, number) for number in numbers]
        known = [(key, self.broker_id in topic.partitions[key.partition].replicas) for key in keys]
        yield from self._drop([key.topic_partition for key, is_held in known if not is_held])
        for key in (key for key, is_held in known if is_held):
            partition = self.partitions.get(key.topic_partition)
            if partition is not None and partition.key != key:
                yield from self._drop([key.topic_partition])
                partition = None
            if partition is None and self._logs.failures and self.offline.holds(key):
                self.offline.keys[key.topic_partition] = key
                continue
            is_being_made = self._to_make.get(key.topic_partition) == key
            if partition is None and key.topic_partition in self._logs.logs and not is_being_made:
                partition = self._make(key)
            if partition is not None:
                self._update(partition, now)
            else:
                self._to_make[key.topic_partition] = key
                self.room.mark("log to make")
            yield

    def _make_some(self, now: int) -> bool:
        """Make logs that are not there yet, for a slice; whether all are made."""
        steps, sent = self._making, None if self._making is None else now
        if steps is None and self._to_make:
            steps = self._make_logs(list(islice(self._to_make.values(), _MADE_AT_ONCE)))
        self._making = None
        if steps is not None:
            self._chores.time_slice.begin()
            is_done, _ = take_steps(steps, sent, self._chores.time_slice, now)
            if not is_done:
                self._making = steps
        return not self._to_make

    def _make_logs(self, keys: Sequence[TopicIdPartition]) -> Steps[None]:
        """Each log costs the disk some milliseconds, and heartbeats must not wait for thousands of them. Until its log
        and its marks are on the disk, a partition is not led here. Meanwhile it may be deleted, or moved away."""
        yield from self._logs.create_in_steps(keys, self._is_to_be_made)
        for key in keys:
            if self._is_to_be_made(key) and key.topic_partition in self._logs.logs:
                self._to_make.pop(key.topic_partition, None)
                self._update(self._make(key), self._trace.now)
                yield

    def _is_to_be_made(self, key: TopicIdPartition) -> bool:
        """Whether it still is: the newest image may say otherwise, though its turn to be dropped has not come."""
        known = self.image.partition(key.topic_id, key.partition)
        return known is not None and self.broker_id in known.replicas

    def _update(self, partition: Partition, now: int) -> None:
        """Let the partition be as the image says."""
        key = partition.key
        if partition.update(self.image.topics[key.topic_id].partitions[key.partition], self.image, now):
            self._on_leadership(partition)
        else:
            self._wake(partition)  # a smaller ISR may have let the high watermark rise

    def _make(self, key: TopicIdPartition) -> Partition:
        log = self._logs.get_or_create(key.topic_partition, key.topic_id)
        max_lag_ms = self._values[keys.REPLICA_LAG_TIME_MAX_MS]
        partition = Partition(self.broker_id, key, log, max_lag_ms, self._trace)
        self.use_log(partition, log)
        self.quotas.set_topic(key.topic, log.config)
        self.partitions[key.topic_partition] = partition
        self.on_placed(key)
        return partition

    def use_log(self, partition: Partition, log: UnifiedLog) -> None:
        """The partition's log is this one. It may have been opened with older settings."""
        log.config = self._topic_configs.config_of(partition.key.topic)
        log.on_log_start = partial(self._on_log_start, partition)
        partition.log = log

    def follow_anew(self, partition: Partition) -> None:
        """Its log is another one: what was fetched for the old one is of no use."""
        partition.end_quiet()
        self._on_leadership(partition)

    def _drop(self, topic_partitions: Collection[TopicPartition]) -> Steps[None]:
        """These are not this broker's any more. Pauses after each."""
        if not topic_partitions:
            return
        for topic_partition in topic_partitions:
            self._to_make.pop(topic_partition, None)
            self.offline.keys.pop(topic_partition, None)
            self._serve_no_longer(topic_partition)
            yield
        for topic in sorted({each.topic for each in topic_partitions} - {each.topic for each in self.partitions}):
            self.topic_metrics.forget(topic)
            self.quotas.forget(topic)
        yield from self._logs.delete_in_steps([each for each in topic_partitions if each in self._logs.logs])

    def _serve_no_longer(self, topic_partition: TopicPartition) -> None:
        partition = self.partitions.pop(topic_partition, None)
        if partition is not None:
            self._stop_fetching(partition)
            partition.leader_id = -1
            self._wake(partition)

    def _apply_configs(self, touched: Collection[ConfigResource]) -> list[Partition]:
        """Settings have changed: from now on they hold for each log that they are about. The partitions that have new
        ones."""
        of_all = any(map(self._topic_configs.is_of_all_topics, touched))
        if of_all:
            self._topic_configs.forget()
        topics = sorted(resource.name for resource in touched if resource.kind == TOPIC_RESOURCE)
        touched_here = list(self.partitions) if of_all else self._partitions_of(topics)
        set_anew = [self.partitions[topic_partition] for topic_partition in touched_here]
        for partition in set_anew:
            partition.set_config(self._topic_configs.config_of(partition.key.topic))
            self.quotas.set_topic(partition.key.topic, partition.log.config)
        return set_anew

    def _partitions_of(self, topics: Sequence[str]) -> list[TopicPartition]:
        """What is held here of these topics."""
        found = [topic for topic in map(self.image.topic_named, topics) if topic is not None]
        named = [TopicPartition(topic.name, number) for topic in found for number in sorted(topic.partitions)]
        return [topic_partition for topic_partition in named if topic_partition in self.partitions]

    def _on_leadership(self, partition: Partition) -> None:
        """Leader or epoch changed: fetch from the new leader, if there is one; requests that wait here are tried
        again."""
        self._stop_fetching(partition)
        if not partition.is_leader and partition.leader_id >= 0:
            fetcher = self.fetchers.get(partition.leader_id)
            if fetcher is None:
                fetcher = self.fetchers[partition.leader_id] = self._fetcher(partition.leader_id)
            fetcher.add(partition)
        self._wake(partition)

    def _fetcher(self, leader_id: int) -> ReplicaFetcher:
        return ReplicaFetcher(
            broker_id=self.broker_id,
            broker_epoch=self._broker_epoch,
            leader_id=leader_id,
            node=self._node(leader_id),
            values=self._values,
            trace=self._trace,
            on_news=self._wake,
            topic_metrics=self.topic_metrics,
            quotas=self.quotas,
            on_all_deleted=self.write_log_starts,
            on_disk_failure=self.on_disk_failure,
            room=self.room,
        )

    def _stop_fetching(self, partition: Partition) -> None:
        self.room.mark("followed")
        for leader_id in sorted(self.fetchers):
            self.fetchers[leader_id].remove(partition)
            if self.fetchers[leader_id].is_idle:
                del self.fetchers[leader_id]

    def _node(self, broker_id: int) -> Node | None:
        """Where this broker's replicas are fetched from."""
        broker = self.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._config.inter_broker_listener)
        return None if endpoint is None else Node(broker_id, endpoint.host, endpoint.port)

    # --- writing ------------------------------------------------------------------------------------------------------

    def produce(
        self,
        topic_partition: TopicPartition,
        batch: RecordBatch,
        now: int,
        *,
        needs_all: bool,
        budget: UnpackBudget,
        topic_id: Uuid = ZERO_UUID,
        check: AppendCheck = NO_CHECK,
    ) -> AppendInfo | Steps[AppendInfo]:
        """Check a client's batch and append it here, where its partition is led; in steps if the check takes long. With
        `needs_all` it counts only once all in-sync replicas have it, so there must be enough of them. With a `topic_id`
        it is for that topic, and not for a later one of its name. KafkaError says why it was not appended."""
        partition = self.partition(topic_partition, topic_id)
        partition.check_may_append(needs_all)
        checking = validation(batch, partition.log.rules, self._clock.time_ms(), budget)
        try:
            next(checking)
        except StopIteration as end:
            return self._append(partition, end.value, now, AppendOrigin.CLIENT, check)
        return self._append_when_checked(partition, checking, needs_all, check)

    def _append_when_checked(
        self, partition: Partition, checking: Steps[RecordBatch], needs_all: bool, check: AppendCheck
    ) -> Steps[AppendInfo]:
        leader_epoch = partition.leader_epoch
        yield
        batch = yield from checking
        # Between the steps the partition may have moved, lost replicas, or made room for another of its name.
        now_here = self.partition(partition.topic_partition, partition.key.topic_id)
        if now_here is not partition or partition.leader_epoch != leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leadership changed while the batch was checked")
        partition.check_may_append(needs_all)
        return self._append(partition, batch, self._trace.now, AppendOrigin.CLIENT, check)

    def append(
        self,
        topic_partition: TopicPartition,
        batch: RecordBatch,
        now: int,
        *,
        needs_all: bool,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        check: AppendCheck = NO_CHECK,
        topic_id: Uuid = ZERO_UUID,
    ) -> AppendInfo:
        """Append a batch of a client or a coordinator, as `produce` does, without checking what was checked before."""
        partition = self.partition(topic_partition, topic_id)
        partition.check_may_append(needs_all)
        return self._append(partition, batch, now, origin, check)

    def _append(
        self,
        partition: Partition,
        batch: RecordBatch,
        now: int,
        origin: AppendOrigin,
        check: AppendCheck,
    ) -> AppendInfo:
        try:
            info = partition.append_as_leader(batch, now, origin, check)
        except OSError as error:
            raise self.on_disk_failure(error) from error
        self._trace("append", partition=partition.name, end=partition.log.log_end_offset)
        self.topic_metrics.produced(partition.key.topic, info.last_offset - info.first_offset + 1, batch.size)
        self._wake(partition)
        return info

    def watch(self, topic: str, on_news: Callable[[int], None]) -> None:
        """Call ``on_news(partition)`` when something has happened to a partition of this topic, as to those that wait
        for it. In the middle of an append, perhaps: it may only note that."""
        self._watched[topic] = on_news

    def _wake(self, partition: Partition) -> None:
        """Something happened to the partition: requests that wait for it are tried again."""
        if partition.followers:
            partition.end_quiet()
        on_news = self._watched.get(partition.key.topic)
        if on_news is not None:
            on_news(partition.key.partition)
        self.produces.check(partition.topic_partition)
        self.fetches.check(partition.topic_partition)
        self.deletes.check(partition.topic_partition)

    def delete_records(self, topic_partition: TopicPartition, offset: int) -> int:
        """Delete the records before `offset` (-1: the high watermark) as the partition's leader; returns the new log
        start offset. The followers' logs follow."""
        partition = self.partition(topic_partition)
        try:
            wanted = partition.delete_records(offset)
        except OSError as error:
            raise self.on_disk_failure(error) from error
        self._trace("log_start", partition=str(topic_partition), offset=partition.log.log_start_offset)
        return wanted

    def _on_log_start(self, partition: Partition) -> None:
        """A log begins later now: its followers, or its leader, are to hear of that. In the middle of a deletion."""
        partition.end_quiet()
        fetcher = self.fetchers.get(partition.leader_id)
        if fetcher is not None:
            fetcher.look_at(partition)

    def write_log_starts(self) -> None:
        """Write down where the logs begin; KafkaError if the disk fails."""
        try:
            self._logs.write_log_starts()
        except OSError as error:
            raise self.on_disk_failure(error) from error

    # --- reading ------------------------------------------------------------------------------------------------------

    def is_adding(self, topic_partition: TopicPartition, replica: int) -> bool:
        """Whether a reassignment adds this replica to a partition that is led here."""
        partition = self.partitions.get(topic_partition)
        return partition is not None and replica in partition.adding

    def readable(self, place: FetchPlace, needs_leader: bool = True) -> Partition:
        """The partition that a fetch asks for; KafkaError unless it is in the epoch that the reader knows, and led here
        if the reader needs the leader."""
        if place.refused is not None:
            raise KafkaError(place.refused)
        partition = self.partition(place.topic_partition)
        if place.topic_id not in (ZERO_UUID, partition.key.topic_id):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if needs_leader:
            partition.check_leader(place.current_leader_epoch)
        else:
            partition.check_epoch(place.current_leader_epoch)
        return partition

    def held(self, place: FetchPlace) -> Partition | None:
        """The replica here of the very topic that a fetch asks for."""
        partition = self.partitions.get(place.topic_partition)
        return partition if partition is not None and partition.key.topic_id == place.topic_id else None

    def read(self, place: FetchPlace, params: FetchParams, max_bytes: int, at_least_one: bool) -> FetchResult:
        """What a partition gives now, `max_bytes` at most; with `at_least_one` its first batch comes whole."""
        try:
            return read_partition(self.readable(place, params.needs_leader), place, params, max_bytes, at_least_one)
        except KafkaError as error:
            return FetchResult(place, error.code)
        except OSError as error:
            return FetchResult(place, self.on_disk_failure(error).code)

    # --- replication, as the leader -----------------------------------------------------------------------------------

    def record_fetch(self, place: FetchPlace, replica: int, broker_epoch: int, now: int) -> FetchPlace:
        """A follower's fetch is the news that it has everything before its offset. Returns the place, refused if the
        follower is no replica or its process is gone."""
        partition = self._prefixed_by(place)
        if partition is None:
            return place
        if replica not in partition.followers and place.current_leader_epoch != NO_EPOCH:
            # The follower may have read first in the metadata log that it is one. It asks again.
            return place._replace(refused=ErrorCode.UNKNOWN_LEADER_EPOCH)
        try:
            rose = partition.record_fetch(replica, place.offset, broker_epoch, now, place.log_start_offset)
        except KafkaError as error:
            return place._replace(refused=error.code)
        self._propose(partition.propose_expansion(replica), now)
        if rose:
            self._wake(partition)
        else:
            self.deletes.check(partition.topic_partition)
        return place

    def follower_without_news(self, result: FetchResult, replica: int) -> FollowerState | None:
        """The follower, if it knows by this result all that there is to know of the partition, and will hear the same
        until something happens there."""
        place, partition = result.place, self.held(result.place)
        is_told_all = result.high_watermark == place.offset and not result.size and not result.is_news
        if partition is None or place.refused is not None or not is_told_all:
            return None
        return partition.follower_without_news(
            replica, place.offset, place.current_leader_epoch, result.log_start_offset
        )

    def note_told(self, results: Sequence[FetchResult], replica: int) -> None:
        """A follower is sent this answer, and with it the high watermarks."""
        for result in results:
            partition = self.held(result.place)
            follower = None if partition is None else partition.followers.get(replica)
            if follower is not None and result.error is ErrorCode.NONE:
                follower.told_high_watermark = result.high_watermark

    def _prefixed_by(self, place: FetchPlace) -> Partition | None:
        """The partition led here whose log the reader's log is a prefix of; None for all else, which a read answers."""
        try:
            partition = self.readable(place)
            return partition if is_prefix(partition, place) else None
        except KafkaError:
            return None

    def _shrink_isrs(self, now: int) -> Steps[None]:
        for partition in list(self.partitions.values()):
            if partition.is_leader:
                self._propose(partition.propose_shrinking(now), now)
            now = yield

    def _propose(self, proposal: IsrProposal | None, now: int) -> None:
        if proposal is not None:
            grows = len(proposal.isr) > len(proposal.partition.isr_state.isr)
            (self._isr_expands if grows else self._isr_shrinks).mark()
            self._alter_partition.submit(proposal, now)

    # --- one step -----------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        """Fetch what this broker follows; make some of the logs that are still to be made."""
        if self.offline.is_due:
            self.offline.take_out(self.partitions, self._serve_no_longer)
        polls = [] if self._make_some(now) else [Poll(now)]
        if self.fetchers:
            polls += [self._poll_fetcher(leader_id, now) for leader_id in sorted(self.fetchers)]
        # When the average falls below the throttle, only the clock and the settings tell: no deadline does.
        self.room.stay_awake(any(fetcher.is_held_off for fetcher in self.fetchers.values()))
        return merge(polls) if polls else Poll(FOREVER)

    def _poll_fetcher(self, leader_id: int, now: int) -> Poll:
        """What one leader is asked. A fault there does not keep this broker from following the others."""
        try:
            return self.fetchers[leader_id].poll(now)
        except Exception as error:
            self._faults.handle_fault("replica-fetcher", error, leader=leader_id)
            return Poll(now + RETRY_AFTER_FAULT_MS)

    def _forget_producers(self, _: int) -> Steps[None]:
        now_ms = self._clock.time_ms()
        for partition in list(self.partitions.values()):
            partition.log.producer_state.remove_expired(now_ms)
            yield
