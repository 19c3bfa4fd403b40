"""The transaction coordinator on this broker: its runtime, on the partitions of ``__transaction_state`` that are led
here, and the markers of the transactions that end.

When the metadata make this broker the leader of a partition, its shard is loaded, and what was decided before goes on.
When they make another one the leader, the shard is dropped and its markers are sent no more. Records count once all
in-sync replicas have them (acks=all).

``request.timeout.ms`` is how long a marker may go unanswered, and how long a response waits for its records to be
committed. (For the second Kafka takes the ``transaction.timeout.ms`` of the producer.)

The topic is created when a client first looks for a coordinator (`broker.requests.cluster.cluster`).

Follows kafka.server.BrokerServer and kafka.coordinator.transaction.TransactionCoordinator.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pykraft.broker.coordination.coordinators import InternalLog, follow_leaders
from pykraft.broker.coordination.producer_ids import ProducerIds
from pykraft.broker.coordination.transaction_markers import TransactionMarkers
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.settings.config import REQUEST_TIMEOUT_MS
from pykraft.common.core import Clock, Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.fault_handler import FaultHandler
from pykraft.common.rooms import Room
from pykraft.common.settings.config import Config
from pykraft.common.timer import Timer
from pykraft.common.trace import Tracer
from pykraft.controller.features import TRANSACTION_VERSION
from pykraft.coordinator.result import CoordinatorResult, CoordinatorTimer
from pykraft.coordinator.runtime import CoordinatorRuntime, partition_for
from pykraft.coordinator.shard_timer import RETRY_TIMER_MS
from pykraft.coordinator.transaction import config as keys
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.coordinator.transaction.shard import Ending, TransactionShard
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.admin import CreateTopicsRequest
from pykraft.protocol.messages.coordinators import TRANSACTION_RECORDS

_NO_SEQUENCE = -1
_LONGEST_NAME = (1 << 15) - 1
"""In bytes: the length of a string in a record has 16 bits, in a request it may have more."""
_LOST = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
"""Another life of the coordinator goes on with the transaction."""


class _PartitionMarkers(NamedTuple):
    """The markers of one shard. It is the shard's Markers."""

    coordinator: "TransactionCoordinator"
    partition: int

    def send(self, ending: Ending) -> None:
        self.coordinator.send_markers(self.partition, ending)

    def unmarked(self, transactional_id: str) -> Any:
        return self.coordinator.markers.unmarked(transactional_id)

    def stop(self) -> None:
        self.coordinator.markers.stop(self.partition)


class TransactionCoordinator:
    """The transactions that this broker coordinates."""

    def __init__(
        self,
        *,
        config: Config,
        listener: str,
        replicas: ReplicaManager,
        producer_ids: ProducerIds,
        timer: Timer,
        clock: Clock,
        trace: Tracer,
        faults: FaultHandler | None = None,
    ) -> None:
        """`listener` is the one on which brokers speak to each other."""
        self.config = config
        self._replicas = replicas
        self._producer_ids = producer_ids
        self._timer = timer
        self._clock = clock
        self._image = replicas.image
        self.room = Room("transactions")
        self._is_stale = False
        """Which partitions are led here may have changed."""
        timeout_ms = config[REQUEST_TIMEOUT_MS]
        self.markers = TransactionMarkers(
            image=lambda: self._image, listener=listener, request_timeout_ms=timeout_ms, trace=trace, room=self.room
        )
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            name=TRANSACTION_TOPIC,
            types=TRANSACTION_RECORDS,
            log=InternalLog(TRANSACTION_TOPIC, replicas, clock, _NO_SEQUENCE),
            make_shard=self.make_shard,
            timer=timer,
            trace=trace,
            commit_timeout_ms=timeout_ms,
            faults=faults,
            room=self.room,
        )
        replicas.watch(TRANSACTION_TOPIC, self._on_news)

    def make_shard(self, partition: int, timer: CoordinatorTimer) -> TransactionShard:
        """An empty shard."""
        return TransactionShard(
            timer=timer,
            config=self.config,
            markers=_PartitionMarkers(self, partition),
            transaction_version=lambda: self._image.features.get(TRANSACTION_VERSION, 0),
            take_producer_id=self._producer_ids.take,
            time_ms=self._clock.time_ms,
        )

    # --- the metadata and the clock -----------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage, now: int) -> None:
        """The cluster has changed; the replicas know it already."""
        self._image = image
        self._is_stale = True
        self.room.mark("metadata")
        if any(topic.name == TRANSACTION_TOPIC for topic in delta.removed_topics.values()):
            for partition in self.runtime.partitions:  # a topic of the same name has other transactions
                self.runtime.resign(partition)
        self.markers.on_new_image()

    def poll(self, now: int) -> Poll:
        """Take over and give up partitions, load, answer what is committed, send markers."""
        if self._is_stale:
            topic = self._image.topic_named(TRANSACTION_TOPIC)
            self._is_stale = not follow_leaders(self.runtime, topic, self._replicas, now)
        self.runtime.poll(now)
        poll = self.markers.poll(now)  # what is marked is written, and may bring more
        return Poll(now, poll.requests) if self.runtime.has_work else poll

    def _on_news(self, partition: int) -> None:
        """Something has happened to a partition of the internal topic: its log may be made by now."""
        self.runtime.note_high_watermark(partition)
        if self._is_stale:
            self.room.mark("log made")

    def send_markers(self, partition: int, ending: Ending) -> None:
        """Have the markers of this decision written, and then have it written that the transaction is complete."""
        epoch = self.runtime.epoch(partition)
        self.markers.send(partition, epoch, ending, lambda done, now: self._complete(partition, done, now))

    def _complete(self, partition: int, ending: Ending, now: int) -> None:
        def retry(outcome: Any) -> None:
            if isinstance(outcome, KafkaError) and outcome.code not in _LOST:
                self._timer.at(now + RETRY_TIMER_MS, lambda then: self._complete(partition, ending, then))

        self.runtime.write(partition, lambda shard: shard.complete(ending), now).then(retry)

    # --- requests -----------------------------------------------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> int:
        """The partition of the internal topic that holds this id; KafkaError if no record can hold it."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
        if len(transactional_id.encode()) > _LONGEST_NAME:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"a transactional id has at most {_LONGEST_NAME} bytes")
        topic = self._image.topic_named(TRANSACTION_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"there is no {TRANSACTION_TOPIC} yet")
        return partition_for(transactional_id, len(topic.partitions))

    def write(
        self, transactional_id: str, plan: Callable[[TransactionShard], CoordinatorResult[Any]], now: int
    ) -> Promise[Any]:
        """Plan with the shard that holds this id; a promise of the response, or of the error that refuses it."""
        try:
            partition = self.partition_of(transactional_id)
        except KafkaError as error:
            return Promise.of(error)
        return self.runtime.write(partition, plan, now)

    def read(self, transactional_id: str, look: Callable[[TransactionShard], Any], now: int) -> Promise[Any]:
        """What `look` returns, once what it has seen is committed."""
        return self.write(transactional_id, lambda shard: CoordinatorResult(look(shard)), now)


def transaction_topic(config: Config) -> CreateTopicsRequest.Topic:
    """The internal topic as it is created. It is compacted: the last record of each id is its state."""
    setting = CreateTopicsRequest.Topic.Config
    return CreateTopicsRequest.Topic(
        name=TRANSACTION_TOPIC,
        num_partitions=config[keys.TRANSACTION_LOG_NUM_PARTITIONS],
        replication_factor=config[keys.TRANSACTION_LOG_REPLICATION_FACTOR],
        assignments=[],
        configs=[
            setting(name="unclean.leader.election.enable", value="false"),
            setting(name="compression.type", value="uncompressed"),
            setting(name="cleanup.policy", value="compact"),
            setting(name="min.insync.replicas", value=str(config[keys.TRANSACTION_LOG_MIN_ISR])),
            setting(name="segment.bytes", value=str(config[keys.TRANSACTION_LOG_SEGMENT_BYTES])),
        ],
    )
