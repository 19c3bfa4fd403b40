"""All replicas on this broker, and what reads and writes them.

The metadata log says which partitions this broker holds and who leads each; `apply` makes it so: logs are made and
deleted, leaders begin to lead, followers begin to fetch. Producers append here (acks=all waits in a purgatory), and
consumers and followers read here (a fetch without enough data waits in another).

Some things are done from time to time: ISRs are looked through for followers that lag, high watermarks are written
down, silent producers are forgotten, and the logs are shortened and compacted.

Follows kafka.server.ReplicaManager.
"""

from collections.abc import Callable
from typing import NamedTuple

from pykraft.common.core import FOREVER, Clock, Poll, merge
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.metrics import Metrics
from pykraft.common.timer import Timer
from pykraft.common.topic_config import FOREVER_MS
from pykraft.common.trace import Tracer
from pykraft.common.types import Node, TopicIdPartition, TopicPartition, Uuid
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, TOPIC_RESOURCE, MetadataImage
from pykraft.records.batch import RecordBatch
from pykraft.server import config as keys
from pykraft.server.alter_partition import AlterPartitionManager
from pykraft.server.config import NodeConfig
from pykraft.server.controller_channel import ControllerChannel
from pykraft.server.partition import IsrProposal, Partition
from pykraft.server.purgatory import Purgatory
from pykraft.server.replica_fetcher import ReplicaFetcher
from pykraft.storage.log import AppendInfo
from pykraft.storage.log_manager import LogManager

_LOOK_FOR_DELETED_MS = 1000


class LeaderHint(NamedTuple):
    """Who leads a partition that this broker does not: sent along with the refusal (KIP-951)."""

    leader_id: int
    leader_epoch: int


class ReplicaManager:
    """The partitions of this broker, by name."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        logs: LogManager,
        timer: Timer,
        clock: Clock,
        metrics: Metrics,
        trace: Tracer,
        broker_epoch: Callable[[], int],
        isr_changes: ControllerChannel,
    ) -> None:
        """`isr_changes` is the way to the controller for changes of ISRs."""
        self._config = config
        self._values = config.values
        self.broker_id = config.node_id
        self._logs = logs
        self._timer = timer
        self._clock = clock
        self._trace = trace
        self._broker_epoch = broker_epoch
        self._alter_partition = AlterPartitionManager(self.broker_id, broker_epoch, isr_changes, self._wake)
        self.partitions: dict[TopicPartition, Partition] = {}
        self.image: MetadataImage = EMPTY_IMAGE
        self.produces = Purgatory(timer)
        self.fetches = Purgatory(timer)
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._isr_shrinks = metrics.meter("ReplicaManager", "IsrShrinksPerSec")
        self._isr_expands = metrics.meter("ReplicaManager", "IsrExpandsPerSec")
        metrics.gauge("ReplicaManager", "PartitionCount", lambda: len(self.partitions))
        metrics.gauge("ReplicaManager", "LeaderCount", lambda: len(self._led()))
        metrics.gauge("ReplicaManager", "UnderReplicatedPartitions", self._under_replicated)

    def start(self, now: int) -> None:
        """Begin what is done from time to time."""
        self._every(max(1, self._values[keys.REPLICA_LAG_TIME_MAX_MS] // 2), self._shrink_isrs, now)
        checkpoint_ms = self._values[keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS]
        self._every(checkpoint_ms, lambda _: self._logs.write_checkpoints(), now)
        self._every(600_000, lambda _: self._forget_producers(), now)
        self._care_for_logs(now)

    def _care_for_logs(self, now: int) -> None:
        """Retention, compaction, and the removal of what was deleted."""
        logs, values = self._logs, self._values
        self._every(values[keys.LOG_RETENTION_CHECK_INTERVAL_MS], lambda _: logs.delete_old_segments(), now)
        self._every(_LOOK_FOR_DELETED_MS, lambda _: logs.empty_trash(), now)
        flush_ms = values[keys.LOG_FLUSH_SCHEDULER_INTERVAL_MS]
        if flush_ms < FOREVER_MS:
            self._every(max(1, flush_ms), lambda _: logs.flush_old(), now)
        if values[keys.LOG_CLEANER_ENABLE]:
            self._every(max(1, values[keys.LOG_CLEANER_BACKOFF_MS]), lambda _: logs.clean(), now)

    def _every(self, interval_ms: int, task: Callable[[int], None], now: int) -> None:
        def run(then: int) -> None:
            task(then)
            self._timer.at(then + interval_ms, run)

        self._timer.at(now + interval_ms, run)

    # --- finding ------------------------------------------------------------------------------------------------------

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """The replica here; KafkaError if there is none."""
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            return partition
        topic = self.image.topic_named(topic_partition.topic)
        if topic is not None and topic_partition.partition in topic.partitions:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker holds no replica of {topic_partition}")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic_partition}")

    def leader_hint(self, topic_partition: TopicPartition) -> LeaderHint | None:
        """Who leads it, as far as is known here."""
        topic = self.image.topic_named(topic_partition.topic)
        known = topic.partitions.get(topic_partition.partition) if topic is not None else None
        return LeaderHint(known.leader, known.leader_epoch) if known is not None and known.has_leader else None

    def _led(self) -> list[Partition]:
        return [partition for partition in self.partitions.values() if partition.is_leader]

    def _under_replicated(self) -> int:
        return sum(len(partition.isr_state.isr) <= len(partition.followers) for partition in self._led())

    # --- metadata -----------------------------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage, now: int) -> None:
        """The cluster has changed."""
        self.image = image
        for topic_id in sorted(delta.removed_topics):
            for number in delta.removed_topics[topic_id].partitions:
                self._stop(TopicPartition(delta.removed_topics[topic_id].name, number), delete=True)
        for topic_id in sorted(delta.touched_topics):
            if topic_id in image.topics:
                self._apply_topic(topic_id, image, now)
        for resource in sorted(delta.touched_configs):
            if resource.kind == TOPIC_RESOURCE:
                self._apply_config(resource.name)
        if delta.touched_brokers:
            for partition in self.partitions.values():
                partition.set_image(image)
            for fetcher in self._fetchers.values():
                fetcher.set_node(self._node(fetcher.leader_id))

    def delete_strays(self) -> None:
        """Delete the logs of partitions that are not this broker's any more: deleted or moved while it was away."""
        for topic_partition in sorted(set(self._logs.logs) - set(self.partitions)):
            self._logs.delete(topic_partition)

    def _apply_topic(self, topic_id: Uuid, image: MetadataImage, now: int) -> None:
        topic = image.topics[topic_id]
        for number, registration in sorted(topic.partitions.items()):
            topic_partition = TopicPartition(topic.name, number)
            if self.broker_id not in registration.replicas:
                self._stop(topic_partition, delete=True)
                continue
            partition = self.partitions.get(topic_partition)
            if partition is not None and partition.key.topic_id != topic_id:
                self._stop(topic_partition, delete=True)
                partition = None
            if partition is None:
                partition = self._make(TopicIdPartition(topic_id, topic.name, number))
            if partition.update(registration, image, now):
                self._on_leadership(partition, now)
            else:
                self._wake(partition)  # a smaller ISR may have let the high watermark rise

    def _make(self, key: TopicIdPartition) -> Partition:
        log = self._logs.get_or_create(key.topic_partition, key.topic_id)
        max_lag_ms = self._values[keys.REPLICA_LAG_TIME_MAX_MS]
        partition = Partition(self.broker_id, key, log, max_lag_ms, self._trace)
        self.partitions[key.topic_partition] = partition
        return partition

    def _stop(self, topic_partition: TopicPartition, delete: bool) -> None:
        partition = self.partitions.pop(topic_partition, None)
        if partition is not None:
            self._stop_fetching(partition)
            partition.leader_id = -1
            self._wake(partition)
        if delete and topic_partition in self._logs.logs:
            self._logs.delete(topic_partition)

    def _apply_config(self, topic: str) -> None:
        config = self._config.topic_config(self.image.config_of(TOPIC_RESOURCE, topic))
        for topic_partition, log in self._logs.logs.items():
            if topic_partition.topic == topic:
                log.config = config

    def _on_leadership(self, partition: Partition, now: int) -> None:
        """Leader or epoch changed: fetch from the new leader, or from nobody; whoever waits here learns of it."""
        self._stop_fetching(partition)
        if not partition.is_leader and partition.leader_id >= 0:
            fetcher = self._fetchers.get(partition.leader_id)
            if fetcher is None:
                fetcher = self._fetchers[partition.leader_id] = self._fetcher(partition.leader_id)
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
            on_append=self._wake,
        )

    def _stop_fetching(self, partition: Partition) -> None:
        for leader_id in sorted(self._fetchers):
            self._fetchers[leader_id].remove(partition)
            if self._fetchers[leader_id].is_idle:
                del self._fetchers[leader_id]

    def _node(self, broker_id: int) -> Node | None:
        """Where this broker's replicas are fetched from."""
        broker = self.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._config.inter_broker_listener)
        return None if endpoint is None else Node(broker_id, endpoint.host, endpoint.port)

    # --- writing ------------------------------------------------------------------------------------------------------

    def append(self, topic_partition: TopicPartition, batch: RecordBatch, needs_all: bool, now: int) -> AppendInfo:
        """Append a producer's batch here, where its partition is led."""
        partition = self.partition(topic_partition)
        info = partition.append_as_leader(batch, needs_all, now)
        self._trace("append", partition=str(topic_partition), end=partition.log.log_end_offset)
        self._wake(partition)
        return info

    def _wake(self, partition: Partition) -> None:
        """Something happened to the partition: whoever waits for it is tried again."""
        self.produces.check(partition.key.topic_partition)
        self.fetches.check(partition.key.topic_partition)

    # --- replication, as the leader -----------------------------------------------------------------------------------

    def record_fetch(self, partition: Partition, replica: int, offset: int, broker_epoch: int, now: int) -> None:
        """A follower has everything before `offset`."""
        rose = partition.record_fetch(replica, offset, broker_epoch, now)
        self._propose(partition.propose_expansion(replica), now)
        if rose:
            self._wake(partition)

    def _shrink_isrs(self, now: int) -> None:
        for _, partition in sorted(self.partitions.items()):
            self._propose(partition.propose_shrinking(now), now)

    def _propose(self, proposal: IsrProposal | None, now: int) -> None:
        if proposal is not None:
            grows = len(proposal.isr) > len(proposal.partition.isr_state.isr)
            (self._isr_expands if grows else self._isr_shrinks).mark()
            self._alter_partition.submit(proposal, now)

    # --- one step -----------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        """Fetch what this broker follows."""
        if not self._fetchers:
            return Poll(FOREVER)
        return merge([self._fetchers[leader_id].poll(now) for leader_id in sorted(self._fetchers)])

    def _forget_producers(self) -> None:
        now_ms = self._clock.time_ms()
        for partition in self.partitions.values():
            partition.log.producer_state.remove_expired(now_ms)
