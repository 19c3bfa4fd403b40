"""The group coordinator on this broker: its runtime, on the partitions of ``__consumer_offsets`` that are led here.

This is where the coordinator, which knows no partition, meets the replicas, which know no group. The `InternalLog` is
the runtime's port to the partitions. When the metadata make this broker the leader of one, its shard is loaded; when
they make another one the leader, it is dropped. A response waits until all in-sync replicas have its records, and as
long as these are fewer than ``min.insync.replicas``. So an answer survives the loss of this broker. Records are
appended meanwhile (Kafka's coordinator appends with acks=1), and may count after their request has failed.

The topic is created when a client first looks for a coordinator (`broker.requests.cluster.cluster`).

Follows kafka.server.BrokerServer, org.apache.kafka.coordinator.group.GroupCoordinatorService and
kafka.coordinator.group.CoordinatorPartitionWriter.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from pykraft.broker.coordination.group_topics import ImageTopics, topic_changes
from pykraft.broker.coordination.transaction_verification import Transaction, TransactionVerification, Verified
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.common.core import Clock, Promise, Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.rooms import Room
from pykraft.common.settings.config import Config
from pykraft.common.settings.topic_config import MAX_MESSAGE_BYTES
from pykraft.common.time_slice import TimeSlice
from pykraft.common.timer import Timer
from pykraft.common.trace import Tracer
from pykraft.common.types import TopicPartition, Uuid
from pykraft.controller.features import GROUP_VERSION
from pykraft.coordinator.group import config as keys
from pykraft.coordinator.group.config import ConsumerGroupConfig, consumer_group_config
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.group.topics import topic_hash
from pykraft.coordinator.result import (
    CoordinatorResult,
    CoordinatorTimer,
    TransactionalWriter,
    TransactionEnd,
    seen_by_client,
)
from pykraft.coordinator.runtime import CoordinatorRuntime, partition_for
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import MetadataImage, TopicImage
from pykraft.protocol.messages.admin import CreateTopicsRequest
from pykraft.protocol.messages.configs import ResourceType
from pykraft.protocol.messages.coordinators import GROUP_RECORDS
from pykraft.records.batch import NO_SEQUENCE, RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.markers import Marker, end_transaction_marker
from pykraft.storage.answers import AppendInfo, Isolation
from pykraft.storage.producer_state import AppendOrigin
from pykraft.storage.verification_state import NO_CHECK, AppendCheck, Verification

GROUP_TOPIC = "__consumer_offsets"
_LOAD_BYTES = 1 << 20
_LONGEST_NAME = (1 << 15) - 1
"""In bytes: the length of a string in a record has 16 bits, in a request it may have more."""
_FIRST_SEQUENCE = 0
"""Kafka's group coordinator writes it, though its batches have no producer id."""
_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""With these the group coordinator refuses a marker for now. The sender of markers expects a leader's errors."""
Plan = Callable[[GroupShard], CoordinatorResult[Any]]
_GROUPS_A_TURN = 100
"""About so many groups hear of changed topics in one turn."""
DeletedTopics = Mapping[str, Collection[Uuid]]
"""The ids of deleted topics, by name."""
Look = Callable[[GroupShard, GroupShard], Any]
"""Finds something in what is committed; the second shard is the newest state."""


def append_marker(
    replicas: ReplicaManager,
    place: TopicPartition,
    end: TransactionEnd,
    time_ms: int,
    now: int,
    *,
    needs_all: bool = True,
) -> AppendInfo:
    """Append the marker that ends a transaction to one partition that is led here. With `needs_all` enough replicas
    must be in sync. KafkaError if it is not possible, or if the marker is late or a zombie's."""
    marker = Marker(end.committed, end.coordinator_epoch)
    data = end_transaction_marker(end.producer_id, end.producer_epoch, marker, time_ms)
    check = AppendCheck(transaction_version=end.transaction_version)
    batch = RecordBatch(memoryview(data))
    return replicas.append(place, batch, now, needs_all=needs_all, origin=AppendOrigin.COORDINATOR, check=check)


def check_producer(producer_id: int, producer_epoch: int) -> None:
    """KafkaError unless a batch of a transaction can be this producer's."""
    if producer_id < 0 or producer_epoch < 0:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"producer id {producer_id} with epoch {producer_epoch}: a transaction's batch needs both, from 0 on",
        )


class InternalLog:
    """The partitions of an internal topic on this broker. It is the runtime's PartitionLog."""

    def __init__(
        self,
        topic: str,
        replicas: ReplicaManager,
        clock: Clock,
        base_sequence: int = _FIRST_SEQUENCE,
        *,
        needs_all: bool = True,
        needs_verification: Callable[[], bool] = lambda: False,
    ) -> None:
        """`base_sequence` is that of batches without a producer id. With `needs_all` an append is refused while too few
        replicas are in sync; without, it only takes longer until it is committed. `needs_verification` says whether the
        log refuses to begin a transaction that was not verified."""
        self._topic = topic
        self._replicas = replicas
        self._clock = clock
        self._base_sequence = base_sequence
        self._needs_all = needs_all
        self._needs_verification = needs_verification

    def append(
        self,
        partition: int,
        records: Sequence[tuple[bytes, bytes | None]],
        now: int,
        writer: TransactionalWriter | None = None,
    ) -> int:
        place = TopicPartition(self._topic, partition)
        builder = RecordBatchBuilder(base_sequence=self._base_sequence)
        check = NO_CHECK
        if writer is not None:
            check_producer(writer.producer_id, writer.producer_epoch)
            builder = RecordBatchBuilder(
                producer_id=writer.producer_id,
                producer_epoch=writer.producer_epoch,
                base_sequence=_FIRST_SEQUENCE,
                transactional=True,
            )
            assert writer.verification is None or isinstance(writer.verification, Verification)
            check = AppendCheck(writer.verification, needs_verification=self._needs_verification())
        time_ms = self._clock.time_ms()
        for key, value in records:
            builder.append(time_ms, key, value)
        most = self.max_batch_bytes(partition)
        if builder.size > most:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{builder.size} bytes of records; {most} are allowed")
        batch = RecordBatch(memoryview(builder.build()))
        origin, needs_all = AppendOrigin.COORDINATOR, self._needs_all
        info = self._replicas.append(place, batch, now, needs_all=needs_all, origin=origin, check=check)
        return info.last_offset + 1

    def append_marker(self, partition: int, end: TransactionEnd, now: int) -> int:
        place = TopicPartition(self._topic, partition)
        time_ms, needs_all = self._clock.time_ms(), self._needs_all
        return append_marker(self._replicas, place, end, time_ms, now, needs_all=needs_all).last_offset + 1

    def max_batch_bytes(self, partition: int) -> int:
        most: int = self._replicas.partition(TopicPartition(self._topic, partition)).log.config[MAX_MESSAGE_BYTES]
        return most

    def high_watermark(self, partition: int) -> int:
        return self._replicas.partition(TopicPartition(self._topic, partition)).log.high_watermark

    def end_offset(self, partition: int) -> int:
        return self._replicas.partition(TopicPartition(self._topic, partition)).log.log_end_offset

    def batches(self, partition: int, offset: int = 0) -> Iterator[RecordBatch]:
        log = self._replicas.partition(TopicPartition(self._topic, partition)).log
        offset = max(offset, log.log_start_offset)
        while offset < log.log_end_offset:
            try:
                region = log.read(offset, _LOAD_BYTES, Isolation.LOG_END, at_least_one=True).records
            except OSError as error:
                raise self._replicas.on_disk_failure(error) from error
            data = region if isinstance(region, bytes) else region.read(0, len(region))
            if not data:
                return
            for batch in batches(memoryview(data)):
                yield batch
                offset = batch.next_offset


def follow_leaders(
    runtime: CoordinatorRuntime[Any], topic: TopicImage | None, replicas: ReplicaManager, now: int
) -> bool:
    """Load the shards that are led here by now, and drop those that are not; False if a log is not made yet."""
    led: set[int] = set()
    is_complete = True
    for number, registration in sorted(topic.partitions.items()) if topic is not None else ():
        assert topic is not None
        if registration.leader != replicas.broker_id:
            continue
        partition = replicas.partitions.get(TopicPartition(topic.name, number))
        if partition is None or not partition.is_leader:
            is_complete = False
            continue
        led.add(number)
        runtime.lead(number, partition.leader_epoch, now)
    for number in runtime.partitions:
        if number not in led:
            runtime.resign(number)
    return is_complete


class GroupCoordinator:
    """The groups that this broker coordinates."""

    def __init__(
        self,
        *,
        config: Config,
        replicas: ReplicaManager,
        verification: TransactionVerification,
        timer: Timer,
        clock: Clock,
        random: Random,
        trace: Tracer,
        time_slice: TimeSlice,
        faults: FaultHandler | None = None,
    ) -> None:
        self.config = config
        self._time_slice = time_slice
        self._replicas = replicas
        self._verification = verification
        self._trace = trace
        self._topics = ImageTopics(replicas.image)
        self._clock = clock
        self._random = random
        self._usual_config = consumer_group_config(config, {})
        """Of a consumer group without settings of its own."""
        self.room = Room("groups")
        self._is_stale = False
        """Which partitions are led here may have changed."""
        self._deleted: dict[int, list[DeletedTopics]] = {}
        """By partition whose shard is being loaded: topics that were deleted meanwhile. What the load finds of them was
        committed before, even if there is a new topic of that name by now."""
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            name=GROUP_TOPIC,
            types=GROUP_RECORDS,
            log=InternalLog(
                GROUP_TOPIC,
                replicas,
                clock,
                needs_all=False,  # as in Kafka: the response waits for the replicas that are missing
                needs_verification=lambda: verification.is_required,
            ),
            make_shard=self.make_shard,
            timer=timer,
            trace=trace,
            commit_timeout_ms=config[keys.OFFSETS_COMMIT_TIMEOUT_MS],
            append_linger_ms=config[keys.GROUP_COORDINATOR_APPEND_LINGER_MS],
            has_readers=True,
            faults=faults,
            room=self.room,
        )
        replicas.watch(GROUP_TOPIC, self._on_news)

    def make_shard(self, partition: int, timer: CoordinatorTimer) -> GroupShard:
        """An empty shard."""
        return GroupShard(
            timer=timer,
            config=self.config,
            topics=self._topics,
            config_of=self._config_of,
            random=self._random,
            time_ms=self._clock.time_ms,
            time_slice=self._time_slice,
        )

    # --- the metadata and the clock -----------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage, now: int) -> Steps[None]:
        """The cluster has changed; the replicas know it already. Pauses after a part of a shard: of thousands of
        deleted topics every group may have offsets. Until the last step no other change is published, so a topic of
        the same name cannot be there yet."""
        self._topics.image = image
        self._is_stale = True
        self.room.mark("metadata")
        deleted: dict[str, set[Uuid]] = {}
        for topic_id, topic in delta.removed_topics.items():
            deleted.setdefault(topic.name, set()).add(topic_id)
        if GROUP_TOPIC in deleted:  # the next one has other groups, and epochs from 0 on
            for partition in self.runtime.partitions:
                self.runtime.resign(partition)
        if deleted:
            yield from self._forget_topics(deleted)
        created, changed = topic_changes(delta, image)
        if created or changed:
            yield from self._tell_groups(created, changed)

    def _tell_groups(self, created: Collection[str], changed: Collection[str]) -> Steps[None]:
        """Let the groups that subscribe to these topics look at them."""
        told = 0
        for partition in self.runtime.active_partitions():
            if told >= _GROUPS_A_TURN:
                told = 0
                yield
            shard = self._shard(partition)
            if shard is not None:
                shard.consumer.on_metadata_changed(created, changed)
                told += len(shard.groups)

    def _on_news(self, partition: int) -> None:
        """Something has happened to a partition of the internal topic: its log may be made by now."""
        self.runtime.note_high_watermark(partition)
        if self._is_stale:
            self.room.mark("log made")

    def _forget_topics(self, topics: DeletedTopics) -> Steps[None]:
        """Forget the offsets of deleted topics. If this broker dies before, they stay, as in Kafka
        (GroupCoordinatorService.handleTopicsDeletion): a load does not ask which topics there are."""
        active = self.runtime.active_partitions()
        for partition in sorted(set(self.runtime.partitions) - set(active)):
            self._deleted.setdefault(partition, []).append(topics)
        for partition in active:
            yield from self._forget_in(partition, topics)

    def _forget_in(self, partition: int, topics: DeletedTopics) -> Steps[None]:
        """The same in one shard, some groups at a time. If the shard is loaded again meanwhile, what is left waits."""
        shard = self._shard(partition)
        for groups in shard.groups_in_turns() if shard is not None else ():
            if self._shard(partition) is not shard:
                shard = None
                break
            self._forget(partition, topics, self._trace.now, groups)
            yield
        if shard is None and partition in self.runtime.partitions:
            self._deleted.setdefault(partition, []).append(topics)

    def _shard(self, partition: int) -> GroupShard | None:
        """The shard of this partition, if it is here and can be asked."""
        try:
            return self.runtime.active(partition)
        except KafkaError:
            return None

    def _forget_deleted(self, now: int) -> None:
        """Forget in the shards that are loaded by now what was deleted while they were not: at once, before a client
        commits offsets of a new topic by that name."""
        active = self.runtime.active_partitions()
        for partition in [each for each in sorted(self._deleted) if each in active]:
            topics: dict[str, set[Uuid]] = {}
            for deleted in self._deleted.pop(partition):
                for name, topic_ids in deleted.items():
                    topics.setdefault(name, set()).update(topic_ids)
            self._forget(partition, topics, now)

    def _forget(self, partition: int, topics: DeletedTopics, now: int, groups: Sequence[str] | None = None) -> None:
        """Forget what these groups, or all, have committed of the topics. What was gathered and not appended is lost if
        the shard is loaded again: then that is done once more. What the log refuses stays, as in Kafka."""

        def on_written(result: object) -> None:
            if isinstance(result, KafkaError) and result.code is ErrorCode.NOT_COORDINATOR:
                self._deleted.setdefault(partition, []).append(topics)
                self.room.mark("news")

        plan = partial(GroupShard.forget_topics, topics=topics, groups=groups)
        self.runtime.write(partition, plan, now).then(on_written)

    def poll(self, now: int) -> int:
        """Take over and give up partitions, load, write what was gathered, answer what is committed; when to be called
        again."""
        if self._is_stale:
            topic = self._topics.image.topic_named(GROUP_TOPIC)
            self._is_stale = not follow_leaders(self.runtime, topic, self._replicas, now)
            for partition in sorted(self._deleted.keys() - set(self.runtime.partitions)):
                del self._deleted[partition]  # another broker coordinates these groups now
        self.runtime.poll(now)
        if self._deleted:
            self._forget_deleted(now)
        return self.runtime.deadline(now)

    def look_at(self, name: str) -> None:
        """Compute and remember what a group that subscribes to this topic needs to know of it."""
        topic = self._topics.named(name)
        if topic is not None:
            topic_hash(topic)

    def _config_of(self, group_id: str) -> ConsumerGroupConfig:
        """The settings of a consumer group: the broker's, under those that the group has of its own."""
        own = self._topics.image.config_of(ResourceType.GROUP, group_id)
        return consumer_group_config(self.config, own) if own else self._usual_config

    @property
    def has_consumer_groups(self) -> bool:
        """Whether the cluster's group.version allows KIP-848's groups."""
        return self._topics.image.features.get(GROUP_VERSION, 0) >= 1

    # --- requests -----------------------------------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        """The partition of the internal topic that holds this group; KafkaError if no record can hold its name."""
        if len(group_id.encode()) > _LONGEST_NAME:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, f"a group id has at most {_LONGEST_NAME} bytes")
        topic = self._topics.image.topic_named(GROUP_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"there is no {GROUP_TOPIC} yet")
        return partition_for(group_id, len(topic.partitions))

    def write(self, group_id: str, plan: Plan, now: int, writer: TransactionalWriter | None = None) -> Promise[Any]:
        """Plan with the shard that holds this group; a promise of the response, or of the error that refuses it. With a
        `writer` the records are part of its transaction."""
        try:
            partition = self.partition_of(group_id)
        except KafkaError as error:
            return Promise.of(error)
        return self.runtime.write(partition, plan, now, writer)

    def verify(self, group_id: str, transaction: Transaction, now: int) -> Promise[TransactionalWriter | KafkaError]:
        """Before the first record of a transaction its coordinator must confirm, or add, the group's partition. A
        promise of what `write` needs for records of this transaction, or of the error that refuses them."""
        try:
            place = TopicPartition(GROUP_TOPIC, self.partition_of(group_id))
        except KafkaError as error:
            return Promise.of(error)

        def on_verified(verified: Verified) -> TransactionalWriter | KafkaError:
            error = verified.errors.get(place)
            if error is not None:
                return seen_by_client(KafkaError(error))
            verification = verified.verifications.get(place)
            return TransactionalWriter(transaction.producer_id, transaction.producer_epoch, verification)

        return self._verification.verify(transaction, {place: NO_SEQUENCE}, retries=False).map(on_verified)

    def end_transaction(self, partition: int, end: TransactionEnd, timeout_ms: int, now: int) -> Promise[Any]:
        """Write a marker into a partition of the internal topic. A promise of None once it is committed, or of an error
        in the words of a partition's leader; REQUEST_TIMED_OUT after `timeout_ms`: it may be committed later."""

        def seen_by_coordinator(found: Any) -> Any:
            if isinstance(found, KafkaError) and found.code in _NOT_READY:
                return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, found.detail)
            return found

        return self.runtime.end_transaction(partition, end, timeout_ms, now).map(seen_by_coordinator)

    def read(self, group_id: str, look: Look, now: int) -> Promise[Any]:
        """What `look` finds in the committed state of the shard that holds this group."""
        try:
            partition = self.partition_of(group_id)
        except KafkaError as error:
            return Promise.of(error)
        return self.runtime.read(partition, look, now)


def group_topic(config: Config) -> CreateTopicsRequest.Topic:
    """The internal topic as it is created. It is compacted: the last record of each key is the state."""
    setting = CreateTopicsRequest.Topic.Config
    return CreateTopicsRequest.Topic(
        name=GROUP_TOPIC,
        num_partitions=config[keys.OFFSETS_TOPIC_NUM_PARTITIONS],
        replication_factor=config[keys.OFFSETS_TOPIC_REPLICATION_FACTOR],
        assignments=[],
        configs=[
            setting(name="cleanup.policy", value="compact"),
            setting(name="compression.type", value="producer"),
            setting(name="segment.bytes", value=str(config[keys.OFFSETS_TOPIC_SEGMENT_BYTES])),
        ],
    )
